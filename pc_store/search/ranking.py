"""BM25 over postings, wherever they come from: an index file, the ledger's rows, or both.

The same arithmetic in the same order for every source, so that a score depends on the entries
alone and not on which of them happen to be in a file.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pc_store.search.tokens import Unit

K1 = 1.2
B = 0.75
"""Robertson & Zaragoza, The Probabilistic Relevance Framework (2009), 3.3: usual values."""

WEAK_WEIGHT = 0.25
"""A weak term's share: even several single characters should not outrank one shared pair."""

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Postings:
    """Where a term occurs: document numbers, each once, and how often in each."""

    docs: Integers
    counts: Integers


@dataclass(frozen=True)
class Ranking:
    """Scores of all documents for one query.

    Attributes:
        scores: float64[documents]; 0 where the document is no hit, above 0 where it is one.
        counted: by term, the documents in which it counted.
    """

    scores: NDArray[np.float64]
    counted: Mapping[str, Integers]

    @property
    def hits(self) -> int:
        """How many documents are hits."""
        return int(np.count_nonzero(self.scores))

    def best(self, limit: int) -> list[int]:
        """The `limit` best hits and every hit that ties with the last of them, in no order."""
        docs = np.flatnonzero(self.scores)
        if len(docs) > limit:
            scores = self.scores[docs]
            docs = docs[scores >= np.partition(scores, -limit)[-limit]]
        return [int(doc) for doc in docs]

    def matched(self, doc: int) -> tuple[str, ...]:
        """The terms that made a document a hit, strong ones first, in the order of the query."""
        return tuple(term for term, docs in self.counted.items() if (docs == doc).any())


def postings_of(
    texts: Iterable[Sequence[str]], terms: Iterable[str], *, first: int = 0
) -> tuple[Integers, dict[str, Postings]]:
    """Count terms in tokenised texts, which become documents `first`, `first` + 1, …

    Returns:
        Each text's length in tokens, and the postings of those terms that occur.
    """
    wanted = set(terms)
    lengths: list[int] = []
    found: dict[str, dict[int, int]] = {}
    for doc, words in enumerate(texts, start=first):
        lengths.append(len(words))
        if wanted.isdisjoint(words):
            continue
        for word in words:
            if word in wanted:
                counts = found.setdefault(word, {})
                counts[doc] = counts.get(doc, 0) + 1
    return np.array(lengths, dtype=np.int64), {
        term: Postings(
            np.fromiter(counts, np.int64, len(counts)),
            np.fromiter(counts.values(), np.int64, len(counts)),
        )
        for term, counts in found.items()
    }


def rank(
    units: Sequence[Unit],
    postings: Mapping[str, Postings],
    lengths: Integers,
    gone: Integers,
) -> Ranking:
    """Score every document: BM25, each distinct term once.

    idf = ln(1 + (N - df + 0.5) / (df + 0.5)), positive for every df; N, df and the average
    length are those of the documents that are not gone.

    Args:
        lengths: tokens of each document.
        gone: documents that no longer count: not in N, df, average length or hits.
    """
    alive = np.ones(len(lengths), dtype=bool)
    alive[gone] = False
    documents = int(np.count_nonzero(alive))
    total = int(lengths[alive].sum())
    scores = np.zeros(len(lengths), dtype=np.float64)
    counted: dict[str, Integers] = {}
    if not total:
        return Ranking(scores, counted)
    if len(gone):
        postings = {term: _living(found, alive) for term, found in postings.items()}
    damping = K1 * (1 - B + B * lengths / (total / documents))

    def add(term: str, weight: float, only: NDArray[np.bool_] | None = None) -> None:
        found = postings.get(term)
        if found is None or not len(found.docs):
            return
        df = len(found.docs)
        idf = math.log(1 + (documents - df + 0.5) / (df + 0.5))
        if only is not None:
            keep = only[found.docs]
            found = Postings(found.docs[keep], found.counts[keep])
        counts = found.counts
        gain = weight * idf * (K1 + 1) * counts / (counts + damping[found.docs])
        scores[found.docs] += gain
        counted[term] = found.docs

    strong = dict.fromkeys(term for unit in units for term in unit.strong)
    for term in strong:
        add(term, 1.0)
    for term, only in _weak(units, postings, len(lengths)).items():
        if term not in strong:
            add(term, WEAK_WEIGHT, only)
    return Ranking(scores, counted)


def _living(found: Postings, alive: NDArray[np.bool_]) -> Postings:
    keep = alive[found.docs]
    return found if keep.all() else Postings(found.docs[keep], found.counts[keep])


def _weak(
    units: Sequence[Unit], postings: Mapping[str, Postings], documents: int
) -> dict[str, NDArray[np.bool_]]:
    """The documents for which each weak term counts; see `tokens.Unit`."""
    counts: dict[str, NDArray[np.bool_]] = {}
    for unit in units:
        terms = [term for term in dict.fromkeys(unit.weak) if term in postings]
        if not terms or len(terms) < unit.need:
            continue
        had = np.zeros(documents, dtype=np.int64)
        for term in terms:
            had[postings[term].docs] += 1
        enough = had >= unit.need
        for term in unit.strong:
            if term in postings:
                enough[postings[term].docs] = False
        if enough.any():
            for term in terms:
                counts[term] = counts[term] | enough if term in counts else enough
    return counts
