"""Artifacts by exact revision, and prompts, over HTTP."""

import hashlib
import json

import pytest
from calls import ok, ref, refused, remember


def digest(value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


@pytest.fixture
def memory(scope):
    return f"/v1/scopes/{scope}/artifacts/memory"


def test_a_revision_shows_the_manifest_and_its_own_changes(api, scope, memory):
    one = remember(api, scope, "one", kind="fact", reason="because")["entry"]["citation"]

    found = ok(api.get(f"{memory}/memory"))

    content = found["content"]
    assert content["manifest"]["entries"][0].pop("entry_content_hash")
    assert content == {
        "schema": "powercontext.memory.v1",
        "manifest": {
            "format": "flat-v1",
            "entries": [
                {
                    "entry_id": one["entry_id"],
                    "entry_version_id": one["entry_version_id"],
                    "state": "active",
                }
            ],
        },
        "changes": [
            {
                "op": "add",
                "entry_id": one["entry_id"],
                "from_entry_version_id": None,
                "to_entry_version_id": one["entry_version_id"],
                "reason": "because",
            }
        ],
    }
    assert found == {
        "scope_id": scope,
        "family": "memory",
        "artifact_id": "memory",
        "revision": 1,
        "content": content,
        "sources": [],
        "artifacts": [],
        "memory_citations": [],
        "content_digest": found["content_digest"],
    }
    whole = ok(api.get(f"{memory}/memory/revisions/1"))
    assert whole["content_digest"] == digest(whole["content"])


def test_an_exact_revision_never_changes(api, scope, memory):
    remember(api, scope, "one")
    first = ok(api.get(f"{memory}/memory/revisions/1"))
    remember(api, scope, "two")

    assert ok(api.get(f"{memory}/memory/revisions/1")) == first
    head = ok(api.get(f"{memory}/memory"))
    assert head == ok(api.get(f"{memory}/memory/revisions/2"))
    assert len(head["content"]["manifest"]["entries"]) == 2


def test_a_head_that_is_known_is_not_sent_again(api, scope, memory):
    remember(api, scope, "one")
    response = api.get(f"{memory}/memory")
    assert response.headers["ETag"] == '"revision:1"'

    for sent in ('"revision:1"', '"x", "revision:1"', 'W/"revision:1"', "*"):
        known = api.get(f"{memory}/memory", headers={"If-None-Match": sent})
        assert (known.status_code, known.content) == (304, b"")
        assert known.headers["ETag"] == '"revision:1"'
    remember(api, scope, "two")
    moved = api.get(f"{memory}/memory", headers={"If-None-Match": '"revision:1"'})
    assert ok(moved)["revision"] == 2


def test_collections_and_revisions_are_listed_by_page(api, scope, memory):
    assert ok(api.get(memory)) == {"items": [], "next_cursor": None}
    for number in range(1, 4):
        remember(api, scope, f"entry {number}")
    item = {
        "scope_id": scope,
        "family": "memory",
        "artifact_id": "memory",
        "revision": 3,
        "sources": [],
        "artifacts": [],
        "content_digest": ok(api.get(f"{memory}/memory"))["content_digest"],
        "title": None,
        "summary": None,
        "published_at": None,
        "source_count": None,
    }

    assert ok(api.get(memory)) == {"items": [item], "next_cursor": None}
    first = ok(api.get(f"{memory}/memory/revisions?limit=2"))
    wanted = {"limit": 2, "cursor": first["next_cursor"]}
    second = ok(api.get(f"{memory}/memory/revisions", params=wanted))
    assert first["items"][0] == item
    assert [one["revision"] for one in first["items"] + second["items"]] == [3, 2, 1]
    assert second["next_cursor"] is None


def test_what_does_not_exist_is_not_found(api, scope, memory):
    refused(api.get(f"{memory}/memory"), 404, "artifact_not_found")
    remember(api, scope, "one")

    refused(api.get(f"{memory}/other"), 404, "artifact_not_found")
    refused(api.get(f"{memory}/memory/revisions/2"), 404, "artifact_not_found")
    refused(api.get(f"{memory}/other/revisions"), 404, "artifact_not_found")
    refused(api.get("/v1/scopes/nowhere/artifacts/memory"), 404, "scope_not_found")
    for wrong in ("0", "-1", "x", "9" * 30):
        response = api.get(f"{memory}/memory/revisions/{wrong}")
        assert refused(response, 422, "invalid_request")["field"] == "revision"
    for family in ("other", "skill", "topic-memory", "汉"):
        refused(api.get(f"/v1/scopes/{scope}/artifacts/{family}"), 422, "invalid_request")
    refused(api.get(f"{memory}?limit=0"), 400, "invalid_request")
    refused(api.get(f"{memory}?cursor=x"), 400, "invalid_cursor")


def test_a_scope_can_have_a_prompt_of_its_own(api, scope):
    path = f"/v1/scopes/{scope}/prompts/memory.extract"
    packaged = ok(api.get(path))
    assert packaged == {
        "scope_id": scope,
        "prompt_key": "memory.extract",
        "status": "supported",
        "reason": None,
        "mode": "auto",
        "artifact": None,
        "artifact_etag": None,
        "effective": {
            "instructions": packaged["builtin"]["instructions"],
            "demonstrations": [],
        },
        "builtin": {
            "version": packaged["builtin"]["version"],
            "profile": None,
            "instructions": packaged["builtin"]["instructions"],
        },
    }
    own = packaged | {
        "mode": "custom",
        "artifact": {"family": "prompt", "artifact_id": "memory.extract", "revision": 1},
        "artifact_etag": '"revision:1"',
        "effective": {"instructions": "Keep only money.", "demonstrations": []},
    }

    assert ok(api.put(path, json={"instructions": "Keep only money."})) == own
    assert ok(api.get(path)) == own
    prompts = ok(api.get(f"/v1/scopes/{scope}/artifacts/prompt"))["items"]
    assert [item["artifact_id"] for item in prompts] == ["memory.extract"]
    assert ok(api.put(path, json={"instructions": None}))["mode"] == "auto"
    assert ok(api.get(path)) == packaged


def test_prompts_that_nothing_uses_are_unsupported_and_others_unknown(api, scope):
    other = ok(api.get(f"/v1/scopes/{scope}/prompts/memory.rerank"))
    assert (other["status"], other["effective"], other["builtin"]) == ("unsupported", None, None)
    path = f"/v1/scopes/{scope}/prompts/memory.rerank"
    refused(api.put(path, json={"instructions": "x"}), 404, "not_found")
    refused(api.get(f"/v1/scopes/{scope}/prompts/nope"), 422, "invalid_request")
    refused(api.get("/v1/scopes/nowhere/prompts/memory.rerank"), 404, "scope_not_found")
    for wrong in (" ", "x\0", "x" * 50_001):
        put = api.put(f"/v1/scopes/{scope}/prompts/memory.extract", json={"instructions": wrong})
        refused(put, 422, "invalid_request")


def test_a_flush_names_its_sources_and_prompt_as_lineage(api, scope, memory, model_stub):
    path = f"/v1/scopes/{scope}/prompts/memory.extract"
    ok(api.put(path, json={"instructions": "Keep everything."}))
    body = {"scope_id": scope, "source_id": "s1", "content": "We decided on cents."}
    ok(api.post("/v1/sources/content", json=body), 202)
    ok(api.post("/v1/memory/flush", json={"scope_id": scope}))

    head = ok(api.get(f"{memory}/memory"))

    assert head["sources"] == [{"source_type": "content", "source_id": "s1"}]
    assert head["artifacts"] == [
        {"family": "prompt", "artifact_id": "memory.extract", "revision": 1}
    ]
    (entry,) = ok(api.post("/v1/memory/entries/list", json={"scope_id": scope}))["entries"]
    assert entry["source_refs"] == [{"name": "content", "source_id": "s1"}]
    assert entry["citation"]["memory_ref"] == ref(1)
