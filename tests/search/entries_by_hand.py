"""What the tests of search share: entries made by hand, shards of them, and questions to both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pc_store.domain.text import digest
from pc_store.ledger.terms import TermsRow
from pc_store.search import building, shards
from pc_store.search.building import Built, Vector
from pc_store.search.lexical import Words
from pc_store.search.shards import Part
from pc_store.search.tokens import query_units, terms_of

AMOUNT = "amount: 订单金额以整数分存储；100 表示 1 元。"
PROFILE = "test:made-up:8:unit"


def row(number: int, text: str, version: int = 1) -> TermsRow:
    return TermsRow(f"e{number:06d}", f"v{number:06d}.{version}", terms_of(text), digest(text))


@dataclass(frozen=True)
class Answer:
    ref: str
    version: str
    bm25: float
    matched_terms: tuple[str, ...]


def ask(words: Words, query: str, limit: int = 50) -> list[Answer]:
    results = words.search(query_units(query))
    return [
        Answer(hit.ref, hit.version, hit.bm25, results.matched(hit.doc))
        for hit in results.top(limit)
    ]


def of_rows(rows: Sequence[TermsRow]) -> Words:
    return Words(None, (), rows)


def publish(
    folder: Path,
    scopes: Mapping[str, Sequence[TermsRow]],
    *,
    shard: int = 0,
    revision: int = 1,
    vectors: Mapping[str, Vector] | None = None,
    hnsw_min_rows: int = 1_000_000,
    profile: str = PROFILE,
    dims: int = 8,
) -> Built | None:
    """Build a shard of some scopes' rows; None while another builder is at it."""
    with building.claim(folder, shard) as work:
        if work is None:
            return None
        work.embed_with(profile, dims)
        for scope, rows in scopes.items():
            work.begin(scope, "memory", revision=revision, anchor="a", purges=0)
            work.add(sorted(rows, key=lambda one: one.ref), vectors or {})
        return work.publish(shards_in_all=1, hnsw_min_rows=hnsw_min_rows)


def part_of(folder: Path, scope: str = "s") -> Part:
    shard = shards.open_current(folder, 0, 1)
    assert shard is not None
    part = shard.part(scope, "memory")
    assert part is not None
    return part


def built(folder: Path, rows: Sequence[TermsRow], *, scope: str = "s", revision: int = 1) -> Words:
    assert publish(folder, {scope: rows}, revision=revision)
    part = part_of(folder, scope)
    assert part.covered.revision == revision
    return Words(part, (), ())
