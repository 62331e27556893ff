"""Gather what a search of a scope looks at: its part of a shard, what the ledger changed since,
and vectors. All of it in one read of the ledger, so that every answer is of one moment.
"""

import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import sqlalchemy as sa

from pc_store.domain.refs import MEMORY_FAMILY
from pc_store.ledger import scopes, terms, vectors
from pc_store.ledger.database import Database
from pc_store.ledger.terms import ScopeState, TermsRow
from pc_store.search import nearest, shards
from pc_store.search.lexical import SMALL_SCOPE, Words, outgrown
from pc_store.search.nearest import Vector
from pc_store.search.shards import Part, Shard
from pc_store.search.tokens import TOKENISER
from pc_store.services import index_build
from pc_store.services.index_names import stored_shards
from pc_store.settings import Settings

LATE_MAX = 4_096
"""Of a part's documents without a vector, so many are looked up in the ledger by one search;
the others are found by their words until the next build."""
PROBED = 256
"""Documents without a filed vector that tell whether it is worth looking the others up."""
EMBED_MAX = 256
"""Texts that may be embedded for one search; if more have no vector, none of them is."""

T = TypeVar("T")


@dataclass(frozen=True)
class Late:
    """What a part has no vector of.

    Attributes:
        vectors: those that were found elsewhere, by document.
        missing: the texts of the others, by SHA-256; none if there are more than `EMBED_MAX`.
    """

    vectors: Mapping[int, Vector]
    missing: Mapping[str, str]


@dataclass(frozen=True)
class Reading:
    """A scope's documents of one family at one moment of the ledger.

    Attributes:
        head: the memory's revision.
    """

    conn: sa.Connection
    scope_id: str
    family: str
    head: int
    part: Part | None
    words: Words

    def late(
        self, profile: str, dims: int, made: Mapping[str, Vector], *, unless_none: bool
    ) -> Late:
        """Vectors of the documents that the part has none of, in one space.

        Args:
            made: vectors by text digest, of texts that the ledger has none of.
            unless_none: look at a few first, and give up if nothing at all has a vector.

        Raises:
            shards.Torn: the shard turned out to be torn.
        """
        names = self._without_filed_vector(profile)
        if unless_none and not made and not self._has_filed_vectors(profile):
            few = set(itertools.islice(names.values(), PROBED))
            if not self._known(few, profile, dims):
                return Late({}, {})
        known = {**made, **self._known(set(names.values()), profile, dims)}
        found = {doc: known[name] for doc, name in names.items() if name in known}
        bare = {self.words.id_of(doc) for doc in names if doc not in found}
        missing: dict[str, str] = {}
        if bare and len(bare) <= EMBED_MAX:
            missing = terms.texts(self.conn, self.scope_id, self.family, bare)
        return Late(found, missing)

    def _without_filed_vector(self, profile: str) -> dict[int, str]:
        """Text digests of the rows and of the part's documents that it has no vector of."""
        rows = enumerate(self.words.rows, start=self.words.in_part)
        names = {doc: row.text_digest for doc, row in rows}
        part = self.part
        if part is not None:
            bare = np.ones(self.words.in_part, dtype=bool)
            bare[self.words.gone] = False
            if self._has_filed_vectors(profile):
                bare[nearest.numbers(part)] = False
            docs = [int(doc) for doc in np.flatnonzero(bare)[:LATE_MAX]]
            names |= dict(zip(docs, part.digests(docs) if docs else (), strict=True))
        return names

    def _has_filed_vectors(self, profile: str) -> bool:
        part = self.part
        return part is not None and part.shard.profile == profile and part.covered.vectors > 0

    def _known(self, names: set[str], profile: str, dims: int) -> dict[str, Vector]:
        """The vectors that the ledger has of some texts; the process remembers what it read."""
        kept = shards.kept.find((profile, name) for name in names)
        known: dict[str, Vector] = {name: vector for (_, name), vector in kept.items()}
        unknown = [name for name in names if name not in known]
        for name, vector in vectors.get(self.conn, profile, unknown).items():
            if nearest.usable(vector, dims):
                known[name] = vector
                shards.kept.put((profile, name), vector, vector.nbytes + 200)
        return known


def consult(
    db: Database,
    settings: Settings,
    scope_id: str,
    family: str,
    ask: Callable[[Reading], T],
) -> T | None:
    """Ask a question of a scope's documents; None while its memory is empty.

    Sees every write committed before the call. Afterwards the scope's shard is asked for if it
    lacks much, see `index_build.want`. A shard that turns out to be torn is not used again, and
    the question is asked anew.

    Raises:
        ScopeNotFound: no such scope.
    """
    shards.kept.allow(settings.search_cache_bytes)
    for attempt in range(3):
        # opened before the ledger is read, so that a shard of this ledger is never ahead of it
        shard = _shard(db, settings, scope_id) if attempt < 2 else None
        try:
            part = shard.part(scope_id, family) if shard is not None else None
            with db.read() as conn:
                revision = part.covered.revision if part is not None else 0
                state = terms.state(conn, scope_id, revision=revision)
                if state.head is None:
                    scopes.get(conn, scope_id)
                    return None
                if state.shards is not None:
                    _counted(db, state.shards)
                if not state.head and family == MEMORY_FAMILY:
                    return None
                reading, due = _reading(conn, scope_id, family, state, part)
                answer = ask(reading)
        except shards.Torn as error:
            if shard is None:
                raise
            shards.refuse(shard.path, error)
            continue
        if due:
            index_build.want(db, scope_id)
        return answer
    raise AssertionError("the last attempt uses no shard and either answers or raises")


def _reading(
    conn: sa.Connection, scope_id: str, family: str, state: ScopeState, part: Part | None
) -> tuple[Reading, bool]:
    """The scope's documents, and whether its shard should be built anew."""
    memory = family == MEMORY_FAMILY
    head = state.head or 0
    covered = part.covered if part is not None else None
    if (
        covered is not None
        and memory
        and (covered.revision > head or covered.anchor != state.anchor)
    ):
        covered = part = None  # built from another ledger, or from this one before a restore
    gone: set[tuple[str, str]] = set()
    come: list[TermsRow]
    if part is None or covered is None:
        rows = terms.active if memory else terms.experiences
        come = rows(conn, scope_id, TOKENISER)
        return (
            Reading(conn, scope_id, family, head, None, Words(None, (), come)),
            len(come) >= SMALL_SCOPE,
        )
    if not memory:
        gone, come = _changed_experiences(conn, scope_id, part)
    elif covered.revision < head:
        gone, come = terms.changed(conn, scope_id, covered.revision, TOKENISER)
    else:
        come = []
    erased = memory and covered.purges != state.purges
    due = erased or outgrown(covered.docs, len(gone) + len(come))
    return Reading(conn, scope_id, family, head, part, Words(part, gone, come)), due


def _changed_experiences(
    conn: sa.Connection, scope_id: str, part: Part
) -> tuple[set[tuple[str, str]], list[TermsRow]]:
    """What is in a part and not current, and the rows that are current and not in it."""
    held = set(map(part.docs.id_of, range(part.covered.docs)))
    current = set(terms.experience_versions(conn, scope_id))
    come = {ref for ref, _ in current - held}
    rows = terms.experiences(conn, scope_id, TOKENISER, artifact_ids=come) if come else []
    return held - current, rows


def _shard(db: Database, settings: Settings, scope_id: str) -> Shard | None:
    with _lock:
        count = _counts.get(db.engine, -1)
    if count == -1:  # the process's first search of this ledger
        with db.read() as conn:
            count = _counted(db, stored_shards(conn))
    if count is None:
        return None
    return shards.open_current(settings.index_path, shards.shard_of(scope_id, count), count)


def _counted(db: Database, count: int | None) -> int | None:
    with _lock:
        _counts[db.engine] = count
    return count


_counts: WeakKeyDictionary[sa.Engine, int | None] = WeakKeyDictionary()
"""How many shards each ledger's index has, as the last search of it saw: None before a build."""
_lock = threading.Lock()
