"""`Idempotency-Key`: the same call again gets the same answer and does nothing."""

import pytest
from calls import capture, ok, ref, refused, remember


@pytest.fixture
def key(scope):
    return {"Idempotency-Key": f"key-{scope}"}


def entry_count(api, scope):
    listed = ok(
        api.post("/v1/memory/entries/list", json={"scope_id": scope, "include_inactive": True})
    )
    return len(listed["entries"])


def test_the_same_call_gets_the_stored_answer(api, scope, key):
    body = {"scope_id": scope, "kind": "fact", "text": "one"}
    first = api.post("/v1/memory/remember", json=body, headers=key)
    remember(api, scope, "two")

    again = api.post("/v1/memory/remember", json=body, headers=key)

    assert ok(again) == ok(first)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first.headers
    assert entry_count(api, scope) == 2


def test_a_retire_can_be_repeated_after_a_lost_answer(api, scope, key):
    citation = remember(api, scope, "one")["entry"]["citation"]
    body = {"scope_id": scope, "citation": citation}
    first = ok(api.post("/v1/memory/entries/retire", json=body, headers=key))

    assert ok(api.post("/v1/memory/entries/retire", json=body, headers=key)) == first
    refused(api.post("/v1/memory/entries/retire", json=body), 409, "revision_conflict")


def test_a_created_source_keeps_its_location(api, scope, key):
    path = f"/v1/scopes/{scope}/sources"
    first = api.post(path, json={"content": 1}, headers=key)
    again = api.post(path, json={"content": 1.0}, headers=key)

    assert ok(again, 201) == ok(first, 201)
    assert again.headers["Location"] == first.headers["Location"]
    assert len(ok(api.get(path))["items"]) == 1


def test_another_body_under_the_key_is_a_409(api, scope, key):
    body = {"scope_id": scope, "kind": "fact", "text": "one"}
    ok(api.post("/v1/memory/remember", json=body, headers=key))

    other = api.post("/v1/memory/remember", json={**body, "text": "two"}, headers=key)

    assert refused(other, 409, "idempotency_conflict") == {"reason": "other request"}
    assert entry_count(api, scope) == 1


def test_a_key_belongs_to_its_route(api, scope, key):
    body = {"scope_id": scope, "source_id": "s1", "content": "c"}

    ok(api.post("/v1/sources/content", json=body, headers=key), 202)
    remembered = {"scope_id": scope, "kind": "fact", "text": "one"}
    assert ok(api.post("/v1/memory/remember", json=remembered, headers=key))["memory"] == ref(1)


def test_a_refused_call_leaves_its_key_free(api, scope, key):
    body = {"scope_id": scope, "kind": "fact", "text": "one", "expected_revision": 1}
    refused(api.post("/v1/memory/remember", json=body, headers=key), 404, "artifact_not_found")
    remember(api, scope, "zero")

    assert ok(api.post("/v1/memory/remember", json=body, headers=key))["memory"] == ref(2)


def test_a_flush_can_be_repeated(api, scope, key):
    capture(api, scope, "We decided on one.")
    body = {"scope_id": scope}
    first = ok(api.post("/v1/memory/flush", json=body, headers=key))

    again = api.post("/v1/memory/flush", json=body, headers=key)

    assert first["status"] == "processed"
    assert ok(again) == first
    assert again.headers["Idempotency-Replayed"] == "true"


@pytest.mark.parametrize("bad", ["", "a\tb" * 100, "x" * 257])
def test_a_key_that_breaks_a_rule_is_refused(api, scope, bad):
    body = {"scope_id": scope, "kind": "fact", "text": "one"}

    response = api.post("/v1/memory/remember", json=body, headers={"Idempotency-Key": bad})

    assert refused(response, 422, "invalid_request")["field"] == "Idempotency-Key"
    assert entry_count(api, scope) == 0
