"""`pc mcp`: the same tools on standard input and output, of this machine's store or a server's."""

import os
import subprocess
import sys
from pathlib import Path

from mcp.client.stdio import StdioServerParameters, stdio_client
from talking import talk

from pc_store.api.mcp import make_server, remote_edge
from pc_store.api.tools import TOOLS

PC = str(Path(sys.executable).with_name("pc"))


def started(*arguments, **env):
    given = {name: value for name, value in os.environ.items() if not name.startswith("PC_")}
    return stdio_client(
        StdioServerParameters(command=PC, args=list(arguments), env={**given, **env})
    )


async def conversation(tools):
    names = {tool.name for tool in (await tools.client.list_tools()).tools}
    await tools.ok("create_scope", scope_id="s", title="T", summary="S", idempotency_key="s")
    told = {"scope_id": "s", "kind": "fact", "text": "Amounts are integer cents."}
    entry = (await tools.ok("remember_memory", **told))["entry"]
    found = await tools.ok("search_memory", scope_id="s", query="cents")
    await tools.refused("get_scope", "scope_not_found", scope_id="nowhere")
    return names, entry, found["hits"]


def test_an_agent_works_on_the_store_of_this_machine(tmp_path):
    # tokens are for the server of this store; who can read its files needs none
    tokens = tmp_path / "tokens.json"
    tokens.write_text('[{"name":"a","token":"some-token","scopes":["*"],"verbs":["read"]}]')
    env = {"PC_HOME": str(tmp_path / "home"), "PC_API_TOKENS": str(tokens)}
    names, entry, hits = talk(started("mcp", **env), conversation)
    assert names == TOOLS.keys()
    assert [hit["citation"] for hit in hits] == [entry["citation"]]


def test_calls_are_passed_on_to_a_server(server, tmp_path):
    env = {"PC_HOME": str(tmp_path), "PC_API_TOKEN": "unused-here"}
    names, entry, hits = talk(started("--server", server.url, "mcp", **env), conversation)
    assert names == TOOLS.keys()
    assert [hit["citation"] for hit in hits] == [entry["citation"]]
    assert server.post("/v1/memory/entries/list", {"scope_id": "s"}).json()["entries"] == [entry]
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_away_is_a_tool_error():
    async def ask(tools):
        return await tools.refused("list_scopes", "server_unreachable")

    away = make_server(remote_edge("http://127.0.0.1:9", token=None), authorization=lambda _: None)
    assert talk(away, ask) is None


def test_a_wrong_setting_ends_it_at_once(tmp_path):
    env = {**os.environ, "PC_HOME": str(tmp_path), "PC_LEASE_S": "0"}
    done = subprocess.run([PC, "mcp"], env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("pc: PC_LEASE_S: ")
