"""Scopes: make, find and list them; and what one looks like from outside."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from pc_store import limits
from pc_store.domain import scope as rules
from pc_store.domain import strict_json, text
from pc_store.domain.scope import Scope
from pc_store.domain.window import CONSUMERS, Consumer
from pc_store.errors import (
    Conflict,
    InvalidInput,
    InvalidScopeRelationship,
    ScopeIdempotencyConflict,
    ScopeNotFound,
)
from pc_store.ledger import bindings, cursors, entries, quarantines, scopes, sources, windows
from pc_store.ledger.database import Database
from pc_store.ledger.windows import WindowRow

_OWN_FIELDS = ("scope_id", "title", "summary")
QUERY_FIELDS = (*_OWN_FIELDS, "external_reference_value", "binding_external_id")


@dataclass(frozen=True)
class ScopePage:
    """A page of scopes, and the `after` of the next; None when there is none."""

    scopes: tuple[Scope, ...]
    next_after: str | None


@dataclass(frozen=True)
class ScopeStatus:
    """Where a scope stands."""

    scope: Scope
    high_watermark: int
    cursors: dict[Consumer, int]
    memory_revision: int
    active_entries: int
    inactive_entries: int
    quarantined: int
    open_window: WindowRow | None

    @property
    def memory_lag(self) -> int:
        """Positions the memory has not seen yet."""
        return self.high_watermark - self.cursors["memory"]


def create_scope(
    db: Database,
    scope_id: str | None = None,
    *,
    title: str | None = None,
    summary: str | None = None,
    idempotency_key: str | None = None,
    parent_scope_id: str | None = None,
    context_references: Iterable[str] = (),
    external_references: Iterable[Mapping[str, Any]] = (),
    now_us: int,
) -> Scope:
    """Create a scope.

    Args:
        scope_id: None for one made here: `scp_` and 26 characters.
        title: None for the id, which then must be given.
        summary: None for the title.
        idempotency_key: given again with the same values, it gives the scope it made.
        external_references: each {kind, value}.

    Raises:
        InvalidInput: a value breaks a rule.
        InvalidScopeRelationship: it would be its own parent or reference itself.
        ScopeNotFound: the parent or a reference does not exist.
        ScopeIdempotencyConflict: the key made a scope of other values.
        Conflict: the id is taken.
    """
    if scope_id is not None:
        rules.scope_id(scope_id)
    elif title is None:
        raise InvalidInput("title", "is missing")
    values = _checked(
        scope_id,
        title=scope_id if title is None else title,
        summary=summary,
        parent_scope_id=parent_scope_id,
        context_references=context_references,
        external_references=external_references,
    )
    chosen = scope_id or rules.new_scope_id()
    digest = strict_json.digest({"scope_id": scope_id, **values})
    if idempotency_key is not None:
        most = limits.SCOPE_CREATION_KEY_MAX_CHARS
        text.identifier("idempotency_key", idempotency_key, most)
    with db.write() as conn:
        if idempotency_key is not None and not scopes.take_creation_key(
            conn, idempotency_key, digest=digest, scope_id=chosen, now_us=now_us
        ):
            made = scopes.creation(conn, idempotency_key)
            if made is None or made.digest != digest:
                raise ScopeIdempotencyConflict(
                    f"the key {idempotency_key!r} made a scope of other values"
                )
            return scopes.get(conn, made.scope_id)
        _refuse_missing(conn, values)
        return scopes.create(conn, chosen, **values, now_us=now_us)


def update_scope(
    db: Database,
    scope_id: str,
    *,
    expected_version: int,
    title: str,
    summary: str,
    parent_scope_id: str | None = None,
    context_references: Iterable[str] = (),
    external_references: Iterable[Mapping[str, Any]] = (),
) -> Scope:
    """Replace all that a scope says of itself; its version grows by one.

    Raises:
        ScopeNotFound: it, its parent or a reference does not exist.
        ScopeVersionConflict: it is not at the expected version.
        InvalidInput: a value breaks a rule.
        InvalidScopeRelationship: it would be among its own ancestors, or reference itself.
    """
    values = _checked(
        scope_id,
        title=title,
        summary=summary,
        parent_scope_id=parent_scope_id,
        context_references=context_references,
        external_references=external_references,
    )
    with db.write() as conn:
        scopes.lock_tree(conn)
        scopes.get(conn, scope_id)
        _refuse_missing(conn, values)
        if parent_scope_id and scope_id in scopes.ancestors(conn, parent_scope_id):
            raise InvalidScopeRelationship("Parent", "relationships must be acyclic")
        return scopes.update(conn, scope_id, expected_version=expected_version, **values)


def _checked(
    scope_id: str | None,
    *,
    title: str | None,
    summary: str | None,
    parent_scope_id: str | None,
    context_references: Iterable[str],
    external_references: Iterable[Mapping[str, Any]],
) -> dict[str, Any]:
    assert title is not None
    if parent_scope_id is not None and rules.scope_id(parent_scope_id) == scope_id:
        raise InvalidScopeRelationship("Parent", "a scope cannot be its own parent")
    return {
        "title": rules.title(title),
        "summary": rules.summary(title if summary is None else summary),
        "parent_scope_id": parent_scope_id,
        "context_references": rules.context_references(context_references, of=scope_id),
        "external_references": rules.external_references(external_references),
    }


def _refuse_missing(conn: sa.Connection, values: Mapping[str, Any]) -> None:
    """Scopes that are named must exist; scopes are never deleted, so they go on to."""
    named = {*values["context_references"], values["parent_scope_id"]} - {None}
    if missing := sorted(named - set(scopes.some(conn, named))):
        raise ScopeNotFound(f"there is no scope {missing[0]!r}", scope_id=missing[0])


def ensure_scope(db: Database, scope_id: str, *, now_us: int) -> Scope:
    """Return the scope, created if it did not exist."""
    try:
        return create_scope(db, scope_id, now_us=now_us)
    except Conflict:
        return get_scope(db, scope_id)


def get_scope(db: Database, scope_id: str) -> Scope:
    """Return a scope. Raises NotFound."""
    with db.read() as conn:
        return scopes.get(conn, scope_id)


def get_scope_by_key(db: Database, key: str) -> Scope:
    """Return the scope that a partition key or folder names. Raises NotFound."""
    with db.read() as conn:
        return scopes.by_key(conn, key)


def scope_keys(db: Database, scope_ids: Iterable[str]) -> dict[str, str]:
    """The partition keys of some scopes, by id."""
    with db.read() as conn:
        return scopes.keys(conn, scope_ids)


def list_scopes(db: Database, *, after: str = "", limit: int) -> list[Scope]:
    """Scopes by id, after the given one."""
    with db.read() as conn:
        return scopes.page(conn, after=after, limit=limit)


def find_scopes(
    db: Database,
    *,
    query: str | None = None,
    query_field: str | None = None,
    parent_scope_id: str | None = None,
    external_reference_kind: str | None = None,
    binding_integration: str | None = None,
    binding_kind: str | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> ScopePage:
    """Scopes that have all of what is given, by id.

    Args:
        query: a part of the field `query_field` names, at most 256 characters; cases differ.
        query_field: one of `QUERY_FIELDS`; given exactly when `query` is. A reference's value
            is looked for where its kind fits, a binding's external id where its integration
            and kind do.
        after: `next_after` of the page before.
        limit: 1 to 100; None for all that is left.

    Raises:
        InvalidInput: names the field.
    """
    if (query is None) != (query_field is None):
        raise InvalidInput("query", "query and query_field must be provided together")
    if query is not None:
        text.within("query", text.storable("query", query), limits.SCOPE_QUERY_MAX_CHARS)
    if query_field is not None and query_field not in QUERY_FIELDS:
        raise InvalidInput("query_field", f"is {query_field!r}, one of {QUERY_FIELDS} is expected")
    if limit is not None and not 1 <= limit <= limits.PAGE_MAX:
        raise InvalidInput("limit", f"is {limit}, expected 1 to {limits.PAGE_MAX}")
    for value in (parent_scope_id, external_reference_kind, binding_integration, binding_kind):
        text.storable("query", value or "")
    bound_part = query if query_field == "binding_external_id" else None
    value_part = query if query_field == "external_reference_value" else None
    of_binding = (binding_integration, binding_kind, bound_part)
    of_reference = (external_reference_kind, value_part)
    with db.read() as conn:
        bound = None
        if any(part is not None for part in of_binding):
            bound = bindings.bound_scopes(
                conn,
                integration=binding_integration,
                kind=binding_kind,
                external_id_part=bound_part,
            )
        found: list[Scope] = []
        for scope in scopes.each(conn, after=after or "", parent_scope_id=parent_scope_id):
            if bound is not None and scope.scope_id not in bound:
                continue
            if any(part is not None for part in of_reference) and not any(
                external_reference_kind in (None, reference["kind"])
                and (value_part or "") in reference["value"]
                for reference in scope.external_references
            ):
                continue
            if query_field in _OWN_FIELDS and (query or "") not in getattr(scope, query_field):
                continue
            if limit is not None and len(found) == limit:
                return ScopePage(tuple(found), found[-1].scope_id)
            found.append(scope)
    return ScopePage(tuple(found), None)


def scope_status(db: Database, scope_id: str) -> ScopeStatus:
    """Where a scope stands, in one consistent read. Raises NotFound."""
    with db.read() as conn:
        return status_of(conn, scopes.get(conn, scope_id))


def status_of(conn: sa.Connection, scope: Scope) -> ScopeStatus:
    """Where a scope stands, as the transaction sees it."""
    states = entries.counts(conn, scope.scope_id)
    return ScopeStatus(
        scope=scope,
        high_watermark=sources.high_watermark(conn, scope.scope_id),
        cursors={
            consumer: cursors.get(conn, scope.scope_id, consumer).position for consumer in CONSUMERS
        },
        memory_revision=entries.head(conn, scope.scope_id),
        active_entries=states["active"],
        inactive_entries=states["inactive"],
        quarantined=quarantines.count(conn, scope.scope_id),
        open_window=windows.open_live(conn, scope.scope_id, "memory"),
    )
