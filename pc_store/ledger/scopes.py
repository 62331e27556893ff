"""Scopes, and the rows that every scope has from its first moment."""

from collections.abc import Iterable, Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from pc_store.domain import window
from pc_store.domain.refs import MEMORY_FAMILY, MEMORY_ID
from pc_store.domain.scope import Scope, partition_key
from pc_store.errors import Conflict, NotFound
from pc_store.ledger.schema import artifacts, cursors, scopes, source_heads


def create(conn: sa.Connection, scope_id: str, *, title: str, summary: str, now_us: int) -> Scope:
    """Insert a scope, its empty log, its cursors at 0 and its memory at revision 0.

    That these rows exist from the start is what lets every later write be a compare-and-set.

    Raises:
        Conflict: the id is taken.
    """
    row: dict[str, Any] = {
        "scope_id": scope_id,
        "key": partition_key(scope_id),
        "title": title,
        "summary": summary,
        "parent_scope_id": None,
        "context_references": [],
        "external_references": [],
        "version": 1,
        "created_at": now_us,
    }
    try:
        conn.execute(sa.insert(scopes).values(row))
    except IntegrityError:
        raise Conflict(f"the scope {scope_id!r} exists already", scope_id=scope_id) from None
    conn.execute(sa.insert(source_heads).values(scope_id=scope_id, position=0, updated_at=now_us))
    conn.execute(
        sa.insert(cursors),
        [
            {
                "scope_id": scope_id,
                "consumer": consumer,
                "position": 0,
                "served_at": 0,
                "updated_at": now_us,
            }
            for consumer in window.CONSUMERS
        ],
    )
    conn.execute(
        sa.insert(artifacts).values(
            scope_id=scope_id,
            family=MEMORY_FAMILY,
            artifact_id=MEMORY_ID,
            head=0,
            lifecycle="active",
            created_at=now_us,
        )
    )
    return get(conn, scope_id)


def get(conn: sa.Connection, scope_id: str) -> Scope:
    """Return a scope. Raises NotFound."""
    row = conn.execute(sa.select(scopes).where(scopes.c.scope_id == scope_id)).one_or_none()
    if row is None:
        raise NotFound(f"there is no scope {scope_id!r}", scope_id=scope_id)
    return _scope(row)


def by_key(conn: sa.Connection, key: str) -> Scope:
    """Return the scope that a partition key or folder names. Raises NotFound."""
    row = conn.execute(sa.select(scopes).where(scopes.c.key == key)).one_or_none()
    if row is None:
        raise NotFound(f"no scope has the key {key!r}", key=key)
    return _scope(row)


def page(conn: sa.Connection, *, after: str = "", limit: int) -> list[Scope]:
    """Scopes by id, after the given one."""
    query = sa.select(scopes).where(scopes.c.scope_id > after).order_by(scopes.c.scope_id)
    return [_scope(row) for row in conn.execute(query.limit(limit))]


def each(conn: sa.Connection) -> Iterator[Scope]:
    """Every scope by id."""
    for row in conn.execute(sa.select(scopes).order_by(scopes.c.scope_id)):
        yield _scope(row)


def keys(conn: sa.Connection, scope_ids: Iterable[str]) -> dict[str, str]:
    """The partition keys of some scopes, by id."""
    wanted = list(scope_ids)
    query = sa.select(scopes.c.scope_id, scopes.c.key).where(scopes.c.scope_id.in_(wanted))
    return {row.scope_id: row.key for row in conn.execute(query)}


def _scope(row: sa.Row) -> Scope:  # type: ignore[type-arg]
    return Scope(
        scope_id=row.scope_id,
        key=row.key,
        title=row.title,
        summary=row.summary,
        version=row.version,
        created_at=row.created_at,
        parent_scope_id=row.parent_scope_id,
        context_references=tuple(row.context_references),
        external_references=tuple(row.external_references),
    )
