"""Sources: capture, create, list, read."""

from collections.abc import Collection
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Query

from pc_store import limits
from pc_store.api.bodies.source_bodies import (
    CaptureContent,
    Captured,
    CreateSource,
    SourceExtra,
    SourceExtras,
    SourcePage,
    SourceRecord,
)
from pc_store.api.bodies.wire import Limit, PageCursor, SourceRef, moment
from pc_store.api.paths import SCOPE, ScopePath, SourceIdPath, SourceTypePath
from pc_store.api.responses import declared
from pc_store.api.routing import Reader, Writer, reads, router, writes
from pc_store.domain.source import CONTENT_TYPE, Source
from pc_store.services import administer, capture
from pc_store.services.clock import now_us

routes = router()

Include = Annotated[SourceExtras, Query()]


@routes.post(
    "/v1/sources/content",
    operation_id="capture_content_source",
    tags=["sources"],
    summary="Append a text to a scope's log",
    status_code=202,
    response_model=Captured,
    responses=declared(404, 408, 409, 413, 422),
)
@writes(status=202)
def capture_content_source(call: Writer, body: CaptureContent) -> Captured:
    """The same source again answers its position; other content or metadata is a 409."""
    result = capture.capture_content(
        call.db, body.scope_id, body.source_id, body.content, body.metadata, now_us=now_us()
    )
    return Captured(
        status="accepted",
        source=SourceRef(name=CONTENT_TYPE, source_id=body.source_id),
        position=result.position,
    )


def _location(record: dict[str, Any]) -> str:
    parts = (record["scope_id"], "sources", record["source_type"], record["source_id"])
    return "/v1/scopes/" + "/".join(quote(part, safe="") for part in parts)


@routes.post(
    f"/v1/scopes/{SCOPE}/sources",
    operation_id="create_source",
    tags=["sources"],
    summary="Append any JSON value to a scope's log",
    status_code=201,
    response_model=SourceRecord,
    responses=declared(404, 408, 409, 413, 422),
)
@writes(status=201, location=_location)
def create_source(call: Writer, scope_id: ScopePath, body: CreateSource) -> SourceRecord:
    """The server makes the id. Not idempotent, unless an `Idempotency-Key` is sent."""
    source = capture.create_source(call.db, scope_id, body.content, now_us=now_us())
    return _record(scope_id, source)


@routes.get(
    f"/v1/scopes/{SCOPE}/sources",
    operation_id="list_sources",
    tags=["sources"],
    summary="List sources by position",
    response_model=SourcePage,
    responses=declared(400, 404, 410, 422),
)
@reads()
def list_sources(
    call: Reader,
    scope_id: ScopePath,
    limit: Annotated[Limit, Query()] = limits.PAGE_DEFAULT,
    cursor: Annotated[PageCursor, Query()] = None,
    include: Include = [],  # noqa: B006 - FastAPI copies it
) -> SourcePage:
    """Sources that come later than the first page are not on the following ones."""
    cursors = call.edge.cursors
    bound_to = ["sources", scope_id, limit, call.principal.name]
    page = capture.page_sources(
        call.db, scope_id, after=cursors.unseal(cursor, bound_to=bound_to), limit=limit
    )
    return SourcePage(
        items=[_record(scope_id, source, include) for source in page.sources],
        next_cursor=cursors.seal(page.next_after, bound_to=bound_to),
    )


@routes.get(
    f"/v1/scopes/{SCOPE}/sources/{{source_type}}/{{source_id}}",
    operation_id="get_source",
    tags=["sources"],
    summary="Get a source",
    response_model=SourceRecord,
    responses=declared(400, 404, 422),
)
@reads()
def get_source(
    call: Reader,
    scope_id: ScopePath,
    source_type: SourceTypePath,
    source_id: SourceIdPath,
    include: Include = [],  # noqa: B006 - FastAPI copies it
) -> SourceRecord:
    """As it was captured."""
    administer.get_scope(call.db, scope_id)
    source = capture.read_source(call.db, scope_id, source_type, source_id)
    return _record(scope_id, source, include)


def _record(scope_id: str, source: Source, include: Collection[SourceExtra] = ()) -> SourceRecord:
    extras: dict[str, Any] = {}
    if "metadata" in include:
        extras["metadata"] = dict(source.metadata)
    if "times" in include:
        extras["received_at"] = moment(source.received_at)
    return SourceRecord.model_validate(
        {
            "receipt_identity": None,
            "scope_id": scope_id,
            "source_type": source.source_type,
            "source_id": source.source_id,
            "content": source.value,
            "position": source.position,
            "content_digest": source.content_digest,
        }
        | extras
    )
