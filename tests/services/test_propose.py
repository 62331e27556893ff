"""A proposal becomes one pending candidate, of the head of its target, without a credential."""

import pytest
from desk import (
    CUE,
    FAILURE,
    NOW,
    SCOPE,
    Desk,
    entry,
    experience,
    failing,
    put_outcome,
    refused,
    source,
    tracking,
)
from reviewing import KEY

from pc_store.domain.candidate import Candidate, EvidenceRefs, fingerprint
from pc_store.domain.refs import ArtifactRef
from pc_store.errors import (
    ArtifactConflict,
    ArtifactInactive,
    Conflict,
    InvalidInput,
    ScopeNotFound,
    SecretDetected,
)
from pc_store.services import administer, experiences, propose
from pc_store.services.review import list_candidates


def test_a_proposal_is_a_pending_candidate_at_version_one_with_all_that_is_known_of_it(desk):
    made = desk.propose(sources=[source("s2"), source("s1")], reason=" seen twice ", author="ada")
    assert made == Candidate(
        scope_id=SCOPE,
        candidate_id=made.candidate_id,
        family="experience",
        version=1,
        status="pending",
        origin="propose",
        intent=None,
        author="ada",
        target=None,
        fingerprint=fingerprint(experience(), EvidenceRefs((source("s1"), source("s2")))),
        cue_key=None,
        result=None,
        decision_reason=None,
        decided_by=None,
        window_id=None,
        created_at=NOW,
        updated_at=NOW,
        proposal=experience(),
        evidence=EvidenceRefs((source("s2"), source("s1"))),
        reason="seen twice",
    )
    assert desk.get(made) == made
    prefix, digits = made.candidate_id[:5], made.candidate_id[5:]
    assert (prefix, len(digits), int(digits, 16) > 0) == ("cand_", 32, True)


def test_the_same_proposal_twice_makes_two_candidates_that_share_a_fingerprint(desk):
    first, second = (desk.propose(sources=[source("s1")]) for _ in range(2))
    assert first.candidate_id != second.candidate_id
    assert first.fingerprint == second.fingerprint
    with desk.db.read() as conn:
        asked = [first.fingerprint, "0" * 64]
        known = propose.known_fingerprints(conn, SCOPE, asked)
    assert known == {first.fingerprint: min(first.candidate_id, second.candidate_id)}


def test_a_fingerprint_stays_known_after_a_revision_and_a_decision_and_only_in_its_scope(desk):
    revised = desk.propose(sources=[source("s1")])
    desk.revise(revised, proposal=experience(lesson="Other."))
    rejected = desk.propose(experience(action="x"), sources=[source("s1")])
    desk.reject(rejected)
    approved = desk.propose(experience(action="y"), sources=[source("s1")])
    desk.approve(approved)
    administer.create_scope(desk.db, "other", now_us=NOW)
    prints = {one.fingerprint: one.candidate_id for one in (revised, rejected, approved)}
    with desk.db.read() as conn:
        assert propose.known_fingerprints(conn, SCOPE, prints) == prints
        assert propose.known_fingerprints(conn, "other", prints) == {}
        assert propose.known_fingerprints(conn, SCOPE, []) == {}


def test_references_given_twice_count_once_in_the_order_they_first_came(desk):
    twice = [source("s2"), source("s1"), source("s2")]
    assert desk.propose(sources=twice).evidence.sources == (source("s2"), source("s1"))


@pytest.mark.parametrize("blank", ["", " ", "\n"])
def test_a_reason_is_trimmed_and_bounded_and_not_blank(desk, blank):
    error = refused(desk.db, InvalidInput, desk.propose, sources=[source("s1")], reason=blank)
    assert error.details == {"field": "reason", "reason": "is blank"}
    assert desk.propose(sources=[source("s1")], reason="é" * 2_000).reason == "é" * 2_000
    error = refused(
        desk.db, InvalidInput, lambda: desk.propose(sources=[source("s1")], reason="é" * 2_001)
    )
    assert error.message == "reason: has 2001 characters, the most is 2000"


def test_an_unknown_scope_is_not_found(desk):
    other = Desk(desk.db, "nowhere")
    refused(desk.db, ScopeNotFound, other.propose, sources=[source("s1")])


# targets


def test_a_target_is_an_experience_among_the_artifacts_exactly_as_it_is(desk):
    entry(desk.db)
    first = desk.approved()
    memory = ArtifactRef("memory", "memory", 1)
    second = ArtifactRef("experience", first.artifact_id, 2)
    none = ArtifactRef("experience", "exp_none", 1)
    act = lambda target, *used: desk.propose(  # noqa: E731
        sources=[source("s1")], artifacts=used, target=target
    )
    told = {
        name: refused(desk.db, InvalidInput, lambda call=call: act(*call)).details
        for name, call in {
            "family": (memory, memory),
            "left out": (first,),
            "other revision": (second, first),
        }.items()
    }
    named = f"experience/{first.artifact_id}"
    assert told == {
        "family": {
            "field": "target",
            "reason": "is of the family 'memory', not an experience",
        },
        "left out": {
            "field": "target",
            "reason": f"{named} revision 1 is not among the artifact references",
        },
        "other revision": {
            "field": "target",
            "reason": f"{named} revision 2 is not among the artifact references",
        },
    }
    refused(desk.db, InvalidInput, act, none, none)
    assert act(first, first).target == first


def test_a_target_must_be_the_head_and_the_refusal_says_what_is(desk):
    first = desk.approved()
    second = desk.approve(desk.update(first)).result
    error = refused(desk.db, ArtifactConflict, desk.update, first)
    assert (error.code, error.details) == ("artifact_conflict", {"current": vars(second)})
    assert desk.update(second, experience(action="x")).target == second


def test_a_withdrawn_target_is_refused(desk):
    first = desk.approved()
    for state in ("deprecated", "retired"):
        experiences.set_lifecycle(desk.db, SCOPE, first, state=state, reason="wrong", now_us=NOW)
        error = refused(desk.db, ArtifactInactive, desk.update, first)
        assert error.details == {"artifact": vars(first), "lifecycle": state}
        assert f"is {state} and takes no new revision" in error.message
    assert desk.propose(artifacts=[first]).target is None


# credentials


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"situation": f"with {KEY}"}, "proposal.situation"),
        ({"action": f"with {KEY}"}, "proposal.action"),
        ({"outcome": f"with {KEY}"}, "proposal.outcome"),
        ({"lesson": f"with {KEY}"}, "proposal.lesson"),
        (
            {"failure": FAILURE | {"signature": {"recall_cue": KEY}}},
            "proposal.failure.signature.recall_cue",
        ),
        (
            {"failure": FAILURE | {"signature": {"recall_cue": CUE, "symptom": KEY}}},
            "proposal.failure.signature.symptom",
        ),
        (
            {"failure": FAILURE | {"verification": {"condition": KEY, "check_subject": "c"}}},
            "proposal.failure.verification.condition",
        ),
        (
            {"failure": FAILURE | {"verification": {"condition": "c", "check_subject": KEY}}},
            "proposal.failure.verification.check_subject",
        ),
    ],
)
def test_a_credential_is_refused_wherever_it_stands_and_never_repeated(desk, changes, field):
    outcome = put_outcome(desk.db, "o1", failing())
    error = refused(
        desk.db,
        SecretDetected,
        lambda: desk.propose(experience(**changes), sources=[outcome]),
    )
    assert error.details == {"field": field, "reason": "contains a credential: AWS access key"}
    assert KEY not in str(error)


def test_a_credential_in_the_reason_is_refused_and_the_setting_allows_both(desk):
    act = lambda **more: desk.propose(  # noqa: E731
        experience(action=KEY), sources=[source("s1")], reason=KEY, **more
    )
    assert refused(desk.db, SecretDetected, act).field == "reason"
    assert act(refuse_secrets=False).reason == KEY


# what others build on


def test_a_caller_may_choose_the_id_once(desk):
    def put_one(**more):
        with desk.db.write() as conn:
            return propose.propose_in(
                conn,
                SCOPE,
                experience(),
                EvidenceRefs((source("s1"),)),
                origin="dream",
                intent="create",
                author="run",
                window_id="w1",
                candidate_id="cand_dream_1",
                now_us=NOW,
                **more,
            )

    made = put_one()
    assert (made.candidate_id, made.origin, made.intent, made.window_id) == (
        "cand_dream_1",
        "dream",
        "create",
        "w1",
    )
    refused(desk.db, Conflict, put_one)


def test_one_recurrence_review_is_open_per_target_and_cue(desk):
    outcome = put_outcome(desk.db, "o1", failing())
    first = desk.approved(tracking(), sources=[outcome])
    same = {"sources": [outcome], "origin": "recurrence"}
    opened = desk.update(first, tracking(), **same)
    refused(desk.db, Conflict, desk.update, first, tracking(), **same)
    desk.update(first, tracking(), sources=[outcome])
    desk.reject(opened)
    assert desk.update(first, tracking(), **same).status == "pending"


def test_a_refusal_inside_a_larger_transaction_leaves_the_rest_of_it_whole(desk):
    with desk.db.write() as conn:
        for lesson, names in (("One.", ("s1",)), ("Two.", ("none",)), ("Three.", ("s2",))):
            evidence = EvidenceRefs(tuple(map(source, names)))
            try:
                propose.propose_in(
                    conn,
                    SCOPE,
                    experience(lesson=lesson),
                    evidence,
                    origin="incubation",
                    now_us=NOW,
                )
            except InvalidInput as error:
                refusal = error.message
    assert refusal == "source_refs: there is no source 'none' of type 'content'"
    found = list_candidates(desk.db, SCOPE).items
    assert sorted(one.proposal.lesson for one in found) == ["One.", "Three."]
