"""What every reader of a log shares: opening, lines, documents, and the values they yield.

A reader is `read(path, *, root, tally=None) -> Iterator[Read | Reject]`. It yields the file's
records in their order in the file, holds one record in memory (whole-document formats: one
document), and never raises for what the file holds: a bad record is a `Reject`, noise is
counted in the `Tally`, and reading goes on.
"""

import gzip
import hashlib
import json
import os
import stat
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol, cast

from pc_store import limits
from pc_store.domain.source import NewSource, new_source
from pc_store.errors import InvalidInput
from pc_store.readers.parts import cut

MAX_LINE_BYTES = 32 * 2**20
"""A longer line is rejected; session logs with inlined images reach several MB a line."""
MAX_DOCUMENT_BYTES = 128 * 2**20
"""A longer file (after decompression) is rejected by the formats that need it whole."""
HEAD_BYTES = 8_192
"""How much of a file is looked at to tell text from binary."""

_RAW_HEAD_BYTES = 65_536
_KEY_MAX_CHARS = 160
_GZIP_MAGIC = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Read:
    """A source that keeps all rules, and the line it starts on, from 1, if lines mean anything."""

    source: NewSource
    line: int | None


@dataclass(frozen=True)
class Reject:
    """Input that could not become a source.

    `line` counts from 1 and is None when the reason is about the whole file. `raw` is the
    line as it came (undecodable bytes as `\\xNN`); of what is too big to hold, its head.
    """

    file: str
    line: int | None
    reason: str
    raw: str


@dataclass
class Tally:
    """How far a reader is; a progress bar may look between two records.

    `bytes_done` counts bytes of the file on disk, so that it ends at the file's size for a
    compressed file too. `dropped` counts, by kind, records left out on purpose.
    """

    bytes_done: int = 0
    lines: int = 0
    dropped: Counter[str] = field(default_factory=Counter)


class Reader(Protocol):
    """The `read` function of a format's module."""

    def __call__(
        self, path: Path, *, root: Path, tally: Tally | None = None
    ) -> Iterator[Read | Reject]:
        """Yield the records of one file; names and ids are relative to `root`."""
        ...


@dataclass(frozen=True)
class Line:
    """One decoded line without its end; `ended` is False for a last line with no newline."""

    number: int
    text: str
    ended: bool

    def rejected(self, file: str, error: InvalidInput) -> Reject:
        """The line as a Reject; says if it fails because it was cut off, or may have."""
        cut = not self.ended and " is not JSON: " in error.message
        hint = "; the line has no end, so it may be cut off" if cut else ""
        return Reject(file, self.number, error.message + hint, self.text)


def name_of(path: Path, root: Path) -> str:
    """The path relative to the root with `/` between folders; the bare name if it is outside.

    Bytes of a name that are not UTF-8 are shown as escapes, so that every name can be stored.
    """
    try:
        name = path.relative_to(root).as_posix()
    except ValueError:
        name = path.name
    return name.encode("utf-8", "backslashreplace").decode()


def file_key(name: str) -> str:
    """The part of a source id that names a file: at most 160 characters, no white space around.

    `.gz` is left off, so that compressing a log does not make other sources of it. A name
    that cannot stand in an id as it is keeps its head, `~`, and a digest of the whole name.
    """
    key = name.removesuffix(".gz")
    if key == key.strip() and len(key) <= _KEY_MAX_CHARS:
        return key
    mark = hashlib.sha256(key.encode()).hexdigest()[:16]
    return f"{key.strip()[: _KEY_MAX_CHARS - 17]}~{mark}"


@contextmanager
def opened(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Open a log, yielding its decompressed bytes and the file on disk underneath.

    Gzip is recognised by its first bytes, whatever the file is called.

    Raises:
        OSError: the file cannot be opened, or is a device, a socket or a pipe.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(0, "not a regular file")
    with path.open("rb") as raw:
        if raw.peek(2)[:2] == _GZIP_MAGIC:
            with gzip.GzipFile(fileobj=raw) as stream:
                yield cast("IO[bytes]", stream), raw
        else:
            yield raw, raw


def binary_reason(start: bytes) -> str | None:
    """Why bytes at the start of a file show that it is no UTF-8 text; None if they do not."""
    if start.startswith(_UTF16_BOMS):
        return "is UTF-16 text; UTF-8 is expected"
    at = start.find(b"\0")
    return None if at < 0 else f"is a binary file: a zero byte at offset {at}"


def lines(path: Path, *, file: str, tally: Tally) -> Iterator[Line | Reject]:
    """Yield the lines that are not blank; a byte order mark and line ends are taken off.

    A line that is too long or not UTF-8 is a Reject, and so is what stops the reading of the
    file: no permission, a damaged or cut-off gzip stream, a binary file.
    """
    try:
        with opened(path) as (stream, raw):
            offset = 0
            while chunk := stream.readline(MAX_LINE_BYTES + 1):
                tally.lines += 1
                start, size = offset, len(chunk)
                if tally.lines == 1 and (reason := binary_reason(chunk[:HEAD_BYTES])):
                    yield Reject(file, None, reason, "")
                    return
                if size > MAX_LINE_BYTES:
                    size += _skip_line(stream, chunk)
                    raw_head = _shown(chunk[:_RAW_HEAD_BYTES])
                    reason = f"line has {size} bytes, the most is {MAX_LINE_BYTES}"
                    line: Line | Reject | None = Reject(file, tally.lines, reason, raw_head)
                else:
                    line = _decoded(chunk, file=file, number=tally.lines, offset=start)
                offset += size
                tally.bytes_done = raw.tell()
                if line is not None:
                    yield line
    except (OSError, EOFError, zlib.error) as error:
        yield Reject(file, tally.lines + 1 if tally.lines else None, unreadable(error), "")


def document(path: Path, *, file: str, tally: Tally) -> str | Reject:
    """The whole text of a file, line ends as `\\n` and no byte order mark; or why there is none."""
    try:
        with opened(path) as (stream, raw):
            content = stream.read(MAX_DOCUMENT_BYTES + 1)
            tally.bytes_done = raw.tell()
    except (OSError, EOFError, zlib.error) as error:
        return Reject(file, None, unreadable(error), "")
    shown = content[:_RAW_HEAD_BYTES]
    if len(content) > MAX_DOCUMENT_BYTES:
        reason = f"file has more than {MAX_DOCUMENT_BYTES} bytes, which this format must hold whole"
        return Reject(file, None, reason, _shown(shown))
    if reason_binary := binary_reason(content[:HEAD_BYTES]):
        return Reject(file, None, reason_binary, "")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # utf-8-sig reports offsets behind the mark it took off.
        at = error.start + (len(_BOM) if content.startswith(_BOM) else 0)
        return Reject(file, None, _undecodable(content[at], at), _shown(shown))
    tally.lines += text.count("\n") + (not text.endswith("\n") and bool(text))
    return text.replace("\r\n", "\n")


def parsed(text: str) -> Any:
    """Parse the JSON of a foreign log, which may hold what `strict_json` refuses.

    Repeated keys (the last wins), NaN and lone surrogates pass here: what of a record becomes
    a source is checked again, the rest does not matter.

    Raises:
        InvalidInput: it is not JSON, or nests too deep to be read.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        reason = f"is not JSON: {error.msg.lower()} at line {error.lineno} column {error.colno}"
        raise InvalidInput("record", reason) from None
    except RecursionError:
        raise InvalidInput("record", "nests too deep to be read") from None
    except ValueError as error:  # a number of more digits than Python converts
        raise InvalidInput("record", f"cannot be read: {error}") from None


def offer(
    source_id: str,
    content: str,
    metadata: Mapping[str, Any],
    *,
    file: str,
    line: int | None,
    raw: Any,
) -> Iterator[Read | Reject]:
    """Yield one source, or as many parts as content over 200,000 characters needs.

    Parts have the id's suffix `#part2/3` and their number in the metadata; put together they
    are the content again (parts of nothing but white space are left out).

    Args:
        raw: what a Reject shows: the line as it came, or the parsed record.
    """
    pieces = cut(content, limits.SOURCE_CONTENT_MAX_CHARS)
    for index, piece in enumerate(pieces, start=1):
        if len(pieces) == 1:
            part_id, part_metadata = source_id, metadata
        else:
            part_id = f"{source_id}#part{index}/{len(pieces)}"
            part_metadata = {**metadata, "part": index, "parts": len(pieces)}
        try:
            yield Read(new_source(part_id, piece, part_metadata), line)
        except InvalidInput as error:
            yield Reject(file, line, error.message, as_raw(raw))


def as_raw(record: Any) -> str:
    """A parsed record as JSON text; a text as it is."""
    if isinstance(record, str):
        return record
    return json.dumps(record, ensure_ascii=False, default=str)


def unreadable(error: Exception) -> str:
    """Why a file cannot be read, in one line and without its path."""
    if isinstance(error, EOFError):
        return "gzip stream is cut off"
    if isinstance(error, zlib.error | gzip.BadGzipFile):
        return f"gzip stream is damaged: {str(error).lower()}"
    if isinstance(error, OSError):
        return f"cannot be read: {(error.strerror or os.strerror(error.errno or 0)).lower()}"
    return f"cannot be read: {error}"


def _decoded(chunk: bytes, *, file: str, number: int, offset: int) -> Line | Reject | None:
    """The chunk as a Line, None if it is blank; `offset` is where it starts in the file."""
    body = chunk
    if number == 1 and body.startswith(_BOM):
        body = body.removeprefix(_BOM)
        offset += len(_BOM)
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        reason = _undecodable(body[error.start], offset + error.start)
        return Reject(file, number, reason, _shown(body.rstrip(b"\r\n")))
    text = text.removesuffix("\n").removesuffix("\r")
    if not text.strip():
        return None
    return Line(number, text, ended=chunk.endswith(b"\n"))


def _skip_line(stream: IO[bytes], chunk: bytes) -> int:
    """Read to the line's end and return the bytes passed over."""
    skipped = 0
    while not chunk.endswith(b"\n") and (chunk := stream.readline(2**20)):
        skipped += len(chunk)
    return skipped


def _shown(content: bytes) -> str:
    return content.decode("utf-8", "backslashreplace")


def _undecodable(byte: int, offset: int) -> str:
    return f"is not UTF-8: byte 0x{byte:02x} at offset {offset} of the file"
