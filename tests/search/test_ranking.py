"""The order of hits, and what more words may change: nothing but to add."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ranked import NOTHING, scores

from pc_store.search.ranking import LIGHT_WEIGHT, WEAK_WEIGHT, Postings, postings_of, rank
from pc_store.search.tokens import Unit, query_units, tokens


def test_a_hit_has_a_strong_term_or_both_characters_of_a_pair():
    texts = ["存储", "储备与存款", "存款", "储物", "仓库"]
    found = scores(texts, "存储")
    assert sorted(found, key=lambda place: -found[place]) == [0, 1]
    assert set(scores(texts, "存")) == {0, 1, 2}


def test_single_characters_add_to_the_score_of_a_hit_but_make_none():
    texts = ["金额 取整", "金额 取数", "整体 方案", "其他"]
    found = scores(texts, "金额取整")
    assert found.keys() == {0, 1}
    assert found[0] > found[1]


def test_numbers_of_a_compound_make_a_hit_when_half_of_them_are_there():
    texts = ["v1.4.1", "4 and 1", "4", "v1"]
    assert scores(texts, "v1.4.1").keys() == {0, 1, 3}
    assert scores(texts, "don't").keys() == set()


def test_terms_weigh_what_the_heaviest_unit_gives_them():
    postings = {term: Postings(np.array([0]), np.array([1])) for term in "abc"}
    lengths = np.array([3, 3])

    def score(*units: Unit) -> float:
        return float(rank(units, postings, lengths, NOTHING).scores[0])

    one = score(Unit(("a",)))
    assert score(Unit(("a",), (), ("a",))) == pytest.approx(LIGHT_WEIGHT * one)
    assert score(Unit(("a",), ("b",))) == pytest.approx((1 + WEAK_WEIGHT) * one)
    assert score(Unit(("a",), ("b",), ("b",))) == pytest.approx((1 + LIGHT_WEIGHT) * one)
    assert score(Unit(("a",), ("b",)), Unit(("b",))) == pytest.approx(2 * one)
    assert score(Unit((), ("a", "b"))) == pytest.approx(2 * WEAK_WEIGHT * one)
    assert score(Unit((), ("a", "d"))) == 0


def test_documents_that_are_gone_count_nowhere():
    texts = ["amount", "amount stored", "stored amounts", "other"]
    kept = [texts[0], texts[2], texts[3]]
    made = [tokens(text) for text in texts]
    lengths, postings = postings_of(made, {"amount", "amounts", "stored", "store"})
    units = query_units("amounts stored")
    ranking = rank(units, postings, lengths, np.array([1]))
    expected = scores(kept, "amounts stored")
    assert ranking.scores.tolist() == pytest.approx([expected[0], 0, expected[1], 0])
    assert rank(units, postings, lengths, np.arange(4)).hits == 0


def test_the_best_are_all_that_tie_with_the_last_of_them():
    made = [["a"], ["a", "a"], ["a"], ["b"]]
    lengths, postings = postings_of(made, {"a"})
    ranking = rank([Unit(("a",))], postings, lengths, NOTHING)
    assert ranking.best(1) == [1]
    assert sorted(ranking.best(2)) == sorted(ranking.best(9)) == [0, 1, 2]


def test_matched_terms_leave_out_characters_of_a_pair_that_matched():
    made = [tokens("存储金额"), tokens("储备与存款"), tokens("v1.4.1")]
    lengths, postings = postings_of(made, {term for terms in made for term in terms})
    ranking = rank(query_units("存储 v1.4.1"), postings, lengths, NOTHING)
    assert [ranking.matched(place) for place in range(3)] == [
        ("存储",),
        ("存", "储"),
        ("v1.4.1", "v1", "4", "1"),
    ]


ENGLISH = ["amount", "amounts", "the", "how is", "not", "stored", "what", "don't", "just", "to be"]
CHINESE = ["订单", "金额", "整数分", "存储", "数据库", "汇率精度", "许可", "以后", "处理"]
FUNCTION = ["怎么", "如何", "应该", "的", "是什么", "为什么", "还是", "可以", "多久"]
MARKS = [*"`\"“”「」『』‘’'", "“", "”", "。", "？", "😀", "👩‍💻", "​"]
CODE = ["v1.4.1", "foo.bar_baz", "C++", "--dry-run", "/v1/memory/flush", "a/b/c", "x=1;", "N+1"]
OTHER = ["データ", "の", "値", "인덱스", "ａｍｏｕｎｔ", "金額", "為什麼", "ไทย", "é", "1", "整"]
piece = st.sampled_from([*ENGLISH, *CHINESE, *FUNCTION, *MARKS, *CODE, *OTHER])
text = st.lists(st.tuples(piece, st.sampled_from(["", " "])), max_size=9).map(
    lambda pieces: "".join(part + blank for part, blank in pieces)
)
anything = text | st.text(st.characters(exclude_categories=["Cs"]), max_size=15)


@settings(max_examples=400, deadline=None)
@given(st.lists(anything, min_size=1, max_size=8), anything, anything)
@example(["c 'to", "be"], "c+'to", "be'")
@example(["to be"], '‘ "to be"', "amount’")
@example(["to be"], "“ 「to be」", "x”")
def test_appended_words_never_remove_a_hit_whatever_marks_they_hold(texts, query, more):
    texts = [*texts, query, more]
    before, after = scores(texts, query), scores(texts, f"{query} {more}")
    assert before.keys() <= after.keys()


@settings(max_examples=300, deadline=None)
@given(st.lists(text, min_size=1, max_size=8), text, text)
def test_appended_words_never_lower_a_score(texts, query, more):
    before, after = scores(texts, query), scores(texts, f"{query} {more}")
    assert all(after.get(place, 0) >= score - 1e-9 for place, score in before.items())


chinese = st.lists(st.sampled_from([*CHINESE, *FUNCTION]), min_size=1, max_size=4).map("".join)


@settings(max_examples=400, deadline=None)
@given(st.lists(text | chinese, min_size=1, max_size=8), chinese, chinese)
def test_chinese_words_that_follow_without_a_blank_never_remove_a_hit(texts, query, more):
    assert scores(texts, query).keys() <= scores(texts, query + more).keys()
