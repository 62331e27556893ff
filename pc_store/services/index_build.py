"""Build shards of the search index from the ledger: on request, and in the background of a server.

How many shards there are is fixed by a ledger's first build and kept in it: what a scope's shard
is must be the same for all processes, whatever their settings say. Another number in the
settings is logged and has no effect.
"""

import itertools
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import sqlalchemy as sa

from pc_store.domain.refs import EXPERIENCE_FAMILY, MEMORY_FAMILY
from pc_store.errors import StoreError
from pc_store.ledger import facts, terms, unembedded, vectors
from pc_store.ledger.database import Database
from pc_store.ledger.terms import SHARDS_FACT, TermsRow
from pc_store.search import building, shards
from pc_store.search.building import Built as Built
from pc_store.search.building import Work
from pc_store.search.tokens import TOKENISER
from pc_store.services import embed
from pc_store.services.index_names import stored_shards
from pc_store.settings import Settings

_ROWS_AT_ONCE = 2_000
SETTLE_S = 2.0
"""How long the background waits before it builds what was asked for: more may be coming."""
REST_FACTOR = 10.0
"""After a build the background leaves the shard alone for this many times what it took."""

_log = logging.getLogger(__name__)


def fix_shards(db: Database, settings: Settings) -> int:
    """How many shards the index has; from now on, if that was not fixed before."""
    with db.read() as conn:
        count = stored_shards(conn)
    if count is None:
        with db.write() as conn:
            count = int(facts.put_once(conn, SHARDS_FACT, str(settings.index_shards)))
    if count != settings.index_shards:
        _log.warning(
            "the ledger's index has %d shards; PC_INDEX_SHARDS=%d has no effect",
            count,
            settings.index_shards,
        )
    return count


def build(db: Database, settings: Settings, shard: int, *, force: bool = False) -> Built | None:
    """Build a shard's next generation from one consistent read of the ledger, and publish it.

    Nothing waits for it: readers use the generation before until the new one is in its place.
    Vectors are those that the ledger has of the embedder in force; none is computed.

    Args:
        shard: from 0.
        force: build even if the file in use holds exactly what the ledger has.

    Returns:
        None if another builder is at work on the shard, or there was nothing to do.

    Raises:
        SearchExtensionUnavailable, IndexUnwritable: the file cannot be built.
    """
    count = fix_shards(db, settings)
    profile = embed.known_profile(db, settings)
    with building.claim(settings.index_path, shard) as work:
        if work is None or (not force and _is_fresh(db, settings, shard, count, profile)):
            return None
        with _interruptible(db, work):
            dims = vectors.dims_of(profile) if profile is not None else None
            if profile is not None and dims is not None:
                work.embed_with(profile, dims)
            with db.read() as conn:
                for scope_id in _members(conn, shard, count):
                    _add_scope(conn, work, scope_id, profile)
            return work.publish(shards_in_all=count, hnsw_min_rows=settings.hnsw_min_rows)


def _members(conn: sa.Connection, shard: int, count: int) -> list[str]:
    return [
        scope_id
        for scope_id in terms.scopes_with_documents(conn)
        if shards.shard_of(scope_id, count) == shard
    ]


def _add_scope(conn: sa.Connection, work: Work, scope_id: str, profile: str | None) -> None:
    head = terms.state(conn, scope_id, revision=0).head or 0
    state = terms.state(conn, scope_id, revision=head)
    entries = terms.active_rows(conn, scope_id, TOKENISER)
    found = iter(terms.experiences(conn, scope_id, TOKENISER))
    for family, rows in ((MEMORY_FAMILY, entries), (EXPERIENCE_FAMILY, found)):
        memory = family == MEMORY_FAMILY
        begun = False
        while some := list(itertools.islice(rows, _ROWS_AT_ONCE)):
            if not begun:
                work.begin(
                    scope_id,
                    family,
                    revision=head if memory else 0,
                    anchor=state.anchor if memory else "",
                    purges=state.purges if memory else 0,
                )
                begun = True
            _add_rows(conn, work, some, profile)


def _add_rows(conn: sa.Connection, work: Work, rows: list[TermsRow], profile: str | None) -> None:
    digests = list(dict.fromkeys(row.text_digest for row in rows))
    work.add(rows, vectors.get(conn, profile, digests) if profile is not None else {})


def _is_fresh(
    db: Database, settings: Settings, shard: int, count: int, profile: str | None
) -> bool:
    """Whether the file in use holds exactly what the ledger has."""
    found = shards.open_current(settings.index_path, shard, count)
    if found is None:
        return False
    try:
        covered = dict(found.covered)
    except shards.Torn as error:
        shards.refuse(found.path, error)
        return False
    if found.profile != profile:
        return False
    with db.read() as conn:
        for scope_id in _members(conn, shard, count):
            memory = covered.pop((scope_id, MEMORY_FAMILY), None)
            state = terms.state(conn, scope_id, revision=memory.revision if memory else 0)
            if memory is None:
                if next(terms.active_rows(conn, scope_id, TOKENISER), None) is not None:
                    return False
            elif (memory.revision, memory.anchor, memory.purges) != (
                *(state.head, state.anchor, state.purges),
            ):
                return False
            held = covered.pop((scope_id, EXPERIENCE_FAMILY), None)
            part = found.part(scope_id, EXPERIENCE_FAMILY) if held else None
            ids = list(map(part.docs.id_of, range(part.covered.docs))) if part else []
            if ids != terms.experience_versions(conn, scope_id):
                return False
            if profile is not None:
                bare = sum(one.docs - one.vectors for one in (memory, held) if one)
                if bare != unembedded.count(conn, [scope_id], profile):
                    return False
    return not covered


class Background:
    """Builds, one at a time, the shards that searches and erasures ask for.

    A failure is logged and nothing else: searches are right without, only slower.
    """

    def __init__(self, db: Database, settings: Settings) -> None:
        self._db = db
        self._settings = settings
        self._asked: set[str] = set()
        self._due: dict[int, float] = {}
        self._not_before: dict[int, float] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._work: Work | None = None
        self._thread = threading.Thread(target=self._run, name="index-builder", daemon=True)

    def start(self) -> None:
        """Begin to wait for requests."""
        self._thread.start()

    def want(self, scope_id: str) -> None:
        """Ask for a scope's shard to be built soon. Returns at once."""
        with self._changed:
            self._asked.add(scope_id)
            self._changed.notify()

    def stop(self) -> None:
        """End, breaking off a build that is under way; nothing of it is left."""
        with self._changed:
            self._stopping = True
            if self._work is not None:
                self._work.interrupt()
            self._changed.notify()
        self._thread.join()

    def at_work(self, work: Work | None) -> None:
        """Note what to interrupt at the end."""
        with self._changed:
            self._work = work
            if work is not None and self._stopping:
                work.interrupt()

    def is_builder(self) -> bool:
        """Whether the calling thread is the one that builds."""
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        while self._wait():
            try:
                self._build_one()
            except StoreError as error:
                if not self._stopping:
                    _log.warning("the search index was not built: %s", error.message)
            except Exception:  # noqa: BLE001 - whatever it was, the next build may go well
                _log.exception("the search index was not built")

    def _wait(self) -> bool:
        """Until something is asked for or due; False at the end."""
        with self._changed:
            while not self._stopping and not self._asked:
                soonest = min(self._due.values(), default=None)
                wait_s = None if soonest is None else soonest - time.monotonic()
                if wait_s is not None and wait_s <= 0:
                    break
                self._changed.wait(wait_s)
            return not self._stopping

    def _build_one(self) -> None:
        with self._changed:
            asked, self._asked = self._asked, set()
        now = time.monotonic()
        if asked:
            count = fix_shards(self._db, self._settings)
            for shard in {shards.shard_of(scope_id, count) for scope_id in asked}:
                soon = max(now + SETTLE_S, self._not_before.get(shard, 0.0))
                self._due.setdefault(shard, soon)
        shard = min(self._due, key=lambda number: self._due[number])
        if self._due[shard] > now:
            return
        del self._due[shard]
        try:
            build(self._db, self._settings, shard)
        finally:
            ended = time.monotonic()
            self._not_before[shard] = ended + REST_FACTOR * (ended - now)


_running: WeakKeyDictionary[sa.Engine, Background] = WeakKeyDictionary()


@contextmanager
def in_background(db: Database, settings: Settings) -> Iterator[Background]:
    """Build what `want` asks for, as long as the block lasts: what a server does."""
    background = Background(db, settings)
    background.start()
    _running[db.engine] = background
    try:
        yield background
    finally:
        _running.pop(db.engine, None)
        background.stop()


def want(db: Database, scope_id: str) -> None:
    """Ask for a scope's shard to be built soon, if this process builds in the background."""
    background = _running.get(db.engine)
    if background is not None:
        background.want(scope_id)


@contextmanager
def _interruptible(db: Database, work: Work) -> Iterator[None]:
    """Let the end of the background break off the build that it does itself."""
    background = _running.get(db.engine)
    if background is None or not background.is_builder():
        yield
        return
    background.at_work(work)
    try:
        yield
    finally:
        background.at_work(None)
