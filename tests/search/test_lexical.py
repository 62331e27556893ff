"""BM25 over a shard and a tail: always the answer of a freshly built index."""

import math
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pc_store.ledger.entries import TermsRow
from pc_store.search import lexical, shards
from pc_store.search.lexical import Words
from pc_store.search.ranking import K1, B
from pc_store.search.tokens import query_units, terms_of

AMOUNT = "amount: 订单金额以整数分存储；100 表示 1 元。"
VOCABULARY = [
    *["amount", "amounts", "stored", "the", "how", "not", "v1.4.1", "1.4", "foo.bar_baz", "foo"],
    *["订单", "金额", "订单金额", "整数分", "存储", "储存", "库存", "怎么", "是否"],
    *["c++", "データ", "値", "인덱스", "😀"],
]


def row(number: int, text: str, version: int = 1) -> TermsRow:
    return TermsRow(f"e{number:06d}", f"v{number:06d}.{version}", terms_of(text))


@dataclass(frozen=True)
class Answer:
    entry_id: str
    entry_version_id: str
    bm25: float
    matched_terms: tuple[str, ...]


def ask(words: Words, query: str, limit: int = 50) -> list[Answer]:
    results = words.search(query_units(query))
    return [
        Answer(hit.entry_id, hit.entry_version_id, hit.bm25, results.matched(hit))
        for hit in results.top(limit)
    ]


def of_rows(rows: Sequence[TermsRow]) -> Words:
    return Words(None, (), rows)


def built(folder: Path, rows: Sequence[TermsRow], *, scope: str = "s", revision: int = 1) -> Words:
    assert shards.build(folder, scope, revision=revision, anchor="a", rows=rows)
    shard = shards.open_newest(folder, scope)
    assert shard is not None
    assert shard.revision == revision
    return Words(shard, (), ())


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
    assert found.entry_id == "e000001"
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

    found = {hit.entry_id: hit.bm25 for hit in ask(of_rows(rows), "red blue")}
    assert found == pytest.approx(
        {
            "e000001": gain(2, lengths[0], 1) + gain(1, lengths[0], 2),
            "e000002": gain(1, lengths[1], 2),
        }
    )


def test_ties_are_in_order_of_entry_id_and_the_limit_cuts_after_ordering(tmp_path):
    rows = [row(number, "same text") for number in (5, 3, 9, 1, 7)]
    for words in (of_rows(rows), built(tmp_path, rows)):
        assert [hit.entry_id for hit in ask(words, "same", 3)] == ["e000001", "e000003", "e000005"]


def test_an_exact_form_outranks_another_form_of_the_word():
    rows = [row(1, "the amount is stored"), row(2, "the amounts are stored")]
    assert [hit.entry_id for hit in ask(of_rows(rows), "amounts")] == ["e000002", "e000001"]


def test_a_shared_pair_outranks_shared_single_characters():
    rows = [row(1, "储备与存款的账户"), row(2, "其他内容在这里 存储")]
    hits = ask(of_rows(rows), "存储")
    assert [hit.entry_id for hit in hits] == ["e000002", "e000001"]
    assert [hit.matched_terms for hit in hits] == [("存储",), ("存", "储")]


def test_entries_without_tokens_count_and_are_never_found(tmp_path):
    rows = [row(1, "😀"), row(2, "amount")]
    assert ask(built(tmp_path, rows), "amount") == ask(of_rows(rows), "amount") != []
    assert ask(of_rows(rows[:1]), "amount") == []


def test_tokens_stored_by_another_tokeniser_are_made_again(tmp_path):
    old = TermsRow("e000001", "v000001.1", "nonsense", AMOUNT)
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
            version = int(active[number].entry_version_id.split(".")[1])
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


@settings(max_examples=20, deadline=None)
@given(st.lists(step, min_size=1, max_size=25), st.data())
def test_any_split_of_any_history_answers_like_a_fresh_index(steps, data):
    states = replay(steps)
    final = ordered(states[-1])
    split = data.draw(st.integers(0, len(states) - 1))
    queries = data.draw(st.lists(texts, min_size=1, max_size=5))
    limit = data.draw(st.integers(1, 10))
    then = {r.entry_version_id for r in states[split].values()}
    now = {r.entry_version_id for r in final}
    late = [r for r in final if r.entry_version_id not in then]
    folder = Path(tempfile.mkdtemp())
    try:
        shard = built(folder, ordered(states[split]), revision=1)._shard
        mixed = Words(shard, then - now, late)
        fresh = built(folder, final, revision=2)
        assert mixed.entries == fresh.entries == len(final)
        for query in [*queries, *VOCABULARY]:
            expected = ask(fresh, query, limit)
            for words in (mixed, of_rows(final)):
                got = ask(words, query, limit)
                assert [(h.entry_id, h.entry_version_id, h.matched_terms) for h in got] == [
                    (h.entry_id, h.entry_version_id, h.matched_terms) for h in expected
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
    before = {hit.entry_id for hit in ask(words, query, 1000)}
    assert before <= {hit.entry_id for hit in ask(words, f"{query} {more}", 1000)}


@settings(max_examples=300, deadline=None)
@given(st.lists(texts, min_size=1, max_size=12), texts)
def test_every_entry_is_found_by_any_content_word_it_holds(entries, query):
    words = of_rows([row(number, text) for number, text in enumerate(entries)])
    found = {hit.entry_id for hit in ask(words, query, 1000)}
    strong = {term for unit in query_units(query) for term in unit.strong}
    for number, text in enumerate(entries):
        if strong & set(terms_of(text).split()):
            assert f"e{number:06d}" in found


def test_a_newer_shard_replaces_the_older_and_readers_of_the_older_go_on(tmp_path):
    old = built(tmp_path, [row(1, "amount")])
    new = built(tmp_path, [row(1, "amount"), row(2, "amount too")], revision=2)
    assert len(ask(old, "amount")) == 1
    assert len(ask(new, "amount")) == 2
    assert len(list(tmp_path.rglob("*.duckdb"))) == 1


def test_a_late_builder_does_not_replace_a_newer_shard(tmp_path):
    built(tmp_path, [row(1, "new")], revision=9)
    assert shards.build(tmp_path, "s", revision=4, anchor="a", rows=[row(1, "old")])
    shard = shards.open_newest(tmp_path, "s")
    assert shard is not None
    assert shard.revision == 9


def test_scopes_that_differ_by_case_or_accent_have_shards_of_their_own(tmp_path):
    names = ["Alpha", "alpha", "álpha", "a\u0301lpha", "../../x", "CON", "."]
    for number, name in enumerate(names):
        built(tmp_path, [row(number, "amount")], scope=name)
    for number, name in enumerate(names):
        shard = shards.open_newest(tmp_path, name)
        assert [hit.entry_id for hit in ask(Words(shard, (), ()), "amount")] == [f"e{number:06d}"]
    assert len(list(tmp_path.rglob("*.duckdb"))) == len(names)
    assert {path.name for path in tmp_path.iterdir()} == {"words"}


def test_few_shards_are_kept_open(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "OPEN_FILES_MAX", 2)
    for number in range(shards.OPEN_FILES_MAX + 4):
        built(tmp_path, [row(1, "amount")], scope=f"scope {number}")
    assert len(shards._opened) == shards.OPEN_FILES_MAX


TEAR = """
import pathlib, sys, duckdb
from pc_store.search import shards
from pc_store.search.lexical import Words
from pc_store.search.tokens import query_units
path, how, at = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
bytes_ = bytearray(path.read_bytes())
if how == "cut":
    bytes_ = bytes_[: len(bytes_) * at // 10]
elif how == "zero":
    place = len(bytes_) * at // 10
    bytes_[place : place + 4096] = bytes(len(bytes_[place : place + 4096]))
else:
    bytes_ = bytearray(b"not a database")
path.write_bytes(bytes_)
shard = shards.open_newest(path.parents[2], "s")
if shard is None:
    print("no shard")
else:
    try:
        found = Words(shard, ["v000001.1"], ()).search(query_units("amount 金额 word7")).top(9)
        print(len(found))
    except duckdb.Error:
        print("torn")
"""


@pytest.mark.parametrize(
    ("how", "at"),
    [("cut", n) for n in (0, 1, 5, 9)] + [("zero", n) for n in range(10)] + [("text", 0)],
)
def test_a_torn_shard_is_no_shard_or_a_duckdb_error_and_never_a_wrong_answer(tmp_path, how, at):
    rows = [row(n, f"{AMOUNT} word{n} word{n * 7}") for n in range(300)]
    expected = len(ask(built(tmp_path, rows), "amount 金额 word7", 9))
    [path] = tmp_path.rglob("*.duckdb")
    done = subprocess.run(
        [sys.executable, "-c", TEAR, str(path), how, str(at)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in {"no shard", "torn", str(expected)}
    if done.stdout.strip() == "no shard":
        assert not path.exists(), "the next builder should find the place free"


@pytest.mark.parametrize("fact", ["format", "tokeniser", "scope_id"])
def test_a_shard_of_another_version_is_no_shard(tmp_path, fact):
    built(tmp_path, [row(1, "amount")])
    shards._opened.clear()
    [path] = tmp_path.rglob("*.duckdb")
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"UPDATE facts SET {fact} = 'another'")
    assert shards.open_newest(tmp_path, "s") is None
    assert not path.exists()


def test_a_folder_that_cannot_be_written_means_no_shard(tmp_path):
    (tmp_path / "words").write_text("a file where the folder should be")
    assert not shards.build(tmp_path, "s", revision=1, anchor="a", rows=[row(1, "amount")])
    assert shards.open_newest(tmp_path, "s") is None


def test_what_dead_builders_left_is_removed_when_it_is_old(tmp_path):
    built(tmp_path, [row(1, "amount")])
    [folder] = (tmp_path / "words").iterdir()
    for name in (".build-old", ".build-new"):
        (folder / name).mkdir()
        (folder / name / "words.duckdb").write_text("half")
    os.utime(folder / ".build-old", (0, 0))
    built(tmp_path, [row(1, "amount")], revision=2)
    assert sorted(path.name[:10] for path in folder.iterdir()) == [".build-new", "0000000000"]


def _build_often(folder: str, first: int) -> None:
    for revision in range(first, first + 4):
        rows = [row(number, f"amount {number}") for number in range(revision * 10)]
        assert shards.build(Path(folder), "s", revision=revision, anchor="a", rows=rows)
        shard = shards.open_newest(Path(folder), "s")
        assert shard is not None
        assert shard.revision >= revision
        assert len(ask(Words(shard, (), ()), "amount", 1000)) == shard.revision * 10


def test_builders_in_several_processes_do_not_disturb_each_other(tmp_path):
    context = multiprocessing.get_context("spawn")
    builders = [
        context.Process(target=_build_often, args=(str(tmp_path), first)) for first in (1, 3, 3)
    ]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join(60)
    assert [builder.exitcode for builder in builders] == [0, 0, 0]
    [path] = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert path.name.startswith("000000000006-")


def test_threads_share_a_shard(tmp_path):
    words = built(tmp_path, [row(n, f"{AMOUNT} word{n % 7}") for n in range(50)])
    expected = ask(words, "amount 金额 word3")
    seen: list[list[Answer]] = []

    def work() -> None:
        seen.extend(ask(words, "amount 金额 word3") for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [expected] * 40


OFFLINE = """
import pathlib, socket, sys
from pc_store.search import shards
def refuse(*_, **__): raise AssertionError("the network was used")
socket.socket.connect = refuse
sys.path.insert(0, "tests/search")
from test_lexical import row, ask, built
print(len(ask(built(pathlib.Path(sys.argv[1]), [row(1, "amount")]), "amount")))
"""


def test_neither_the_home_folder_nor_the_network_is_used(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    blocked = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE, str(tmp_path / "index")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **blocked, "HOME": str(home)},
    )
    assert done.stdout.strip() == "1", done.stderr
    assert list(home.iterdir()) == []


def test_a_shard_is_outgrown_when_more_than_500_and_5_percent_changed(tmp_path):
    small = built(tmp_path, [row(1, "amount")])._shard
    assert small is not None
    assert [lexical.outgrown(small, n) for n in (500, 501)] == [False, True]
    small.lengths = small.lengths.repeat(20_000)
    assert [lexical.outgrown(small, n) for n in (1000, 1001)] == [False, True]
