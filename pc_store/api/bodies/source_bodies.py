"""Sources: captured text and its positions."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from pc_store import limits
from pc_store.api.bodies.wire import ScopeId, SourceRef, Wire, example


class CaptureContent(Wire):
    """Append a text to a scope's log; the same one again changes nothing."""

    model_config = example(
        {
            "scope_id": "orders",
            "source_id": "worklog-17",
            "content": "We store amounts as integer cents.",
            "metadata": {"kind": "worklog"},
        }
    )

    scope_id: ScopeId
    source_id: str = Field(min_length=1, max_length=limits.SOURCE_ID_MAX_CHARS)
    content: str = Field(min_length=1, max_length=limits.SOURCE_CONTENT_MAX_CHARS)
    metadata: dict[str, JsonValue] | None = None


class Captured(Wire):
    """Where it stands in the log."""

    status: Literal["accepted"]
    source: SourceRef
    position: int = Field(ge=1)


class CreateSource(Wire):
    """Append any JSON value under an id that the server makes; not idempotent by itself."""

    model_config = example({"content": {"note": "amounts are integer cents"}})

    source_type: Literal["content"] = "content"
    content: JsonValue


class SourceRecord(Wire):
    """A source as stored."""

    receipt_identity: dict[str, Any] | None
    scope_id: str
    source_type: str
    source_id: str
    content: JsonValue
    position: int = Field(ge=1)
    content_digest: str = Field(
        description="`sha256:` and the SHA-256 of the content's canonical JSON."
    )
    metadata: dict[str, JsonValue] | None = Field(
        default=None, description="Only with `include=metadata`."
    )
    received_at: datetime | None = Field(default=None, description="Only with `include=times`.")


class SourcePage(Wire):
    """A page of sources, by position."""

    items: list[SourceRecord]
    next_cursor: str | None


SourceExtra = Literal["metadata", "times"]
SourceExtras = Annotated[
    list[SourceExtra], Field(description="What to add to each record.", max_length=2)
]
