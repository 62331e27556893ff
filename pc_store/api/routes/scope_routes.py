"""Scopes, the default one, bindings and selections."""

from dataclasses import asdict
from typing import Annotated

from fastapi import Query

from pc_store import limits
from pc_store.api.bodies.scope_bodies import (
    ClearBinding,
    Cleared,
    CreateScope,
    DefaultScope,
    QueryField,
    ResolveBinding,
    ResolveSelection,
    ScopeBinding,
    ScopeBindingKey,
    ScopeDescriptor,
    ScopePage,
    UpdateScope,
)
from pc_store.api.bodies.wire import Limit, PageCursor
from pc_store.api.paths import SCOPE, ScopePath
from pc_store.api.responses import declared
from pc_store.api.routing import Reader, Writer, reads, router, writes
from pc_store.services import administer, bind
from pc_store.services.clock import now_us

routes = router()


@routes.get(
    "/v1/scopes",
    operation_id="list_scopes",
    tags=["scopes"],
    summary="List scopes",
    response_model=ScopePage,
    responses=declared(400, 410, 422),
)
@reads()
def list_scopes(
    call: Reader,
    query: Annotated[str | None, Query(max_length=256, description="A part of a field.")] = None,
    query_field: Annotated[
        QueryField | None, Query(description="Where `query` is looked for; given with it.")
    ] = None,
    parent_scope_id: Annotated[str | None, Query(min_length=1, max_length=256)] = None,
    external_reference_kind: Annotated[str | None, Query(min_length=1, max_length=128)] = None,
    binding_integration: Annotated[str | None, Query(min_length=1, max_length=128)] = None,
    binding_kind: Annotated[str | None, Query(min_length=1, max_length=64)] = None,
    limit: Annotated[Limit | None, Query(description="Most items of a page; 50.")] = None,
    cursor: Annotated[PageCursor, Query()] = None,
) -> ScopePage:
    """By id. With no parameter at all: every scope, on one page.

    A token that is limited to some scopes sees those.
    """
    filters = {
        "query": query,
        "query_field": query_field,
        "parent_scope_id": parent_scope_id,
        "external_reference_kind": external_reference_kind,
        "binding_integration": binding_integration,
        "binding_kind": binding_kind,
    }
    if limit is None and (cursor is not None or any(filters.values())):
        limit = limits.PAGE_DEFAULT
    bound_to = ["scopes", filters, limit, call.principal.name]
    after = call.edge.cursors.unseal(cursor, bound_to=bound_to)
    # whose scopes are few gets them all looked through, so that no page leaks another's id
    page = administer.find_scopes(
        call.db, **filters, after=after, limit=None if call.principal.limited else limit
    )
    seen = [scope for scope in page.scopes if call.principal.sees(scope.scope_id)]
    following = page.next_after
    if call.principal.limited and limit is not None and len(seen) > limit:
        seen = seen[:limit]
        following = seen[-1].scope_id
    return ScopePage(
        items=[ScopeDescriptor.of(scope) for scope in seen],
        next_cursor=call.edge.cursors.seal(following, bound_to=bound_to),
    )


@routes.post(
    "/v1/scopes",
    operation_id="create_scope",
    tags=["scopes"],
    summary="Create a scope",
    status_code=201,
    response_model=ScopeDescriptor,
    responses=declared(404, 408, 409, 413, 422),
)
@writes(status=201)
def create_scope(call: Writer, body: CreateScope) -> ScopeDescriptor:
    """Once per `idempotency_key`: again with the same values answers the same scope."""
    if body.scope_id is None:
        call.principal.require_every_scope()
    return ScopeDescriptor.of(
        administer.create_scope(
            call.db,
            body.scope_id,
            title=body.title,
            summary=body.summary,
            parent_scope_id=body.parent_scope_id,
            context_references=body.context_references,
            external_references=body.references(),
            idempotency_key=body.idempotency_key,
            now_us=now_us(),
        )
    )


@routes.get(
    "/v1/scopes/default",
    operation_id="get_default_scope",
    tags=["scopes"],
    summary="Get the default scope",
    response_model=ScopeDescriptor,
    responses=declared(422),
)
@reads()
def get_default_scope(call: Reader) -> ScopeDescriptor:
    """It is made when the server starts, if there is none."""
    scope = bind.default_scope(call.db, now_us=now_us())
    call.principal.require_scope(scope.scope_id)
    return ScopeDescriptor.of(scope)


@routes.put(
    "/v1/scopes/default",
    operation_id="set_default_scope",
    tags=["scopes"],
    summary="Choose the default scope",
    response_model=ScopeDescriptor,
    responses=declared(404, 408, 409, 413, 422),
)
@writes("admin")
def set_default_scope(call: Writer, body: DefaultScope) -> ScopeDescriptor:
    """The scope must exist."""
    return ScopeDescriptor.of(bind.set_default_scope(call.db, body.scope_id))


@routes.post(
    "/v1/scopes/selection/resolve",
    operation_id="resolve_scope_selection",
    tags=["scopes"],
    summary="Say which scopes a selection names",
    response_model=ScopePage,
    responses=declared(404, 408, 413, 422),
)
@reads()
def resolve_scope_selection(call: Reader, body: ResolveSelection) -> ScopePage:
    """All on one page."""
    found = bind.resolve_selection(call.db, body.selection.model_dump())
    for scope in found:
        call.principal.require_scope(scope.scope_id)
    return ScopePage(items=[ScopeDescriptor.of(scope) for scope in found], next_cursor=None)


@routes.get(
    f"/v1/scopes/{SCOPE}",
    operation_id="get_scope",
    tags=["scopes"],
    summary="Get a scope",
    response_model=ScopeDescriptor,
    responses=declared(404, 422),
)
@reads()
def get_scope(call: Reader, scope_id: ScopePath) -> ScopeDescriptor:
    """Its description and version."""
    return ScopeDescriptor.of(administer.get_scope(call.db, scope_id))


@routes.put(
    f"/v1/scopes/{SCOPE}",
    operation_id="update_scope",
    tags=["scopes"],
    summary="Replace what a scope says of itself",
    response_model=ScopeDescriptor,
    responses=declared(404, 408, 409, 413, 422),
)
@writes()
def update_scope(call: Writer, scope_id: ScopePath, body: UpdateScope) -> ScopeDescriptor:
    """Refused with 409 when the scope was updated since `expected_version`."""
    return ScopeDescriptor.of(
        administer.update_scope(
            call.db,
            scope_id,
            expected_version=body.expected_version,
            title=body.title,
            summary=body.summary,
            parent_scope_id=body.parent_scope_id,
            context_references=body.context_references,
            external_references=body.references(),
        )
    )


@routes.post(
    "/v1/scope-bindings/resolve",
    operation_id="resolve_scope_binding",
    tags=["scope-bindings"],
    summary="Say which scope is meant",
    response_model=ScopeDescriptor,
    responses=declared(404, 408, 413, 422),
)
@reads()
def resolve_scope_binding(call: Reader, body: ResolveBinding) -> ScopeDescriptor:
    """The named scope, else that of the first bound key, else the default."""
    scope = bind.resolve_binding(
        call.db,
        explicit_scope_id=body.explicit_scope_id,
        binding_keys=[key.key() for key in body.binding_keys],
        allow_default=body.allow_default,
        now_us=now_us(),
    )
    call.principal.require_scope(scope.scope_id)
    return ScopeDescriptor.of(scope)


@routes.put(
    "/v1/scope-bindings",
    operation_id="set_scope_binding",
    tags=["scope-bindings"],
    summary="Bind an outside id to a scope",
    response_model=ScopeBinding,
    responses=declared(404, 408, 409, 413, 422),
)
@writes()
def set_scope_binding(call: Writer, body: ScopeBinding) -> ScopeBinding:
    """In place of an earlier binding."""
    found = bind.set_binding(call.db, body.key.key(), body.scope_id, now_us=now_us())
    return ScopeBinding(key=ScopeBindingKey(**asdict(found.key)), scope_id=found.scope_id)


@routes.post(
    "/v1/scope-bindings/clear",
    operation_id="clear_scope_binding",
    tags=["scope-bindings"],
    summary="Unbind an outside id",
    response_model=Cleared,
    responses=declared(408, 409, 413, 422),
)
@writes()
def clear_scope_binding(call: Writer, body: ClearBinding) -> Cleared:
    """False when it was not bound. Not for tokens that are limited to some scopes."""
    call.principal.require_every_scope()
    return Cleared(cleared=bind.clear_binding(call.db, body.key.key()))
