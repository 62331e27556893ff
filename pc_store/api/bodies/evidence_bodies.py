"""What proposals consist of: an experience's content, and references to its evidence."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from pc_store import limits
from pc_store.api.bodies.wire import ArtifactRef, Citation, ScopeBody, SourceRef
from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.experience import Experience

CandidateReason = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=limits.CANDIDATE_REASON_MAX_CHARS,
        description="Why; shown to who reviews it.",
        examples=["seen again in two imports"],
    ),
]
SourceRefs = Annotated[list[SourceRef], Field(max_length=limits.EVIDENCE_MAX)]
ArtifactRefs = Annotated[list[ArtifactRef], Field(max_length=limits.EVIDENCE_MAX)]
Citations = Annotated[list[Citation], Field(max_length=limits.EVIDENCE_MAX)]
EXPERIENCE_EXAMPLE = {
    "situation": "An amount went through a float before it became integer cents.",
    "action": "Parsed the text as Decimal and converted it by the project's rule.",
    "outcome": "The input that was off by one cent gives the expected value.",
    "lesson": "Parse money as Decimal from the original text.",
}
EVIDENCE_EXAMPLE: dict[str, Any] = {
    "source_refs": [{"name": "content", "source_id": "worklog-17"}],
    "artifact_refs": [],
}


class Evidenced(ScopeBody):
    """A request that cites evidence: 1 to 32 references, of all kinds together."""

    source_refs: SourceRefs
    artifact_refs: ArtifactRefs


def shown(experience: Experience) -> Experience:
    """An experience whose every field is sent, `failure` too when it is null."""
    return Experience.model_validate(experience.to_json())


def cited(refs: EvidenceRefs) -> dict[str, Any]:
    """References as fields of a body."""
    return {
        "source_refs": [SourceRef.of(ref) for ref in refs.sources],
        "artifact_refs": [ArtifactRef.of(ref) for ref in refs.artifacts],
        "memory_citations": [Citation.of(one) for one in refs.citations],
    }


def evidence(
    source_refs: Sequence[SourceRef],
    artifact_refs: Sequence[ArtifactRef],
    citations: Sequence[Citation] = (),
) -> EvidenceRefs:
    """References as the domain has them."""
    return EvidenceRefs(
        tuple(ref.ref() for ref in source_refs),
        tuple(ref.ref() for ref in artifact_refs),
        tuple(one.citation() for one in citations),
    )
