"""Dreams whose target, evidence, model or settings changed since they were accepted."""

import json

import pytest
import sqlalchemy as sa
from dreaming import SCOPE, plan, source
from model_stub import hold, says, status
from pydantic import SecretStr

from pc_store.ledger.schema import dream_runs
from pc_store.services import experiences
from pc_store.services.clock import now_us

# the world moves while a dream waits or runs


def test_a_target_that_moved_before_the_model_is_asked_ends_it(sleeper):
    cited = sleeper.remembered()
    target = sleeper.desk.approved()
    run = sleeper.queued(cited, target, target=target)
    sleeper.desk.approve(sleeper.desk.update(target, sources=[source("s1")]))
    sleeper.work()
    ended = sleeper.get(run)
    assert (ended.status, ended.error, ended.usage) == ("failed", "artifact_conflict", None)
    assert sleeper.asked() == []


def test_a_target_that_moves_while_the_model_works_ends_it(sleeper):
    cited = sleeper.remembered()
    target = sleeper.desk.approved()
    run = sleeper.queued(cited, target, target=target)
    sleeper.stub.answer(hold(says(plan(cited, intent="refine"))))
    update = sleeper.desk.update(target, sources=[source("s1")])
    sleeper.meanwhile(lambda: sleeper.desk.approve(update))
    ended = sleeper.get(run)
    assert (ended.status, ended.error) == ("failed", "artifact_conflict")
    assert sleeper.candidates() == []


def test_a_withdrawn_target_ends_it(sleeper):
    cited = sleeper.remembered()
    target = sleeper.desk.approved()
    run = sleeper.queued(cited, target, target=target)
    experiences.set_lifecycle(
        sleeper.db, SCOPE, target, state="retired", reason="wrong", now_us=now_us()
    )
    sleeper.work()
    assert sleeper.get(run).error == "artifact_conflict"


@pytest.mark.parametrize("when", ["before", "during"])
def test_an_entry_retired_after_submission_fails_it_and_shrinks_nothing(sleeper, when):
    one, two = sleeper.remembered("Amounts were floats."), sleeper.remembered("Cents were lost.")
    run = sleeper.queued(one, two)
    if when == "before":
        sleeper.rig.retire("Cents were lost.")
        sleeper.work()
    else:
        sleeper.stub.answer(hold(says(plan(one))))
        sleeper.meanwhile(lambda: sleeper.rig.retire("Cents were lost."))
    ended = sleeper.get(run)
    assert (ended.status, ended.error) == ("failed", "memory_entry_inactive")
    assert sleeper.candidates() == []


def test_a_source_that_became_the_stores_own_ends_it(sleeper):
    cited = sleeper.by_hand()
    sleeper.rig.put("A log.")
    run = sleeper.queued(cited, source("s1"))
    with sleeper.db.write() as conn:
        conn.exec_driver_sql("UPDATE sources SET internal = true")
    sleeper.work()
    assert sleeper.get(run).error == "source_not_eligible"


def test_evidence_that_is_gone_is_unavailable_at_run_time(sleeper):
    cited = sleeper.by_hand()
    sleeper.rig.put("A log.")
    run = sleeper.queued(cited, source("s1"))
    with sleeper.db.write() as conn:
        conn.exec_driver_sql("DELETE FROM sources")
    sleeper.work()
    assert sleeper.get(run).error == "evidence_unavailable"


def test_the_second_attempt_has_to_find_what_the_first_one_found(sleeper):
    cited = sleeper.remembered()
    sleeper.stub.answer(status(503))
    run = sleeper.dreamt(cited)
    assert run.status == "queued"
    with sleeper.db.write() as conn:
        conn.exec_driver_sql("UPDATE sources SET content = 'Something else.'")
    sleeper.work()
    ended = sleeper.get(run)
    assert (ended.status, ended.error) == ("failed", "evidence_unavailable")


def test_historical_marks_are_those_of_the_first_attempt(sleeper):
    cited = sleeper.remembered()
    sleeper.stub.answer(status(503))
    run = sleeper.dreamt(cited)
    sleeper.rig.revise(sleeper.rig.cited("Amounts are decimals."), "Amounts are cents.")
    sleeper.says(cited)
    sleeper.work()
    ended = sleeper.get(run)
    assert (ended.outcome, ended.manifest) == ("proposed", run.manifest)
    first, second = (shown["evidence"] for shown in sleeper.asked())
    assert first == second


# who asked


def _token(name, *verbs, scopes=("*",)):
    hashed = f"{len(name):064x}"
    return {"name": name, "token_sha256": hashed, "scopes": list(scopes), "verbs": list(verbs)}


CONTRIBUTES = _token("agent", "read", "contribute")


@pytest.mark.parametrize("when", ["before", "during"])
@pytest.mark.parametrize(
    "now",
    [
        [_token("somebody", "admin")],
        [_token("agent", "read", "review")],
        [_token("agent", "contribute", scopes=["elsewhere"])],
    ],
)
def test_who_may_not_contribute_any_more_gets_no_proposal(sleeper, tmp_path, when, now):
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps([CONTRIBUTES]))
    guarded = sleeper.having(api_tokens=SecretStr(str(tokens)))
    cited = guarded.remembered()
    run = guarded.queued(cited, principal="agent")
    if when == "before":
        tokens.write_text(json.dumps(now))
        guarded.work()
    else:
        guarded.stub.answer(hold(says(plan(cited))))
        guarded.meanwhile(lambda: tokens.write_text(json.dumps(now)))
    ended = guarded.get(run)
    assert (ended.status, ended.error) == ("failed", "access_revoked")
    assert ended.message == "the token 'agent' does not allow contribute in this scope now"
    assert (ended.usage is None) == (when == "before")
    assert guarded.candidates() == []


def test_who_still_may_and_who_needed_no_token_are_served(sleeper):
    tokens = SecretStr(json.dumps([_token("agent", "contribute", scopes=[SCOPE])]))
    guarded = sleeper.having(api_tokens=tokens)
    cited = guarded.remembered()
    for principal in ("agent", ""):
        guarded.says(cited, reason=f"For {principal}.")
        run = guarded.dreamt(cited, principal=principal)
        assert run.status == "succeeded"


def test_tokens_that_cannot_be_read_end_it(sleeper, tmp_path):
    run = sleeper.queued(sleeper.by_hand(), principal="agent")
    sleeper.having(api_tokens=SecretStr(str(tmp_path / "nowhere"))).work()
    ended = sleeper.get(run)
    assert (ended.error, ended.message) == (
        "access_unavailable",
        "PC_API_TOKENS: is neither a JSON list nor a readable file",
    )


# configuration


def test_a_dream_is_pinned_to_the_model_it_began_with(sleeper):
    cited = sleeper.remembered()
    sleeper.stub.answer(status(503))
    run = sleeper.dreamt(cited)
    assert run.model == "openai:stub-1"
    other = sleeper.having(llm_model="stub-2")
    assert other.claim().status == "failed"
    ended = other.get(run)
    assert (ended.error, ended.attempts) == ("capability_unavailable", 1)
    assert ended.message == "it was begun with openai:stub-1, and there is openai:stub-2 now"


def test_a_dream_is_pinned_to_the_prompt_it_was_accepted_with(sleeper):
    run = sleeper.queued(sleeper.remembered())
    with sleeper.db.write() as conn:
        conn.execute(sa.update(dream_runs).values(prompt_version="pc.dream.v0"))
    sleeper.work()
    ended = sleeper.get(run)
    assert (ended.error, ended.message) == (
        "capability_unavailable",
        "it was begun with pc.dream.v0, and there is pc.dream.v1 now",
    )


def test_without_a_model_a_waiting_dream_fails(sleeper):
    run = sleeper.queued(sleeper.by_hand())
    lost = sleeper.having(llm_model=None)
    assert lost.pending() == [lost.get(run)]
    assert (lost.get(run).error, lost.get(run).attempts) == ("capability_unavailable", 0)


def test_switched_off_dreams_wait(sleeper):
    run = sleeper.queued(sleeper.remembered())
    assert sleeper.having(dream_enabled=False).pending() == []
    assert sleeper.get(run) == run
