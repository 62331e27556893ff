"""Log what was recalled for whom, without making anybody wait; read the log, and forget it.

Who recalls something only puts a note into a queue; a thread writes the queue into the ledger. A
queue that is full loses notes rather than time, and so does a process that is killed.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from pc_store.domain.prepared import Recalled
from pc_store.domain.refs import ArtifactRef, SourceRef, new_id
from pc_store.domain.source import estimated_tokens
from pc_store.domain.text import digest
from pc_store.errors import StoreError
from pc_store.ledger import artifacts, recall_log, scopes
from pc_store.ledger.database import Database
from pc_store.ledger.recall_log import Recall, Surface
from pc_store.services.clock import now_us

if TYPE_CHECKING:
    from pc_store.services import find
    from pc_store.services.prepare import Prepared

DAY_US = 86_400_000_000
WAITING_MAX = 2_000
"""Notes that wait to be written; one more is lost."""
_TOGETHER = 500
_GATHERED_S = 0.5
"""How long the first note of a batch waits for others."""
_TRIED_AGAIN_S = (0.0, 0.5, 2.0)
_FORGOTTEN_EVERY_S = 3_600.0
_FORGOTTEN_AT_ONCE = 1_000
_TOLD_MAX = 64
"""Most things that were not delivered which a row names; it counts all of them."""

log = logging.getLogger("pc_store.services.recalls")


@dataclass(frozen=True)
class Note:
    """A row to be, and what a prepared context was made from; see `searched` and the others."""

    recall: Recall
    items: tuple[Recalled, ...] = ()


def searched(scope_id: str, query: str, result: "find.SearchResult", *, started_us: int) -> Note:
    """What a search of a memory delivered."""
    hits = [
        {
            "rank": rank,
            **_artifact(hit.citation.memory),
            "entry_id": hit.citation.entry_id,
            "entry_version_id": hit.citation.entry_version_id,
            "bytes": len(hit.text.encode()),
        }
        for rank, hit in enumerate(result.hits, start=1)
    ]
    return Note(_recall("search", scope_id, query, result.mode, hits, started_us))


def searched_experiences(
    scope_id: str, query: str, result: "find.ExperienceResult", *, started_us: int
) -> Note:
    """What a search of experiences delivered."""
    hits = [
        {
            "rank": rank,
            **_artifact(hit.ref),
            "bytes": len(hit.content.document_text().encode()),
        }
        for rank, hit in enumerate(result.hits, start=1)
    ]
    return Note(_recall("experience_search", scope_id, query, result.mode, hits, started_us))


def prepared(
    scope_id: str, query: str, result: "Prepared", *, max_bytes: int, started_us: int
) -> Note:
    """What a prepared context delivered, and what it left out and why."""
    hits = [
        {
            "rank": item.rank,
            **_named(item.found),
            "bytes": len(item.content.encode()),
            "truncated": item.truncated,
        }
        for item in result.items
    ]
    left_out = [{"reason": one.reason, **_named(one.found)} for one in result.dropped[:_TOLD_MAX]]
    recall = replace(
        _recall("prepare_context", scope_id, query, result.mode, hits, started_us),
        dropped={"counts": omitted(result), "items": left_out},
        max_bytes=max_bytes,
        content_bytes=result.content_bytes,
        tokens=estimated_tokens(result.content) if result.content is not None else None,
    )
    return Note(recall, tuple(item.found for item in result.items))


def omitted(result: "Prepared") -> dict[str, int]:
    """How much of what was found is not delivered, by reason."""
    return dict(Counter(one.reason for one in result.dropped))


class RecallLog:
    """The log of one process. Safe to share between threads; `close` it."""

    def __init__(self, db: Database, *, days: int) -> None:
        """Log into a ledger.

        Args:
            days: how long rows are kept; 0: nothing is logged.
        """
        self._db = db
        self._days = days
        self._waiting: deque[Note] = deque()
        self._lost = 0
        self._changed = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._forget_at = 0.0

    def note(self, note: Note) -> str | None:
        """Take a note, soon to be a row; returns the row's id, None if there will be none.

        Never waits for the ledger.
        """
        with self._changed:
            if not self._days or self._closing:
                return None
            if len(self._waiting) >= WAITING_MAX:
                self._lost += 1
                return None
            self._waiting.append(note)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="recalls", daemon=True)
                self._thread.start()
            self._changed.notify()
        return note.recall.recall_id

    def close(self, *, wait_s: float = 5.0) -> None:
        """Write what waits, for at most `wait_s` seconds, and end."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(wait_s)

    def _work(self) -> None:
        while notes := self._gathered():
            self._write(notes)
            self._forget_old()

    def _gathered(self) -> list[Note]:
        """The next notes to write, when there are any; none when the log is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            self._changed.wait_for(
                lambda: len(self._waiting) >= _TOGETHER or self._closing, _GATHERED_S
            )
            count = min(len(self._waiting), _TOGETHER)
            lost, self._lost = self._lost, 0
            notes = [self._waiting.popleft() for _ in range(count)]
        if lost:
            log.warning("%d recalls were not logged: too many waited", lost)
        return notes

    def _write(self, notes: list[Note]) -> None:
        failed: Exception | None = None
        for pause_s in _TRIED_AGAIN_S:
            if self._pause(pause_s):
                break
            try:
                with self._db.read() as conn:
                    rows = [_with_baseline(conn, note) for note in notes]
                with self._db.write() as conn:
                    recall_log.insert(conn, rows)
                return
            except (StoreError, SQLAlchemyError) as error:
                failed = error
        log.warning("%d recalls were not logged: %s", len(notes), type(failed).__name__)

    def _pause(self, pause_s: float) -> bool:
        """Wait before another try; whether there is no time for one."""
        with self._changed:
            return bool(pause_s) and self._changed.wait_for(lambda: self._closing, pause_s)

    def _forget_old(self) -> None:
        if self._closing or time.monotonic() < self._forget_at:
            return
        self._forget_at = time.monotonic() + _FORGOTTEN_EVERY_S
        try:
            forget_recalls(self._db, days=self._days, now_us=now_us())
        except (StoreError, SQLAlchemyError) as error:
            log.warning("old recalls were not dropped: %s", type(error).__name__)


def list_recalls(
    db: Database, scope_id: str, *, before: str | None = None, limit: int
) -> list[Recall]:
    """The recalls of a scope, newest first, before the given id. Raises ScopeNotFound."""
    with db.read() as conn:
        scopes.get(conn, scope_id)
        return recall_log.page(conn, scope_id, before=before, limit=limit)


def forget_recalls(db: Database, *, days: int, now_us: int) -> int:
    """Drop the recalls that are older than so many days, a piece at a time; how many there were."""
    dropped = 0
    while True:
        with db.write() as conn:
            some = recall_log.drop_before(conn, now_us - days * DAY_US, most=_FORGOTTEN_AT_ONCE)
        dropped += some
        if some < _FORGOTTEN_AT_ONCE:
            return dropped


def _recall(
    surface: Surface,
    scope_id: str,
    query: str,
    mode: str | None,
    hits: list[dict[str, Any]],
    started_us: int,
) -> Recall:
    now = now_us()
    return Recall(
        recall_id=new_id(recall_log.PREFIX, at_us=now),
        scope_id=scope_id,
        surface=surface,
        query_digest=digest(query),
        mode=mode,
        hits=hits,
        dropped={"counts": {}, "items": []},
        max_bytes=None,
        content_bytes=None,
        tokens=None,
        baseline_tokens=None,
        took_us=max(0, now - started_us),
        recalled_at=now,
    )


def _artifact(ref: ArtifactRef) -> dict[str, Any]:
    return {"family": ref.family, "artifact_id": ref.artifact_id, "revision": ref.revision}


def _named(found: Recalled) -> dict[str, Any]:
    named = _artifact(found.ref)
    if found.family == "memory":
        named |= {"entry_id": found.entry_id, "entry_version_id": found.entry_version_id}
    return named if found.own else {"scope_id": found.scope_id, **named}


def _with_baseline(conn: sa.Connection, note: Note) -> Recall:
    """The row, with what reading the sources of everything delivered would have cost instead."""
    refs: dict[str, set[SourceRef]] = {}
    for found in note.items:
        made_from = found.sources or _lineage(conn, found)
        if not made_from:
            return note.recall
        refs.setdefault(found.scope_id, set()).update(made_from)
    if not refs:
        return note.recall
    baseline = 0
    for scope_id, some in refs.items():
        tokens: Mapping[SourceRef, int] = recall_log.source_tokens(conn, scope_id, some)
        if len(tokens) < len(some):
            return note.recall
        baseline += sum(tokens.values())
    return replace(note.recall, baseline_tokens=baseline)


def _lineage(conn: sa.Connection, found: Recalled) -> Iterable[SourceRef]:
    """The sources an experience was made from; an entry names its own."""
    if found.family == "memory":
        return ()
    return {
        SourceRef(ref["source_type"], ref["source_id"])
        for kind, ref in artifacts.lineage_of(conn, found.scope_id, found.ref)
        if kind == "source"
    }
