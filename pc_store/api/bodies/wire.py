"""What the bodies of several subjects share: ids, references, citations, times."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from pc_store import limits
from pc_store.domain import refs

SCOPE_EXAMPLE = "orders"


class Wire(BaseModel):
    """A body: frozen, no field that is not declared, no coercion."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


ScopeId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=limits.SCOPE_ID_MAX_CHARS,
        description="The scope's id.",
        examples=[SCOPE_EXAMPLE],
    ),
]
Identifier = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[\x21-\x7E]+$")]
Kind = Annotated[
    str,
    Field(
        min_length=1,
        max_length=limits.ENTRY_KIND_MAX_CHARS,
        description="What sort of entry it is; any string.",
        examples=["decision"],
    ),
]
EntryText = Annotated[
    str,
    Field(
        min_length=1,
        description="NFC and stripped; at most 8,192 UTF-8 bytes afterwards.",
        examples=["amount: 订单金额以整数分存储；100 表示 1 元。"],
    ),
]
Reason = Annotated[
    str | None,
    Field(
        max_length=limits.REASON_MAX_CHARS,
        description="Why; kept with the change.",
        examples=["agreed with payments"],
    ),
]
Limit = Annotated[int, Field(ge=1, le=limits.PAGE_MAX, description="Most items of a page.")]
PageCursor = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=4096,
        description="`next_cursor` of the page before, with the same parameters.",
    ),
]


class ArtifactRef(Wire):
    """One exact revision of an artifact."""

    family: Identifier
    artifact_id: Identifier
    revision: int = Field(ge=1)

    @classmethod
    def of(cls, ref: refs.ArtifactRef) -> "ArtifactRef":
        """From the domain's."""
        return cls(family=ref.family, artifact_id=ref.artifact_id, revision=ref.revision)

    @classmethod
    def of_any(cls, ref: refs.ArtifactRef | None) -> "ArtifactRef | None":
        """From the domain's; None stays None."""
        return None if ref is None else cls.of(ref)

    def ref(self) -> refs.ArtifactRef:
        """As the domain has it."""
        return refs.ArtifactRef(self.family, self.artifact_id, self.revision)


class SourceRef(Wire):
    """A source; all calls but the artifact calls name its type `name`."""

    name: str = Field(min_length=1, max_length=limits.SOURCE_TYPE_MAX_CHARS)
    source_id: str = Field(min_length=1, max_length=limits.SOURCE_ID_MAX_CHARS)

    @classmethod
    def of(cls, ref: refs.SourceRef) -> "SourceRef":
        """From the domain's."""
        return cls(name=ref.source_type, source_id=ref.source_id)

    def ref(self) -> refs.SourceRef:
        """As the domain has it."""
        return refs.SourceRef(self.name, self.source_id)


class SourceTypeRef(Wire):
    """A source, as the artifact calls name it."""

    source_type: str
    source_id: str

    @classmethod
    def of(cls, ref: refs.SourceRef) -> "SourceTypeRef":
        """From the domain's."""
        return cls(source_type=ref.source_type, source_id=ref.source_id)


class Citation(Wire):
    """One exact entry version, as it stood in one exact revision; it reads the same for ever."""

    memory_ref: ArtifactRef
    entry_id: Identifier
    entry_version_id: Identifier

    @classmethod
    def of(cls, citation: refs.Citation) -> "Citation":
        """From the domain's."""
        return cls(
            memory_ref=ArtifactRef.of(citation.memory),
            entry_id=citation.entry_id,
            entry_version_id=citation.entry_version_id,
        )

    def citation(self) -> refs.Citation:
        """As the domain has it."""
        return refs.Citation(self.memory_ref.ref(), self.entry_id, self.entry_version_id)


class ScopeBody(Wire):
    """A request about one scope."""

    scope_id: ScopeId


State = Literal["active", "inactive"]


def moment(time_us: int) -> datetime:
    """A time as the wire has it: UTC, RFC 3339."""
    return datetime.fromtimestamp(time_us / 1_000_000, UTC)


def example(*values: dict[str, Any]) -> ConfigDict:
    """Examples of a body, for the OpenAPI document."""
    return ConfigDict(json_schema_extra={"examples": list(values)})
