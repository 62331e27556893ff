"""Requests with an idempotency key: executed once, answered alike, whatever happens meanwhile."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pc_store.errors import IdempotencyConflict, InvalidInput, ScopeNotFound
from pc_store.services import remember
from pc_store.services.read_memory import page_entries
from pc_store.services.replayable import (
    ABANDONED_S,
    KEPT_S,
    Answer,
    once,
    once_around_model,
)

NOW = 1_700_000_000_000_000
ROUTE = "POST /v1/memory/remember"


def ask(db, text="Prices are in cents.", *, key="k", principal="", route=ROUTE, now_us=NOW):
    """Remember a text under a key."""

    def act(joined):
        done = remember.remember(joined, "shop", kind="fact", text=text, now_us=now_us)
        return Answer(200, {"entry": done.entry and done.entry.citation.entry_id})

    return once(
        db, principal=principal, route=route, key=key, body={"text": text}, act=act, now_us=now_us
    )


def texts(db):
    return [one.entry.text for one in page_entries(db, "shop").entries]


def test_the_same_request_again_gets_the_first_answer(shop_db):
    first = ask(shop_db)
    assert not first.replayed
    assert first.body["entry"] is not None
    assert ask(shop_db) == Answer(200, first.body, replayed=True)
    assert ask(shop_db, key=None).body == {"entry": None}


def test_another_request_under_the_key_is_refused(shop_db):
    ask(shop_db)
    with pytest.raises(IdempotencyConflict) as caught:
        ask(shop_db, "Something else.")
    assert caught.value.details == {"reason": "other request"}
    assert texts(shop_db) == ["Prices are in cents."]


def test_keys_belong_to_a_principal_and_a_route(shop_db):
    ask(shop_db)
    assert not ask(shop_db, principal="ann").replayed
    assert not ask(shop_db, route="POST /v1/memory/other").replayed
    assert ask(shop_db, principal="ann").replayed


def test_a_key_is_free_again_after_a_day(shop_db):
    ask(shop_db)
    assert ask(shop_db, now_us=NOW + KEPT_S * 1_000_000).replayed
    assert not ask(shop_db, now_us=NOW + KEPT_S * 1_000_000 + 1).replayed


@pytest.mark.parametrize("key", ["", " k", "k" * 257, "k\0"])
def test_a_key_that_breaks_a_rule_is_refused(shop_db, key):
    with pytest.raises(InvalidInput) as caught:
        ask(shop_db, key=key)
    assert caught.value.field == "Idempotency-Key"


def test_a_request_that_fails_writes_nothing_and_leaves_its_key_free(shop_db):
    def act(joined):
        remember.remember(joined, "shop", kind="fact", text="Half.", now_us=NOW)
        raise ScopeNotFound("later")

    with pytest.raises(ScopeNotFound):
        once(shop_db, principal="", route=ROUTE, key="k", body=1, act=act, now_us=NOW)
    assert texts(shop_db) == []
    assert not ask(shop_db).replayed


def test_of_requests_at_once_one_executes_and_all_get_its_answer(shop_db):
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: ask(shop_db), range(8)))
    assert len({answer.body["entry"] for answer in answers}) == 1
    assert sorted(answer.replayed for answer in answers) == [False] + [True] * 7
    assert texts(shop_db) == ["Prices are in cents."]


def slow(db, act, *, now_us=NOW):
    return once_around_model(
        db, principal="", route="POST /v1/memory/flush", key="k", body=1, act=act, now_us=now_us
    )


def test_around_a_model_a_key_at_work_is_refused_and_then_answered(shop_db):
    begun, end = threading.Event(), threading.Event()

    def act():
        begun.set()
        assert end.wait(30)
        return Answer(200, {"status": "processed"})

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(slow, shop_db, act)
        assert begun.wait(30)
        with pytest.raises(IdempotencyConflict) as caught:
            slow(shop_db, act)
        assert caught.value.details == {"reason": "in progress"}
        end.set()
        assert not running.result().replayed
    assert slow(shop_db, act) == Answer(200, {"status": "processed"}, replayed=True)


def test_around_a_model_a_failure_or_a_death_frees_the_key(shop_db):
    def fails():
        raise ScopeNotFound("no")

    def dies():
        raise KeyboardInterrupt

    for act, error in ((fails, ScopeNotFound), (dies, KeyboardInterrupt)):
        with pytest.raises(error):
            slow(shop_db, act)
    done = Answer(200, 1)

    def overtaken():  # as if this process had been gone for a quarter of an hour
        assert slow(shop_db, lambda: done, now_us=NOW + ABANDONED_S * 1_000_000 + 1) == done
        return Answer(200, 2)

    assert slow(shop_db, overtaken).body == 2
