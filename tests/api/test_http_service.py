"""The service itself over HTTP: health, capabilities, statistics, windows, quarantine, metrics."""

import json
import logging
import re
import time

import pytest
from calls import capture, new_scope, ok, ref, refused, remember
from model_stub import adding, says, status

from pc_store.api.telemetry import JsonLines
from pc_store.services.diagnose import GAUGES


def flush(api, scope):
    return api.post("/v1/memory/flush", json={"scope_id": scope})


def test_health_needs_nothing_and_says_little(api):
    assert ok(api.get("/health/live")) == {"status": "ok"}
    assert ok(api.get("/health/ready")) == {
        "status": "ready",
        "checks": {
            "runtime": "ready",
            "access_mode": "disabled",
            "database": "ready",
            "inference.generation": "openai",
        },
    }


def test_a_missing_model_is_degraded_not_down(serve):
    server = serve(llm_provider="openai")
    with server.client() as api:
        ready = ok(api.get("/health/ready"))
        assert ready["status"] == "degraded"
        assert ready["checks"]["inference.generation"] == "misconfigured"
        assert ok(api.get("/v1/capabilities"))["memory_extraction"] is False
        scope = new_scope(api)
        refused(flush(api, scope), 503, "inference_misconfigured")
        remember(api, scope, "Works without a model.")


def test_capabilities_promise_what_there_is(api):
    found = ok(api.get("/v1/capabilities"))

    prompts = found.pop("prompts")
    assert prompts.keys() == {"memory.extract", "experience.incubate", "experience.generate"}
    for prompt in prompts.values():
        assert prompt.pop("builtin_version")
        assert prompt == {
            "status": "supported",
            "reason": None,
            "definition_version": "pc.prompt.v1",
            "builtin_profile": None,
        }
    paths = ok(api.get("/openapi.json"))["paths"]
    assert found == {
        "source_types": ["content"],
        "artifact_families": ["memory", "prompt", "experience"],
        "memory_extraction": True,
        "search_modes": ["auto", "fts"],
        "context_versions": (
            ["powercontext.prepared-context.v1"] if "/v1/context/prepare" in paths else []
        ),
        "experience_generation": True,
        "managed_skill_generation": False,
        "external_skill_registry": False,
        "handoff_generation": False,
        "artifact_dreaming": True,
    }


def test_the_root_says_where_the_description_is(api):
    assert ok(api.get("/"))["openapi"] == "/openapi.json"


def test_statistics_count_what_scopes_hold(api, scope):
    capture(api, scope, "We decided on one.", "Lunch.")
    ok(flush(api, scope))
    capture_later = {"scope_id": scope, "source_id": "late", "content": "c"}
    ok(api.post("/v1/sources/content", json=capture_later), 202)
    remember(api, scope, "By hand.", kind="preference")
    selection = {"mode": "exact", "scope_ids": [scope]}

    found = ok(api.post("/v1/stats", json={"selection": selection}))

    assert found["selection"] == selection
    assert found["scope_ids"] == [scope]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", found["as_of"])
    assert found["inventory"]["sources"] == {
        "total": 3,
        "memory_processed": 2,
        "memory_pending": 1,
    }
    entries = found["inventory"]["memory"]["entries"]
    assert entries["total"] == entries["active"] >= 2
    assert {"kind": "preference", "total": 1, "active": 1, "inactive": 0} in entries["by_kind"]
    assert [one["scope_id"] for one in found["by_scope"]] == [scope]
    for period in ("today", "7d", "30d"):
        wanted = {"selection": selection, "period": period}
        assert ok(api.post("/v1/stats", json=wanted))["usage"]["period"]["preset"] == period
    refused(
        api.post("/v1/stats", json={"selection": selection, "period": "1d"}), 422, "invalid_request"
    )
    unknown = {"selection": {"mode": "exact", "scope_ids": ["nowhere"]}}
    refused(api.post("/v1/stats", json=unknown), 404, "scope_not_found")


def test_windows_are_listed_newest_first_and_replayed(api, scope):
    capture(api, scope, *(f"We decided on thing {number}." for number in range(1, 5)))
    ok(flush(api, scope))
    ok(flush(api, scope))
    path = f"/v1/scopes/{scope}/windows"

    listed = ok(api.get(path))

    assert listed["next_cursor"] is None
    newest, oldest = listed["items"]
    assert (newest["after"], newest["through"]) == (3, 4)
    assert oldest["window"] == f"{scope}@00000001-00000003"
    assert (oldest["status"], oldest["kind"], oldest["error"]) == ("processed", "live", None)
    assert oldest["counts"]["sources"] == 3
    first = ok(api.get(path, params={"limit": 1}))
    rest = ok(api.get(path, params={"limit": 1, "cursor": first["next_cursor"]}))
    assert first["items"] + rest["items"] == listed["items"]
    assert ok(api.get(path, params={"status": ["failed", "split"]}))["items"] == []
    replayed = ok(api.post(f"{path}/{oldest['window']}/replay"))
    assert (replayed["previous_cursor"], replayed["current_cursor"]) == (4, 4)
    assert ok(api.get(path))["items"][0]["kind"] == "replay"
    refused(api.post(f"{path}/nonsense/replay"), 422, "invalid_request")
    refused(api.post(f"{path}/other@00000001-00000003/replay"), 422, "invalid_request")
    refused(api.post(f"{path}/{scope}@00000005-00000009/replay"), 409, "window_refused")
    refused(api.get("/v1/scopes/nowhere/windows"), 404, "scope_not_found")
    refused(api.get(path, params={"status": "other"}), 400, "invalid_request")


def test_windows_are_replayed_beside_the_memory_compared_and_promoted(api, scope, model_stub):
    capture(api, scope, *(f"We decided on thing {number}." for number in range(1, 5)))
    ok(flush(api, scope))
    ok(flush(api, scope))
    path = f"/v1/scopes/{scope}/generations"
    windows = [item["window"] for item in ok(api.get(f"/v1/scopes/{scope}/windows"))["items"]]
    head = ok(api.get(f"/v1/scopes/{scope}/artifacts/memory/memory"))["revision"]

    def replay(window, **body):
        return api.post(f"/v1/scopes/{scope}/windows/{window}/replay", json=body)

    model_stub.answer(adding(("One.", "e1"), ("Two.", "e2")))
    done = ok(replay(windows[1], generation="new"))
    assert (done["status"], done["memory"]) == ("processed", None)
    model_stub.answer(adding(("Three.", "e1")))
    assert ok(replay(windows[0], generation="new"))["status"] == "processed"
    assert ok(replay(windows[0], generation="new"))["status"] == "idle"
    newest = ok(api.get(f"/v1/scopes/{scope}/windows"))["items"][0]
    assert (newest["kind"], newest["generation"]) == ("shadow", "new")
    refused(replay(windows[0], generation="a/b"), 422, "invalid_request")

    first = ok(api.get(f"{path}/new/diff", params={"limit": 4}))
    rest = ok(api.get(f"{path}/new/diff", params={"limit": 4, "cursor": first["next_cursor"]}))
    assert (first["memory_revision"], rest["next_cursor"]) == (head, None)
    assert [(item["what"], item["text"]) for item in first["items"] + rest["items"]] == [
        *(("added", text) for text in ("One.", "Two.", "Three.")),
        *(("no longer proposed", f"We decided on thing {n}.") for n in range(1, 5)),
    ]
    assert first["counts"] == {
        "revised": 0,
        "seen_again": 0,
        "added": 3,
        "left_out": 0,
        "no_longer_proposed": 4,
        "unchanged": 0,
    }
    ok(api.post("/v1/memory/remember", json={"scope_id": scope, "kind": "fact", "text": "Own."}))
    stale = {"limit": 4, "cursor": first["next_cursor"]}
    refused(api.get(f"{path}/new/diff", params=stale), 400, "invalid_cursor")
    cited = {"expected_revision": head}
    refused(api.post(f"{path}/new/promote", json=cited), 409, "revision_conflict")

    promoted = ok(api.post(f"{path}/new/promote", json={"reason": "read"}))
    assert (promoted["status"], promoted["proposals"]) == ("promoted", 0)
    assert promoted["memory"]["revision"] == head + 2
    assert promoted["outcome"] == {"added": 3, "revised": 0, "seen_again": 0, "left_out": []}
    assert ok(api.post(f"{path}/new/promote")) == promoted
    assert ok(api.get(f"{path}/new")) == promoted
    refused(api.get(f"{path}/new/diff"), 409, "generation_ended")
    refused(api.post(f"{path}/new/discard"), 409, "generation_ended")
    refused(replay(windows[0], generation="new"), 409, "generation_ended")

    model_stub.answer(adding(("Not this.", "e1")))
    ok(replay(windows[0], generation="another"))
    listed = ok(api.get(path, params={"limit": 1}))
    following = ok(api.get(path, params={"limit": 1, "cursor": listed["next_cursor"]}))
    names = [item["name"] for item in listed["items"] + following["items"]]
    assert names == ["another", "new"]
    assert ok(api.post(f"{path}/another/discard"))["status"] == "discarded"
    refused(api.get(f"{path}/none"), 404, "not_found")
    refused(api.get("/v1/scopes/nowhere/generations"), 404, "scope_not_found")


def test_a_source_in_quarantine_is_shown_retried_and_released(api, scope, model_stub):
    capture(api, scope, "POISON one.", "POISON two.")
    model_stub.always(says({"candidates": [{"intent": "add"}]}))
    for _ in range(12):
        if flush(api, scope).status_code == 200:
            break
    path = f"/v1/scopes/{scope}/quarantine"

    (one, two) = ok(api.get(path))["items"]

    assert (one["position"], one["source_id"], one["released_at"]) == (1, "s1", None)
    assert one["reason"].startswith("inference_invalid_output")
    assert ok(api.get(f"/v1/scopes/{scope}/processing"))["quarantined"] == 2
    refused(api.post(f"{path}/1/retry"), 502, "inference_invalid_output")
    model_stub.reset()
    assert ok(api.post(f"{path}/1/retry"))["memory"] == ref(1)
    assert ok(api.post(f"{path}/2/release")) == {"position": 2, "released": True}
    assert ok(api.get(path))["items"] == []
    released = ok(api.get(path, params={"include_released": True}))["items"]
    assert [item["position"] for item in released] == [1, 2]
    assert two["position"] == 2
    refused(api.post(f"{path}/2/release"), 404, "not_found")
    refused(api.post(f"{path}/0/release"), 422, "invalid_request")


def test_metrics_have_route_templates_and_nothing_of_users(api, scope):
    remember(api, scope, "SENTINEL")
    api.get(f"/v1/scopes/{scope}")
    api.get(f"/nothing/{scope}")
    api.request("BREW", f"/{scope}")

    text = api.get("/metrics").text

    assert 'pc_http_requests_total{method="POST",route="/v1/memory/remember",status="200"}' in text
    assert 'method="GET",route="/v1/scopes/{scope_id}",status="200"' in text
    assert 'method="GET",route="(no route)",status="404"' in text
    assert 'method="OTHER"' in text
    assert "BREW" not in text
    assert scope not in text
    assert "SENTINEL" not in text
    for name in GAUGES:
        assert re.search(rf"^{name} \d", text, re.MULTILINE), name


def test_no_text_id_or_token_of_users_reaches_the_logs(serve, caplog):
    caplog.set_level(logging.DEBUG, logger="pc_store")
    tokens = [{"token": "SENTINEL-token", "name": "root", "scopes": ["*"], "verbs": ["admin"]}]
    server = serve(api_tokens=json.dumps(tokens))
    with server.client("SENTINEL-token") as api:
        scope = new_scope(api, "SENTINEL/scope", title="SENTINEL", summary="SENTINEL")
        remember(api, scope, "SENTINEL text", kind="SENTINEL", reason="SENTINEL")
        capture(api, scope, "SENTINEL source")
        api.get("/v1/scopes/SENTINEL%2Fscope?x=SENTINEL")
        api.get("/SENTINEL")
        api.post("/v1/memory/search", json={"scope_id": scope, "query": "SENTINEL"})
        api.post("/v1/memory/search", json={"scope_id": "SENTINEL", "SENTINEL": 1})
        api.post("/v1/memory/remember", content=b'{"SENTINEL', headers={"X-A": "SENTINEL"})
        db, server.app.state.edge.db = server.db, None
        refused(api.get("/v1/scopes/SENTINEL%2Fscope"), 500, "internal_error")
        server.app.state.edge.db = db
        while sum(record.getMessage() == "request" for record in caplog.records) < 9:
            time.sleep(0.01)
    lines = [JsonLines().format(record) for record in caplog.records if "pc_store" in record.name]
    assert len(lines) == 10
    assert not [line for line in lines if "SENTINEL" in line]
    request = json.loads(lines[0])
    assert request.keys() == {
        "time",
        "level",
        "logger",
        "event",
        "request_id",
        "method",
        "route",
        "status",
        "duration_ms",
        "principal",
    }
    assert (request["principal"], request["status"]) == ("root", 201)
    (failure,) = [line for line in map(json.loads, lines) if line["event"] == "failure"]
    assert failure["error"] == "AttributeError"
    assert failure["at"]


def test_the_store_being_away_is_a_503_not_a_500(serve, tmp_path):
    server = serve(database_url=f"sqlite:///{tmp_path / 'gone.db'}")
    with server.client() as api:
        ok(api.get("/health/ready"))
        server.db.close()
        (tmp_path / "gone.db").write_bytes(b"this is no database, by far not" * 100)
        for suffix in ("-wal", "-shm"):
            (tmp_path / f"gone.db{suffix}").unlink(missing_ok=True)
        response = api.get("/health/ready")
        assert response.status_code == 503
        assert response.json()["status"] == "not_ready"
        again = api.get("/v1/scopes")
        refused(again, 503, "store_unavailable")
        assert again.headers["Retry-After"] == "1"


def test_a_writer_that_cannot_get_its_turn_is_told_to_try_again(serve):
    server = serve(database_wait_s=0.2)
    with server.client() as api:
        scope = new_scope(api)
        with server.db.write():
            body = {"scope_id": scope, "kind": "fact", "text": "a"}
            response = api.post("/v1/memory/remember", json=body)
            refused(response, 503, "store_busy")
            assert response.headers["Retry-After"] == "1"
            ok(api.get(f"/v1/scopes/{scope}"))
        remember(api, scope, "a")


@pytest.mark.parametrize("answer", [status(500), status(503)])
def test_a_model_that_is_down_is_told_from_one_that_is_misused(api, scope, model_stub, answer):
    capture(api, scope, "We decided.")
    model_stub.always(answer)

    details = flush(api, scope)

    assert details.status_code == 503
    assert details.json()["error"]["code"] in ("inference_unavailable", "inference_timeout")
