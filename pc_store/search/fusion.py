"""Several rankings of the same documents made one: reciprocal-rank fusion.

Cormack, Clarke & Büttcher, Reciprocal Rank Fusion outperforms Condorcet and individual Rank
Learning Methods, SIGIR 2009.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

RANK_CONSTANT = 60
DEPTH = 200
"""How far down each ranking counts: four times the most hits that can be asked for. The same
for every query, so that fewer hits are always the beginning of more."""


@dataclass(frozen=True)
class Fused:
    """A document with its rank in each ranking that has it, by name, and the score of these."""

    doc: int
    score: float
    ranks: Mapping[str, int]


def fuse(
    rankings: Mapping[str, Sequence[int]],
    weights: Mapping[str, float],
    *,
    key: Callable[[int], bytes | str],
) -> list[Fused]:
    """All documents of some rankings, best first, ties in order of their keys.

    score = sum of weight / (60 + rank), with ranks from 1. Weights are relative: they are scaled
    to a mean of 1, so that a ranking that is alone has weight 1 whatever is configured.
    """
    ranks: dict[int, dict[str, int]] = {}
    for name, docs in rankings.items():
        for rank, doc in enumerate(docs, start=1):
            ranks.setdefault(doc, {})[name] = rank
    scale = len(rankings) / sum(weights[name] for name in rankings)
    fused = [
        Fused(doc, scale * sum(weights[name] / (RANK_CONSTANT + at) for name, at in of.items()), of)
        for doc, of in ranks.items()
    ]
    return sorted(fused, key=lambda one: (-one.score, key(one.doc)))
