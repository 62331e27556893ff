"""What every request passes before it is routed, and every answer after: one ASGI middleware.

Request ids, authentication, addresses, size and time limits, logs and metrics, and the last
resort against an error that nobody expected.
"""

import asyncio
import ipaddress
import re
import secrets
import time
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pc_store.api.access import EVERYBODY, NOBODY, Access, Principal
from pc_store.api.refusals import (
    BodyTooLarge,
    BodyTooSlow,
    Forbidden,
    InternalError,
    Overloaded,
)
from pc_store.api.responses import REQUEST_ID_HEADER, refusal
from pc_store.api.telemetry import UNROUTED, Telemetry
from pc_store.errors import InvalidInput, StoreError
from pc_store.settings import Settings

PUBLIC = frozenset({"/", "/docs", "/openapi.json", "/health/live", "/health/ready"})
"""Paths that need no token; none of them tells anything of what is stored."""

GONE = 499
"""The status in log and metrics of a request whose client went away before it was whole."""

_HOST_PORT = re.compile(r":[0-9]{1,5}$")


class Gate:
    """The middleware. It must be the outermost one."""

    def __init__(
        self, app: ASGIApp, *, settings: Settings, access: Access | None, telemetry: Telemetry
    ) -> None:
        """Wrap an application."""
        self._app = app
        self._access = access
        self._telemetry = telemetry
        self._max_body = settings.http_max_body_bytes
        self._patience_s = settings.http_client_timeout_s
        self._max_requests = settings.http_max_requests
        self._at_work = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self._max_body, self._patience_s)
        started = time.perf_counter()
        self._at_work += 1
        scope.setdefault("state", {})["request_id"] = exchange.request_id
        with self._telemetry.span(scope, exchange.request_id) as span:
            try:
                await self._serve(scope, exchange)
            except StoreError as error:
                await exchange.refuse(error)
            except ClientDisconnect:
                exchange.status = GONE
            except Exception as error:  # noqa: BLE001 - logged whole, and answered
                self._telemetry.failed(exchange.request_id, error)
                await exchange.refuse(
                    InternalError(f"the server failed; its log has {exchange.request_id}")
                )
            finally:
                self._at_work -= 1
                span(exchange.status, _template(scope))
                self._telemetry.answered(
                    request_id=exchange.request_id,
                    method=scope["method"],
                    route=_template(scope),
                    status=exchange.status,
                    duration_s=time.perf_counter() - started,
                    principal=_principal_name(scope),
                )

    async def _serve(self, scope: Scope, exchange: "_Exchange") -> None:
        if self._at_work > self._max_requests:
            raise Overloaded(f"{self._max_requests} requests are at work already")
        _route_on_raw_segments(scope)
        scope["state"]["principal"] = self._admit(scope)
        exchange.refuse_declared_size()
        await self._app(scope, exchange.receive, exchange.send)

    def _admit(self, scope: Scope) -> Principal:
        if self._access is None:
            _refuse_foreign_host(scope)
            return EVERYBODY
        if scope["path"] in PUBLIC:
            return NOBODY
        return self._access.principal(_headers(scope, b"authorization"))


class _Exchange:
    """The two ends of one request: how its body comes in and how its answer goes out."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, max_body: int, patience_s: float
    ) -> None:
        self.request_id = secrets.token_hex(8)
        self.status = 500
        self._scope = scope
        self._receive = receive
        self._send = send
        self._max_body = max_body
        self._patience_s = patience_s
        self._deadline = time.monotonic() + patience_s
        self._received = 0
        self._begun = False
        self._whole = False

    def refuse_declared_size(self) -> None:
        for value in _headers(self._scope, b"content-length"):
            if value.isdigit() and int(value) > self._max_body:
                raise self._too_large()

    async def receive(self) -> Message:
        """The next part of the body; a whole body has to arrive within the patience."""
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout(max(self._deadline - time.monotonic(), 0)):
                message = await self._receive()
        except TimeoutError:
            raise BodyTooSlow(f"the body did not arrive in {self._patience_s:g} s") from None
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
            if self._received > self._max_body:
                raise self._too_large()
        return message

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Pass a part of the answer on."""
        if message["type"] == "http.response.start":
            self._begun = True
            self.status = message["status"]
            headers = list(message.get("headers", ()))
            headers.append((REQUEST_ID_HEADER.lower().encode(), self.request_id.encode()))
            if self.status in (408, 413):
                headers.append((b"connection", b"close"))  # the rest of the body is not read
            message = {**message, "headers": headers}
        await self._send(message)

    async def refuse(self, error: StoreError) -> None:
        """Answer with an error, if the answer has not begun."""
        if not self._begun:
            await refusal(error)(self._scope, self._receive, self.send)

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(f"the body is over {self._max_body} bytes", limit_bytes=self._max_body)


def _headers(scope: Scope, name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key == name]


def _template(scope: Scope) -> str:
    return getattr(scope.get("route"), "path_format", UNROUTED)


def _principal_name(scope: Scope) -> str:
    principal = scope["state"].get("principal")
    return principal.name if principal is not None else ""


def _refuse_foreign_host(scope: Scope) -> None:
    """Refuse names that a web site could have pointed at this machine (DNS rebinding).

    A server without tokens trusts whoever can connect to it. A browser can be led to it under a
    name of an attacker's domain, which has a dot; an address or a bare name has none of theirs.
    """
    for value in _headers(scope, b"host"):
        name = _HOST_PORT.sub("", value.decode("latin-1").lower()).rstrip(".")
        if "." not in name.removesuffix(".localhost"):
            continue
        try:
            ipaddress.ip_address(name)
        except ValueError:
            raise Forbidden("without tokens the server answers to local names only") from None


def _route_on_raw_segments(scope: Scope) -> None:
    """Let an encoded slash be part of an id: route on the address before it is decoded.

    Raises:
        InvalidInput: the address is not UTF-8.
    """
    raw = scope.get("raw_path") or quote(scope["path"]).encode()
    if b"%" not in raw:
        return
    try:
        segments = [unquote_to_bytes(part).decode("utf-8") for part in raw.split(b"/")]
    except UnicodeDecodeError:
        raise InvalidInput("path", "is not UTF-8") from None
    scope["path"] = "/".join(map(escaped, segments))


def escaped(segment: str) -> str:
    """A segment of an address as routes see it; `unescaped` gives it back."""
    return segment.replace("%", "%25").replace("/", "%2F")


def unescaped(segment: str) -> str:
    """A segment as it was meant."""
    return segment.replace("%2F", "/").replace("%25", "%")
