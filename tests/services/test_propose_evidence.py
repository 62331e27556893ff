"""Nothing is put before people that its sources, artifacts and citations do not carry."""

from desk import NOW, SCOPE, entry, experience, put, put_internal, refused, source
from reviewing import extracted

from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.evidence_graph import evidence_id
from pc_store.domain.refs import ArtifactRef, Citation
from pc_store.errors import (
    CitedEntryInactive,
    EvidenceLimitExceeded,
    EvidenceUnavailable,
    InvalidCitation,
    InvalidInput,
    SourceNotEligible,
)
from pc_store.services import administer, instruct, remember
from pc_store.services.purge import purge

PROMPT = ArtifactRef("prompt", "memory.extract", 1)


def prompt(db):
    instruct.set_prompt(db, SCOPE, "memory.extract", "Be brief.", now_us=NOW)
    return PROMPT


# rules 1 to 4


def test_without_any_evidence_there_is_no_candidate(desk):
    error = refused(desk.db, InvalidInput, desk.propose)
    assert error.details == {
        "field": "evidence",
        "reason": "is empty; a source, artifact or citation is expected",
    }


def test_a_prompt_alone_is_no_evidence_and_counts_toward_thirty_two(desk):
    ref = prompt(desk.db)
    error = refused(desk.db, InvalidInput, desk.propose, artifacts=[ref])
    assert error.field == "evidence"
    assert "a prompt alone is not evidence" in error.reason
    assert desk.propose(artifacts=[ref], sources=[source("s1")]).evidence.artifacts == (ref,)
    many = [put(desk.db, f"m{number}") for number in range(32)]
    error = refused(desk.db, InvalidInput, desk.propose, artifacts=[ref], sources=many)
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
    assert refused(desk.db, InvalidInput, act).details == {
        "field": "source_refs",
        "reason": "there is no source 'none' of type 'content'",
        "source_ref": {"name": "content", "source_id": "none"},
    }


def test_a_source_of_another_scope_is_missing(desk):
    administer.create_scope(desk.db, "other", now_us=NOW)
    put(desk.db, "theirs", scope="other")
    refused(desk.db, InvalidInput, desk.propose, sources=[source("theirs")])


def test_the_stores_own_record_is_no_evidence(desk):
    ref = put_internal(desk.db, "own")
    error = refused(desk.db, SourceNotEligible, desk.propose, sources=[source("s1"), ref])
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
        error = refused(desk.db, InvalidInput, desk.propose, artifacts=[absent])
        assert error.field == "artifact_refs"
        assert error.details["artifact_ref"] == vars(absent)


# rules 5 and 6, memory entries


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
        desk.db,
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
        error = refused(desk.db, InvalidCitation, desk.propose, citations=[wrong])
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
    error = refused(desk.db, CitedEntryInactive, desk.propose, citations=[active])
    assert (error.code, error.field) == ("memory_entry_inactive", "memory_citations")
    assert error.reason == f"the memory entry {active.entry_id} of revision 1 is retired now"
    remember.reactivate(desk.db, SCOPE, retired, now_us=NOW)
    assert desk.propose(citations=[active]).evidence.citations == (active,)
    error = refused(desk.db, CitedEntryInactive, desk.propose, citations=[retired])
    assert error.reason.endswith("of revision 2 was retired at that revision")


def test_a_purged_entry_cannot_be_cited_any_more(desk, tmp_path):
    cited = entry(desk.db)
    purge(desk.db, SCOPE, cited.entry.entry_id, now_us=NOW)
    error = refused(desk.db, EvidenceUnavailable, desk.propose, citations=[cited.citation])
    assert (error.code, error.reason.endswith("was erased")) == ("evidence_unavailable", True)


def test_a_retired_entry_under_an_artifact_is_told_from_one_that_is_cited(desk):
    cited = entry(desk.db)
    first = desk.approve(desk.propose(citations=[cited.citation])).result
    second = desk.approve(desk.update(first)).result
    third = desk.approve(desk.update(second, experience(action="Third."))).result
    remember.retire(desk.db, SCOPE, cited.citation, now_us=NOW)
    for target in (first, third):
        error = refused(desk.db, CitedEntryInactive, desk.propose, artifacts=[target])
        assert error.field == "artifact_refs"
        assert error.reason == (
            f"the memory entry {cited.citation.entry_id} of revision 1, which a cited artifact "
            "was made from, is retired now"
        )
    assert desk.propose(sources=[source("s1")])
