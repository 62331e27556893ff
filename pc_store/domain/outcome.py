"""A task outcome: what came of one task, as an untrusted observer reports it.

The wire form is `powercontext.task-outcome.v1`. Source references are read in both spellings
in use (`source_type`, and `name`) and kept in the stored one.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from pc_store import limits
from pc_store.domain import strict_json
from pc_store.domain.refs import MEMORY_FAMILY, ArtifactRef, Citation, SourceRef
from pc_store.errors import InvalidInput

SCHEMA: Literal["powercontext.task-outcome.v1"] = "powercontext.task-outcome.v1"
KIND = "task-outcome"
"""The `kind` in the metadata of a source whose content is a task outcome."""
TRUST: Literal["untrusted_observation"] = "untrusted_observation"

TEXT_MAX_CHARS = 8_192
ITEMS_MAX = 64
CHECK_EVIDENCE_MAX = 32
CLAIM_EVIDENCE_MAX = 31
PRODUCED_MAX = 32

Basis = Literal["declared", "verified"]
Status = Literal["succeeded", "partial", "blocked", "failed", "cancelled", "unknown"]
CheckStatus = Literal[
    "passed", "failed", "skipped", "timed_out", "unavailable", "cancelled", "unknown"
]


def _as_tuple(value: Any) -> Any:
    # Strict mode takes a tuple for a tuple only; JSON has none.
    return tuple(value) if isinstance(value, list) else value


def _unique(texts: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(texts)) != len(texts):
        raise ValueError("holds the same text twice")
    return texts


_Array = BeforeValidator(_as_tuple)
Text = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=TEXT_MAX_CHARS)
]
_ArtifactName = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7E]{1,128}$")]
_EntryName = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"\S")]


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SourceReference(_Shape):
    """A source, by type and id."""

    source_type: Annotated[
        str, StringConstraints(min_length=1, max_length=limits.SOURCE_TYPE_MAX_CHARS, pattern=r"\S")
    ]
    source_id: Annotated[
        str, StringConstraints(min_length=1, max_length=limits.SOURCE_ID_MAX_CHARS, pattern=r"\S")
    ]

    @model_validator(mode="before")
    @classmethod
    def _either_spelling(cls, value: Any) -> Any:
        if isinstance(value, dict) and "name" in value:
            if "source_type" in value:
                raise ValueError("has both name and source_type, which are the same thing")
            return {"source_type" if key == "name" else key: item for key, item in value.items()}
        return value

    @property
    def ref(self) -> SourceRef:
        """The reference as the store compares it."""
        return SourceRef(self.source_type, self.source_id)


class ArtifactReference(_Shape):
    """One exact revision of an artifact."""

    family: _ArtifactName
    artifact_id: _ArtifactName
    revision: Annotated[int, Field(ge=1)]

    @property
    def ref(self) -> ArtifactRef:
        """The reference as the store compares it."""
        return ArtifactRef(self.family, self.artifact_id, self.revision)


class MemoryCitation(_Shape):
    """One exact version of a memory entry."""

    memory_ref: ArtifactReference
    entry_id: _EntryName
    entry_version_id: _EntryName

    @model_validator(mode="after")
    def _of_a_memory(self) -> Self:
        if self.memory_ref.family != MEMORY_FAMILY:
            raise ValueError(f"cites the family {self.memory_ref.family!r}, not a memory")
        return self

    @property
    def ref(self) -> Citation:
        """The citation as the store compares it."""
        return Citation(self.memory_ref.ref, self.entry_id, self.entry_version_id)


class SourceEvidence(_Shape):
    """A source that shows it."""

    kind: Literal["source"]
    source_ref: SourceReference


class ArtifactEvidence(_Shape):
    """An artifact revision that shows it."""

    kind: Literal["artifact"]
    artifact_ref: ArtifactReference


class MemoryEvidence(_Shape):
    """A memory entry that shows it."""

    kind: Literal["memory"]
    memory_citation: MemoryCitation


Evidence = Annotated[
    SourceEvidence | ArtifactEvidence | MemoryEvidence, Field(discriminator="kind")
]


class _Stated(_Shape):
    basis: Basis = "declared"

    @model_validator(mode="after")
    def _verified_means_evidence(self) -> Self:
        evidence = getattr(self, "evidence", ())
        if self.basis == "verified" and not evidence:
            raise ValueError("is verified but names no evidence")
        if self.basis == "declared" and evidence:
            raise ValueError("names evidence but is declared, not verified")
        return self


class Observation(_Stated):
    """Something that was seen; verified exactly when evidence is named."""

    text: Text
    evidence: Annotated[tuple[Evidence, ...], Field(max_length=CLAIM_EVIDENCE_MAX), _Array] = ()


class Check(_Stated):
    """A check that was run or should have been; verified exactly when evidence is named."""

    name: Text
    status: CheckStatus
    details: Annotated[str, StringConstraints(max_length=TEXT_MAX_CHARS)] | None = None
    evidence: Annotated[tuple[Evidence, ...], Field(max_length=CHECK_EVIDENCE_MAX), _Array] = ()


class TaskOutcome(_Shape):
    """What came of a task. Optional fields are those that the published sample leaves out."""

    schema_name: Annotated[Literal["powercontext.task-outcome.v1"], Field(alias="schema")] = SCHEMA
    trust: Literal["untrusted_observation"] = TRUST
    objective: Text
    status: Status
    summary: Text
    handoff_receipt_ref: SourceReference | None = None
    observations: Annotated[
        tuple[Observation, ...], Field(min_length=1, max_length=ITEMS_MAX), _Array
    ]
    checks: Annotated[tuple[Check, ...], Field(max_length=ITEMS_MAX), _Array] = ()
    produced_artifacts: Annotated[
        tuple[ArtifactReference, ...], Field(max_length=PRODUCED_MAX), _Array
    ] = ()
    remaining_work: Annotated[
        tuple[Text, ...], Field(max_length=ITEMS_MAX), AfterValidator(_unique), _Array
    ] = ()

    def dumps(self) -> str:
        """The stored form: JSON indented by two spaces, every field present."""
        return self.model_dump_json(by_alias=True, indent=2)


def parse(value: Any) -> TaskOutcome:
    """Check a parsed JSON value and return it as a task outcome.

    Raises:
        InvalidInput: a rule is broken; the field is named by its path, `checks[0].status`.
    """
    try:
        return TaskOutcome.model_validate(strict_json.checked(value, field="outcome"))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        reason = first["msg"].removeprefix("Value error, ")
        raise InvalidInput(_path(first["loc"]), reason[:1].lower() + reason[1:]) from None


def loads(text: str) -> TaskOutcome:
    """Read the content of a source as a task outcome.

    Raises:
        InvalidInput: it is no JSON, or breaks a rule of `parse`.
    """
    return parse(strict_json.loads(text, field="outcome"))


def _path(location: tuple[str | int, ...]) -> str:
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return path.removeprefix(".") or "outcome"
