"""The HTTP client under `openai`: an end to every wait, and no user's text in any log.

Imports `openai`, which takes a second; import this module only to make a call.
"""

import functools
import logging
import ssl
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2
import openai

T = TypeVar("T")

CONNECT_TIMEOUT_S = 10.0
_UNBOUNDED_S = 7_200.0
"""Stands for no limit when a request is made outside of `ending_after`."""
_BACKOFF_BASE_S = 0.5
_BACKOFF_CAP_S = 8.0
"""What the openai client waits between transport retries when the server names no time."""


@dataclass
class _Time:
    """When a call is over, and what its last request died of."""

    until: float
    failure: httpx2.TransportError | None = None


_time: ContextVar[_Time | None] = ContextVar("_time", default=None)


@contextmanager
def ending_after(seconds: float) -> Iterator[None]:
    """Let no request of this thread go on, or begin, once `seconds` have passed.

    Enforced by `BoundedClient`, between the parts of a response: a server that sends
    nothing at all is noticed by its read timeout.
    """
    token = _time.set(_Time(time.monotonic() + seconds))
    try:
        yield
    finally:
        _time.reset(token)


class BoundedClient(openai.DefaultHttpxClient):
    """An HTTP client whose read timeout bounds the whole response, not the wait for each byte.

    Without it a server that sends a byte now and then is never given up.
    """

    def send(
        self, request: httpx2.Request, *, stream: bool = False, **options: Any
    ) -> httpx2.Response:
        """Send one request, as `httpx2.Client.send` does.

        Raises:
            openai.APIConnectionError: the time of the whole call is over, for want of a
                connection or (APITimeoutError) of an answer; not retried.
            httpx2.TransportError: this request failed; the openai client retries it.
        """
        now = time.monotonic()
        allowed = _time.get() or _Time(now + _UNBOUNDED_S)
        until = allowed.until
        if until <= now:
            if isinstance(allowed.failure, httpx2.NetworkError):
                raise openai.APIConnectionError(request=request) from allowed.failure
            raise openai.APITimeoutError(request=request)
        timeouts = request.extensions.get("timeout", {})
        bounded = {
            name: until - now if seconds is None else min(seconds, until - now)
            for name, seconds in timeouts.items()
        }
        request.extensions = {**request.extensions, "timeout": bounded}
        try:
            response = super().send(request, stream=True, **options)
        except httpx2.TransportError as error:
            allowed.failure = error
            raise
        ends = min(until, now + bounded.get("read", until - now))
        assert isinstance(response.stream, httpx2.SyncByteStream)
        response.stream = _Bounded(response.stream, ends, request)
        if until - time.monotonic() < _wait_before_retry(response):
            response.headers["x-should-retry"] = "false"
        if not stream:
            try:
                response.read()
            except BaseException:
                response.close()
                raise
        return response


class _Bounded(httpx2.SyncByteStream):
    def __init__(self, inner: httpx2.SyncByteStream, ends: float, request: httpx2.Request) -> None:
        self._inner = inner
        self._ends = ends
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        for part in self._inner:
            yield part
            if time.monotonic() > self._ends:
                raise httpx2.ReadTimeout("the response took too long", request=self._request)

    def close(self) -> None:
        self._inner.close()


def _wait_before_retry(response: httpx2.Response) -> float:
    """Seconds the openai client would wait before it repeats the request; 0 on success."""
    if response.is_success:
        return 0.0
    try:
        if "retry-after-ms" in response.headers:
            return float(response.headers["retry-after-ms"]) / 1_000
        return float(response.headers["retry-after"])
    except (KeyError, ValueError):
        retries = response.request.headers.get("x-stainless-retry-count", "0")
        return min(_BACKOFF_BASE_S * 2.0 ** min(int(retries), 10), _BACKOFF_CAP_S)


def connect(base_url: str, api_key: str | None, *, timeout_s: float, retries: int) -> openai.OpenAI:
    """A client of an endpoint; closing it, or letting go of it, closes its connections.

    Args:
        base_url: may hold a login, which is sent as one and is part of no log line.
        timeout_s: for one whole response.
        retries: of a request, after a transport error, 429 or 5xx.
    """
    silence_text_in_logs()
    url = httpx2.URL(base_url)
    # A password in the address would be part of every request that httpx2 logs.
    login = (url.username, url.password) if url.userinfo else None
    timeout = httpx2.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S))
    http = BoundedClient(timeout=timeout, auth=login, verify=_trusted())
    client = openai.OpenAI(
        base_url=url.copy_with(userinfo=b""),
        api_key=api_key or "none",
        timeout=timeout,
        max_retries=retries,
        http_client=http,
    )
    weakref.finalize(client, http.close)
    return client


@functools.cache
def _trusted() -> ssl.SSLContext:
    """The certificates that are believed. Reading them takes longer than making a client."""
    return httpx2.create_ssl_context()


def post(client: openai.OpenAI, path: str, body: Mapping[str, Any], cast_to: type[T]) -> T:
    """Send one request, as the client's own resource of that path would, without loading it.

    `client.chat.completions` and `client.embeddings` import the resources and types of every
    endpoint of OpenAI's, half a second of CPU; `client.post` is their documented way beneath.

    Raises:
        openai.APIError: as the resources.
    """
    return client.post(path, cast_to=cast_to, body=body)


def silence_text_in_logs() -> None:
    """Keep what was asked and answered out of logs, whatever level the application logs at.

    openai logs whole requests when debugging. instructor logs every failed attempt, which is
    reported by our own errors anyway, with whatever the exception says.
    """
    logging.getLogger("instructor").setLevel(logging.CRITICAL + 1)
    for name in ("openai._base_client", "openai._response", "openai._legacy_response"):
        logger = logging.getLogger(name)
        if _no_debugging not in logger.filters:
            logger.addFilter(_no_debugging)


def _no_debugging(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.INFO
