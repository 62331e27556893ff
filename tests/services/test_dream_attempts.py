"""Attempts at a dream: which are made again, and what ends it."""

import pytest
from desk import experience
from dreaming import FIELDS, nothing, plan, source, spent
from model_stub import says, status, text

from pc_store.ledger.schema import dream_runs
from pc_store.services import run_dreams
from pc_store.services.clock import now_us

# the model fails


@pytest.mark.parametrize(
    "fault", [status(500), status(503), status(429), status(408), text("", delay_s=5)]
)
def test_a_fault_that_may_pass_is_tried_once_more(sleeper, fault):
    impatient = sleeper.having(llm_timeout_s=0.4)
    cited = sleeper.remembered()
    impatient.stub.answer(fault)
    impatient.says(cited)
    run = impatient.dreamt(cited)
    assert (run.status, run.attempts, run.outcome, run.error) == ("queued", 1, None, None)
    assert run.message
    impatient.work()
    ended = impatient.get(run)
    assert (ended.status, ended.attempts, ended.outcome) == ("succeeded", 2, "proposed")
    assert ended.started_at == run.started_at
    assert ended.usage.model_calls == 2
    assert len(impatient.asked()) == 2


def test_two_faults_end_it(sleeper):
    cited = sleeper.remembered()
    sleeper.stub.answer(status(503), status(500), says(plan(cited)))
    run = sleeper.queued(cited)
    assert sleeper.pending() == [sleeper.get(run)]
    ended = sleeper.get(run)
    assert (ended.status, ended.error, ended.attempts) == ("failed", "generation_failed", 2)
    assert "500" in ended.message
    assert len(sleeper.asked()) == 2
    assert sleeper.candidates() == []


@pytest.mark.parametrize("number", [400, 401, 404, 422])
def test_a_refusal_ends_it_at_once(sleeper, number):
    cited = sleeper.remembered()
    sleeper.stub.answer(status(number))
    run = sleeper.dreamt(cited)
    assert (run.status, run.error, run.attempts) == ("failed", "generation_failed", 1)
    assert len(sleeper.asked()) == 1


def test_a_second_attempt_waits_a_little(sleeper):
    patient = sleeper.having(retry_base_s=30.0)
    cited = sleeper.remembered()
    patient.stub.answer(status(503))
    run = patient.dreamt(cited)
    wait_s = (run.next_attempt_at - now_us()) / 1_000_000
    assert run_dreams.PAUSE_S - 2 < wait_s <= run_dreams.PAUSE_S
    assert patient.claim() is None


BAD = [
    text("no"),
    says({"outcome": "proposed"}),
    says(plan("e_unknown")),
    says(nothing() | {"reason": " "}),
    says(nothing() | {"reason": "x" * 2_001}),
    says(nothing() | {"intent": "create"}),
    says(nothing() | {"proposal": FIELDS}),
    says(nothing() | {"evidence_ids": ["e1"]}),
    says(nothing() | {"surplus": 1}),
    says(nothing("perhaps")),
]


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_a_bad_answer_is_told_once_and_then_ends_it(sleeper, bad):
    cited = sleeper.remembered()
    sleeper.stub.answer(bad, bad)
    run = sleeper.dreamt(cited)
    assert (run.status, run.next_attempt_at <= now_us()) == ("queued", True)
    assert run.feedback
    sleeper.work()
    ended = sleeper.get(run)
    assert (ended.status, ended.error, ended.attempts) == (
        "failed",
        "invalid_generation_output",
        2,
    )
    first, second = sleeper.asked()
    assert "refused_before" not in first
    assert second["refused_before"] == run.feedback
    assert ended.feedback is None


@pytest.mark.parametrize(
    ("has_target", "intent"),
    [(False, "refine"), (False, None), (False, "derive"), (True, "create"), (True, None)],
)
def test_the_intent_fits_the_target(sleeper, has_target, intent):
    cited = sleeper.remembered()
    target = sleeper.desk.approved(experience(lesson="Another.")) if has_target else None
    sleeper.says(cited, intent=intent)
    sleeper.says(cited, intent=intent)
    refs = [cited, target] if target else [cited]
    run = sleeper.queued(*refs, target=target)
    sleeper.pending()
    assert sleeper.get(run).error == "invalid_generation_output"


def test_ids_of_what_was_not_shown_cannot_be_used(sleeper):
    sleeper.rig.put("What happened.")
    cited = sleeper.by_hand()
    learnt = sleeper.desk.approved(sources=[source("s1")])
    sleeper.says(cited, learnt)
    sleeper.says(cited, learnt)
    run = sleeper.queued(cited)
    sleeper.pending()
    assert sleeper.get(run).error == "invalid_generation_output"


@pytest.mark.parametrize("right", [True, False])
def test_an_answer_over_the_budget_is_thrown_away(sleeper, right):
    cited = sleeper.remembered()
    usage = {"prompt_tokens": 9, "completion_tokens": 5_000, "total_tokens": 5_009}
    sleeper.stub.answer(says(plan(cited) if right else {}, usage=usage))
    run = sleeper.dreamt(cited)
    assert (run.status, run.error) == ("failed", "budget_exceeded")
    assert spent(run) == {"model_calls": 1, "input_tokens": 9, "output_tokens": 5_000}
    assert sleeper.stub.requests()[-1]["body"]["max_tokens"] == 4_096


def test_tokens_that_nobody_counted_are_unknown(sleeper):
    cited = sleeper.remembered()
    sleeper.stub.answer(says(nothing(), usage=None))
    assert spent(sleeper.dreamt(cited)) == {
        "model_calls": 1,
        "input_tokens": None,
        "output_tokens": None,
    }


def test_rules_are_no_request_to_a_model(sleeper):
    cited = sleeper.remembered()
    run = sleeper.having(llm_provider="builtin").dreamt(cited)
    assert (run.model, run.attempts) == ("builtin:dream-1", 1)
    assert spent(run) == {"model_calls": 0, "input_tokens": None, "output_tokens": None}


def test_the_deadline_counts_from_the_first_attempt_and_not_from_submission(sleeper):
    short = sleeper.having(dream_timeout_s=60, llm_timeout_s=0.5, dream_max_model_calls=2)
    cited = sleeper.remembered()
    run = short.queued(cited)
    with short.db.write() as conn:
        conn.execute(dream_runs.update().values(accepted_at=run.accepted_at - 3_600 * 1_000_000))
    short.stub.answer(text("", delay_s=3))
    short.work()
    waiting = short.get(run)
    assert (waiting.status, waiting.attempts) == ("queued", 1)
    with short.db.write() as conn:
        conn.execute(dream_runs.update().values(started_at=now_us() - 61_000_000))
    assert short.claim().error == "budget_exceeded"
    ended = short.get(run)
    assert (ended.status, ended.error, ended.attempts) == ("failed", "budget_exceeded", 1)
    assert len(short.asked()) == 1


def test_a_lower_budget_allows_one_attempt(sleeper):
    once = sleeper.having(dream_max_model_calls=1)
    cited = sleeper.remembered()
    once.stub.answer(status(503))
    run = once.dreamt(cited)
    assert (run.status, run.error, run.attempts) == ("failed", "generation_failed", 1)
