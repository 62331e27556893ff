"""What waits for each consumer past its cursor, and which scopes are due.

The memory reads every source of a log. Experience and recurrence read task outcomes: other
sources wait for neither, however many there are.
"""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from pc_store.domain.outcome import KIND
from pc_store.domain.window import OPEN, Consumer
from pc_store.ledger.schema import cursors, scopes, source_heads, sources, windows

_LIVE = sa.and_(
    windows.c.scope_id == cursors.c.scope_id,
    windows.c.consumer == cursors.c.consumer,
    windows.c.kind == "live",
    windows.c.status.in_(OPEN),
)


@dataclass(frozen=True)
class Backlog:
    """A scope with something to do now.

    Attributes:
        lag: positions from where its next window starts to the last that waits.
    """

    scope_id: str
    scope_key: str
    lag: int


@dataclass(frozen=True)
class Waiting:
    """What waits for a consumer, counted in sources that it reads.

    Attributes:
        scopes: those with something that waits.
        sources: over all of them.
        most: in the scope with most.
    """

    scopes: int
    sources: int
    most: int


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

    A scope is due when its open window may be attempted again, or, with no open window, one
    that holds something for the consumer would be full, or the oldest that waits in it is old
    enough. Windows before it that hold nothing are no reason to run.

    Args:
        full_at: positions that make a full window.
        oldest_before_us: a source received at or before this need not wait for others.
    """
    first, last = _waiting_ends(consumer)
    log = (
        sa.select(
            cursors.c.scope_id,
            cursors.c.served_at,
            cursors.c.position.label("cursor"),
            source_heads.c.position.label("high"),
            first.label("first"),
            last.label("last"),
            windows.c.through.label("open_through"),
            windows.c.next_attempt_at,
        )
        .join(source_heads, source_heads.c.scope_id == cursors.c.scope_id)
        .outerjoin(windows, _LIVE)
        .where(cursors.c.consumer == consumer, source_heads.c.position > cursors.c.position)
        .subquery()
    )
    starts = log.c.cursor + (log.c.first - 1 - log.c.cursor) // full_at * full_at
    oldest = (
        sa.select(sources.c.received_at)
        .where(sources.c.scope_id == log.c.scope_id, sources.c.position == log.c.first)
        .scalar_subquery()
    )
    query = (
        sa.select(log.c.scope_id, scopes.c.key.label("scope_key"))
        .add_columns(
            sa.case(
                (log.c.open_through.is_(None), log.c.last - starts),
                else_=sa.func.coalesce(log.c.last, log.c.open_through) - log.c.cursor,
            ).label("lag")
        )
        .join(scopes, scopes.c.scope_id == log.c.scope_id)
        .where(
            sa.or_(
                log.c.next_attempt_at <= now_us,
                sa.and_(
                    log.c.open_through.is_(None),
                    log.c.first.is_not(None),
                    sa.or_(log.c.high - starts >= full_at, oldest <= oldest_before_us),
                ),
            )
        )
        .order_by(log.c.served_at, log.c.scope_id)
        .limit(limit)
    )
    return [Backlog(**row._mapping) for row in conn.execute(query)]


def waiting(conn: sa.Connection, consumer: Consumer) -> Waiting:
    """What waits for a consumer, over all scopes."""
    lags = _lags(consumer).subquery()
    query = sa.select(
        sa.func.count(),
        sa.func.coalesce(sa.func.sum(lags.c.lag), 0),
        sa.func.coalesce(sa.func.max(lags.c.lag), 0),
    ).select_from(lags)
    return Waiting(*map(int, conn.execute(query).one()))


def over(
    conn: sa.Connection, consumer: Consumer, target: int, *, scope_id: str | None = None
) -> list[tuple[str, int]]:
    """(scope, sources waiting) of scopes, or of the one, where more than `target` wait.

    Most first, ties by id.
    """
    query = _lags(consumer)
    if scope_id is not None:
        query = query.where(cursors.c.scope_id == scope_id)
    lags = query.subquery()
    query = (
        sa.select(lags.c.scope_id, lags.c.lag)
        .where(lags.c.lag > target)
        .order_by(lags.c.lag.desc(), lags.c.scope_id)
    )
    return [(row.scope_id, int(row.lag)) for row in conn.execute(query)]


def oldest(conn: sa.Connection, consumer: Consumer, *, now_us: int) -> tuple[str, int] | None:
    """(scope, received at) of what has waited longest; None when nothing waits.

    A scope whose open window is to be attempted later does not wait for anybody.
    """
    first, _ = _waiting_ends(consumer)
    query = (
        sa.select(sources.c.scope_id, sources.c.received_at)
        .select_from(cursors)
        .outerjoin(windows, _LIVE)
        .join(
            sources,
            sa.and_(sources.c.scope_id == cursors.c.scope_id, sources.c.position == first),
        )
        .where(
            cursors.c.consumer == consumer,
            sa.or_(windows.c.window_id.is_(None), windows.c.next_attempt_at <= now_us),
        )
        .order_by(sources.c.received_at, sources.c.scope_id)
        .limit(1)
    )
    row = conn.execute(query).one_or_none()
    return (row.scope_id, row.received_at) if row is not None else None


def first_outcome(conn: sa.Connection, scope_id: str, *, after: int) -> int | None:
    """The position of a log's first task outcome after a position."""
    query = sa.select(sa.func.min(sources.c.position)).where(
        sources.c.scope_id == scope_id, sources.c.kind == KIND, sources.c.position > after
    )
    position: int | None = conn.execute(query).scalar_one()
    return position


def _waiting_ends(consumer: Consumer) -> tuple[sa.ColumnElement[int], sa.ColumnElement[int]]:
    """The first and last position that wait past a cursor; null where no outcome does.

    Of the memory they are told without looking, so they only mean something where the log goes
    on past the cursor.
    """
    if consumer == "memory":
        return cursors.c.position + 1, source_heads.c.position
    table = sources.alias()
    first, last = (
        sa.select(end(table.c.position))
        .where(
            table.c.scope_id == cursors.c.scope_id,
            table.c.kind == KIND,
            table.c.position > cursors.c.position,
        )
        .correlate(cursors)
        .scalar_subquery()
        for end in (sa.func.min, sa.func.max)
    )
    return first, last


def _lags(consumer: Consumer) -> sa.Select[Any]:
    """(scope, sources waiting) of every scope where some wait."""
    query = sa.select(cursors.c.scope_id).where(cursors.c.consumer == consumer)
    if consumer == "memory":
        lag = source_heads.c.position - cursors.c.position
        return (
            query.add_columns(lag.label("lag"))
            .join(source_heads, source_heads.c.scope_id == cursors.c.scope_id)
            .where(lag > 0)
        )
    return (
        query.add_columns(sa.func.count().label("lag"))
        .join(
            sources,
            sa.and_(
                sources.c.scope_id == cursors.c.scope_id,
                sources.c.kind == KIND,
                sources.c.position > cursors.c.position,
            ),
        )
        .group_by(cursors.c.scope_id)
    )
