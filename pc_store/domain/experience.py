"""An experience: in which situation, what was done, what was seen, and what may be reused of it."""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

from pc_store.domain import failure as matching
from pc_store.domain import strict_json
from pc_store.domain.text import storable
from pc_store.errors import InvalidInput

TEXT_MAX_CHARS = 8_000
CUE_MAX_CHARS = 512

RepairSurface = Literal["experience_content", "working_state", "recall_policy", "acceptance_check"]


def _stored(value: str) -> str:
    try:
        return storable("", value)
    except InvalidInput as error:
        raise ValueError(error.reason) from None


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("is blank")
    return _stored(value)


def _matchable(value: str) -> str:
    if not matching.cue_key(_not_blank(value)):
        raise ValueError("holds no letter, digit or symbol, so nothing could ever equal it")
    return value


_SAID = {"pattern": r"\S"}
_LONG = StringConstraints(min_length=1, max_length=TEXT_MAX_CHARS)
_SHORT = StringConstraints(min_length=1, max_length=CUE_MAX_CHARS)
Text = Annotated[str, _LONG, AfterValidator(_not_blank), Field(json_schema_extra=_SAID)]
"""A text that is kept as it comes, white space around it included."""
Detail = Annotated[str, _LONG, AfterValidator(_stored)]
Cue = Annotated[str, _SHORT, AfterValidator(_matchable), Field(json_schema_extra=_SAID)]
CheckName = Annotated[str, _SHORT, AfterValidator(_not_blank), Field(json_schema_extra=_SAID)]


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Signature(_Shape):
    """How the failure is known again: by the cue, and by nothing else."""

    recall_cue: Cue = Field(description="What a failing check or observation says, as it says it.")
    symptom: Detail | None = Field(None, description="How it shows; for people.")


class Verification(_Shape):
    """What proves that the failure was avoided."""

    condition: Detail = Field(description="The observation that the situation came up again.")
    check_subject: CheckName = Field(description="The check that passes if it was avoided.")


class Failure(_Shape):
    """A failure to be told when it comes back."""

    signature: Signature
    repair_surface: RepairSurface = Field(description="Where a repair belongs.")
    verification: Verification


class Experience(_Shape):
    """The content of an experience, and of a candidate for one."""

    situation: Text = Field(description="When this applies.")
    action: Text = Field(description="What was done.")
    outcome: Text = Field(description="What was seen.")
    lesson: Text = Field(description="What may be reused, as far as the evidence goes.")
    failure: Failure | None = Field(None, description="The failure it is about, if it is.")

    @property
    def cue_key(self) -> str | None:
        """The normalised recall cue; None without a failure. Never empty."""
        return matching.cue_key(self.failure.signature.recall_cue) if self.failure else None

    def to_json(self) -> dict[str, Any]:
        """The stored form: every field present, `failure` null where there is none."""
        return self.model_dump(mode="json")

    def document_text(self) -> str:
        """What search reads of it: the four fields, and of a failure the cue and symptom."""
        parts = [self.situation, self.action, self.outcome, self.lesson]
        if self.failure:
            parts += [self.failure.signature.recall_cue, self.failure.signature.symptom or ""]
        return "\n".join(part for part in parts if part)

    def lines(self) -> list[str]:
        """It as people and agents read it, `Label: text` each, in the contract's order."""
        told: list[tuple[str, str | None]] = [
            ("Situation", self.situation),
            ("Action", self.action),
            ("Outcome", self.outcome),
            ("Lesson", self.lesson),
        ]
        if self.failure:
            told += [
                ("Failure cue", self.failure.signature.recall_cue),
                ("Symptom", self.failure.signature.symptom),
                ("Repair surface", self.failure.repair_surface),
                ("Verification condition", self.failure.verification.condition),
                ("Verification check", self.failure.verification.check_subject),
            ]
        return [f"{label}: {text}" for label, text in told if text is not None]


def parse(value: Any, *, field: str = "proposal") -> Experience:
    """Check a parsed JSON value and return it as an experience.

    Args:
        field: how errors call the whole value.

    Raises:
        InvalidInput: a rule is broken; the field is named by its path,
            `proposal.failure.signature.recall_cue`.
    """
    try:
        return Experience.model_validate(strict_json.checked(value, field=field))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        reason = first["msg"].removeprefix("Value error, ")
        path = ".".join([field, *map(str, first["loc"])])
        raise InvalidInput(path, reason[:1].lower() + reason[1:]) from None
