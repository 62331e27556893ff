"""Failures that come back: judge outcomes, open reviews, explain, void."""

from typing import Annotated

from fastapi import Query

from pc_store import limits
from pc_store.api.bodies.recurrence_bodies import (
    RecurrenceDraft,
    RecurrenceExplained,
    RecurrenceReview,
    RecurrenceReviews,
    RecurrenceRun,
    ReviewRecurrence,
    RunRecurrence,
    VoidedVerdict,
    VoidVerdict,
)
from pc_store.api.bodies.wire import Limit, PageCursor
from pc_store.api.paths import SCOPE, ArtifactPath, ScopePath
from pc_store.api.responses import declared
from pc_store.api.routing import Reader, Writer, extracts, reads, router, writes
from pc_store.services import draft_review, explain_recurrence, recur, recurrence_review
from pc_store.services.clock import now_us
from pc_store.services.void import void

routes = router()

_RECURRENCE = "/v1/experience/recurrence"
_DRAFTS_S = 30.0
"""No draft but the first is begun after so many seconds of a call."""
Revision = Annotated[int | None, Query(ge=1, le=limits.JSON_INT_MAX)]


@routes.post(
    f"{_RECURRENCE}/run",
    operation_id="run_recurrence",
    tags=["experience"],
    summary="Judge the task outcomes that wait, and open the reviews that are due",
    response_model=RecurrenceRun,
    responses=declared(404, 408, 409, 413, 422),
)
@writes()
def run_recurrence(call: Writer, body: RunRecurrence) -> RecurrenceRun:
    """Up to the log's end as it is now. No model is asked; a second time finds nothing to do."""
    moment = now_us()
    recorded = recur.run(call.db, call.edge.settings, body.scope_id, now_us=moment)
    reviews = recurrence_review.review(call.db, call.edge.settings, body.scope_id, now_us=moment)
    return RecurrenceRun.of(recorded, reviews)


@routes.post(
    f"{_RECURRENCE}/review",
    operation_id="review_recurrence",
    tags=["experience"],
    summary="Open the reviews that are due, and have their changes drafted",
    response_model=RecurrenceReviews,
    responses=declared(404, 408, 409, 413, 422),
)
@extracts()
def review_recurrence(call: Writer, body: ReviewRecurrence) -> RecurrenceReviews:
    """One open candidate for each failure; an open one gets what came back since.

    Where a model is configured it is asked for the change, once for the evidence of a review; one
    that fails is told of in the answer. What people wrote into a review stays.
    """
    settings = call.edge.settings
    reviews = recurrence_review.review(call.db, settings, body.scope_id, now_us=now_us())
    drafts = draft_review.draft_reviews(
        call.db, settings, body.scope_id, budget_s=_DRAFTS_S, early=True
    )
    return RecurrenceReviews(
        reviews=[RecurrenceReview.of(one) for one in reviews],
        drafts=[RecurrenceDraft.of(one) for one in drafts],
    )


@routes.post(
    f"{_RECURRENCE}/void",
    operation_id="void_recurrence_verdict",
    tags=["experience"],
    summary="Take a verdict back",
    response_model=VoidedVerdict,
    responses=declared(404, 408, 409, 413, 422),
)
@writes("review")
def void_recurrence_verdict(call: Writer, body: VoidVerdict) -> VoidedVerdict:
    """By an event that says why; nothing is deleted, and the counts are made again."""
    verdict, streak = void(
        call.db,
        call.edge.settings,
        body.scope_id,
        body.event_id,
        reason=body.reason,
        author=call.principal.name,
        now_us=now_us(),
    )
    return VoidedVerdict.of(verdict, streak)


@routes.get(
    f"/v1/scopes/{SCOPE}/experience/{{artifact_id}}/recurrence",
    operation_id="explain_recurrence",
    tags=["experience"],
    summary="Say why outcomes did or did not count",
    response_model=RecurrenceExplained,
    responses=declared(400, 404, 410, 422),
)
@reads()
def explain_recurrence_of(
    call: Reader,
    scope_id: ScopePath,
    artifact_id: ArtifactPath,
    revision: Revision = None,
    limit: Annotated[Limit, Query()] = limits.PAGE_DEFAULT,
    cursor: Annotated[PageCursor, Query()] = None,
) -> RecurrenceExplained:
    """Of the head unless a revision is named; outcomes that speak of the failure, by position."""
    cursors = call.edge.cursors
    bound_to = ["recurrence", scope_id, artifact_id, revision, limit, call.principal.name]
    one = explain_recurrence.explain(
        call.db,
        scope_id,
        artifact_id,
        revision=revision,
        after=cursors.unseal(cursor, bound_to=bound_to) or 0,
        limit=limit,
    )
    return RecurrenceExplained.of(
        one,
        threshold=call.edge.settings.recurrence_threshold,
        next_cursor=cursors.seal(one.next_after, bound_to=bound_to),
    )
