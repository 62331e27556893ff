"""A candidate: a proposed experience, the evidence it stands on, and what people decided of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pc_store import limits
from pc_store.domain import strict_json, text
from pc_store.domain.experience import Experience
from pc_store.domain.refs import PROMPT_FAMILY, ArtifactRef, Citation, SourceRef
from pc_store.errors import InvalidInput

Origin = Literal["propose", "generate", "incubation", "recurrence", "dream"]
Status = Literal["pending", "approved", "rejected"]


@dataclass(frozen=True)
class EvidenceRefs:
    """What a candidate stands on; each reference once, in the order given."""

    sources: tuple[SourceRef, ...] = ()
    artifacts: tuple[ArtifactRef, ...] = ()
    citations: tuple[Citation, ...] = ()

    def __post_init__(self) -> None:
        for name in ("sources", "artifacts", "citations"):
            object.__setattr__(self, name, tuple(dict.fromkeys(getattr(self, name))))

    def __len__(self) -> int:
        return len(self.sources) + len(self.artifacts) + len(self.citations)

    def refuse_wrong_size(self) -> None:
        """Raise InvalidInput unless it is 1 to 32 references, one of them not a prompt."""
        if not (
            self.sources
            or self.citations
            or any(ref.family != PROMPT_FAMILY for ref in self.artifacts)
        ):
            what = "a prompt alone is not evidence" if self.artifacts else "is empty"
            raise InvalidInput("evidence", f"{what}; a source, artifact or citation is expected")
        if len(self) > limits.EVIDENCE_MAX:
            raise InvalidInput(
                "evidence",
                f"has {len(self)} references, the most is {limits.EVIDENCE_MAX}",
                limit=limits.EVIDENCE_MAX,
                observed=len(self),
            )


@dataclass(frozen=True)
class CandidateVersion:
    """One immutable version of what a candidate proposes."""

    version: int
    proposal: Experience
    evidence: EvidenceRefs
    reason: str | None
    fingerprint: str
    author: str
    created_at: int


@dataclass(frozen=True)
class Candidate:
    """A candidate with its newest version.

    Attributes:
        target: the exact experience revision it would replace; None for a new experience.
        fingerprint: see `fingerprint`.
        cue_key: the proposal's normalised recall cue.
        result: the experience revision that its approval made.
        decided_by: who approved or rejected it; empty without authentication, None if pending.
        created_at: of the candidate; `updated_at` of the newest version or the decision.
    """

    scope_id: str
    candidate_id: str
    family: str
    version: int
    status: Status
    origin: Origin
    intent: str | None
    author: str
    target: ArtifactRef | None
    fingerprint: str
    cue_key: str | None
    result: ArtifactRef | None
    decision_reason: str | None
    decided_by: str | None
    window_id: str | None
    created_at: int
    updated_at: int
    proposal: Experience
    evidence: EvidenceRefs
    reason: str | None


@dataclass(frozen=True)
class FieldChange:
    """A field of the proposal beside the target's; None where one of them has no such field."""

    field: str
    before: str | None
    after: str | None

    @property
    def changed(self) -> bool:
        """Whether they differ."""
        return self.before != self.after


def fingerprint(proposal: Experience, evidence: EvidenceRefs) -> str:
    """Tell a proposal from others by its content and the set of its evidence, as hex SHA-256.

    Neither the order of the references counts nor the prompt that led to it, which is recorded
    among the artifacts and is no evidence.
    """
    value = {
        "proposal": proposal.to_json(),
        "sources": [[ref.source_type, ref.source_id] for ref in sorted(set(evidence.sources))],
        "artifacts": [
            [ref.family, ref.artifact_id, ref.revision]
            for ref in sorted(set(evidence.artifacts))
            if ref.family != PROMPT_FAMILY
        ],
        "citations": sorted(
            [
                cited.memory.artifact_id,
                cited.memory.revision,
                cited.entry_id,
                cited.entry_version_id,
            ]
            for cited in set(evidence.citations)
        ),
    }
    return strict_json.digest_prefixed("pc:candidate:v1", value)


def reason(value: str | None, *, field: str = "reason") -> str | None:
    """Normalise a reason; None stays None.

    Raises:
        InvalidInput: blank, unstorable, or over 2,000 characters.
    """
    if value is None:
        return None
    told = text.normalise(text.storable(field, value))
    if not told:
        raise InvalidInput(field, "is blank")
    return text.within(field, told, limits.CANDIDATE_REASON_MAX_CHARS)


def compare(before: Experience | None, after: Experience) -> tuple[FieldChange, ...]:
    """Every field of two experiences side by side, those of the failure by their path."""
    old = _flat(before.to_json()) if before else {}
    new = _flat(after.to_json())
    return tuple(
        FieldChange(name, old.get(name), new.get(name)) for name in dict.fromkeys([*new, *old])
    )


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name, item in value.items():
        if isinstance(item, Mapping):
            found |= _flat(item, f"{prefix}{name}.")
        elif not (name == "failure" and item is None):
            found[f"{prefix}{name}"] = item
    return found
