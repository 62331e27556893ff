"""Nothing is put before people that its evidence does not carry."""

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
    put,
    put_internal,
    put_outcome,
    source,
    tracking,
)
from desk import refused as desk_refused

from pc_store.domain import strict_json
from pc_store.domain.candidate import Candidate, EvidenceRefs, fingerprint
from pc_store.domain.entry import Draft
from pc_store.domain.evidence_graph import evidence_id
from pc_store.domain.refs import ArtifactRef, Citation
from pc_store.errors import (
    ArtifactConflict,
    ArtifactInactive,
    CitedEntryInactive,
    Conflict,
    EvidenceLimitExceeded,
    EvidenceUnavailable,
    InvalidCitation,
    InvalidInput,
    ScopeNotFound,
    SecretDetected,
    SourceNotEligible,
)
from pc_store.services import administer, experiences, instruct, propose, remember
from pc_store.services.commit import commit_drafts
from pc_store.services.purge import purge
from pc_store.services.remember import cite
from pc_store.services.review import list_candidates

PROMPT = ArtifactRef("prompt", "memory.extract", 1)


@pytest.fixture
def desk(shop_db):
    put(shop_db, "s1", "s2", "log")
    return Desk(shop_db)


def prompt(db):
    instruct.set_prompt(db, SCOPE, "memory.extract", "Be brief.", now_us=NOW)
    return PROMPT


def extracted(db, text, *refs):
    """An entry that stands on sources."""
    with db.write() as conn:
        done = commit_drafts(
            conn,
            SCOPE,
            [Draft("add", "fact", text, tuple(refs))],
            origin="extraction",
            now_us=NOW,
            lineage_sources=refs,
        )
    return cite(db, SCOPE, done.changed[0].entry_id).citation


def refused(desk, kind, act, *given, **more):
    return desk_refused(desk.db, kind, act, *given, **more)


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
    error = refused(desk, InvalidInput, desk.propose, sources=[source("s1")], reason=blank)
    assert error.details == {"field": "reason", "reason": "is blank"}
    assert desk.propose(sources=[source("s1")], reason="é" * 2_000).reason == "é" * 2_000
    error = refused(
        desk, InvalidInput, lambda: desk.propose(sources=[source("s1")], reason="é" * 2_001)
    )
    assert error.message == "reason: has 2001 characters, the most is 2000"


# evidence: rules 1 to 4


def test_without_any_evidence_there_is_no_candidate(desk):
    error = refused(desk, InvalidInput, desk.propose)
    assert error.details == {
        "field": "evidence",
        "reason": "is empty; a source, artifact or citation is expected",
    }


def test_a_prompt_alone_is_no_evidence_and_counts_toward_thirty_two(desk):
    ref = prompt(desk.db)
    error = refused(desk, InvalidInput, desk.propose, artifacts=[ref])
    assert error.field == "evidence"
    assert "a prompt alone is not evidence" in error.reason
    assert desk.propose(artifacts=[ref], sources=[source("s1")]).evidence.artifacts == (ref,)
    many = [put(desk.db, f"m{number}") for number in range(32)]
    error = refused(desk, InvalidInput, desk.propose, artifacts=[ref], sources=many)
    assert error.details == {
        "field": "evidence",
        "reason": "has 33 references, the most is 32",
        "limit": 32,
        "observed": 33,
    }
    assert len(desk.propose(sources=many).evidence) == 32
    assert len(desk.propose(sources=[*many, many[0]]).evidence) == 32


def test_a_missing_source_is_refused_by_name(desk):
    act = lambda: desk.propose(sources=[source("s1"), source("none")])  # noqa: E731
    assert refused(desk, InvalidInput, act).details == {
        "field": "source_refs",
        "reason": "there is no source 'none' of type 'content'",
        "source_ref": {"name": "content", "source_id": "none"},
    }


def test_a_source_of_another_scope_is_missing(desk):
    administer.create_scope(desk.db, "other", now_us=NOW)
    put(desk.db, "theirs", scope="other")
    refused(desk, InvalidInput, desk.propose, sources=[source("theirs")])


def test_the_stores_own_record_is_no_evidence(desk):
    ref = put_internal(desk.db, "own")
    error = refused(desk, SourceNotEligible, desk.propose, sources=[source("s1"), ref])
    assert (error.code, error.details["source_ref"]) == (
        "source_not_eligible",
        {"name": "content", "source_id": "own"},
    )


def test_artifacts_of_any_family_and_revision_are_evidence_if_they_exist(desk):
    entry(desk.db, "one")
    entry(desk.db, "two")
    first = desk.approved()
    second = desk.approve(desk.update(first)).result
    historical = [first, second, ArtifactRef("memory", "memory", 1)]
    made = desk.propose(artifacts=historical)
    assert (made.evidence.artifacts, made.target) == (tuple(historical), None)
    for absent in (
        ArtifactRef("experience", first.artifact_id, 3),
        ArtifactRef("experience", "exp_none", 1),
        ArtifactRef("memory", "memory", 9),
        ArtifactRef("skill", "any", 1),
    ):
        error = refused(desk, InvalidInput, desk.propose, artifacts=[absent])
        assert error.field == "artifact_refs"
        assert error.details["artifact_ref"] == vars(absent)


def test_an_unknown_scope_is_not_found(desk):
    other = Desk(desk.db, "nowhere")
    refused(desk, ScopeNotFound, other.propose, sources=[source("s1")])


# evidence: rules 5 and 6, memory entries


def test_the_root_sources_of_a_cited_entry_come_along_by_evidence_id(desk):
    put(desk.db, *(f"r{number}" for number in range(6)))
    roots = [source(f"r{number}") for number in range(6)]
    citation = extracted(desk.db, "Cents.", *roots)
    made = desk.propose(citations=[citation], sources=[source("s1"), roots[2]])
    others = sorted((one for one in roots if one != roots[2]), key=evidence_id)
    assert made.evidence == EvidenceRefs((source("s1"), roots[2], *others), (), (citation,))
    assert others != sorted(others), "the order would show nothing"


def test_an_entry_without_sources_adds_none(desk):
    citation = entry(desk.db).citation
    assert desk.propose(citations=[citation]).evidence == EvidenceRefs((), (), (citation,))


def test_thirty_two_is_the_most_also_after_the_root_sources(desk):
    names = [f"r{number}" for number in range(31)]
    put(desk.db, *names)
    citation = extracted(desk.db, "Cents.", *map(source, names))
    made = desk.propose(citations=[citation])
    assert len(made.evidence) == 32
    error = refused(
        desk,
        EvidenceLimitExceeded,
        lambda: desk.propose(citations=[citation], sources=[source("s1")]),
    )
    assert (error.code, error.details["limit"], error.details["observed"]) == (
        "evidence_limit_exceeded",
        32,
        33,
    )


def test_root_sources_are_added_for_entries_that_are_cited_directly_only(desk):
    citation = extracted(desk.db, "Cents.", source("s2"))
    first = desk.approve(desk.propose(citations=[citation])).result
    made = desk.propose(artifacts=[first])
    assert made.evidence == EvidenceRefs((), (first,), ())


def test_the_stores_own_records_below_an_entry_do_not_come_along(desk):
    own = put_internal(desk.db, "own")
    citation = extracted(desk.db, "Cents.", own, source("s2"))
    assert desk.propose(citations=[citation]).evidence.sources == (source("s2"),)


def test_a_citation_must_name_an_entry_version_of_that_revision(desk):
    one = entry(desk.db, "one").citation
    two = entry(desk.db, "two").citation
    memory = two.memory
    for wrong in (
        Citation(memory, "mem_ent_none", one.entry_version_id),
        Citation(memory, one.entry_id, two.entry_version_id),
        Citation(one.memory, two.entry_id, two.entry_version_id),
        Citation(ArtifactRef("memory", "memory", 3), one.entry_id, one.entry_version_id),
        Citation(ArtifactRef("memory", "other", 1), one.entry_id, one.entry_version_id),
        Citation(ArtifactRef("prompt", "memory", 1), one.entry_id, one.entry_version_id),
    ):
        error = refused(desk, InvalidCitation, desk.propose, citations=[wrong])
        assert (error.code, error.field) == ("invalid_memory_citation", "memory_citations")
        assert error.details["memory_citation"]["entry_id"] == wrong.entry_id


def test_an_old_version_of_an_entry_that_is_still_active_may_be_cited(desk):
    old = entry(desk.db, "one").citation
    new = remember.revise(desk.db, SCOPE, old, kind="fact", text="two", now_us=NOW).entry
    made = desk.propose(citations=[old, new.citation])
    assert made.evidence.citations == (old, new.citation)


def test_an_entry_that_is_retired_then_or_now_cannot_be_cited(desk):
    active = entry(desk.db).citation
    retired = remember.retire(desk.db, SCOPE, active, now_us=NOW).entry.citation
    error = refused(desk, CitedEntryInactive, desk.propose, citations=[active])
    assert (error.code, error.field) == ("memory_entry_inactive", "memory_citations")
    assert error.reason == f"the memory entry {active.entry_id} of revision 1 is retired now"
    remember.reactivate(desk.db, SCOPE, retired, now_us=NOW)
    assert desk.propose(citations=[active]).evidence.citations == (active,)
    error = refused(desk, CitedEntryInactive, desk.propose, citations=[retired])
    assert error.reason.endswith("of revision 2 was retired at that revision")


def test_a_purged_entry_cannot_be_cited_any_more(desk, tmp_path):
    cited = entry(desk.db)
    purge(desk.db, SCOPE, cited.entry.entry_id, now_us=NOW)
    error = refused(desk, EvidenceUnavailable, desk.propose, citations=[cited.citation])
    assert (error.code, error.reason.endswith("was erased")) == ("evidence_unavailable", True)


def test_a_retired_entry_under_an_artifact_is_told_from_one_that_is_cited(desk):
    cited = entry(desk.db)
    first = desk.approve(desk.propose(citations=[cited.citation])).result
    second = desk.approve(desk.update(first)).result
    third = desk.approve(desk.update(second, experience(action="Third."))).result
    remember.retire(desk.db, SCOPE, cited.citation, now_us=NOW)
    for target in (first, third):
        error = refused(desk, CitedEntryInactive, desk.propose, artifacts=[target])
        assert error.field == "artifact_refs"
        assert error.reason == (
            f"the memory entry {cited.citation.entry_id} of revision 1, which a cited artifact "
            "was made from, is retired now"
        )
    assert desk.propose(sources=[source("s1")])


# the failure rule


def test_a_failure_needs_an_outcome_that_shows_it(desk):
    act = lambda refs: desk.propose(tracking(), sources=refs)  # noqa: E731
    error = refused(desk, InvalidInput, act, [source("s1")])
    assert error.details == {
        "field": "evidence",
        "reason": "no task outcome among the sources has a verified failing item "
        "that equals the cue",
        "rule": "failure",
        "cue_key": "amounts are off by one cent",
    }
    seen = put_outcome(desk.db, "o1", failing("  “ＡＭＯＵＮＴＳ are off\n by one cent!!” "))
    made = act([source("s1"), seen])
    assert (made.cue_key, made.evidence.sources) == (
        "amounts are off by one cent",
        (source("s1"), seen),
    )


OBSERVED = {
    "checks": [],
    "observations": [
        {
            "text": CUE,
            "basis": "verified",
            "evidence": [
                {"kind": "source", "source_ref": {"source_type": "content", "source_id": "log"}}
            ],
        }
    ],
}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (failing(), True),
        (failing(status="succeeded"), True),
        (failing(**OBSERVED), True),
        (failing(**OBSERVED, status="blocked"), True),
        (failing(**OBSERVED, status="partial"), False),
        (failing("another failure"), False),
        (failing(checks=[{"name": CUE, "status": "failed"}]), False),
        (failing("!!!"), False),
        (failing(extra="field"), False),
        ("no JSON", False),
        ("[]", False),
    ],
)
def test_which_outcomes_show_a_failure(desk, value, shown):
    ref = put_outcome(desk.db, "o1", value)
    if shown:
        assert desk.propose(tracking(), sources=[ref]).status == "pending"
    else:
        error = refused(desk, InvalidInput, desk.propose, tracking(), sources=[ref])
        assert error.details["rule"] == "failure"


def test_an_item_without_a_letter_is_no_error_and_does_not_hide_the_one_that_matches(desk):
    outcome = failing()
    outcome["checks"] = [outcome["checks"][0] | {"name": "!!!"}, outcome["checks"][0]]
    ref = put_outcome(desk.db, "o1", outcome)
    assert desk.propose(tracking(), sources=[ref]).status == "pending"


def test_only_the_sources_given_count_neither_lineage_nor_roots_nor_other_kinds(desk):
    outcome = put_outcome(desk.db, "o1", failing())
    first = desk.approved(tracking(), sources=[outcome])
    citation = extracted(desk.db, "Cents.", outcome)
    plain = put(desk.db, "plain", content=strict_json.dumps(failing()))
    for evidence in (
        {"artifacts": [first]},
        {"citations": [citation]},
        {"sources": [plain]},
    ):
        error = refused(desk, InvalidInput, desk.propose, tracking(), **evidence)
        assert error.details["rule"] == "failure"
    with pytest.raises(InvalidInput, match="no task outcome"):
        desk.update(first, tracking(lesson="Success only."), sources=[source("s1")])
    kept = tracking(lesson="x")
    assert desk.update(first, kept, sources=[outcome]).proposal == kept


def test_changing_only_the_repair_surface_needs_the_failing_outcome_again(desk):
    outcome = put_outcome(desk.db, "o1", failing())
    first = desk.approved(tracking(), sources=[outcome])
    changed = experience(failure=FAILURE | {"repair_surface": "working_state"})
    refused(desk, InvalidInput, desk.update, first, changed, sources=[source("s1")])
    assert desk.update(first, changed, sources=[outcome]).proposal == changed


def test_the_items_own_evidence_must_be_there(desk):
    named = {
        "source": {"kind": "source", "source_ref": {"name": "content", "source_id": "gone"}},
        "own": {"kind": "source", "source_ref": {"name": "content", "source_id": "own"}},
        "artifact": {
            "kind": "artifact",
            "artifact_ref": {"family": "experience", "artifact_id": "exp_none", "revision": 1},
        },
        "memory": {
            "kind": "memory",
            "memory_citation": {
                "memory_ref": {"family": "memory", "artifact_id": "memory", "revision": 1},
                "entry_id": "mem_ent_none",
                "entry_version_id": "mem_ver_none",
            },
        },
    }
    put_internal(desk.db, "own")
    told = {}
    for name, evidence in named.items():
        ref = put_outcome(desk.db, f"o-{name}", failing(evidence=[evidence]))
        act = lambda ref=ref: desk.propose(tracking(), sources=[ref])  # noqa: E731
        told[name] = refused(desk, InvalidInput, act).reason
    start = "the failing item that equals the cue has evidence that cannot be used: check 0 of "
    assert told == {
        "source": f"{start}'o-source' relies on: source_refs: "
        "there is no source 'gone' of type 'content'",
        "own": f"{start}'o-own' relies on: source_refs: "
        "the source 'own' of type 'content' is the store's own record",
        "artifact": f"{start}'o-artifact' relies on: artifact_refs: "
        "there is no experience/exp_none revision 1",
        "memory": f"{start}'o-memory' relies on: memory_citations: "
        "the memory entry mem_ent_none of revision 1 is not in that revision",
    }
    put(desk.db, "gone")
    assert desk.propose(tracking(), sources=[source("o-source")]).status == "pending"


def test_an_item_that_relies_on_a_retired_entry_does_not_count(desk):
    cited = entry(desk.db).citation
    evidence = {
        "kind": "memory",
        "memory_citation": {
            "memory_ref": vars(cited.memory),
            "entry_id": cited.entry_id,
            "entry_version_id": cited.entry_version_id,
        },
    }
    ref = put_outcome(desk.db, "o1", failing(evidence=[evidence]))
    assert desk.propose(tracking(), sources=[ref]).status == "pending"
    remember.retire(desk.db, SCOPE, cited, now_us=NOW)
    error = refused(desk, InvalidInput, desk.propose, tracking(), sources=[ref])
    assert error.reason.endswith("is retired now")


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
        name: refused(desk, InvalidInput, lambda call=call: act(*call)).details
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
    refused(desk, InvalidInput, act, none, none)
    assert act(first, first).target == first


def test_a_target_must_be_the_head_and_the_refusal_says_what_is(desk):
    first = desk.approved()
    second = desk.approve(desk.update(first)).result
    error = refused(desk, ArtifactConflict, desk.update, first)
    assert (error.code, error.details) == ("artifact_conflict", {"current": vars(second)})
    assert desk.update(second, experience(action="x")).target == second


def test_a_withdrawn_target_is_refused(desk):
    first = desk.approved()
    for state in ("deprecated", "retired"):
        experiences.set_lifecycle(desk.db, SCOPE, first, state=state, reason="wrong", now_us=NOW)
        error = refused(desk, ArtifactInactive, desk.update, first)
        assert error.details == {"artifact": vars(first), "lifecycle": state}
        assert f"is {state} and takes no new revision" in error.message
    assert desk.propose(artifacts=[first]).target is None


# credentials


KEY = "AKIA" + "ABCDEFGHIJKLMNOP"


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
        desk,
        SecretDetected,
        lambda: desk.propose(experience(**changes), sources=[outcome]),
    )
    assert error.details == {"field": field, "reason": "contains a credential: AWS access key"}
    assert KEY not in str(error)


def test_a_credential_in_the_reason_is_refused_and_the_setting_allows_both(desk):
    act = lambda **more: desk.propose(  # noqa: E731
        experience(action=KEY), sources=[source("s1")], reason=KEY, **more
    )
    assert refused(desk, SecretDetected, act).field == "reason"
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
    refused(desk, Conflict, put_one)


def test_one_recurrence_review_is_open_per_target_and_cue(desk):
    outcome = put_outcome(desk.db, "o1", failing())
    first = desk.approved(tracking(), sources=[outcome])
    same = {"sources": [outcome], "origin": "recurrence"}
    opened = desk.update(first, tracking(), **same)
    refused(desk, Conflict, desk.update, first, tracking(), **same)
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
