"""Failures that come back: judging, reviews, why something counted, and taking it back."""

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import Field

from pc_store import limits
from pc_store.api.bodies.wire import (
    ArtifactRef,
    Identifier,
    ScopeBody,
    SourceRef,
    Wire,
    example,
    moment,
)
from pc_store.domain.experience import RepairSurface
from pc_store.ledger.recurrences import EventRow
from pc_store.ledger.streaks import StreakRow
from pc_store.services.draft_review import Drafted
from pc_store.services.explain_recurrence import Explained, TimelineItem
from pc_store.services.recur import Recorded
from pc_store.services.recurrence_review import Reviewed

VoidReason = Annotated[str, Field(min_length=1, max_length=limits.CANDIDATE_REASON_MAX_CHARS)]


class RunRecurrence(ScopeBody):
    """Judge the task outcomes that wait, and open the reviews that are due."""

    model_config = example({"scope_id": "orders"})


class ReviewRecurrence(ScopeBody):
    """Open the reviews that are due, also those that were blocked before, and have them drafted."""

    model_config = example({"scope_id": "orders"})


class RecurrenceReview(Wire):
    """What became of a failure whose review was due."""

    artifact: ArtifactRef
    cue_key: str
    done: Literal["opened", "grown", "unchanged", "waits", "blocked"]
    candidate_id: str | None
    why: str | None

    @classmethod
    def of(cls, one: Reviewed) -> Self:
        """From the service's."""
        return cls(
            artifact=ArtifactRef(
                family="experience", artifact_id=one.artifact_id, revision=one.revision
            ),
            cue_key=one.cue_key,
            done=one.done,
            candidate_id=one.candidate_id,
            why=one.why,
        )


class RecurrenceDraft(Wire):
    """What came of asking the model for the change that a review wants."""

    candidate_id: str
    done: Literal["drafted", "unsupported", "failed", "overtaken"] = Field(
        description="unsupported: the outcomes do not show what to change; "
        "overtaken: people have changed or decided the review."
    )
    version: int | None = Field(description="The review's version that is the draft.")
    attempts: int = Field(ge=1, description="Made on this evidence, of 3 at most.")
    why: str | None
    tokens_in: int = Field(ge=0)
    tokens_out: int = Field(ge=0)

    @classmethod
    def of(cls, one: Drafted) -> Self:
        """From the service's."""
        return cls(
            candidate_id=one.candidate_id,
            done=one.done,
            version=one.version,
            attempts=one.attempts,
            why=one.why,
            tokens_in=one.usage.tokens_in,
            tokens_out=one.usage.tokens_out,
        )


class RecurrenceReviews(Wire):
    """The reviews that were due, and the drafts that a model was asked for."""

    reviews: list[RecurrenceReview]
    drafts: list[RecurrenceDraft] = Field(description="Empty where no model is configured.")


class RecurrenceRun(Wire):
    """What was judged; counts of this call."""

    outcomes: int = Field(ge=0, description="Task outcomes judged for the first time.")
    malformed: int = Field(ge=0, description="Those of them that break a rule.")
    matched: int = Field(ge=0)
    unmatched: int = Field(ge=0)
    ambiguous: int = Field(ge=0)
    pending: int = Field(ge=0, description="Failing items whose evidence is not there yet.")
    retried: int = Field(ge=0, description="Outcomes judged again: evidence may have arrived.")
    selected: int = Field(ge=0)
    recurred: int = Field(ge=0)
    avoided: int = Field(ge=0)
    cursor: int = Field(ge=0, description="Outcomes up to here were judged.")
    reviews: list[RecurrenceReview]

    @classmethod
    def of(cls, recorded: Recorded, reviews: list[Reviewed]) -> Self:
        """From the services'."""
        return cls(**vars(recorded), reviews=[RecurrenceReview.of(one) for one in reviews])


class TrackedFailure(Wire):
    """What the experience says of the failure."""

    cue_key: str = Field(description="The recall cue as it is compared.")
    repair_surface: RepairSurface
    condition_key: str
    check_key: str
    approved_at_position: int = Field(ge=0, description="Outcomes up to here never count.")


class ReviewDraft(Wire):
    """What a model was asked to draft for the review."""

    status: Literal["waiting", "asked", "failed", "drafted", "unsupported", "overtaken"]
    attempts: int = Field(ge=0, description="On the review's present evidence.")
    why: str | None = Field(description="Why there is no draft.")


class RecurrenceCounts(Wire):
    """How often it came back."""

    streak: int = Field(ge=0, description="Recurrences since the last avoidance.")
    recurred: int = Field(ge=0)
    avoided: int = Field(ge=0)
    unreviewed: int = Field(ge=0, description="Recurrences in a row that no review has seen.")
    review_due: bool
    review_blocked: str | None
    review_id: str | None = Field(description="The candidate of the last review.")
    review_status: Literal["pending", "approved", "rejected"] | None
    review_draft: ReviewDraft | None = Field(
        description="`waiting` also where no model is configured."
    )


class RecurrenceItem(Wire):
    """A task outcome that speaks of the failure."""

    position: int = Field(ge=1)
    source: SourceRef
    status: str
    verdict: Literal["recurred", "avoided"] | None = Field(description="What it counts as.")
    event_id: str | None = Field(description="By which the verdict can be voided.")
    voided: str | None = Field(description="Why its verdict was taken back.")
    streak: int = Field(ge=0, description="Recurrences in a row up to here.")
    selected: bool = Field(description="Its receipt cites this revision.")
    pending: bool = Field(description="Judged again when its evidence is there.")
    why: list[str] = Field(description="Why it counted, or did not.")

    @classmethod
    def of(cls, item: TimelineItem) -> Self:
        """From the service's."""
        return cls.model_validate(
            vars(item) | {"source": SourceRef.of(item.source), "why": list(item.why)}
        )


class SimilarCue(Wire):
    """A head whose cue is alike. Only equal cues count; this is for people to look at."""

    artifact: ArtifactRef
    cue_key: str
    ratio: float = Field(description="Dice's coefficient of the bigrams, 0.8 to 1.")


class Waiting(Wire):
    """Evidence that an outcome of the scope waits for."""

    position: int = Field(ge=1)
    waits_for: str


class RecurrenceExplained(Wire):
    """Why outcomes did or did not count for an experience, by position."""

    artifact: ArtifactRef
    head: ArtifactRef
    lifecycle: Literal["active", "deprecated", "retired"]
    judged_through: int = Field(ge=0)
    threshold: int = Field(ge=1)
    failure: TrackedFailure | None = Field(description="Null when it tracks none.")
    counts: RecurrenceCounts | None = Field(description="Null before the first verdict.")
    same_cue: list[ArtifactRef] = Field(
        description="Other heads with the cue: unlinked failures could be any of them."
    )
    similar_cues: list[SimilarCue]
    waiting: list[Waiting] = Field(description="Of the whole scope, the first hundred.")
    items: list[RecurrenceItem] = Field(description="May be empty on a page that is not the last.")
    next_cursor: str | None

    @classmethod
    def of(cls, one: Explained, *, threshold: int, next_cursor: str | None) -> Self:
        """From the service's."""
        return cls(
            artifact=ArtifactRef.of(one.ref),
            head=ArtifactRef.of(one.head),
            lifecycle=one.lifecycle,
            judged_through=one.judged_through,
            threshold=threshold,
            failure=TrackedFailure(
                cue_key=one.tracked.cue_key,
                repair_surface=one.tracked.surface,
                condition_key=one.tracked.condition_key,
                check_key=one.tracked.check_key,
                approved_at_position=one.tracked.approved_at,
            )
            if one.tracked
            else None,
            counts=_counts(one.counts, one) if one.counts else None,
            same_cue=[ArtifactRef.of(ref) for ref in one.same_cue],
            similar_cues=[
                SimilarCue(artifact=ArtifactRef.of(it.ref), cue_key=it.cue_key, ratio=it.ratio)
                for it in one.similar
            ],
            waiting=[Waiting(position=at, waits_for=ref) for at, ref in one.waits],
            items=[RecurrenceItem.of(item) for item in one.items],
            next_cursor=next_cursor,
        )


def _counts(row: StreakRow, one: Explained) -> RecurrenceCounts:
    draft = one.draft and {name: getattr(one.draft, name) for name in ReviewDraft.model_fields}
    return RecurrenceCounts.model_validate(
        {
            "streak": row.streak,
            "recurred": row.recurred,
            "avoided": row.avoided,
            "unreviewed": row.unreviewed,
            "review_due": bool(row.due_position),
            "review_blocked": row.blocked,
            "review_id": row.review_id,
            "review_status": one.review_status,
            "review_draft": draft,
        }
    )


class VoidVerdict(ScopeBody):
    """Take a recurrence or an avoidance back, for a reason that is kept."""

    model_config = example(
        {
            "scope_id": "orders",
            "event_id": "5aa762ae383fbb727af3c7a36d4940a5b8c40a989452d2304fc958ff3f354e7a",
            "reason": "the staging database was down, which is not this failure",
        }
    )

    event_id: Identifier = Field(description="As the explanation gives it.")
    reason: VoidReason


class VoidedVerdict(Wire):
    """The verdict that no longer counts."""

    event_id: str
    event: Literal["recurred", "avoided"]
    artifact: ArtifactRef
    cue_key: str
    position: int = Field(ge=1)
    recorded_at: datetime
    streak: int = Field(ge=0, description="As it is without the verdict.")

    @classmethod
    def of(cls, verdict: EventRow, streak: int) -> Self:
        """From the service's."""
        return cls.model_validate(
            {
                "event_id": verdict.event_id,
                "event": verdict.event,
                "artifact": ArtifactRef.of(verdict.ref),
                "cue_key": verdict.cue_key,
                "position": verdict.position,
                "recorded_at": moment(verdict.recorded_at),
                "streak": streak,
            }
        )
