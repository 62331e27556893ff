"""MCP over streamable HTTP: the published tools, the form of refusals, old clients, tokens."""

import json

import httpx
import mcp.types
import pytest
from served import served
from talking import mcp_url, talk

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
