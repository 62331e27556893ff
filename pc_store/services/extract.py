"""Memory extraction: judge an answer, commit it together with the cursor; and whole runs of it."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import sqlalchemy as sa

from pc_store.domain.proposal import Proposer, Rejected
from pc_store.domain.refs import PROMPT_FAMILY, ArtifactRef
from pc_store.domain.verdict import Check, Verdict, check_of, judge
from pc_store.domain.window import WindowKey
from pc_store.errors import ModelAnsweredBadly, ModelError, StoreError, WindowRefused
from pc_store.ledger import cursors, entries, quarantines, sources, windows
from pc_store.ledger.database import Database
from pc_store.ledger.windows import WindowRow
from pc_store.services import recover
from pc_store.services.ask import KeptAnswer, ask, kept_answer
from pc_store.services.begin import Mode, Opened, lock_open, open_named, open_next
from pc_store.services.clock import now_us as clock
from pc_store.services.commit import Committed, commit_drafts, lock_memory
from pc_store.services.instruct import MEMORY_EXTRACT
from pc_store.settings import Settings


@dataclass(frozen=True)
class Judged:
    """The verdict on a window's answer.

    Attributes:
        refused: nothing of it may be written.
        salvaged: the last allowed attempt was faulty, and its good proposals are kept.
    """

    verdict: Verdict
    refused: bool
    salvaged: bool

    def broken(self, check: Check) -> list[Rejected]:
        """The proposals that break one check."""
        return [item for item in self.verdict.rejected if item.rule == check]


@dataclass(frozen=True)
class Processed:
    """How a flush, or one window, ended."""

    status: Literal["processed", "idle", "already processed", "superseded"]
    previous_cursor: int
    current_cursor: int
    high_watermark: int
    processed_source_count: int = 0
    memory: ArtifactRef | None = None
    window: WindowRow | None = None


def judge_window(db: Database, settings: Settings, window_id: str) -> Judged:
    """Judge the answer kept for a window. Raises WindowRefused: none is kept."""
    with db.read() as conn:
        return _judged(settings, windows.get(conn, window_id), _kept(conn, window_id))


def refuse(db: Database, settings: Settings, window_id: str, judged: Judged) -> ModelAnsweredBadly:
    """Record that a window's answer was refused, and return the error that says so."""
    faults = judged.verdict.faults
    told = "; ".join(f"proposal {item.ordinal}: {item.reason}" for item in faults[:3])
    more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
    error = ModelAnsweredBadly(
        f"the answer was refused: {told}{more}", rejected=tuple(faults), readable=True
    )
    recover.record_failure(db, settings, window_id, error)
    return error


def commit_window(db: Database, settings: Settings, window_id: str, *, run_id: str) -> Processed:
    """Write a window's accepted proposals and, for a live window, the cursor: all or nothing.

    Raises:
        CursorConflict: another run committed first; nothing was written.
        Conflict: an entry it revises was changed after it was shown; nothing was written.
        WindowRefused: no answer is kept, or the one that is breaks a rule.
    """
    try:
        return _commit(db, settings, window_id, run_id)
    except StoreError as error:
        recover.record_failure(db, settings, window_id, error)
        raise


def run_window(
    db: Database, settings: Settings, proposer: Proposer, opened: Opened, *, run_id: str
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
    ask(db, settings, proposer, window.window_id)
    judged = judge_window(db, settings, window.window_id)
    if judged.refused:
        raise refuse(db, settings, window.window_id, judged)
    return commit_window(db, settings, window.window_id, run_id=run_id)


def flush(
    db: Database,
    settings: Settings,
    proposer: Proposer,
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
    opened = open_next(db, settings, scope_id, "memory", run_id=run_id, now_us=clock())
    return run_window(db, settings, proposer, opened, run_id=run_id)


def drain(
    db: Database,
    settings: Settings,
    proposer: Proposer,
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
            result = flush(db, settings, proposer, scope_id, run_id=run_id)
        except ModelError:
            if _waits(db, scope_id):
                raise
            continue  # the window was halved or its source set aside: the next is another one
        if result.status == "idle":
            break
        done.append(result)
        on_window(result)
        if result.current_cursor >= until:
            break
    return done


def replay(
    db: Database,
    settings: Settings,
    proposer: Proposer,
    key: WindowKey,
    *,
    mode: Mode = "replay",
    run_id: str | None = None,
) -> Processed:
    """Run a named window: again when it lies behind the cursor, live when it is the next.

    Raises:
        WindowRefused, NotFound: as `open_named`.
        ModelError, Conflict: as `run_window`.
    """
    run_id = run_id or new_run_id()
    opened = open_named(db, key, "memory", mode=mode, run_id=run_id, now_us=clock())
    return run_window(db, settings, proposer, opened, run_id=run_id)


def new_run_id() -> str:
    """An id for a run that Dagster does not know of."""
    return f"local-{secrets.token_hex(8)}"


def _waits(db: Database, scope_id: str) -> bool:
    """Whether a window of the scope waits for its next attempt."""
    with db.read() as conn:
        return windows.open_live(conn, scope_id, "memory") is not None


def _kept(conn: sa.Connection, window_id: str) -> KeptAnswer:
    kept = kept_answer(conn, window_id)
    if kept is None:
        raise WindowRefused(f"no answer is kept for window {window_id}: it has to be asked again")
    return kept


def _judged(settings: Settings, window: WindowRow, kept: KeptAnswer) -> Judged:
    verdict = judge(
        kept.proposals,
        evidence=kept.evidence,
        shown=kept.shown,
        refuse_secrets=settings.secret_detection,
    )
    faulty = kept.faulty or bool(verdict.faults)
    for item in kept.rejected:
        verdict.rejected.append(Rejected(item.ordinal + 1, check_of(item.rule), item.reason))
    if kept.fault is not None:
        verdict.rejected.append(Rejected(0, "every_proposal_is_well_formed", kept.fault))
    last_attempt = window.counted_failures + 1 >= settings.window_max_attempts
    salvaged = faulty and last_attempt and bool(verdict.kept)
    return Judged(verdict, refused=faulty and not salvaged, salvaged=salvaged)


def _commit(db: Database, settings: Settings, window_id: str, run_id: str) -> Processed:
    now = clock()
    with db.write() as conn:
        scope_id = windows.get(conn, window_id).scope_id
        lock_memory(conn, scope_id)
        window = windows.get(conn, window_id, lock=True)
        if window.status == "processed" and window.run_id == run_id:
            return _processed(conn, window)
        lock_open(conn, window_id)
        kept = _kept(conn, window_id)
        judged = _judged(settings, window, kept)
        if judged.refused:
            raise WindowRefused("the answer kept for this window breaks a rule")
        own = kept.prompt_revision
        done = commit_drafts(
            conn,
            scope_id,
            judged.verdict.kept,
            origin="extraction" if window.kind == "live" else "replay",
            now_us=now,
            budget=settings.memory_budget,
            shown=kept.shown,
            window_id=window_id,
            lineage_sources=list(kept.evidence.values()),
            lineage_artifacts=[ArtifactRef(PROMPT_FAMILY, MEMORY_EXTRACT, own)] if own else [],
        )
        if window.kind == "live":
            cursors.advance(
                conn, scope_id, "memory", after=window.after, through=window.through, now_us=now
            )
        else:
            for position in range(window.after + 1, window.through + 1):
                quarantines.release(conn, scope_id, "memory", position, now_us=now)
        windows.drop_draft(conn, window_id)
        windows.update(
            conn,
            window_id,
            status="processed",
            run_id=run_id,
            error=None,
            counts=_counts(window, kept, judged, done),
            rejects=[vars(item) for item in judged.verdict.rejected] or None,
            memory_revision=done.revision,
            finished_at=now,
        )
        return _processed(conn, windows.get(conn, window_id))


def _counts(window: WindowRow, kept: KeptAnswer, judged: Judged, done: Committed) -> dict[str, int]:
    return {
        "positions": window.size,
        "sources": len(kept.evidence),
        "filtered": sum(kept.filtered.values()),
        "shown": len(kept.shown),
        "proposals": len(judged.verdict.kept) + len(judged.verdict.rejected),
        "accepted": len(judged.verdict.kept),
        "rejected": len(judged.verdict.rejected),
        "added": done.count("add"),
        "revised": done.count("revise"),
        "unchanged": len(done.dropped),
    }


def _processed(conn: sa.Connection, window: WindowRow) -> Processed:
    cursor = cursors.get(conn, window.scope_id, "memory").position
    live = window.kind == "live"
    head = entries.head(conn, window.scope_id)
    asked = (window.counts or {}).get("sources", 0) > 0
    return Processed(
        "processed",
        previous_cursor=window.after if live else cursor,
        current_cursor=window.through if live else cursor,
        high_watermark=window.high_watermark,
        processed_source_count=(window.counts or {}).get("sources", 0),
        memory=ArtifactRef("memory", "memory", head) if head and asked else None,
        window=window,
    )
