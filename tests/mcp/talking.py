"""How tests talk MCP: with the SDK's own client, one session per conversation."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from mcp.client import Client
from mcp.types import CallToolResult
from served import Served

T = TypeVar("T")


class Tools:
    """The tools of a server, as an agent calls them."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, name: str, **arguments: Any) -> CallToolResult:
        return await self.client.call_tool(name, arguments)

    async def ok(self, name: str, **arguments: Any) -> Any:
        """The structured answer, which is also there as text."""
        result = await self.call(name, **arguments)
        assert not result.is_error, result.content
        assert json.loads(result.content[0].text) == result.structured_content
        return result.structured_content

    async def refused(self, name: str, code: str, **arguments: Any) -> Any:
        """The details of a refusal."""
        result = await self.call(name, **arguments)
        assert result.is_error
        assert result.structured_content is None  # clients check it against the answer's schema
        error = json.loads(result.content[0].text)["error"]
        assert error.keys() == {"code", "message", "details"}
        assert error["code"] == code, error
        return error["details"]


def talk(transport: Any, conversation: Callable[[Tools], Awaitable[T]]) -> T:
    """Hold a conversation with the server behind an address or transport."""

    async def run() -> T:
        async with Client(transport) as client:
            return await conversation(Tools(client))

    return asyncio.run(run())


def mcp_url(server: Served) -> str:
    return f"{server.url}/mcp"


async def scope(tools: Tools, scope_id: str) -> None:
    """Create a scope."""
    await tools.ok(
        "create_scope", scope_id=scope_id, title="T", summary="S", idempotency_key=scope_id
    )
