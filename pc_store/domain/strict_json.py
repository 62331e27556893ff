"""JSON as it is accepted and compared: only what reads the same everywhere.

Refused: NaN and infinities (also by overflow, `1e400`), repeated object keys, integers
outside 64 bits, nesting deeper than 64, NUL characters and lone surrogates.
"""

import hashlib
import json
import math
from typing import Any, NoReturn

import rfc8785

from pc_store import limits
from pc_store.domain.text import storable
from pc_store.errors import InvalidInput

_SAFE_INTEGER = 2**53 - 1


def loads(text: str, *, field: str = "body") -> Any:
    """Parse one JSON document.

    Raises:
        InvalidInput: it is not JSON, or breaks a rule of this module; `field` is named.
    """
    _refuse_deep(text, field)

    def constant(name: str) -> NoReturn:
        raise InvalidInput(field, f"holds {name}, which is not JSON")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise InvalidInput(field, f"has the key {twice!r} more than once in one object")
        return value

    def integer(digits: str) -> int:
        if len(digits) > 20 or not limits.JSON_INT_MIN <= int(digits) <= limits.JSON_INT_MAX:
            raise InvalidInput(field, f"holds the integer {digits[:24]}, which exceeds 64 bits")
        return int(digits)

    try:
        value = json.loads(
            text, parse_constant=constant, object_pairs_hook=unique, parse_int=integer
        )
    except json.JSONDecodeError as error:
        raise InvalidInput(
            field, f"is not JSON: {error.msg.lower()} at line {error.lineno} column {error.colno}"
        ) from None
    return checked(value, field=field)


def checked(value: Any, *, field: str = "body") -> Any:
    """Return an already parsed JSON value unchanged.

    Raises:
        InvalidInput: it breaks a rule of this module, or is no JSON value at all.
    """
    level = [(value, field)]
    for _ in range(limits.JSON_MAX_DEPTH + 1):
        following: list[tuple[Any, str]] = []
        for item, where in level:
            following.extend(_children(item, where))
        if not following:
            return value
        level = following
    raise InvalidInput(field, f"nests deeper than {limits.JSON_MAX_DEPTH}")


def _children(item: Any, where: str) -> list[tuple[Any, str]]:
    if isinstance(item, str):
        storable(where, item)
    elif isinstance(item, bool) or item is None:
        pass
    elif isinstance(item, int):
        if not limits.JSON_INT_MIN <= item <= limits.JSON_INT_MAX:
            raise InvalidInput(where, "is an integer that exceeds 64 bits")
    elif isinstance(item, float):
        if not math.isfinite(item):
            raise InvalidInput(where, "is not a finite number")
    elif isinstance(item, list | tuple):
        return [(member, f"{where}[{index}]") for index, member in enumerate(item)]
    elif isinstance(item, dict):
        for key in item:
            if not isinstance(key, str):
                raise InvalidInput(where, f"has the key {key!r}, which is not a string")
            storable(where, key)
        return [(member, f"{where}.{key}") for key, member in item.items()]
    else:
        raise InvalidInput(where, f"is a {type(item).__name__}, which is no JSON value")
    return []


def _refuse_deep(text: str, field: str) -> None:
    """Bound the nesting before the parser, which would recurse, sees it."""
    depth = 0
    in_string = escaped = False
    if text.count("[") + text.count("{") <= limits.JSON_MAX_DEPTH:
        return
    for character in text:
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in "[{":
            depth += 1
            if depth > limits.JSON_MAX_DEPTH:
                raise InvalidInput(field, f"nests deeper than {limits.JSON_MAX_DEPTH}")
        elif character in "]}":
            depth -= 1


def dumps(value: Any) -> str:
    """Compact JSON text that `loads` reads back as the same value."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def canonical(value: Any) -> bytes:
    """RFC 8785 (JCS) bytes: equal values give equal bytes, `1` and `1.0` included.

    Integers beyond 2^53 that no double holds, for which the RFC has no form, are written as an
    object that no accepted key can be confused with, so that neighbours stay distinct.
    """
    return rfc8785.dumps(_within_rfc(value))


def _within_rfc(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _within_rfc(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_within_rfc(member) for member in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _SAFE_INTEGER:
        nearest = float(value)
        return nearest if nearest == value else {"\x00integer": str(value)}
    return value


def digest(value: Any) -> str:
    """SHA-256 of the canonical form, lower-case hex."""
    return hashlib.sha256(canonical(value)).hexdigest()


def digest_prefixed(prefix: str, value: Any) -> str:
    """SHA-256 of an ASCII prefix, a NUL and the canonical form, lower-case hex."""
    return hashlib.sha256(prefix.encode() + b"\0" + canonical(value)).hexdigest()
