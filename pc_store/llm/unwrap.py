"""The one JSON object in what a model answered, whatever it put around it."""

import json
import re
from typing import Any


class UnreadableError(ValueError):
    """A model's answer does not hold exactly one JSON object; the message says what it holds."""


def reply_in(text: str, key: str) -> dict[str, Any]:
    """The object of an answer, taken out of a tool's call that was written as text.

    Args:
        key: the member by which the object is known.

    Raises:
        UnreadableError: as `one_object`.
    """
    value = one_object(text, key)
    inner = value.get("arguments", value.get("parameters"))
    return inner if key not in value and isinstance(inner, dict) else value


def one_object(text: str, key: str = "candidates") -> dict[str, Any]:
    """The one JSON object an answer holds.

    Tolerated, because they leave no doubt: a byte order mark, reasoning in a `<think>` block
    before the answer, Markdown fences, prose around the object, commas after the last member,
    raw line breaks in strings, and the same object twice.

    Raises:
        UnreadableError: there is none, a list instead, two different ones, one with a key twice,
            or text that begins like an object and is not one, such as an answer cut short.
    """
    bare = _after_thinking(text.strip().strip("\ufeff").strip())
    found: list[Any] = []
    position = 0
    while start := _START.search(bare, position):
        value, position = _value_at(bare, start.start())
        if value not in found:
            found.append(value)
    if not found:
        raise UnreadableError("is empty" if not bare else "holds no JSON object")
    if len(found) > 1:
        raise UnreadableError("holds several different JSON values, exactly one object is expected")
    if not isinstance(found[0], dict):
        raise UnreadableError(f"is a list, an object with the key {key} is expected")
    return found[0]


# What begins an object or a list, not a placeholder like {user} or a footnote like [1] in prose.
_START = re.compile(r'\{(?=\s*["}])|\[(?=\s*[\[{])|^\[(?=\s*\])')
_THOUGHT = re.compile(r"<(think|thinking|reasoning)>.*?</\1>\s*", re.DOTALL | re.IGNORECASE)
_THOUGHT_END = re.compile(r"</(?:think|thinking|reasoning)>\s*", re.IGNORECASE)
_THOUGHT_START = re.compile(r"<(?:think|thinking|reasoning)>", re.IGNORECASE)
_LAST_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])', re.DOTALL)


def _after_thinking(text: str) -> str:
    while thought := _THOUGHT.match(text):
        text = text[thought.end() :]
    if _THOUGHT_START.match(text):
        raise UnreadableError("ends inside its reasoning")
    # Some chat templates open the block in the prompt, so that only its end is in the answer.
    if not text.startswith(("{", "[", "`")) and (end := _THOUGHT_END.search(text)):
        text = text[end.end() :]
    return text


def _value_at(text: str, start: int) -> tuple[Any, int]:
    """The JSON value that begins at `start`, and where it ends."""
    try:
        try:
            return _DECODER.raw_decode(text, start)
        except json.JSONDecodeError:
            # Same length, so that the end is right in the original as well.
            mended = _LAST_COMMA.sub(lambda m: m[0] if m[0] != "," else " ", text[start:])
            value, length = _DECODER.raw_decode(mended)
            return value, start + length
    except UnreadableError:
        raise
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise UnreadableError(f"is not valid JSON at {where}: {error.msg.lower()}") from None
    except (ValueError, RecursionError):
        raise UnreadableError(
            "is not valid JSON: it nests too deep or holds too large a number"
        ) from None


def _without_doubt(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, member in pairs:
        if key in value and value[key] != member:
            raise UnreadableError("has a key twice in one object, with different values")
        value[key] = member
    return value


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_without_doubt)
