"""Begin an attempt at a window: the next one of a scope, or one that is named."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import sqlalchemy as sa

from pc_store import limits
from pc_store.domain.window import OPEN, Consumer, WindowKey
from pc_store.errors import CursorConflict, InvalidInput, StoreError, WindowRefused
from pc_store.ledger import cursors, scopes, sources, windows
from pc_store.ledger.database import Database
from pc_store.ledger.windows import WindowRow
from pc_store.services import shadow
from pc_store.services.clock import now_us as clock
from pc_store.services.plan import insert_window, next_window
from pc_store.settings import Settings

Mode = Literal["auto", "replay", "shadow"]


@dataclass(frozen=True)
class Opened:
    """A window at work, or why there is nothing to do.

    Attributes:
        status: `open` with a window; `idle` when nothing waits; `already processed` for a
            window behind the cursor that was not to be replayed, with the row that did it;
            `superseded` for a planned window that another commit overtook.
    """

    status: Literal["open", "idle", "already processed", "superseded"]
    window: WindowRow | None
    cursor: int
    high_watermark: int


def open_next(
    db: Database, settings: Settings, scope_id: str, consumer: Consumer, *, run_id: str, now_us: int
) -> Opened:
    """Begin an attempt at the scope's next window. Raises NotFound: no such scope."""
    with db.write() as conn:
        window = next_window(conn, settings, scope_id, consumer, now_us=now_us)
        cursor = cursors.get(conn, scope_id, consumer).position
        high = sources.high_watermark(conn, scope_id)
        if window is None:
            return Opened("idle", None, cursor, high)
        return Opened("open", _begin(conn, window, run_id, now_us), cursor, high)


def open_named(
    db: Database,
    key: WindowKey,
    consumer: Consumer,
    *,
    mode: Mode,
    run_id: str,
    now_us: int,
    generation: str | None = None,
) -> Opened:
    """Begin an attempt at the window a partition key names.

    At the cursor it is processed live. Behind the cursor it is left alone, or with mode
    `replay` run again: results are committed as a new revision, the cursor stays. With mode
    `shadow` the results are kept in a generation, which is made if there is none, and the memory
    stays as well; a window that the generation has replayed already is left alone.

    Raises:
        NotFound: no scope has this key.
        WindowRefused: ahead of the cursor, across it, past the log's end, larger than a
            window may be, or other bounds are planned already.
        InvalidInput: a generation is named and the mode is not `shadow`.
        InvalidInput, GenerationEnded, WindowRefused: as `shadow.claim`.
    """
    if generation is not None and mode != "shadow":  # or it would be applied at once
        raise InvalidInput("generation", f"is for mode shadow, and the mode is {mode}")
    if key.last - key.after > limits.WINDOW_LIMIT_MAX:
        raise WindowRefused(f"{key} covers more than {limits.WINDOW_LIMIT_MAX} positions")
    with db.write() as conn:
        scope_id = scopes.by_key(conn, key.scope_key).scope_id
        cursor = cursors.get(conn, scope_id, consumer).position
        high = sources.high_watermark(conn, scope_id)
        if key.last > high:
            raise WindowRefused(f"{key} ends past the log, which ends at {high}")
        if key.last <= cursor:
            if mode == "auto":
                row = windows.latest(conn, scope_id, consumer, after=key.after, through=key.last)
                return Opened("already processed", row, cursor, high)
            if mode == "shadow":
                known = shadow.claim(conn, scope_id, consumer, key, generation, now_us=now_us)
                if known is not None:
                    return Opened("already processed", windows.get(conn, known), cursor, high)
            window = insert_window(
                conn,
                scope_id,
                consumer,
                after=key.after,
                through=key.last,
                high=high,
                now_us=now_us,
                kind=mode,
                generation=generation,
            )
            assert window is not None
            return Opened("open", _begin(conn, window, run_id, now_us), cursor, high)
        if mode != "auto":
            raise WindowRefused(f"{key} is not behind the cursor, which is at {cursor}")
        window = _at_cursor(conn, key, scope_id, consumer, cursor, high, now_us)
        if window is None:
            row = windows.latest(conn, scope_id, consumer, after=key.after, through=key.last)
            return Opened("superseded", row, cursor, high)
        return Opened("open", _begin(conn, window, run_id, now_us), cursor, high)


def _at_cursor(
    conn: sa.Connection,
    key: WindowKey,
    scope_id: str,
    consumer: Consumer,
    cursor: int,
    high: int,
    now_us: int,
) -> WindowRow | None:
    """The live window a key names; None when it was planned and then overtaken."""
    if key.after > cursor:
        raise WindowRefused(
            f"{key} is ahead of the cursor, which is at {cursor}: the windows before it come first"
        )
    if key.after < cursor:
        windows.supersede(conn, scope_id, consumer, cursor=cursor, now_us=now_us)
        if windows.latest(conn, scope_id, consumer, after=key.after, through=key.last):
            return None
        raise WindowRefused(f"{key} lies across the cursor, which is at {cursor}")
    existing = windows.open_live(conn, scope_id, consumer)
    if existing is None:
        existing = insert_window(
            conn, scope_id, consumer, after=key.after, through=key.last, high=high, now_us=now_us
        )
    if existing is None or (existing.after, existing.through) != (key.after, key.last):
        planned = "another" if existing is None else f"({existing.after}, {existing.through}]"
        raise WindowRefused(f"{key} does not match the window that is planned: {planned}")
    return existing


def _begin(conn: sa.Connection, window: WindowRow, run_id: str, now_us: int) -> WindowRow:
    window = lock_open(conn, window.window_id)
    windows.update(
        conn,
        window.window_id,
        status="running",
        attempt=window.attempt + 1,
        run_id=run_id,
        started_at=now_us,
    )
    windows.beat(conn, run_id, now_us=now_us)
    return windows.get(conn, window.window_id)


def lock_open(conn: sa.Connection, window_id: str) -> WindowRow:
    """Lock a window that is still to be worked on, until the transaction ends.

    Raises:
        CursorConflict: another run has ended it.
    """
    window = windows.get(conn, window_id, lock=True)
    refuse_ended(window)
    return window


def refuse_ended(window: WindowRow) -> None:
    """Raise CursorConflict when a window is not to be worked on any more."""
    if window.status not in OPEN:
        raise CursorConflict(
            f"window ({window.after}, {window.through}] is {window.status} already: "
            "another run ended it, nothing was written"
        )


@contextmanager
def alive(db: Database, run_id: str, *, every_s: float) -> Iterator[None]:
    """Keep a run's heartbeat going while the block runs."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(every_s):
            try:
                with db.write() as conn:
                    windows.beat(conn, run_id, now_us=clock())
            except StoreError:
                continue  # a missed beat is made up by the next

    thread = threading.Thread(target=beat, name=f"heartbeat {run_id}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
