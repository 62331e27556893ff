"""How every call is sent: address, token, repetitions, errors."""

import os
import random
import time
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from pc_store import __version__
from pc_store.client.raised import ServerUnreachable, StrangeAnswer, error_of
from pc_store.errors import InvalidInput

URL_VARIABLE = "PC_API_URL"
TOKEN_VARIABLE = "PC_API_TOKEN"  # noqa: S105 - a name, not a token
DEFAULT_URL = "http://127.0.0.1:8000"

TRIES = 3
_LONGEST_WAIT_S = 10.0
_SAFE_AT_ONCE = frozenset({"store_busy", "store_unavailable", "server_busy"})
"""Refusals before anything was done. A model that is out of reach has its own, longer pauses."""

Body = TypeVar("Body", bound=BaseModel)


class Connection:
    """A connection to one server."""

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        timeout_s: float = 60.0,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Connect lazily.

        Args:
            url: None for `PC_API_URL`, or else http://127.0.0.1:8000.
            token: None for `PC_API_TOKEN`; without either, no token is sent.
            timeout_s: how long one request may take; calls that wait for a model have longer.

        Raises:
            InvalidInput: the address or the token is none.
        """
        address = (url or os.environ.get(URL_VARIABLE) or DEFAULT_URL).rstrip("/")
        token = token or os.environ.get(TOKEN_VARIABLE)
        if token is not None and not (token.isascii() and token.isprintable()):
            raise InvalidInput(TOKEN_VARIABLE, "holds something else than printable ASCII")
        headers = {"User-Agent": f"pc-pipelines/{__version__}"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            base = httpx.URL(address)
        except httpx.InvalidURL:
            base = httpx.URL("")
        if base.scheme not in ("http", "https") or not base.host:
            raise InvalidInput(URL_VARIABLE, "is no address such as http://127.0.0.1:8000")
        self._sleep = sleep
        self._http = httpx.Client(
            base_url=base, headers=headers, timeout=timeout_s, transport=transport
        )

    @property
    def url(self) -> str:
        """The server's address."""
        return str(self._http.base_url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections."""
        self._http.close()

    def _ask(self, kind: type[Body], method: str, path: str, **how: Any) -> Body:
        """Send a request and return its answer's body; see `_exchange`."""
        return self._body(kind, self._exchange(method, path, **how))

    def _body(self, kind: type[Body], answer: httpx.Response) -> Body:
        try:
            return kind.model_validate_json(answer.content)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "the body"
            raise StrangeAnswer(
                f"the server's {kind.__name__} is of another version: {where}: {first['msg']}"
            ) from None

    def _exchange(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        json: Mapping[str, Any] | None = None,
        whole: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        repeats: bool = False,
        timeout_s: float | None = None,
        takes: frozenset[int] = frozenset(),
    ) -> httpx.Response:
        """Send a request, again where that is harmless, and return its answer.

        Sent again after a broken connection is only what changes nothing the second time; and
        whatever was refused with 503 and `Retry-After` before anything was done.

        Args:
            query, json: what is None in it is left out.
            whole: a body that is sent with what is None in it.
            repeats: a second time changes nothing; an idempotency key makes any call such.
            takes: statuses besides 2xx that are answers.

        Raises:
            StoreError: the refusal, as the class that has its code.
            ServerUnreachable, StrangeAnswer.
        """
        sent = dict(headers or {})
        if idempotency_key is not None:
            sent["Idempotency-Key"] = idempotency_key
        try:
            request = self._http.build_request(
                method,
                path,
                params=_given(query),
                json=_given(json) if whole is None else dict(whole),
                headers=sent,
                timeout=httpx.USE_CLIENT_DEFAULT if timeout_s is None else timeout_s,
            )
        except (TypeError, ValueError) as error:
            raise InvalidInput("body", f"cannot be sent: {type(error).__name__}") from None
        repeats = repeats or idempotency_key is not None
        for last in (*[False] * (TRIES - 1), True):
            try:
                answer = self._http.send(request)
            except httpx.HTTPError as error:
                if last or not repeats:
                    raise ServerUnreachable(
                        f"no answer from {self.url}: {type(error).__name__}"
                    ) from None
                self._sleep(random.uniform(0.1, 0.3))  # noqa: S311 - spreads callers, no secret
                continue
            if answer.is_success or answer.status_code in takes:
                return answer
            refused = error_of(answer)
            wait_s = _retry_after(answer)
            if last or wait_s is None or refused.code not in _SAFE_AT_ONCE:
                raise refused
            self._sleep(wait_s)
        raise AssertionError("the last try returns or raises")


def _given(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if values is None else {k: v for k, v in values.items() if v is not None}


def _retry_after(answer: httpx.Response) -> float | None:
    if answer.status_code != 503:
        return None
    said = answer.headers.get("Retry-After", "")
    return min(float(said), _LONGEST_WAIT_S) if said.isdigit() else None
