"""Vectors: exactly the nearest, whichever way they are looked for, and nearly all by HNSW."""

import numpy as np
import pytest
from entries_by_hand import PROFILE, part_of, publish, row
from hypothesis import given, settings
from hypothesis import strategies as st

from pc_store.search import nearest, serving, shards
from pc_store.search.nearest import Vectors, usable

DIMS = 8
NONE = np.zeros(0, np.int64)


def unit(values) -> np.ndarray:
    vector = np.asarray(values, dtype=np.float64)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def unit_vectors(count: int, dims: int = DIMS, seed: int = 1) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [unit(one) for one in generator.standard_normal((count, dims))]


def exact(vectors, query, limit, least=-1.0, gone=()):
    """Brute force in double precision: (document, cosine), nearest first, ties by number."""
    scored = [
        (doc, round(float(np.sum(vector.astype(np.float64) * query.astype(np.float64))), 9))
        for doc, vector in vectors.items()
        if doc not in gone
    ]
    ordered = sorted(scored, key=lambda one: (-one[1], one[0]))
    return [one for one in ordered if one[1] >= least][:limit]


def found(vectors: Vectors, query, limit, least=-1.0):
    near = vectors.nearest(query, limit=limit, least=least)
    ordered = sorted(near, key=lambda one: (-one.cosine, one.doc))
    return [(one.doc, one.cosine) for one in ordered][:limit]


def filed(folder, vectors, **more):
    """A part whose document n has vector n; None: it has none."""
    rows = [row(n, f"text {n}") for n in range(len(vectors))]
    by_digest = {
        one.text_digest: vector
        for one, vector in zip(rows, vectors, strict=True)
        if vector is not None
    }
    assert publish(folder, {"a": [row(9, "other")], "s": rows}, vectors=by_digest, **more)
    return part_of(folder)


@pytest.fixture(params=["matrix", "scan"])
def way(request, monkeypatch):
    """Both exact ways: numpy while the matrix may be kept, DuckDB where it may not."""
    if request.param == "scan":
        monkeypatch.setattr(nearest, "_CACHED_SHARE", 0.0)
    return request.param


def test_nearest_is_what_brute_force_finds(tmp_path, way):
    vectors = unit_vectors(300)
    vectors[7] = vectors[200] = vectors[201] = vectors[3]  # ties
    part = filed(tmp_path, vectors)
    known = dict(enumerate(vectors))
    late = {300 + n: vector for n, vector in enumerate(unit_vectors(20, seed=2))}
    gone = {3, 50, 51, 299}
    mixed = Vectors(part, np.array(sorted(gone)), late, profile=PROFILE)
    assert mixed.documents == 300 - 4 + 20
    for query in [vectors[3], *unit_vectors(30, seed=3)]:
        for limit in (1, 3, 10, 400):
            wanted = exact(known | late, query, limit, 0.3, gone)
            assert found(mixed, query, limit, 0.3) == wanted


@pytest.mark.parametrize("dims", [512, 1_536])
def test_every_number_of_every_vector_is_in_its_place(tmp_path, dims, way):
    vectors = unit_vectors(300, dims)
    part = filed(tmp_path, vectors, dims=dims, profile=f"test:large:{dims}:unit")
    assert np.array_equal(nearest._matrix(part), np.array(vectors))
    some = np.array([0, 7, 299])
    assert all(
        np.array_equal(vector, vectors[doc])
        for doc, vector in nearest._vectors_of(part, some).items()
    )


def test_documents_without_a_vector_are_passed_over(tmp_path, way):
    vectors = unit_vectors(40)
    holed = [None if n % 3 == 0 else vector for n, vector in enumerate(vectors)]
    part = filed(tmp_path, holed)
    assert part.covered.vectors == 26
    have = {n: vector for n, vector in enumerate(vectors) if n % 3}
    query = vectors[0]
    assert found(Vectors(part, NONE, {}, profile=PROFILE), query, 9) == exact(have, query, 9)
    late = {0: vectors[0], 3: vectors[3]}
    both = Vectors(part, NONE, late, profile=PROFILE)
    assert found(both, query, 9) == exact(have | late, query, 9)


def test_vectors_of_another_space_are_not_compared(tmp_path):
    part = filed(tmp_path, unit_vectors(10))
    other = Vectors(part, NONE, {10: unit_vectors(1)[0]}, profile="another:space:8:unit")
    assert other.documents == 1
    assert [one.doc for one in other.nearest(unit_vectors(1)[0], limit=5)] == [10]


def test_nothing_to_compare_finds_nothing(tmp_path):
    part = filed(tmp_path, [None, None])
    for vectors in (
        Vectors(part, NONE, {}, profile=PROFILE),
        Vectors(None, NONE, {}, profile=PROFILE),
    ):
        assert vectors.documents == 0
        assert vectors.nearest(unit_vectors(1)[0], limit=5) == []


@pytest.mark.parametrize(
    "bad",
    [
        np.zeros(DIMS, np.float32),
        np.full(DIMS, np.nan, np.float32),
        np.full(DIMS, np.inf, np.float32),
        np.ones(DIMS, np.float32),
        unit_vectors(1, DIMS + 1)[0],
        unit_vectors(1, DIMS - 1)[0],
        np.zeros(0, np.float32),
    ],
)
def test_a_vector_that_is_not_what_it_should_be_is_left_out_of_a_shard(tmp_path, bad):
    assert not usable(bad, DIMS)
    vectors = unit_vectors(3)
    part = filed(tmp_path, [vectors[0], bad, vectors[2]])
    assert part.covered.vectors == 2
    assert list(nearest.numbers(part)) == [0, 2]


def test_usable_allows_for_single_precision():
    assert all(usable(vector, 512) for vector in unit_vectors(100, 512))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3).filter(any), max_size=12),
    st.lists(st.integers(-3, 3), min_size=3, max_size=3).filter(any),
    st.integers(1, 12),
)
def test_ties_with_the_last_are_all_returned(directions, direction, limit):
    vectors = {n: unit(one) for n, one in enumerate(directions)}
    query = unit(direction)
    compared = Vectors(None, NONE, vectors, profile=PROFILE)
    near = compared.nearest(query, limit=limit, least=0.3)
    expected = exact(vectors, query, len(vectors), 0.3)
    last = expected[min(limit, len(expected)) - 1][1] if expected else 0
    assert {(one.doc, one.cosine) for one in near} == {one for one in expected if one[1] >= last}


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    vectors = unit_vectors(2_000, 32, seed=4)
    part = filed(
        tmp_path_factory.mktemp("hnsw"), vectors, dims=32, hnsw_min_rows=1_000, profile=PROFILE
    )
    assert part.covered.hnsw
    return part, vectors


def recall(part, vectors, gone, limit=10, late=()):
    known = dict(enumerate(vectors)) | {len(vectors) + n: one for n, one in enumerate(late)}
    mixed = Vectors(
        part,
        np.array(sorted(gone), dtype=np.int64),
        {len(vectors) + n: one for n, one in enumerate(late)},
        profile=PROFILE,
    )
    right = total = 0
    for query in unit_vectors(50, 32, seed=5):
        wanted = exact(known, query, limit, gone=gone)
        got = found(mixed, query, limit)
        assert len(got) == limit
        assert not {doc for doc, _ in got} & gone
        right_cosines = dict(exact(known, query, len(known)))
        assert all(cosine == right_cosines[doc] for doc, cosine in got)
        right += len(set(got) & set(wanted))
        total += limit
    return right / total


def test_hnsw_finds_nearly_all_and_scores_exactly(indexed):
    assert recall(*indexed, gone=set()) >= 0.95


@pytest.mark.slow
def test_hnsw_fills_the_answer_when_most_of_what_is_near_is_gone(indexed):
    part, vectors = indexed
    gone = set(range(0, 2_000)) - set(range(0, 2_000, 20))
    assert recall(part, vectors, gone=gone) >= 0.95


@pytest.mark.slow
def test_hnsw_is_united_with_late_vectors(indexed):
    part, vectors = indexed
    assert recall(part, vectors, gone={1, 2}, late=unit_vectors(200, 32, seed=6)) >= 0.95


@pytest.mark.slow
def test_without_its_extension_an_hnsw_table_is_compared_exactly(indexed, monkeypatch):
    part, vectors = indexed
    monkeypatch.setattr(serving, "with_vss", lambda: False)
    monkeypatch.setattr(nearest, "_CACHED_SHARE", 0.0)
    assert recall(part, vectors, gone={5}) == 1.0


@pytest.mark.slow
def test_hnsw_is_read_after_every_file_was_closed(indexed):
    part, vectors = indexed
    shards.close_all()
    again = shards.Shard(part.shard.path).part("s", "memory")
    assert again is not None
    assert recall(again, vectors, gone=set()) >= 0.95
