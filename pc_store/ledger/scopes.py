"""Scopes, and the rows that every scope has from its first moment."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from pc_store.domain import window
from pc_store.domain.refs import MEMORY_FAMILY, MEMORY_ID
from pc_store.domain.scope import Scope, partition_key
from pc_store.errors import Conflict, ScopeNotFound, ScopeVersionConflict
from pc_store.ledger.schema import artifacts, cursors, scope_creations, scopes, source_heads

_TREE_LOCK = 7_219_331_043
"""PostgreSQL advisory lock of whoever changes a parent; any constant of our own."""


@dataclass(frozen=True)
class Creation:
    """Which scope a creation key made, and of what values."""

    digest: str
    scope_id: str


def create(
    conn: sa.Connection,
    scope_id: str,
    *,
    title: str,
    summary: str,
    parent_scope_id: str | None = None,
    context_references: Iterable[str] = (),
    external_references: Iterable[dict[str, Any]] = (),
    now_us: int,
) -> Scope:
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
        "parent_scope_id": parent_scope_id,
        "context_references": list(context_references),
        "external_references": list(external_references),
        "version": 1,
        "created_at": now_us,
    }
    try:
        with conn.begin_nested():
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
    """Return a scope. Raises ScopeNotFound."""
    row = conn.execute(sa.select(scopes).where(scopes.c.scope_id == scope_id)).one_or_none()
    if row is None:
        raise ScopeNotFound(f"there is no scope {scope_id!r}", scope_id=scope_id)
    return _scope(row)


def lock(conn: sa.Connection, scope_id: str) -> Scope:
    """Lock a scope's row until the transaction ends and return it. Raises ScopeNotFound."""
    conn.execute(sa.select(scopes.c.version).where(scopes.c.scope_id == scope_id).with_for_update())
    return get(conn, scope_id)


def update(
    conn: sa.Connection,
    scope_id: str,
    *,
    expected_version: int,
    title: str,
    summary: str,
    parent_scope_id: str | None,
    context_references: Iterable[str],
    external_references: Iterable[dict[str, Any]],
) -> Scope:
    """Replace what a scope says of itself.

    Raises:
        ScopeNotFound: no such scope.
        ScopeVersionConflict: it is not at the expected version.
    """
    changed = conn.execute(
        sa.update(scopes)
        .where(scopes.c.scope_id == scope_id, scopes.c.version == expected_version)
        .values(
            title=title,
            summary=summary,
            parent_scope_id=parent_scope_id,
            context_references=list(context_references),
            external_references=list(external_references),
            version=expected_version + 1,
        )
    )
    found = get(conn, scope_id)
    if changed.rowcount != 1:
        raise ScopeVersionConflict(
            f"the scope {scope_id!r} is at version {found.version}, "
            f"{expected_version} was expected",
            expected_version=expected_version,
            current_version=found.version,
        )
    return found


def creation(conn: sa.Connection, idempotency_key: str) -> Creation | None:
    """What a creation key made; None when it is new."""
    table = scope_creations
    query = sa.select(table).where(table.c.idempotency_key == idempotency_key)
    row = conn.execute(query).one_or_none()
    return Creation(row.digest, row.scope_id) if row is not None else None


def take_creation_key(
    conn: sa.Connection, idempotency_key: str, *, digest: str, scope_id: str, now_us: int
) -> bool:
    """Note what a creation key is about to make; False when another writer was first.

    Waits for a transaction that is taking the same key.
    """
    try:
        with conn.begin_nested():
            conn.execute(
                sa.insert(scope_creations).values(
                    idempotency_key=idempotency_key,
                    digest=digest,
                    scope_id=scope_id,
                    created_at=now_us,
                )
            )
    except IntegrityError:
        return False
    return True


def lock_tree(conn: sa.Connection) -> None:
    """Let nobody else change a parent until the transaction ends."""
    if conn.dialect.name != "sqlite":  # where every write transaction is alone already
        conn.execute(sa.select(sa.func.pg_advisory_xact_lock(_TREE_LOCK)))


def ancestors(conn: sa.Connection, scope_id: str) -> set[str]:
    """The scope itself, its parent, the parent's parent and so on."""
    line = (
        sa.select(scopes.c.scope_id, scopes.c.parent_scope_id)
        .where(scopes.c.scope_id == scope_id)
        .cte(recursive=True)
    )
    line = line.union(
        sa.select(scopes.c.scope_id, scopes.c.parent_scope_id).join(
            line, scopes.c.scope_id == line.c.parent_scope_id
        )
    )
    return set(conn.execute(sa.select(line.c.scope_id)).scalars())


def subtree(conn: sa.Connection, root_scope_id: str) -> list[Scope]:
    """A scope and all below it, level by level, each by id. Raises ScopeNotFound."""
    level = [get(conn, root_scope_id)]
    found: list[Scope] = []
    while level:
        found += level
        level = _children(conn, [scope.scope_id for scope in level])
    return found


def _children(conn: sa.Connection, parents: list[str]) -> list[Scope]:
    rows: list[Scope] = []
    for start in range(0, len(parents), 500):
        some = parents[start : start + 500]
        query = sa.select(scopes).where(scopes.c.parent_scope_id.in_(some))
        rows += [_scope(row) for row in conn.execute(query)]
    return sorted(rows, key=lambda scope: scope.scope_id)


def some(conn: sa.Connection, scope_ids: Collection[str]) -> dict[str, Scope]:
    """Those of the scopes that exist, by id."""
    wanted = sorted(scope_ids)
    found: dict[str, Scope] = {}
    for start in range(0, len(wanted), 500):
        query = sa.select(scopes).where(scopes.c.scope_id.in_(wanted[start : start + 500]))
        found |= {row.scope_id: _scope(row) for row in conn.execute(query)}
    return found


def by_key(conn: sa.Connection, key: str) -> Scope:
    """Return the scope that a partition key or folder names. Raises ScopeNotFound."""
    row = conn.execute(sa.select(scopes).where(scopes.c.key == key)).one_or_none()
    if row is None:
        raise ScopeNotFound(f"no scope has the key {key!r}", key=key)
    return _scope(row)


def page(conn: sa.Connection, *, after: str = "", limit: int) -> list[Scope]:
    """Scopes by id, after the given one."""
    query = sa.select(scopes).where(scopes.c.scope_id > after).order_by(scopes.c.scope_id)
    return [_scope(row) for row in conn.execute(query.limit(limit))]


def each(
    conn: sa.Connection, *, after: str = "", parent_scope_id: str | None = None
) -> Iterator[Scope]:
    """Every scope by id, after the given one; of a parent, where one is given."""
    query = sa.select(scopes).where(scopes.c.scope_id > after).order_by(scopes.c.scope_id)
    if parent_scope_id is not None:
        query = query.where(scopes.c.parent_scope_id == parent_scope_id)
    for row in conn.execute(query.execution_options(yield_per=500)):
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
