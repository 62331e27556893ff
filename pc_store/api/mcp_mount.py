"""Puts the MCP server under `/mcp` of the HTTP application.

Apart from `mcp`, because the SDK takes over a second to import: it is loaded when a server starts,
and not by who only builds the application.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from pc_store.api.refusals import Overloaded

if TYPE_CHECKING:
    from pc_store.api.mcp import HttpEndpoint

PATH = "/mcp"


class _Endpoint:
    """The endpoint, from the server's start to its end."""

    served: "HttpEndpoint | None" = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self.route
        if self.served is None:
            raise Overloaded("the server has not started")
        await self.served(scope, receive, send)

    def __init__(self) -> None:
        self.route = Route(PATH, self, methods=["POST"], include_in_schema=False)


def mount(app: FastAPI) -> Route:
    """Serve MCP in an application whose `state.edge` is set, and return the route."""
    endpoint = _Endpoint()
    around = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(of: FastAPI) -> AsyncIterator[None]:
        from pc_store.api.mcp import HttpEndpoint

        settings = app.state.edge.settings
        served = HttpEndpoint(app, max_body_bytes=settings.http_max_body_bytes)
        async with around(of), served.sessions.run():
            endpoint.served = served
            yield
            endpoint.served = None

    app.router.lifespan_context = lifespan
    app.router.routes.append(endpoint.route)
    return endpoint.route
