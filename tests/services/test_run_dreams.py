"""Working on dreams: what is shown, and what may come of it."""

import json
from dataclasses import replace

import pytest
from desk import CUE, FAILURE, experience, failing, put_outcome
from dreaming import FIELDS, id_of, nothing, plan, source, spent
from model_stub import says

from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.experience import parse
from pc_store.domain.failure import cue_key
from pc_store.services import dream, run_dreams

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
