"""Many callers at once: only successes and conflicts, nothing lost, nothing doubled, none stuck."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from calls import capture, new_scope, ok, ref, refused, remember
from model_stub import hold


def at_once(count, work):
    """Do work(number) in as many threads, all begun together."""
    gate = threading.Barrier(count)

    def begun(number):
        gate.wait(30)
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begun, range(count)))


@pytest.mark.parametrize("writers", [8, 50])
def test_writers_on_an_empty_scope_all_succeed_and_every_write_is_a_revision(
    api, running, scope, writers
):
    def write(number):
        with running.client() as client:
            body = {"scope_id": scope, "kind": "fact", "text": f"Text {number}."}
            return client.post("/v1/memory/remember", json=body)

    answers = at_once(writers, write)

    assert Counter(answer.status_code for answer in answers) == {200: writers}
    revisions = sorted(answer.json()["memory"]["revision"] for answer in answers)
    assert revisions == list(range(1, writers + 1))
    listed = ok(api.post("/v1/memory/entries/list", json={"scope_id": scope}))
    assert listed["memory"] == ref(writers)
    assert len(listed["entries"]) == writers


def test_fifty_identical_texts_at_once_are_one_entry(api, running, scope):
    def write(_number):
        with running.client() as client:
            return remember(client, scope, "The same.")

    answers = at_once(50, write)

    assert sum(answer["entry"] is not None for answer in answers) == 1
    assert {answer["memory"]["revision"] for answer in answers} == {1}


def test_of_revisions_of_one_citation_one_wins_and_the_others_are_told(api, running, scope):
    entry = remember(api, scope, "Old.")["entry"]

    def revise(number):
        with running.client() as client:
            return client.post(
                "/v1/memory/entries/revise",
                json={
                    "scope_id": scope,
                    "citation": entry["citation"],
                    "kind": "fact",
                    "text": f"New {number}.",
                },
            )

    answers = at_once(12, revise)

    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 11}
    for answer in answers:
        if answer.status_code == 409:
            assert refused(answer, 409, "revision_conflict")["current"] == 2


def test_captures_at_once_get_dense_positions(api, running, scope):
    def write(number):
        with running.client() as client:
            body = {"scope_id": scope, "source_id": f"s{number % 20}", "content": "c"}
            return ok(client.post("/v1/sources/content", json=body), 202)["position"]

    positions = at_once(40, write)

    assert Counter(positions) == dict.fromkeys(range(1, 21), 2)


def test_one_idempotency_key_at_once_executes_once(api, running, scope):
    def write(_number):
        with running.client() as client:
            return client.post(
                f"/v1/scopes/{scope}/sources",
                json={"content": "once"},
                headers={"Idempotency-Key": f"key-{scope}"},
            )

    answers = at_once(12, write)

    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["source_id"] for answer in answers}) == 1
    assert sum("Idempotency-Replayed" not in answer.headers for answer in answers) == 1
    assert len(ok(api.get(f"/v1/scopes/{scope}/sources"))["items"]) == 1


def test_two_flushes_at_once_process_a_window_once(api, running, scope):
    capture(api, scope, "We decided on one.", "We decided on two.")

    def flush(_number):
        with running.client() as client:
            return client.post("/v1/memory/flush", json={"scope_id": scope})

    answers = at_once(4, flush)

    codes = Counter(answer.status_code for answer in answers)
    assert set(codes) <= {200, 409}
    processed = [
        answer.json()
        for answer in answers
        if answer.status_code == 200 and answer.json()["status"] == "processed"
    ]
    assert len(processed) == 1
    entries = ok(api.post("/v1/memory/entries/list", json={"scope_id": scope}))["entries"]
    assert len(entries) == 2


def test_flushes_that_wait_for_their_model_delay_nothing_else(api, running, model_stub):
    scopes = [new_scope(api) for _ in range(6)]
    for scope in scopes:
        capture(api, scope, "We decided.")
    model_stub.answer(*[hold()] * 4)
    with ThreadPoolExecutor(6) as pool, running.client() as client:
        waiting = [
            pool.submit(
                httpx.post, f"{running.url}/v1/memory/flush", json={"scope_id": scope}, timeout=60
            )
            for scope in scopes
        ]
        model_stub.wait_until_held(4)
        began = time.monotonic()
        for scope in scopes:
            remember(client, scope, "Meanwhile.")
            ok(client.post("/v1/memory/search", json={"scope_id": scope, "query": "meanwhile"}))
            body = {"scope_id": scope, "source_id": "late", "content": "c"}
            ok(client.post("/v1/sources/content", json=body), 202)
        took_s = time.monotonic() - began
        assert not any(one.done() for one in waiting)
        model_stub.release()
        for one in waiting:
            answer = ok(one.result())
            assert (answer["status"], answer["high_watermark"]) in (
                ("processed", 1),
                ("processed", 2),
            )
    assert took_s < 20


def test_a_fixed_entry_is_found_all_the_while_others_are_added(api, running, scope):
    remember(api, scope, "The cornerstone stays.")
    stop = threading.Event()
    missed = []

    def look():
        with running.client() as client:
            while not stop.is_set():
                body = {"scope_id": scope, "query": "cornerstone"}
                if len(ok(client.post("/v1/memory/search", json=body))["hits"]) != 1:
                    missed.append(body)

    watchers = [threading.Thread(target=look) for _ in range(3)]
    for watcher in watchers:
        watcher.start()
    for number in range(60):
        remember(api, scope, f"Another brick {number}.")
    stop.set()
    for watcher in watchers:
        watcher.join(30)
    assert missed == []
