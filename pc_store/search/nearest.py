"""The documents of a scope nearest to a query: an exact comparison, or an HNSW index's answer.

Cosines of unit vectors. Those of a shard's part are compared in numpy while the process keeps
the part's matrix in memory, by DuckDB where it would be too large to keep, and through HNSW
where the part has an index. Whatever chose a candidate, its cosine is then computed anew in double
precision, always in the same way, so that score and order do not depend on where it was.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pc_store.search import serving
from pc_store.search.ranking import Integers
from pc_store.search.shards import Part, kept

Vector = NDArray[np.float32]
Matrix = NDArray[np.float32]

COSINE_MIN = 0.30
"""Less than this is not a hit: contract, 10.3."""

_SLACK = 1e-4
"""How far a cosine in single precision may be from the exact one, generously."""
_DECIMALS = 9
_NORM_SLACK = 1e-3
_CACHED_SHARE = 0.5
"""A matrix is kept in memory if it takes no more than this share of what may be kept."""

_READ_NUMBERS = "SELECT doc FROM {{db}}.{table} {where} ORDER BY doc"
# Sorted before they are taken apart: a sort by document mixes the numbers of each.
_READ_VECTORS = """
    SELECT unnest(vector) AS value FROM (SELECT vector FROM {{db}}.{table} {where} ORDER BY doc)
"""
_READ_SOME = """
    SELECT unnest(vector) AS value FROM (
        SELECT vector FROM {{db}}.{table}
        WHERE {only} doc IN (SELECT unnest(string_split($docs, ' ')::INTEGER[])) ORDER BY doc
    )
"""
_SCAN = """
    SELECT doc, array_inner_product(vector, $query::FLOAT[{dims}]) AS cosine
    FROM {{db}}.{table} {where}
"""
# The one form of a query that DuckDB answers from the index; a condition would be applied to
# what the index gave, and leave almost nothing.
_ASK_INDEX = """
    SELECT doc FROM {{db}}.{table}
    ORDER BY array_negative_inner_product(vector, $query::FLOAT[{dims}]) LIMIT {limit}
"""


@dataclass(frozen=True)
class Near:
    """A document and the cosine of its vector with the query's."""

    doc: int
    cosine: float


def usable(vector: Vector, dims: int) -> bool:
    """Whether a stored vector is what it should be: finite, of unit length, with `dims` numbers."""
    if vector.shape != (dims,):
        return False
    norm = float(np.linalg.norm(vector))
    return abs(norm - 1) <= _NORM_SLACK  # false for NaN too


class Vectors:
    """What can be compared of a scope's documents: a part's vectors, and late ones."""

    def __init__(
        self, part: Part | None, gone: Integers, late: Mapping[int, Vector], *, profile: str
    ) -> None:
        """Take a part with the documents that are gone from it, and late vectors by document.

        Args:
            late: vectors of documents that the part lacks or has no vector of, by number; all
                usable.
            profile: the space of the query; a part of another has no vectors to compare.
        """
        usable_part = part is not None and part.shard.profile == profile and part.covered.vectors
        self._part = part if usable_part else None
        self._gone = gone
        self._docs = np.fromiter(late, dtype=np.int64, count=len(late))
        self._late = np.array(list(late.values()), dtype=np.float32) if late else None

    @property
    def documents(self) -> int:
        """How many documents can be compared. Raises `shards.Torn`."""
        return len(self._living()) + len(self._docs)

    def nearest(self, query: Vector, *, limit: int, least: float = COSINE_MIN) -> list[Near]:
        """At most `limit` documents whose cosine is at least `least`, nearest first.

        All that tie with the last of them are returned too, in no particular order.

        Args:
            query: float32[dims], unit length.

        Raises:
            shards.Torn: the shard turned out to be torn.
        """
        found = self._of_part(query, limit, least - _SLACK)
        if self._late is not None:
            found |= _best(
                self._docs, self._late, _compared(self._late, query), limit, least - _SLACK
            )
        exact = [
            Near(doc, cosine)
            for doc, cosine in zip(found, _cosines(found.values(), query), strict=True)
            if cosine >= least
        ]
        exact.sort(key=lambda one: -one.cosine)
        if len(exact) > limit:
            last = exact[limit - 1].cosine
            exact = [one for one in exact if one.cosine >= last]
        return exact

    def _living(self) -> Integers:
        if self._part is None:
            return np.zeros(0, dtype=np.int64)
        docs = numbers(self._part)
        return docs[~np.isin(docs, self._gone)] if len(self._gone) else docs

    def _of_part(self, query: Vector, limit: int, least: float) -> dict[int, Vector]:
        part = self._part
        if part is None:
            return {}
        if part.covered.hnsw and serving.with_vss():
            return self._by_index(part, query, limit, least)
        room = kept.max_bytes * _CACHED_SHARE
        if part.covered.vectors * part.shard.dims * 4 <= room:
            docs, matrix = numbers(part), _matrix(part)
            cosines = _compared(matrix, query)
            if len(self._gone):
                cosines[np.isin(docs, self._gone)] = -2
            return _best(docs, matrix, cosines, limit, least)
        return self._by_scan(part, query, limit, least)

    def _by_scan(self, part: Part, query: Vector, limit: int, least: float) -> dict[int, Vector]:
        """Compare all of the part's vectors in DuckDB."""
        statement = _SCAN.format(dims=part.shard.dims, **_place(part))
        found = part.shard.file.columns(statement, _asked(part) | {"query": _text(query)})
        docs = np.asarray(found["doc"], dtype=np.int64)
        cosines = np.asarray(found["cosine"], dtype=np.float32)
        cosines[np.isin(docs, self._gone)] = -2
        return _vectors_of(part, docs[_chosen(cosines, limit, least)])

    def _by_index(self, part: Part, query: Vector, limit: int, least: float) -> dict[int, Vector]:
        """Ask the HNSW index for more and more, until `limit` of its answer are not gone."""
        table, dims = _place(part)["table"], part.shard.dims
        wanted = 2 * limit
        while wanted < part.covered.vectors:
            statement = _ASK_INDEX.format(table=table, dims=dims, limit=wanted)
            rows = part.shard.file.rows(statement, {"query": _text(query)})
            docs = np.array([doc for (doc,) in rows], dtype=np.int64)
            docs = docs[~np.isin(docs, self._gone)]
            if len(docs) >= limit:
                found = _vectors_of(part, docs)
                matrix = np.array(list(found.values()))
                cosines = _compared(matrix, query)
                return _best(np.array(list(found)), matrix, cosines, limit, least)
            wanted *= 2
        return self._by_scan(part, query, limit, least)


def numbers(part: Part) -> Integers:
    """The documents of a part that have a vector, in order. Raises `shards.Torn`."""

    def read() -> Integers:
        found = part.shard.file.columns(_READ_NUMBERS.format(**_place(part)), _asked(part))
        return np.asarray(found["doc"], dtype=np.int64)

    return kept.get(part.key("numbers"), read, lambda docs: docs.nbytes)


def _matrix(part: Part) -> Matrix:
    """The part's vectors, float32[vectors, dims], in the order of `numbers`."""

    def read() -> Matrix:
        found = part.shard.file.columns(_READ_VECTORS.format(**_place(part)), _asked(part))
        return np.asarray(found["value"], dtype=np.float32).reshape(-1, part.shard.dims)

    return kept.get(part.key("matrix"), read, lambda matrix: matrix.nbytes)


def _vectors_of(part: Part, docs: Integers) -> dict[int, Vector]:
    """The vectors of some documents, all of which have one."""
    if not len(docs):
        return {}
    only = "" if part.covered.hnsw else "part = $part AND"
    statement = _READ_SOME.format(table=_place(part)["table"], only=only)
    ordered = np.unique(docs)
    asked = _asked(part) | {"docs": " ".join(map(str, ordered))}
    found = part.shard.file.columns(statement, asked)
    matrix = np.asarray(found["value"], dtype=np.float32).reshape(len(ordered), -1)
    return dict(zip(ordered.tolist(), matrix, strict=True))


def _place(part: Part) -> dict[str, str]:
    """Where a part's vectors are: in the table of all, or in one of their own."""
    if part.covered.hnsw:
        return {"table": f"hnsw_{part.covered.number}", "where": ""}
    return {"table": "vectors", "where": "WHERE part = $part"}


def _asked(part: Part) -> dict[str, object]:
    return {} if part.covered.hnsw else {"part": part.covered.number}


def _compared(matrix: Matrix, query: Vector) -> Vector:
    """The cosine of each row, without BLAS: waking its threads costs more than comparing 10,000
    rows does, 8 ms of CPU on a busy machine."""
    cosines: Vector = np.einsum("ij,j->i", matrix, query)
    return cosines


def _best(
    docs: Integers, matrix: Matrix, cosines: Vector, limit: int, least: float
) -> dict[int, Vector]:
    return {int(docs[place]): matrix[place] for place in _chosen(cosines, limit, least)}


def _chosen(cosines: Vector, limit: int, least: float) -> Integers:
    """The places of the `limit` greatest, and of all that may be as great as the last of them."""
    if len(cosines) > limit:
        least = max(least, float(np.partition(cosines, -limit)[-limit]) - _SLACK)
    return np.flatnonzero(cosines >= least)


def _cosines(vectors: Collection[Vector], query: Vector) -> list[float]:
    """The same for the same two vectors, wherever they come from and whatever is beside them."""
    if not vectors:
        return []
    matrix = np.array(list(vectors), dtype=np.float64)
    products = (matrix * query.astype(np.float64)).sum(axis=1)
    return [round(float(product), _DECIMALS) for product in products]


def _text(vector: Sequence[float] | Vector) -> str:
    """How DuckDB takes a vector as a parameter: a list of numbers costs 0.6 s."""
    return "[" + ",".join(repr(float(number)) for number in vector) + "]"
