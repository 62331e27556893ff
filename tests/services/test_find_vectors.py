"""Which vectors a search by meaning covers: of the index, of the ledger, made for the answer."""

import threading

import numpy as np
import pytest
import sqlalchemy as sa
from compass import NOW, PROFILE, SCOPE, Compass, built, embed_all, rebuild, search, texts_of, write

from pc_store.domain.text import digest
from pc_store.ledger import vectors
from pc_store.ledger.schema import vectors as vectors_table
from pc_store.llm import providers
from pc_store.search import nearest, shards
from pc_store.services import embed, gather, index_build, remember
from pc_store.services.blend import Coverage


def test_a_few_texts_without_a_vector_are_embedded_for_the_answer_and_nothing_is_written(
    shop_db, compass_store, compass
):
    write(shop_db, "cash", "coins", "rain")
    embed_all(shop_db, compass, "cash")
    result = search(shop_db, compass_store, "money", "vector")
    assert (texts_of(result), result.coverage) == (["cash", "coins"], Coverage(3, 3))
    assert sorted(compass.asked) == ["coins", "money", "rain"]
    with shop_db.read() as conn:
        kept = conn.execute(sa.select(vectors_table.c.text_digest)).scalars().all()
    assert kept == [digest("cash")]


@pytest.mark.parametrize("built", [False, True])
def test_many_texts_without_a_vector_are_left_to_their_words(
    shop_db, compass_store, compass, monkeypatch, built
):
    monkeypatch.setattr(gather, "EMBED_MAX", 2)
    write(shop_db, "cash", "coins", "rain", "weather")
    embed_all(shop_db, compass, "cash")
    if built:
        rebuild(shop_db, compass_store)
    result = search(shop_db, compass_store, "money", "vector")
    assert (texts_of(result), result.coverage) == (["cash"], Coverage(4, 1))
    assert set(texts_of(search(shop_db, compass_store, "coins money", "hybrid"))) == {
        "coins",
        "cash",
    }
    assert compass.asked == ["money", "coins money"]


def test_vectors_that_came_after_a_build_are_compared(shop_db, compass_store, compass):
    write(shop_db, "cash", "coins", "rain")
    rebuild(shop_db, compass_store)
    embed_all(shop_db, compass, "cash", "coins", "rain")
    before = search(shop_db, compass_store, "money", "vector")
    assert (texts_of(before), before.coverage) == (["cash", "coins"], Coverage(3, 3))
    assert index_build.build(shop_db, compass_store, shards.shard_of(SCOPE, 16)) is not None
    [covered] = shards.open_current(
        compass_store.index_path, shards.shard_of(SCOPE, 16), 16
    ).covered.values()
    assert covered.vectors == 3
    assert search(shop_db, compass_store, "money", "vector") == before


def test_a_shard_of_another_profile_serves_words_and_the_ledger_the_vectors(
    shop_db, compass_store, compass, monkeypatch
):
    write(shop_db, "cash", "coins")
    old = Compass()
    old.profile, old.dims = "old:model:5:unit", 5
    with monkeypatch.context() as before:
        before.setattr(providers, "embedder", lambda *_, **__: old)
        rebuild(shop_db, compass_store)
    assert built(compass_store).profile == "old:model:5:unit"
    embed_all(shop_db, compass, "cash", "coins")
    result = search(shop_db, compass_store, "money", "hybrid")
    assert (texts_of(result), result.coverage) == (["cash", "coins"], Coverage(2, 2))


def test_unsound_vectors_in_the_ledger_are_as_if_they_were_not_there(
    shop_db, compass_store, compass
):
    write(shop_db, "cash", "coins", "rain")
    embed_all(shop_db, compass, "cash")
    bad = {digest("coins"): np.full(3, np.nan, "f4"), digest("rain"): np.ones(7, "f4")}
    with shop_db.write() as conn:
        vectors.put(conn, PROFILE, bad)
    result = search(shop_db, compass_store, "money", "vector")
    assert (texts_of(result), result.coverage) == (["cash", "coins"], Coverage(3, 3))
    assert (compass.asked[0], sorted(compass.asked)) == ("money", ["coins", "money", "rain"])
    rebuild(shop_db, compass_store)
    [covered] = built(compass_store).covered.values()
    assert covered.vectors == 1
    assert search(shop_db, compass_store, "money", "vector") == result
    embed_all(shop_db, compass, "coins", "rain")
    with shop_db.read() as conn:
        assert len(vectors.get(conn, PROFILE, [digest("coins"), digest("rain")])) == 2


def test_an_embedder_that_fails_for_texts_costs_only_their_vectors(shop_db, compass_store, compass):
    write(shop_db, "cash", "coins")
    embed_all(shop_db, compass, "cash")
    embedder = embed.embedder(shop_db, compass_store)
    assert embedder is not None
    embedder.embed(["money"])
    compass.failing = True
    result = search(shop_db, compass_store, "money", "vector")
    assert (texts_of(result), result.coverage) == (["cash"], Coverage(2, 1))


def test_a_text_that_cannot_be_embedded_costs_no_other_its_vector(shop_db, compass_store, compass):
    write(shop_db, "cash", "coins", "rain")
    compass.unreadable = {"coins"}
    result = search(shop_db, compass_store, "money", "vector")
    assert (texts_of(result), result.coverage) == (["cash"], Coverage(3, 2))
    compass.asked.clear()
    assert search(shop_db, compass_store, "money", "vector") == result
    assert "coins" not in compass.asked


def test_a_retired_or_purged_text_is_not_found_by_its_meaning(shop_db, compass_store, compass):
    from pc_store.services.purge import purge

    cash, coins, _ = write(shop_db, "cash", "coins", "rain")
    embed_all(shop_db, compass, "cash", "coins", "rain")
    rebuild(shop_db, compass_store)
    retired = remember.cite(shop_db, SCOPE, cash.entry_id).citation
    remember.retire(shop_db, SCOPE, retired, now_us=NOW + 1)
    assert texts_of(search(shop_db, compass_store, "money", "vector")) == ["coins"]
    purge(shop_db, SCOPE, coins.entry_id, now_us=NOW + 2)
    assert texts_of(search(shop_db, compass_store, "money", "vector")) == []
    assert search(shop_db, compass_store, "rain", "vector").coverage == Coverage(1, 1)


def test_a_scope_with_an_hnsw_index_is_searched_through_it(shop_db, compass_store, compass):
    texts = [f"cash {n}" for n in range(40)] + [f"rain {n}" for n in range(40)]
    write(shop_db, *texts)
    embed_all(shop_db, compass, *texts)
    exact = search(shop_db, compass_store, "money", "vector")
    rebuild(shop_db, compass_store.model_copy(update={"hnsw_min_rows": 10}))
    [covered] = shards.open_current(
        compass_store.index_path, shards.shard_of(SCOPE, 16), 16
    ).covered.values()
    assert covered.hnsw
    found = search(shop_db, compass_store, "money", "vector")
    assert (found.mode, found.coverage) == ("vector", Coverage(80, 80))
    assert found == exact
    for hit in found.hits:
        remember.retire(
            shop_db,
            SCOPE,
            remember.cite(shop_db, SCOPE, hit.citation.entry_id).citation,
            now_us=NOW + 1,
        )
    rest = search(shop_db, compass_store, "money", "vector", limit=50)
    assert len(rest.hits) == 30
    assert not {hit.text for hit in rest.hits} & {hit.text for hit in found.hits}


def test_no_transaction_is_open_while_the_embedder_works(shop_db, compass_store, compass):
    write(shop_db, "cash", "coins")
    busy: list[bool] = []
    inner = compass.embed

    def watched(texts):
        busy.append(shop_db.engine.pool.checkedout() > 0)
        return inner(texts)

    compass.embed = watched
    search(shop_db, compass_store, "money", "vector")
    assert busy == [False, False]


def test_searches_in_threads_agree(shop_db, compass_store, compass):
    texts = [f"cash {n} coins" for n in range(30)]
    write(shop_db, *texts)
    embed_all(shop_db, compass, *texts)
    rebuild(shop_db, compass_store)
    expected = search(shop_db, compass_store, "money coins", "hybrid")
    seen = []
    threads = [
        threading.Thread(
            target=lambda: seen.extend(
                search(shop_db, compass_store, "money coins", "hybrid") for _ in range(5)
            )
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [expected] * 20


def test_a_large_matrix_is_not_kept_and_answers_alike(shop_db, compass_store, compass, monkeypatch):
    texts = [f"cash {n} coins" for n in range(30)]
    write(shop_db, *texts)
    embed_all(shop_db, compass, *texts)
    rebuild(shop_db, compass_store)
    expected = search(shop_db, compass_store, "money", "hybrid")
    monkeypatch.setattr(nearest, "_CACHED_SHARE", 0.0)
    assert search(shop_db, compass_store, "money", "hybrid") == expected
