"""How much of what is nearest an HNSW index finds: compared with all vectors, one by one."""

import random

import numpy as np

from pc_store.search.nearest import Vector, Vectors, numbers
from pc_store.search.ranking import Integers
from pc_store.search.shards import Part

_TIE = 1e-6
_READ = "SELECT vector FROM {{db}}.hnsw_{part} WHERE doc = $doc"
# Without ORDER BY and LIMIT, so that DuckDB cannot answer from the index.
_COMPARE = """
    SELECT doc, array_inner_product(vector, $query::FLOAT[{dims}]) AS cosine
    FROM {{db}}.hnsw_{part}
"""


def recall(part: Part, *, queries: int, limit: int = 10) -> float:
    """The share of the `limit` nearest documents that the index finds, over some queries.

    A query lies between two random documents, as a question lies near several. Which ones are
    taken depends on the file alone, so that a result can be had again. A document as near as
    the last of the nearest counts as one of them.

    Args:
        part: of more than one document, with an HNSW index.

    Returns:
        0 to 1.

    Raises:
        shards.Torn: the file turned out to be torn.
    """
    chosen = random.Random(f"{part.shard.path.name} {part.covered.number}")  # noqa: S311 - no secret
    docs = numbers(part)
    profile = part.shard.profile
    assert profile is not None
    searched = Vectors(part, np.zeros(0, dtype=np.int64), {}, profile=profile)
    found = wanted = 0
    for _ in range(queries):
        query = _between(part, *chosen.sample(range(len(docs)), 2), docs=docs)
        cosines = _all_cosines(part, query)
        most = min(limit, len(cosines))
        least = np.sort(np.fromiter(cosines.values(), np.float32))[-most] - _TIE
        near = searched.nearest(query, limit=limit, least=-1.0)[:most]
        found += sum(cosines[one.doc] >= least for one in near)
        wanted += most
    return found / wanted


def _between(part: Part, first: int, second: int, *, docs: Integers) -> Vector:
    summed = _vector(part, int(docs[first])) + _vector(part, int(docs[second]))
    unit: Vector = (summed / max(float(np.linalg.norm(summed)), 1e-9)).astype(np.float32)
    return unit


def _vector(part: Part, doc: int) -> Vector:
    statement = _READ.format(part=part.covered.number)
    [(vector,)] = part.shard.file.rows(statement, {"doc": doc})
    return np.array(vector, dtype=np.float32)


def _all_cosines(part: Part, query: Vector) -> dict[int, float]:
    statement = _COMPARE.format(part=part.covered.number, dims=part.shard.dims)
    asked = "[" + ",".join(repr(float(number)) for number in query) + "]"
    found = part.shard.file.columns(statement, {"query": asked})
    return dict(zip(found["doc"].tolist(), found["cosine"].tolist(), strict=True))
