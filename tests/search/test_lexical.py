"""BM25 over a shard and a tail: always the answer of a freshly built index."""

import math
import shutil
import tempfile
from pathlib import Path

import pytest
from entries_by_hand import AMOUNT, ask, built, of_rows, part_of, publish, row
from hypothesis import given, settings
from hypothesis import strategies as st

from pc_store.domain.text import digest
from pc_store.ledger.terms import TermsRow
from pc_store.search import lexical
from pc_store.search.lexical import Words
from pc_store.search.ranking import K1, B
from pc_store.search.tokens import query_units, terms_of

VOCABULARY = [
    *["amount", "amounts", "stored", "the", "how", "not", "v1.4.1", "1.4", "foo.bar_baz", "foo"],
    *["订单", "金额", "订单金额", "整数分", "存储", "储存", "库存", "怎么", "是否"],
    *["c++", "データ", "値", "인덱스", "😀"],
]


@pytest.fixture(scope="module")
def amount_shard(tmp_path_factory):
    return built(tmp_path_factory.mktemp("index"), [row(1, AMOUNT)])


FINDS = [
    *["amount", "AMOUNT", "amounts", "ａｍｏｕｎｔ", "100", "a/amount", "amount?q=%00"],
    *["整数分", "金额", "整", "金额怎么存", "订单金额如何存储", "金額", "訂單", "储存"],
    *[
        "订单 金额",
        "how is the amount stored",
        "amount 字段",
        "amount 字段应该怎么处理？",
        "amount金额",
    ],
]
FINDS_NOT = [
    *["weather", "the of is", "如何", "的", "天气预报", "数据库"],
    *["a/b/c", "C:\\x", "'", "😀", "%00", "1000"],
]


@pytest.mark.parametrize("query", FINDS)
def test_the_entry_is_found_from_a_shard_and_from_rows(amount_shard, query):
    [found] = ask(amount_shard, query)
    assert found.ref == "e000001"
    assert set(found.matched_terms) <= set(terms_of(AMOUNT).split())
    assert ask(of_rows([row(1, AMOUNT)]), query) == [found]


@pytest.mark.parametrize("query", FINDS_NOT)
def test_the_entry_is_not_found(amount_shard, query):
    assert ask(amount_shard, query) == ask(of_rows([row(1, AMOUNT)]), query) == []


def test_scores_are_those_of_the_formula():
    rows = [row(1, "red red blue"), row(2, "blue sky over sea"), row(3, "sea")]
    lengths = [len(r.terms.split()) for r in rows]
    mean = sum(lengths) / 3

    def gain(counts, length, df):
        idf = math.log(1 + (3 - df + 0.5) / (df + 0.5))
        return idf * counts * (K1 + 1) / (counts + K1 * (1 - B + B * length / mean))

    found = {hit.ref: hit.bm25 for hit in ask(of_rows(rows), "red blue")}
    assert found == pytest.approx(
        {
            "e000001": gain(2, lengths[0], 1) + gain(1, lengths[0], 2),
            "e000002": gain(1, lengths[1], 2),
        }
    )


def test_ties_are_in_order_of_entry_id_and_the_limit_cuts_after_ordering(tmp_path):
    rows = [row(number, "same text") for number in (5, 3, 9, 1, 7)]
    for words in (of_rows(rows), built(tmp_path, rows)):
        assert [hit.ref for hit in ask(words, "same", 3)] == ["e000001", "e000003", "e000005"]


def test_an_exact_form_outranks_another_form_of_the_word():
    rows = [row(1, "the amount is stored"), row(2, "the amounts are stored")]
    assert [hit.ref for hit in ask(of_rows(rows), "amounts")] == ["e000002", "e000001"]


def test_a_shared_pair_outranks_shared_single_characters():
    rows = [row(1, "储备与存款的账户"), row(2, "其他内容在这里 存储")]
    hits = ask(of_rows(rows), "存储")
    assert [hit.ref for hit in hits] == ["e000002", "e000001"]
    assert [hit.matched_terms for hit in hits] == [("存储",), ("存", "储")]


def test_entries_without_tokens_count_and_are_never_found(tmp_path):
    rows = [row(1, "😀"), row(2, "amount")]
    assert ask(built(tmp_path, rows), "amount") == ask(of_rows(rows), "amount") != []
    assert ask(of_rows(rows[:1]), "amount") == []


def test_tokens_stored_by_another_tokeniser_are_made_again(tmp_path):
    old = TermsRow("e000001", "v000001.1", "nonsense", digest(AMOUNT), AMOUNT)
    assert ask(of_rows([old]), "金额") == ask(built(tmp_path, [old]), "金额") != []


texts = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=8).map(" ".join) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20
)
step = st.tuples(
    st.sampled_from(["add", "add", "revise", "retire", "reactivate"]), st.integers(0, 30), texts
)


def replay(steps) -> list[dict[int, TermsRow]]:
    """Return the active entries of every revision."""
    active: dict[int, TermsRow] = {}
    retired: dict[int, TermsRow] = {}
    states = [dict(active)]
    for op, pick, text in steps:
        if op == "add" or not (active if op != "reactivate" else retired):
            number = len(active) + len(retired)
            active[number] = row(number, text)
        elif op == "revise":
            number = sorted(active)[pick % len(active)]
            version = int(active[number].version.split(".")[1])
            active[number] = row(number, text, version + 1)
        elif op == "retire":
            number = sorted(active)[pick % len(active)]
            retired[number] = active.pop(number)
        else:
            number = sorted(retired)[pick % len(retired)]
            active[number] = retired.pop(number)
        states.append(dict(active))
    return states


def ordered(state: dict[int, TermsRow]) -> list[TermsRow]:
    return [state[number] for number in sorted(state)]


@settings(max_examples=10, deadline=None)
@given(st.lists(step, min_size=1, max_size=25), st.data())
def test_any_split_of_any_history_answers_like_a_fresh_index(steps, data):
    states = replay(steps)
    final = ordered(states[-1])
    split = data.draw(st.integers(0, len(states) - 1))
    queries = data.draw(st.lists(texts, min_size=1, max_size=5))
    limit = data.draw(st.integers(1, 10))
    then = {(r.ref, r.version) for r in states[split].values()}
    now = {(r.ref, r.version) for r in final}
    late = [r for r in final if (r.ref, r.version) not in then]
    folder = Path(tempfile.mkdtemp())
    try:
        before, after = ordered(states[split]), final
        neighbours = {"a": [row(1, "amount 金额"), row(2, "foo")], "z": [row(1, "存储")]}
        publish(folder, {"a": neighbours["a"], "s": before, "z": neighbours["z"]})
        mixed = Words(part_of(folder), then - now, late) if before else Words(None, (), late)
        publish(folder / "fresh", {"s": after})
        fresh = Words(part_of(folder / "fresh"), (), ()) if after else of_rows([])
        assert mixed.entries == fresh.entries == len(final)
        for query in [*queries, *VOCABULARY]:
            expected = ask(fresh, query, limit)
            for words in (mixed, of_rows(final)):
                got = ask(words, query, limit)
                assert [(h.ref, h.version, h.matched_terms) for h in got] == [
                    (h.ref, h.version, h.matched_terms) for h in expected
                ]
                assert [h.bm25 for h in got] == pytest.approx([h.bm25 for h in expected], abs=1e-6)
    finally:
        shutil.rmtree(folder)


@settings(max_examples=300, deadline=None)
@given(st.lists(texts, max_size=12), texts, texts)
def test_appending_words_never_removes_a_hit(entries, query, more):
    if any(mark in query + more for mark in "`\"“”「」『』‘’'＂＇｀"):
        return  # a quotation mark changes what the words before it mean
    words = of_rows([row(number, text) for number, text in enumerate(entries)])
    before = {hit.ref for hit in ask(words, query, 1000)}
    assert before <= {hit.ref for hit in ask(words, f"{query} {more}", 1000)}


@settings(max_examples=300, deadline=None)
@given(st.lists(texts, min_size=1, max_size=12), texts)
def test_every_entry_is_found_by_any_content_word_it_holds(entries, query):
    words = of_rows([row(number, text) for number, text in enumerate(entries)])
    found = {hit.ref for hit in ask(words, query, 1000)}
    strong = {term for unit in query_units(query) for term in unit.strong}
    for number, text in enumerate(entries):
        if strong & set(terms_of(text).split()):
            assert f"e{number:06d}" in found


def test_a_part_is_outgrown_when_more_than_500_and_5_percent_changed():
    assert [lexical.outgrown(1, n) for n in (500, 501)] == [False, True]
    assert [lexical.outgrown(20_000, n) for n in (1000, 1001)] == [False, True]


def test_statistics_are_the_scopes_own(tmp_path):
    rows = [row(1, "amount in cents"), row(2, "price in euros")]
    alone = built(tmp_path / "alone", rows)
    crowd = [row(n, "amount amount amount " + "x " * n) for n in range(200)]
    publish(tmp_path / "crowd", {"crowd": crowd, "s": rows})
    assert ask(Words(part_of(tmp_path / "crowd"), (), ()), "amount price") == ask(
        alone, "amount price"
    )


def test_a_few_terms_and_many_are_found_alike(tmp_path):
    rows = [row(n, f"word{n} amount o'clock{n}") for n in range(200)]
    from_file, from_rows = built(tmp_path, rows), of_rows(rows)
    for count in (1, 13, 14, 60, 400):
        query = " ".join(f"word{n} o'clock{n}" for n in range(count)) + " {amount} 'amount'"
        assert ask(from_file, query, 300) == ask(from_rows, query, 300)
