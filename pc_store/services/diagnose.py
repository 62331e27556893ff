"""What is going on in a scope and in the store: backlog, failures, quarantine, versions."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pc_store.ledger import backlogs, cursors, quarantines, sources, windows
from pc_store.ledger.database import Database
from pc_store.ledger.windows import WindowRow
from pc_store.settings import Settings

_SHOWN = 20
"""Most failing windows, and most quarantined sources, that are listed."""


@dataclass(frozen=True)
class ProcessingStatus:
    """How far one consumer is with a scope's log, and what keeps it.

    Attributes:
        oldest_pending_at: when the first source past the cursor came; None with nothing waiting.
        window_status: of the open window; None without one.
        attempt: attempts begun at it.
        next_attempt_at: not before this; None when it may run at once or nothing waits.
        last_error: {code, message} of the open window's last failure.
        quarantined: sources set aside now.
        last_processed_at: when a window of this consumer last ended well.
    """

    scope_id: str
    consumer: str
    cursor: int
    high_watermark: int
    oldest_pending_at: int | None
    window_status: str | None
    attempt: int
    next_attempt_at: int | None
    last_error: Mapping[str, Any] | None
    quarantined: int
    last_processed_at: int | None

    @property
    def pending(self) -> int:
        """Positions past the cursor."""
        return self.high_watermark - self.cursor


@dataclass(frozen=True)
class Fact:
    """One thing that `pc doctor` looks at. Levels: `ok`, `warning`, `error`."""

    name: str
    level: str
    says: str


def processing_status(db: Database, scope_id: str, *, now_us: int) -> ProcessingStatus:
    """Where the memory's processing of a scope stands, in one read. Raises ScopeNotFound."""
    with db.read() as conn:
        cursor = cursors.get(conn, scope_id, "memory").position
        high = sources.high_watermark(conn, scope_id)
        waiting = sources.between(conn, scope_id, after=cursor, through=min(cursor + 1, high))
        window = windows.open_live(conn, scope_id, "memory")
        done = windows.page(
            conn, scope_id=scope_id, consumer="memory", statuses=["processed"], limit=1
        )
        due = window.next_attempt_at if window else 0
        return ProcessingStatus(
            scope_id,
            "memory",
            cursor,
            high,
            oldest_pending_at=waiting[0].received_at if waiting else None,
            window_status=window.status if window else None,
            attempt=window.attempt if window else 0,
            next_attempt_at=due if due > now_us else None,
            last_error=window.error if window else None,
            quarantined=quarantines.count(conn, scope_id),
            last_processed_at=done[0].finished_at if done else None,
        )


def doctor_facts(db: Database, settings: Settings, *, now_us: int) -> list[Fact]:
    """What is misconfigured, what lags, what fails and what is quarantined, over all scopes.

    Facts `ledger`, `model`, `schedule`, `backlog`, `failing windows`, `quarantine`, `index`;
    of failing windows and quarantined sources there is one each, or one that says `none`.
    """
    with db.read() as conn:
        behind, positions = backlogs.waiting(conn, "memory")
        failing = windows.page(conn, consumer="memory", statuses=["failed"], limit=_SHOWN)
        aside = quarantines.page(conn, limit=_SHOWN)
    return [
        Fact("ledger", "ok", db.label),
        _model(settings),
        _schedule(settings, positions),
        Fact(
            "backlog",
            "warning" if positions > settings.lag_target else "ok",
            f"{positions} positions of {behind} scopes wait, the target is {settings.lag_target}",
        ),
        *(
            [Fact("failing windows", "error", _failing(row, now_us)) for row in failing]
            or [Fact("failing windows", "ok", "none")]
        ),
        *(
            [
                Fact("quarantine", "error", f"{one.scope_id} position {one.position}: {one.reason}")
                for one in aside
            ]
            or [Fact("quarantine", "ok", "none")]
        ),
        _index(settings),
    ]


def _model(settings: Settings) -> Fact:
    if settings.provider == "builtin":
        return Fact("model", "ok", "the built-in extractor; PC_LLM_MODEL names a better one")
    if settings.llm_model is None:
        return Fact("model", "error", "PC_LLM_MODEL is not set")
    address = urlsplit(settings.llm_base_url or "")
    host = address.netloc.rpartition("@")[2]  # without the user and password some URLs carry
    where = f"{address.scheme}://{host}{address.path}" if host else "OpenAI"
    return Fact("model", "ok", f"{settings.llm_model} at {where}")


def _schedule(settings: Settings, positions: int) -> Fact:
    if settings.memory_schedule_seconds is None:
        return Fact(
            "schedule",
            "warning" if positions else "ok",
            "PC_MEMORY_SCHEDULE_SECONDS is unset: windows run only on request",
        )
    return Fact(
        "schedule", "ok", f"due windows are looked for every {settings.memory_schedule_seconds} s"
    )


def _failing(window: WindowRow, now_us: int) -> str:
    seconds = (window.next_attempt_at - now_us) // 1_000_000
    return (
        f"{window.scope_id} ({window.after}, {window.through}], attempt {window.attempt}: "
        f"{(window.error or {}).get('code', 'unknown')}, next "
        f"{f'in {seconds} s' if seconds > 0 else 'at once'}"
    )


def _index(settings: Settings) -> Fact:
    path = settings.index_path
    existing = next(folder for folder in (path, *path.parents) if folder.exists())
    if os.access(existing, os.W_OK):
        return Fact("index", "ok", str(path))
    return Fact("index", "warning", f"{path} cannot be written: searches will be slower")
