"""What becomes of a window that failed, and how people bring set-aside sources back."""

import secrets
from dataclasses import asdict

import sqlalchemy as sa

from pc_store.domain.proposal import Usage
from pc_store.domain.recovery import Step, next_step
from pc_store.domain.window import OPEN, Consumer, WindowKey, retry_delay_s
from pc_store.errors import (
    Conflict,
    CursorConflict,
    GenerationEnded,
    ModelAnsweredBadly,
    ModelError,
    NotFound,
    StoreError,
)
from pc_store.ledger import cursors, quarantines, scopes, windows
from pc_store.ledger.database import Database
from pc_store.ledger.quarantines import Quarantined
from pc_store.ledger.windows import WindowRow
from pc_store.services.clock import now_us as clock
from pc_store.settings import Settings


def record_failure(
    db: Database, settings: Settings, window_id: str, error: StoreError, *, alive: bool = False
) -> WindowRow:
    """Write a failure into the window's row and decide what follows.

    Nothing of the window's results is written. The cursor stays, except past a single source
    that goes into quarantine. A window that somebody else has ended is left as it is.

    Args:
        alive: the model answered something else just now.
    """
    now = clock()
    with db.write() as conn:
        window = windows.get(conn, window_id, lock=True)
        if window.status not in OPEN:
            return window
        if isinstance(error, ModelError) and error.usage is not None:
            add_usage(conn, window_id, error.usage)
        said = {"code": error.code, "message": error.message}
        if isinstance(error, CursorConflict | GenerationEnded):
            windows.drop_draft(conn, window_id)
            windows.update(conn, window_id, status="superseded", error=said, finished_at=now)
            return windows.get(conn, window_id)
        if isinstance(error, Conflict | ModelError):
            windows.drop_draft(conn, window_id)
        if isinstance(error, ModelAnsweredBadly):
            windows.update(conn, window_id, rejects=[vars(item) for item in error.rejected])
        counted = window.counted_failures + (isinstance(error, ModelError) and error.counts)
        first = window.first_failed_at or now
        windows.update(conn, window_id, error=said, counted_failures=counted, first_failed_at=first)
        step: Step = "retry"
        if window.kind == "live" and isinstance(error, ModelError) and error.counts:
            step = next_step(
                counted_failures=counted,
                max_attempts=settings.window_max_attempts,
                size=window.size,
                answered=isinstance(error, ModelAnsweredBadly),
                others_answered_since=alive
                or windows.model_answered_since(conn, window.model or "", first, but=window_id),
            )
        if step == "split":
            _split(conn, window, now)
        elif step == "quarantine":
            _quarantine(conn, window, error, now)
        else:
            _retry_later(conn, settings, window, error, now)
        return windows.get(conn, window_id)


def is_last_straw(settings: Settings, window: WindowRow) -> bool:
    """Whether one more counted failure decides if the window's one source is set aside."""
    last = window.counted_failures + 1 >= settings.window_max_attempts
    return window.kind == "live" and window.size == 1 and last


def add_usage(conn: sa.Connection, window_id: str, usage: Usage) -> None:
    """Add what an attempt cost to the window's total."""
    before = windows.get(conn, window_id).usage
    total = Usage(**before) + usage if before else usage
    windows.update(conn, window_id, usage=asdict(total))


def quarantined(
    db: Database, *, scope_id: str | None = None, include_released: bool = False, limit: int
) -> list[Quarantined]:
    """Sources set aside, by scope, consumer and position."""
    with db.read() as conn:
        if scope_id is not None:
            scopes.get(conn, scope_id)
        return quarantines.page(
            conn, scope_id=scope_id, include_released=include_released, limit=limit
        )


def release(db: Database, scope_id: str, consumer: Consumer, position: int, *, now_us: int) -> None:
    """Take a source off the list without processing it: a person has dealt with it.

    Raises:
        NotFound: it is not set aside.
    """
    with db.write() as conn:
        scopes.get(conn, scope_id)
        released = quarantines.release(
            conn, scope_id, consumer, after=position - 1, through=position, now_us=now_us
        )
        if not released:
            raise NotFound(
                f"position {position} of {scope_id!r} is not in quarantine", position=position
            )


def window_of(db: Database, scope_id: str, position: int) -> WindowKey:
    """The key of the one-source window at a position, for running it again."""
    with db.read() as conn:
        return WindowKey(scopes.get(conn, scope_id).key, position, position)


def _retry_later(
    conn: sa.Connection, settings: Settings, window: WindowRow, error: StoreError, now: int
) -> None:
    """Fail the attempt; a lost race is due again at once, everything else after a pause."""
    wait_s = 0.0
    if not isinstance(error, Conflict):
        wait_s = retry_delay_s(
            window.attempt,
            base_s=settings.retry_base_s,
            cap_s=settings.retry_cap_s,
            jitter=secrets.randbelow(1_000) / 1_000,
        )
    windows.update(
        conn, window.window_id, status="failed", next_attempt_at=now + int(wait_s * 1_000_000)
    )


def _split(conn: sa.Connection, window: WindowRow, now: int) -> None:
    """End the window; the next one cut at the cursor is half its size."""
    windows.update(conn, window.window_id, status="split", finished_at=now)
    cursors.narrow(conn, window.scope_id, window.consumer, window_limit=max(1, window.size // 2))


def _quarantine(conn: sa.Connection, window: WindowRow, error: StoreError, now: int) -> None:
    """Set the window's one source aside and pass it."""
    cursors.advance(
        conn,
        window.scope_id,
        window.consumer,
        after=window.after,
        through=window.through,
        now_us=now,
    )
    quarantines.put(
        conn,
        window.scope_id,
        window.consumer,
        window.through,
        window_id=window.window_id,
        reason=f"{error.code}: {error.message}",
        now_us=now,
    )
    windows.update(conn, window.window_id, status="quarantined", finished_at=now)
