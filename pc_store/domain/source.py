"""A source: immutable captured material, one position of a scope's log."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from pc_store import limits
from pc_store.domain import strict_json, text
from pc_store.domain.refs import SourceRef
from pc_store.errors import InvalidInput

CONTENT_TYPE = "content"
"""The type of the sources that users post: text with metadata."""
RECEIPT_SCHEMA = "powercontext.handoff-receipt.v1"
Role = Literal["receipt"]
"""What this server wrote a source as; no caller can set it."""


@dataclass(frozen=True)
class NewSource:
    """A source offered for capture; make one with `new_source`, which checks it."""

    source_id: str
    content: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    source_type: str = CONTENT_TYPE
    structured: bool = False

    @property
    def digest(self) -> str:
        """SHA-256 over content and metadata; metadata as JSON values, so `1.0` equals `1`."""
        value = {"content_sha256": text.digest(self.content), "metadata": dict(self.metadata)}
        return strict_json.digest(value | ({"form": "json"} if self.structured else {}))


@dataclass(frozen=True)
class Source:
    """A source as stored.

    `internal` marks the store's own provenance records; `structured` a content that is JSON
    text and stands for its value.
    """

    position: int
    source_type: str
    source_id: str
    content: str
    metadata: Mapping[str, Any]
    digest: str
    internal: bool
    received_at: int
    structured: bool = False
    role: Role | None = None

    @property
    def value(self) -> Any:
        """The content as it was given: a text, or any JSON value."""
        return json.loads(self.content) if self.structured else self.content

    @property
    def content_digest(self) -> str:
        """`sha256:` and the SHA-256 of the content's canonical JSON."""
        return f"sha256:{strict_json.digest(self.value)}"

    @property
    def ref(self) -> SourceRef:
        """How entries and lineage name it."""
        return SourceRef(self.source_type, self.source_id)


def new_source(
    source_id: str,
    content: str,
    metadata: Mapping[str, Any] | None = None,
    *,
    source_type: str = CONTENT_TYPE,
) -> NewSource:
    """Check a source's values and return them as one.

    Raises:
        InvalidInput: names the field and the rule: ids 1 to 256 (type 128) characters with no
            white space around, content 1 to 200,000 characters and not blank, metadata a JSON
            object of at most 65,536 bytes.
    """
    text.identifier("source_type", source_type, limits.SOURCE_TYPE_MAX_CHARS)
    text.identifier("source_id", source_id, limits.SOURCE_ID_MAX_CHARS)
    if not isinstance(content, str):
        raise InvalidInput("content", f"is a {type(content).__name__}, a string is expected")
    text.storable("content", content)
    if not content.strip():
        raise InvalidInput("content", "is blank")
    text.within("content", content, limits.SOURCE_CONTENT_MAX_CHARS)
    if metadata is not None and not isinstance(metadata, Mapping):
        raise InvalidInput("metadata", f"is a {type(metadata).__name__}, an object is expected")
    checked = strict_json.checked(dict(metadata or {}), field="metadata")
    size = len(strict_json.dumps(checked).encode())
    if size > limits.SOURCE_METADATA_MAX_BYTES:
        raise InvalidInput(
            "metadata", f"is {size} bytes, the most is {limits.SOURCE_METADATA_MAX_BYTES}"
        )
    return NewSource(source_id, content, checked, source_type)


def new_value(source_id: str, value: Any, metadata: Mapping[str, Any] | None = None) -> NewSource:
    """Like `new_source`, for a content that may be any JSON value, blank texts included.

    Raises:
        InvalidInput: as `new_source`; or its JSON text is over 200,000 characters.
    """
    checked = new_source(source_id, "-", metadata)
    strict_json.checked(value, field="content")
    structured = not isinstance(value, str)
    content = strict_json.dumps(value) if structured else value
    text.within("content", content, limits.SOURCE_CONTENT_MAX_CHARS)
    return replace(checked, content=content, structured=structured)


def refuse_reserved(value: Any) -> None:
    """Let only this store write receipts.

    Raises:
        InvalidInput: the content is, or as text reads as, an object of a receipt's schema.
    """
    if isinstance(value, str) and value.lstrip("\ufeff \t\r\n").startswith("{"):
        try:
            value = json.loads(value.strip("\ufeff \t\r\n"))
        except (ValueError, RecursionError):
            return
    if isinstance(value, Mapping) and value.get("schema") == RECEIPT_SCHEMA:
        raise InvalidInput("content", "uses a schema that is reserved for this server's receipts")


def estimated_tokens(content: str) -> int:
    """An upper estimate of a text's tokens, with no tokeniser at hand.

    Four ASCII characters or one other character count as a token. Byte-pair vocabularies of
    current models need about 3.5 to 4.5 English characters and 0.6 to 1 token per CJK
    character, so the sum errs to the safe side.
    """
    ascii_count = sum(map(str.isascii, content)) if not content.isascii() else len(content)
    return ascii_count // 4 + (len(content) - ascii_count) + 1


def ineligible(source: Source, *, now_us: int) -> str | None:
    """Why a source in a window is not shown to the memory model, or None if it is.

    The predicates are evaluated after the window is cut; a filtered source still counts as
    a position that the window has passed.
    """
    if source.internal:
        return "internal"
    if source.role is not None:
        return source.role
    if not source.content.strip():
        return "blank"
    if source.source_type != CONTENT_TYPE:
        return "no text"
    if "expires_at" in source.metadata:
        expires_us = _instant(source.metadata["expires_at"])
        if expires_us is None:
            return "malformed expiry"
        if expires_us <= now_us:
            return "expired"
    return None


def _instant(value: Any) -> int | None:
    """Microseconds since the epoch of an RFC 3339 text; None when it is not one."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1_000_000)
