"""Tokens: what is indexed is what is asked for."""

import hashlib
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pc_store.search.tokens import (
    QUERY_TERMS_MAX,
    TOKEN_MAX_CHARS,
    Unit,
    _simplified,
    is_east_asian,
    query_terms,
    query_units,
    terms_of,
    tokens,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("amount", ["amount"]),
        ("AMOUNT", ["amount"]),
        ("ａｍｏｕｎｔ", ["amount"]),
        ("amounts", ["amounts", "amount"]),
        ("the user’s", ["the", "user"]),
        ("don't", ["don't", "don", "t"]),
        ("v1.4.1", ["v1.4.1", "v1", "4", "1"]),
        ("foo.bar_baz", ["foo.bar_baz", "foo", "bar_baz", "bar", "baz"]),
        ("__init__", ["__init__", "init"]),
        ("C++, C#", ["c++", "c", "c#", "c"]),
        ("--dry-run", ["dry-run", "dry", "dri", "run"]),
        ("/v1/log/get", ["v1/log/get", "v1", "log", "get"]),
        ("a.b/c.d", ["a.b/c.d", "a.b", "c.d", "a", "b", "c", "d"]),
        ("well. next/", ["well", "next"]),
        ("整", ["整"]),
        ("整数分", ["整数", "数分", "整", "数", "分"]),
        ("金額", ["金额", "金", "额"]),
        ("amount金额", ["amount", "金额", "金", "额"]),
        ("金额，分", ["金额", "金", "额", "分"]),
        ("データ", ["デー", "ータ"]),
        ("ﾃﾞｰﾀ", ["デー", "ータ"]),
        ("東京タワー", ["东京", "东", "京", "タワ", "ワー"]),
        ("값", ["값"]),
        ("인덱스", ["인덱", "덱스"]),
        ("soft\u00adware zero\u200bwidth", ["software", "softwar", "zerowidth"]),
        ("①", ["1"]),
        ("straße", ["strasse", "strass"]),
    ],
)
def test_tokens_of(text, expected):
    assert sorted(tokens(text)) == sorted(expected)


@pytest.mark.parametrize("text", ["", "   ", "😀🎉", "-- / . + # '", "。，；", "___", "\x00"])
def test_what_has_no_letters_has_no_tokens(text):
    assert tokens(text) == []
    assert query_units(text) == ()


@given(st.text())
def test_tokens_join_to_a_string_that_splits_into_them_again(text):
    made = tokens(text)
    assert terms_of(text).split() == made == terms_of(text).split(" " if made else None)


@given(st.text(), st.text())
def test_a_line_of_its_own_has_the_same_tokens_wherever_it_stands(one, other):
    assert tokens(f"{one}\n{other}") == tokens(one) + tokens(other)


def test_long_words_are_cut_and_long_compounds_found_by_part():
    blob = "x" * 5_000
    assert tokens(blob) == [blob[:TOKEN_MAX_CHARS]]
    assert set(tokens(f"{blob}/ab")) == {blob[:TOKEN_MAX_CHARS], "ab"}


@pytest.mark.parametrize("piece", ["a.", "a+", "a#+", "'s", "a-", "/", "a_", "額", "ー"])
def test_no_text_makes_the_tokeniser_slow(piece):
    assert len(tokens(piece * 50_000)) <= 50_000 * 4


@pytest.mark.parametrize("piece", ["“", "‘", "「a", "'", "'a ", '"', "`of", "的", "许可以后", "+'"])
def test_no_query_makes_its_units_slow(piece):
    began = time.process_time()
    query_units(piece * (50_000 // len(piece)))
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("how is the amount stored", ["amount", "stored", "store"]),
        ("What's the amount?", ["amount"]),
        ("the of and", []),
        ("如何 怎么", []),
        ("的", []),
        ("的是", []),
        ("金额怎么存", ["金额", "额怎", "么存", "存", "金", "额"]),
        ("金额的存储", ["金额", "额的", "的存", "存储", "金", "额", "存", "储"]),
        ("amount 字段", ["amount", "字段", "字", "段"]),
        ('"the amount"', ["amount"]),
        ("what is “amount 字段” about", ["amount", "字段", "字", "段"]),
        ("i just want any amounts", ["want", "amounts", "amount"]),
        ("“如何”", ["如何", "如", "何"]),
        ("`to be`", ["to", "be"]),
        ("do not", ["not"]),
    ],
)
def test_query_terms_of(query, terms):
    assert query_terms(query) == terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *[(text, True) for text in ("amount 字段", "金額", "データ", "ﾃﾞｰﾀ", "값")],
        *[(text, False) for text in ("", "amount", "ａｍｏｕｎｔ", "сумма", "。？", "😀", "ไทย")],
    ],
)
def test_a_text_is_east_asian_when_it_holds_one_such_letter(text, expected):
    assert is_east_asian(text) is expected


def test_a_wrongly_cut_phrase_still_asks_for_the_right_pair():
    assert {"许可", "以后"} <= set(query_terms("许可以后"))


def test_a_traditional_question_word_is_one_too():
    assert query_terms("為什麼") == []


def test_a_han_run_is_asked_for_pair_by_pair_and_a_lone_character_for_itself():
    assert query_units("数据库") == (Unit(("数据",), ("数", "据")), Unit(("据库",), ("据", "库")))
    assert query_units("库") == (Unit(("库",)),)
    assert query_units("在库的") == (Unit(("在库",)), Unit(("库",)), Unit(("库的",)))


def test_stemmed_words_and_a_compounds_numbers_and_letters_are_light():
    assert query_units("v1.4") == (Unit(("v1.4", "v1"), ("4",), ("4",)),)
    assert query_units("amounts") == (Unit(("amounts", "amount"), (), ("amounts",)),)
    assert query_units("hows") == (Unit(("hows",)),), "its stem is a function word"


@pytest.mark.parametrize(
    ("weak", "need"), [("a", 2), ("aa", 2), ("ab", 2), ("abc", 2), ("abcdef", 3)]
)
def test_at_least_two_weak_terms_make_a_hit(weak, need):
    assert Unit((), tuple(weak)).need == need


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("“to be” x", ["to", "be", "x"]),
        ("'it' is 'to be'", ["it", "to", "be"]),
        ("“it 'is” amount'", ["it", "is", "amount"]),
        ("‘如何’ `的`", ["如何", "的", "如", "何"]),
        ("c+'to be'", ["c+'to", "c"]),
        ('"to', []),
        ('"to amount"', ["amount"]),
    ],
)
def test_a_quotation_of_function_words_is_verbatim(query, terms):
    assert query_terms(query) == terms


WORDS = ["amount", "how", "订单金额", "怎么存", "v1.4.1", "foo.bar", "的", "データ", "not", "c++"]


@given(st.lists(st.sampled_from(WORDS)), st.lists(st.sampled_from(WORDS)))
def test_appended_words_only_append_units(words, more):
    units = query_units(" ".join(words))
    assert query_units(" ".join(words + more))[: len(units)] == units


def test_a_long_query_is_cut_at_its_end():
    long = " ".join(f"word{n}" for n in range(2 * QUERY_TERMS_MAX))
    terms = query_terms(long)
    assert len(terms) == QUERY_TERMS_MAX
    assert terms[0] == "word0"


def test_folding_is_stable_and_one_to_one_in_length():
    _, pairs = _simplified()
    assert {len(old) for old in pairs} == {len(new) for new in pairs.values()} == {1}
    assert not set(pairs.values()) & set(pairs)


def test_what_the_libraries_contribute_has_not_changed():
    """If this fails after an upgrade of OpenCC or PyStemmer, raise TOKENISER with the digests."""
    _, pairs = _simplified()
    folds = "".join(sorted(old + new for old, new in pairs.items()))
    stems = terms_of("amounts stored running organizations happily dying skies generously")
    assert hashlib.sha256(folds.encode()).hexdigest()[:16] == "50a0c30c0709f76f"
    assert stems == (
        "amounts amount stored store running run organizations organiz happily happili "
        "dying die skies sky generously generous"
    )


def test_threads_may_tokenise_at_once():
    text = "amounts stored running organizations 订单金额 " * 200
    expected, seen = tokens(text), []
    threads = [threading.Thread(target=lambda: seen.append(tokens(text))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [expected] * 8
