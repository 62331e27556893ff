"""Build shards: collect documents, index them with DuckDB's FTS and VSS, publish the file.

One builder a shard at a time, on one machine or on several that share the folder's locks. The
file is made under a name of its own, checkpointed, closed and synced, and takes its place by
being renamed; then `CURRENT` is replaced to name it. A builder that dies at any moment leaves
the generation in use as it was.
"""

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import duckdb
import numpy as np
from numpy.typing import NDArray

from pc_store.errors import IndexUnwritable
from pc_store.ledger.terms import TermsRow
from pc_store.search import extensions, shards
from pc_store.search.nearest import usable
from pc_store.search.shards import FORMAT, POINTER
from pc_store.search.tokens import TOKENISER, tokens

Vector = NDArray[np.float32]

LOCK = "LOCK"
_WORKSHOP = ".build-"
_ROWS_SERVED = 2_048
"""Rows of a row group in the tables that are read by part: few rows of other parts are looked at.
Measured with 30,000 terms in a part: 1.6 ms a query, 2.1 with 8,192."""
_BLOCK_BYTES = 65_536
"""A quarter of DuckDB's own, so that a file with a few entries has 0.7 MB and not 2.3."""
_HNSW_BLOCK_BYTES = 262_144
"""DuckDB's own: an HNSW index does not fit into smaller ones."""
_VECTORS_AT_ONCE = 2_000

_CREATE = """
    CREATE TEMP TABLE named AS
    SELECT * FROM read_json($rows, format = 'newline_delimited', columns = {
        doc: 'BIGINT', part: 'INTEGER', ref: 'VARCHAR', version: 'VARCHAR', digest: 'VARCHAR',
        terms: 'VARCHAR'
    })
"""
_FILL = "CREATE TABLE shard.docs AS SELECT doc, terms FROM named ORDER BY doc"
_FILED = """
    CREATE TEMP TABLE filed AS
    SELECT * FROM read_json($parts, format = 'newline_delimited', columns = {
        number: 'INTEGER', scope_id: 'VARCHAR', family: 'VARCHAR', revision: 'BIGINT',
        anchor: 'VARCHAR', purges: 'BIGINT', first: 'BIGINT'
    })
"""
_INDEX = r"""
    PRAGMA create_fts_index('shard.main.docs', 'doc', 'terms', stemmer = 'none',
                            stopwords = 'none', ignore = '\s+', strip_accents = 0, lower = 0)
"""
# The extension keeps one row per occurrence, over all scopes. With one row per part and term a
# query reads some twenty rows, wherever the scope is and however large its neighbours are.
_POSTINGS = """
    CREATE TABLE shard.postings AS
    SELECT part, term, list(doc ORDER BY doc) AS docs, list(occurrences ORDER BY doc) AS counts
    FROM (
        SELECT part, termid, (doc - first)::INTEGER AS doc, count(*)::USMALLINT AS occurrences
        FROM shard.fts_main_docs.terms
        JOIN shard.fts_main_docs.docs USING (docid)
        JOIN named ON named.doc = name
        JOIN filed ON filed.number = part
        GROUP BY part, termid, named.doc, first
    )
    JOIN shard.fts_main_docs.dict USING (termid)
    GROUP BY part, term
    ORDER BY part, term
"""
_PARTS = """
    CREATE TABLE shard.parts AS
    SELECT number, any_value(scope_id) AS scope_id, any_value(family) AS family,
           any_value(revision) AS revision, any_value(anchor) AS anchor,
           any_value(purges) AS purges, count(*) AS docs,
           coalesce(any_value(counted.vectors), 0) AS vectors,
           coalesce(any_value(counted.vectors), 0) > $hnsw_min_rows AS hnsw,
           string_agg(ref, chr(10) ORDER BY named.doc) AS refs,
           string_agg(version, chr(10) ORDER BY named.doc) AS versions,
           unhex(string_agg(digest, '' ORDER BY named.doc)) AS digests,
           list(coalesce(len, 0)::INTEGER ORDER BY named.doc) AS lengths
    FROM filed
    JOIN named ON named.part = filed.number
    LEFT JOIN shard.fts_main_docs.docs AS indexed ON indexed.name = named.doc
    LEFT JOIN (SELECT part, count(*) AS vectors FROM embedded GROUP BY part) AS counted
           ON counted.part = filed.number
    GROUP BY number
    ORDER BY number
"""
_EMBEDDED = "CREATE TEMP TABLE embedded (part INTEGER, doc INTEGER, vector FLOAT[{dims}])"
_EMBED = """
    INSERT INTO embedded
    SELECT $part, place, list(value ORDER BY dimension)::FLOAT[{dims}]
    FROM chunk GROUP BY place ORDER BY place
"""
_VECTORS = """
    CREATE TABLE shard.vectors AS
    SELECT part, doc, vector FROM embedded
    WHERE part NOT IN (SELECT number FROM shard.parts WHERE hnsw) ORDER BY part, doc
"""
_HNSW_TABLE = """
    CREATE TABLE shard.hnsw_{part} AS
    SELECT doc, vector FROM embedded WHERE part = {part} ORDER BY doc
"""
# On unit vectors the inner product orders as the cosine does and costs a quarter less.
_HNSW_INDEX = """
    CREATE INDEX hnsw_{part}_index ON shard.hnsw_{part}
    USING HNSW (vector) WITH (metric = 'ip', M = 16, ef_construction = 128)
"""
_FACTS = """
    CREATE TABLE shard.facts AS
    SELECT $format AS format, $tokeniser AS tokeniser, $shard::INTEGER AS shard,
           $shards::INTEGER AS shards, $profile::VARCHAR AS profile, $dims::INTEGER AS dims
"""


@dataclass(frozen=True)
class Built:
    """A generation that was published.

    Attributes:
        parts, docs, vectors: what is in it.
        took_s: from the claim to the publication.
    """

    shard: int
    generation: int
    path: Path
    parts: int
    docs: int
    vectors: int
    bytes: int
    took_s: float


class Work:
    """A shard in the making. Get one from `claim`."""

    def __init__(self, index_dir: Path, shard: int, workshop: Path) -> None:
        self.index_dir = index_dir
        self.shard = shard
        self._workshop = workshop
        self._made = workshop / "shard.duckdb"
        self._started = time.monotonic()
        self._parts = self._docs = self._vectors = 0
        self._first = 0
        self._embedded: dict[int, int] = {}
        self._profile: str | None = None
        self._dims = 1
        self._connection = duckdb.connect(
            config={**extensions.SETTINGS, "temp_directory": str(workshop / "spill")}
        )
        self._rows: IO[str] = (workshop / "rows.json").open("w", encoding="ascii")
        self._listed: IO[str] = (workshop / "parts.json").open("w", encoding="ascii")

    def embed_with(self, profile: str, dims: int) -> None:
        """Say of which space the vectors will be, before any document is added."""
        self._profile, self._dims = profile, dims

    def begin(self, scope_id: str, family: str, *, revision: int, anchor: str, purges: int) -> None:
        """Begin a part: what is added from now on is a scope's documents of one family."""
        self._parts += 1
        self._first = self._docs
        part = {
            "number": self._parts,
            "scope_id": scope_id,
            "family": family,
            "revision": revision,
            "anchor": anchor,
            "purges": purges,
            "first": self._docs,
        }
        self._listed.write(json.dumps(part) + "\n")

    def add(self, rows: Sequence[TermsRow], vectors: Mapping[str, Vector]) -> None:
        """Add documents to the part that was begun, in order of their refs' bytes.

        Args:
            vectors: by text digest, as far as there are any; unsound ones are left out.

        Raises:
            IndexUnwritable: there is no room for them.
        """
        try:
            self._add(rows, vectors)
        except (duckdb.Error, OSError) as error:
            raise _unwritable(self.index_dir, error) from error

    def _add(self, rows: Sequence[TermsRow], vectors: Mapping[str, Vector]) -> None:
        places: list[int] = []
        chosen: list[Vector] = []
        for doc, row in enumerate(rows, start=self._docs):
            filed = {"doc": doc, "part": self._parts, "ref": row.ref, "version": row.version}
            told = {"digest": row.text_digest, "terms": " ".join(row_terms(row))}
            self._rows.write(json.dumps(filed | told) + "\n")
            vector = vectors.get(row.text_digest)
            if vector is not None and usable(vector, self._dims):
                places.append(doc - self._first)
                chosen.append(vector)
        self._docs += len(rows)
        for start in range(0, len(chosen), _VECTORS_AT_ONCE):
            self._embed(
                places[start : start + _VECTORS_AT_ONCE], chosen[start : start + _VECTORS_AT_ONCE]
            )

    def publish(self, *, shards_in_all: int, hnsw_min_rows: int) -> Built:
        """Index what was added, put the file in its place, and remove those it replaces.

        Raises:
            SearchExtensionUnavailable: FTS, or VSS for a large scope, cannot be had.
            IndexUnwritable: the file cannot be written.
        """
        try:
            self._rows.close()
            self._listed.close()
            self._index(hnsw_min_rows, shards_in_all)
            self._connection.close()
            size = self._made.stat().st_size
            _sync(self._made)
            folder = shards.folder_of(self.index_dir, self.shard)
            generation = 1 + max(generations(folder), default=0)
            path = folder / f"{generation:06d}.duckdb"
            self._made.rename(path)
            _sync(folder)
            _point(folder, path.name)
            _tidy(folder, path)
        except (duckdb.Error, OSError) as error:
            raise _unwritable(self.index_dir, error) from error
        return Built(
            self.shard,
            generation,
            path,
            self._parts,
            self._docs,
            self._vectors,
            size,
            time.monotonic() - self._started,
        )

    def interrupt(self) -> None:
        """Make what the builder is doing, in another thread, end with an error."""
        with contextlib.suppress(duckdb.Error):  # it is through and has closed the connection
            self._connection.interrupt()

    def close(self) -> None:
        """Close what is open; the workshop's files go with it."""
        self._rows.close()
        self._listed.close()
        self._connection.close()

    def _embed(self, places: list[int], vectors: list[Vector]) -> None:
        """File vectors. Numbers in flat arrays are the one form DuckDB takes from numpy fast."""
        if not self._vectors:
            self._connection.execute(_EMBEDDED.format(dims=self._dims))
        chunk = {  # noqa: F841 - DuckDB looks it up by its name
            "place": np.repeat(np.array(places, dtype=np.int64), self._dims),
            "dimension": np.tile(np.arange(self._dims, dtype=np.int32), len(vectors)),
            "value": np.concatenate(vectors).astype(np.float32),
        }
        self._connection.execute(_EMBED.format(dims=self._dims), {"part": self._parts})
        self._vectors += len(vectors)
        self._embedded[self._parts] = self._embedded.get(self._parts, 0) + len(vectors)

    def _index(self, hnsw_min_rows: int, shards_in_all: int) -> None:
        execute = self._connection.execute
        small = max(self._embedded.values(), default=0) <= hnsw_min_rows
        block_size = f"BLOCK_SIZE {_BLOCK_BYTES if small else _HNSW_BLOCK_BYTES}"
        self._attach(block_size)
        execute(_CREATE, {"rows": str(self._workshop / "rows.json")})
        execute(_FILED, {"parts": str(self._workshop / "parts.json")})
        execute(_FILL)
        if not self._vectors:
            execute(_EMBEDDED.format(dims=self._dims))
        extensions.load(self._connection, "fts")
        execute(_INDEX)
        execute("CHECKPOINT shard")
        execute("DETACH shard")
        self._attach(block_size, f"ROW_GROUP_SIZE {_ROWS_SERVED}")
        execute(_PARTS, {"hnsw_min_rows": hnsw_min_rows})
        execute(_POSTINGS)
        execute(_VECTORS)
        large = execute("SELECT number FROM shard.parts WHERE hnsw ORDER BY number").fetchall()
        if large:
            extensions.load(self._connection, "vss")
            execute("SET hnsw_enable_experimental_persistence = true")
        for (part,) in large:
            execute(_HNSW_TABLE.format(part=part))
            execute(_HNSW_INDEX.format(part=part))
        facts = {"format": FORMAT, "tokeniser": TOKENISER, "shard": self.shard}
        told = {"shards": shards_in_all, "profile": self._profile, "dims": self._dims}
        execute(_FACTS, facts | told)
        execute("CHECKPOINT shard")
        execute("DETACH shard")

    def _attach(self, *options: str) -> None:
        quoted = str(self._made).replace("'", "''")
        self._connection.execute(f"ATTACH '{quoted}' AS shard ({', '.join(options)})")


@contextlib.contextmanager
def claim(index_dir: Path, shard: int) -> Iterator[Work | None]:
    """Be the one builder of a shard; None while another process or thread is.

    The claim ends with the block, or with the process. Take it before the ledger is read, so
    that no builder publishes over a newer generation what it read before.

    Raises:
        IndexUnwritable: the folder cannot be written.
    """
    folder = shards.folder_of(index_dir, shard)
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context((folder / LOCK).open("w"))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
                return
            workshop = stack.enter_context(
                tempfile.TemporaryDirectory(
                    prefix=_WORKSHOP, dir=folder, ignore_cleanup_errors=True
                )
            )
            work = Work(index_dir, shard, Path(workshop))
        except (duckdb.Error, OSError) as error:
            raise _unwritable(index_dir, error) from error
        stack.callback(work.close)
        yield work


def row_terms(row: TermsRow) -> list[str]:
    """A document's tokens as stored with it, or made again if another tokeniser stored them."""
    return row.terms.split() if row.text is None else tokens(row.text)


def generations(folder: Path) -> list[int]:
    """The generations whose files are in a shard's folder."""
    found = (path.name.partition(".") for path in folder.iterdir())
    return sorted(int(stem) for stem, _, end in found if stem.isdecimal() and end == "duckdb")


def _point(folder: Path, name: str) -> None:
    """Let `CURRENT` name a file, in one step."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="ascii", dir=folder, prefix=_WORKSHOP, delete=False
    ) as fresh:
        fresh.write(name + "\n")
        fresh.flush()
        os.fsync(fresh.fileno())
    Path(fresh.name).chmod(0o644)
    Path(fresh.name).rename(folder / POINTER)
    _sync(folder)


def _tidy(folder: Path, current: Path) -> None:
    """Remove the generations that are not in use, and what builders that died left.

    A reader that has a removed file open goes on reading it.
    """
    for number in generations(folder):
        path = folder / f"{number:06d}.duckdb"
        if path != current:
            with contextlib.suppress(OSError):
                path.unlink()
    for path in folder.glob(f"{_WORKSHOP}*"):
        with contextlib.suppress(OSError):
            if path.is_dir() and path != current.parent:
                shutil.rmtree(path, ignore_errors=True)
            elif path.is_file():
                path.unlink()


def _unwritable(index_dir: Path, error: Exception) -> IndexUnwritable:
    why = error.strerror if isinstance(error, OSError) else str(error).splitlines()[0]
    return IndexUnwritable(f"the search index in {index_dir} cannot be written: {why}")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
