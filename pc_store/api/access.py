"""Who may call: bearer tokens, each limited to scopes and verbs.

`PC_API_TOKENS` is a JSON list, or the path of a file that holds one and is read again whenever it
changes. Only the SHA-256 of a token is kept in memory, and nothing here logs or repeats one.
"""

import hashlib
import hmac
import ipaddress
import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pc_store.api.refusals import Forbidden, Unauthorized
from pc_store.domain import strict_json
from pc_store.errors import InvalidInput
from pc_store.settings import Settings

Verb = Literal["read", "contribute", "review", "admin"]
ANY_SCOPE = "*"
_SETTING = "PC_API_TOKENS"
_LOOK_AGAIN_S = 1.0

log = logging.getLogger("pc_store.api.access")


@dataclass(frozen=True)
class Principal:
    """Somebody who may call. `admin` includes every other verb."""

    name: str
    scopes: frozenset[str] = frozenset({ANY_SCOPE})
    verbs: frozenset[str] = frozenset({"admin"})

    def may(self, verb: Verb) -> bool:
        """Whether the verb is allowed."""
        return bool(self.verbs & {verb, "admin"})

    def require(self, verb: Verb) -> None:
        """Raise Forbidden unless the verb is allowed."""
        if not self.may(verb):
            raise Forbidden(f"the token {self.name!r} does not allow {verb}", verb=verb)

    def require_scope(self, scope_id: str) -> None:
        """Raise Forbidden unless the scope is allowed, whether it exists or not."""
        if not self.sees(scope_id):
            raise Forbidden(f"the token {self.name!r} does not allow this scope")

    def require_every_scope(self) -> None:
        """Raise Forbidden if the token is limited to some scopes."""
        if self.limited:
            raise Forbidden(f"the token {self.name!r} is limited to some scopes")

    @property
    def limited(self) -> bool:
        """Whether only some scopes are allowed."""
        return ANY_SCOPE not in self.scopes

    def sees(self, scope_id: str) -> bool:
        """Whether the scope is allowed."""
        return not self.limited or scope_id in self.scopes


EVERYBODY = Principal("")
"""Who calls a server without tokens, which listens on loopback only."""
NOBODY = Principal("", frozenset(), frozenset())
"""Who calls a public path of a server that has tokens."""


class _Token(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    name: str = Field(min_length=1, max_length=128, pattern=r"^[\x21-\x7E]+$")
    token: str | None = Field(default=None, min_length=8, pattern=r"^[\x21-\x7E]+$")
    token_sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    scopes: list[str] = Field(min_length=1)
    verbs: list[Verb] = Field(min_length=1)

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if (self.token is None) == (self.token_sha256 is None):
            raise ValueError("exactly one of token and token_sha256 is needed")
        return self

    @property
    def digest(self) -> bytes:
        if self.token_sha256 is not None:
            return self.token_sha256.encode()
        assert self.token is not None
        return _digest(self.token.encode())


class _Tokens(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, hide_input_in_errors=True)

    tokens: list[_Token] = Field(min_length=1)

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        for what in ("name", "digest"):
            if len({getattr(token, what) for token in self.tokens}) != len(self.tokens):
                raise ValueError("two tokens have the same name or the same value")
        return self


class Access:
    """The tokens in force. Safe to share between threads."""

    def __init__(self, given: str) -> None:
        """Read the tokens.

        Args:
            given: a JSON list, or the path of a file.

        Raises:
            InvalidInput: it is neither, or a token breaks a rule; the message names the place
                and never a token.
        """
        self._file = None if given.lstrip().startswith("[") else Path(given)
        self._lock = threading.Lock()
        self._looked = time.monotonic()
        self._stamp = self._file_stamp()
        self._known = _read(self._file.read_text("utf-8") if self._file else given)

    @classmethod
    def of(cls, settings: Settings) -> "Access | None":
        """The access that settings ask for; None for a server without tokens.

        Raises:
            InvalidInput: as the constructor; or the file cannot be read.
        """
        if settings.api_tokens is None:
            return None
        try:
            return cls(settings.api_tokens.get_secret_value())
        except (OSError, UnicodeDecodeError):
            raise InvalidInput(_SETTING, "is neither a JSON list nor a readable file") from None

    def principal(self, authorization: Sequence[bytes]) -> Principal:
        """Who sends these `Authorization` headers. Raises Unauthorized."""
        self._reread_if_changed()
        if len(authorization) != 1:
            raise Unauthorized("one bearer token is needed")
        scheme, _, token = authorization[0].strip().partition(b" ")
        presented = _digest(token.strip())
        found: Principal | None = None
        for digest, principal in self._known:  # never leaves early, so time says nothing
            if hmac.compare_digest(digest, presented):
                found = principal
        if found is None or scheme.lower() != b"bearer":
            raise Unauthorized("the bearer token is missing or unknown")
        return found

    def _reread_if_changed(self) -> None:
        if self._file is None or time.monotonic() - self._looked < _LOOK_AGAIN_S:
            return
        with self._lock:
            self._looked = time.monotonic()
            stamp = self._file_stamp()
            if stamp == self._stamp:
                return
            self._stamp = stamp
            try:
                self._known = _read(self._file.read_text("utf-8"))
                log.info("the tokens were read again")
            except (OSError, UnicodeDecodeError, InvalidInput) as error:
                said = error.message if isinstance(error, InvalidInput) else "it cannot be read"
                log.error("the tokens changed and are not valid, the earlier ones stay: %s", said)

    def _file_stamp(self) -> tuple[int, int, int] | None:
        try:
            found = self._file.stat() if self._file else None
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_size, found.st_ino) if found else None


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def refuse_open_bind(host: str, access: Access | None) -> None:
    """Refuse to listen beyond loopback without tokens.

    Raises:
        InvalidInput: that is what was asked for.
    """
    if access is None and not is_loopback(host):
        raise InvalidInput(
            _SETTING,
            f"is not set, and {host} can be reached from other machines: give tokens, or listen "
            "on 127.0.0.1",
        )


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).hexdigest().encode()


def _read(text: str) -> tuple[tuple[bytes, Principal], ...]:
    try:
        tokens = _Tokens.model_validate({"tokens": strict_json.loads(text, field=_SETTING)}).tokens
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"][1:])
        raise InvalidInput(_SETTING, f"{where}: {first['msg'].lower()}".lstrip(": ")) from None
    return tuple(
        (token.digest, Principal(token.name, frozenset(token.scopes), frozenset(token.verbs)))
        for token in tokens
    )
