"""The memory as a whole over HTTP: remember, flush, drain, search, changes, capacity."""

import pytest
from calls import capture, new_scope, ok, ref, refused, remember
from model_stub import adding, says, status

AMOUNT = "amount: 订单金额以整数分存储；100 表示 1 元。"
EMPTY_SEARCH = {"memory": None, "mode": None, "hits": []}


def searched(api, scope, query, **fields):
    return ok(api.post("/v1/memory/search", json={"scope_id": scope, "query": query, **fields}))


def flush(api, scope):
    return api.post("/v1/memory/flush", json={"scope_id": scope})


def test_remember_answers_the_memory_and_the_entry(api, scope):
    answer = remember(api, scope, AMOUNT, kind="decision", reason="agreed")

    citation = answer["entry"]["citation"]
    assert answer == {
        "memory": ref(1),
        "entry": {
            "citation": {
                "memory_ref": ref(1),
                "entry_id": citation["entry_id"],
                "entry_version_id": citation["entry_version_id"],
            },
            "version": 1,
            "kind": "decision",
            "text": AMOUNT,
            "state": "active",
            "source_refs": [],
            "artifact_refs": [],
        },
    }
    assert citation["entry_id"].startswith("mem_ent_")
    assert citation["entry_version_id"].startswith("mem_ver_")


def test_what_is_known_adds_nothing_and_the_entry_is_null(api, scope):
    remember(api, scope, "caf\u00e9")

    for known in ("caf\u00e9", "  caf\u00e9\u3000", "cafe\u0301"):
        assert remember(api, scope, known) == {"memory": ref(1), "entry": None}
    assert remember(api, scope, "Caf\u00e9")["memory"] == ref(2)
    assert remember(api, scope, "caf\u00e9", kind="decision")["memory"] == ref(3)


def test_an_expected_revision_is_compared(api, scope):
    body = {"scope_id": scope, "kind": "fact", "text": "a", "expected_revision": 1}

    refused(api.post("/v1/memory/remember", json=body), 404, "artifact_not_found")
    remember(api, scope, "b")
    assert remember(api, scope, "a", expected_revision=1)["memory"] == ref(2)
    details = refused(api.post("/v1/memory/remember", json=body), 409, "revision_conflict")
    assert details["current"] == 2


def test_a_batch_is_one_revision_and_answers_item_by_item(api, scope):
    remember(api, scope, "known")
    items = [{"kind": "fact", "text": text} for text in ("one", "known", "two", "one")]

    answer = ok(api.post("/v1/memory/remember-batch", json={"scope_id": scope, "entries": items}))

    assert answer["memory"] == ref(2)
    texts = [entry and entry["text"] for entry in answer["entries"]]
    assert texts == ["one", None, "two", None]


def test_a_batch_is_refused_whole(api, scope):
    items = [{"kind": "fact", "text": "good"}, {"kind": "fact", "text": " "}]

    response = api.post("/v1/memory/remember-batch", json={"scope_id": scope, "entries": items})

    assert refused(response, 422, "invalid_request")["field"] == "entries[1].text"
    listed = ok(api.post("/v1/memory/entries/list", json={"scope_id": scope}))
    assert listed == {"memory": None, "entries": []}
    for count in (0, 101):
        many = {"scope_id": scope, "entries": [{"kind": "fact", "text": "x"}] * count}
        refused(api.post("/v1/memory/remember-batch", json=many), 422, "invalid_request")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"text": " \u3000\n"}, "text"),
        ({"text": "x" * 8193}, "text"),
        ({"text": ""}, "text"),
        ({"text": None}, "text"),
        ({"text": 7}, "text"),
        ({"kind": " "}, "kind"),
        ({"kind": "k" * 129}, "kind"),
        ({"reason": "r" * 513}, "reason"),
        ({"expected_revision": 0}, "expected_revision"),
        ({"expected_revision": "1"}, "expected_revision"),
        ({"expected_revision": 1.5}, "expected_revision"),
        ({"scope_id": None}, "scope_id"),
        ({"other": 1}, "other"),
    ],
)
def test_remember_names_the_field_that_breaks_a_rule(api, scope, fields, field):
    body = {"scope_id": scope, "kind": "fact", "text": "a"} | fields

    details = refused(api.post("/v1/memory/remember", json=body), 422, "invalid_request")

    assert details["field"] == field
    assert details["reason"]


def test_a_text_that_is_too_long_says_by_how_much(api, scope):
    body = {"scope_id": scope, "kind": "fact", "text": "分" * 2731}

    details = refused(api.post("/v1/memory/remember", json=body), 422, "invalid_request")

    assert details == {
        "field": "text",
        "reason": "is 8193 UTF-8 bytes, the most is 8192",
        "code": "text-too-long",
        "limit": 8192,
        "observed": 8193,
    }


def test_a_credential_is_refused_and_not_repeated(api, scope):
    secret = "AKIA" + "ABCDEFGH12345678"
    body = {"scope_id": scope, "kind": "fact", "text": f"key {secret}"}

    response = api.post("/v1/memory/remember", json=body)

    assert refused(response, 422, "secret_detected")["field"] == "text"
    assert secret not in response.text


def test_unknown_scopes_are_not_found_everywhere(api):
    for path, more in (
        ("remember", {"kind": "fact", "text": "a"}),
        ("remember-batch", {"entries": [{"kind": "fact", "text": "a"}]}),
        ("flush", {}),
        ("drain", {}),
        ("search", {"query": "a"}),
        ("changes", {}),
        ("capacity", {}),
        ("entries/list", {}),
    ):
        response = api.post(f"/v1/memory/{path}", json={"scope_id": "nowhere", **more})
        refused(response, 404, "scope_not_found")


def test_search_finds_the_entry_and_says_how(api, scope):
    assert searched(api, scope, "amount", mode="vector") == EMPTY_SEARCH
    entry = remember(api, scope, AMOUNT, kind="decision")["entry"]
    hit = {
        "citation": entry["citation"],
        "text": AMOUNT,
        "score": pytest.approx(0.016393, abs=1e-6),
        "matched_by": ["fts"],
    }

    for query in ("amount", "AMOUNT", "整数分", "金额怎么存", "amount 字段应该怎么处理？", "金額"):
        assert searched(api, scope, query) == {"memory": ref(1), "mode": "fts", "hits": [hit]}
    nothing = {"memory": ref(1), "mode": "fts", "hits": []}
    assert searched(api, scope, "the of") == nothing
    assert searched(api, scope, "unrelated") == nothing
    extras = ["kind", "version", "sources", "matched_terms", "channels", "coverage"]
    more = searched(api, scope, "amount", include=extras)
    assert more["coverage"] == {"active_entries": 1, "fts": 1, "vector": 0}
    found = more["hits"][0]
    assert found["channels"] == [
        {"channel": "fts", "rank": 1, "score": found["channels"][0]["score"]}
    ]
    assert (found["kind"], found["version"], found["source_refs"]) == ("decision", 1, [])
    assert found["matched_terms"] == ["amount"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"mode": "vector"}, "capability_not_supported"),
        ({"mode": "hybrid"}, "capability_not_supported"),
        ({"tag_filter": {"tags": ["a"]}}, "capability_not_supported"),
        ({"mode": "other"}, "invalid_request"),
        ({"query": " \u3000"}, "invalid_request"),
        ({"query": ""}, "invalid_request"),
        ({"query": "x" * 8193}, "invalid_request"),
        ({"limit": 0}, "invalid_request"),
        ({"limit": 51}, "invalid_request"),
        ({"include": ["other"]}, "invalid_request"),
        ({"tag_filter": {"tags": []}}, "invalid_request"),
    ],
)
def test_search_refuses_what_it_cannot_do(api, scope, fields, code):
    remember(api, scope, AMOUNT)

    response = api.post("/v1/memory/search", json={"scope_id": scope, "query": "a", **fields})

    details = refused(response, 422, code)
    if code == "capability_not_supported":
        assert details["capability"] in ("vector", "hybrid", "tags")


def test_changes_are_those_of_the_head_or_since_a_revision(api, scope):
    def changes(**fields):
        return ok(api.post("/v1/memory/changes", json={"scope_id": scope, **fields}))

    assert changes() == {"memory": None, "revisions": []}
    one = remember(api, scope, "one")["entry"]
    two = remember(api, scope, "two", reason="because")["entry"]

    def added(entry, revision, reason):
        return {
            "memory_ref": ref(revision),
            "changes": [
                {
                    "op": "add",
                    "entry_id": entry["citation"]["entry_id"],
                    "from_entry_version_id": None,
                    "to_entry_version_id": entry["citation"]["entry_version_id"],
                    "reason": reason,
                }
            ],
        }

    newest = added(two, 2, "because")
    assert changes() == {"memory": ref(2), "revisions": [newest]}
    assert changes(since_revision=0)["revisions"] == [added(one, 1, None), newest]
    assert changes(since_revision=2) == {"memory": ref(2), "revisions": []}
    past = api.post("/v1/memory/changes", json={"scope_id": scope, "since_revision": 3})
    assert refused(past, 422, "invalid_request")["field"] == "since_revision"


def test_capacity_is_measured_against_the_budget(api, scope):
    empty = api.post("/v1/memory/capacity", json={"scope_id": scope})
    refused(empty, 404, "artifact_not_found")
    remember(api, scope, "one")

    capacity = ok(api.post("/v1/memory/capacity", json={"scope_id": scope}))

    assert capacity.pop("manifest_bytes") > 0
    assert capacity.pop("budget").keys() == {
        "max_active_entries",
        "max_manifest_entries",
        "max_manifest_bytes",
    }
    assert capacity == {
        "memory_ref": ref(1),
        "active_entry_count": 1,
        "manifest_entry_count": 1,
        "compactable_entry_count": 0,
        "exceeded": [],
    }


def test_a_flush_processes_one_window_and_says_so(api, scope, model_stub):
    idle = {
        "status": "idle",
        "previous_cursor": 0,
        "current_cursor": 0,
        "high_watermark": 0,
        "processed_source_count": 0,
        "memory": None,
        "held_count": 0,
        "hold_codes": [],
    }
    assert ok(flush(api, scope)) == idle
    capture(api, scope, *(f"We decided on thing {number}." for number in range(1, 6)))
    model_stub.answer(adding(("Thing 1.", "e1")), says({"candidates": []}))

    first, second, third = (ok(flush(api, scope)) for _ in range(3))

    assert first == idle | {
        "status": "processed",
        "current_cursor": 3,
        "high_watermark": 5,
        "processed_source_count": 3,
        "memory": ref(1),
    }
    assert second["previous_cursor"] == 3
    assert second["current_cursor"] == 5
    assert second["processed_source_count"] == 2
    assert second["memory"] == ref(1)
    assert third == idle | {"previous_cursor": 5, "current_cursor": 5, "high_watermark": 5}


def test_a_drain_goes_on_to_the_end_of_the_log(api, scope):
    assert ok(api.post("/v1/memory/drain", json={"scope_id": scope}))["status"] == "idle"
    capture(api, scope, *(f"We decided on thing {number}." for number in range(1, 9)))

    drained = ok(api.post("/v1/memory/drain", json={"scope_id": scope, "budget_s": 20}))

    memory = drained.pop("memory")
    assert memory["revision"] >= 1
    assert drained == {
        "status": "processed",
        "previous_cursor": 0,
        "current_cursor": 8,
        "high_watermark": 8,
        "processed_source_count": 8,
        "windows": 3,
        "remaining": 0,
    }


@pytest.mark.parametrize(
    ("answer", "number", "code"),
    [
        (says({}), 502, "inference_invalid_output"),
        (says({"candidates": None}), 502, "inference_invalid_output"),
        (says([]), 502, "inference_invalid_output"),
        (adding(("x", "e99")), 502, "inference_invalid_output"),
        (status(401), 503, "inference_misconfigured"),
        (status(404), 503, "inference_misconfigured"),
        (status(429), 503, "inference_unavailable"),
    ],
)
def test_a_model_that_fails_is_not_our_500(api, model_stub, answer, number, code):
    scope = new_scope(api)
    capture(api, scope, "We decided.")
    model_stub.always(answer)

    response = flush(api, scope)

    refused(response, number, code)
    if number == 503:
        assert response.headers["Retry-After"]
    status_now = ok(api.get(f"/v1/scopes/{scope}/processing"))
    assert (status_now["cursor"], status_now["pending"]) == (0, 1)
    assert status_now["last_error"]["code"] == code


def test_processing_says_where_a_scope_stands(api, scope):
    capture(api, scope, "We decided.")

    found = ok(api.get(f"/v1/scopes/{scope}/processing"))

    assert found.pop("oldest_pending_at").endswith("Z")
    assert found == {
        "scope_id": scope,
        "consumer": "memory",
        "cursor": 0,
        "high_watermark": 1,
        "pending": 1,
        "window_status": None,
        "attempt": 0,
        "next_attempt_at": None,
        "last_error": None,
        "quarantined": 0,
        "last_processed_at": None,
    }
    refused(api.get("/v1/scopes/nowhere/processing"), 404, "scope_not_found")
