"""A scope's words: its part of a shard, plus whatever the ledger changed since that was built.

Together they are the documents as the ledger has them now, so that a search sees every commit,
from any process, without waiting for an index: what was superseded or withdrawn since is out of
the statistics and the hits, what is new is in. For any history and any split between shard and
tail the answer is that of a freshly built shard.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pc_store.ledger.terms import TermsRow
from pc_store.search.building import row_terms
from pc_store.search.ranking import Integers, Postings, Ranking, postings_of, rank
from pc_store.search.shards import Docs, Part
from pc_store.search.tokens import Unit

SMALL_SCOPE = 500
"""A scope with fewer documents needs no shard: reading its rows (1 ms CPU per 100) costs no more
than a few ms. Measured by benchmarks/bench_search.py."""
TAIL_ROWS = 500
TAIL_SHARE = 0.05
"""A shard is outgrown when more of a scope's documents than both of these changed."""


@dataclass(frozen=True)
class Found:
    """One hit, before the ledger is asked for its text."""

    ref: str
    version: str
    bm25: float
    doc: int


class Words:
    """The documents of a scope: those of a part that are not gone, and the tail's rows.

    Documents are numbered: the part's as in the part, the rows after them.
    """

    def __init__(
        self, part: Part | None, gone: Iterable[tuple[str, str]], rows: Sequence[TermsRow]
    ) -> None:
        """Take a part with what changed since, or every document as a row and no part.

        Args:
            gone: (ref, version) of what is in the part and no longer current.

        Raises:
            shards.Torn: the shard turned out to be torn.
        """
        self._part = part
        self._docs: Docs | None = part.docs if part is not None else None
        self.rows = rows
        self.in_part = 0 if self._docs is None else len(self._docs.lengths)
        self.gone: Integers = np.zeros(0, np.int64)
        if self._docs is not None:
            self.gone = self._docs.find(gone)

    @property
    def entries(self) -> int:
        """How many documents there are."""
        return self.in_part - len(self.gone) + len(self.rows)

    def search(self, units: Sequence[Unit]) -> "Results":
        """Score all documents.

        Raises:
            shards.Torn: the shard turned out to be torn.
        """
        terms = dict.fromkeys(term for unit in units for term in (*unit.strong, *unit.weak))
        lengths, postings = postings_of(
            (row_terms(row) for row in self.rows), terms, first=self.in_part
        )
        if self._part is not None and self._docs is not None:
            lengths = np.concatenate((self._docs.lengths, lengths))
            for term, filed in self._part.postings(terms).items():
                late = postings.get(term)
                postings[term] = filed if late is None else _joined(filed, late)
        return Results(self, rank(units, postings, lengths, self.gone))

    def id_of(self, doc: int) -> tuple[str, str]:
        """(ref, version) of a document."""
        if doc >= self.in_part:
            row = self.rows[doc - self.in_part]
            return row.ref, row.version
        assert self._docs is not None
        return self._docs.id_of(doc)


@dataclass(frozen=True)
class Results:
    """The hits of one query."""

    words: Words
    ranking: Ranking

    def top(self, limit: int) -> list[Found]:
        """At most `limit` hits, best first, ties in order of their refs."""
        scores = self.ranking.scores
        found = [
            Found(*self.words.id_of(doc), float(scores[doc]), doc)
            for doc in self.ranking.best(limit)
        ]
        return sorted(found, key=lambda one: (-one.bm25, one.ref))[:limit]

    def matched(self, doc: int) -> tuple[str, ...]:
        """The terms that made it a hit, strong ones first, in the order of the query."""
        return self.ranking.matched(doc)


def outgrown(documents: int, changes: int) -> bool:
    """Whether so much of a part of that many documents changed that it is time for a new one."""
    return changes > max(TAIL_ROWS, TAIL_SHARE * documents)


def _joined(first: Postings, second: Postings) -> Postings:
    return Postings(
        np.concatenate((first.docs, second.docs)), np.concatenate((first.counts, second.counts))
    )
