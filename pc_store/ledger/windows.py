"""Windows: every one ever cut, the drafts of those at work, and who is alive to work on them."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from pc_store.domain.window import OPEN, Consumer, Kind, Status
from pc_store.errors import NotFound
from pc_store.ledger.schema import heartbeats, window_drafts, windows


@dataclass(frozen=True)
class WindowRow:
    """One row of the windows table; see `schema.windows` for what the columns say."""

    window_id: str
    scope_id: str
    consumer: Consumer
    after: int
    through: int
    high_watermark: int
    kind: Kind
    status: Status
    attempt: int
    counted_failures: int
    requests: int
    next_attempt_at: int
    first_failed_at: int | None
    error: Mapping[str, Any] | None
    run_id: str | None
    provider: str | None
    model: str | None
    prompt_key: str | None
    prompt_revision: str | None
    counts: Mapping[str, int] | None
    rejects: list[dict[str, Any]] | None
    usage: Mapping[str, Any] | None
    memory_revision: int | None
    planned_at: int
    started_at: int | None
    answered_at: int | None
    finished_at: int | None
    generation: str | None

    @property
    def size(self) -> int:
        """Positions it covers."""
        return self.through - self.after


_COLUMNS = [windows.c[field.name] for field in fields(WindowRow)]


def insert(
    conn: sa.Connection,
    window_id: str,
    scope_id: str,
    consumer: Consumer,
    *,
    after: int,
    through: int,
    high_watermark: int,
    kind: Kind,
    now_us: int,
    generation: str | None = None,
) -> WindowRow | None:
    """Insert a planned window; None when the scope has an open live one already."""
    statement = sa.insert(windows).values(
        window_id=window_id,
        scope_id=scope_id,
        consumer=consumer,
        after=after,
        through=through,
        high_watermark=high_watermark,
        kind=kind,
        status="planned",
        attempt=0,
        counted_failures=0,
        requests=0,
        next_attempt_at=0,
        planned_at=now_us,
        generation=generation,
    )
    try:
        with conn.begin_nested():
            conn.execute(statement)
    except IntegrityError:
        return None
    return get(conn, window_id)


def get(conn: sa.Connection, window_id: str, *, lock: bool = False) -> WindowRow:
    """Return a window, locked until the transaction ends if asked. Raises NotFound."""
    query = sa.select(*_COLUMNS).where(windows.c.window_id == window_id)
    row = conn.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise NotFound(f"there is no window {window_id!r}", window_id=window_id)
    return WindowRow(**row._mapping)


def open_live(conn: sa.Connection, scope_id: str, consumer: Consumer) -> WindowRow | None:
    """The scope's one live window that is planned, running or failed."""
    query = sa.select(*_COLUMNS).where(
        windows.c.scope_id == scope_id,
        windows.c.consumer == consumer,
        windows.c.kind == "live",
        windows.c.status.in_(OPEN),
    )
    row = conn.execute(query).one_or_none()
    return WindowRow(**row._mapping) if row is not None else None


def latest(
    conn: sa.Connection, scope_id: str, consumer: Consumer, *, after: int, through: int
) -> WindowRow | None:
    """The newest window that covered exactly these positions, live or replayed, no shadow."""
    query = (
        sa.select(*_COLUMNS)
        .where(
            windows.c.scope_id == scope_id,
            windows.c.consumer == consumer,
            windows.c.after == after,
            windows.c.through == through,
            windows.c.kind != "shadow",
        )
        .order_by(windows.c.planned_at.desc(), windows.c.window_id.desc())
        .limit(1)
    )
    row = conn.execute(query).one_or_none()
    return WindowRow(**row._mapping) if row is not None else None


def page(
    conn: sa.Connection,
    *,
    scope_id: str | None = None,
    consumer: Consumer | None = None,
    statuses: Iterable[Status] = (),
    before: str | None = None,
    shadows: bool = True,
    limit: int,
) -> list[WindowRow]:
    """Windows, newest first (by id, which sorts by time), before the given id.

    Args:
        shadows: those that were replayed into a generation as well.
    """
    query = sa.select(*_COLUMNS).order_by(windows.c.window_id.desc()).limit(limit)
    if not shadows:
        query = query.where(windows.c.kind != "shadow")
    if scope_id is not None:
        query = query.where(windows.c.scope_id == scope_id)
    if consumer is not None:
        query = query.where(windows.c.consumer == consumer)
    if wanted := list(statuses):
        query = query.where(windows.c.status.in_(wanted))
    if before is not None:
        query = query.where(windows.c.window_id < before)
    return [WindowRow(**row._mapping) for row in conn.execute(query)]


def ended_since(
    conn: sa.Connection, consumer: Consumer, *, finished_at: int, window_id: str, limit: int
) -> list[WindowRow]:
    """Windows but shadows that ended, well or not, after (time, id), in that order."""
    query = (
        sa.select(*_COLUMNS)
        .where(
            windows.c.consumer == consumer,
            windows.c.kind != "shadow",
            sa.tuple_(windows.c.finished_at, windows.c.window_id)
            > sa.tuple_(sa.literal(finished_at), sa.literal(window_id)),
        )
        .order_by(windows.c.finished_at, windows.c.window_id)
        .limit(limit)
    )
    return [WindowRow(**row._mapping) for row in conn.execute(query)]


def update(conn: sa.Connection, window_id: str, **values: Any) -> None:
    """Set columns of a window."""
    conn.execute(sa.update(windows).where(windows.c.window_id == window_id).values(values))


def request(conn: sa.Connection, window_ids: list[str]) -> None:
    """Count one more run asked for, for each window."""
    conn.execute(
        sa.update(windows)
        .where(windows.c.window_id.in_(window_ids))
        .values(requests=windows.c.requests + 1)
    )


def supersede(
    conn: sa.Connection, scope_id: str, consumer: Consumer, *, cursor: int, now_us: int
) -> None:
    """End open live windows that start behind the cursor: another commit overtook them."""
    conn.execute(
        sa.update(windows)
        .where(
            windows.c.scope_id == scope_id,
            windows.c.consumer == consumer,
            windows.c.kind == "live",
            windows.c.status.in_(OPEN),
            windows.c.after < cursor,
        )
        .values(status="superseded", finished_at=now_us)
    )


def supersede_shadows(conn: sa.Connection, scope_id: str, generation: str, *, now_us: int) -> None:
    """End a generation's open windows, and forget the answers kept for them."""
    open_shadows = sa.and_(
        windows.c.scope_id == scope_id,
        windows.c.consumer == "memory",
        windows.c.generation == generation,
        windows.c.status.in_(OPEN),
    )
    of_them = sa.select(windows.c.window_id).where(open_shadows)
    conn.execute(sa.delete(window_drafts).where(window_drafts.c.window_id.in_(of_them)))
    conn.execute(
        sa.update(windows).where(open_shadows).values(status="superseded", finished_at=now_us)
    )


def model_answered_since(conn: sa.Connection, model: str, moment_us: int, *, but: str) -> bool:
    """Whether the model answered any other window after a moment: proof that it is alive."""
    query = (
        sa.select(windows.c.window_id)
        .where(
            windows.c.model == model,
            windows.c.answered_at > moment_us,
            windows.c.window_id != but,
        )
        .limit(1)
    )
    return conn.execute(query).first() is not None


def put_draft(
    conn: sa.Connection, window_id: str, *, basis: str, answer: dict[str, Any], now_us: int
) -> None:
    """Keep what was answered for a window, in place of an earlier answer."""
    drop_draft(conn, window_id)
    conn.execute(
        sa.insert(window_drafts).values(
            window_id=window_id, basis=basis, answer=answer, created_at=now_us
        )
    )


def draft(conn: sa.Connection, window_id: str) -> tuple[str, dict[str, Any]] | None:
    """The (basis, answer) kept for a window."""
    row = conn.execute(
        sa.select(window_drafts).where(window_drafts.c.window_id == window_id)
    ).one_or_none()
    return (row.basis, row.answer) if row is not None else None


def drafts_of(conn: sa.Connection, scope_id: str) -> dict[str, dict[str, Any]]:
    """The answers kept for a scope's windows, by window id."""
    query = (
        sa.select(window_drafts.c.window_id, window_drafts.c.answer)
        .join(windows, windows.c.window_id == window_drafts.c.window_id)
        .where(windows.c.scope_id == scope_id)
    )
    return {row.window_id: row.answer for row in conn.execute(query)}


def drop_draft(conn: sa.Connection, window_id: str) -> None:
    """Forget the answer kept for a window."""
    conn.execute(sa.delete(window_drafts).where(window_drafts.c.window_id == window_id))


def beat(conn: sa.Connection, run_id: str, *, now_us: int) -> None:
    """Say that a run is alive."""
    changed = conn.execute(
        sa.update(heartbeats).where(heartbeats.c.run_id == run_id).values(beat_at=now_us)
    )
    if changed.rowcount == 0:
        with suppress(IntegrityError), conn.begin_nested():  # another thread may be first
            conn.execute(sa.insert(heartbeats).values(run_id=run_id, beat_at=now_us))


def last_beats(conn: sa.Connection, run_ids: list[str]) -> dict[str, int]:
    """When each of the runs was last alive; runs that never beat are absent."""
    query = sa.select(heartbeats).where(heartbeats.c.run_id.in_(run_ids))
    return {row.run_id: row.beat_at for row in conn.execute(query)}


def drop_beats(conn: sa.Connection, *, before_us: int) -> int:
    """Forget runs that were last alive before a moment; how many there were."""
    gone = conn.execute(sa.delete(heartbeats).where(heartbeats.c.beat_at < before_us))
    return gone.rowcount
