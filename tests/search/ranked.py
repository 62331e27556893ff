"""What the tests of tokens and ranking share: texts in memory, and questions to them."""

from collections.abc import Sequence

import numpy as np

from pc_store.search.ranking import postings_of, rank
from pc_store.search.tokens import query_units, tokens

NOTHING = np.zeros(0, np.int64)


def scores(texts: Sequence[str], query: str) -> dict[int, float]:
    """The hits' scores by place of the text."""
    made = [tokens(text) for text in texts]
    lengths, postings = postings_of(made, {term for terms in made for term in terms})
    ranking = rank(query_units(query), postings, lengths, NOTHING)
    hits = {int(place): float(ranking.scores[place]) for place in np.flatnonzero(ranking.scores)}
    assert len(hits) == ranking.hits
    return hits


def places(texts: Sequence[str], query: str) -> list[int]:
    """The hits' places, best first, ties in order of place."""
    hits = scores(texts, query)
    return sorted(hits, key=lambda place: (-hits[place], place))
