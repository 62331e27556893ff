"""Search by meaning and by both: modes, what they need, how they are joined."""

import pytest
from compass import NOW, PROFILE, SCOPE, embed_all, rebuild, search, texts_of, write

from pc_store.domain.experience import Experience
from pc_store.domain.refs import ArtifactRef
from pc_store.errors import InvalidInput, NotSupported
from pc_store.ledger import artifacts, experiences
from pc_store.search.tokens import TOKENISER, terms_of
from pc_store.services import administer, blend, find, remember
from pc_store.services.blend import Coverage
from pc_store.services.prepare import prepare_context
from pc_store.settings import Settings


@pytest.mark.parametrize("built", [False, True])
def test_a_text_is_found_by_what_it_means(shop_db, compass_store, compass, built):
    write(shop_db, "cash", "coins", "rain")
    embed_all(shop_db, compass, "cash", "coins", "rain")
    if built:
        rebuild(shop_db, compass_store)
    result = search(shop_db, compass_store, "money?", "vector")
    assert (result.mode, result.coverage) == ("vector", Coverage(3, 3))
    assert [(hit.text, hit.score, dict(hit.channels)) for hit in result.hits] == [
        ("cash", 1 / 61, {"cosine": pytest.approx(0.96)}),
        ("coins", 1 / 62, {"cosine": pytest.approx(0.80)}),
    ]
    for hit in result.hits:
        assert (hit.matched_by, hit.matched_terms) == (("vector",), ())
    assert compass.asked == ["money?"], "texts with a vector are not embedded again"


@pytest.mark.parametrize("built", [False, True])
def test_hybrid_joins_both_rankings(shop_db, compass_store, compass, built):
    write(shop_db, "cash", "money is odd rain", "coins", "unrelated")
    embed_all(shop_db, compass, "cash", "money is odd rain", "coins", "unrelated")
    if built:
        rebuild(shop_db, compass_store)
    result = search(shop_db, compass_store, "money", "hybrid")
    assert result.mode == "hybrid"
    assert [(hit.text, dict(hit.ranks), hit.matched_by) for hit in result.hits] == [
        ("money is odd rain", {"fts": 1, "vector": 3}, ("fts", "vector")),
        ("cash", {"vector": 1}, ("vector",)),
        ("coins", {"vector": 2}, ("vector",)),
    ]
    assert [hit.score for hit in result.hits] == pytest.approx([1 / 61 + 1 / 63, 1 / 61, 1 / 62])
    first = result.hits[0]
    assert set(first.channels) == {"bm25", "cosine"}
    assert first.matched_terms == ("money",)
    by_words = compass_store.model_copy(update={"search_fts_weight": 4.0})
    assert texts_of(search(shop_db, by_words, "money", "hybrid"))[0] == "money is odd rain"
    by_meaning = compass_store.model_copy(update={"search_vector_weight": 50.0})
    assert texts_of(search(shop_db, by_meaning, "money", "hybrid"))[0] == "cash"


def test_ties_of_both_channels_are_in_order_of_entry_ids(shop_db, compass_store, compass):
    write(shop_db, "coins", "cash money", "cash  money", "cash money.")
    embed_all(shop_db, compass, "coins", "cash money", "cash  money", "cash money.")
    before = search(shop_db, compass_store, "money", "hybrid")
    ids = [hit.citation.entry_id for hit in before.hits if hit.text != "coins"]
    assert ids == sorted(ids)
    rebuild(shop_db, compass_store)
    assert search(shop_db, compass_store, "money", "hybrid") == before


def test_auto_is_hybrid_where_there_are_vectors_and_words_elsewhere(
    shop_db, compass_store, compass
):
    write(shop_db, "cash", "money")
    assert search(shop_db, compass_store, "money").mode == "fts"
    assert compass.asked == ["money"], "no text is embedded where there are no vectors"
    embed_all(shop_db, compass, "cash")
    result = search(shop_db, compass_store, "money")
    assert (result.mode, texts_of(result)) == ("hybrid", ["money", "cash"])
    fixed = compass_store.model_copy(update={"search_auto": "fts"})
    assert search(shop_db, fixed, "money").mode == "fts"


def test_auto_follows_what_was_measured_of_an_embedder(shop_db, tmp_path, compass, monkeypatch):
    settings = Settings(index_dir=tmp_path / "index")
    write(shop_db, "cash 金额", "money")
    embed_all(shop_db, compass, "cash 金额", "money")
    assert search(shop_db, settings, "money").mode == "hybrid"
    monkeypatch.setattr(blend, "EAST_ASIAN_WEIGHTS", {PROFILE: 0.05})
    assert search(shop_db, settings, "money").mode == "fts"
    assert search(shop_db, settings, "金额").mode == "hybrid"


@pytest.mark.parametrize("mode", ["vector", "hybrid"])
def test_a_mode_that_needs_an_embedder_is_refused_without_one(shop_db, tmp_path, mode):
    none = Settings(index_dir=tmp_path / "index", embed_provider="none")
    assert search(shop_db, none, "money", mode) == find.SearchResult(None)
    write(shop_db, "money")
    with pytest.raises(NotSupported) as caught:
        search(shop_db, none, "money", mode)
    assert caught.value.details == {"capability": mode}
    assert search(shop_db, none, "money").mode == "fts"


@pytest.mark.parametrize("mode", ["vector", "hybrid"])
def test_an_embedder_that_fails_refuses_what_needs_it_and_costs_auto_nothing(
    shop_db, compass_store, compass, mode
):
    write(shop_db, "money", "cash")
    embed_all(shop_db, compass, "money", "cash")
    compass.failing = True
    with pytest.raises(NotSupported) as caught:
        search(shop_db, compass_store, "money?", mode)
    assert caught.value.details == {"capability": mode}
    result = search(shop_db, compass_store, "money?")
    assert (result.mode, texts_of(result)) == ("fts", ["money"])
    assert search(shop_db, compass_store, "money", mode).mode == mode, (
        "an entry's text has its vector"
    )


def test_a_context_of_many_scopes_embeds_its_question_once(shop_db, compass_store, compass):
    for name in ("near", "far"):
        administer.create_scope(shop_db, name, now_us=NOW)
        remember.remember(shop_db, name, kind="fact", text=f"money is {name}", now_us=NOW)
    administer.create_scope(shop_db, "asking", context_references=["near", "far"], now_us=NOW)
    compass.failing = True
    prepared = prepare_context(shop_db, compass_store, "asking", "money?")
    assert {item.found.scope_id for item in prepared.items} == {"near", "far"}
    assert compass.asked == ["money?"]


@pytest.mark.parametrize("mode", ["auto", "fts", "vector", "hybrid"])
@pytest.mark.parametrize("query", ["the of and", "。？", "😀", "如何", "`"])
def test_a_query_without_content_finds_nothing_in_any_mode(
    shop_db, compass_store, compass, mode, query
):
    write(shop_db, "cash", "😀 the of and 如何")
    embed_all(shop_db, compass, "cash")
    result = search(shop_db, compass_store, query, mode)
    assert (result.hits, result.memory) == ((), ArtifactRef("memory", "memory", 1))
    assert result.mode == ("hybrid" if mode == "auto" else mode)
    assert compass.asked in ([], ["😀 the of and 如何"])


@pytest.mark.parametrize("mode", ["auto", "fts", "vector", "hybrid"])
def test_a_blank_query_is_refused_in_every_mode(shop_db, compass_store, compass, mode):
    assert search(shop_db, compass_store, " ", mode) == find.SearchResult(None)
    write(shop_db, "cash")
    with pytest.raises(InvalidInput) as caught:
        search(shop_db, compass_store, " \n\u3000", mode)
    assert caught.value.field == "query"


def test_words_added_to_a_query_remove_no_hit_that_its_words_found(shop_db, compass_store, compass):
    texts = ["money", "money rain", "weather money", "cash"]
    write(shop_db, *texts)
    embed_all(shop_db, compass, *texts)
    query = "money"
    for word in ("please", "rain", "weather", "without", "字段"):
        query += f" {word}"
        assert {"money", "money rain", "weather money"} <= set(
            texts_of(search(shop_db, compass_store, query, "hybrid"))
        )


def test_fewer_hits_are_the_beginning_of_more(shop_db, compass_store, compass):
    texts = [f"money {n} " + " ".join(["cash"] * (n % 5)) for n in range(60)]
    write(shop_db, *texts)
    embed_all(shop_db, compass, *texts)
    most = texts_of(search(shop_db, compass_store, "money cash", "hybrid", limit=50))
    for limit in (1, 7, 20):
        assert (
            texts_of(search(shop_db, compass_store, "money cash", "hybrid", limit=limit))
            == most[:limit]
        )


def test_experiences_are_found_by_words_and_by_meaning(shop_db, compass_store, compass):
    def tell(number, situation):
        content = Experience(situation=situation, action="odd", outcome="odd", lesson="odd")
        ref = ArtifactRef("experience", f"exp_{number}", 1)
        with shop_db.write() as conn:
            artifacts.ensure(conn, SCOPE, "experience", ref.artifact_id, now_us=NOW)
            artifacts.commit(
                conn,
                SCOPE,
                "experience",
                ref.artifact_id,
                expected=0,
                content=content.to_json(),
                reason=None,
                origin="explicit",
                window_id=None,
                now_us=NOW,
            )
            experiences.put_document(
                conn,
                SCOPE,
                ref,
                content,
                terms=terms_of(content.document_text()),
                terms_version=TOKENISER,
                now_us=NOW,
            )
        return ref, content

    def found(mode):
        return find.search_experiences(shop_db, compass_store, SCOPE, "money", mode=mode)

    for mode in ("auto", "fts", "vector", "hybrid"):
        assert found(mode) == find.ExperienceResult(None)
    money, cash, _ = (tell(n, text) for n, text in enumerate(["money rain", "cash", "weather"]))
    before = [found(mode) for mode in ("fts", "vector", "hybrid")]
    rebuild(shop_db, compass_store)
    after = [found(mode) for mode in ("fts", "vector", "hybrid")]
    assert after == before
    by_words, by_meaning, both = before
    assert [(hit.ref, hit.content) for hit in by_words.hits] == [money]
    assert [(hit.ref, hit.content) for hit in by_meaning.hits] == [cash, money]
    assert [hit.ref for hit in both.hits] == [money[0], cash[0]]
    assert (both.mode, both.coverage) == ("hybrid", Coverage(3, 3))
    assert both.hits[0].matched_by == ("fts", "vector")
    with shop_db.write() as conn:
        experiences.drop_document(conn, SCOPE, "exp_0")
    assert [hit.ref for hit in found("hybrid").hits] == [cash[0]]
