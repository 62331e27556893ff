"""Find what is due: the next window of a scope, scopes with one to run, new landing files."""

from collections.abc import Collection
from pathlib import Path

import sqlalchemy as sa

from pc_store.domain import window as rules
from pc_store.domain.refs import new_id
from pc_store.domain.window import Consumer
from pc_store.errors import NotFound
from pc_store.ledger import backlogs, cursors, landings, scopes, sources, windows
from pc_store.ledger.backlogs import Backlog
from pc_store.ledger.cursors import Cursor
from pc_store.ledger.database import Database
from pc_store.ledger.windows import WindowRow
from pc_store.services import recur
from pc_store.services.ingest import QUIET_S, LandingFile, pending_files
from pc_store.settings import Settings


def next_window(
    conn: sa.Connection, settings: Settings, scope_id: str, consumer: Consumer, *, now_us: int
) -> WindowRow | None:
    """The scope's open window, or else one newly cut at the cursor; None when nothing waits.

    A window covers (cursor, min(high watermark, cursor + limit)] and is cut shorter where its
    sources would not fit one model call, but never to nothing. Once cut it is kept: sources
    that arrive later belong to a later window.

    Raises:
        NotFound: no such scope.
    """
    while True:
        cursor = cursors.get(conn, scope_id, consumer)
        existing = _open_at(conn, scope_id, consumer, cursor.position, now_us)
        if existing is not None:
            return existing
        high = sources.high_watermark(conn, scope_id)
        end = rules.end_of_window(cursor.position, high, _limit(settings, cursor))
        if end <= cursor.position:
            return None
        sizes = sources.sizes(conn, scope_id, after=cursor.position, through=end)
        end = rules.fitting_end(cursor.position, sizes, settings.prompt_token_budget)
        window = insert_window(
            conn, scope_id, consumer, after=cursor.position, through=end, high=high, now_us=now_us
        )
        # On Postgres a commit may have landed since the cursor was read; then it is read again.
        unmoved = cursors.get(conn, scope_id, consumer).position == cursor.position
        if window is not None and unmoved:
            return window


def pass_over(
    db: Database, settings: Settings, scope_id: str, consumer: Consumer, *, now_us: int
) -> bool:
    """Move the cursor past whole windows that hold nothing for its consumer.

    Only task outcomes lead to an experience window, so windows before the first of them need no
    run. They are recorded as one that was `passed`, and recurrence is told of them as it would be
    by their runs. With no outcome past the cursor nothing is passed, and with an open window at
    the cursor neither. The memory reads everything.

    Returns:
        Whether there is a window to run.

    Raises:
        NotFound: no such scope.
    """
    if consumer == "memory":
        return True
    with db.write() as conn:
        cursor = cursors.get(conn, scope_id, consumer, lock=True)
        after = cursor.position
        if _open_at(conn, scope_id, consumer, after, now_us) is not None:
            return True
        first = backlogs.first_outcome(conn, scope_id, after=after)
        if first is None:
            return False
        through = rules.end_of_passed(after, first, _limit(settings, cursor))
        if through == after:
            return True
        high = sources.high_watermark(conn, scope_id)
        window = insert_window(
            conn, scope_id, consumer, after=after, through=through, high=high, now_us=now_us
        )
        if window is None:  # somebody has cut the next window meanwhile: it is run
            return True
        recur.record(conn, settings, scope_id, after=after, through=through, now_us=now_us)
        cursors.advance(conn, scope_id, consumer, after=after, through=through, now_us=now_us)
        windows.update(
            conn,
            window.window_id,
            status="passed",
            counts={"positions": window.size, "sources": 0},
            finished_at=now_us,
        )
        return True


def insert_window(
    conn: sa.Connection,
    scope_id: str,
    consumer: Consumer,
    *,
    after: int,
    through: int,
    high: int,
    now_us: int,
    kind: rules.Kind = "live",
    generation: str | None = None,
) -> WindowRow | None:
    """Insert a planned window under a new id; None when a live one is open already."""
    return windows.insert(
        conn,
        new_id("win_", at_us=now_us),
        scope_id,
        consumer,
        after=after,
        through=through,
        high_watermark=high,
        kind=kind,
        now_us=now_us,
        generation=generation,
    )


def due_scopes(
    db: Database,
    settings: Settings,
    consumer: Consumer,
    *,
    busy: Collection[str] = (),
    limit: int,
    now_us: int,
) -> list[Backlog]:
    """At most `limit` scopes with a window to run now, the longest unserved first.

    Args:
        busy: keys of scopes that have a run already; they are passed over.
    """
    with db.read() as conn:
        found = backlogs.due(
            conn,
            consumer,
            full_at=settings.source_window_limit,
            oldest_before_us=now_us - int(settings.window_max_wait_s * 1_000_000),
            now_us=now_us,
            limit=limit + len(busy),
        )
    return [backlog for backlog in found if backlog.scope_key not in busy][:limit]


def plan_windows(
    db: Database,
    settings: Settings,
    scope_ids: list[str],
    consumer: Consumer,
    *,
    now_us: int,
) -> list[WindowRow]:
    """Cut or find the next window of each scope and count one more run asked for.

    Windows that hold nothing for the consumer are passed over first.
    """
    planned: list[WindowRow] = []
    wanted = [
        scope_id
        for scope_id in scope_ids
        if pass_over(db, settings, scope_id, consumer, now_us=now_us)
    ]
    with db.write() as conn:
        for scope_id in wanted:
            window = next_window(conn, settings, scope_id, consumer, now_us=now_us)
            if window is not None:
                planned.append(window)
        windows.request(conn, [window.window_id for window in planned])
        cursors.served(conn, scope_ids, consumer, now_us=now_us)
    return planned


def note_served(db: Database, scope_ids: list[str], consumer: Consumer, *, now_us: int) -> None:
    """Note that a run was asked for, for scopes whose windows that run will cut itself."""
    with db.write() as conn:
        cursors.served(conn, scope_ids, consumer, now_us=now_us)


def landing_backlog(
    db: Database, landing_dir: Path, *, limit: int, now_us: int
) -> tuple[dict[str, list[LandingFile]], list[str]]:
    """What waits in the landing folders.

    Args:
        limit: most scopes to answer, by folder name.

    Returns:
        New or changed files by scope key; and the folders that are no scope's.
    """
    pending: dict[str, list[LandingFile]] = {}
    unknown: list[str] = []
    if not landing_dir.is_dir():
        return pending, unknown
    folders = sorted(item.name for item in landing_dir.iterdir() if item.is_dir())
    with db.read() as conn:
        for key in folders:
            if len(pending) == limit:
                break
            try:
                scope_id = scopes.by_key(conn, key).scope_id
            except NotFound:
                unknown.append(key)
                continue
            files = pending_files(
                landing_dir,
                key,
                landings.known(conn, scope_id),
                now_ns=now_us * 1_000,
                quiet_ns=int(QUIET_S * 1_000_000_000),
            )
            if files:
                pending[key] = files
    return pending, unknown


def _limit(settings: Settings, cursor: Cursor) -> int:
    """Most positions of the next window: fewer than usual while a bad one is being halved."""
    usual = settings.source_window_limit
    return min(usual, cursor.window_limit or usual)


def _open_at(
    conn: sa.Connection, scope_id: str, consumer: Consumer, cursor: int, now_us: int
) -> WindowRow | None:
    """The scope's open live window, if it starts at the cursor; one that was overtaken ends."""
    existing = windows.open_live(conn, scope_id, consumer)
    if existing is None or existing.after == cursor:
        return existing
    windows.supersede(conn, scope_id, consumer, cursor=cursor, now_us=now_us)
    return None
