"""Experiences: proposals for them, exact revisions, search, lifecycle, incubation."""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from pc_store import limits
from pc_store.api.bodies.candidate_bodies import (
    CANDIDATE_EXAMPLE,
    ArtifactCandidate,
    CandidateInclude,
)
from pc_store.api.bodies.evidence_bodies import (
    EVIDENCE_EXAMPLE,
    EXPERIENCE_EXAMPLE,
    CandidateReason,
    Citations,
    Evidenced,
    cited,
    shown,
)
from pc_store.api.bodies.memory_bodies import ChannelScore, SearchMode
from pc_store.api.bodies.wire import (
    ArtifactRef,
    Citation,
    Identifier,
    ScopeBody,
    SourceRef,
    Wire,
    example,
    moment,
)
from pc_store.domain.experience import Experience
from pc_store.services.experiences import ExperienceRevision, LifecycleChange
from pc_store.services.settle import Processed

LifecycleState = Literal["active", "deprecated", "retired"]
ExperienceExtra = Literal[
    "state", "head", "candidate_id", "content_digest", "created_at", "purged", "lifecycle"
]
ExperienceHitExtra = Literal["matched_terms", "channels", "coverage"]
REF_EXAMPLE = {
    "family": "experience",
    "artifact_id": "exp_019e2a5d4c10000007c1f3a9e2b45d60",
    "revision": 1,
}


class ProposeExperience(Evidenced):
    """Propose a new experience, or with a target its next revision."""

    model_config = example(
        {"scope_id": "orders", "proposal": EXPERIENCE_EXAMPLE, "reason": "seen twice"}
        | EVIDENCE_EXAMPLE
    )

    proposal: Experience
    memory_citations: Citations = Field(default=[])
    target: ArtifactRef | None = Field(
        default=None, description="The head to be replaced; it is among `artifact_refs` as well."
    )
    reason: CandidateReason = None
    include: CandidateInclude = Field(default=[])


class GenerateExperience(Evidenced):
    """Let the model write a proposal from evidence."""

    model_config = example({"scope_id": "orders", "reason": "after the release"} | EVIDENCE_EXAMPLE)

    target: ArtifactRef | None = Field(
        default=None, description="The head to be replaced; it is among `artifact_refs` as well."
    )
    reason: CandidateReason = None
    include: CandidateInclude = Field(default=[])


class Generated(Wire):
    """The candidate that was made; none when there was nothing to learn."""

    status: Literal["pending", "no_op"]
    candidate: ArtifactCandidate | None


class Incubate(ScopeBody):
    """Look for experiences in the next window of the log, now."""

    model_config = example({"scope_id": "orders", "budget_s": 30.0})

    budget_s: float | None = Field(
        default=None,
        gt=0,
        le=600,
        description="Windows up to the log's present end, none begun after this many seconds; "
        "one window unless given.",
    )


class Incubated(Wire):
    """What became of the windows. `remaining` positions were not reached."""

    status: Literal["idle", "processed"]
    previous_cursor: int = Field(ge=0)
    current_cursor: int = Field(ge=0)
    high_watermark: int = Field(ge=0)
    windows: int = Field(ge=0)
    remaining: int = Field(ge=0)
    processed_source_count: int = Field(ge=0)
    candidate_ids: list[Identifier] = Field(
        description="Made from the windows, in their order.", examples=[[CANDIDATE_EXAMPLE]]
    )
    counts: dict[str, int] = Field(description="What the windows counted, added up.")

    @classmethod
    def of(cls, done: Sequence[Processed], *, until: int) -> Self:
        """From the service's.

        Args:
            done: one or more windows, in their order.
            until: the log's end when the first began.
        """
        first, last = done[0], done[-1]
        ran = [result for result in done if result.status != "idle"]
        counts: Counter[str] = Counter()
        for result in ran:
            counts.update((result.window and result.window.counts) or {})
        return cls(
            status="processed" if ran else "idle",
            previous_cursor=first.previous_cursor,
            current_cursor=last.current_cursor,
            high_watermark=until,
            windows=len(ran),
            remaining=max(until - last.current_cursor, 0),
            processed_source_count=sum(result.processed_source_count for result in ran),
            candidate_ids=[one for result in ran for one in result.candidate_ids],
            counts=dict(counts),
        )


class GetExperience(ScopeBody):
    """Read one exact revision."""

    model_config = example({"scope_id": "orders", "artifact": REF_EXAMPLE})

    artifact: ArtifactRef
    include: list[ExperienceExtra] = Field(
        default=[], max_length=7, description="Fields to add to the answer."
    )


class LifecycleStep(Wire):
    """One change of an experience's lifecycle."""

    state: LifecycleState
    revision: int = Field(ge=1, description="The head at that time.")
    reason: str
    author: str = Field(description="Empty on a server without tokens.")
    changed_at: datetime

    @classmethod
    def of(cls, change: LifecycleChange) -> Self:
        """From the service's."""
        return cls(
            state=change.state,
            revision=change.revision,
            reason=change.reason,
            author=change.author,
            changed_at=moment(change.changed_at),
        )


class _Revision(Wire):
    artifact: ArtifactRef
    content: Experience
    source_refs: list[SourceRef]
    artifact_refs: list[ArtifactRef]
    memory_citations: list[Citation]


def _revision(found: ExperienceRevision) -> dict[str, Any]:
    return {
        "artifact": ArtifactRef.of(found.ref),
        "content": shown(found.content),
        **cited(found.evidence),
    }


class ExperienceArtifact(_Revision):
    """One exact revision of an experience and its lineage. The rest only with `include`."""

    state: LifecycleState | None = Field(default=None, description="Of the experience, now.")
    head: ArtifactRef | None = Field(default=None, description="The newest revision.")
    candidate_id: Identifier | None = Field(
        default=None, description="The candidate whose approval made it."
    )
    content_digest: str | None = None
    created_at: datetime | None = None
    purged: list[Citation] | None = Field(
        default=None, description="Those of its citations whose text was erased since."
    )
    lifecycle: list[LifecycleStep] | None = Field(
        default=None, description="Every change of its state, oldest first."
    )

    @classmethod
    def of(
        cls,
        found: ExperienceRevision,
        lifecycle: Collection[LifecycleChange] = (),
        include: Collection[ExperienceExtra] = (),
    ) -> Self:
        """From the service's, with the extras asked for."""
        known: dict[str, Any] = {
            "state": found.lifecycle,
            "head": ArtifactRef.of(found.head),
            "candidate_id": found.candidate_id,
            "content_digest": found.content_digest,
            "created_at": moment(found.created_at),
            "purged": [Citation.of(one) for one in found.purged],
            "lifecycle": [LifecycleStep.of(change) for change in lifecycle],
        }
        extras = {name: value for name, value in known.items() if name in include}
        return cls.model_validate(_revision(found) | extras)


class ExperienceItem(_Revision):
    """The newest revision of an experience."""

    state: LifecycleState
    candidate_id: Identifier | None
    content_digest: str
    created_at: datetime

    @classmethod
    def of(cls, found: ExperienceRevision) -> Self:
        """From the service's."""
        return cls.model_validate(
            _revision(found)
            | {
                "state": found.lifecycle,
                "candidate_id": found.candidate_id,
                "content_digest": found.content_digest,
                "created_at": moment(found.created_at),
            }
        )


class ExperiencePage(Wire):
    """A page of experiences."""

    items: list[ExperienceItem]
    next_cursor: str | None


class SearchExperiences(ScopeBody):
    """Find active experiences."""

    model_config = example({"scope_id": "orders", "query": "amounts are off by one cent"})

    query: str = Field(min_length=1, max_length=limits.QUERY_MAX_CHARS)
    limit: int = Field(default=limits.SEARCH_LIMIT_DEFAULT, ge=1, le=limits.SEARCH_LIMIT_MAX)
    mode: SearchMode = "auto"
    include: list[ExperienceHitExtra] = Field(
        default=[], max_length=3, description="What to add to each hit, or to the answer."
    )


class ExperienceHit(Wire):
    """An experience found. `score` orders the hits of one answer and means nothing beyond it."""

    artifact: ArtifactRef
    content: Experience
    score: float = Field(ge=0, le=1)
    matched_by: list[Literal["fts", "vector"]]
    matched_terms: list[str] | None = None
    channels: list[ChannelScore] | None = None


class ExperienceCoverage(Wire):
    """How many of the active experiences each channel could search."""

    active_experiences: int = Field(ge=0)
    fts: int = Field(ge=0)
    vector: int = Field(ge=0)


class ExperienceSearchAnswer(Wire):
    """Hits, best first; `mode` says what was used, and is null without an active experience."""

    mode: Literal["fts", "vector", "hybrid"] | None
    hits: list[ExperienceHit]
    coverage: ExperienceCoverage | None = None


class SetLifecycle(ScopeBody):
    """Withdraw an experience, or bring a deprecated one back."""

    model_config = example(
        {
            "scope_id": "orders",
            "artifact": REF_EXAMPLE,
            "state": "deprecated",
            "reason": "the importer is gone",
        }
    )

    artifact: ArtifactRef = Field(description="Its head.")
    state: LifecycleState = Field(description="`retired` is final.")
    reason: Annotated[
        str,
        Field(
            min_length=1,
            max_length=limits.CANDIDATE_REASON_MAX_CHARS,
            description="Why; kept with the change.",
        ),
    ]


class Lifecycle(Wire):
    """An experience's head and its state."""

    artifact: ArtifactRef
    state: LifecycleState
