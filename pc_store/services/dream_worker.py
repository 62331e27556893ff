"""A worker: some threads that work on due dreams, and one that says they are alive.

The same worker is what Dagster runs, what `pc dream run-pending` is, and what `pc serve` has
where it is asked to.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

from pc_store.domain.dream_run import DreamRun
from pc_store.errors import StoreError
from pc_store.ledger import dreams
from pc_store.ledger.database import Database
from pc_store.services.clock import now_us
from pc_store.services.run_dreams import claim, work_on
from pc_store.settings import Settings

LEASE_S = 15.0
"""Others take a dream over once its worker gave no sign of life for so long."""
_BEATS_A_LEASE = 3
_LOOK_EVERY_S = 0.25
"""Between two looks for due dreams while there are none: one indexed query each."""
_PAUSE_S = 5.0
"""After a failure of the ledger's."""
_STOP_WITHIN_S = 2.0

_log = logging.getLogger("pc_store.dreams")


class DreamWorker:
    """Works on due dreams, `PC_DREAM_CONCURRENCY` at a time, until it is stopped."""

    def __init__(
        self,
        db: Database,
        settings: Settings,
        *,
        told: Callable[[DreamRun], None],
        dagster_run_id: str | None = None,
    ) -> None:
        """Prepare one.

        Args:
            told: called with every dream that ended, in the thread that worked on it.
        """
        self._db = db
        self._settings = settings
        self._dagster_run_id = dagster_run_id
        self._lease_s = min(LEASE_S, settings.lease_s)
        self._name = uuid4().hex
        self._claims: set[str] = set()
        self._count = 0
        self._told = told
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._closing = threading.Event()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, name=f"dreams {number}", daemon=True)
            for number in range(settings.dream_concurrency)
        ]
        self._keeper = threading.Thread(target=self._keep, name="dreams alive", daemon=True)

    def start(self) -> None:
        """Begin."""
        for thread in (*self._threads, self._keeper):
            thread.start()

    @property
    def busy(self) -> bool:
        """Whether a dream is being worked on."""
        with self._lock:
            return bool(self._claims)

    def finish(self) -> None:
        """Take no more dreams, and wait for those that are worked on."""
        self._closing.set()
        for thread in self._threads:
            thread.join()

    def stop(self) -> None:
        """Take no more dreams, and let others have those whose model does not answer soon.

        A thread that still waits for a model finds its claim gone when it comes back.
        """
        self._closing.set()
        self._stopping.set()
        until = time.monotonic() + _STOP_WITHIN_S
        for thread in (*self._threads, self._keeper):
            thread.join(max(0.0, until - time.monotonic()))
        with self._lock:
            left = set(self._claims)
        if left:
            try:
                with self._db.write() as conn:
                    dreams.release(conn, left)
            except StoreError as error:
                _log.warning("dreams wait until their lease ends: %s", error.message)

    def _work(self) -> None:
        while not self._closing.is_set():
            try:
                if (held := self._next()) is not None:
                    self._work_on(*held)
            except StoreError as error:
                _log.warning("a dream was not worked on: %s", error.message)
                self._closing.wait(_PAUSE_S)
            except Exception as error:  # noqa: BLE001  # costs an attempt, not the worker
                _log.error("a dream was not worked on: %s", type(error).__name__)
                self._closing.wait(_PAUSE_S)

    def _next(self) -> tuple[str, DreamRun] | None:
        """Claim the next due dream; None, a little later, when there is none.

        One thread looks at a time, so that an idle worker asks no more often than one would.
        """
        with self._looking:
            if self._closing.is_set():
                return None
            with self._db.read() as conn:
                due = dreams.waiting(conn, now_us=now_us()).due
            if not due:
                self._closing.wait(_LOOK_EVERY_S)
                return None
            with self._lock:
                self._count += 1
                mine = f"{self._name}-{self._count}"
                self._claims.add(mine)
            run = None
            try:
                run = claim(
                    self._db,
                    self._settings,
                    mine,
                    lease_s=self._lease_s,
                    dagster_run_id=self._dagster_run_id,
                )
            finally:
                if run is None:
                    self._let_go(mine)
            return None if run is None else (mine, run)

    def _work_on(self, mine: str, run: DreamRun) -> None:
        try:
            after = work_on(self._db, self._settings, run)
            if after is not None and after.ended:
                self._told(after)
        finally:
            self._let_go(mine)

    def _let_go(self, mine: str) -> None:
        with self._lock:
            self._claims.discard(mine)

    def _keep(self) -> None:
        while not self._stopping.wait(self._lease_s / _BEATS_A_LEASE):
            with self._lock:
                held = set(self._claims)
            if held:
                try:
                    with self._db.write() as conn:
                        until = now_us() + int(self._lease_s * 1_000_000)
                        dreams.keep(conn, held, until_us=until)
                except StoreError:
                    continue  # the next one makes up for it


def run_pending(
    db: Database,
    settings: Settings,
    *,
    budget_s: float,
    linger_s: float = 0.0,
    dagster_run_id: str | None = None,
    told: Callable[[DreamRun], None] | None = None,
) -> list[DreamRun]:
    """Work on dreams until none is left, and return those that ended, in that order.

    One that waits for its second attempt is waited for.

    Args:
        budget_s: no dream is begun after so many seconds.
        linger_s: how long to look for further ones after the last.
        told: called with every dream that ended, in the calling thread.
    """
    ended: list[DreamRun] = []
    if not settings.dream_enabled:
        return ended

    def took(run: DreamRun) -> None:
        ended.append(run)
        if told is not None:
            told(run)

    done: queue.SimpleQueue[DreamRun] = queue.SimpleQueue()
    worker = DreamWorker(db, settings, told=done.put, dagster_run_id=dagster_run_id)
    started = idle_since = time.monotonic()
    worker.start()
    try:
        while True:
            try:
                run = done.get(timeout=_LOOK_EVERY_S)
            except queue.Empty:
                run = None
            now = time.monotonic()
            if run is not None:
                took(run)
                idle_since = now
            elif worker.busy:
                idle_since = now
            elif now - idle_since >= linger_s:
                if not _left(db):
                    break
                idle_since = now
            if now - started > budget_s:
                worker.finish()
                break
        while not done.empty():
            took(done.get())
    finally:
        worker.stop()
    return ended


def _left(db: Database) -> bool:
    """Whether a dream waits or runs, here or elsewhere: a worker that is gone leaves it to us."""
    with db.read() as conn:
        return dreams.waiting(conn, now_us=now_us()).pending > 0


@contextmanager
def in_background(db: Database, settings: Settings) -> Iterator[None]:
    """Work on dreams while the block lasts, where the settings ask for it: what a server does."""
    if not (settings.dream_worker and settings.dream_enabled):
        yield
        return
    worker = DreamWorker(db, settings, told=_log_end)
    worker.start()
    try:
        yield
    finally:
        worker.stop()


def _log_end(run: DreamRun) -> None:
    became = run.outcome or run.error
    _log.info("dream %s %s: %s", run.run_id, run.status, became)
