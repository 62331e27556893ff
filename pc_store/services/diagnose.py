"""What the ledger says of work: what waits, whether anybody looks, what fails, what is set aside.

What the store leans on outside its ledger is looked at by `probe`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from pc_store.domain.window import CONSUMERS, Consumer
from pc_store.ledger import backlogs, cursors, dreams, quarantines, sources, windows
from pc_store.ledger.backlogs import Waiting
from pc_store.ledger.database import Database
from pc_store.ledger.windows import WindowRow
from pc_store.services.read_candidates import InboxSummary, inbox_in
from pc_store.settings import Settings

SHOWN = 20
"""Most failing windows, and most quarantined sources, that are listed."""
DREAM_IDLE_S = 60.0
"""A dream that could have been begun so long ago, while nobody works on any, is left alone."""
_IDLE_S = 600.0
"""Work that waits longer than this, or than ten times the schedule, is not being looked for."""
_RECURRENCE_EVERY_S = 60
"""The sensor `recurrence_due` looks at a scope about so often."""

GAUGES = {
    "pc_memory_waiting_scopes": "Scopes with sources past their memory cursor.",
    "pc_memory_waiting_positions": "Positions past the memory cursor, all scopes together.",
    "pc_experience_waiting_scopes": "Scopes with task outcomes past their experience cursor.",
    "pc_experience_waiting_outcomes": "Task outcomes past the experience cursor, all scopes.",
    "pc_recurrence_waiting_scopes": "Scopes with task outcomes past their recurrence cursor.",
    "pc_recurrence_waiting_outcomes": "Task outcomes past the recurrence cursor, all scopes.",
    "pc_dreams_pending": "Dreams that wait or are worked on.",
    "pc_dreams_unattended_seconds": "How long a dream has waited while nobody works on any.",
    "pc_candidates_pending": "Candidates that wait for review.",
    "pc_candidates_oldest_seconds": "How long the oldest candidate has waited for review.",
}
"""What is shown of a `Standing` as metrics, and what each says."""

_SENSORS: Mapping[Consumer, Callable[[Settings], tuple[str, int | None, str]]] = {
    "memory": lambda settings: (
        "memory_windows_due",
        settings.memory_schedule_seconds,
        "PC_MEMORY_SCHEDULE_SECONDS is unset: windows run only on request",
    ),
    "experience": lambda settings: (
        "experience_windows_due",
        settings.experience_schedule_seconds,
        "PC_EXPERIENCE_SCHEDULE_SECONDS is unset: windows run only on request",
    ),
    "recurrence": lambda settings: (
        "recurrence_due",
        _RECURRENCE_EVERY_S
        if settings.memory_schedule_seconds or settings.experience_schedule_seconds
        else None,
        "no schedule is set: outcomes are judged by Dagster, if it runs, or on request",
    ),
}
"""Of each consumer: its sensor, how often that looks in seconds, what to say where it may not."""


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
            conn,
            scope_id=scope_id,
            consumer="memory",
            statuses=["processed"],
            shadows=False,
            limit=1,
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


@dataclass(frozen=True)
class Standing:
    """What waits in all scopes, whoever is to do it.

    Attributes:
        waiting: for each consumer of the log.
        dreams: those that have not ended.
        unattended_s: how long the oldest dream could have been begun while nobody works on any;
            0 while somebody does, or did a minute ago.
        inbox: the candidates that wait for review.
    """

    waiting: Mapping[Consumer, Waiting]
    dreams: dreams.Waiting
    unattended_s: float
    inbox: InboxSummary


def standing(db: Database, *, now_us: int) -> Standing:
    """What waits in all scopes: a few queries, however many there are."""
    with db.read() as conn:
        queued = dreams.waiting(conn, now_us=now_us)
        return Standing(
            {consumer: backlogs.waiting(conn, consumer) for consumer in CONSUMERS},
            queued,
            _unattended_s(conn, queued, now_us),
            inbox_in(conn),
        )


def gauges(at: Standing, *, now_us: int) -> dict[str, float]:
    """The values of `GAUGES` at a moment: counts, and times in seconds."""
    oldest = at.inbox.oldest_at
    return {
        **{f"pc_{name}_waiting_scopes": found.scopes for name, found in at.waiting.items()},
        "pc_memory_waiting_positions": at.waiting["memory"].sources,
        "pc_experience_waiting_outcomes": at.waiting["experience"].sources,
        "pc_recurrence_waiting_outcomes": at.waiting["recurrence"].sources,
        "pc_dreams_pending": at.dreams.pending,
        "pc_dreams_unattended_seconds": at.unattended_s,
        "pc_candidates_pending": at.inbox.pending,
        "pc_candidates_oldest_seconds": (now_us - oldest) / 1_000_000 if oldest else 0.0,
    }


def doctor_facts(db: Database, settings: Settings, *, now_us: int) -> list[Fact]:
    """What lags, what is not looked for, what fails and what is set aside, over all scopes.

    For each consumer a fact `… backlog` and a fact `… schedule`, then `failing windows`,
    `quarantine`, `dreams` and `review inbox`; of failing windows and quarantined sources there is
    one each, or one that says `none`.
    """
    at = standing(db, now_us=now_us)
    with db.read() as conn:
        failing = windows.page(conn, statuses=["failed"], shadows=False, limit=SHOWN)
        aside = quarantines.page(conn, limit=SHOWN)
        schedules = [
            _schedule(conn, settings, consumer, found, now_us)
            for consumer, found in at.waiting.items()
        ]
    return [
        *(_backlog(consumer, found, settings) for consumer, found in at.waiting.items()),
        *schedules,
        *each_or_none("failing windows", [_failing(row, now_us) for row in failing]),
        *each_or_none(
            "quarantine",
            [
                f"{one.scope_id} {one.consumer} position {one.position}: {one.reason}"
                for one in aside
            ],
        ),
        _dreams(at, settings),
        _inbox(at.inbox, settings, now_us),
    ]


def each_or_none(name: str, errors: list[str]) -> list[Fact]:
    """An error each, or the fact that there is none."""
    return [Fact(name, "error", says) for says in errors] or [Fact(name, "ok", "none")]


def dreams_fact(pending: int, unattended_s: float) -> Fact:
    """Whether dreams wait that nobody works on."""
    if unattended_s > DREAM_IDLE_S:
        return Fact(
            "dreams",
            "error",
            f"{pending} wait, the oldest for {unattended_s:.0f} s, and nobody works on them: is "
            "dagster-daemon running, and its sensor dreams_queued on? Else set PC_DREAM_WORKER "
            "for `pc serve`, or run `pc dream run-pending`",
        )
    return Fact("dreams", "ok", f"{pending} wait or are worked on")


def _unattended_s(conn: sa.Connection, queued: dreams.Waiting, now_us: int) -> float:
    if queued.due_since is None or queued.at_work:
        return 0.0
    waited_s = (now_us - queued.due_since) / 1_000_000
    a_while_ago = now_us - int(DREAM_IDLE_S * 1_000_000)
    if waited_s > DREAM_IDLE_S and dreams.any_ended_since(conn, a_while_ago):
        return 0.0
    return max(waited_s, 0.0)


def _backlog(consumer: Consumer, found: Waiting, settings: Settings) -> Fact:
    return Fact(
        f"{consumer} backlog",
        "warning" if found.most > settings.lag_target else "ok",
        f"{found.sources} {_unit(consumer)} of {found.scopes} scopes wait, most in one "
        f"{found.most}, the target is {settings.lag_target}",
    )


def _unit(consumer: Consumer) -> str:
    """What a consumer's backlog is counted in."""
    return "positions" if consumer == "memory" else "task outcomes"


def _schedule(
    conn: sa.Connection, settings: Settings, consumer: Consumer, found: Waiting, now_us: int
) -> Fact:
    """Whether somebody looks for what waits, told from what has waited too long.

    Dagster's own heartbeat is not read: importing Dagster takes seconds, and another machine's
    daemon is as good.
    """
    name = f"{consumer} schedule"
    sensor, every_s, unset = _SENSORS[consumer](settings)
    if every_s is None:
        return Fact(name, "warning" if found.scopes else "ok", unset)
    patience_s = max(_IDLE_S, 10.0 * every_s)
    if consumer != "recurrence":
        patience_s += settings.window_max_wait_s
    before = now_us - int(patience_s * 1_000_000)
    oldest = backlogs.oldest(conn, consumer, now_us=now_us)
    late = oldest is not None and oldest[1] < before
    if oldest is not None and late and not cursors.any_moved_since(conn, consumer, before):
        return Fact(
            name,
            "error",
            f"not scheduled: {oldest[0]!r} has waited over {patience_s:.0f} s and the {consumer} "
            f"cursor of no scope has moved since; is dagster-daemon running, and the sensor "
            f"{sensor} on?",
        )
    return Fact(name, "ok", f"{sensor} looks for what is due every {every_s} s")


def _failing(window: WindowRow, now_us: int) -> str:
    seconds = (window.next_attempt_at - now_us) // 1_000_000
    return (
        f"{window.scope_id} {window.consumer} ({window.after}, {window.through}], attempt "
        f"{window.attempt}: {(window.error or {}).get('code', 'unknown')}, next "
        f"{f'in {seconds} s' if seconds > 0 else 'at once'}"
    )


def _dreams(at: Standing, settings: Settings) -> Fact:
    if not settings.dream_enabled:
        pending = at.dreams.pending
        says = f"switched off: PC_DREAM_ENABLED; {pending} wait"
        return Fact("dreams", "warning" if pending else "ok", says)
    return dreams_fact(at.dreams.pending, at.unattended_s)


def _inbox(inbox: InboxSummary, settings: Settings, now_us: int) -> Fact:
    if inbox.oldest_at is None:
        return Fact("review inbox", "ok", "no candidate waits for review")
    age_s = (now_us - inbox.oldest_at) / 1_000_000
    return Fact(
        "review inbox",
        "warning" if age_s > settings.inbox_age_target_s else "ok",
        f"{inbox.pending} candidates wait for review, the oldest for {age_s / 3_600:.1f} hours, "
        f"the target is {settings.inbox_age_target_s / 3_600:g}; {inbox.stale} have a stale target",
    )
