"""Shards: immutable DuckDB files that each hold one scope's words at one memory revision.

A shard is built under a temporary name with DuckDB's FTS extension, checkpointed, closed, synced
and renamed into place, and never written again:

    <index dir>/words/<SHA-256 of the scope id>/<revision>-<nonce>.duckdb

The newest file is the one in use; its name is new every time, so builders of any number of
processes never write to one file. Whatever is wrong with a file (gone, torn, another version,
another ledger's) means there is no shard: the ledger's rows answer alone, later, and alike.
"""

import contextlib
import hashlib
import importlib.util
import json
import logging
import os
import re
import secrets
import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from pc_store.ledger.terms import TermsRow
from pc_store.search.ranking import Integers, Postings
from pc_store.search.tokens import TOKENISER, tokens

Torn = duckdb.Error
"""What reading a shard raises when its file turns out to be torn."""

FORMAT = "1"
OPEN_FILES_MAX = 16
_ABANDONED_S = 3_600.0

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
_SERVING = {**_SETTINGS, "threads": 1, "memory_limit": "256MB"}

_CREATE = """
    CREATE TABLE entries (doc INTEGER, entry_id VARCHAR, entry_version_id VARCHAR, terms VARCHAR)
"""
_FILL = """
    INSERT INTO entries
    SELECT * FROM read_json($rows, format = 'newline_delimited', columns = {
        doc: 'INTEGER', entry_id: 'VARCHAR', entry_version_id: 'VARCHAR', terms: 'VARCHAR'
    })
    ORDER BY doc
"""
_INDEX = r"""
    PRAGMA create_fts_index('entries', 'doc', 'terms', stemmer = 'none', stopwords = 'none',
                            ignore = '\s+', strip_accents = 0, lower = 0)
"""
# The extension keeps one row per occurrence, in document order. Counted and sorted by term they
# are read in a third of the time: 2 ms instead of 6.5 for a query over 10,000 entries.
_POSTINGS = """
    CREATE TABLE postings AS
    SELECT termid::INTEGER AS term, name AS doc, count(*)::INTEGER AS occurrences
    FROM fts_main_entries.terms JOIN fts_main_entries.docs USING (docid)
    GROUP BY ALL ORDER BY ALL
"""
_FACTS = """
    CREATE TABLE facts AS
    SELECT $format AS format, $tokeniser AS tokeniser, $scope_id AS scope_id,
           $revision::BIGINT AS revision, $anchor AS anchor
"""
_READ_FACTS = "SELECT format, tokeniser, scope_id, revision, anchor FROM facts"
_READ_LENGTHS = """
    SELECT coalesce(len, 0)::BIGINT AS length
    FROM entries LEFT JOIN fts_main_entries.docs ON name = doc ORDER BY doc
"""
# A list of Python strings costs 70 us an element to bind, one string next to nothing. No term
# holds a blank.
_READ_TERMS = """
    SELECT term, termid FROM fts_main_entries.dict
    WHERE term IN (SELECT unnest(string_split($terms, ' ')))
"""
_READ_POSTINGS = """
    SELECT postings.term, doc, occurrences
    FROM unnest(string_split($terms, ' ')::INTEGER[]) AS wanted (term)
    JOIN postings ON postings.term = wanted.term
"""
_READ_IDS = """
    SELECT doc, entry_id, entry_version_id FROM entries
    WHERE doc IN (SELECT unnest(string_split($docs, ' ')::INTEGER[]))
"""
_READ_DOCS = """
    SELECT doc FROM entries
    WHERE entry_version_id IN (SELECT unnest(from_json($versions, '["VARCHAR"]')))
"""

_FILE = re.compile(r"(\d{12})-[0-9a-f]{16}\.duckdb")
_log = logging.getLogger(__name__)


class Shard:
    """One open index file. Safe to share between threads, not across a fork."""

    def __init__(self, path: Path, scope_id: str) -> None:
        """Open read-only.

        Raises:
            duckdb.Error: the file cannot be read.
            ValueError: it is of another version, or another scope's.
        """
        self.path = path
        self._connection = duckdb.connect(str(path), read_only=True, config=_SERVING)
        [(form, tokeniser, scope, revision, anchor)] = self._rows(_READ_FACTS)
        if (form, tokeniser, scope) != (FORMAT, TOKENISER, scope_id):
            raise ValueError(f"format {form}, tokeniser {tokeniser}, another scope or version")
        self.revision = int(revision)
        self.anchor = str(anchor)
        found = self._connection.cursor().execute(_READ_LENGTHS).fetchnumpy()
        self.lengths: Integers = np.asarray(found["length"], dtype=np.int64)

    def postings(self, terms: Iterable[str]) -> dict[str, Postings]:
        """Where the terms occur; terms that do not occur are left out."""
        known = {number: term for term, number in self._rows(_READ_TERMS, terms=" ".join(terms))}
        if not known:
            return {}
        numbers = " ".join(map(str, known))
        found = self._connection.cursor().execute(_READ_POSTINGS, {"terms": numbers}).fetchnumpy()
        of, docs, counts = (np.asarray(found[name]) for name in ("term", "doc", "occurrences"))
        # sorted here, where it costs 0.1 ms, and not by DuckDB, where it costs 3
        order = np.argsort(of, kind="stable")
        of, docs, counts = of[order], docs[order].astype(np.int64), counts[order].astype(np.int64)
        starts = np.flatnonzero(np.diff(of, prepend=-1))
        return {
            known[int(of[start])]: Postings(docs[start:end], counts[start:end])
            for start, end in zip(starts, [*starts[1:], len(of)], strict=True)
        }

    def documents(self, version_ids: Iterable[str]) -> Integers:
        """The document numbers of those versions that are in the file."""
        ids = list(version_ids)
        rows = self._rows(_READ_DOCS, versions=json.dumps(ids)) if ids else []
        return np.array([doc for (doc,) in rows], dtype=np.int64)

    def ids(self, docs: Iterable[int]) -> dict[int, tuple[str, str]]:
        """(entry id, entry version id) by document number."""
        rows = self._rows(_READ_IDS, docs=" ".join(map(str, docs)))
        return {doc: (entry_id, version_id) for doc, entry_id, version_id in rows}

    def _rows(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        return self._connection.cursor().execute(statement, values).fetchall()


_opened: OrderedDict[Path, Shard] = OrderedDict()
_opened_by = os.getpid()
_lock = threading.Lock()
_building: set[Path] = set()


def row_terms(row: TermsRow) -> list[str]:
    """An entry's tokens as stored with it, or made again if another tokeniser stored them."""
    return row.terms.split() if row.text is None else tokens(row.text)


def open_newest(index_dir: Path, scope_id: str) -> Shard | None:
    """The scope's newest readable index file, kept open for the next call; None without one."""
    folder = _folder(index_dir, scope_id)
    for _ in range(3):
        vanished = False
        paths = _files(folder)
        shard = _kept_open(folder, paths[-1]) if paths else None
        if shard is not None:
            return shard
        for path in reversed(paths):
            try:
                shard = Shard(path, scope_id)
            except (duckdb.Error, ValueError) as error:
                if path.exists():
                    discard(path, error)
                else:
                    vanished = True  # replaced since it was listed
                continue
            with _lock:
                _opened[folder] = shard
                while len(_opened) > OPEN_FILES_MAX:
                    _opened.popitem(last=False)  # closed when its last reader lets go of it
            return shard
        if not vanished:
            return None
    return None


def _kept_open(folder: Path, newest: Path) -> Shard | None:
    global _opened_by
    with _lock:
        if _opened_by != os.getpid():  # a forked child must not touch its parent's files
            _opened.clear()
            _opened_by = os.getpid()
        shard = _opened.get(folder)
        if shard is None or shard.path != newest:
            return None
        _opened.move_to_end(folder)
        return shard


def discard(path: Path, why: object) -> None:
    """Take away a file that does not answer for this ledger: torn, or of another one."""
    _log.warning("search index file %s is not usable and is removed: %s", path, why)
    with _lock:
        for folder in [folder for folder, file in _opened.items() if file.path == path]:
            del _opened[folder]
    with contextlib.suppress(OSError):
        path.unlink()


def forget(index_dir: Path, scope_id: str) -> None:
    """Take a scope's index files away, because they hold words that must be gone.

    One that is being built meanwhile is refused by its anchor when it is next asked.
    """
    folder = _folder(index_dir, scope_id)
    with _lock:
        _opened.pop(folder, None)
    for path in _files(folder):
        with contextlib.suppress(OSError):
            path.unlink()


def build(
    index_dir: Path, scope_id: str, *, revision: int, anchor: str, rows: Sequence[TermsRow]
) -> bool:
    """Publish an index file and remove those it replaces.

    Args:
        anchor: what tells this ledger's revision from another ledger's of the same number.
        rows: the active entries of that revision.

    Returns:
        Whether there is a new file. There is none when this process is already building one
        for the scope, or when it failed, which is logged: search answers without.
    """
    folder = _folder(index_dir, scope_id)
    with _lock:
        if folder in _building:
            return False
        _building.add(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".build-", dir=folder) as workshop:
            made = Path(workshop) / "words.duckdb"
            listed = Path(workshop) / "rows.json"
            ordered = sorted(rows, key=lambda row: row.entry_id)
            with listed.open("w", encoding="ascii") as stream:
                stream.writelines(_lines(ordered))
            _write(made, listed, scope_id, revision, anchor)
            _sync(made)
            made.rename(folder / f"{revision:012d}-{secrets.token_hex(8)}.duckdb")
        _sync(folder)
        _tidy(folder)
    except (duckdb.Error, OSError) as error:
        _log.warning("the search index of scope %r could not be built: %s", scope_id, error)
        return False
    finally:
        with _lock:
            _building.discard(folder)
    return True


def _write(path: Path, listed: Path, scope_id: str, revision: int, anchor: str) -> None:
    with contextlib.closing(duckdb.connect(str(path), config=_SETTINGS)) as connection:
        extension = str(_extension("fts")).replace("'", "''")
        connection.execute(f"LOAD '{extension}'")
        connection.execute(_CREATE)
        connection.execute(_FILL, {"rows": str(listed)})
        connection.execute(_INDEX)
        connection.execute(_POSTINGS)
        facts = {"format": FORMAT, "tokeniser": TOKENISER, "scope_id": scope_id}
        connection.execute(_FACTS, {**facts, "revision": revision, "anchor": anchor})
        connection.execute("CHECKPOINT")


def _lines(rows: Iterable[TermsRow]) -> Iterator[str]:
    for doc, row in enumerate(rows):
        ids = {"entry_id": row.entry_id, "entry_version_id": row.entry_version_id}
        yield json.dumps({"doc": doc, **ids, "terms": " ".join(row_terms(row))}) + "\n"


def _extension(name: str) -> Path:
    """The extension file in its wheel: no network, nothing under the home folder."""
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    if spec is None or not spec.submodule_search_locations:
        raise OSError(f"the package duckdb-extension-{name} is not installed")
    folder = Path(spec.submodule_search_locations[0]) / "extensions" / f"v{duckdb.__version__}"
    return folder / f"{name}.duckdb_extension"


def _folder(index_dir: Path, scope_id: str) -> Path:
    """A folder name of one length, safe where file names ignore case."""
    return index_dir / "words" / hashlib.sha256(scope_id.encode()).hexdigest()


def _files(folder: Path) -> list[Path]:
    """Published files, oldest revision first."""
    try:
        return sorted(path for path in folder.iterdir() if _FILE.fullmatch(path.name))
    except OSError:
        return []


def _tidy(folder: Path) -> None:
    """Remove all files but the newest, and what dead builders left.

    Every process keeps the same one. A reader that has a removed file open goes on reading it
    (where the system forbids the removal, the next builder tries again).
    """
    for path in _files(folder)[:-1]:
        with contextlib.suppress(OSError):
            path.unlink()
    for path in folder.glob(".build-*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(path, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
