"""A scope, the isolation boundary; and its key, the form in which its id names partitions."""

import hashlib
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pc_store import limits
from pc_store.domain.text import storable, within
from pc_store.errors import InvalidInput

_KEY_MAX_CHARS = 200
_KEY_HEAD_CHARS = 150
_UNSAFE_DOTS = re.compile(r"^\.|\.(?=\.)|\.$")


@dataclass(frozen=True)
class Scope:
    """A scope as stored. `version` is the optimistic lock for updates."""

    scope_id: str
    key: str
    title: str
    summary: str
    version: int
    created_at: int
    parent_scope_id: str | None = None
    context_references: tuple[str, ...] = ()
    external_references: tuple[dict[str, Any], ...] = ()


def scope_id(value: str) -> str:
    """Return a scope id unchanged: it is compared byte by byte.

    Raises:
        InvalidInput: blank, unstorable, or over 256 characters.
    """
    storable("scope_id", value)
    if not value.strip():
        raise InvalidInput("scope_id", "is blank")
    return within("scope_id", value, limits.SCOPE_ID_MAX_CHARS)


def title(value: str) -> str:
    """Return a title unchanged. Raises InvalidInput: blank, unstorable or over 256 characters."""
    return _label("title", value, limits.SCOPE_TITLE_MAX_CHARS)


def summary(value: str) -> str:
    """Return a summary unchanged. Raises InvalidInput: blank, unstorable, over 2,000 characters."""
    return _label("summary", value, limits.SCOPE_SUMMARY_MAX_CHARS)


def _label(field: str, value: str, most: int) -> str:
    storable(field, value)
    if not value.strip():
        raise InvalidInput(field, "is blank")
    return within(field, value, most)


def partition_key(scope: str) -> str:
    """The scope id as it appears in partition keys, tags and folder names; at most 200 characters.

    Letters, digits, `-`, `_` and inner single dots stand for themselves, every other byte is
    percent-encoded, so different ids have different keys and a key is a safe file name. Where
    that would be longer, the head of it is followed by `~` and the id's SHA-256 (a `~` in an
    id is itself encoded, so the two forms cannot meet).
    """
    encoded = quote(scope, safe="").replace("~", "%7E")
    encoded = _UNSAFE_DOTS.sub("%2E", encoded)
    if len(encoded) <= _KEY_MAX_CHARS:
        return encoded
    head = re.sub(r"%[0-9A-F]?$", "", encoded[:_KEY_HEAD_CHARS])
    return f"{head}~{hashlib.sha256(scope.encode()).hexdigest()[:40]}"
