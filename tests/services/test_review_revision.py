"""A revision replaces all of a pending candidate but its target, under the rules of proposals."""

from dataclasses import replace

from desk import NOW, SCOPE, entry, experience, failing, put_outcome, refused, source, tracking
from reviewing import LATER

from pc_store.domain.candidate import CandidateVersion, EvidenceRefs, fingerprint
from pc_store.domain.refs import ArtifactRef
from pc_store.errors import Conflict, InvalidInput
from pc_store.services import review


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
