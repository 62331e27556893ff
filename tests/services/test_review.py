"""Candidates change only by review, are decided once, and become at most one revision each."""

import itertools
from dataclasses import replace
from functools import partial

import pytest
import sqlalchemy as sa
from desk import (
    CUE,
    FAILURE,
    FIELDS,
    NOW,
    SCOPE,
    Desk,
    entry,
    experience,
    failing,
    put,
    put_outcome,
    refused,
    rows,
    source,
    tracking,
)
from test_races import Together

from pc_store.domain.candidate import CandidateVersion, EvidenceRefs, FieldChange, fingerprint
from pc_store.domain.refs import ArtifactRef
from pc_store.errors import (
    ArtifactConflict,
    ArtifactInactive,
    CandidateConflict,
    CandidateNotFound,
    CandidateTerminal,
    CitedEntryInactive,
    Conflict,
    EvidenceUnavailable,
    InvalidInput,
    ScopeNotFound,
    SecretDetected,
    UnchangedProposal,
)
from pc_store.ledger.candidates import Waiting
from pc_store.ledger.schema import experience_documents
from pc_store.search.tokens import TOKENISER, terms_of
from pc_store.services import administer, experiences, remember, review
from pc_store.services.purge import purge
from pc_store.services.read_candidates import Advice, Warned
from pc_store.services.review import Diff, InboxSummary

LATER = NOW + 1_000_000
KEY = "AKIA" + "ABCDEFGHIJKLMNOP"


@pytest.fixture
def desk(shop_db):
    put(shop_db, "s1", "s2", "log")
    return Desk(shop_db)


def listed(desk, **more):
    return list(review.list_candidates(desk.db, SCOPE, **more).items)


def read(desk, ref):
    return experiences.read_experience(desk.db, SCOPE, ref)


def documents(db):
    return rows(db, experience_documents)["experience_documents"]


# approve


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


def test_versions_count_at_every_decision(desk):
    made = desk.propose(sources=[source("s1")])
    assert desk.revise(made).version == 2
    for act in (desk.approve, desk.reject, desk.revise):
        for version in (1, 3):
            error = refused(desk.db, CandidateConflict, act, made, version)
            assert (error.code, error.details) == (
                "candidate_conflict",
                {"expected_version": version, "current_version": 2},
            )
    assert desk.approve(made, 2).version == 2
    error = refused(desk.db, CandidateTerminal, desk.reject, made, 2)
    assert (error.code, error.details) == ("candidate_terminal", {"status": "approved"})
    refused(desk.db, CandidateTerminal, desk.revise, made, 2)


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


def test_what_is_not_there_is_not_found(desk):
    made = desk.propose(sources=[source("s1")])
    administer.create_scope(desk.db, "other", now_us=NOW)
    elsewhere, nowhere = replace(desk, scope="other"), replace(desk, scope="nowhere")
    for act in ("get", "approve", "reject", "revise"):
        error = refused(desk.db, CandidateNotFound, getattr(elsewhere, act), made)
        assert error.details == {"candidate_id": made.candidate_id}
        refused(desk.db, ScopeNotFound, getattr(nowhere, act), made)
    for read_ in (review.history, review.diff):
        refused(desk.db, CandidateNotFound, read_, desk.db, "other", made.candidate_id)


# reject


def test_rejection_is_final_gives_a_reason_and_looks_at_no_evidence(desk):
    cited = entry(desk.db).citation
    made = desk.propose(citations=[cited])
    remember.retire(desk.db, SCOPE, cited, now_us=NOW)
    rejected = desk.at(LATER).reject(made, reason="  gone ", author="rev")
    assert rejected == replace(
        made, status="rejected", decision_reason="gone", decided_by="rev", updated_at=LATER
    )
    for act in (desk.reject, desk.approve, desk.revise):
        error = refused(desk.db, CandidateTerminal, act, made)
        assert error.details == {"status": "rejected"}
    error = refused(desk.db, CandidateTerminal, desk.approve, made, 9)
    assert error.details == {"status": "rejected"}, "a decision outweighs a stale version"
    assert documents(desk.db) == []


@pytest.mark.parametrize("reason", ["", "  ", "x" * 2_001, None])
def test_a_rejection_needs_a_reason(desk, reason):
    made = desk.propose(sources=[source("s1")])
    error = refused(desk.db, InvalidInput, desk.reject, made, reason=reason)
    assert error.field == "reason"


def test_a_credential_in_a_decision_is_refused(desk):
    made = desk.propose(sources=[source("s1")])
    refused(desk.db, SecretDetected, desk.reject, made, reason=KEY)
    refused(desk.db, SecretDetected, desk.revise, made, reason=KEY)
    changed = experience(action=KEY)
    refused(desk.db, SecretDetected, desk.revise, made, proposal=changed)
    assert desk.revise(made, proposal=changed, refuse_secrets=False).version == 2


# revise


def test_a_revision_replaces_everything_and_the_history_keeps_every_version(desk):
    cited = entry(desk.db).citation
    made = desk.propose(sources=[source("s1")], citations=[cited], reason="first", author="ada")
    changed = experience(lesson="Corrected.")
    revised = desk.at(LATER).revise(made, proposal=changed, sources=[source("s2")], author="bob")
    assert revised == replace(
        made,
        version=2,
        proposal=changed,
        evidence=EvidenceRefs((source("s2"),), (), (cited,)),
        reason=None,
        fingerprint=revised.fingerprint,
        updated_at=LATER,
    )
    assert desk.get(made) == revised
    assert review.history(desk.db, SCOPE, made.candidate_id) == [
        CandidateVersion(
            1,
            made.proposal,
            made.evidence,
            "first",
            fingerprint(made.proposal, made.evidence),
            "ada",
            NOW,
        ),
        CandidateVersion(
            2,
            changed,
            revised.evidence,
            None,
            fingerprint(changed, revised.evidence),
            "bob",
            LATER,
        ),
    ]


def test_citations_are_kept_when_left_out_cleared_by_an_empty_list_and_replaced(desk):
    one, two = entry(desk.db, "one").citation, entry(desk.db, "two").citation
    made = desk.propose(sources=[source("s1")], citations=[one])
    versions = [
        desk.revise(made, number, **more).evidence.citations
        for number, more in enumerate(({}, {"citations": [two]}, {"citations": []}, {}), start=1)
    ]
    assert versions == [(one,), (two,), (), ()]


def test_a_revision_need_not_change_anything(desk):
    made = desk.propose(sources=[source("s1")], reason="why")
    same = desk.revise(made, reason="why")
    assert same == replace(made, version=2)


def test_a_revision_is_held_to_the_same_rules_as_a_proposal(desk):
    made = desk.propose(sources=[source("s1")])
    for changes, field in (
        ({"sources": []}, "evidence"),
        ({"sources": [source("none")]}, "source_refs"),
        ({"artifacts": [ArtifactRef("experience", "exp_none", 1)]}, "artifact_refs"),
        ({"proposal": tracking()}, "evidence"),
        ({"reason": " "}, "reason"),
    ):
        error = refused(desk.db, InvalidInput, desk.revise, made, **changes)
        assert error.field == field


def test_the_target_never_changes(desk):
    first, other = desk.approved(), desk.approved(experience(action="Other."))
    update = desk.update(first)
    plain = desk.propose(sources=[source("s1")], artifacts=[first])
    for candidate, target in ((update, None), (update, other), (plain, first)):
        error = refused(
            desk.db,
            InvalidInput,
            lambda one=candidate, ref=target: desk.revise(
                one, target=ref, artifacts=[first, other]
            ),
        )
        assert error.details == {
            "field": "target",
            "reason": "differs from the candidate's, which never changes",
        }
    error = refused(desk.db, InvalidInput, desk.revise, update, artifacts=[other])
    assert error.field == "target"
    assert desk.revise(update, artifacts=[other, first]).target == first


def test_keeping_a_failure_needs_its_outcome_again_and_a_changed_cue_its_own(desk):
    outcome = put_outcome(desk.db, "o1", failing())
    other = put_outcome(desk.db, "o2", failing("rounding is off"))
    made = desk.propose(tracking(), sources=[outcome])
    changed = tracking("Rounding is off!")
    refused(desk.db, InvalidInput, desk.revise, made, sources=[source("s1")])
    refused(desk.db, InvalidInput, desk.revise, made, proposal=changed)
    revised = desk.revise(made, proposal=changed, sources=[other])
    assert (revised.cue_key, revised.version) == ("rounding is off", 2)
    assert desk.revise(revised, proposal=experience(), sources=[source("s1")]).cue_key is None


def test_a_recurrence_review_cannot_be_revised_into_one_that_is_open(desk):
    outcomes = [put_outcome(desk.db, "o1", failing()), put_outcome(desk.db, "o2", failing("other"))]
    first = desk.approved(tracking(), sources=outcomes)
    one = desk.update(first, tracking(), sources=outcomes, origin="recurrence")
    moved = desk.revise(one, proposal=tracking("other"))
    desk.update(first, tracking(), sources=outcomes, origin="recurrence")
    refused(desk.db, Conflict, desk.revise, moved, proposal=tracking())
    assert desk.get(moved) == moved


# lists, diffs, advice


def test_lists_are_ordered_by_time_filtered_and_paged_without_a_gap(desk):
    times = [NOW + 5, NOW, NOW + 3, NOW + 3, NOW + 1]
    made = [
        desk.at(moment).propose(experience(action=f"a{number}"), sources=[source("s1")])
        for number, moment in enumerate(times)
    ]
    made = sorted(made, key=lambda one: (one.created_at, one.candidate_id))
    assert listed(desk) == made
    seen, after = [], None
    for _ in range(3):
        page = review.list_candidates(desk.db, SCOPE, after=after, limit=2)
        seen += page.items
        after = page.next_after
    assert (seen, after) == (made, None)
    rejected = desk.reject(made[0])
    approved = desk.approve(made[1])
    update = desk.at(NOW + 9).update(approved.result, origin="dream")
    assert listed(desk) == [*made[2:], update]
    assert listed(desk, status="rejected") == [rejected]
    assert listed(desk, status="approved") == [approved]
    assert listed(desk, status=None) == [rejected, approved, *made[2:], update]
    assert listed(desk, target_id=approved.result.artifact_id) == [update]
    assert listed(desk, origin="dream") == listed(desk, origin="dream", family="experience")
    assert (listed(desk, origin="dream"), listed(desk, family="skill")) == ([update], [])


@pytest.mark.parametrize("limit", [0, 101])
def test_a_page_has_one_to_a_hundred(desk, limit):
    refused(desk.db, InvalidInput, review.list_candidates, desk.db, SCOPE, limit=limit)


def test_an_unknown_status_place_or_scope_is_refused(desk):
    refused(desk.db, InvalidInput, listed, desk, status="open")
    refused(desk.db, CandidateNotFound, listed, desk, after="cand_none")
    refused(desk.db, ScopeNotFound, review.list_candidates, desk.db, "nowhere")


def test_the_diff_shows_each_field_beside_the_targets_and_whether_the_target_stands(desk):
    outcome = put_outcome(desk.db, "o1", failing())
    first = desk.approved(tracking(), sources=[outcome])
    lesson = experience(lesson="Shorter.")
    made = desk.update(first, lesson)
    path = "failure.signature.recall_cue"
    shown = review.diff(desk.db, SCOPE, made.candidate_id)
    same = tuple(
        FieldChange(name, FIELDS[name], FIELDS[name]) for name in ("situation", "action", "outcome")
    )
    assert shown == Diff(
        made,
        first,
        first,
        "active",
        False,
        (
            *same,
            FieldChange("lesson", FIELDS["lesson"], "Shorter."),
            FieldChange(path, CUE, None),
            FieldChange("failure.signature.symptom", "19.99 becomes 1998", None),
            FieldChange("failure.repair_surface", "experience_content", None),
            FieldChange("failure.verification.condition", "an amount with cents was read", None),
            FieldChange("failure.verification.check_subject", "cents check", None),
        ),
    )
    assert [one.field for one in shown.fields if one.changed][:2] == ["lesson", path]
    second = desk.approve(desk.update(first, experience(action="Else."))).result
    moved = review.diff(desk.db, SCOPE, made.candidate_id)
    assert (moved.target, moved.current, moved.stale_target) == (first, second, True)
    assert moved.fields == shown.fields, "it is still compared with what it was made for"


def test_the_diff_of_a_new_experience_has_nothing_before(desk):
    made = desk.propose(sources=[source("s1")])
    shown = review.diff(desk.db, SCOPE, made.candidate_id)
    assert shown == Diff(
        made,
        None,
        None,
        None,
        False,
        tuple(FieldChange(name, None, text) for name, text in FIELDS.items()),
    )


def test_reviewers_are_warned_of_equal_cues_rivals_and_stale_targets(desk):
    outcome = put_outcome(desk.db, "o1", failing())
    head = desk.approved(tracking(), sources=[outcome])
    same = desk.at(LATER).propose(tracking("AMOUNTS are off by one cent."), sources=[outcome])
    own = desk.at(LATER + 1).update(head, tracking(lesson="x"), sources=[outcome])
    rival = desk.at(LATER + 2).update(head, experience(), sources=[source("s1")])
    plain = desk.at(LATER + 3).propose(sources=[source("s1")])
    some = [same, own, rival, plain]
    named = f"experience/{head.artifact_id} revision 1"
    cue = Warned(
        "same_cue", f"{named} tracks the same cue 'amounts are off by one cent'", artifact=head
    )
    assert review.advise(desk.db, SCOPE, some) == {
        same.candidate_id: Advice(warnings=(cue,)),
        own.candidate_id: Advice(
            warnings=(
                Warned(
                    "rival", f"{rival.candidate_id} has the same target", head, rival.candidate_id
                ),
            )
        ),
        rival.candidate_id: Advice(
            warnings=(
                Warned("rival", f"{own.candidate_id} has the same target", head, own.candidate_id),
            )
        ),
        plain.candidate_id: Advice(),
    }
    second = desk.approve(own).result
    advice = review.advise(desk.db, SCOPE, [rival, desk.get(own)])
    assert advice == {
        rival.candidate_id: Advice(
            True,
            (Warned("stale_target", f"the target is {named}, the head is at 2", artifact=second),),
        ),
        own.candidate_id: Advice(),
    }
    experiences.set_lifecycle(
        desk.db, SCOPE, second, state="deprecated", reason="wrong", now_us=NOW
    )
    assert review.advise(desk.db, SCOPE, [same]) == {same.candidate_id: Advice()}
    late = desk.at(LATER + 4)
    withdrawn = replace(rival, target=second)
    [warned] = review.advise(late.db, SCOPE, [withdrawn])[rival.candidate_id].warnings
    assert warned.message == f"the target {named.replace(' 1', ' 2')} is deprecated"


def test_the_inbox_counts_what_waits_since_when_and_what_is_stale(desk):
    assert review.inbox(desk.db) == InboxSummary(0, None, 0, ())
    administer.create_scope(desk.db, "other", now_us=NOW)
    put(desk.db, "s1", scope="other")
    theirs = replace(desk, scope="other").at(NOW + 7)
    theirs.propose(sources=[source("s1")])
    first, second = desk.approved(), desk.approved(experience(action="x"))
    for moment, target in ((5, first), (4, first), (6, second)):
        desk.at(NOW + moment).update(target, experience(lesson=f"{moment}"))
    desk.at(NOW + 8).propose(sources=[source("s1")])
    assert review.inbox(desk.db) == InboxSummary(
        5,
        NOW + 4,
        0,
        (Waiting("other", 1, NOW + 7, 0), Waiting(SCOPE, 4, NOW + 4, 0)),
    )
    desk.approve(listed(desk, target_id=first.artifact_id)[0])
    experiences.set_lifecycle(desk.db, SCOPE, second, state="retired", reason="wrong", now_us=NOW)
    assert review.inbox(desk.db) == InboxSummary(
        4, NOW + 5, 2, (Waiting("other", 1, NOW + 7, 0), Waiting(SCOPE, 3, NOW + 5, 2))
    )


# races


def test_of_two_approvals_of_one_target_one_wins_and_the_other_learns_the_head(desk):
    target = desk.approved()
    for number in range(8):
        pair = [desk.update(target, experience(lesson=f"{number} {side}")) for side in ("a", "b")]
        results = Together(*(lambda one=one: desk.approve(one) for one in pair)).join()
        [won] = [one for one in results if not isinstance(one, BaseException)]
        [lost] = [one for one in results if isinstance(one, BaseException)]
        assert isinstance(lost, ArtifactConflict)
        assert lost.details == {"current": vars(won.result)}
        assert won.result.revision == target.revision + 1
        [waiting] = listed(desk)
        assert desk.reject(waiting).version == 1
        target = won.result


def test_two_approvals_of_one_candidate_make_one_revision_and_agree(desk):
    for number in range(6):
        made = desk.propose(experience(action=f"{number}"), sources=[source("s1")])
        one, two = Together(*[partial(desk.approve, made)] * 2).join()
        assert one == two
    assert len(documents(desk.db)) == 6


def test_approval_revision_and_rejection_at_once_leave_exactly_one_of_them(desk):
    seen = set()
    for number in range(10):
        made = desk.propose(experience(action=f"{number}"), sources=[source("s1")])
        calls = [partial(act, made) for act in (desk.approve, desk.reject, desk.revise)]
        results = Together(*calls[number % 3 :], *calls[: number % 3]).join()
        won = [one for one in results if not isinstance(one, BaseException)]
        lost = [one for one in results if isinstance(one, BaseException)]
        assert len(won) == 1
        assert all(type(one) in (CandidateTerminal, CandidateConflict) for one in lost)
        assert desk.get(made) == won[0]
        seen.add((won[0].status, won[0].version))
    assert seen <= {("approved", 1), ("rejected", 1), ("pending", 2)}


def test_an_entry_retired_during_an_approval_is_retired_before_or_after_it(desk):
    """Whichever comes first: never is an experience approved on an entry retired before it."""
    outcomes = []
    for number in range(10):
        cited = entry(desk.db, f"text {number}").citation
        made = desk.propose(experience(action=f"{number}"), citations=[cited])
        approved, retired = Together(
            lambda made=made: desk.approve(made),
            lambda cited=cited: remember.retire(desk.db, SCOPE, cited, now_us=NOW),
        ).join()
        assert not isinstance(retired, BaseException)
        if isinstance(approved, BaseException):
            assert isinstance(approved, CitedEntryInactive)
            assert desk.get(made) == made
        outcomes.append(type(approved).__name__)
    assert set(outcomes) <= {"Candidate", "CitedEntryInactive"}


def test_an_approval_and_a_withdrawal_at_once_leave_documents_and_heads_alike(desk):
    for number in range(8):
        target = desk.approved(experience(action=f"{number}"))
        made = desk.update(target, experience(lesson=f"{number}"))
        approved, withdrawn = Together(
            lambda made=made: desk.approve(made),
            lambda target=target: experiences.set_lifecycle(
                desk.db, SCOPE, target, state="retired", reason="wrong", now_us=NOW
            ),
        ).join()
        with desk.db.read() as conn:
            query = sa.select(experience_documents.c.revision).where(
                experience_documents.c.artifact_id == target.artifact_id
            )
            shown = list(conn.execute(query).scalars())
        if isinstance(approved, BaseException):
            assert isinstance(approved, ArtifactInactive)
            assert shown == []
        else:
            assert isinstance(withdrawn, ArtifactConflict)
            assert withdrawn.details == {"current": vars(approved.result)}
            assert shown == [2]


def test_many_reviewers_at_one_target_agree_on_one_line_of_revisions(desk):
    target = desk.approved()
    clock = itertools.count(1)

    def work(name):
        won = 0
        for _ in range(6):
            head = experiences.experience_heads(desk.db, SCOPE).items[0].ref
            try:
                made = desk.update(head, experience(lesson=f"{name} {next(clock)}"))
                desk.approve(made)
                won += 1
            except ArtifactConflict:
                continue
        return won

    counts = Together(*(lambda name=name: work(name) for name in "abcd")).join()
    head = experiences.experience_heads(desk.db, SCOPE).items[0].ref
    assert head.revision == 1 + sum(counts)
    numbers = [
        one.ref.revision
        for one in experiences.experience_revisions(desk.db, SCOPE, target.artifact_id).items
    ]
    assert numbers == list(range(head.revision, 0, -1))
    assert len(listed(desk, status="approved")) == 1 + sum(counts)


def test_the_failure_block_round_trips(desk):
    outcome = put_outcome(desk.db, "o1", failing())
    result = desk.approved(tracking(), sources=[outcome])
    assert read(desk, result).content.to_json() == FIELDS | {"failure": FAILURE}
