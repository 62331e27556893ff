"""Generic JSONL: one `{"source_id"?, "content", "metadata"?}` a line, strict JSON.

A line without an id gets `<file>:<line>:<12 hex of its digest>`: reading the file again, or
after lines were added at its end, gives the same ids; equal lines of one file are two sources;
and a line that was changed is another source, not a conflict.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pc_store.domain import strict_json
from pc_store.domain.source import new_source
from pc_store.errors import InvalidInput
from pc_store.readers.reading import Line, Read, Reject, Tally, file_key, lines, name_of

_KEYS = ("source_id", "content", "metadata")


def read(path: Path, *, root: Path, tally: Tally | None = None) -> Iterator[Read | Reject]:
    """Yield a source per line. Content over the limit is rejected: the id is the writer's."""
    tally = tally if tally is not None else Tally()
    file = name_of(path, root)
    key = file_key(file)
    for line in lines(path, file=file, tally=tally):
        if isinstance(line, Reject):
            yield line
            continue
        try:
            yield _source(line, key)
        except InvalidInput as error:
            yield line.rejected(file, error)


def _source(line: Line, key: str) -> Read:
    record: Any = strict_json.loads(line.text, field="line")
    if not isinstance(record, dict):
        raise InvalidInput("line", f"is a {type(record).__name__}, an object is expected")
    for name in record:
        if name not in _KEYS:
            raise InvalidInput(name, f"is not a key of this format, which has {', '.join(_KEYS)}")
    if "content" not in record:
        raise InvalidInput("content", "is missing")
    content, metadata = record["content"], record.get("metadata")
    source_id = record.get("source_id")
    if source_id is None:
        digest = new_source(key, content, metadata).digest
        source_id = f"{key}:{line.number}:{digest[:12]}"
    elif not isinstance(source_id, str):
        raise InvalidInput("source_id", f"is a {type(source_id).__name__}, a string is expected")
    return Read(new_source(source_id, content, metadata), line.number)
