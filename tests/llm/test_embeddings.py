"""The packaged encoder keeps the embedder's promise for whatever text it is given."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pc_store.llm.embeddings import CACHE_MAX_TEXTS, TEXT_MAX_CHARS, PackagedEncoder

ODD_TEXTS = ["", "   \n", "😀🎉", "\u200b", "\ud800x", "\x07", "\u202e abc", "𠮷" * 40, "a\u0301"]


@pytest.fixture(scope="module")
def encoder():
    return PackagedEncoder()


def test_no_texts_give_no_rows(encoder):
    vectors = encoder.embed([])
    assert vectors.shape == (0, 512)
    assert vectors.dtype == np.float32


@pytest.mark.parametrize("text", ODD_TEXTS, ids=ascii)
def test_an_odd_text_still_has_a_unit_vector(encoder, text):
    vectors = encoder.embed([text])
    assert vectors.shape == (1, encoder.dims)
    assert np.linalg.norm(vectors[0]) == pytest.approx(1, abs=1e-5)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.text(st.characters(), max_size=60), max_size=6))
def test_every_row_is_finite_and_of_unit_length(texts):
    vectors = PackagedEncoder().embed(texts)
    assert vectors.shape == (len(texts), 512)
    assert np.isfinite(vectors).all()
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_a_text_has_the_same_vector_alone_and_in_company():
    texts = ["订单金额以整数分存储。", "Retry three times.", "订单金额以整数分存储。", "また明日"]
    together = PackagedEncoder().embed(texts)
    alone = np.vstack([PackagedEncoder().embed([text]) for text in texts])
    assert np.allclose(together, alone, atol=1e-5)
    assert (together[0] == together[2]).all()


def test_a_caller_that_writes_into_a_vector_does_not_change_the_next_answer(encoder):
    first = encoder.embed(["prices include VAT"])
    kept = first.copy()
    first[:] = 0
    assert (encoder.embed(["prices include VAT"]) == kept).all()


def test_only_the_beginning_of_a_long_text_counts(encoder):
    beginning = ("Amounts are integer cents. " * 100)[:TEXT_MAX_CHARS]
    short, long = encoder.embed([beginning, beginning + "天气" * 100_000])
    assert (short == long).all()


def test_a_translation_is_nearer_than_another_rule(encoder):
    rule, translated, other = encoder.embed(
        ["Order amounts are stored as integer cents.", "订单金额以整数分存储。", "周五不发版。"]
    )
    assert rule @ translated > rule @ other + 0.3


def test_the_cache_stays_bounded():
    encoder = PackagedEncoder()
    encoder.embed([str(number) for number in range(CACHE_MAX_TEXTS + 50)])
    assert len(encoder._known) == CACHE_MAX_TEXTS


def test_threads_that_share_an_encoder_get_equal_vectors():
    encoder = PackagedEncoder()
    texts = [f"rule number {number} stays in force" for number in range(40)]
    expected = PackagedEncoder().embed(texts)
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(encoder.embed(texts))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(np.allclose(result, expected, atol=1e-5) for result in results)
