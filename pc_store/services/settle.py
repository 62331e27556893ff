"""Judge a window's answer, commit it together with the cursor; and whole runs of windows."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal

import sqlalchemy as sa

from pc_store.domain.proposal import ProposerOf, Rejected
from pc_store.domain.refs import ArtifactRef
from pc_store.domain.verdict import Verdict
from pc_store.domain.window import Consumer, WindowKey
from pc_store.errors import ModelAnsweredBadly, ModelError, StoreError, WindowRefused
from pc_store.ledger import cursors, quarantines, sources, windows
from pc_store.ledger.database import Database
from pc_store.ledger.windows import WindowRow
from pc_store.services import recover
from pc_store.services.ask import ask, kept_answer
from pc_store.services.begin import Mode, Opened, lock_open, open_named, open_next
from pc_store.services.clock import now_us as clock
from pc_store.services.consume import Family, K, KeptAnswer, P, Written
from pc_store.settings import Settings


@dataclass(frozen=True)
class Judged(Generic[K]):
    """The verdict on a window's answer.

    Attributes:
        refused: nothing of it may be written.
        salvaged: the last allowed attempt was faulty, and its good proposals are kept.
    """

    verdict: Verdict[K]
    refused: bool
    salvaged: bool

    def broken(self, check: str) -> list[Rejected]:
        """The proposals that break one check."""
        return [item for item in self.verdict.rejected if item.rule == check]


@dataclass(frozen=True)
class Processed:
    """How a flush, an incubation, or one window, ended.

    `memory` is the memory as it is now, if its sources were shown; `candidate_ids` are those of
    the candidates that the window made.
    """

    status: Literal["processed", "idle", "already processed", "superseded"]
    previous_cursor: int
    current_cursor: int
    high_watermark: int
    processed_source_count: int = 0
    memory: ArtifactRef | None = None
    window: WindowRow | None = None
    candidate_ids: tuple[str, ...] = ()


def judge_window(
    family: Family[P, K], db: Database, settings: Settings, window_id: str
) -> Judged[K]:
    """Judge the answer kept for a window. Raises WindowRefused: none is kept."""
    with db.read() as conn:
        window = windows.get(conn, window_id)
        return _judged(family, settings, window, _kept(family, conn, window_id))


def refuse(
    db: Database, settings: Settings, window_id: str, judged: Judged[Any]
) -> ModelAnsweredBadly:
    """Record that a window's answer was refused, and return the error that says so."""
    faults = judged.verdict.faults
    told = "; ".join(f"proposal {item.ordinal}: {item.reason}" for item in faults[:3])
    more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
    error = ModelAnsweredBadly(
        f"the answer was refused: {told}{more}", rejected=tuple(faults), readable=True
    )
    recover.record_failure(db, settings, window_id, error)
    return error


def commit_window(
    family: Family[P, K], db: Database, settings: Settings, window_id: str, *, run_id: str
) -> Processed:
    """Write a window's accepted proposals and, for a live window, the cursor: all or nothing.

    Raises:
        CursorConflict: another run committed first; nothing was written.
        Conflict: an entry it revises was changed after it was shown; nothing was written.
        WindowRefused: no answer is kept, or the one that is breaks a rule.
    """
    try:
        return _commit(family, db, settings, window_id, run_id)
    except StoreError as error:
        recover.record_failure(db, settings, window_id, error)
        raise


def run_window(
    family: Family[P, K],
    db: Database,
    settings: Settings,
    proposer: ProposerOf[P],
    opened: Opened,
    *,
    run_id: str,
) -> Processed:
    """Ask, judge and commit an opened window.

    Raises:
        ModelError: no usable answer; recorded with the window, nothing was written.
        Conflict: a lost race; nothing was written.
    """
    window = opened.window
    if opened.status != "open" or window is None:
        status: Literal["idle", "already processed", "superseded"] = (
            "idle" if opened.status == "open" else opened.status
        )
        return Processed(status, opened.cursor, opened.cursor, opened.high_watermark, window=window)
    ask(family, db, settings, proposer, window.window_id)
    judged = judge_window(family, db, settings, window.window_id)
    if judged.refused:
        raise refuse(db, settings, window.window_id, judged)
    return commit_window(family, db, settings, window.window_id, run_id=run_id)


def run_next(
    family: Family[P, K],
    db: Database,
    settings: Settings,
    proposer: ProposerOf[P],
    scope_id: str,
    *,
    run_id: str | None = None,
) -> Processed:
    """Process the scope's next window, now.

    Raises:
        NotFound: no such scope.
        ModelError, Conflict: as `run_window`.
    """
    run_id = run_id or new_run_id()
    opened = open_next(db, settings, scope_id, family.consumer, run_id=run_id, now_us=clock())
    return run_window(family, db, settings, proposer, opened, run_id=run_id)


def run_all(
    family: Family[P, K],
    db: Database,
    settings: Settings,
    proposer: ProposerOf[P],
    scope_id: str,
    *,
    budget_s: float,
    run_id: str | None = None,
    on_window: Callable[[Processed], None] = lambda _: None,
) -> list[Processed]:
    """Process windows until the high watermark read at the start, or until time is up.

    Args:
        budget_s: no window is begun after this many seconds; at least one is.
        on_window: called after each commit.

    Raises:
        NotFound: no such scope.
        ModelError, Conflict: as `run_window`, for a window that is to be tried again later;
            windows committed before stay committed.
    """
    run_id = run_id or new_run_id()
    started = time.monotonic()
    with db.read() as conn:
        until = sources.high_watermark(conn, scope_id)
    done: list[Processed] = []
    first = True
    while first or time.monotonic() - started < budget_s:
        first = False
        try:
            result = run_next(family, db, settings, proposer, scope_id, run_id=run_id)
        except ModelError:
            if _waits(db, scope_id, family.consumer):
                raise
            continue  # the window was halved or its source set aside: the next is another one
        if result.status == "idle":
            break
        done.append(result)
        on_window(result)
        if result.current_cursor >= until:
            break
    return done


def run_named(
    family: Family[P, K],
    db: Database,
    settings: Settings,
    proposer: ProposerOf[P],
    key: WindowKey,
    *,
    mode: Mode = "replay",
    generation: str | None = None,
    run_id: str | None = None,
) -> Processed:
    """Run a named window: again when it lies behind the cursor, live when it is the next.

    Raises:
        WindowRefused, NotFound, InvalidInput, GenerationEnded: as `open_named`.
        ModelError, Conflict: as `run_window`.
    """
    run_id = run_id or new_run_id()
    opened = open_named(
        db,
        key,
        family.consumer,
        mode=mode,
        run_id=run_id,
        now_us=clock(),
        generation=generation,
    )
    return run_window(family, db, settings, proposer, opened, run_id=run_id)


def new_run_id() -> str:
    """An id for a run that Dagster does not know of."""
    return f"local-{secrets.token_hex(8)}"


def _waits(db: Database, scope_id: str, consumer: Consumer) -> bool:
    """Whether a window of the scope waits for its next attempt."""
    with db.read() as conn:
        return windows.open_live(conn, scope_id, consumer) is not None


def _kept(family: Family[P, Any], conn: sa.Connection, window_id: str) -> KeptAnswer[P]:
    kept = kept_answer(family, conn, window_id)
    if kept is None:
        raise WindowRefused(f"no answer is kept for window {window_id}: it has to be asked again")
    return kept


def _judged(
    family: Family[P, K], settings: Settings, window: WindowRow, kept: KeptAnswer[P]
) -> Judged[K]:
    verdict = family.judge(settings, kept)
    faulty = kept.faulty or bool(verdict.faults)
    for item in kept.rejected:
        verdict.rejected.append(Rejected(item.ordinal + 1, family.check_of(item.rule), item.reason))
    if kept.fault is not None:
        verdict.rejected.append(Rejected(0, "every_proposal_is_well_formed", kept.fault))
    last_attempt = window.counted_failures + 1 >= settings.window_max_attempts
    salvaged = faulty and last_attempt and bool(verdict.kept)
    return Judged(verdict, refused=faulty and not salvaged, salvaged=salvaged)


def _commit(
    family: Family[P, K], db: Database, settings: Settings, window_id: str, run_id: str
) -> Processed:
    now = clock()
    with db.write() as conn:
        scope_id = windows.get(conn, window_id).scope_id
        family.lock(conn, scope_id)
        window = windows.get(conn, window_id, lock=True)
        if window.status == "processed" and window.run_id == run_id:
            return _processed(family, conn, window)
        lock_open(conn, window_id)
        kept = _kept(family, conn, window_id)
        judged = _judged(family, settings, window, kept)
        if judged.refused:
            raise WindowRefused("the answer kept for this window breaks a rule")
        verdict = judged.verdict
        written = family.write(conn, settings, window, kept, verdict, now_us=now)
        if window.kind == "live":
            cursors.advance(
                conn,
                scope_id,
                family.consumer,
                after=window.after,
                through=window.through,
                now_us=now,
            )
        elif window.kind == "replay":
            quarantines.release(
                conn,
                scope_id,
                family.consumer,
                after=window.after,
                through=window.through,
                now_us=now,
            )
        windows.drop_draft(conn, window_id)
        rejected = [*verdict.rejected, *written.rejected]
        windows.update(
            conn,
            window_id,
            status="processed",
            run_id=run_id,
            error=None,
            counts=_counts(window, kept, verdict, written),
            rejects=[vars(item) for item in rejected] or None,
            memory_revision=written.memory_revision,
            finished_at=now,
        )
        return _processed(family, conn, windows.get(conn, window_id))


def _counts(
    window: WindowRow, kept: KeptAnswer[Any], verdict: Verdict[Any], written: Written
) -> dict[str, int]:
    return {
        "positions": window.size,
        "sources": len(kept.evidence),
        "filtered": sum(kept.filtered.values()),
        "shown": len(kept.shown),
        "proposals": len(verdict.kept) + len(verdict.rejected),
        "accepted": len(verdict.kept) - len(written.rejected),
        "rejected": len(verdict.rejected) + len(written.rejected),
        **written.counts,
    }


def _processed(family: Family[P, Any], conn: sa.Connection, window: WindowRow) -> Processed:
    cursor = cursors.get(conn, window.scope_id, family.consumer).position
    live = window.kind == "live"
    made = family.made(conn, window)
    return Processed(
        "processed",
        previous_cursor=window.after if live else cursor,
        current_cursor=window.through if live else cursor,
        high_watermark=window.high_watermark,
        processed_source_count=(window.counts or {}).get("sources", 0),
        memory=made.memory,
        window=window,
        candidate_ids=made.candidate_ids,
    )
