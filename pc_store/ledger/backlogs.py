"""Scopes whose log goes on past a consumer's cursor, and which of them are due."""

from dataclasses import dataclass

import sqlalchemy as sa

from pc_store.domain.window import Consumer
from pc_store.ledger.schema import cursors, scopes, source_heads, sources, windows


@dataclass(frozen=True)
class Backlog:
    """A scope with something to do now."""

    scope_id: str
    scope_key: str
    cursor: int
    high_watermark: int

    @property
    def lag(self) -> int:
        """Positions waiting."""
        return self.high_watermark - self.cursor


def due(
    conn: sa.Connection,
    consumer: Consumer,
    *,
    full_at: int,
    oldest_before_us: int,
    now_us: int,
    limit: int,
) -> list[Backlog]:
    """Scopes with a window to run now, the longest unserved first, ties by id.

    A scope is due when positions wait past its cursor and either its open window may be
    attempted again, or, with no open window, one would be full or its oldest source is old
    enough.

    Args:
        full_at: positions that make a full window.
        oldest_before_us: a source received at or before this need not wait for others.
    """
    live = sa.and_(
        windows.c.scope_id == cursors.c.scope_id,
        windows.c.consumer == cursors.c.consumer,
        windows.c.kind == "live",
        windows.c.status.in_(("planned", "running", "failed")),
    )
    oldest = (
        sa.select(sources.c.received_at)
        .where(
            sources.c.scope_id == cursors.c.scope_id,
            sources.c.position == cursors.c.position + 1,
        )
        .scalar_subquery()
    )
    waiting = source_heads.c.position - cursors.c.position
    query = (
        sa.select(
            cursors.c.scope_id,
            scopes.c.key.label("scope_key"),
            cursors.c.position.label("cursor"),
            source_heads.c.position.label("high_watermark"),
        )
        .join(source_heads, source_heads.c.scope_id == cursors.c.scope_id)
        .join(scopes, scopes.c.scope_id == cursors.c.scope_id)
        .outerjoin(windows, live)
        .where(
            cursors.c.consumer == consumer,
            waiting > 0,
            sa.or_(
                windows.c.next_attempt_at <= now_us,
                sa.and_(
                    windows.c.window_id.is_(None),
                    sa.or_(waiting >= full_at, oldest <= oldest_before_us),
                ),
            ),
        )
        .order_by(cursors.c.served_at, cursors.c.scope_id)
        .limit(limit)
    )
    return [Backlog(**row._mapping) for row in conn.execute(query)]


def waiting(conn: sa.Connection, consumer: Consumer) -> tuple[int, int]:
    """(scopes with something past the cursor, positions waiting over all of them)."""
    lag = source_heads.c.position - cursors.c.position
    query = (
        sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(lag), 0))
        .select_from(cursors)
        .join(source_heads, source_heads.c.scope_id == cursors.c.scope_id)
        .where(cursors.c.consumer == consumer, lag > 0)
    )
    scopes_waiting, positions = conn.execute(query).one()
    return int(scopes_waiting), int(positions)
