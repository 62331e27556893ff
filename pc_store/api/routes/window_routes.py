"""Windows and quarantine: look at them, run them again, let go of what was set aside."""

from typing import Annotated

from fastapi import Path, Query

from pc_store import limits
from pc_store.api.bodies.generation_bodies import ReplayWindow
from pc_store.api.bodies.memory_bodies import Flushed
from pc_store.api.bodies.service_bodies import (
    Quarantine,
    QuarantinedSource,
    Released,
    Status,
    Window,
    WindowPage,
)
from pc_store.api.bodies.wire import Limit, PageCursor
from pc_store.api.paths import SCOPE, PositionPath, ScopePath
from pc_store.api.responses import declared
from pc_store.api.routing import Reader, Writer, extracts, reads, router, writes
from pc_store.domain.window import WindowKey, parse_key
from pc_store.errors import InvalidInput, WindowRefused
from pc_store.services import administer, extract, recover, watch
from pc_store.services.clock import now_us

routes = router()

_AT_ONCE = ReplayWindow()
_WINDOWS = f"/v1/scopes/{SCOPE}/windows"
_QUARANTINE = f"/v1/scopes/{SCOPE}/quarantine"


@routes.get(
    _WINDOWS,
    operation_id="list_windows",
    tags=["windows"],
    summary="List the windows of a scope",
    response_model=WindowPage,
    responses=declared(400, 404, 410, 422),
)
@reads()
def list_windows(
    call: Reader,
    scope_id: ScopePath,
    status: Annotated[list[Status], Query(max_length=8)] = [],  # noqa: B006 - FastAPI copies it
    limit: Annotated[Limit, Query()] = limits.PAGE_DEFAULT,
    cursor: Annotated[PageCursor, Query()] = None,
) -> WindowPage:
    """Newest first."""
    cursors = call.edge.cursors
    bound_to = ["windows", scope_id, sorted(status), limit, call.principal.name]
    found = watch.list_windows(
        call.db,
        scope_id=scope_id,
        statuses=status,
        before=cursors.unseal(cursor, bound_to=bound_to),
        limit=limit + 1,
    )
    page = found[:limit]
    following = page[-1][1].window_id if len(found) > limit else None
    return WindowPage(
        items=[Window.of(key, row) for key, row in page],
        next_cursor=cursors.seal(following, bound_to=bound_to),
    )


@routes.post(
    f"{_WINDOWS}/{{window}}/replay",
    operation_id="replay_window",
    tags=["windows"],
    summary="Run a window behind the cursor again, or beside the memory",
    response_model=Flushed,
    responses=declared(404, 408, 409, 413, 422, 502),
)
@extracts("admin")
def replay_window(
    call: Writer,
    scope_id: ScopePath,
    window: Annotated[str, Path(max_length=256, examples=["orders@00000001-00000100"])],
    body: ReplayWindow = _AT_ONCE,
) -> Flushed:
    """For example after a prompt change; the cursor stays."""
    try:
        key = parse_key(window)
    except WindowRefused as error:
        raise InvalidInput("window", error.message) from None
    scope = administer.get_scope(call.db, scope_id)
    if key.scope_key != scope.key:
        raise InvalidInput("window", "belongs to another scope")
    return _replayed(call, key, body.generation)


@routes.get(
    _QUARANTINE,
    operation_id="list_quarantined_sources",
    tags=["windows"],
    summary="List the sources that were set aside",
    response_model=Quarantine,
    responses=declared(400, 404, 422),
)
@reads()
def list_quarantined_sources(
    call: Reader,
    scope_id: ScopePath,
    include_released: Annotated[bool, Query()] = False,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> Quarantine:
    """By position."""
    found = recover.quarantined(
        call.db, scope_id=scope_id, include_released=include_released, limit=limit
    )
    return Quarantine(items=[QuarantinedSource.of(item) for item in found])


@routes.post(
    f"{_QUARANTINE}/{{position}}/retry",
    operation_id="retry_quarantined_source",
    tags=["windows"],
    summary="Process a source in quarantine again",
    response_model=Flushed,
    responses=declared(404, 408, 409, 422, 502),
)
@extracts()
def retry_quarantined_source(call: Writer, scope_id: ScopePath, position: PositionPath) -> Flushed:
    """It leaves quarantine if that works; the cursor stays."""
    return _replayed(call, recover.window_of(call.db, scope_id, position))


@routes.post(
    f"{_QUARANTINE}/{{position}}/release",
    operation_id="release_quarantined_source",
    tags=["windows"],
    summary="Take a source off the list without processing it",
    response_model=Released,
    responses=declared(404, 408, 409, 422),
)
@writes()
def release_quarantined_source(
    call: Writer, scope_id: ScopePath, position: PositionPath
) -> Released:
    """A person has dealt with it."""
    recover.release(call.db, scope_id, "memory", position, now_us=now_us())
    return Released(position=position, released=True)


def _replayed(call: Writer, key: WindowKey, generation: str | None = None) -> Flushed:
    done = extract.replay(
        call.db,
        call.settings,
        call.edge.proposer(),
        key,
        mode="replay" if generation is None else "shadow",
        generation=generation,
    )
    return Flushed.of(done)
