"""Approval makes one revision of one version, after a last look at evidence and target."""

from dataclasses import replace

from desk import (
    CUE,
    FAILURE,
    FIELDS,
    NOW,
    SCOPE,
    entry,
    experience,
    failing,
    put_outcome,
    refused,
    rows,
    source,
    tracking,
)
from reviewing import LATER, documents, listed, read

from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.refs import ArtifactRef
from pc_store.errors import (
    ArtifactConflict,
    ArtifactInactive,
    CandidateTerminal,
    CitedEntryInactive,
    EvidenceUnavailable,
    InvalidInput,
    UnchangedProposal,
)
from pc_store.search.tokens import TOKENISER, terms_of
from pc_store.services import experiences, remember
from pc_store.services.purge import purge


def test_approval_makes_the_first_revision_of_a_new_experience(desk):
    made = desk.propose(sources=[source("s1")], reason="why")
    approved = desk.at(LATER).approve(made, author="rev")
    result = approved.result
    assert approved == replace(
        made, status="approved", result=result, decided_by="rev", updated_at=LATER
    )
    assert (result.family, result.revision) == ("experience", 1)
    prefix, digits = result.artifact_id[:4], result.artifact_id[4:]
    assert (prefix, len(digits), int(digits, 16) > 0) == ("exp_", 32, True)
    found = read(desk, result)
    assert (found.content, found.evidence, found.head, found.lifecycle, found.candidate_id) == (
        experience(),
        EvidenceRefs((source("s1"),)),
        result,
        "active",
        made.candidate_id,
    )
    assert (found.log_position, found.created_at) == (3, LATER)
    assert listed(desk) == []
    assert listed(desk, status="approved") == [approved]


def test_approval_lets_search_see_it_in_the_same_transaction(desk):
    outcome = put_outcome(desk.db, "o1", failing())
    made = desk.propose(tracking(), sources=[outcome])
    assert documents(desk.db) == []
    result = desk.approve(made).result
    [row] = documents(desk.db)
    text = "\n".join([*FIELDS.values(), CUE, "19.99 becomes 1998"])
    assert row[:4] == (SCOPE, result.artifact_id, 1, text)
    assert row[5:] == (terms_of(text), TOKENISER, "amounts are off by one cent", NOW)


def test_approval_of_an_update_makes_the_targets_next_revision_and_lineage_is_linked(desk):
    first = desk.approved()
    citation = entry(desk.db).citation
    made = desk.update(first, sources=[source("s2")], citations=[citation])
    second = desk.approve(made).result
    assert second == ArtifactRef("experience", first.artifact_id, 2)
    assert read(desk, second).evidence == EvidenceRefs((source("s2"),), (first,), (citation,))
    assert read(desk, first).content == experience()
    assert read(desk, first).evidence == EvidenceRefs((source("s1"),))
    [row] = documents(desk.db)
    assert row[1:3] == (first.artifact_id, 2)


def test_approving_the_approved_version_again_returns_it_and_changes_nothing(desk):
    made = desk.propose(sources=[source("s1")])
    desk.revise(made)
    approved = desk.approve(made, 2)
    before = rows(desk.db)
    assert desk.at(LATER).approve(made, 2, author="else") == approved
    assert rows(desk.db) == before
    error = refused(desk.db, CandidateTerminal, desk.approve, made, 1)
    assert error.details == {"status": "approved"}


def test_of_two_candidates_for_one_revision_the_second_is_told_the_head_and_stays_pending(desk):
    first = desk.approved()
    one = desk.update(first, experience(lesson="One."))
    two = desk.update(first, experience(lesson="Two."))
    second = desk.approve(one).result
    error = refused(desk.db, ArtifactConflict, desk.approve, two)
    assert (error.code, error.details) == ("artifact_conflict", {"current": vars(second)})
    assert desk.get(two) == two
    error = refused(desk.db, ArtifactConflict, desk.revise, two)
    assert error.details == {"current": vars(second)}
    assert desk.reject(two, reason="superseded").status == "rejected"


def test_an_unchanged_copy_of_the_target_is_refused_and_can_be_corrected(desk):
    first = desk.approved()
    copy = desk.update(first, experience(), sources=[source("s2")])
    error = refused(desk.db, UnchangedProposal, desk.approve, copy)
    assert (error.code, error.details) == (
        "unchanged_proposal",
        {"field": "proposal", "reason": "says what its target says already"},
    )
    assert desk.get(copy) == copy
    revised = desk.revise(copy, proposal=experience(lesson="More."))
    assert desk.approve(revised).result.revision == 2


def test_white_space_alone_is_a_change(desk):
    first = desk.approved()
    made = desk.update(first, experience(lesson=f" {FIELDS['lesson']}\n"))
    assert read(desk, desk.approve(made).result).content.lesson == f" {FIELDS['lesson']}\n"


def test_approval_looks_at_the_evidence_again(desk, tmp_path):
    retired, purged = entry(desk.db, "one"), entry(desk.db, "two")
    cited = desk.propose(citations=[retired.citation])
    erased = desk.propose(citations=[purged.citation])
    below = desk.update(desk.approved(citations=[retired.citation]))
    memory = remember.retire(
        desk.db, SCOPE, remember.cite(desk.db, SCOPE, retired.entry.entry_id).citation, now_us=NOW
    ).memory
    purge(desk.db, SCOPE, purged.entry.entry_id, now_us=NOW)
    refused(desk.db, CitedEntryInactive, desk.approve, cited)
    refused(desk.db, EvidenceUnavailable, desk.approve, erased)
    error = refused(desk.db, CitedEntryInactive, desk.approve, below)
    assert "which a cited artifact was made from" in error.reason
    assert [desk.get(one) for one in (cited, erased, below)] == [cited, erased, below]
    again = remember.cite(desk.db, SCOPE, retired.entry.entry_id).citation
    assert again.memory.revision == memory.revision + 1
    remember.reactivate(desk.db, SCOPE, again, now_us=NOW)
    assert desk.approve(cited).status == desk.approve(below).status == "approved"


def test_approval_looks_at_the_failing_items_evidence_again(desk):
    cited = entry(desk.db).citation
    named = {
        "memory_ref": vars(cited.memory),
        "entry_id": cited.entry_id,
        "entry_version_id": cited.entry_version_id,
    }
    evidence = [{"kind": "memory", "memory_citation": named}]
    outcome = put_outcome(desk.db, "o1", failing(evidence=evidence))
    made = desk.propose(tracking(), sources=[outcome])
    remember.retire(desk.db, SCOPE, cited, now_us=NOW)
    error = refused(desk.db, InvalidInput, desk.approve, made)
    assert error.details["rule"] == "failure"
    assert desk.get(made) == made


def test_a_target_withdrawn_since_is_refused_at_revision_and_approval(desk):
    first = desk.approved()
    made = desk.update(first)
    experiences.set_lifecycle(desk.db, SCOPE, first, state="deprecated", reason="wrong", now_us=NOW)
    refused(desk.db, ArtifactInactive, desk.approve, made)
    refused(desk.db, ArtifactInactive, desk.revise, made)
    experiences.set_lifecycle(desk.db, SCOPE, first, state="active", reason="right", now_us=NOW)
    assert desk.approve(made).result.revision == 2


def test_the_failure_block_round_trips(desk):
    outcome = put_outcome(desk.db, "o1", failing())
    result = desk.approved(tracking(), sources=[outcome])
    assert read(desk, result).content.to_json() == FIELDS | {"failure": FAILURE}
