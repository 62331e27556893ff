"""A scope, the isolation boundary; and its key, the form in which its id names partitions."""

import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pc_store import limits
from pc_store.domain.text import identifier, storable, within
from pc_store.errors import InvalidInput, InvalidScopeRelationship

_KEY_MAX_CHARS = 200
_KEY_HEAD_CHARS = 150
_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
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


@dataclass(frozen=True)
class BindingKey:
    """An id of another system, such as a repository's address. Make one with `binding_key`."""

    integration: str
    kind: str
    external_id: str


def binding_key(integration: str, kind: str, external_id: str) -> BindingKey:
    """Check a binding's key and return it.

    Raises:
        InvalidInput: a part is blank, unstorable, with white space around it, or over 128, 64
            and 256 characters.
    """
    return BindingKey(
        identifier("integration", integration, limits.BINDING_INTEGRATION_MAX_CHARS),
        identifier("kind", kind, limits.BINDING_KIND_MAX_CHARS),
        identifier("external_id", external_id, limits.BINDING_EXTERNAL_ID_MAX_CHARS),
    )


def new_scope_id() -> str:
    """Make an id: `scp_` and 128 random bits as 26 lower-case Crockford base-32 characters."""
    bits = secrets.randbits(128)
    return "scp_" + "".join(_CROCKFORD[bits >> shift & 31] for shift in range(125, -1, -5))


def context_references(values: Iterable[str], *, of: str | None) -> tuple[str, ...]:
    """Return the ids sorted.

    Args:
        of: the scope that has them; None while it has no id yet.

    Raises:
        InvalidInput: an id breaks a rule or is repeated, or there are more than 100.
        InvalidScopeRelationship: the scope itself is among them.
    """
    listed = [scope_id(value) for value in values]
    if len(set(listed)) != len(listed):
        raise InvalidInput("context_references", "are not unique")
    if len(listed) > limits.SCOPE_REFERENCES_MAX:
        raise InvalidInput(
            "context_references",
            f"has {len(listed)} items, the most is {limits.SCOPE_REFERENCES_MAX}",
        )
    if of in listed:
        raise InvalidScopeRelationship("Context Reference", "a scope cannot reference itself")
    return tuple(sorted(listed))


def external_references(values: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Return the references, each {kind, value}, in the order given.

    Raises:
        InvalidInput: one is not {kind, value}, blank, unstorable, over 128 and 2,000
            characters, or repeated; or there are more than 100.
    """
    checked: list[dict[str, Any]] = []
    for value in values:
        if set(value) != {"kind", "value"} or not all(isinstance(v, str) for v in value.values()):
            raise InvalidInput("external_references", "must be objects of kind and value")
        most = limits.EXTERNAL_REFERENCE_KIND_MAX_CHARS, limits.EXTERNAL_REFERENCE_VALUE_MAX_CHARS
        checked.append(
            {
                "kind": _label("external_references.kind", value["kind"], most[0]),
                "value": _label("external_references.value", value["value"], most[1]),
            }
        )
        if checked[-1] in checked[:-1]:
            raise InvalidInput("external_references", "are not unique")
    if len(checked) > limits.SCOPE_REFERENCES_MAX:
        raise InvalidInput(
            "external_references",
            f"has {len(checked)} items, the most is {limits.SCOPE_REFERENCES_MAX}",
        )
    return tuple(checked)


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
