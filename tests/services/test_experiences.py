"""An approved experience reads the same for ever; only active heads are seen by search."""

from dataclasses import replace

import pytest
from desk import (
    NOW,
    SCOPE,
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

from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.refs import ArtifactRef
from pc_store.domain.revision import content_digest
from pc_store.errors import (
    ArtifactConflict,
    ArtifactInactive,
    ArtifactNotFound,
    EntryPurged,
    InvalidInput,
    ScopeNotFound,
    SecretDetected,
)
from pc_store.ledger.schema import experience_documents, experience_lifecycles
from pc_store.services import remember, review
from pc_store.services.audit import audit
from pc_store.services.experiences import (
    AmbiguousCue,
    ExperienceRevision,
    LifecycleChange,
    ambiguous_cues,
    experience_heads,
    experience_revisions,
    lifecycle_changes,
    read_experience,
    set_lifecycle,
)
from pc_store.services.purge import purge
from pc_store.settings import Settings

LATER = NOW + 1_000_000


def withdraw(desk, ref, state="deprecated", reason="wrong", **more):
    return set_lifecycle(
        desk.db, SCOPE, ref, state=state, reason=reason, now_us=desk.now_us, **more
    )


def documents(db):
    """(artifact, revision) of what search sees."""
    return [row[1:3] for row in rows(db, experience_documents)["experience_documents"]]


def test_a_revision_is_read_exactly_with_its_lineage_and_where_it_came_from(desk):
    cited = entry(desk.db).citation
    made = desk.propose(sources=[source("s2")], citations=[cited])
    first = desk.at(LATER).approve(made).result
    put(desk.db, "s4", "s5")
    second_made = desk.update(first, sources=[source("s5")])
    second = desk.approve(second_made).result
    content = experience()
    expected = ExperienceRevision(
        ref=first,
        content=content,
        evidence=EvidenceRefs((source("s2"),), (), (cited,)),
        head=second,
        lifecycle="active",
        origin="review",
        candidate_id=made.candidate_id,
        content_digest=content_digest(content.to_json()),
        created_at=LATER,
        log_position=3,
    )
    assert read_experience(desk.db, SCOPE, first) == expected
    changed = experience(lesson="Another lesson.")
    assert read_experience(desk.db, SCOPE, second) == replace(
        expected,
        ref=second,
        content=changed,
        evidence=EvidenceRefs((source("s5"),), (first,)),
        candidate_id=second_made.candidate_id,
        content_digest=content_digest(changed.to_json()),
        created_at=NOW,
        log_position=5,
    )


def test_what_does_not_exist_is_not_found(desk):
    entry(desk.db)
    first = desk.approved()
    for absent in (
        ArtifactRef("experience", first.artifact_id, 2),
        ArtifactRef("experience", "exp_none", 1),
        ArtifactRef("memory", "memory", 1),
        ArtifactRef("memory", first.artifact_id, 1),
    ):
        refused(desk.db, ArtifactNotFound, read_experience, desk.db, SCOPE, absent)
    refused(desk.db, ScopeNotFound, read_experience, desk.db, "nowhere", first)
    refused(desk.db, ArtifactNotFound, experience_revisions, desk.db, SCOPE, "exp_none")
    refused(desk.db, ArtifactNotFound, lifecycle_changes, desk.db, SCOPE, "exp_none")
    refused(desk.db, ScopeNotFound, experience_heads, desk.db, "nowhere")
    for limit in (0, 101):
        refused(
            desk.db, InvalidInput, lambda most=limit: experience_heads(desk.db, SCOPE, None, most)
        )
        refused(
            desk.db,
            InvalidInput,
            lambda most=limit: experience_revisions(desk.db, SCOPE, first.artifact_id, limit=most),
        )


def test_heads_are_listed_by_creation_page_by_page_without_those_withdrawn(desk):
    made = [desk.at(NOW + number).approved(experience(action=f"a{number}")) for number in range(5)]
    made[1] = desk.approve(desk.update(made[1])).result
    withdraw(desk, made[3])
    seen, after = [], None
    for _ in range(2):
        page = experience_heads(desk.db, SCOPE, after, 2)
        seen += [one.ref for one in page.items]
        after = page.next_after
    assert (seen, after) == ([made[0], made[1], made[2], made[4]], None)
    every = experience_heads(desk.db, SCOPE, include_inactive=True).items
    assert [(one.ref, one.lifecycle) for one in every] == [
        (ref, "deprecated" if ref == made[3] else "active") for ref in made
    ]


def test_revisions_are_listed_newest_first_page_by_page(desk):
    head = desk.approved()
    for number in range(4):
        head = desk.approve(desk.update(head, experience(lesson=f"{number}"))).result
    seen, after = [], None
    for _ in range(3):
        page = experience_revisions(desk.db, SCOPE, head.artifact_id, after=after, limit=2)
        seen += page.items
        after = page.next_after
    assert ([one.ref.revision for one in seen], after) == ([5, 4, 3, 2, 1], None)
    assert seen[1] == read_experience(desk.db, SCOPE, replace(head, revision=4))


# lifecycle


def test_a_withdrawn_experience_stays_readable_and_search_sees_it_no_more(desk):
    ref = desk.approved()
    assert documents(desk.db) == [(ref.artifact_id, 1)]
    before = read_experience(desk.db, SCOPE, ref)
    withdrawn = withdraw(desk.at(LATER), ref, reason=" superseded ", author="rev")
    assert withdrawn == replace(before, lifecycle="deprecated")
    assert read_experience(desk.db, SCOPE, ref) == withdrawn
    assert documents(desk.db) == []
    back = withdraw(desk.at(LATER + 1), ref, "active", "it was right")
    assert back == before
    assert documents(desk.db) == [(ref.artifact_id, 1)]
    assert lifecycle_changes(desk.db, SCOPE, ref.artifact_id) == [
        LifecycleChange("deprecated", 1, "superseded", "rev", LATER),
        LifecycleChange("active", 1, "it was right", "", LATER + 1),
    ]


def test_what_search_sees_again_is_what_it_saw(desk):
    ref = desk.approved(tracking(), sources=[put_outcome(desk.db, "o1", failing())])
    before = rows(desk.db, experience_documents)
    withdraw(desk, ref)
    withdraw(desk, ref, "active")
    assert rows(desk.db, experience_documents) == before


def test_retirement_is_final(desk):
    ref = desk.approved()
    assert withdraw(desk, ref, "retired").lifecycle == "retired"
    for state in ("active", "deprecated"):
        error = refused(desk.db, ArtifactInactive, withdraw, desk, ref, state)
        assert (error.code, error.details) == (
            "artifact_inactive",
            {"artifact": vars(ref), "lifecycle": "retired"},
        )


def test_the_state_it_has_changes_nothing(desk):
    ref = desk.approved()
    withdraw(desk, ref, "retired")
    before = rows(desk.db)
    assert withdraw(desk, ref, "retired", "again").lifecycle == "retired"
    assert rows(desk.db) == before
    other = desk.approved(experience(action="x"))
    assert withdraw(desk, other, "active").lifecycle == "active"
    assert len(rows(desk.db, experience_lifecycles)["experience_lifecycles"]) == 1


def test_only_the_head_has_a_lifecycle(desk):
    first = desk.approved()
    second = desk.approve(desk.update(first)).result
    error = refused(desk.db, ArtifactConflict, withdraw, desk, first)
    assert (error.code, error.details) == ("artifact_conflict", {"current": vars(second)})
    assert withdraw(desk, second).ref == second
    assert read_experience(desk.db, SCOPE, first).lifecycle == "deprecated"


def test_a_change_of_lifecycle_needs_a_known_state_and_a_reason(desk):
    ref = desk.approved()
    key = "AKIA" + "ABCDEFGHIJKLMNOP"
    error = refused(desk.db, InvalidInput, withdraw, desk, ref, "gone")
    assert error.details == {
        "field": "state",
        "reason": "is 'gone', one of active, deprecated, retired is expected",
    }
    for reason in ("", " ", "x" * 2_001, None):
        error = refused(desk.db, InvalidInput, withdraw, desk, ref, reason=reason)
        assert error.field == "reason"
    refused(desk.db, SecretDetected, withdraw, desk, ref, reason=key)
    assert withdraw(desk, ref, reason=key, refuse_secrets=False)
    for absent in (ArtifactRef("memory", "memory", 1), ArtifactRef("experience", "exp_none", 1)):
        refused(desk.db, ArtifactNotFound, withdraw, desk, absent)


# cues


def test_cues_that_two_active_heads_share_are_listed(desk):
    outcome = put_outcome(desk.db, "o1", failing())
    other = put_outcome(desk.db, "o2", failing("Rounding"))
    one, two = (
        desk.at(NOW + number).approved(tracking(cue), sources=[outcome])
        for number, cue in enumerate(
            ("Amounts are off by one cent", "AMOUNTS ARE OFF by one cent!")
        )
    )
    desk.approved(tracking("rounding"), sources=[other])
    desk.approved()
    key = "amounts are off by one cent"
    assert ambiguous_cues(desk.db, SCOPE) == [AmbiguousCue(key, (one, two))]
    withdraw(desk, one)
    assert ambiguous_cues(desk.db, SCOPE) == []
    withdraw(desk, one, "active")
    moved = desk.approve(desk.update(two, experience(), sources=[source("s1")])).result
    assert ambiguous_cues(desk.db, SCOPE) == []
    assert read_experience(desk.db, SCOPE, moved).content.failure is None
    refused(desk.db, ScopeNotFound, ambiguous_cues, desk.db, "nowhere")


# purged evidence


def test_citations_of_a_purged_entry_stay_and_say_that_it_is_gone(desk, tmp_path):
    kept, gone = entry(desk.db, "kept"), entry(desk.db, "gone")
    ref = desk.approved(sources=[source("s1")], citations=[kept.citation, gone.citation])
    pending = desk.propose(citations=[gone.citation])
    before = read_experience(desk.db, SCOPE, ref)
    purge(desk.db, SCOPE, gone.entry.entry_id, now_us=NOW)
    after = read_experience(desk.db, SCOPE, ref)
    assert after == replace(before, purged=(gone.citation,))
    assert experience_heads(desk.db, SCOPE).items == (after,)
    assert experience_revisions(desk.db, SCOPE, ref.artifact_id).items == (after,)
    with pytest.raises(EntryPurged):
        remember.read_entry(desk.db, SCOPE, after.purged[0])
    assert review.diff(desk.db, SCOPE, pending.candidate_id).candidate == pending
    assert review.history(desk.db, SCOPE, pending.candidate_id)[0].evidence == pending.evidence
    assert desk.reject(pending).status == "rejected"
    assert withdraw(desk, ref).lifecycle == "deprecated"
    assert [
        one.check
        for one in audit(desk.db, Settings(inbox_age_target_s=315_360_000))
        if not one.passed
    ] == []
