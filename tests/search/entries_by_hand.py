"""What the tests of search share: entries made by hand, and questions to them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pc_store.ledger.terms import TermsRow
from pc_store.search import shards
from pc_store.search.lexical import Words
from pc_store.search.tokens import query_units, terms_of

AMOUNT = "amount: 订单金额以整数分存储；100 表示 1 元。"


def row(number: int, text: str, version: int = 1) -> TermsRow:
    return TermsRow(f"e{number:06d}", f"v{number:06d}.{version}", terms_of(text))


@dataclass(frozen=True)
class Answer:
    entry_id: str
    entry_version_id: str
    bm25: float
    matched_terms: tuple[str, ...]


def ask(words: Words, query: str, limit: int = 50) -> list[Answer]:
    results = words.search(query_units(query))
    return [
        Answer(hit.entry_id, hit.entry_version_id, hit.bm25, results.matched(hit))
        for hit in results.top(limit)
    ]


def of_rows(rows: Sequence[TermsRow]) -> Words:
    return Words(None, (), rows)


def built(folder: Path, rows: Sequence[TermsRow], *, scope: str = "s", revision: int = 1) -> Words:
    assert shards.build(folder, scope, revision=revision, anchor="a", rows=rows)
    shard = shards.open_newest(folder, scope)
    assert shard is not None
    assert shard.revision == revision
    return Words(shard, (), ())
