"""Search and `relevant`, on real ledgers of both kinds and real index files."""

import threading

import pytest
import sqlalchemy as sa

from pc_store import limits
from pc_store.domain.entry import Draft
from pc_store.domain.refs import ArtifactRef, SourceRef
from pc_store.errors import IndexUnwritable, InvalidInput, NotFound
from pc_store.ledger.database import open_database
from pc_store.ledger.schema import entry_versions
from pc_store.search import shards
from pc_store.services import administer, find, index_build, remember
from pc_store.services.blend import Coverage
from pc_store.services.commit import commit_drafts
from pc_store.settings import Settings

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
def store(tmp_path):
    """Settings of a store with an index of its own and no embedder."""
    return Settings(index_dir=tmp_path / "index", embed_provider="none")


def write(db, text, *, kind="decision", at=NOW):
    return remember.remember(db, SCOPE, kind=kind, text=text, now_us=at).entry


def write_many(db, texts, *, scope=SCOPE, at=NOW, sources=()):
    drafts = [Draft("add", "fact", text, tuple(sources)) for text in texts]
    with db.write() as conn:
        return commit_drafts(conn, scope, drafts, origin="explicit", now_us=at)


def found(db, store, query, **kwargs):
    return [hit.text for hit in find.search(db, store, SCOPE, query, **kwargs).hits]


def rebuild(db, store, scope=SCOPE):
    return index_build.build(db, store, shards.shard_of(scope, store.index_shards), force=True)


def test_a_hit_says_what_it_is_and_why(db, store):
    entry = write(db, AMOUNT)
    write(db, "the sky is blue")
    result = find.search(db, store, SCOPE, "how is the amount stored")
    assert result.memory == ArtifactRef("memory", "memory", 2)
    [hit] = result.hits
    assert (hit.citation.entry_id, hit.citation.entry_version_id) == (
        entry.entry.entry_id,
        entry.entry.entry_version_id,
    )
    assert hit.citation.memory == result.memory
    assert (hit.kind, hit.text, hit.version, hit.sources) == ("decision", AMOUNT, 1, ())
    assert hit.score == 1 / 61
    assert (hit.matched_terms, hit.matched_by) == (("amount",), ("fts",))
    assert (hit.ranks, list(hit.channels)) == ({"fts": 1}, ["bm25"])
    assert hit.channels["bm25"] > 0
    assert (result.mode, result.coverage) == ("fts", Coverage(2, 0))
    assert remember.read_entry(db, SCOPE, hit.citation).entry.text == AMOUNT


def test_hits_carry_their_sources(db, store):
    refs = [SourceRef("content", "log-2"), SourceRef("content", "log-1")]
    write_many(db, [AMOUNT], sources=refs)
    [hit] = find.search(db, store, SCOPE, "金额").hits
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
def test_the_articles_question_and_its_kin_find_the_entry(db, store, query):
    write(db, AMOUNT)
    assert found(db, store, query) == [AMOUNT]


@pytest.mark.parametrize("query", ["weather", "the of and", "如何", "😀", "数据库", "' OR x=y --"])
def test_what_the_entry_does_not_say_finds_nothing(db, store, query):
    write(db, AMOUNT)
    assert found(db, store, query) == []


def test_a_scope_without_memory_is_empty_whatever_is_asked(db, store):
    assert find.search(db, store, SCOPE, "amount") == find.SearchResult(None)
    assert find.search(db, store, SCOPE, " ") == find.SearchResult(None)
    assert find.relevant(db, store, SCOPE, ["amount"], limit=5) == []
    assert not store.index_path.exists()


def test_an_unknown_scope_is_not_found_and_leaves_nothing_behind(db, store):
    for n in range(50):
        with pytest.raises(NotFound):
            find.search(db, store, f"../../nowhere {n}", "amount")
    with pytest.raises(NotFound):
        find.relevant(db, store, "nowhere", ["amount"], limit=5)
    assert not store.index_path.exists()


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
def test_broken_arguments_are_refused(db, store, query, limit, field):
    write(db, AMOUNT)
    with pytest.raises(InvalidInput) as caught:
        find.search(db, store, SCOPE, query, limit=limit)
    assert caught.value.field == field


def test_the_longest_query_and_the_widest_limit_are_served(db, store):
    write(db, AMOUNT)
    for query in ("金额" * 4096, "amount " + "x" * (limits.QUERY_MAX_CHARS - 7), "\x00amount"):
        assert found(db, store, query, limit=50) == [AMOUNT]


def test_every_write_is_seen_at_once(db, store):
    entry = write(db, AMOUNT)
    assert found(db, store, "amount") == [AMOUNT]
    rebuild(db, store)
    revised = remember.revise(
        db, SCOPE, entry.citation, kind="decision", text="price in cents", now_us=NOW + 1
    )
    assert found(db, store, "amount") == []
    assert found(db, store, "price") == ["price in cents"]
    retired = remember.retire(db, SCOPE, revised.entry.citation, now_us=NOW + 2)
    assert found(db, store, "price") == []
    remember.reactivate(db, SCOPE, retired.entry.citation, now_us=NOW + 3)
    assert found(db, store, "price") == ["price in cents"]
    write(db, "another price", at=NOW + 4)
    assert set(found(db, store, "price")) == {"price in cents", "another price"}


def test_nothing_is_built_by_a_search(db, store):
    write_many(db, [f"note {n}" for n in range(600)])
    assert len(found(db, store, "note", limit=50)) == 50
    assert not store.index_path.exists()


def test_the_first_build_fixes_the_number_of_shards(db, store, caplog):
    write(db, AMOUNT)
    rebuild(db, store)
    other = store.model_copy(update={"index_shards": 3})
    assert found(db, other, "amount") == [AMOUNT]
    caplog.clear()
    built = index_build.build(db, other, shards.shard_of(SCOPE, 16), force=True)
    assert built is not None
    assert built.docs == 1
    assert "PC_INDEX_SHARDS=3 has no effect" in caplog.text
    assert {path.parent.name for path in store.index_path.rglob("*.duckdb")} == {"s13"}


def test_a_build_that_would_change_nothing_is_not_done(db, store):
    shard = shards.shard_of(SCOPE, 16)
    write(db, AMOUNT)
    assert index_build.build(db, store, shard) is not None
    assert index_build.build(db, store, shard) is None
    write(db, "the sky is blue", at=NOW + 1)
    second = index_build.build(db, store, shard)
    assert second is not None
    assert (second.generation, second.docs) == (2, 2)
    assert index_build.build(db, store, shard) is None


def test_an_entry_whose_text_was_altered_in_the_ledger_is_never_a_hit(db, store):
    write_many(db, [f"amount {n}" for n in range(6)])
    with db.write() as conn:
        conn.execute(
            sa.update(entry_versions)
            .where(entry_versions.c.text.in_(["amount 0", "amount 1", "amount 2"]))
            .values(text="amount is whatever I say")
        )
    assert found(db, store, "amount", limit=2) == ["amount 3", "amount 4"]
    assert len(found(db, store, "amount")) == 3
    assert [hit.score for hit in find.search(db, store, SCOPE, "amount").hits] == [
        1 / 61,
        1 / 62,
        1 / 63,
    ]
    for limit in (4, 6):
        shown = find.relevant(db, store, SCOPE, ["amount"], limit=limit)
        assert [entry.text for entry in shown] == ["amount 3", "amount 4", "amount 5"]


def test_a_shard_of_a_ledger_that_was_since_replaced_is_not_used(db, store, tmp_path):
    write_many(db, ["old amount", "old price"])
    rebuild(db, store)
    assert found(db, store, "amount") == ["old amount"]
    other = open_database(f"sqlite:///{tmp_path / 'other.db'}")
    try:
        administer.create_scope(other, SCOPE, now_us=NOW)
        write_many(other, ["new amount"])
        assert found(other, store, "amount") == ["new amount"]
        write_many(other, ["newer amount"], at=NOW + 1)
        rebuild(other, store)
        assert set(found(other, store, "amount")) == {"new amount", "newer amount"}
    finally:
        other.close()
    assert found(db, store, "amount") == ["old amount"], "a restored ledger, one revision behind"


def test_a_torn_shard_costs_time_and_no_answer(db, store):
    write_many(db, [f"{AMOUNT} word{n}" for n in range(40)])
    expected = find.search(db, store, SCOPE, "金额 word7")
    rebuild(db, store)
    assert find.search(db, store, SCOPE, "金额 word7") == expected
    [path] = store.index_path.rglob("*.duckdb")
    content = path.read_bytes()
    for start in range(0, len(content), len(content) // 16):
        shards.close_all()
        path.write_bytes(content[:start] + bytes(4096) + content[start + 4096 :])
        assert find.search(db, store, SCOPE, "金额 word7") == expected
    path.write_text("not a database")
    assert find.search(db, store, SCOPE, "金额 word7") == expected
    rebuild(db, store)
    assert find.search(db, store, SCOPE, "金额 word7") == expected


def test_an_index_folder_that_cannot_be_written_costs_time_and_no_answer(db, store):
    write_many(db, ["amount", "price"])
    store.index_path.write_text("a file")
    assert found(db, store, "amount") == ["amount"]
    with pytest.raises(IndexUnwritable):
        rebuild(db, store)


def test_searching_while_others_write_and_build_sees_whole_revisions(db, store):
    write_many(db, ["amount 0"])
    errors: list[BaseException] = []

    def read() -> None:
        try:
            seen = 0
            while seen < 12:
                result = find.search(db, store, SCOPE, "amount", limit=50)
                assert len(result.hits) == result.memory.revision >= seen
                seen = result.memory.revision
        except BaseException as error:  # noqa: BLE001 - judged by the thread that started this one
            errors.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for n in range(1, 12):
        write_many(db, [f"amount {n}"], at=NOW + n)
        if n % 3 == 0:
            rebuild(db, store)
    for reader in readers:
        reader.join(60)
    assert errors == []


def test_relevant_is_everything_in_order_while_that_fits(db, store):
    write_many(db, ["b note", "a note", "c other"])
    shown = find.relevant(db, store, SCOPE, ["nothing of this"], limit=3)
    assert [entry.text for entry in shown] == ["b note", "a note", "c other"]
    assert [entry.entry_id for entry in shown] == sorted(entry.entry_id for entry in shown)
    assert find.relevant(db, store, SCOPE, ["note"], limit=0) == []


def test_relevant_is_the_best_when_there_are_more(db, store):
    write_many(db, [f"filler {n}" for n in range(600)] + [AMOUNT, "amounts in cents", "价格"])
    sources = ["we changed the amount field", "订单金额 is in cents now", "how about the weather"]
    shown = find.relevant(db, store, SCOPE, sources, limit=5)
    assert {entry.text for entry in shown} == {AMOUNT, "amounts in cents"}
    rebuild(db, store)
    again = find.relevant(db, store, SCOPE, sources, limit=5)
    assert again == shown, "from a shard as from rows"
    assert find.relevant(db, store, SCOPE, [], limit=5) == []
    assert find.relevant(db, store, SCOPE, ["", "😀"], limit=5) == []


def test_relevant_takes_the_largest_windows(db, store):
    write_many(db, [f"word{n} filler" for n in range(100)])
    texts = [f"word{n % 100} " * 20_000 for n in range(0, 1000, 10)]
    shown = find.relevant(db, store, SCOPE, texts, limit=64)
    assert {entry.text for entry in shown} == {f"word{n} filler" for n in range(0, 100, 10)}
