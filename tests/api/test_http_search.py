"""Search by meaning over HTTP, with the encoder that the package carries."""

import pytest
from calls import new_scope, ok, ref, remember

from pc_store.services import backfill

STORED = "The database is slow today."
CHINESE = "订单金额以整数分存储。"
QUESTION = "数据库很慢"


@pytest.fixture
def meaning(serve):
    return serve()


@pytest.fixture
def filled(meaning):
    """A client, and a scope whose three texts have vectors."""
    with meaning.client() as api:
        scope = new_scope(api)
        for text in (STORED, "Lunch is at noon.", CHINESE):
            remember(api, scope, text)
        backfill.backfill(meaning.db, meaning.settings, [scope])
        yield api, scope


def search(api, scope, query, **fields):
    return ok(api.post("/v1/memory/search", json={"scope_id": scope, "query": query, **fields}))


def test_a_text_is_found_that_shares_no_word_with_the_question(filled):
    api, scope = filled
    assert search(api, scope, QUESTION, mode="fts")["hits"] == []
    found = search(
        api, scope, QUESTION, mode="vector", include=["channels", "coverage", "matched_terms"]
    )
    assert (found["memory"], found["mode"]) == (ref(3), "vector")
    assert found["coverage"] == {"active_entries": 3, "fts": 3, "vector": 3}
    first = found["hits"][0]
    assert (first["text"], first["matched_by"], first["matched_terms"]) == (STORED, ["vector"], [])
    assert first["score"] == pytest.approx(1 / 61)
    [channel] = first["channels"]
    assert (channel["channel"], channel["rank"]) == ("vector", 1)
    assert 0.3 <= channel["score"] <= 1


def test_hybrid_says_which_channels_found_a_hit(filled):
    api, scope = filled
    found = search(api, scope, "slow database", mode="hybrid", include=["channels"])
    first = found["hits"][0]
    assert (found["mode"], first["matched_by"]) == ("hybrid", ["fts", "vector"])
    assert first["score"] == pytest.approx(2 / 61)
    assert [(one["channel"], one["rank"]) for one in first["channels"]] == [
        ("fts", 1),
        ("vector", 1),
    ]


def test_auto_says_what_it_used(filled, meaning):
    api, scope = filled
    assert search(api, scope, "金额怎么存")["mode"] == "hybrid"
    assert search(api, scope, "slow database")["mode"] == "fts"
    other = new_scope(api)
    remember(api, other, CHINESE)
    embedded_when_written = search(api, other, "金额怎么存", include=["coverage"])
    has_vectors = embedded_when_written["coverage"]["vector"] > 0
    assert embedded_when_written["mode"] == ("hybrid" if has_vectors else "fts")


def test_capabilities_name_the_modes_that_can_be_asked_for(meaning, serve):
    with meaning.client() as api:
        found = ok(api.get("/v1/capabilities"))["search_modes"]
        assert found == ["auto", "fts", "vector", "hybrid"]
    with serve(embed_provider="none").client() as api:
        assert ok(api.get("/v1/capabilities"))["search_modes"] == ["auto", "fts"]
