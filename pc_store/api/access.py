"""Who may call: bearer tokens, each limited to scopes and verbs.

`PC_API_TOKENS` is a JSON list, or the path of a file that holds one and is read again whenever it
changes. Only the SHA-256 of a token is kept in memory, and nothing here logs or repeats one.
"""

import hmac
import ipaddress
import logging
import threading
import time
from collections.abc import Sequence

from pc_store.api.refusals import Forbidden, Unauthorized
from pc_store.domain.principal import Grant, digest
from pc_store.domain.principal import Verb as Verb
from pc_store.errors import InvalidInput
from pc_store.services.allow import read_tokens, token_file
from pc_store.settings import Settings

_SETTING = "PC_API_TOKENS"
_LOOK_AGAIN_S = 1.0

log = logging.getLogger("pc_store.api.access")


class Principal(Grant):
    """Somebody who may call."""

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


EVERYBODY = Principal("")
"""Who calls a server without tokens, which listens on loopback only."""
NOBODY = Principal("", frozenset(), frozenset())
"""Who calls a public path of a server that has tokens."""


class Access:
    """The tokens in force. Safe to share between threads."""

    def __init__(self, given: str) -> None:
        """Read the tokens.

        Args:
            given: a JSON list, or the path of a file.

        Raises:
            InvalidInput: as `allow.read_tokens`.
        """
        self._given = given
        self._file = token_file(given)
        self._lock = threading.Lock()
        self._looked = time.monotonic()
        self._stamp = self._file_stamp()
        self._known = _read(given)

    @classmethod
    def of(cls, settings: Settings) -> "Access | None":
        """The access that settings ask for; None for a server without tokens.

        Raises:
            InvalidInput: as the constructor.
        """
        if settings.api_tokens is None:
            return None
        return cls(settings.api_tokens.get_secret_value())

    def principal(self, authorization: Sequence[bytes]) -> Principal:
        """Who sends these `Authorization` headers. Raises Unauthorized."""
        self._reread_if_changed()
        if len(authorization) != 1:
            raise Unauthorized("one bearer token is needed")
        scheme, _, token = authorization[0].strip().partition(b" ")
        presented = digest(token.strip())
        found: Principal | None = None
        for known, principal in self._known:  # never leaves early, so time says nothing
            if hmac.compare_digest(known, presented):
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
                self._known = _read(self._given)
                log.info("the tokens were read again")
            except InvalidInput as error:
                log.error(
                    "the tokens changed and are not valid, the earlier ones stay: %s", error.message
                )

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


def _read(given: str) -> tuple[tuple[bytes, Principal], ...]:
    return tuple((token, Principal(**vars(grant))) for token, grant in read_tokens(given))
