"""The HTTP edge without HTTP: the same calls on a store that this process opens itself."""

import asyncio
from typing import Self

import httpx

from pc_store.client import Client
from pc_store.settings import Settings

_NOWHERE = "http://localhost"


class LocalClient(Client):
    """A client of the store that settings name. No server is needed, and no token.

    Not safe to share between threads.
    """

    def __init__(self, settings: Settings) -> None:
        """Open the store.

        Raises:
            InvalidInput: a setting is not what it must be.
            StoreUnavailable: the ledger cannot be reached, or is newer than this code.
        """
        self._inside = _Inside(settings)
        super().__init__(_NOWHERE, transport=self._inside)


class _Inside(httpx.BaseTransport):
    """Hands requests to the application directly."""

    def __init__(self, settings: Settings) -> None:
        from pc_store.api.app import create_app  # not before it is needed: FastAPI is slow to load

        self._app = create_app(settings.model_copy(update={"api_tokens": None}))
        self._asgi = httpx.ASGITransport(app=self._app, raise_app_exceptions=False)
        self._loop = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._loop.run(self._answered(request))

    def close(self) -> None:
        self._loop.close()
        self._app.state.telemetry.close()
        self._app.state.edge.close()

    async def _answered(self, request: httpx.Request) -> httpx.Response:
        sent = httpx.Request(
            request.method, request.url, headers=request.headers, content=request.read()
        )
        answer = await self._asgi.handle_async_request(sent)
        content = await answer.aread()
        return httpx.Response(answer.status_code, headers=answer.headers, content=content)


def check_access(settings: Settings) -> str:
    """Say who may use the server that these settings would start.

    Raises:
        InvalidInput: the tokens are not valid, or missing on an address beyond loopback.
    """
    from pc_store.api.access import Access, refuse_open_bind

    access = Access.of(settings)
    refuse_open_bind(settings.http_host, access)
    return "no tokens, this machine only" if access is None else "tokens are needed"
