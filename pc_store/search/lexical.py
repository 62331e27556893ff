"""A scope's words: its newest shard, plus whatever the ledger changed since that was built.

Together they are the active entries as the ledger has them now, so that a search sees every
commit, from any process, without waiting for an index: the versions that were superseded or
retired since are out of the statistics and the hits, the new ones are in. For any history and
any split between shard and tail the answer is that of a freshly built shard.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pc_store.ledger.terms import TermsRow
from pc_store.search.ranking import Postings, Ranking, postings_of, rank
from pc_store.search.shards import Shard, row_terms
from pc_store.search.tokens import Unit

SMALL_SCOPE = 500
"""A scope with fewer active entries gets no shard: reading its rows (1 ms CPU per 100) costs no
more than opening and asking one. Measured by benchmarks/bench_search.py."""
TAIL_ROWS = 500
TAIL_SHARE = 0.05
"""A shard is replaced when more entries than both of these changed since it was built."""


@dataclass(frozen=True)
class Found:
    """One hit, before the ledger is asked for its text."""

    entry_id: str
    entry_version_id: str
    bm25: float
    doc: int


class Words:
    """The active entries of a scope: those of a shard that are not gone, and the tail's rows."""

    def __init__(self, shard: Shard | None, gone: Iterable[str], rows: Sequence[TermsRow]) -> None:
        """Take a shard with what changed since its revision, or every active row and no shard.

        Raises:
            duckdb.Error: the shard turned out to be torn.
        """
        self._shard = shard
        self._rows = rows
        self._in_shard = 0 if shard is None else len(shard.lengths)
        self._gone = np.zeros(0, np.int64) if shard is None else shard.documents(gone)

    @property
    def entries(self) -> int:
        """How many entries there are."""
        return self._in_shard - len(self._gone) + len(self._rows)

    def search(self, units: Sequence[Unit]) -> "Results":
        """Score all entries.

        Raises:
            duckdb.Error: the shard turned out to be torn.
        """
        terms = dict.fromkeys(term for unit in units for term in (*unit.strong, *unit.weak))
        lengths, postings = postings_of(
            (row_terms(row) for row in self._rows), terms, first=self._in_shard
        )
        if self._shard is not None:
            lengths = np.concatenate((self._shard.lengths, lengths))
            for term, filed in self._shard.postings(terms).items():
                late = postings.get(term)
                postings[term] = filed if late is None else _joined(filed, late)
        return Results(self, rank(units, postings, lengths, self._gone))

    def ids(self, docs: Sequence[int]) -> dict[int, tuple[str, str]]:
        """(entry id, entry version id) by document number."""
        filed = [doc for doc in docs if doc < self._in_shard]
        found = self._shard.ids(filed) if self._shard is not None and filed else {}
        for doc in docs:
            if doc >= self._in_shard:
                row = self._rows[doc - self._in_shard]
                found[doc] = (row.entry_id, row.entry_version_id)
        return found


@dataclass(frozen=True)
class Results:
    """The hits of one query."""

    words: Words
    ranking: Ranking

    def top(self, limit: int) -> list[Found]:
        """At most `limit` hits, best first, ties by entry id.

        Raises:
            duckdb.Error: the shard turned out to be torn.
        """
        docs = self.ranking.best(limit)
        ids = self.words.ids(docs)
        docs.sort(key=lambda doc: (-self.ranking.scores[doc], ids[doc]))
        return [Found(*ids[doc], float(self.ranking.scores[doc]), doc) for doc in docs[:limit]]

    def matched(self, found: Found) -> tuple[str, ...]:
        """The terms that made it a hit, strong ones first, in the order of the query."""
        return self.ranking.matched(found.doc)


def outgrown(shard: Shard, changes: int) -> bool:
    """Whether so much changed since a shard was built that it is time for a new one."""
    return changes > max(TAIL_ROWS, TAIL_SHARE * len(shard.lengths))


def _joined(first: Postings, second: Postings) -> Postings:
    return Postings(
        np.concatenate((first.docs, second.docs)), np.concatenate((first.counts, second.counts))
    )
