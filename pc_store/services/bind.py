"""Which scope is meant: the default, one bound to an outside id, a selection of several."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from pc_store.domain import scope as rules
from pc_store.domain.scope import BindingKey, Scope
from pc_store.errors import InvalidInput, ScopeIdempotencyConflict, ScopeNotFound
from pc_store.ledger import bindings, facts, scopes
from pc_store.ledger.database import Database
from pc_store.services.administer import create_scope

DEFAULT_SCOPE_KEY = "powercontext.default-scope.v1"
_FACT = "default_scope"


@dataclass(frozen=True)
class Binding:
    """What an integration's id stands for."""

    key: BindingKey
    scope_id: str


def default_scope(db: Database, *, now_us: int) -> Scope:
    """The default scope, made at first need under its reserved creation key."""
    with db.read() as conn:
        known = facts.get(conn, _FACT)
        if known is not None:
            return scopes.get(conn, known)
    try:
        made = create_scope(
            db,
            title="Default",
            summary="What belongs to no scope of its own.",
            idempotency_key=DEFAULT_SCOPE_KEY,
            now_us=now_us,
        )
    except ScopeIdempotencyConflict:  # somebody used the key for a scope of theirs
        with db.read() as conn:
            taken = scopes.creation(conn, DEFAULT_SCOPE_KEY)
            assert taken is not None
            made = scopes.get(conn, taken.scope_id)
    with db.write() as conn:
        return scopes.get(conn, facts.put_once(conn, _FACT, made.scope_id))


def set_default_scope(db: Database, scope_id: str) -> Scope:
    """Make a scope the default. Raises ScopeNotFound."""
    with db.write() as conn:
        scope = scopes.get(conn, scope_id)
        facts.put(conn, _FACT, scope_id)
        return scope


def resolve_binding(
    db: Database,
    *,
    explicit_scope_id: str | None = None,
    binding_keys: Sequence[BindingKey] = (),
    allow_default: bool = True,
    now_us: int,
) -> Scope:
    """The scope that is named; else of the first key that is bound; else the default.

    Raises:
        ScopeNotFound: the named one does not exist, or nothing is bound and no default allowed.
    """
    with db.read() as conn:
        if explicit_scope_id is not None:
            return scopes.get(conn, explicit_scope_id)
        for key in binding_keys:
            bound = bindings.get(conn, key)
            if bound is not None:
                return scopes.get(conn, bound)
    if not allow_default:
        raise ScopeNotFound("none of the keys is bound to a scope")
    return default_scope(db, now_us=now_us)


def set_binding(db: Database, key: BindingKey, scope_id: str, *, now_us: int) -> Binding:
    """Bind an outside id to a scope, in place of an earlier one. Raises ScopeNotFound."""
    with db.write() as conn:
        scopes.get(conn, scope_id)
        bindings.put(conn, key, scope_id, now_us=now_us)
    return Binding(key, scope_id)


def clear_binding(db: Database, key: BindingKey) -> bool:
    """Unbind an outside id; False when it was not bound."""
    with db.write() as conn:
        return bindings.drop(conn, key)


def resolve_selection(db: Database, selection: Mapping[str, Any]) -> list[Scope]:
    """The scopes a selection names.

    Args:
        selection: `{"mode": "all"}`, by id; `{"mode": "exact", "scope_ids": [...]}`, in that
            order; or `{"mode": "subtree", "root_scope_id": ...}`, the root first, then level
            by level, each by id.

    Raises:
        InvalidInput: it is none of these; ids are missing or repeated.
        ScopeNotFound: a named scope does not exist.
    """
    with db.read() as conn:
        return selected(conn, selection)


def selected(conn: sa.Connection, selection: Mapping[str, Any]) -> list[Scope]:
    """`resolve_selection`, in the caller's transaction."""
    match dict(selection):
        case {"mode": "all", **rest} if not rest:
            return list(scopes.each(conn))
        case {"mode": "exact", "scope_ids": list(ids), **rest} if ids and not rest:
            wanted = [rules.scope_id(one) if isinstance(one, str) else None for one in ids]
            if None in wanted or len(set(wanted)) != len(wanted):
                raise InvalidInput("selection.scope_ids", "must be unique scope ids")
            named = [one for one in wanted if one is not None]
            found = scopes.some(conn, named)
            for one in named:
                if one not in found:
                    raise ScopeNotFound(f"there is no scope {one!r}", scope_id=one)
            return [found[one] for one in named]
        case {"mode": "subtree", "root_scope_id": str(root), **rest} if not rest:
            return scopes.subtree(conn, root)
    raise InvalidInput(
        "selection",
        "must be of mode all, exact with scope_ids, or subtree with root_scope_id",
    )
