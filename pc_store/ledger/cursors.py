"""How far each consumer has read each scope's log."""

from dataclasses import dataclass

import sqlalchemy as sa

from pc_store import limits
from pc_store.domain.window import Consumer
from pc_store.errors import CursorConflict, ScopeNotFound
from pc_store.ledger.schema import cursors

_widened = sa.case(
    (cursors.c.window_limit * 2 < limits.WINDOW_LIMIT_MAX, cursors.c.window_limit * 2),
    else_=None,
)


@dataclass(frozen=True)
class Cursor:
    """A cursor: positions up to `position` are processed."""

    position: int
    window_limit: int | None


def get(conn: sa.Connection, scope_id: str, consumer: Consumer, *, lock: bool = False) -> Cursor:
    """Return a cursor, locked until the transaction ends if asked. Raises ScopeNotFound."""
    query = sa.select(cursors.c.position, cursors.c.window_limit).where(
        cursors.c.scope_id == scope_id, cursors.c.consumer == consumer
    )
    row = conn.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise ScopeNotFound(f"there is no scope {scope_id!r}", scope_id=scope_id)
    return Cursor(row.position, row.window_limit)


def advance(
    conn: sa.Connection,
    scope_id: str,
    consumer: Consumer,
    *,
    after: int,
    through: int,
    now_us: int,
) -> None:
    """Move the cursor from `after` to `through`, in the caller's transaction.

    The caller writes what it made of the window (after, through] in that same transaction,
    so a window's results and its progress land together or not at all. A window limit that
    was narrowed doubles again, and is lifted at the largest.

    Raises:
        CursorConflict: the cursor is no longer at `after`.
    """
    moved = conn.execute(
        sa.update(cursors)
        .where(
            cursors.c.scope_id == scope_id,
            cursors.c.consumer == consumer,
            cursors.c.position == after,
        )
        .values(position=through, updated_at=now_us, window_limit=_widened)
    )
    if moved.rowcount != 1:
        current = get(conn, scope_id, consumer).position
        raise CursorConflict(
            f"the {consumer} cursor is at {current}, this window starts after {after}: "
            "another run committed first",
            expected=after,
            current=current,
        )


def narrow(conn: sa.Connection, scope_id: str, consumer: Consumer, *, window_limit: int) -> None:
    """Make the next windows smaller, until good ones widen them again."""
    conn.execute(
        sa.update(cursors)
        .where(cursors.c.scope_id == scope_id, cursors.c.consumer == consumer)
        .values(window_limit=window_limit)
    )


def any_moved_since(conn: sa.Connection, consumer: Consumer, moment_us: int) -> bool:
    """Whether any scope's cursor of a consumer moved at or after a moment."""
    query = sa.select(cursors.c.scope_id).where(
        cursors.c.consumer == consumer, cursors.c.position > 0, cursors.c.updated_at >= moment_us
    )
    return conn.execute(query.limit(1)).first() is not None


def served(conn: sa.Connection, scope_ids: list[str], consumer: Consumer, *, now_us: int) -> None:
    """Note that a run was asked for, so that other scopes come first next time."""
    for start in range(0, len(scope_ids), 500):
        conn.execute(
            sa.update(cursors)
            .where(
                cursors.c.scope_id.in_(scope_ids[start : start + 500]),
                cursors.c.consumer == consumer,
            )
            .values(served_at=now_us)
        )
