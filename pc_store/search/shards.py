"""Shards: immutable DuckDB files that each hold what is searched of many scopes.

    <index dir>/s07/000042.duckdb     generation 42 of shard 7
    <index dir>/s07/CURRENT           the name of the generation in use

`building.py` makes them, this module reads them. A scope's documents of one family (entries or
experiences) are a *part* of its shard: they were current at the part's revision, are numbered
from 0 in order of their ids, and have statistics of their own. Whatever is wrong with a file
(gone, torn, of another version or division) means that there is no shard: the ledger answers
alone, later, and alike. A reader never changes or removes a file, since another process may be
of another version.
"""

import hashlib
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

import duckdb
import numpy as np
from numpy.typing import NDArray

from pc_store.search import serving
from pc_store.search.kept import Kept
from pc_store.search.ranking import Integers, Postings
from pc_store.search.tokens import TOKENISER

Torn = duckdb.Error
"""What reading a shard raises when its file turns out to be torn."""

FORMAT = "2"
POINTER = "CURRENT"
OPEN_FILES_MAX = 64
CACHE_BYTES = 256 * 1024 * 1024

_READ_FACTS = "SELECT format, tokeniser, shard, shards, profile, dims FROM {db}.facts"
_READ_COVERED = """
    SELECT number, scope_id, family, revision, anchor, purges, docs, vectors, hnsw
    FROM {db}.parts
"""
_READ_PART = _READ_COVERED + " WHERE scope_id = $scope_id AND family = $family"
_READ_DOCS = "SELECT refs, versions, lengths FROM {db}.parts WHERE number = $part"
_READ_DIGESTS = "SELECT digests FROM {db}.parts WHERE number = $part"
# Written out, because a statement with parameters costs 0.3 ms more; no term holds a blank. A few
# terms are compared in the scan, which spares planning a join; from some forty on the join wins:
# 6 ms instead of 35 for 1,000 terms in 10,000 entries.
_READ_POSTINGS = "SELECT term, docs, counts FROM {{db}}.postings WHERE part = {part} AND "
_FEW = "list_contains(string_split('{terms}', ' '), term)"
_MANY = "term IN (SELECT unnest(string_split('{terms}', ' ')))"
_FEW_TERMS = 40
_TERM_BYTES = 500
"""What keeping a term costs beside its numbers."""
_QUOTED = str.maketrans({"'": "''", "{": "{{", "}": "}}"})
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Covered:
    """What a part holds: a scope's documents of one family as they were at a revision.

    Attributes:
        revision: of the memory; 0 for experiences, which have none in common.
        anchor: of that revision, see `ledger.terms.ScopeState`.
        purges: erasures of the memory's entries up to then.
        vectors: documents that have a vector.
        hnsw: whether the vectors have an index.
    """

    number: int
    scope_id: str
    family: str
    revision: int
    anchor: str
    purges: int
    docs: int
    vectors: int
    hnsw: bool


@dataclass(frozen=True)
class Docs:
    """A part's documents by number, in order of their refs.

    Attributes:
        refs, versions: UTF-8 bytes, as arrays of one width.
        lengths: tokens of each.
    """

    refs: NDArray[np.bytes_]
    versions: NDArray[np.bytes_]
    lengths: Integers

    def find(self, ids: Iterable[tuple[str, str]]) -> Integers:
        """The numbers of those (ref, version) that are here."""
        wanted = sorted(ids)
        if not wanted or not len(self.refs):
            return np.zeros(0, dtype=np.int64)
        refs = np.array([ref.encode() for ref, _ in wanted])
        versions = np.array([version.encode() for _, version in wanted])
        places = np.minimum(np.searchsorted(self.refs, refs), len(self.refs) - 1)
        same = (self.refs[places] == refs) & (self.versions[places] == versions)
        found: Integers = places[same].astype(np.int64)
        return found

    def id_of(self, doc: int) -> tuple[str, str]:
        """(ref, version) of a document."""
        return bytes(self.refs[doc]).decode(), bytes(self.versions[doc]).decode()


class Shard:
    """One open index file. Safe to share between threads, not across a fork."""

    def __init__(self, path: Path) -> None:
        """Open read-only.

        Raises:
            duckdb.Error: the file cannot be read.
            ValueError: it is of another version.
        """
        self.path = path
        self.generation = int(path.stem)
        self.file = serving.Attached(path)
        [(form, tokeniser, shard, shards, profile, dims)] = self.file.rows(_READ_FACTS, {})
        if (form, tokeniser) != (FORMAT, TOKENISER):
            raise ValueError(f"format {form}, tokeniser {tokeniser}")
        self.shard, self.shards = int(shard), int(shards)
        self.profile: str | None = profile
        self.dims = int(dims)

    @property
    def covered(self) -> Mapping[tuple[str, str], Covered]:
        """What the file holds, by (scope, family). Raises `Torn`."""
        found = [Covered(*row) for row in self.file.rows(_READ_COVERED, {})]
        return {(one.scope_id, one.family): one for one in found}

    def part(self, scope_id: str, family: str) -> "Part | None":
        """A scope's documents of one family, None if the file has none. Raises `Torn`."""

        def read() -> Covered | None:
            rows = self.file.rows(_READ_PART, {"scope_id": scope_id, "family": family})
            return Covered(*rows[0]) if rows else None

        covered = kept.get((self.path, scope_id, family), read, lambda _: 500)
        return Part(self, covered) if covered is not None else None


@dataclass(frozen=True)
class Part:
    """A scope's documents of one family in an open shard."""

    shard: Shard
    covered: Covered

    @property
    def docs(self) -> Docs:
        """The documents; kept in memory from the first use on. Raises `Torn`."""
        return kept.get(self.key("docs"), self._read_docs, _docs_bytes)

    def key(self, what: str) -> tuple[Path, int, str]:
        """The name under which something of this part is kept in memory."""
        return self.shard.path, self.covered.number, what

    def postings(self, terms: Iterable[str]) -> dict[str, Postings]:
        """Where the terms occur; terms that do not occur are left out. Raises `Torn`.

        Kept in memory: of what a question asks for, the words that many documents have cost most
        to read, and the next question has some of them again.
        """
        keys = {term: (self.shard.path, self.covered.number, "term", term) for term in terms}
        known = kept.find(keys.values())
        if missing := [term for term, key in keys.items() if key not in known]:
            read = self._read_postings(missing)
            for term in missing:
                there = read.get(term)
                size = _TERM_BYTES + (there.docs.nbytes + there.counts.nbytes if there else 0)
                known[keys[term]] = there
                kept.put(keys[term], there, size)
        return {term: there for term, key in keys.items() if (there := known[key]) is not None}

    def _read_postings(self, terms: list[str]) -> dict[str, Postings]:
        quoted = " ".join(terms).translate(_QUOTED)
        statement = _READ_POSTINGS + (_FEW if len(terms) <= _FEW_TERMS else _MANY)
        asked = statement.format(part=self.covered.number, terms=quoted)
        found = self.shard.file.columns(asked)
        columns = (np.asarray(found[name]) for name in ("term", "docs", "counts"))
        return {
            term: Postings(docs.astype(np.int64), counts.astype(np.int64))
            for term, docs, counts in zip(*columns, strict=True)
        }

    def digests(self, docs: Iterable[int] | None = None) -> list[str]:
        """The SHA-256, in lower hex, of all or some documents' texts. Raises `Torn`."""

        def read() -> bytes:
            [(digests,)] = self.shard.file.rows(_READ_DIGESTS, {"part": self.covered.number})
            return bytes(digests)

        whole = kept.get(self.key("digests"), read, len)
        docs = range(self.covered.docs) if docs is None else docs
        return [whole[32 * doc : 32 * doc + 32].hex() for doc in docs]

    def _read_docs(self) -> Docs:
        found = self.shard.file.columns(_READ_DOCS, {"part": self.covered.number})
        lengths = np.asarray(found["lengths"][0], dtype=np.int64)
        return Docs(_names(found["refs"][0]), _names(found["versions"][0]), lengths)


kept = Kept(CACHE_BYTES)
"""Parts of index files, as far as the process keeps them in memory."""

_opened: OrderedDict[Path, Shard] = OrderedDict()
_alive: WeakValueDictionary[Path, Shard] = WeakValueDictionary()
_refused: dict[Path, tuple[int, int]] = {}
_lock = threading.Lock()
_IN_USE = "file handle conflict"
"""DuckDB opens a file once a process: an instance that was given up still has it."""


def shard_of(scope_id: str, shards: int) -> int:
    """The shard of a scope, 0 to `shards` - 1: the same on every machine, for ever."""
    first = hashlib.sha256(scope_id.encode()).digest()[:8]
    return int.from_bytes(first, "big") % shards


def folder_of(index_dir: Path, shard: int) -> Path:
    """The folder of a shard's files."""
    return index_dir / f"s{shard:02d}"


def current_path(index_dir: Path, shard: int) -> Path | None:
    """The generation in use, whatever is in it; None before the first."""
    folder = folder_of(index_dir, shard)
    try:
        name = (folder / POINTER).read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    stem, dot, ending = name.partition(".")
    sound = stem.isdecimal() and dot and ending == "duckdb"
    return folder / name if sound else None


def open_current(index_dir: Path, shard: int, shards: int) -> Shard | None:
    """A shard's generation in use, kept open for the next call; None if there is no sound one.

    Args:
        shards: how many there are; a file of another division is not used.
    """
    for _ in range(3):
        path = current_path(index_dir, shard)
        if path is None:
            return None
        with _lock:
            _let_go_of_others(path)
            found = _opened.get(path)
            if found is not None:
                _opened.move_to_end(path)
                return found if (found.shard, found.shards) == (shard, shards) else None
            found = _opening(path)
            if found is not None:
                return found if (found.shard, found.shards) == (shard, shards) else None
        if path == current_path(index_dir, shard):
            return None
    return None


def refuse(path: Path, why: object) -> None:
    """Do not use a file again in this process, unless it changes: it turned out to be torn."""
    with _lock:
        _refuse(path, why)
    if isinstance(why, duckdb.FatalException | duckdb.InternalException):
        close_all()


def close_all() -> None:
    """Close every file; what is asked next opens it again."""
    with _lock:
        _give_up()
    kept.clear()


def _opening(path: Path) -> Shard | None:
    """Open a file and remember it; None if it cannot be used. The caller holds the lock."""
    try:
        if _refused.get(path) == _identity(path):
            return None
        shard = _alive.get(path) or Shard(path)
    except OSError:
        return None  # replaced since the pointer was read
    except (duckdb.Error, ValueError) as error:
        if path.exists() and _IN_USE not in str(error):
            _refuse(path, error)
            if isinstance(error, duckdb.FatalException | duckdb.InternalException):
                _give_up()
        return None
    _opened[path] = _alive[path] = shard
    while len(_opened) > OPEN_FILES_MAX:
        _opened.popitem(last=False)  # closed when its last reader lets go of it
    return shard


def _give_up() -> None:
    _opened.clear()
    _alive.clear()
    serving.renew()


def _begin_anew() -> None:
    """In a forked child: the parent's files, and a lock that another thread may have held."""
    global _lock
    _lock = threading.Lock()
    serving.begin_anew()
    _opened.clear()
    _alive.clear()
    kept.begin_anew()


os.register_at_fork(after_in_child=_begin_anew)


def _refuse(path: Path, why: object) -> None:
    _log.warning("search index file %s is not usable: %s", path, str(why).splitlines()[0])
    _opened.pop(path, None)
    try:
        _refused[path] = _identity(path)
    except OSError:
        _refused.pop(path, None)


def _let_go_of_others(path: Path) -> None:
    """Close the generations that a newer one has replaced."""
    for other in [known for known in _opened if known.parent == path.parent and known != path]:
        del _opened[other]
        kept.forget(lambda key, gone=other: isinstance(key, tuple) and key[0] == gone)  # type: ignore[misc]


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size


def _names(joined: str) -> NDArray[np.bytes_]:
    return np.array(joined.encode().split(b"\n")) if joined else np.zeros(0, dtype="S1")


def _docs_bytes(docs: Docs) -> int:
    return docs.refs.nbytes + docs.versions.nbytes + docs.lengths.nbytes
