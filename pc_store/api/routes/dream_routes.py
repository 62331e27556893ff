"""Dreams: submit one, look at it, cancel it. They are worked on in the background."""

from collections.abc import Collection, Sequence
from typing import Annotated, Any

from fastapi import Path, Query

from pc_store.api.addresses import segment
from pc_store.api.bodies.dream_bodies import (
    RUN_EXAMPLE,
    DreamCancellation,
    DreamExtra,
    DreamOperation,
    DreamRequest,
    DreamRun,
    DreamRunPage,
    DreamStatus,
)
from pc_store.api.bodies.wire import Limit, PageCursor
from pc_store.api.lanes import Call
from pc_store.api.paths import SCOPE, ScopePath
from pc_store.api.responses import declared
from pc_store.api.routing import Reader, Writer, reads, router, writes
from pc_store.domain import dream_run
from pc_store.domain.candidate import Candidate
from pc_store.services import dream
from pc_store.services.clock import now_us

routes = router()

_WITHOUT_REASON = DreamCancellation()
_DREAM = f"/v1/scopes/{SCOPE}/dream"
RunPath = Annotated[str, Path(max_length=64, examples=[RUN_EXAMPLE])]
Extras = Annotated[
    list[DreamExtra], Query(max_length=4, description="Fields that are left out otherwise.")
]


def _status(body: Any) -> int:
    return 202 if body["status"] in dream_run.PENDING else 200


def _location(body: Any) -> str:
    return f"/v1/scopes/{segment(body['scope_id'])}/dream/{body['run_id']}"


@routes.post(
    _DREAM,
    operation_id="create_dream_run",
    tags=["dream"],
    summary="Refine chosen memory and experience in the background",
    status_code=202,
    response_model=DreamRun,
    responses=declared(404, 408, 409, 413, 422, 429)
    | {200: {"model": DreamRun, "description": "It was accepted before and has ended."}},
)
@writes("read", status=_status, location=_location)
def create_dream_run(call: Writer, scope_id: ScopePath, body: DreamRequest) -> DreamRun:
    """One proposal at most comes of it, which waits for review. Ask for the run to see how far."""
    done = dream.submit(
        call.db,
        call.settings,
        scope_id,
        body.request(),
        key=body.idempotency_key,
        principal=call.principal.name,
        may_contribute=lambda: call.principal.require("contribute"),
        now_us=now_us(),
    )
    return _shown(call, [done.run], body.include)[0]


@routes.get(
    _DREAM,
    operation_id="list_dream_runs",
    tags=["dream"],
    summary="List the dreams of a scope",
    response_model=DreamRunPage,
    responses=declared(400, 404, 422),
)
@reads()
def list_dream_runs(
    call: Reader,
    scope_id: ScopePath,
    status: Annotated[DreamStatus | None, Query()] = None,
    operation: Annotated[DreamOperation | None, Query()] = None,
    limit: Annotated[Limit, Query()] = dream.PAGE_DEFAULT,
    cursor: Annotated[PageCursor, Query()] = None,
    summary: Annotated[bool, Query(description="Leave the manifests out.")] = False,
    include: Extras = [],  # noqa: B006 - FastAPI copies it
) -> DreamRunPage:
    """Newest first."""
    page = dream.list_dreams(
        call.db, scope_id, status=status, operation=operation, cursor=cursor, limit=limit
    )
    return DreamRunPage(
        runs=_shown(call, page.runs, include, summary=summary), next_cursor=page.next_cursor
    )


@routes.get(
    f"{_DREAM}/{{run_id}}",
    operation_id="get_dream_run",
    tags=["dream"],
    summary="Look at one dream",
    response_model=DreamRun,
    responses=declared(400, 404, 422),
)
@reads()
def get_dream_run(
    call: Reader,
    scope_id: ScopePath,
    run_id: RunPath,
    include: Extras = [],  # noqa: B006 - FastAPI copies it
) -> DreamRun:
    """`status` first: how far it is. `outcome` once it has succeeded: what came of it."""
    return _shown(call, [dream.get_dream(call.db, scope_id, run_id)], include)[0]


@routes.post(
    f"{_DREAM}/{{run_id}}/cancel",
    operation_id="cancel_dream_run",
    tags=["dream"],
    summary="Cancel a dream",
    response_model=DreamRun,
    responses=declared(404, 408, 409, 413, 422),
)
@writes()
def cancel_dream_run(
    call: Writer,
    scope_id: ScopePath,
    run_id: RunPath,
    body: DreamCancellation = _WITHOUT_REASON,
) -> DreamRun:
    """One that waits or runs: it fails with the error `cancelled`, and nothing is proposed."""
    run = dream.cancel(
        call.db,
        scope_id,
        run_id,
        reason=body.reason,
        principal=call.principal.name,
        refuse_secrets=call.settings.secret_detection,
        now_us=now_us(),
    )
    return _shown(call, [run], ())[0]


def _shown(
    call: Call,
    runs: Sequence[dream_run.DreamRun],
    include: Collection[DreamExtra],
    *,
    summary: bool = False,
) -> list[DreamRun]:
    now: dict[str, Candidate] = {}
    if "current_candidate" in include:
        now = dream.candidates_of(call.db, runs)
    return [DreamRun.of(run, now, include, summary=summary) for run in runs]
