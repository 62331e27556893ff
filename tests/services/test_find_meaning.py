"""Search by meaning and by both: modes, what they need, what they cover, how they are joined."""

import threading

import numpy as np
import pytest
import sqlalchemy as sa

from pc_store.domain.entry import Draft
from pc_store.domain.experience import Experience
from pc_store.domain.refs import ArtifactRef
from pc_store.domain.text import digest
from pc_store.errors import InvalidInput, ModelAnsweredBadly, ModelUnavailable, NotSupported
from pc_store.ledger import artifacts, experiences, vectors
from pc_store.ledger.database import open_database
from pc_store.ledger.schema import vectors as vectors_table
from pc_store.llm import providers
from pc_store.llm.embeddings import Embedded
from pc_store.search import nearest, shards
from pc_store.search.tokens import TOKENISER, terms_of
from pc_store.services import administer, blend, embed, find, gather, index_build, remember
from pc_store.services.blend import Coverage
from pc_store.services.commit import commit_drafts
from pc_store.services.prepare import prepare_context
from pc_store.settings import Settings

SCOPE = "shop"
NOW = 1_700_000_000_000_000
PROFILE = "test:made-up:3:unit"
DIRECTIONS = {
    "money": (1.0, 0.0, 0.0),
    "cash": (0.96, 0.28, 0.0),
    "coins": (0.8, 0.6, 0.0),
    "weather": (0.0, 0.0, 1.0),
    "rain": (0.0, 0.28, 0.96),
}


class Compass:
    """An embedder of three dimensions: a text points where the words it knows point."""

    profile = PROFILE
    dims = 3

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.failing = False
        self.unreadable: set[str] = set()

    def embed(self, texts):
        self.asked += texts
        if self.failing:
            raise ModelUnavailable("it is down")
        made = np.zeros((len(texts), 3), dtype=np.float32)
        for place, text in enumerate(texts):
            for word in text.lower().split():
                made[place] += np.array(DIRECTIONS.get(word.strip("?.,"), (0, 0.001, 0)), "f4")
            made[place] /= np.linalg.norm(made[place])
        return made

    def attempt(self, texts):
        places = [place for place, text in enumerate(texts) if text not in self.unreadable]
        odd = {place: ModelAnsweredBadly("odd") for place in range(len(texts))}
        try:
            made = self.embed([texts[place] for place in places])
            failed = {place: odd[place] for place in odd.keys() - set(places)}
            return Embedded(dict(zip(places, made, strict=True)), failed)
        except ModelUnavailable as error:
            return Embedded({}, {}, error)


@pytest.fixture
def db(new_database):
    database = open_database(new_database(lambda url: open_database(url).close()))
    administer.create_scope(database, SCOPE, now_us=NOW)
    yield database
    database.close()


@pytest.fixture
def compass(db, monkeypatch):
    """The embedder in force, whatever the settings say."""
    inner = Compass()
    monkeypatch.setattr(providers, "embedder", lambda *_, **__: inner)
    shards.kept.clear()
    return inner


@pytest.fixture
def store(tmp_path):
    return Settings(index_dir=tmp_path / "index", search_auto="hybrid")


def write(db, *texts, at=NOW):
    with db.write() as conn:
        drafts = [Draft("add", "fact", text) for text in texts]
        return commit_drafts(conn, SCOPE, drafts, origin="explicit", now_us=at).changed


def embed_all(db, compass, *texts):
    made = Compass().embed(list(texts))
    with db.write() as conn:
        vectors.put(conn, PROFILE, {digest(text): made[n] for n, text in enumerate(texts)})


def rebuild(db, store):
    return index_build.build(db, store, shards.shard_of(SCOPE, 16), force=True)


def built(store):
    return shards.open_current(store.index_path, shards.shard_of(SCOPE, 16), 16)


def search(db, store, query, mode="auto", **more):
    return find.search(db, store, SCOPE, query, mode=mode, **more)


def texts_of(result):
    return [hit.text for hit in result.hits]


@pytest.mark.parametrize("built", [False, True])
def test_a_text_is_found_by_what_it_means(db, store, compass, built):
    write(db, "cash", "coins", "rain")
    embed_all(db, compass, "cash", "coins", "rain")
    if built:
        rebuild(db, store)
    result = search(db, store, "money?", "vector")
    assert (result.mode, result.coverage) == ("vector", Coverage(3, 3))
    assert [(hit.text, hit.score, dict(hit.channels)) for hit in result.hits] == [
        ("cash", 1 / 61, {"cosine": pytest.approx(0.96)}),
        ("coins", 1 / 62, {"cosine": pytest.approx(0.80)}),
    ]
    for hit in result.hits:
        assert (hit.matched_by, hit.matched_terms) == (("vector",), ())
    assert compass.asked == ["money?"], "texts with a vector are not embedded again"


@pytest.mark.parametrize("built", [False, True])
def test_hybrid_joins_both_rankings(db, store, compass, built):
    write(db, "cash", "money is odd rain", "coins", "unrelated")
    embed_all(db, compass, "cash", "money is odd rain", "coins", "unrelated")
    if built:
        rebuild(db, store)
    result = search(db, store, "money", "hybrid")
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
    by_words = store.model_copy(update={"search_fts_weight": 4.0})
    assert texts_of(search(db, by_words, "money", "hybrid"))[0] == "money is odd rain"
    by_meaning = store.model_copy(update={"search_vector_weight": 50.0})
    assert texts_of(search(db, by_meaning, "money", "hybrid"))[0] == "cash"


def test_ties_of_both_channels_are_in_order_of_entry_ids(db, store, compass):
    write(db, "coins", "cash money", "cash  money", "cash money.")
    embed_all(db, compass, "coins", "cash money", "cash  money", "cash money.")
    before = search(db, store, "money", "hybrid")
    ids = [hit.citation.entry_id for hit in before.hits if hit.text != "coins"]
    assert ids == sorted(ids)
    rebuild(db, store)
    assert search(db, store, "money", "hybrid") == before


def test_auto_is_hybrid_where_there_are_vectors_and_words_elsewhere(db, store, compass):
    write(db, "cash", "money")
    assert search(db, store, "money").mode == "fts"
    assert compass.asked == ["money"], "no text is embedded where there are no vectors"
    embed_all(db, compass, "cash")
    result = search(db, store, "money")
    assert (result.mode, texts_of(result)) == ("hybrid", ["money", "cash"])
    fixed = store.model_copy(update={"search_auto": "fts"})
    assert search(db, fixed, "money").mode == "fts"


def test_auto_follows_what_was_measured_of_an_embedder(db, tmp_path, compass, monkeypatch):
    settings = Settings(index_dir=tmp_path / "index")
    write(db, "cash 金额", "money")
    embed_all(db, compass, "cash 金额", "money")
    assert search(db, settings, "money").mode == "hybrid"
    monkeypatch.setattr(blend, "EAST_ASIAN_WEIGHTS", {PROFILE: 0.05})
    assert search(db, settings, "money").mode == "fts"
    assert search(db, settings, "金额").mode == "hybrid"


def test_a_few_texts_without_a_vector_are_embedded_for_the_answer_and_nothing_is_written(
    db, store, compass
):
    write(db, "cash", "coins", "rain")
    embed_all(db, compass, "cash")
    result = search(db, store, "money", "vector")
    assert (texts_of(result), result.coverage) == (["cash", "coins"], Coverage(3, 3))
    assert sorted(compass.asked) == ["coins", "money", "rain"]
    with db.read() as conn:
        kept = conn.execute(sa.select(vectors_table.c.text_digest)).scalars().all()
    assert kept == [digest("cash")]


@pytest.mark.parametrize("built", [False, True])
def test_many_texts_without_a_vector_are_left_to_their_words(
    db, store, compass, monkeypatch, built
):
    monkeypatch.setattr(gather, "EMBED_MAX", 2)
    write(db, "cash", "coins", "rain", "weather")
    embed_all(db, compass, "cash")
    if built:
        rebuild(db, store)
    result = search(db, store, "money", "vector")
    assert (texts_of(result), result.coverage) == (["cash"], Coverage(4, 1))
    assert set(texts_of(search(db, store, "coins money", "hybrid"))) == {"coins", "cash"}
    assert compass.asked == ["money", "coins money"]


def test_vectors_that_came_after_a_build_are_compared(db, store, compass):
    write(db, "cash", "coins", "rain")
    rebuild(db, store)
    embed_all(db, compass, "cash", "coins", "rain")
    before = search(db, store, "money", "vector")
    assert (texts_of(before), before.coverage) == (["cash", "coins"], Coverage(3, 3))
    assert index_build.build(db, store, shards.shard_of(SCOPE, 16)) is not None
    [covered] = shards.open_current(
        store.index_path, shards.shard_of(SCOPE, 16), 16
    ).covered.values()
    assert covered.vectors == 3
    assert search(db, store, "money", "vector") == before


def test_a_shard_of_another_profile_serves_words_and_the_ledger_the_vectors(
    db, store, compass, monkeypatch
):
    write(db, "cash", "coins")
    old = Compass()
    old.profile, old.dims = "old:model:5:unit", 5
    with monkeypatch.context() as before:
        before.setattr(providers, "embedder", lambda *_, **__: old)
        rebuild(db, store)
    assert built(store).profile == "old:model:5:unit"
    embed_all(db, compass, "cash", "coins")
    result = search(db, store, "money", "hybrid")
    assert (texts_of(result), result.coverage) == (["cash", "coins"], Coverage(2, 2))


def test_unsound_vectors_in_the_ledger_are_as_if_they_were_not_there(db, store, compass):
    write(db, "cash", "coins", "rain")
    embed_all(db, compass, "cash")
    bad = {digest("coins"): np.full(3, np.nan, "f4"), digest("rain"): np.ones(7, "f4")}
    with db.write() as conn:
        vectors.put(conn, PROFILE, bad)
    result = search(db, store, "money", "vector")
    assert (texts_of(result), result.coverage) == (["cash", "coins"], Coverage(3, 3))
    assert (compass.asked[0], sorted(compass.asked)) == ("money", ["coins", "money", "rain"])
    rebuild(db, store)
    [covered] = built(store).covered.values()
    assert covered.vectors == 1
    assert search(db, store, "money", "vector") == result
    embed_all(db, compass, "coins", "rain")
    with db.read() as conn:
        assert len(vectors.get(conn, PROFILE, [digest("coins"), digest("rain")])) == 2


@pytest.mark.parametrize("mode", ["vector", "hybrid"])
def test_a_mode_that_needs_an_embedder_is_refused_without_one(db, tmp_path, mode):
    none = Settings(index_dir=tmp_path / "index", embed_provider="none")
    assert search(db, none, "money", mode) == find.SearchResult(None)
    write(db, "money")
    with pytest.raises(NotSupported) as caught:
        search(db, none, "money", mode)
    assert caught.value.details == {"capability": mode}
    assert search(db, none, "money").mode == "fts"


@pytest.mark.parametrize("mode", ["vector", "hybrid"])
def test_an_embedder_that_fails_refuses_what_needs_it_and_costs_auto_nothing(
    db, store, compass, mode
):
    write(db, "money", "cash")
    embed_all(db, compass, "money", "cash")
    compass.failing = True
    with pytest.raises(NotSupported) as caught:
        search(db, store, "money?", mode)
    assert caught.value.details == {"capability": mode}
    result = search(db, store, "money?")
    assert (result.mode, texts_of(result)) == ("fts", ["money"])
    assert search(db, store, "money", mode).mode == mode, "an entry's text has its vector"


def test_an_embedder_that_fails_for_texts_costs_only_their_vectors(db, store, compass):
    write(db, "cash", "coins")
    embed_all(db, compass, "cash")
    embedder = embed.embedder(db, store)
    assert embedder is not None
    embedder.embed(["money"])
    compass.failing = True
    result = search(db, store, "money", "vector")
    assert (texts_of(result), result.coverage) == (["cash"], Coverage(2, 1))


def test_a_text_that_cannot_be_embedded_costs_no_other_its_vector(db, store, compass):
    write(db, "cash", "coins", "rain")
    compass.unreadable = {"coins"}
    result = search(db, store, "money", "vector")
    assert (texts_of(result), result.coverage) == (["cash"], Coverage(3, 2))
    compass.asked.clear()
    assert search(db, store, "money", "vector") == result
    assert "coins" not in compass.asked


def test_a_context_of_many_scopes_embeds_its_question_once(db, store, compass):
    for name in ("near", "far"):
        administer.create_scope(db, name, now_us=NOW)
        remember.remember(db, name, kind="fact", text=f"money is {name}", now_us=NOW)
    administer.create_scope(db, "asking", context_references=["near", "far"], now_us=NOW)
    compass.failing = True
    prepared = prepare_context(db, store, "asking", "money?")
    assert {item.found.scope_id for item in prepared.items} == {"near", "far"}
    assert compass.asked == ["money?"]


@pytest.mark.parametrize("mode", ["auto", "fts", "vector", "hybrid"])
@pytest.mark.parametrize("query", ["the of and", "。？", "😀", "如何", "`"])
def test_a_query_without_content_finds_nothing_in_any_mode(db, store, compass, mode, query):
    write(db, "cash", "😀 the of and 如何")
    embed_all(db, compass, "cash")
    result = search(db, store, query, mode)
    assert (result.hits, result.memory) == ((), ArtifactRef("memory", "memory", 1))
    assert result.mode == ("hybrid" if mode == "auto" else mode)
    assert compass.asked in ([], ["😀 the of and 如何"])


@pytest.mark.parametrize("mode", ["auto", "fts", "vector", "hybrid"])
def test_a_blank_query_is_refused_in_every_mode(db, store, compass, mode):
    assert search(db, store, " ", mode) == find.SearchResult(None)
    write(db, "cash")
    with pytest.raises(InvalidInput) as caught:
        search(db, store, " \n\u3000", mode)
    assert caught.value.field == "query"


def test_words_added_to_a_query_remove_no_hit_that_its_words_found(db, store, compass):
    texts = ["money", "money rain", "weather money", "cash"]
    write(db, *texts)
    embed_all(db, compass, *texts)
    query = "money"
    for word in ("please", "rain", "weather", "without", "字段"):
        query += f" {word}"
        assert {"money", "money rain", "weather money"} <= set(
            texts_of(search(db, store, query, "hybrid"))
        )


def test_fewer_hits_are_the_beginning_of_more(db, store, compass):
    texts = [f"money {n} " + " ".join(["cash"] * (n % 5)) for n in range(60)]
    write(db, *texts)
    embed_all(db, compass, *texts)
    most = texts_of(search(db, store, "money cash", "hybrid", limit=50))
    for limit in (1, 7, 20):
        assert texts_of(search(db, store, "money cash", "hybrid", limit=limit)) == most[:limit]


def test_a_retired_or_purged_text_is_not_found_by_its_meaning(db, store, compass):
    from pc_store.services.purge import purge

    cash, coins, _ = write(db, "cash", "coins", "rain")
    embed_all(db, compass, "cash", "coins", "rain")
    rebuild(db, store)
    retired = remember.cite(db, SCOPE, cash.entry_id).citation
    remember.retire(db, SCOPE, retired, now_us=NOW + 1)
    assert texts_of(search(db, store, "money", "vector")) == ["coins"]
    purge(db, SCOPE, coins.entry_id, now_us=NOW + 2)
    assert texts_of(search(db, store, "money", "vector")) == []
    assert search(db, store, "rain", "vector").coverage == Coverage(1, 1)


def test_a_scope_with_an_hnsw_index_is_searched_through_it(db, store, compass):
    texts = [f"cash {n}" for n in range(40)] + [f"rain {n}" for n in range(40)]
    write(db, *texts)
    embed_all(db, compass, *texts)
    exact = search(db, store, "money", "vector")
    rebuild(db, store.model_copy(update={"hnsw_min_rows": 10}))
    [covered] = shards.open_current(
        store.index_path, shards.shard_of(SCOPE, 16), 16
    ).covered.values()
    assert covered.hnsw
    found = search(db, store, "money", "vector")
    assert (found.mode, found.coverage) == ("vector", Coverage(80, 80))
    assert found == exact
    for hit in found.hits:
        remember.retire(
            db, SCOPE, remember.cite(db, SCOPE, hit.citation.entry_id).citation, now_us=NOW + 1
        )
    rest = search(db, store, "money", "vector", limit=50)
    assert len(rest.hits) == 30
    assert not {hit.text for hit in rest.hits} & {hit.text for hit in found.hits}


def test_no_transaction_is_open_while_the_embedder_works(db, store, compass):
    write(db, "cash", "coins")
    busy: list[bool] = []
    inner = compass.embed

    def watched(texts):
        busy.append(db.engine.pool.checkedout() > 0)
        return inner(texts)

    compass.embed = watched
    search(db, store, "money", "vector")
    assert busy == [False, False]


def test_searches_in_threads_agree(db, store, compass):
    texts = [f"cash {n} coins" for n in range(30)]
    write(db, *texts)
    embed_all(db, compass, *texts)
    rebuild(db, store)
    expected = search(db, store, "money coins", "hybrid")
    seen = []
    threads = [
        threading.Thread(
            target=lambda: seen.extend(search(db, store, "money coins", "hybrid") for _ in range(5))
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [expected] * 20


def test_a_large_matrix_is_not_kept_and_answers_alike(db, store, compass, monkeypatch):
    texts = [f"cash {n} coins" for n in range(30)]
    write(db, *texts)
    embed_all(db, compass, *texts)
    rebuild(db, store)
    expected = search(db, store, "money", "hybrid")
    monkeypatch.setattr(nearest, "_CACHED_SHARE", 0.0)
    assert search(db, store, "money", "hybrid") == expected


def test_experiences_are_found_by_words_and_by_meaning(db, store, compass):
    def tell(number, situation):
        content = Experience(situation=situation, action="odd", outcome="odd", lesson="odd")
        ref = ArtifactRef("experience", f"exp_{number}", 1)
        with db.write() as conn:
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
        return find.search_experiences(db, store, SCOPE, "money", mode=mode)

    for mode in ("auto", "fts", "vector", "hybrid"):
        assert found(mode) == find.ExperienceResult(None)
    money, cash, _ = (tell(n, text) for n, text in enumerate(["money rain", "cash", "weather"]))
    before = [found(mode) for mode in ("fts", "vector", "hybrid")]
    rebuild(db, store)
    after = [found(mode) for mode in ("fts", "vector", "hybrid")]
    assert after == before
    by_words, by_meaning, both = before
    assert [(hit.ref, hit.content) for hit in by_words.hits] == [money]
    assert [(hit.ref, hit.content) for hit in by_meaning.hits] == [cash, money]
    assert [hit.ref for hit in both.hits] == [money[0], cash[0]]
    assert (both.mode, both.coverage) == ("hybrid", Coverage(3, 3))
    assert both.hits[0].matched_by == ("fts", "vector")
    with db.write() as conn:
        experiences.drop_document(conn, SCOPE, "exp_0")
    assert [hit.ref for hit in found("hybrid").hits] == [cash[0]]
