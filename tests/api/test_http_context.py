"""Prepared contexts over HTTP: the contract's answers, our additions, who may read; recalls."""

import json
import time

import pytest
from calls import capture, new_scope, ok, recalls, ref, refused, remember
from proposals import PROPOSAL, learn, with_source

from pc_store.domain.text import digest

EMPTY = {
    "schema": "powercontext.prepared-context.v1",
    "status": "empty",
    "content": None,
    "content_bytes": 0,
}
EXTRAS = ["omitted", "truncated", "recall_id", "mode"]


def prepare(api, scope, query="amounts", **fields):
    body = {"scope_id": scope, "query": query, **fields}
    return ok(api.post("/v1/context/prepare", json=body))


def items(answer):
    return json.loads(answer["content"].split("\n")[-2])["items"]


def test_nothing_known_is_empty(api, scope):
    assert prepare(api, scope) == EMPTY
    remember(api, scope, "Names are UTF-8.")
    assert prepare(api, scope) == EMPTY


def test_an_entry_comes_in_a_fence_with_its_citation(api, scope):
    entry = remember(api, scope, "Amounts are integer cents: 订单金额以整数分存储。")["entry"]
    answer = prepare(api, scope, "amount 字段应该怎么处理？")
    assert {**answer, "content": None} == EMPTY | {
        "status": "ready",
        "content_bytes": len(answer["content"].encode()),
    }
    assert items(answer) == [
        {"citation": entry["citation"], "content": entry["text"], "truncated": False}
    ]
    read = {"scope_id": scope, "citation": items(answer)[0]["citation"]}
    assert ok(api.post("/v1/memory/entries/get", json=read)) == entry


def test_experiences_are_taken_in_turn_and_at_most_two(api, scope):
    with_source(api, scope)
    learnt = [learn(api, scope)]
    for number in (2, 3):
        text = {"lesson": f"Money lesson {number}: parse amounts as Decimal."}
        learnt.append(learn(api, scope, proposal=PROPOSAL | text))
    for number in range(3):
        remember(api, scope, f"Amount rule {number} about money.")
    answer = prepare(api, scope, "amount of money", include=["omitted"])
    found = items(answer)
    assert [one.get("kind") for one in found] == [None, "experience", None, "experience", None]
    assert answer["omitted"] == {"cap": 1}
    cited = [one["citation"]["artifact_ref"] for one in found if "kind" in one]
    assert [one in learnt for one in cited] == [True, True]
    text = next(one["content"] for one in found if "kind" in one)
    assert [line.partition(":")[0] for line in text.splitlines()] == [
        *("Situation", "Action", "Outcome", "Lesson")
    ]


def test_referenced_scopes_are_read_too_but_not_theirs(api):
    far = new_scope(api)
    near = new_scope(api, context_references=[far])
    asking = new_scope(api, context_references=[near])
    for scope in (far, near, asking):
        remember(api, scope, f"Amounts in {scope} are cents.")
    with_source(api, near)
    learnt = learn(api, near)
    found = items(prepare(api, asking, "amounts decimal money"))
    own, theirs, experience = (
        found[0],
        next(one for one in found if "memory" in one["citation"]),
        next(one for one in found if "kind" in one),
    )
    assert len(found) == 3
    assert own["citation"]["memory_ref"] == ref(1)
    assert theirs["citation"]["memory"] == {"scope_id": near, "artifact": ref(1)}
    assert theirs["citation"].keys() == {"memory", "entry_id", "entry_version_id"}
    assert experience["citation"] == {"artifact": {"scope_id": near, "artifact": learnt}}


def test_a_token_must_be_allowed_every_scope_that_is_read(serve):
    tokens = [
        {"name": "root", "token": "root-token", "scopes": ["*"], "verbs": ["admin"]},
        {"name": "one", "token": "one-token", "scopes": ["asking"], "verbs": ["read"]},
        {"name": "both", "token": "both-token", "scopes": ["asking", "near"], "verbs": ["read"]},
        {"name": "writer", "token": "writer-token", "scopes": ["*"], "verbs": ["contribute"]},
    ]
    server = serve(api_tokens=json.dumps(tokens))
    with server.client("root-token") as api:
        new_scope(api, "near")
        new_scope(api, "asking", context_references=["near"])
        remember(api, "near", "Amounts are cents.")
    body = {"scope_id": "asking", "query": "amounts"}
    for token in ("one-token", "writer-token"):
        with server.client(token) as api:
            refused(api.post("/v1/context/prepare", json=body), 403, "forbidden")
    with server.client("both-token") as api:
        assert len(items(prepare(api, "asking"))) == 1
    with server.client("one-token") as api:
        refused(api.get("/v1/scopes/near/recalls"), 403, "forbidden")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"max_bytes": 0}, "max_bytes"),
        ({"max_bytes": 1}, "max_bytes"),
        ({"max_bytes": 64}, "max_bytes"),
        ({"max_bytes": 511}, "max_bytes"),
        ({"max_bytes": 32_769}, "max_bytes"),
        ({"max_bytes": "512"}, "max_bytes"),
        ({"max_bytes": None}, "max_bytes"),
        ({"query": " \n\u3000"}, "query"),
        ({"query": ""}, "query"),
        ({"query": "x" * 8_193}, "query"),
        ({"query": "a\x00b"}, "query"),
        ({"assembly": None}, "assembly"),
        ({"assembly": []}, "assembly"),
        ({"assembly": {"format": "html"}}, "assembly.format"),
        (
            {"assembly": {"sections": [{"family": "skill", "limit": 1}]}},
            "assembly.sections.0.family",
        ),
        (
            {"assembly": {"sections": [{"family": "memory", "limit": 9}]}},
            "assembly.sections.0.limit",
        ),
        (
            {"assembly": {"sections": [{"family": "experience", "limit": 3}]}},
            "assembly.sections.0.limit",
        ),
        ({"assembly": {"sections": [{"family": "memory", "limit": 4}] * 2}}, "assembly.sections"),
        (
            {
                "assembly": {
                    "sections": [
                        {"family": "memory", "limit": 7},
                        {"family": "profile", "limit": 2},
                    ]
                }
            },
            "assembly.sections",
        ),
        ({"assembly": {"show": ["confidence"] * 2}}, "assembly.show"),
        ({"include": ["everything"]}, "include.0"),
        ({"unheard_of": 1}, "unheard_of"),
    ],
)
def test_what_breaks_a_rule_is_named(api, scope, fields, field):
    body = {"scope_id": scope, "query": "amounts", **fields}
    details = refused(api.post("/v1/context/prepare", json=body), 422, "invalid_request")
    assert details["field"] == field
    assert details["reason"]


def test_an_unknown_scope_is_404(api):
    for assembly in ({}, {"assembly": {"sections": []}}):
        body = {"scope_id": "nowhere", "query": "a", **assembly}
        refused(api.post("/v1/context/prepare", json=body), 404, "scope_not_found")
    refused(api.get("/v1/scopes/nowhere/recalls"), 404, "scope_not_found")


@pytest.mark.parametrize("max_bytes", [512, 700, 1_024, 2_000, 8_000, 32_768])
def test_the_budget_holds_and_the_smallest_still_says_something(api, max_bytes):
    scope = new_scope(api, f"{'商' * 200}{max_bytes}")
    for number in range(20):
        remember(api, scope, f"amount {number} " + "汉字🦀" * (number * 20))
    answer = prepare(api, scope, "amount", max_bytes=max_bytes, include=["omitted", "truncated"])
    assert answer["status"] == "ready"
    assert answer["content_bytes"] == len(answer["content"].encode()) <= max_bytes
    delivered = len(items(answer))
    assert delivered + sum(answer["omitted"].values()) == 16
    assert answer["truncated"] == sum(one["truncated"] for one in items(answer))
    for assembly in ({}, {"sections": [{"family": "memory", "limit": 8}]}):
        answer = prepare(api, scope, "amount", max_bytes=max_bytes, assembly=assembly)
        assert answer["status"] == "ready"
        assert answer["content_bytes"] == len(answer["content"].encode()) <= max_bytes


def test_an_assembly_of_nothing_or_of_what_is_not_here_is_empty(api, scope):
    remember(api, scope, "Amounts are cents.")
    for sections in (
        [],
        [{"family": "profile", "limit": 1}, {"family": "topic-memory", "limit": 1}],
        [{"family": "experience", "limit": 1}],
    ):
        assert prepare(api, scope, assembly={"sections": sections}) == EMPTY


def test_sections_come_in_the_order_asked_for(api, scope):
    with_source(api, scope)
    learn(api, scope)
    remember(api, scope, "Amounts of money are cents.")
    families = ["experience", "memory"]
    sections = [{"family": family, "limit": 2} for family in families]
    content = prepare(api, scope, "money", assembly={"sections": sections})["content"]
    assert [line for line in content.split("\n") if line.startswith("## ")] == [
        "## Experience",
        "## Memory",
    ]


def test_code_is_not_added_and_does_no_harm(api, scope):
    remember(api, scope, "Amounts are cents.")
    assert prepare(api, scope, include_code=True) == prepare(api, scope)


def test_extras_are_there_when_asked_for(api, scope):
    remember(api, scope, "Amounts are cents.")
    assert prepare(api, scope).keys() == EMPTY.keys()
    answer = prepare(api, scope, include=EXTRAS)
    assert answer.keys() == EMPTY.keys() | set(EXTRAS)
    assert (answer["omitted"], answer["truncated"]) == ({}, 0)
    assert answer["mode"] in ("fts", "hybrid")
    nothing = prepare(api, new_scope(api), include=["mode", "omitted"])
    assert nothing == EMPTY | {"mode": None, "omitted": {}}


def test_every_recall_is_logged_without_its_words(api, scope):
    entry = remember(api, scope, "Amounts are integer cents.")["entry"]
    ok(api.post("/v1/memory/search", json={"scope_id": scope, "query": "amounts", "limit": 5}))
    answer = prepare(api, scope, "cents?", max_bytes=600, include=["recall_id"])
    page = recalls(api, scope, 2)
    prepared, searched = page["items"]
    assert page["next_cursor"] is None
    hit = {
        **ref(1),
        "entry_id": entry["citation"]["entry_id"],
        "entry_version_id": entry["citation"]["entry_version_id"],
        "rank": 1,
        "bytes": 26,
    }
    for one, surface, query in (
        (searched, "search", "amounts"),
        (prepared, "prepare_context", "cents?"),
    ):
        assert one["took_us"] >= 0
        assert {name: one[name] for name in ("scope_id", "surface", "query_digest")} == {
            "scope_id": scope,
            "surface": surface,
            "query_digest": digest(query),
        }
        assert one["mode"] in ("fts", "hybrid")
        assert (one["dropped"], one["omitted"]) == ([], {})
    assert searched["hits"] == [hit]
    assert prepared["hits"] == [hit | {"truncated": False}]
    assert prepared["recall_id"] == answer["recall_id"]
    assert (prepared["max_bytes"], prepared["content_bytes"]) == (600, answer["content_bytes"])
    assert (searched["max_bytes"], searched["content_bytes"]) == (None, None)
    assert "cents" not in json.dumps(page)


def test_what_was_left_out_is_logged_with_the_reason(api, scope):
    entry = remember(api, scope, "Amounts are kept here. " + "word " * 300)["entry"]
    remember(api, scope, "amounts " * 6)
    answer = prepare(api, scope, max_bytes=640, include=["omitted"])
    (row,) = recalls(api, scope, 1)["items"]
    assert row["omitted"] == answer["omitted"]
    assert sum(row["omitted"].values()) == len(row["dropped"]) == 2 - len(row["hits"])
    ids = [one["entry_id"] for one in (*row["hits"], *row["dropped"])]
    assert entry["citation"]["entry_id"] in ids


def test_recalls_page_from_the_newest(api, scope):
    for number in range(5):
        prepare(api, scope, f"question {number}")
    recalls(api, scope, 5)
    seen, cursor = [], None
    while True:
        query = {"limit": 2} | ({} if cursor is None else {"cursor": cursor})
        page = ok(api.get(f"/v1/scopes/{scope}/recalls", params=query))
        seen += [one["query_digest"] for one in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [digest(f"question {number}") for number in range(4, -1, -1)]
    wrong = {"limit": 2, "cursor": "forged"}
    refused(api.get(f"/v1/scopes/{scope}/recalls", params=wrong), 400, "invalid_cursor")


def test_experience_searches_are_logged(api, scope):
    with_source(api, scope)
    learnt = learn(api, scope)
    ok(api.post("/v1/experience/search", json={"scope_id": scope, "query": "money"}))
    (row,) = recalls(api, scope, 1)["items"]
    assert row["surface"] == "experience_search"
    (hit,) = row["hits"]
    assert {name: hit[name] for name in learnt} == learnt


def test_without_a_log_nothing_is_kept(serve):
    server = serve(recall_days=0)
    with server.client() as api:
        scope = new_scope(api)
        remember(api, scope, "Amounts are cents.")
        assert prepare(api, scope, include=["recall_id"])["recall_id"] is None
        ok(api.post("/v1/memory/search", json={"scope_id": scope, "query": "amounts"}))
        time.sleep(0.7)
        assert ok(api.get(f"/v1/scopes/{scope}/recalls"))["items"] == []


def test_a_search_waits_for_no_writer_and_the_log_for_the_writer(serve):
    server = serve()
    with server.client() as api:
        scope = new_scope(api)
        remember(api, scope, "Amounts are cents.")
        with server.db.write():
            started = time.monotonic()
            for _ in range(20):
                prepare(api, scope)
                ok(api.post("/v1/memory/search", json={"scope_id": scope, "query": "amounts"}))
            assert time.monotonic() - started < 5
            assert ok(api.get(f"/v1/scopes/{scope}/recalls"))["items"] == []
        assert len(recalls(api, scope, 40)["items"]) == 40


def test_a_server_that_stops_writes_what_waits(serve, start_server):
    server = serve()
    with server.client() as api:
        scope = new_scope(api)
        prepare(api, scope)
    server.stop()
    again = start_server(server.settings)
    with again.client() as api:
        assert len(ok(api.get(f"/v1/scopes/{scope}/recalls"))["items"]) == 1
    again.stop()


def test_statistics_compare_contexts_with_their_sources(api, scope):
    capture(api, scope, "We decided that amounts are integer cents. " + "More words. " * 100)
    ok(api.post("/v1/memory/flush", json={"scope_id": scope}))
    ready = prepare(api, scope, "integer cents")
    remember(api, scope, "Amounts by hand, in cents.")
    prepare(api, scope, "cents")  # one of its items was made from nothing
    prepare(api, scope, "unrelated")
    recalls(api, scope, 3)
    asked = {"selection": {"mode": "exact", "scope_ids": [scope]}, "period": "today"}
    found = ok(api.post("/v1/stats", json=asked))["recall"]
    tokens = len(ready["content"]) // 4 + 1
    baseline = (43 + 1_200) // 4 + 1
    assert found["totals"] == {
        "preparations": 3,
        "ready_preparations": 2,
        "comparable_preparations": 1,
        "baseline_tokens": baseline,
        "recalled_tokens": tokens,
        "token_reduction": baseline - tokens,
    }
    assert found["estimator"].keys() == {"estimator_id", "version"}
    assert found["daily"][-1].items() >= found["totals"].items()


def test_capabilities_name_the_version(api):
    found = ok(api.get("/v1/capabilities"))["context_versions"]
    assert found == ["powercontext.prepared-context.v1"]
