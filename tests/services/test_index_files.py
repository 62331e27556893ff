"""Building the files of the search index by hand: their number and names, vectors, leftovers."""

import os
import time

import pytest
from indexed import add, built, shop
from model_stub import EMBEDDING_DIMS, EMBEDDING_MODEL, status

from pc_store.errors import InvalidInput
from pc_store.search import building
from pc_store.services.clock import now_us
from pc_store.services.index import build, remove_leftovers, shard_count
from pc_store.services.index_names import shard_names, shard_number
from pc_store.settings import Settings


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
