"""Prepared contexts, and the log of what was recalled."""

from typing import Annotated

from fastapi import Query

from pc_store import limits
from pc_store.api.bodies.context_bodies import (
    PrepareContext,
    PreparedContext,
    RecallPage,
    RecallRecord,
)
from pc_store.api.bodies.wire import Limit, PageCursor
from pc_store.api.paths import SCOPE, ScopePath
from pc_store.api.responses import declared
from pc_store.api.routing import Reader, reads, router
from pc_store.domain.refs import new_id
from pc_store.services import prepare, recalls
from pc_store.services.clock import now_us
from pc_store.services.outcomes import receipt_body

routes = router()


@routes.post(
    "/v1/context/prepare",
    operation_id="prepare_context",
    tags=["context"],
    summary="Prepare what is known about a question",
    response_model=PreparedContext,
    response_model_exclude_unset=True,
    responses=declared(404, 408, 413, 422),
)
@reads()
def prepare_context(call: Reader, body: PrepareContext) -> PreparedContext:
    """Memory and experiences of the scope and of those it references, within a budget of bytes.

    The content says before its fence that it is untrusted history, and nothing inside can end
    the fence. A referenced scope that the token does not allow is 403. Nothing found, or nothing
    that fits, is `empty`.
    """
    started_us = now_us()
    assembly = body.arranged()
    result = prepare.prepare_context(
        call.db,
        call.settings,
        body.scope_id,
        body.query,
        max_bytes=body.max_bytes,
        assembly=assembly,
        admit=call.principal.require_scope,
    )
    recall_id = None
    if assembly is None or assembly.sections:
        note = recalls.prepared(
            body.scope_id, body.query, result, max_bytes=body.max_bytes, started_us=started_us
        )
        recall_id = call.edge.recalls.note(note)
    extras = {
        "omitted": recalls.omitted(result),
        "truncated": result.truncated,
        "recall_id": recall_id,
        "mode": result.mode,
        "receipt": None,
    }
    if result.experiences:
        receipt_id = new_id("receipt_", at_us=started_us)
        extras["receipt"] = receipt_body(body.scope_id, receipt_id, result.experiences)
    return PreparedContext.model_validate(
        {
            "schema": prepare.SCHEMA,
            "status": "empty" if result.content is None else "ready",
            "content": result.content,
            "content_bytes": result.content_bytes,
        }
        | {name: extras[name] for name in body.include}
    )


@routes.get(
    f"/v1/scopes/{SCOPE}/recalls",
    operation_id="list_recalls",
    tags=["context"],
    summary="List what was recalled",
    response_model=RecallPage,
    responses=declared(400, 404, 410, 422),
)
@reads()
def list_recalls(
    call: Reader,
    scope_id: ScopePath,
    limit: Annotated[Limit, Query()] = limits.PAGE_DEFAULT,
    cursor: Annotated[PageCursor, Query()] = None,
) -> RecallPage:
    """Newest first; what was recalled within the last second may not be there yet."""
    cursors = call.edge.cursors
    bound_to = ["recalls", scope_id, limit, call.principal.name]
    found = recalls.list_recalls(
        call.db, scope_id, before=cursors.unseal(cursor, bound_to=bound_to), limit=limit + 1
    )
    following = found[limit - 1].recall_id if len(found) > limit else None
    return RecallPage(
        items=[RecallRecord.of(one) for one in found[:limit]],
        next_cursor=cursors.seal(following, bound_to=bound_to),
    )
