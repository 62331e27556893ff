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

K1 = 0.9
B = 0.6
"""Lower than for long documents: entries are a few sentences, so that a word said twice and a
text twice as long say little. docs/decisions/0010 has what was measured."""

WEAK_WEIGHT = 0.5
LIGHT_WEIGHT = 0.25
"""Shares of a weak term, and of a light one; see `tokens.Unit`."""

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Postings:
    """Where a term occurs: document numbers, in order, and how often in each."""

    docs: Integers
    counts: Integers


@dataclass(frozen=True)
class Ranking:
    """Scores of all documents for one query.

    Attributes:
        scores: float64[documents]; 0 where the document is no hit, above 0 where it is one.
        counted: by term, strong ones first, the documents that have it, hits or not.
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
        """The terms a hit has, strong ones first, each in the order of the query.

        A character that is part of a longer term of the hit says nothing more and is left out.
        """
        terms = [term for term, docs in self.counted.items() if _holds(docs, doc)]
        longer = [term for term in terms if len(term) > 1]
        return tuple(
            term
            for term in terms
            if len(term) > 1 or term.isascii() or not any(term in other for other in longer)
        )


def _holds(docs: Integers, doc: int) -> bool:
    """Whether a document is among some, which are in order."""
    place = int(docs.searchsorted(doc))
    return place < len(docs) and int(docs[place]) == doc


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

    A document is a hit when it has a strong term, or enough weak terms of one unit. A hit's score
    is the sum over all terms it has, so units that are added to a query never remove a hit and
    never lower a score.

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
    if not total:
        return Ranking(scores, {})
    weights = _weights(units)
    found = {term: postings[term] for term in weights if term in postings}
    if len(gone):
        found = {term: _living(there, alive) for term, there in found.items()}
    found = {term: there for term, there in found.items() if len(there.docs)}
    damping = K1 * (1 - B + B * lengths / (total / documents))
    for term, there in found.items():
        df = len(there.docs)
        idf = math.log(1 + (documents - df + 0.5) / (df + 0.5))
        counts = there.counts
        gain = counts / (counts + damping[there.docs])
        scores[there.docs] += weights[term] * idf * (K1 + 1) * gain
    scores[~_hits(units, found, len(lengths))] = 0
    return Ranking(scores, {term: there.docs for term, there in found.items()})


def _weights(units: Sequence[Unit]) -> dict[str, float]:
    """Each distinct term's weight, the most any unit gives it; strong terms first."""
    weights: dict[str, float] = {}
    for unit in units:
        for term in unit.strong:
            weight = LIGHT_WEIGHT if term in unit.light else 1.0
            weights[term] = max(weight, weights.get(term, 0.0))
    for unit in units:
        for term in unit.weak:
            weight = LIGHT_WEIGHT if term in unit.light else WEAK_WEIGHT
            weights[term] = max(weight, weights.get(term, 0.0))
    return weights


def _hits(
    units: Sequence[Unit], found: Mapping[str, Postings], documents: int
) -> NDArray[np.bool_]:
    """The documents that have a strong term, or enough weak terms of one unit."""
    hits = np.zeros(documents, dtype=bool)
    having: dict[str, NDArray[np.bool_]] = {}
    for unit in units:
        for term in unit.strong:
            if term in found:
                hits[found[term].docs] = True
        weak = [term for term in dict.fromkeys(unit.weak) if term in found]
        if not weak or len(weak) < unit.need:
            continue
        for term in weak:
            if term not in having:
                having[term] = np.zeros(documents, dtype=bool)
                having[term][found[term].docs] = True
        if unit.need == len(weak) == 2:
            hits |= having[weak[0]] & having[weak[1]]
        else:
            hits |= sum(having[term].astype(np.int64) for term in weak) >= unit.need
    return hits


def _living(found: Postings, alive: NDArray[np.bool_]) -> Postings:
    keep = alive[found.docs]
    return found if keep.all() else Postings(found.docs[keep], found.counts[keep])
