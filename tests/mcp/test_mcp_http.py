"""MCP over streamable HTTP: the published tools, the bodies of the HTTP routes, the same tokens."""

import json

import httpx
import mcp.types
import pytest
from model_stub import says
from served import Served, served
from talking import Tools, talk

NAMES = {
    "capture_content_source": (False, False, True),
    "record_task_outcome": (False, False, True),
    "record_task_receipt": (False, False, True),
    "search_memory": (True, False, True),
    "prepare_context": (True, False, True),
    "propose_experience": (False, False, False),
    "generate_experience": (False, False, False),
    "incubate_experience": (False, False, False),
    "list_experiences": (True, False, True),
    "get_experience": (True, False, True),
    "list_artifact_revisions": (True, False, True),
    "set_experience_lifecycle": (False, True, True),
    "explain_recurrence": (True, False, True),
    "search_experiences": (True, False, True),
    "list_artifact_candidates": (True, False, True),
    "get_artifact_candidate": (True, False, True),
    "list_artifact_candidate_history": (True, False, True),
    "compare_artifact_candidate": (True, False, True),
    "revise_artifact_candidate": (False, True, False),
    "approve_artifact_candidate": (False, True, True),
    "reject_artifact_candidate": (False, True, False),
    "create_dream_run": (False, False, True),
    "get_dream_run": (True, False, True),
    "list_dream_runs": (True, False, True),
    "cancel_dream_run": (False, True, True),
    "list_memory_entries": (True, False, True),
    "get_memory_entry": (True, False, True),
    "get_memory_capacity": (True, False, True),
    "list_memory_changes": (True, False, True),
    "remember_memory": (False, False, True),
    "revise_memory_entry": (False, True, False),
    "retire_memory_entry": (False, True, False),
    "flush_memory": (False, True, False),
    "create_scope": (False, False, True),
    "list_scopes": (True, False, True),
    "get_scope": (True, False, True),
    "resolve_scope_binding": (True, False, True),
    "set_scope_binding": (False, True, True),
    "clear_scope_binding": (False, True, True),
}
"""(read-only, destructive, idempotent)"""

HANDSHAKE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "old", "version": "1"},
    },
}
ACCEPTS = {"Accept": "application/json, text/event-stream"}


def mcp_url(server: Served) -> str:
    return f"{server.url}/mcp"


async def scope(tools: Tools, scope_id: str) -> None:
    await tools.ok(
        "create_scope", scope_id=scope_id, title="T", summary="S", idempotency_key=scope_id
    )


def test_the_tools_have_the_published_names_and_honest_hints(server):
    async def conversation(tools):
        return (await tools.client.list_tools()).tools

    tools = talk(mcp_url(server), conversation)
    assert {tool.name: _hints(tool.annotations) for tool in tools} == NAMES
    for tool in tools:
        assert tool.description
        assert tool.input_schema["additionalProperties"] is False
        assert tool.output_schema["type"] == "object"


def _hints(given):
    assert given.open_world_hint is False
    return given.read_only_hint, given.destructive_hint, given.idempotent_hint


def test_the_argument_shapes_are_those_of_the_http_bodies(server):
    document = httpx.get(f"{server.url}/openapi.json").json()
    bodies = {
        operation["operationId"]: operation["requestBody"]["content"]["application/json"]["schema"]
        for path in document["paths"].values()
        for operation in path.values()
        if "requestBody" in operation
    }

    async def conversation(tools):
        return (await tools.client.list_tools()).tools

    for tool in talk(mcp_url(server), conversation):
        if tool.name in bodies:
            name = bodies[tool.name]["$ref"].rpartition("/")[2]
            wanted = document["components"]["schemas"][name]
            in_path = {"create_dream_run": {"scope_id"}, "cancel_dream_run": {"scope_id", "run_id"}}
            named = in_path.get(tool.name, set())
            assert tool.input_schema["properties"].keys() == wanted["properties"].keys() | named
            required = set(wanted.get("required", ())) | named
            assert set(tool.input_schema.get("required", ())) == required


def test_a_memory_is_made_from_a_captured_text_and_found_again(server, model_stub):
    async def conversation(tools):
        await scope(tools, "story")
        captured = await tools.ok(
            "capture_content_source",
            scope_id="story",
            source_id="s1",
            content="We decided to store amounts as integer cents.",
            metadata={"kind": "worklog"},
        )
        flushed = await tools.ok("flush_memory", scope_id="story")
        found = await tools.ok("search_memory", scope_id="story", query="amounts")
        listed = await tools.ok("list_memory_entries", scope_id="story")
        changes = await tools.ok("list_memory_changes", scope_id="story")
        return captured, flushed, found, listed, changes

    captured, flushed, found, listed, changes = talk(mcp_url(server), conversation)
    assert captured == {
        "status": "accepted",
        "source": {"name": "content", "source_id": "s1"},
        "position": 1,
    }
    assert (flushed["status"], flushed["previous_cursor"], flushed["current_cursor"]) == (
        "processed",
        0,
        1,
    )
    assert [type(flushed[name]) for name in ("current_cursor", "high_watermark")] == [int, int]
    body = {"scope_id": "story", "query": "amounts"}
    assert found == server.post("/v1/memory/search", body).json()
    assert listed == server.post("/v1/memory/entries/list", {"scope_id": "story"}).json()
    assert changes == server.post("/v1/memory/changes", {"scope_id": "story"}).json()
    assert found["hits"][0]["citation"] == listed["entries"][0]["citation"]


def test_a_context_is_prepared_as_over_http(server):
    async def conversation(tools):
        await scope(tools, "context")
        told = {"scope_id": "context", "kind": "fact", "text": "Amounts are cents."}
        await tools.ok("remember_memory", **told)
        prepared = await tools.ok("prepare_context", scope_id="context", query="amounts")
        details = await tools.refused(
            "prepare_context", "invalid_request", scope_id="context", query="a", max_bytes=64
        )
        return prepared, details

    prepared, details = talk(mcp_url(server), conversation)
    body = {"scope_id": "context", "query": "amounts"}
    assert prepared == server.post("/v1/context/prepare", body).json()
    assert "Amounts are cents." in prepared["content"]
    assert details["field"] == "max_bytes"


def test_a_lesson_is_proposed_reviewed_and_found(server):
    lesson = {
        "situation": "An amount went through a float.",
        "action": "Parsed the text as Decimal.",
        "outcome": "The cents are right.",
        "lesson": "Parse money as Decimal.",
        "failure": None,
    }
    cited = {"source_refs": [{"name": "content", "source_id": "s1"}], "artifact_refs": []}
    here = {"scope_id": "lessons"}

    async def conversation(tools):
        await scope(tools, "lessons")
        await tools.ok("capture_content_source", **here, source_id="s1", content="0.29 became 28.")
        made = await tools.ok("propose_experience", **here, proposal=lesson, **cited)
        of = {**here, "candidate_id": made["candidate_id"]}
        assert await tools.ok("get_artifact_candidate", **of) == made
        assert (await tools.ok("list_artifact_candidates", **here))["candidates"] == [made]
        compared = await tools.ok("compare_artifact_candidate", **of)
        assert [one["after"] for one in compared["changes"]] == list(lesson.values())[:4]
        other = lesson | {"lesson": "Parse weights as Decimal, too."}
        revised = await tools.ok(
            "revise_artifact_candidate", **of, expected_version=1, proposal=other, **cited
        )
        stale = await tools.refused(
            "approve_artifact_candidate", "candidate_conflict", **of, expected_version=1
        )
        assert stale == {"expected_version": 1, "current_version": 2}
        approved = await tools.ok("approve_artifact_candidate", **of, expected_version=2)
        final = {"expected_version": 2, "reason": "no"}
        await tools.refused("reject_artifact_candidate", "candidate_terminal", **of, **final)
        history = await tools.ok("list_artifact_candidate_history", **of)
        ref = approved["result_artifact"]
        read = await tools.ok("get_experience", **here, artifact=ref)
        found = await tools.ok("search_experiences", **here, query="weights")
        rejected = await tools.ok("propose_experience", **here, proposal=lesson, **cited)
        rejected = await tools.ok(
            "reject_artifact_candidate",
            **here,
            candidate_id=rejected["candidate_id"],
            expected_version=1,
            reason="said already",
        )
        return revised, history, ref, read, found, rejected

    revised, history, ref, read, found, rejected = talk(mcp_url(server), conversation)
    assert [one["version"] for one in history["versions"]] == [1, 2]
    assert history["decision"]["result_artifact"] == ref
    assert read["content"] == revised["proposal"]
    assert [hit["artifact"] for hit in found["hits"]] == [ref]
    assert rejected["decision_reason"] == "said already"


def test_experiences_are_incubated_listed_read_explained_and_withdrawn(server, model_stub):
    failing = {
        "objective": "Import the orders.",
        "status": "failed",
        "summary": "Decimal was used.",
        "observations": [{"text": "It was tried."}],
        "checks": [
            {
                "name": "amounts are exact",
                "status": "failed",
                "basis": "verified",
                "evidence": [
                    {"kind": "source", "source_ref": {"source_type": "content", "source_id": "s1"}}
                ],
            }
        ],
    }
    lesson = {
        "situation": "Amounts are imported.",
        "action": "Decimal was used.",
        "outcome": "One was off.",
        "lesson": "Round once.",
        "failure": {
            "signature": {"recall_cue": "amounts are exact", "symptom": None},
            "repair_surface": "experience_content",
            "verification": {"condition": "it was tried", "check_subject": "amounts are exact"},
        },
    }
    model_stub.answer(says({"candidates": [{"proposal": lesson, "evidence_ids": ["e1"]}]}))
    here = {"scope_id": "a/learns"}

    async def conversation(tools):
        await scope(tools, "a/learns")
        await tools.ok("capture_content_source", **here, source_id="s1", content="28 of 29.")
        await tools.ok("record_task_outcome", **here, source_id="o1", outcome=failing)
        [made] = (await tools.ok("incubate_experience", **here))["candidate_ids"]
        approved = await tools.ok(
            "approve_artifact_candidate", **here, candidate_id=made, expected_version=1
        )
        ref = approved["result_artifact"]
        listed = await tools.ok("list_experiences", **here, limit=5)
        named = {"artifact_id": ref["artifact_id"]}
        revisions = await tools.ok("list_artifact_revisions", **here, **named)
        read = await tools.ok("get_experience", **here, artifact=ref)
        explained = await tools.ok("explain_recurrence", **here, **named, revision=1)
        await tools.refused("explain_recurrence", "artifact_not_found", **here, artifact_id="exp_0")
        withdrawn = {"artifact": ref, "state": "deprecated", "reason": "It was a rehearsal."}
        state = await tools.ok("set_experience_lifecycle", **here, **withdrawn)
        left = await tools.ok("list_experiences", **here)
        every = await tools.ok("list_experiences", **here, include_inactive=True)
        return ref, listed, revisions, read, explained, state, left, every

    ref, listed, revisions, read, explained, state, left, every = talk(
        mcp_url(server), conversation
    )
    at = "/v1/scopes/a%2Flearns"
    assert [item["artifact"] for item in listed["items"]] == [ref]
    assert [item["revision"] for item in revisions["items"]] == [1]
    assert read["content"] == lesson
    assert explained["failure"]["cue_key"] == "amounts are exact"
    path = f"{at}/experience/{ref['artifact_id']}/recurrence?revision=1"
    now = httpx.get(f"{server.url}{path}").json()
    assert now == explained | {"lifecycle": "deprecated"}
    assert state == {"artifact": ref, "state": "deprecated"}
    assert (left["items"], [item["state"] for item in every["items"]]) == ([], ["deprecated"])


def test_a_stale_citation_is_refused_with_a_fresh_one_that_works(server):
    async def conversation(tools):
        await scope(tools, "stale")
        told = {"scope_id": "stale", "kind": "fact"}
        first = (await tools.ok("remember_memory", **told, text="Amounts are cents."))["entry"]
        assert (await tools.ok("remember_memory", **told, text="Amounts are cents."))[
            "entry"
        ] is None
        await tools.ok("remember_memory", **told, text="Names are UTF-8.")
        told["text"] = "Amounts are integer cents."
        old = first["citation"]
        details = await tools.refused(
            "revise_memory_entry", "revision_conflict", citation=old, **told
        )
        revised = await tools.ok("revise_memory_entry", citation=details["citation"], **told)
        retired = await tools.ok(
            "retire_memory_entry", scope_id="stale", citation=revised["entry"]["citation"]
        )
        then = await tools.ok("get_memory_entry", scope_id="stale", citation=old)
        capacity = await tools.ok("get_memory_capacity", scope_id="stale")
        return first, details, revised, retired, then, capacity

    first, details, revised, retired, then, capacity = talk(mcp_url(server), conversation)
    assert (details["current"], details["state"], details["entry_changed"]) == (2, "active", False)
    assert (revised["entry"]["version"], revised["memory"]["revision"]) == (2, 3)
    assert (retired["entry"]["state"], retired["memory"]["revision"]) == ("inactive", 4)
    assert then == first
    assert (capacity["active_entry_count"], capacity["manifest_entry_count"]) == (1, 2)


def test_scopes_and_bindings(server):
    async def conversation(tools):
        await scope(tools, "a/b")
        got = await tools.ok("get_scope", scope_id="a/b")
        listed = await tools.ok("list_scopes", query="a/b", query_field="scope_id", limit=5)
        key = {"integration": "git", "kind": "remote", "external_id": "x"}
        await tools.ok("set_scope_binding", key=key, scope_id="a/b")
        bound = await tools.ok("resolve_scope_binding", binding_keys=[key], allow_default=False)
        assert await tools.ok("clear_scope_binding", key=key) == {"cleared": True}
        await tools.refused(
            "resolve_scope_binding", "scope_not_found", binding_keys=[key], allow_default=False
        )
        return got, listed, bound

    got, listed, bound = talk(mcp_url(server), conversation)
    assert got == bound == server_scope(server, "a%2Fb")
    assert listed == {"items": [got], "next_cursor": None}


def server_scope(server, segment):
    return httpx.get(f"{server.url}/v1/scopes/{segment}").json()


@pytest.mark.parametrize(
    ("name", "arguments", "code", "field"),
    [
        ("search_memory", {"scope_id": "nowhere", "query": "x"}, "scope_not_found", None),
        ("search_memory", {"query": "x"}, "invalid_request", "scope_id"),
        ("search_memory", {"scope_id": "s", "query": "x", "y": 1}, "invalid_request", "y"),
        ("remember_memory", {"scope_id": "s", "kind": "k", "text": 7}, "invalid_request", "text"),
        ("get_scope", {}, "invalid_request", "scope_id"),
        ("get_scope", {"scope_id": "a\0b"}, "invalid_request", "scope_id"),
        ("list_scopes", {"limit": 0}, "invalid_request", "limit"),
        ("list_scopes", {"limit": "5"}, "invalid_request", "limit"),
        ("list_scopes", {"cursor": "forged"}, "invalid_cursor", "cursor"),
        ("list_scopes", {"nothing": 1}, "invalid_request", "nothing"),
        (
            "create_dream_run",
            {"scope_id": "s", "operation": "refine_experience", "idempotency_key": "k"},
            "invalid_request",
            "artifacts",
        ),
    ],
)
def test_refusals_carry_the_code_and_details_of_the_http_error(
    server, name, arguments, code, field
):
    async def conversation(tools):
        return await tools.refused(name, code, **arguments)

    details = talk(mcp_url(server), conversation)
    assert (details or {}).get("field") == field


def test_an_unknown_tool_is_a_protocol_error(server):
    async def conversation(tools):
        with pytest.raises(mcp.MCPError) as caught:
            await tools.call("search_everything", scope_id="s", query="x")
        return caught.value.code

    assert talk(mcp_url(server), conversation) == mcp.types.INVALID_PARAMS


def test_a_client_of_an_earlier_protocol_is_served(server):
    answer = server.post("/mcp", HANDSHAKE, **ACCEPTS).json()
    assert answer["result"]["protocolVersion"] == "2025-06-18"
    assert answer["result"]["serverInfo"]["name"] == "pc-pipelines"
    call = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "get_scope", "arguments": {"scope_id": "nowhere"}},
    }
    said = server.post("/mcp", call, **ACCEPTS, **{"Mcp-Protocol-Version": "2025-06-18"}).json()
    assert said["result"]["isError"] is True
    assert json.loads(said["result"]["content"][0]["text"])["error"]["code"] == "scope_not_found"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 403),
        ({"Host": "localhost:1", "Origin": "http://localhost:1"}, 200),
        ({}, 200),
    ],
)
def test_pages_of_other_sites_are_refused(server, headers, status):
    answer = server.post("/mcp", HANDSHAKE, **ACCEPTS, **headers)
    assert answer.status_code == status
    if status == 403:
        assert answer.json()["error"]["code"] == "forbidden"


def test_other_methods_are_refused_in_the_one_form(server):
    answer = httpx.get(f"{server.url}/mcp")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")
    assert answer.json()["error"]["code"] == "method_not_allowed"


def test_tokens_are_asked_for_and_limit_what_tools_do(tmp_path):
    tokens = [
        {"name": "reader", "token": "reader-token", "scopes": ["mine"], "verbs": ["read"]},
        {"name": "admin", "token": "admin-token", "scopes": ["*"], "verbs": ["admin"]},
    ]
    with served(home=tmp_path, api_tokens=json.dumps(tokens)) as server:
        for scope_id in ("mine", "other"):
            body = {"title": "T", "summary": "S", "idempotency_key": scope_id, "scope_id": scope_id}
            created = server.post("/v1/scopes", body, Authorization="Bearer admin-token")
            assert created.status_code == 201
        for token in ({}, {"Authorization": "Bearer wrong-token"}):
            answer = server.post("/mcp", HANDSHAKE, **ACCEPTS, **token)
            assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")

        def as_reader(name, **arguments):
            call = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": name, "arguments": arguments},
            }
            token = {"Authorization": "bearer reader-token"}
            result = server.post("/mcp", call, **ACCEPTS, **token).json()["result"]
            said = json.loads(result["content"][0]["text"])
            return said["error"]["code"] if result["isError"] else said

        seen = as_reader("list_scopes")["items"]
        assert [item["scope_id"] for item in seen] == ["mine"]
        assert as_reader("search_memory", scope_id="mine", query="x")["hits"] == []
        assert as_reader("search_memory", scope_id="other", query="x") == "forbidden"
        assert as_reader("remember_memory", scope_id="mine", kind="k", text="t") == "forbidden"
