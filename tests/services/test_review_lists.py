"""What reviewers look at: lists of candidates, diffs, warnings and the inbox."""

from dataclasses import replace

import pytest
from desk import (
    CUE,
    FIELDS,
    NOW,
    SCOPE,
    experience,
    failing,
    put,
    put_outcome,
    refused,
    source,
    tracking,
)
from reviewing import LATER, listed

from pc_store.domain.candidate import FieldChange
from pc_store.errors import CandidateNotFound, InvalidInput, ScopeNotFound
from pc_store.ledger.candidates import Waiting
from pc_store.services import administer, experiences, review
from pc_store.services.read_candidates import Advice, Warned
from pc_store.services.review import Diff, InboxSummary


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
