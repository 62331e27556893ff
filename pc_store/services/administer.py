"""Scopes: make, find and list them; and what one looks like from outside."""

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from pc_store.domain import scope as rules
from pc_store.domain.scope import Scope
from pc_store.domain.window import CONSUMERS, Consumer
from pc_store.errors import Conflict
from pc_store.ledger import cursors, entries, quarantines, scopes, sources, windows
from pc_store.ledger.database import Database
from pc_store.ledger.windows import WindowRow


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
    scope_id: str,
    *,
    title: str | None = None,
    summary: str | None = None,
    now_us: int,
) -> Scope:
    """Create a scope; its title and summary are its id unless given.

    Raises:
        InvalidInput: a value breaks a rule.
        Conflict: the id is taken.
    """
    rules.scope_id(scope_id)
    named = rules.title(title if title is not None else scope_id)
    told = rules.summary(summary if summary is not None else named)
    with db.write() as conn:
        return scopes.create(conn, scope_id, title=named, summary=told, now_us=now_us)


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
