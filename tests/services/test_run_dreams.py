"""Working on dreams: what is shown, what may come of it, and that it comes of it once."""

import json
import threading
from dataclasses import replace

import pytest
import sqlalchemy as sa
from desk import CUE, FAILURE, experience, failing, put_outcome, rows
from dreaming import FIELDS, SCOPE, Sleeper, id_of, nothing, plan, source, spent
from model_stub import hold, says, status, text

from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.experience import parse
from pc_store.domain.failure import cue_key
from pc_store.ledger import dreams
from pc_store.ledger.schema import dream_runs
from pc_store.services import administer, dream, experiences, remember, run_dreams
from pc_store.services.clock import now_us
from pc_store.services.dream_worker import in_background


@pytest.fixture
def sleeper(rig):
    return Sleeper(rig)


# outcomes


def test_a_proposal_becomes_a_pending_candidate_that_cites_its_path_and_its_roots(sleeper):
    one, two = sleeper.remembered("Amounts were floats."), sleeper.remembered("Cents were lost.")
    sleeper.says(one, two, reason=" It is told twice. ")
    run = sleeper.dreamt(one, two, principal="ann")
    (made,) = sleeper.candidates()
    assert (made.candidate_id, made.version) == (f"cand_dream_{run.run_id}", 1)
    assert (made.status, made.origin, made.intent, made.author) == (
        "pending",
        "dream",
        "create",
        "ann",
    )
    assert (made.proposal, made.target) == (experience(), None)
    assert made.reason == "It is told twice."
    assert set(made.evidence.citations) == {one, two}
    assert set(made.evidence.sources) == {source("s1"), source("s2")}
    assert made.evidence.artifacts == ()
    assert (run.status, run.outcome, run.error) == ("succeeded", "proposed", None)
    assert (run.candidate_id, run.intent) == (made.candidate_id, "create")
    assert run.reason == made.reason
    assert run.attempts == 1
    assert spent(run) == {"model_calls": 1, "input_tokens": 100, "output_tokens": 20}
    assert run.model == "openai:stub-1"
    assert run.accepted_at <= run.started_at <= run.completed_at
    assert dream.candidates_of(sleeper.db, [run]) == {run.run_id: made}


@pytest.mark.parametrize("outcome", ["no_change", "needs_evidence"])
def test_without_a_proposal_the_reason_is_kept(sleeper, outcome):
    cited = sleeper.remembered()
    sleeper.stub.answer(says(nothing(outcome, "Nothing was tried.")))
    run = sleeper.dreamt(cited)
    assert (run.status, run.outcome, run.reason) == ("succeeded", outcome, "Nothing was tried.")
    assert (run.candidate_id, sleeper.candidates()) == (None, [])


@pytest.mark.parametrize("intent", ["corroborate", "refine", "correct"])
def test_a_target_is_replaced_and_cited_even_if_it_is_not_used(sleeper, intent):
    cited = sleeper.remembered()
    target = sleeper.desk.approved(experience(lesson="Too wide."))
    sleeper.says(cited, intent=intent)
    run = sleeper.dreamt(cited, target, target=target)
    (made,) = sleeper.candidates()
    assert (made.target, made.intent) == (target, intent)
    assert made.evidence == EvidenceRefs((source("s1"),), (target,), (cited,))
    assert run.outcome == "proposed"


def test_what_was_selected_and_is_not_used_is_not_cited(sleeper):
    used, unused = sleeper.remembered("Amounts were floats."), sleeper.remembered("Tea is hot.")
    other = sleeper.desk.approved(sources=[source("s2")])
    sleeper.says(used)
    sleeper.dreamt(used, unused, other, source("s2"))
    (made,) = sleeper.candidates()
    assert made.evidence == EvidenceRefs((source("s1"),), (), (used,))


def test_citing_a_root_keeps_the_selected_path_to_it(sleeper):
    cited = sleeper.remembered()
    learnt = sleeper.desk.approved(sources=[source("s1")])
    sleeper.says(source("s1"))
    sleeper.dreamt(cited, learnt)
    (made,) = sleeper.candidates()
    assert made.evidence == EvidenceRefs((source("s1"),), (learnt,), (cited,))


# memory without a source


def test_memory_that_no_source_supports_needs_evidence(sleeper):
    cited = sleeper.by_hand()
    sleeper.says(cited)
    run = sleeper.dreamt(cited)
    assert (run.status, run.outcome, run.reason) == (
        "succeeded",
        "needs_evidence",
        run_dreams.UNSUPPORTED,
    )
    assert sleeper.candidates() == []


def test_a_source_that_supports_nothing_that_is_used_does_not_help(sleeper):
    sleeper.rig.put("Something else altogether.")
    cited = sleeper.by_hand()
    sleeper.says(cited)
    assert sleeper.dreamt(cited, source("s1")).outcome == "needs_evidence"
    other = sleeper.remembered("Unrelated.")
    sleeper.says(cited, reason="Again.")
    assert sleeper.dreamt(cited, other).outcome == "needs_evidence"


def test_a_selected_source_that_is_used_supports_memory_written_by_hand(sleeper):
    sleeper.rig.put("The import ran with decimals.")
    cited = sleeper.by_hand()
    sleeper.says(cited, source("s1"))
    assert sleeper.dreamt(cited, source("s1")).outcome == "proposed"
    (made,) = sleeper.candidates()
    assert made.evidence == EvidenceRefs((source("s1"),), (), (cited,))


def test_experience_alone_needs_no_source(sleeper):
    sleeper.rig.put("What happened.")
    first = sleeper.desk.approved()
    lone = sleeper.desk.approved(sources=[], artifacts=[first])
    with sleeper.db.write() as conn:  # a store's own record is no root
        conn.exec_driver_sql("UPDATE sources SET internal = true")
    sleeper.says(lone)
    assert sleeper.dreamt(lone).outcome == "proposed"
    (made,) = sleeper.candidates()
    assert made.evidence == EvidenceRefs((), (lone,), ())


# what is shown


def test_the_model_is_shown_every_text_and_the_roots_they_share(sleeper):
    one, two = sleeper.remembered("Amounts were floats."), sleeper.remembered("Cents were lost.")
    target = sleeper.desk.approved(sources=[source("s1")], citations=[one])
    sleeper.stub.answer(says(nothing()))
    run = sleeper.dreamt(one, two, target, target=target)
    (shown,) = sleeper.asked()
    assert shown["operation"] == "refine_experience"
    assert shown["target_evidence_id"] == id_of(target)
    pieces = {piece["evidence_id"]: piece for piece in shown["evidence"]["evidence"]}
    first, second = (group["group_id"] for group in shown["evidence"]["root_groups"])
    assert {
        name: (piece["kind"], piece["historical"], piece["root_group_ids"])
        for name, piece in pieces.items()
    } == {
        id_of(target): ("experience", False, [first]),
        id_of(one): ("memory", False, [first]),
        id_of(two): ("memory", False, [second]),
        id_of(source("s1")): ("source", False, [first]),
        id_of(source("s2")): ("source", False, [second]),
    }
    assert pieces[id_of(source("s1"))]["text"] == "Amounts were floats."
    assert pieces[id_of(two)]["text"] == '{"kind":"fact","text":"Cents were lost."}'
    assert parse(json.loads(pieces[id_of(target)]["text"])) == experience()
    assert shown["evidence"]["incomplete"] is False
    manifest = run.manifest
    assert [node["evidence_id"] for node in manifest["nodes"]] == list(pieces)
    assert "floats" not in str(manifest)
    assert manifest["projection_bytes"] < 65_536


def test_what_is_no_longer_current_is_marked(sleeper):
    cited = sleeper.remembered()
    old = sleeper.desk.approved()
    sleeper.desk.approve(sleeper.desk.update(old, sources=[source("s1")]))
    sleeper.rig.revise(sleeper.rig.cited("Amounts are decimals."), "Amounts are cents.")
    now = sleeper.rig.cited("Amounts are cents.").citation
    sleeper.stub.answer(says(nothing()))
    run = sleeper.dreamt(cited, now, old)
    marks = {
        node["evidence_id"]: (node["historical"], node["current_entry_version_id"])
        for node in run.manifest["nodes"]
    }
    assert marks[id_of(old)] == (True, None)
    assert marks[id_of(cited)] == (True, now.entry_version_id)
    assert marks[id_of(now)] == (False, now.entry_version_id)
    assert marks[id_of(source("s1"))] == (False, None)


def test_an_entry_version_cited_through_two_revisions_is_one_node_with_both(sleeper):
    cited = sleeper.remembered()
    later = sleeper.by_hand()
    again = replace(cited, memory=later.memory)
    sleeper.says(cited)
    run = sleeper.dreamt(cited, again)
    assert len([node for node in run.manifest["nodes"] if node["kind"] == "memory"]) == 1
    (made,) = sleeper.candidates()
    assert set(made.evidence.citations) == {cited, again}


# failures of the proposal


def test_a_failure_needs_an_outcome_that_shows_it(sleeper):
    sleeper.rig.put("a log")
    outcome = put_outcome(
        sleeper.db,
        "o1",
        failing(
            evidence=[{"kind": "source", "source_ref": {"name": "content", "source_id": "s1"}}]
        ),
    )
    learnt = sleeper.desk.approved(sources=[outcome])
    tracked = FIELDS | {"failure": FAILURE}
    sleeper.says(learnt, proposal=tracked)
    assert sleeper.dreamt(learnt).outcome == "proposed"
    (made,) = sleeper.candidates()
    assert made.cue_key == cue_key(CUE)
    assert made.evidence.sources == (outcome,)
    plain = sleeper.desk.approved(sources=[source("s1")])
    sleeper.says(plain, proposal=tracked)
    sleeper.says(plain, proposal=tracked)
    run = sleeper.queued(plain)
    sleeper.pending()
    assert (sleeper.get(run).status, sleeper.get(run).error) == (
        "failed",
        "invalid_generation_output",
    )


def test_a_credential_is_not_proposed(sleeper):
    cited = sleeper.remembered()
    sleeper.says(cited, proposal=FIELDS | {"lesson": "Use AKIAIOSFODNN7EXAMPLE."})
    run = sleeper.dreamt(cited)
    assert (run.status, run.error) == ("failed", "invalid_generation_output")
    assert "AKIA" not in f"{run.message}"


@pytest.mark.parametrize("outcome", ["proposed", "no_change", "needs_evidence"])
def test_a_reason_that_holds_a_credential_is_not_kept(sleeper, outcome):
    cited = sleeper.remembered()
    told = plan(cited) if outcome == "proposed" else nothing(outcome)
    sleeper.stub.answer(says(told | {"reason": "The key AKIAIOSFODNN7EXAMPLE is told."}))
    run = sleeper.dreamt(cited)
    assert (run.status, run.outcome, run.error, run.reason, run.message) == (
        "failed",
        None,
        "invalid_generation_output",
        None,
        "reason: contains a credential: AWS access key",
    )


def test_what_is_known_already_is_no_change(sleeper):
    cited = sleeper.remembered()
    target = sleeper.desk.approved()
    sleeper.says(cited, intent="refine")
    same = sleeper.dreamt(cited, target, target=target)
    assert (same.outcome, same.reason) == (
        "no_change",
        "The proposal says what its target says already.",
    )
    sleeper.says(cited)
    sleeper.says(cited)
    sleeper.dreamt(cited)
    (made,) = sleeper.candidates()
    again = sleeper.dreamt(cited)
    assert again.outcome == "no_change"
    assert f"{made.candidate_id}, which is pending" in again.reason


def test_a_candidate_over_32_references_is_too_much(sleeper):
    cited = [sleeper.remembered(f"Fact {n} holds.") for n in range(17)]
    sleeper.says(*cited)
    run = sleeper.dreamt(*cited)
    assert (run.status, run.error) == ("failed", "evidence_limit_exceeded")


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


def meanwhile(sleeper, act):
    """Work on the next dream; act while the model is at work."""
    worker = threading.Thread(target=sleeper.work)
    worker.start()
    sleeper.stub.wait_until_held()
    act()
    sleeper.stub.release()
    worker.join(60)


def test_a_target_that_moves_while_the_model_works_ends_it(sleeper):
    cited = sleeper.remembered()
    target = sleeper.desk.approved()
    run = sleeper.queued(cited, target, target=target)
    sleeper.stub.answer(hold(says(plan(cited, intent="refine"))))
    update = sleeper.desk.update(target, sources=[source("s1")])
    meanwhile(sleeper, lambda: sleeper.desk.approve(update))
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
        meanwhile(sleeper, lambda: sleeper.rig.retire("Cents were lost."))
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


# claims, and workers that end badly


def test_scopes_take_turns_and_each_begins_with_its_oldest(sleeper):
    cited = {}
    for scope in ("b", "c", SCOPE):
        if scope != SCOPE:
            administer.create_scope(sleeper.db, scope, now_us=now_us())
        made = remember.remember(sleeper.db, scope, kind="fact", text="x", now_us=now_us())
        cited[scope] = made.entry.citation
    runs = [sleeper.queued(cited[scope], scope=scope) for scope in ("b", "b", "b", "c", SCOPE)]
    order = []
    while (run := sleeper.claim()) is not None:
        order.append(run.run_id)
    assert order == [runs[number].run_id for number in (0, 3, 4, 1, 2)]


def test_a_claim_is_exclusive_until_its_lease_ends(sleeper):
    run = sleeper.queued(sleeper.remembered())
    first = sleeper.claim(lease_s=0.3)
    assert (first.run_id, first.status, first.attempts) == (run.run_id, "running", 1)
    assert sleeper.claim() is None
    threading.Event().wait(0.4)
    second = sleeper.claim()
    assert (second.run_id, second.attempts) == (run.run_id, 2)
    assert second.started_at == first.started_at
    # the first worker comes back and finds that it lost the dream
    before = rows(sleeper.db)
    sleeper.says(*run.request.evidence.citations)
    assert run_dreams.work_on(sleeper.db, sleeper.settings, first) is None
    assert rows(sleeper.db) == before
    assert sleeper.asked() == []
    assert run_dreams.work_on(sleeper.db, sleeper.settings, second).outcome == "proposed"
    assert len(sleeper.candidates()) == 1


def test_signs_of_life_put_the_end_of_a_lease_off(sleeper):
    sleeper.queued(sleeper.remembered())
    held = sleeper.claim(lease_s=0.3)
    with sleeper.db.write() as conn:
        dreams.keep(conn, [held.claim], until_us=now_us() + 60_000_000)
    threading.Event().wait(0.4)
    assert sleeper.claim() is None
    with sleeper.db.write() as conn:
        assert dreams.release(conn, [held.claim]) == 1
    assert sleeper.claim().attempts == 2


def test_a_dream_whose_workers_keep_dying_ends_without_a_third_request(sleeper):
    run = sleeper.queued(sleeper.remembered())
    for _ in range(2):
        sleeper.claim(lease_s=0.0)
    assert sleeper.claim().error == "budget_exceeded"
    ended = sleeper.get(run)
    assert (ended.status, ended.attempts) == ("failed", 2)


def test_an_answer_that_comes_after_the_dream_was_taken_over_is_thrown_away(sleeper):
    cited = sleeper.remembered()
    run = sleeper.queued(cited)
    sleeper.stub.answer(hold(says(plan(cited, reason="The late one."))))
    slow = threading.Thread(target=lambda: sleeper.work(lease_s=0.1))
    slow.start()
    sleeper.stub.wait_until_held()
    threading.Event().wait(0.2)
    sleeper.says(cited, reason="The second.")
    sleeper.work()
    sleeper.stub.release()
    slow.join(60)
    (made,) = sleeper.candidates()
    assert made.reason == "The second."
    assert (sleeper.get(run).attempts, sleeper.get(run).usage.model_calls) == (2, 2)


def test_cancelling_a_running_dream_throws_its_answer_away_and_keeps_its_cost(sleeper):
    cited = sleeper.remembered()
    run = sleeper.queued(cited)
    sleeper.stub.answer(hold(says(plan(cited))))
    meanwhile(sleeper, lambda: dream.cancel(sleeper.db, SCOPE, run.run_id, now_us=now_us()))
    ended = sleeper.get(run)
    assert (ended.status, ended.error) == ("failed", "cancelled")
    assert spent(ended) == {"model_calls": 1, "input_tokens": 100, "output_tokens": 20}
    assert sleeper.candidates() == []


def test_two_workers_share_the_queue_and_nothing_is_done_twice(sleeper):
    cited = [sleeper.remembered(f"Fact {n} holds.") for n in range(10)]
    runs = [sleeper.queued(one) for one in cited]
    ended = []
    crew = [threading.Thread(target=lambda: ended.extend(sleeper.pending())) for _ in range(2)]
    for one in crew:
        one.start()
    for one in crew:
        one.join(120)
    assert sorted(run.run_id for run in ended) == sorted(run.run_id for run in runs)
    assert {run.outcome for run in ended} == {"proposed"}
    assert len(sleeper.candidates()) == 10
    assert len(sleeper.asked()) == 10


def test_a_worker_waits_for_second_attempts_and_tells_of_each_end(sleeper):
    one, two = sleeper.remembered("Amounts were floats."), sleeper.remembered("Cents were lost.")
    sleeper.stub.answer(status(503))
    runs = [sleeper.queued(one), sleeper.queued(two)]
    told = []
    ended = sleeper.pending(told=told.append)
    assert told == ended
    assert {run.run_id for run in ended} == {run.run_id for run in runs}
    assert [run.status for run in ended] == ["succeeded"] * 2


def test_a_worker_lingers_for_what_comes_next(sleeper):
    cited = sleeper.remembered()
    got = []
    worker = threading.Thread(target=lambda: got.extend(sleeper.pending(linger_s=1.5)))
    worker.start()
    threading.Event().wait(0.3)
    run = sleeper.queued(cited)
    worker.join(60)
    assert [one.run_id for one in got] == [run.run_id]


def test_a_background_worker_works_and_gives_back_what_it_cannot_finish(sleeper):

    served = sleeper.having(dream_worker=True)
    cited = sleeper.remembered()
    with in_background(served.db, served.settings):
        run = served.queued(cited)
        until = now_us() + 20_000_000
        while not served.get(run).ended and now_us() < until:
            threading.Event().wait(0.05)
        assert served.get(run).outcome == "proposed"
        served.stub.answer(hold(says(plan(cited, reason="Late."))))
        left = served.queued(cited)
        served.stub.wait_until_held()
    given = served.get(left)
    assert (given.status, given.claim, given.next_attempt_at) == ("running", None, 0)
    served.stub.release()
    served.says(cited, reason="In time.", proposal=FIELDS | {"lesson": "Other."})
    served.work()
    assert served.get(left).reason == "In time."
