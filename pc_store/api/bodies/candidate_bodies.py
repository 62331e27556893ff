"""Candidates: proposed experiences, the evidence they stand on, and what people decided."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from pc_store import limits
from pc_store.api.bodies.evidence_bodies import (
    EVIDENCE_EXAMPLE,
    EXPERIENCE_EXAMPLE,
    ArtifactRefs,
    CandidateReason,
    Citations,
    SourceRefs,
    cited,
    shown,
)
from pc_store.api.bodies.wire import (
    ArtifactRef,
    Citation,
    Identifier,
    Limit,
    PageCursor,
    ScopeBody,
    SourceRef,
    Wire,
    example,
    moment,
)
from pc_store.domain.candidate import Candidate, CandidateVersion, Origin
from pc_store.domain.experience import Experience
from pc_store.services.read_candidates import Advice, Diff
from pc_store.services.read_candidates import Warned as ReviewWarning

CandidateFamily = Literal["experience"]
CandidateStatus = Literal["pending", "approved", "rejected"]
CandidateExtra = Literal[
    "created_at",
    "updated_at",
    "origin",
    "intent",
    "author",
    "decided_by",
    "window_id",
    "warnings",
    "stale_target",
]
CANDIDATE_EXTRAS_MAX = 9
CandidateInclude = Annotated[
    list[CandidateExtra],
    Field(max_length=CANDIDATE_EXTRAS_MAX, description="Fields to add to each candidate."),
]
Version = Annotated[int, Field(ge=1, description="The version that was looked at.")]

CANDIDATE_EXAMPLE = "cand_019e2a5d4c10000007c1f3a9e2b45d60"


class Warned(Wire):
    """Something a reviewer should know; it refuses nothing by itself."""

    code: Literal["same_cue", "rival", "stale_target", "unchanged", "model_draft"]
    message: str
    artifact: ArtifactRef | None
    candidate_id: Identifier | None


class Permissions(Wire):
    """What the caller may do with a candidate now."""

    can_revise: bool
    can_approve: bool
    can_reject: bool


class _Said(Wire):
    proposal: Experience
    source_refs: list[SourceRef]
    artifact_refs: list[ArtifactRef]
    memory_citations: list[Citation]
    reason: str | None


class ArtifactCandidate(_Said):
    """A candidate with its newest version. The fields from `created_at` on only with `include`."""

    candidate_id: Identifier
    version: int = Field(ge=1)
    family: CandidateFamily
    status: CandidateStatus
    target: ArtifactRef | None
    result_artifact: ArtifactRef | None
    decision_reason: str | None
    permissions: Permissions | None = Field(description="Null on a server without tokens.")
    created_at: datetime | None = None
    updated_at: datetime | None = Field(
        default=None, description="Of its newest version, or of the decision."
    )
    origin: Origin | None = None
    intent: str | None = Field(default=None, description="What a dream meant to do.")
    author: str | None = Field(default=None, description="Empty on a server without tokens.")
    decided_by: str | None = None
    window_id: str | None = Field(default=None, description="The window it comes from.")
    warnings: list[Warned] | None = None
    stale_target: bool | None = Field(
        default=None, description="Its target is no longer an active head: only reject is left."
    )

    @classmethod
    def of(
        cls,
        candidate: Candidate,
        advice: Advice | None,
        permissions: Permissions | None,
        include: Collection[CandidateExtra] = (),
    ) -> Self:
        """From the service's, with the extras asked for.

        Args:
            advice: needed for `warnings` and `stale_target` only.
        """
        extras: dict[str, Any] = {
            name: getattr(candidate, name)
            for name in ("origin", "intent", "author", "decided_by", "window_id")
            if name in include
        }
        for name in ("created_at", "updated_at"):
            if name in include:
                extras[name] = moment(getattr(candidate, name))
        if "warnings" in include:
            extras["warnings"] = [_warned(one) for one in advice.warnings] if advice else []
        if "stale_target" in include:
            extras["stale_target"] = advice is not None and advice.stale_target
        return cls.model_validate(
            {
                "candidate_id": candidate.candidate_id,
                "version": candidate.version,
                "family": candidate.family,
                "status": candidate.status,
                "target": ArtifactRef.of_any(candidate.target),
                "result_artifact": ArtifactRef.of_any(candidate.result),
                "decision_reason": candidate.decision_reason,
                "permissions": permissions,
            }
            | said(candidate)
            | extras
        )


def said(version: Candidate | CandidateVersion) -> dict[str, Any]:
    """What a version of a candidate says, as fields of a body."""
    return {
        "proposal": shown(version.proposal),
        "reason": version.reason,
        **cited(version.evidence),
    }


def _warned(warned: ReviewWarning) -> Warned:
    return Warned(
        code=warned.code,
        message=warned.message,
        artifact=ArtifactRef.of_any(warned.artifact),
        candidate_id=warned.candidate_id,
    )


class ListCandidates(ScopeBody):
    """List candidates of one status, by creation."""

    model_config = example({"scope_id": "orders", "status": "pending", "limit": 50})

    status: CandidateStatus = "pending"
    family: CandidateFamily | None = None
    cursor: PageCursor = None
    limit: Limit = limits.PAGE_DEFAULT
    include: CandidateInclude = Field(default=[])


class CandidatePage(Wire):
    """A page of candidates."""

    candidates: list[ArtifactCandidate]
    next_cursor: str | None


class OfCandidate(ScopeBody):
    """A request about one candidate."""

    candidate_id: Identifier


class GetCandidate(OfCandidate):
    """Read a candidate."""

    model_config = example({"scope_id": "orders", "candidate_id": CANDIDATE_EXAMPLE})

    include: CandidateInclude = Field(default=[])


class GetCandidateHistory(OfCandidate):
    """Every version of a candidate."""

    model_config = example({"scope_id": "orders", "candidate_id": CANDIDATE_EXAMPLE})


class CompareCandidate(OfCandidate):
    """A candidate beside what it would replace."""

    model_config = example({"scope_id": "orders", "candidate_id": CANDIDATE_EXAMPLE})


class ReviseCandidate(OfCandidate):
    """Replace all that a pending candidate says."""

    model_config = example(
        {
            "scope_id": "orders",
            "candidate_id": CANDIDATE_EXAMPLE,
            "expected_version": 1,
            "proposal": EXPERIENCE_EXAMPLE,
        }
        | EVIDENCE_EXAMPLE
    )

    expected_version: Version
    proposal: Experience
    source_refs: SourceRefs
    artifact_refs: ArtifactRefs
    memory_citations: Citations | None = Field(
        default=None, description="Null keeps those it has, an empty list takes them away."
    )
    target: ArtifactRef | None = Field(
        default=None, description="The one it has; it never changes."
    )
    reason: CandidateReason = None
    include: CandidateInclude = Field(default=[])


class ApproveCandidate(OfCandidate):
    """Make a candidate the experience it proposes."""

    model_config = example(
        {"scope_id": "orders", "candidate_id": CANDIDATE_EXAMPLE, "expected_version": 1}
    )

    expected_version: Version
    include: CandidateInclude = Field(default=[])


class RejectCandidate(OfCandidate):
    """Decide against a candidate, for good."""

    model_config = example(
        {
            "scope_id": "orders",
            "candidate_id": CANDIDATE_EXAMPLE,
            "expected_version": 1,
            "reason": "one run is not enough",
        }
    )

    expected_version: Version
    reason: str = Field(min_length=1, max_length=limits.CANDIDATE_REASON_MAX_CHARS)
    include: CandidateInclude = Field(default=[])


class CandidateVersionBody(_Said):
    """One immutable version of a candidate."""

    version: int = Field(ge=1)
    author: str = Field(description="Empty on a server without tokens.")
    created_at: datetime

    @classmethod
    def of(cls, version: CandidateVersion) -> Self:
        """From the service's."""
        return cls.model_validate(
            {
                "version": version.version,
                "author": version.author,
                "created_at": moment(version.created_at),
            }
            | said(version)
        )


class Decision(Wire):
    """How a review ended."""

    status: Literal["approved", "rejected"]
    decided_at: datetime
    decided_by: str = Field(description="Empty on a server without tokens.")
    reason: str | None
    result_artifact: ArtifactRef | None


class CandidateHistory(Wire):
    """Every version, oldest first; and the decision, null while it is pending."""

    candidate_id: Identifier
    versions: list[CandidateVersionBody]
    decision: Decision | None

    @classmethod
    def of(cls, candidate: Candidate, versions: Sequence[CandidateVersion]) -> Self:
        """From the service's."""
        decision = None
        if candidate.status != "pending":
            decision = Decision(
                status=candidate.status,
                decided_at=moment(candidate.updated_at),
                decided_by=candidate.decided_by or "",
                reason=candidate.decision_reason,
                result_artifact=ArtifactRef.of_any(candidate.result),
            )
        return cls(
            candidate_id=candidate.candidate_id,
            versions=[CandidateVersionBody.of(one) for one in versions],
            decision=decision,
        )


class FieldChange(Wire):
    """A field of the proposal beside the target's; null where one of them does not have it."""

    field: str = Field(description="By path, `failure.signature.recall_cue`.")
    before: str | None
    after: str | None
    changed: bool


class CandidateDiff(Wire):
    """What the newest version of a candidate would change."""

    candidate_id: Identifier
    version: int = Field(ge=1)
    target: ArtifactRef | None = Field(description="Null: it would be a new experience.")
    current: ArtifactRef | None = Field(description="The target's head now.")
    state: Literal["active", "deprecated", "retired"] | None = Field(
        description="The target's lifecycle now."
    )
    stale_target: bool = Field(description="The target is no longer an active head.")
    changes: list[FieldChange]

    @classmethod
    def of(cls, diff: Diff) -> Self:
        """From the service's."""
        return cls(
            candidate_id=diff.candidate.candidate_id,
            version=diff.candidate.version,
            target=ArtifactRef.of_any(diff.target),
            current=ArtifactRef.of_any(diff.current),
            state=diff.lifecycle,
            stale_target=diff.stale_target,
            changes=[
                FieldChange(
                    field=one.field, before=one.before, after=one.after, changed=one.changed
                )
                for one in diff.fields
            ],
        )
