"""Reciprocal-rank fusion."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pc_store.search.fusion import Fused, fuse

EVEN = {"fts": 1.0, "vector": 1.0}
rankings = st.dictionaries(
    st.sampled_from(["fts", "vector"]),
    st.lists(st.integers(0, 20), unique=True, max_size=12),
    min_size=1,
)


def test_scores_are_sums_over_ranks():
    assert fuse({"fts": [5, 7], "vector": [7, 9]}, EVEN, key=str) == [
        Fused(7, 1 / 62 + 1 / 61, {"fts": 2, "vector": 1}),
        Fused(5, 1 / 61, {"fts": 1}),
        Fused(9, 1 / 62, {"vector": 2}),
    ]


def test_ties_are_in_order_of_their_keys():
    names = {1: "c", 2: "a", 3: "b"}
    found = fuse({"fts": [1, 2], "vector": [2, 1, 3]}, EVEN, key=names.__getitem__)
    assert [one.doc for one in found] == [2, 1, 3]


def test_a_ranking_alone_is_not_weighed():
    for weights in (EVEN, {"fts": 0.2, "vector": 5.0}):
        [first, second] = fuse({"fts": [4, 3]}, weights, key=str)
        assert (first.doc, second.doc) == (4, 3)
        assert (first.score, second.score) == pytest.approx((1 / 61, 1 / 62))


def test_weights_are_relative_and_no_score_passes_that_of_first_place_in_all():
    rankings = {"fts": [1, 2], "vector": [2, 3]}
    heavy = fuse(rankings, {"fts": 3.0, "vector": 1.0}, key=str)
    same = fuse(rankings, {"fts": 30.0, "vector": 10.0}, key=str)
    assert [(one.doc, pytest.approx(one.score)) for one in heavy] == [
        (one.doc, one.score) for one in same
    ]
    assert [one.doc for one in heavy] == [2, 1, 3]
    assert {one.doc: one.score for one in heavy}[1] == pytest.approx(1.5 / 61)


@given(rankings, st.floats(0.01, 100), st.floats(0.01, 100))
def test_every_document_is_there_once_best_first(ranked, fts, vector):
    found = fuse(ranked, {"fts": fts, "vector": vector}, key=lambda doc: f"{doc:03d}")
    assert sorted(one.doc for one in found) == sorted({doc for of in ranked.values() for doc in of})
    keys = [(-one.score, one.doc) for one in found]
    assert keys == sorted(keys)
    for one in found:
        assert 0 < one.score <= 2 / 61 + 1e-12
        assert {name: ranked[name].index(one.doc) + 1 for name in one.ranks} == one.ranks
