"""Serve the application: a socket, uvicorn, and the limits that keep slow clients harmless."""

import asyncio
import json
import logging
import secrets
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from pc_store.api.access import Access, refuse_open_bind
from pc_store.api.app import create_app
from pc_store.api.responses import REQUEST_ID_HEADER
from pc_store.api.telemetry import log_to_stderr
from pc_store.errors import StoreUnavailable
from pc_store.settings import Settings

MAX_CONNECTIONS = 1_024
MAX_HEAD_BYTES = 65_536
KEEP_ALIVE_S = 15
GRACE_S = 30
_SIGNALS = (signal.SIGINT, signal.SIGTERM)

log = logging.getLogger("pc_store.api.server")


class GuardedProtocol(H11Protocol):
    """HTTP/1.1 that gives up on clients who dawdle, sending or reading, or who are too many."""

    patience_s = 30.0
    _head_due: asyncio.TimerHandle | None = None
    _drain_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
            return
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Read on; the watch ends with the head, which may come in pieces."""
        if self._head_due is None and not self._answering():
            self._expect_head()
        super().data_received(data)
        if self._answering():
            self._head_came()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._head_came()
        self._drained()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Watch a client that takes its answer slower than it is made."""
        super().pause_writing()
        self._expect_drain(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """The client caught up."""
        self._drained()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - told in our own words
        """Refuse what is not HTTP, in the body that every error has."""
        error = {"code": "invalid_request", "message": "this is not an HTTP request"}
        body = json.dumps({"error": error | {"details": None}}).encode()
        head = (
            "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n"
            f"{REQUEST_ID_HEADER}: {secrets.token_hex(8)}\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_head(self) -> None:
        self._head_due = self.loop.call_later(self.patience_s, self.transport.close)

    def _head_came(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None

    def _expect_drain(self, waiting_bytes: int) -> None:
        """Give the client the same time again as long as it takes something."""

        def look() -> None:
            left = self.transport.get_write_buffer_size()
            if left >= waiting_bytes:
                self.transport.abort()
            else:
                self._expect_drain(left)

        self._drained()
        self._drain_due = self.loop.call_later(self.patience_s, look)

    def _drained(self) -> None:
        if self._drain_due is not None:
            self._drain_due.cancel()
            self._drain_due = None


class Server(uvicorn.Server):
    """uvicorn, ending its process normally after a signal instead of dying of it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at the first SIGINT or SIGTERM; give up waiting for requests at the second."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {name: signal.signal(name, self._stop) for name in _SIGNALS}
        try:
            yield
        finally:
            for name, handler in before.items():
                signal.signal(name, handler)

    def _stop(self, _name: int, _frame: FrameType | None) -> None:
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises StoreUnavailable: the address cannot be had."""
    try:
        (family, kind, proto, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listening = socket.socket(family, kind, proto)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(512)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise StoreUnavailable(f"cannot listen on {host} port {port}: {error.strerror}") from None
    return listening


def make_server(settings: Settings, *, access: Access | None) -> Server:
    """The server of a store, not yet listening."""
    protocol = type("Protocol", (GuardedProtocol,), {"patience_s": settings.http_client_timeout_s})
    config: dict[str, Any] = {
        "http": protocol,
        "ws": "none",
        "lifespan": "on",
        "proxy_headers": False,
        "server_header": False,
        "access_log": False,
        "log_config": None,
        "timeout_keep_alive": KEEP_ALIVE_S,
        "timeout_graceful_shutdown": GRACE_S,
        "h11_max_incomplete_event_size": MAX_HEAD_BYTES,
    }
    return Server(uvicorn.Config(create_app(settings, access=access), **config))


def prepare(settings: Settings) -> tuple[Server, socket.socket]:
    """Check who may call, listen, and return the server with its socket.

    Raises:
        InvalidInput: the tokens are not valid, or missing on an address beyond loopback.
        StoreUnavailable: the address or the ledger cannot be had.
    """
    access = Access.of(settings)
    refuse_open_bind(settings.http_host, access)
    listening = listen(settings.http_host, settings.http_port)
    try:
        log_to_stderr()
        return make_server(settings, access=access), listening
    except BaseException:
        listening.close()
        raise
