"""Search and `relevant`, on real ledgers of both kinds and real index files."""

import threading

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pc_store import limits
from pc_store.domain.entry import Draft
from pc_store.domain.refs import ArtifactRef, SourceRef
from pc_store.errors import InvalidInput, NotFound
from pc_store.ledger.database import open_database
from pc_store.ledger.schema import entry_versions
from pc_store.search import lexical, shards
from pc_store.services import administer, find, remember
from pc_store.services.commit import commit_drafts

SCOPE = "shop"
AMOUNT = "amount: 订单金额以整数分存储；100 表示 1 元。"
NOW = 1_700_000_000_000_000


def migrate(url: str) -> None:
    open_database(url).close()


@pytest.fixture
def db(new_database):
    database = open_database(new_database(migrate))
    administer.create_scope(database, SCOPE, now_us=NOW)
    yield database
    database.close()


@pytest.fixture
def index(tmp_path):
    return tmp_path / "index"


@pytest.fixture
def tiny(monkeypatch):
    """Scopes of any size get a shard, and three changes outgrow it."""
    monkeypatch.setattr(find, "SMALL_SCOPE", 1)
    monkeypatch.setattr(lexical, "TAIL_ROWS", 3)


def write(db, text, *, kind="decision", at=NOW):
    return remember.remember(db, SCOPE, kind=kind, text=text, now_us=at).entry


def write_many(db, texts, *, scope=SCOPE, at=NOW, sources=()):
    drafts = [Draft("add", "fact", text, tuple(sources)) for text in texts]
    with db.write() as conn:
        return commit_drafts(conn, scope, drafts, origin="explicit", now_us=at)


def found(db, index, query, **kwargs):
    return [hit.text for hit in find.search(db, index, SCOPE, query, **kwargs).hits]


def test_a_hit_says_what_it_is_and_why(db, index):
    entry = write(db, AMOUNT)
    write(db, "the sky is blue")
    result = find.search(db, index, SCOPE, "how is the amount stored")
    assert result.memory == ArtifactRef("memory", "memory", 2)
    [hit] = result.hits
    assert (hit.citation.entry_id, hit.citation.entry_version_id) == (
        entry.entry.entry_id,
        entry.entry.entry_version_id,
    )
    assert hit.citation.memory == result.memory
    assert (hit.kind, hit.text, hit.version, hit.sources) == ("decision", AMOUNT, 1, ())
    assert hit.score == 1 / 61
    assert hit.bm25 > 0
    assert hit.matched_terms == ("amount",)
    assert remember.read_entry(db, SCOPE, hit.citation).entry.text == AMOUNT


def test_hits_carry_their_sources(db, index):
    refs = [SourceRef("content", "log-2"), SourceRef("content", "log-1")]
    write_many(db, [AMOUNT], sources=refs)
    [hit] = find.search(db, index, SCOPE, "金额").hits
    assert set(hit.sources) == set(refs)


@pytest.mark.parametrize(
    "query",
    [
        "amount",
        "AMOUNT",
        "整数分",
        "金额",
        "整",
        "金额怎么存",
        "订单金额如何存储",
        "how is the amount stored",
        "amount 字段",
        "amount 字段应该怎么处理？",
        "amounts",
        "ａｍｏｕｎｔ",
        "金額",
    ],
)
def test_the_articles_question_and_its_kin_find_the_entry(db, index, query):
    write(db, AMOUNT)
    assert found(db, index, query) == [AMOUNT]


@pytest.mark.parametrize("query", ["weather", "the of and", "如何", "😀", "数据库", "' OR x=y --"])
def test_what_the_entry_does_not_say_finds_nothing(db, index, query):
    write(db, AMOUNT)
    assert found(db, index, query) == []


def test_a_scope_without_memory_is_empty_whatever_is_asked(db, index):
    assert find.search(db, index, SCOPE, "amount") == find.SearchResult(None, ())
    assert find.search(db, index, SCOPE, " ") == find.SearchResult(None, ())
    assert find.relevant(db, index, SCOPE, ["amount"], limit=5) == []
    assert not index.exists()


def test_an_unknown_scope_is_not_found_and_leaves_nothing_behind(db, index):
    for n in range(50):
        with pytest.raises(NotFound):
            find.search(db, index, f"../../nowhere {n}", "amount")
    with pytest.raises(NotFound):
        find.relevant(db, index, "nowhere", ["amount"], limit=5)
    assert not index.exists()


@pytest.mark.parametrize(
    ("query", "limit", "field"),
    [
        (" \n\u3000", 10, "query"),
        ("", 10, "query"),
        ("x" * 8193, 10, "query"),
        ("x", 0, "limit"),
        ("x", 51, "limit"),
        ("x", -1, "limit"),
    ],
)
def test_broken_arguments_are_refused(db, index, query, limit, field):
    write(db, AMOUNT)
    with pytest.raises(InvalidInput) as caught:
        find.search(db, index, SCOPE, query, limit=limit)
    assert caught.value.field == field


def test_the_longest_query_and_the_widest_limit_are_served(db, index):
    write(db, AMOUNT)
    for query in ("金额" * 4096, "amount " + "x" * (limits.QUERY_MAX_CHARS - 7), "\x00amount"):
        assert found(db, index, query, limit=50) == [AMOUNT]


def test_every_write_is_seen_at_once(db, index, tiny):
    entry = write(db, AMOUNT)
    assert found(db, index, "amount") == [AMOUNT]
    assert list(index.rglob("*.duckdb")), "from here on there is a shard"
    revised = remember.revise(
        db, SCOPE, entry.citation, kind="decision", text="price in cents", now_us=NOW + 1
    )
    assert found(db, index, "amount") == []
    assert found(db, index, "price") == ["price in cents"]
    retired = remember.retire(db, SCOPE, revised.entry.citation, now_us=NOW + 2)
    assert found(db, index, "price") == []
    remember.reactivate(db, SCOPE, retired.entry.citation, now_us=NOW + 3)
    assert found(db, index, "price") == ["price in cents"]
    write(db, "another price", at=NOW + 4)
    assert set(found(db, index, "price")) == {"price in cents", "another price"}


def test_a_small_scope_gets_no_file_and_a_larger_one_does(db, index):
    write_many(db, [f"note {n}" for n in range(lexical.SMALL_SCOPE - 1)])
    assert len(found(db, index, "note", limit=50)) == 50
    assert not index.exists()
    write(db, "note last")
    assert found(db, index, "last") == ["note last"]
    [shard] = index.rglob("*.duckdb")
    assert found(db, index, "last") == ["note last"]
    assert shard.exists()


def test_an_outgrown_shard_is_replaced(db, index, tiny):
    write(db, "note 0")
    found(db, index, "note")
    [first] = index.rglob("*.duckdb")
    for n in range(1, 4):
        write(db, f"note {n}")
        assert len(found(db, index, "note")) == n + 1
    assert list(index.rglob("*.duckdb")) == [first]
    write(db, "note 4")
    assert len(found(db, index, "note")) == 5
    [second] = index.rglob("*.duckdb")
    assert second != first


def test_an_entry_whose_text_was_altered_in_the_ledger_is_never_a_hit(db, index):
    write_many(db, [f"amount {n}" for n in range(6)])
    with db.write() as conn:
        conn.execute(
            sa.update(entry_versions)
            .where(entry_versions.c.text.in_(["amount 0", "amount 1", "amount 2"]))
            .values(text="amount is whatever I say")
        )
    assert found(db, index, "amount", limit=2) == ["amount 3", "amount 4"]
    assert len(found(db, index, "amount")) == 3
    assert [hit.score for hit in find.search(db, index, SCOPE, "amount").hits] == [
        1 / 61,
        1 / 62,
        1 / 63,
    ]
    for limit in (4, 6):
        shown = find.relevant(db, index, SCOPE, ["amount"], limit=limit)
        assert [entry.text for entry in shown] == ["amount 3", "amount 4", "amount 5"]


def test_a_shard_of_a_ledger_that_was_since_replaced_is_not_used(db, index, tiny, tmp_path):
    write_many(db, ["old amount", "old price"])
    assert found(db, index, "amount") == ["old amount"]
    other = open_database(f"sqlite:///{tmp_path / 'other.db'}")
    try:
        administer.create_scope(other, SCOPE, now_us=NOW)
        write_many(other, ["new amount"])
        assert found(other, index, "amount") == ["new amount"]
        write_many(other, ["newer amount"], at=NOW + 1)
        assert set(found(other, index, "amount")) == {"new amount", "newer amount"}
    finally:
        other.close()
    assert found(db, index, "amount") == ["old amount"], "a restored ledger, one revision behind"


def test_a_torn_shard_costs_time_and_no_answer(db, index, tiny):
    write_many(db, [f"{AMOUNT} word{n}" for n in range(40)])
    expected = find.search(db, index, SCOPE, "金额 word7")
    [path] = index.rglob("*.duckdb")
    content = path.read_bytes()
    for start in range(0, len(content), len(content) // 8):
        shards._opened.clear()
        for left in index.rglob("*.duckdb"):
            left.unlink()
        path.write_bytes(content[:start] + bytes(4096) + content[start + 4096 :])
        assert find.search(db, index, SCOPE, "金额 word7") == expected
    for left in index.rglob("*.duckdb"):
        left.write_text("not a database")
    assert find.search(db, index, SCOPE, "金额 word7") == expected


def test_an_index_folder_that_cannot_be_written_costs_time_and_no_answer(db, index, tiny):
    write_many(db, ["amount", "price"])
    index.write_text("a file")
    assert found(db, index, "amount") == ["amount"]


def test_searching_while_others_write_and_build_sees_whole_revisions(db, index, tiny):
    write_many(db, ["amount 0"])
    errors: list[BaseException] = []

    def read() -> None:
        try:
            seen = 0
            while seen < 12:
                result = find.search(db, index, SCOPE, "amount", limit=50)
                assert len(result.hits) == result.memory.revision >= seen
                seen = result.memory.revision
        except BaseException as error:  # noqa: BLE001 - judged by the thread that started this one
            errors.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for n in range(1, 12):
        write_many(db, [f"amount {n}"], at=NOW + n)
    for reader in readers:
        reader.join(60)
    assert errors == []


words = st.lists(
    st.sampled_from(
        [
            "amount",
            "amounts",
            "price",
            "订单",
            "金额",
            "订单金额",
            "存储",
            "储存",
            "v1.4",
            "foo.bar",
            "データ",
            "the",
        ]
    ),
    min_size=1,
    max_size=6,
).map(" ".join)
actions = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "revise", "retire", "reactivate"]), st.integers(0, 9), words
    ),
    min_size=1,
    max_size=12,
)


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(actions, words)
def test_any_history_is_found_through_shard_and_tail_as_from_the_rows(
    db, tmp_path_factory, actions, query
):
    scope = tmp_path_factory.mktemp("scope").name
    index, none = tmp_path_factory.mktemp("index"), tmp_path_factory.mktemp("none")
    administer.create_scope(db, scope, now_us=NOW)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(find, "SMALL_SCOPE", 1)
        patch.setattr(lexical, "TAIL_ROWS", 4)
        for at, (op, pick, text) in enumerate(actions, start=NOW):
            act(db, scope, op, pick, text, at)
            with pytest.MonkeyPatch.context() as small:
                small.setattr(find, "SMALL_SCOPE", 10_000)
                expected = find.search(db, none, scope, query, limit=5)
            assert find.search(db, index, scope, query, limit=5) == expected
    assert not list(none.iterdir())


def act(db, scope, op, pick, text, at):
    _, listed = remember.list_entries(db, scope, include_inactive=True, limit=100)
    state = "inactive" if op == "reactivate" else "active"
    targets = [cited for cited in listed if cited.entry.state == state]
    if op == "add" or not targets:
        remember.remember(db, scope, kind="fact", text=text, now_us=at)
        return
    citation = targets[pick % len(targets)].citation
    if op == "revise":
        remember.revise(db, scope, citation, kind="fact", text=text, now_us=at)
    elif op == "retire":
        remember.retire(db, scope, citation, now_us=at)
    else:
        remember.reactivate(db, scope, citation, now_us=at)


def test_relevant_is_everything_in_order_while_that_fits(db, index):
    write_many(db, ["b note", "a note", "c other"])
    shown = find.relevant(db, index, SCOPE, ["nothing of this"], limit=3)
    assert [entry.text for entry in shown] == ["b note", "a note", "c other"]
    assert [entry.entry_id for entry in shown] == sorted(entry.entry_id for entry in shown)
    assert find.relevant(db, index, SCOPE, ["note"], limit=0) == []


def test_relevant_is_the_best_when_there_are_more(db, index):
    write_many(db, [f"filler {n}" for n in range(600)] + [AMOUNT, "amounts in cents", "价格"])
    sources = ["we changed the amount field", "订单金额 is in cents now", "how about the weather"]
    shown = find.relevant(db, index, SCOPE, sources, limit=5)
    assert {entry.text for entry in shown} == {AMOUNT, "amounts in cents"}
    again = find.relevant(db, index, SCOPE, sources, limit=5)
    assert again == shown, "from a shard as from rows"
    assert find.relevant(db, index, SCOPE, [], limit=5) == []
    assert find.relevant(db, index, SCOPE, ["", "😀"], limit=5) == []


def test_relevant_takes_the_largest_windows(db, index):
    write_many(db, [f"word{n} filler" for n in range(100)])
    texts = [f"word{n % 100} " * 20_000 for n in range(0, 1000, 10)]
    shown = find.relevant(db, index, SCOPE, texts, limit=64)
    assert {entry.text for entry in shown} == {f"word{n} filler" for n in range(0, 100, 10)}
