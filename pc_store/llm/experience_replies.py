"""What a model may reply about experiences: candidates with their evidence, or one proposal."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Self, get_args

from pydantic import (
    BeforeValidator,
    Field,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from pc_store.domain import strict_json
from pc_store.domain.experience import Experience, RepairSurface
from pc_store.domain.experience_proposal import ExperienceProposal
from pc_store.errors import InvalidInput
from pc_store.llm.judging import (
    Part,
    Reply,
    Shown,
    SingleReply,
    broken,
    cited,
    enum,
    refuse_unknown_keys,
)
from pc_store.llm.policy import folded

_TEXTS = ("situation", "action", "outcome", "lesson")
_KEYS = frozenset(
    (*_TEXTS, "failure", "signature", "recall_cue", "symptom", "repair_surface", "verification")
) | {"condition", "check_subject"}
_CANDIDATE_KEYS = frozenset(("proposal", "evidence_ids"))
_CUES_LISTED = 8
_CUE_SHOWN_CHARS = 200


def _object(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, **more}


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


_FAILURE = _object(
    {
        "signature": _object(
            {
                "recall_cue": _text("the failing check's name or observation, word for word"),
                "symptom": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            },
            additionalProperties=False,
        ),
        "repair_surface": enum(get_args(RepairSurface)),
        "verification": _object(
            {
                "condition": _text("the observation that the risk has come up again"),
                "check_subject": _text("the check that passes if it was avoided"),
            },
            additionalProperties=False,
        ),
    },
    additionalProperties=False,
)
CONTENT_SCHEMA = _object(
    {
        "situation": _text("when this applies"),
        "action": _text("what was done"),
        "outcome": _text("what was observed"),
        "lesson": _text("what may be reused, as far as the evidence goes"),
        "failure": {"anyOf": [_FAILURE, {"type": "null"}]},
    },
    additionalProperties=False,
)
"""The content as models are asked for it. Without lengths, which grammars handle badly."""


def _content(value: Any) -> Experience:
    """The content of a candidate, every broken rule of it told at once."""
    if isinstance(value, Experience):
        return value
    try:
        return Experience.model_validate(strict_json.checked(value, field="proposal"))
    except InvalidInput:
        broken("content-unstorable", "proposal", "holds what no database keeps faithfully")
    except ValidationError as error:
        every = error.errors(include_url=False, include_input=False)
    told = list(dict.fromkeys(_told(one["loc"], one["msg"]) for one in every))
    broken("content-malformed", "proposal", "; ".join(told[:6]))


def _told(location: tuple[str | int, ...], message: str) -> str:
    """A broken rule by its path; a key that is none of ours is not repeated."""
    if not _KEYS.issuperset(map(str, location)):
        return f"has a key that is not known, known are {', '.join(sorted(_KEYS))}"
    path = ".".join(map(str, location))
    said = message.removeprefix("Value error, ")
    return f"{path}: {said[:1].lower()}{said[1:]}" if path else said.lower()


Content = Annotated[Experience, BeforeValidator(_content), WithJsonSchema(CONTENT_SCHEMA)]


def refuse_copies(content: Experience, shown: Shown) -> None:
    """Refuse a content of which a text is an example's."""
    for name in _TEXTS:
        if folded(getattr(content, name)) in shown.examples:
            broken("example-copied", f"proposal.{name}", "copies the example", "use the evidence")


def refuse_unsupported(content: Experience, allowed: Iterable[str]) -> None:
    """A failure is tracked under a cue that a verified failing item of the evidence says."""
    cues = list(dict.fromkeys(allowed))
    if content.cue_key is None or content.cue_key in cues:
        return
    what = "has a recall_cue that no verified failing check or observation of the evidence says"
    if not cues:
        broken("failure-unsupported", "failure", what, "none failed, so failure must be null")
    shown = [cue[:_CUE_SHOWN_CHARS] for cue in cues[:_CUES_LISTED]]
    advice = f"copy one of these word for word, or make failure null: {'; '.join(shown)}"
    broken("failure-unsupported", "failure", what, advice)


class CandidatePart(Part):
    """One candidate for an experience."""

    proposal_: Content = Field(alias="proposal")
    evidence_ids: list[str]

    @model_validator(mode="before")
    @classmethod
    def _nothing_else(cls, value: Any) -> Any:
        refuse_unknown_keys(value, _CANDIDATE_KEYS, "candidate")
        return value

    @field_validator("evidence_ids")
    @classmethod
    def _evidence_was_shown(cls, value: list[str]) -> list[str]:
        return cited(value, cls.shown)

    @model_validator(mode="after")
    def _rests_on_its_evidence(self) -> Self:
        refuse_copies(self.proposal_, self.shown)
        refuse_unsupported(self.proposal_, self.shown.cues_of(self.evidence_ids))
        return self

    def proposal(self) -> ExperienceProposal:
        """The candidate as the program's own value."""
        return ExperienceProposal(self.proposal_, tuple(self.evidence_ids))


class CandidatesReply(Reply):
    """Candidates for experiences, an empty list if the records support none."""

    candidates: list[CandidatePart]


def candidates_model(
    evidence_ids: Iterable[str],
    *,
    cues: Mapping[str, tuple[str, ...]] | None = None,
    examples: frozenset[str] = frozenset(),
) -> type[CandidatesReply]:
    """The reply of one incubation call, with the ids it may use as enums of its schema.

    Args:
        evidence_ids: at least one; repeats (chunks of one source) are fine.
        cues: by evidence id, the normalised texts of the failures it verifies.
        examples: folded texts (`policy.examples`) that must not come back.
    """
    rules = Shown(tuple(dict.fromkeys(evidence_ids)), (), examples, dict(cues or {}))

    class ExperienceCandidate(CandidatePart):
        """One candidate for an experience."""

        shown: ClassVar[Shown] = rules

        evidence_ids: list[Annotated[str, WithJsonSchema(enum(rules.evidence_ids))]] = Field(
            description="ids of the records it rests on", json_schema_extra={"minItems": 1}
        )

    class Candidates(CandidatesReply):
        """Candidates for experiences, an empty list if the records support none."""

        part: ClassVar[type[Part]] = ExperienceCandidate

        candidates: list[ExperienceCandidate]  # type: ignore[assignment]  # narrower on purpose

    return Candidates


class GenerationReply(SingleReply):
    """One experience, or null if the evidence supports none."""

    key: ClassVar[str] = "proposal"

    proposal: Content | None

    @model_validator(mode="after")
    def _rests_on_its_evidence(self) -> Self:
        if self.proposal is not None:
            refuse_copies(self.proposal, self.shown)
            refuse_unsupported(self.proposal, self.shown.cues_of(self.shown.cues))
        return self


def generation_model(
    *,
    cues: Mapping[str, tuple[str, ...]] | None = None,
    examples: frozenset[str] = frozenset(),
) -> type[GenerationReply]:
    """The reply of one generation; the arguments are those of `candidates_model`."""
    rules = Shown((), (), examples, dict(cues or {}))

    class Generated(GenerationReply):
        """One experience, or null if the evidence supports none."""

        shown: ClassVar[Shown] = rules

    return Generated
