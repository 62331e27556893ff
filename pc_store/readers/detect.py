"""Which format a log is in, told by its name and its beginning; and the reader of each."""

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

from pc_store.errors import InvalidInput
from pc_store.readers import claude_code, jsonl, plain_text, swe_agent, tau_bench
from pc_store.readers.reading import (
    HEAD_BYTES,
    Read,
    Reader,
    Reject,
    Tally,
    binary_reason,
    name_of,
    opened,
    unreadable,
)

Format = Literal["jsonl", "text", "claude-code", "swe-agent", "tau-bench"]
FORMATS: tuple[str, ...] = (*get_args(Format), "auto")
"""What a caller may ask for; `auto` lets `detect` decide for each file."""

READERS: dict[Format, Reader] = {
    "jsonl": jsonl.read,
    "text": plain_text.read,
    "claude-code": claude_code.read,
    "swe-agent": swe_agent.read,
    "tau-bench": tau_bench.read,
}

_START_BYTES = 256 * 1024
_LINE_SUFFIXES = (".jsonl", ".ndjson")
_SESSION_TYPES = frozenset({"user", "assistant"}) | claude_code.BOOKKEEPING
_SESSION_KEYS = frozenset({"sessionId", "uuid", "parentUuid", "leafUuid", "messageId", "snapshot"})


def detect(path: Path) -> Format:
    """Tell a file's format; of a file that could be several, the name decides.

    Raises:
        InvalidInput: it is binary, or JSON of no known format, which is better rejected than
            stored as if it were prose.
        OSError, EOFError, zlib.error: it cannot be read.
    """
    name = path.name.lower().removesuffix(".gz")
    with opened(path) as (stream, _):
        start = stream.read(_START_BYTES)
    if reason := binary_reason(start[:HEAD_BYTES]):
        raise InvalidInput("file", reason)
    text = start.decode("utf-8-sig", "replace").lstrip()
    if name.endswith(".traj"):
        return "swe-agent"
    if name.endswith(_LINE_SUFFIXES):
        return "claude-code" if _is_session(text) else "jsonl"
    if name.endswith((".md", ".markdown", ".txt", ".rst")) or text[:1] not in ("{", "["):
        if name.endswith(".json") and text:
            raise InvalidInput("file", "is named as JSON and is not")
        return "text"
    return _of_json(text, is_json_file=name.endswith(".json"))


def read(
    path: Path, *, root: Path, format: str = "auto", tally: Tally | None = None
) -> Iterator[Read | Reject]:
    """Yield what a file holds, in the format given or, with `auto`, found out.

    Raises:
        InvalidInput: there is no such format.
    """
    if format not in FORMATS:
        raise InvalidInput("format", f"is {format!r}, which is none of {', '.join(FORMATS)}")
    return _read(path, root=root, format=format, tally=tally)


def _read(path: Path, *, root: Path, format: str, tally: Tally | None) -> Iterator[Read | Reject]:
    try:
        found = detect(path) if format == "auto" else _named(format)
    except InvalidInput as error:
        yield Reject(name_of(path, root), None, error.message, "")
    except (OSError, EOFError, zlib.error) as error:
        yield Reject(name_of(path, root), None, unreadable(error), "")
    else:
        yield from READERS[found](path, root=root, tally=tally)


def _named(format: str) -> Format:
    return next(known for known in READERS if known == format)


def _is_session(text: str) -> bool:
    """Whether one of the first whole lines is a record of a Claude Code session."""
    for line in text.split("\n")[:50]:
        record = _object(line)
        if "content" not in record and record.get("type") in _SESSION_TYPES:
            return bool(_SESSION_KEYS & record.keys())
    # A first line too long to be seen whole still begins with its keys.
    return text.startswith('{"parentUuid":')


def _of_json(text: str, *, is_json_file: bool) -> Format:
    if text.startswith("[") and all(f'"{key}"' in text for key in ("task_id", "reward")):
        return "tau-bench"
    if text.startswith("{"):
        if _is_session(text):
            return "claude-code"
        if "content" in _object(text.split("\n", 1)[0]):
            return "jsonl"
        if '"trajectory"' in text or ('"history"' in text and '"role"' in text):
            return "swe-agent"
    if is_json_file:
        raise InvalidInput("file", "is JSON of no known format; name the format to read it anyway")
    return "text"


def _object(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
