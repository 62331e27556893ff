"""How every reply of a model is judged: whole, part by part, and in words that can be stored.

The schema of a call lists the ids that were shown, so an endpoint that enforces schemas cannot
name another one. Most do not, so every rule is checked again here. A message of this module is
read twice: by the model, when its answer is sent back, and by a person, in the record of what
was rejected. It names fields, rules and ids of ours, and repeats no word of the model's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from pc_store import limits
from pc_store.domain.proposal import Rejected
from pc_store.domain.text import normalise, storable
from pc_store.errors import InvalidInput
from pc_store.llm.unwrap import UnreadableError, reply_in

_IDS_LISTED = 64
"""Most allowed ids that one message to the model spells out."""


@dataclass(frozen=True)
class Shown:
    """What a call shows: the ids a reply may use, and the examples it may not copy.

    `cues` are, by evidence id, the normalised texts of the failures that the evidence verifies.
    """

    evidence_ids: tuple[str, ...]
    entry_handles: tuple[str, ...] = ()
    examples: frozenset[str] = frozenset()
    cues: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def cues_of(self, evidence_ids: Iterable[str]) -> list[str]:
        """The cues of some evidence."""
        return [cue for name in evidence_ids for cue in self.cues.get(name, ())]


class Part(BaseModel):
    """One proposal of a reply."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)
    shown: ClassVar[Shown]

    def proposal(self) -> Any:
        """The part as the program's own value, a `domain.proposal.Proposed` or the like."""
        raise NotImplementedError


class Reply(BaseModel):
    """A whole reply: an object whose member `key` holds the parts."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)
    key: ClassVar[str] = "candidates"
    part: ClassVar[type[Part]]

    @classmethod
    def model_validate_json(
        cls, json_data: str | bytes | bytearray, *_: Any, **options: Any
    ) -> Self:
        """Validate an answer's text, read with the tolerance of `unwrap.one_object`.

        Raises:
            ValidationError: no object could be read, or it breaks a rule.
        """
        raw = json_data if isinstance(json_data, str) else bytes(json_data).decode()
        try:
            value = reply_in(raw, cls.key)
        except UnreadableError as error:
            told = PydanticCustomError("unreadable", "{told}", {"told": f"the answer {error}"})
            details: list[InitErrorDetails] = [{"type": told, "loc": (), "input": None}]
            raise ValidationError.from_exception_data(
                cls.__name__, details, hide_input=True
            ) from None
        return cls.model_validate(value, context=options.get("context"), strict=False)

    @classmethod
    def parts_in(cls, text: str) -> list[Any] | None:
        """The parts of an answer, unjudged, or None if it holds no single list of them."""
        try:
            value = reply_in(text, cls.key)
        except UnreadableError:
            return None
        parts = value.get(cls.key)
        return parts if isinstance(parts, list) else None


class SingleReply(Reply):
    """A whole reply that holds one proposal at most: of a broken one nothing can be saved."""

    part: ClassVar[type[Part]] = Part
    shown: ClassVar[Shown] = Shown(())

    @classmethod
    def parts_in(cls, text: str) -> list[Any] | None:
        """None, always."""
        del text
        return None


def sift(parts: Sequence[Any], model: type[Reply]) -> tuple[tuple[Any, ...], tuple[Rejected, ...]]:
    """Judge each part of a broken answer by itself.

    Returns the proposals that break no rule, and the others with the field and rule they
    break; `ordinal` counts from 0. Of two revisions of one entry the first is kept.
    """
    kept: list[Any] = []
    rejected: list[Rejected] = []
    revised: set[str] = set()
    for ordinal, value in enumerate(parts):
        try:
            proposal = model.part.model_validate(value, strict=False).proposal()
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            rejected.append(Rejected(ordinal, first["type"], _told(first)))
            continue
        entry_id = getattr(proposal, "entry_id", None)
        if entry_id is not None and entry_id in revised:
            told = "entry_id is revised by an earlier candidate"
            rejected.append(Rejected(ordinal, "entry-revised-twice", told))
            continue
        if entry_id is not None:
            revised.add(entry_id)
        kept.append(proposal)
    return tuple(kept), tuple(rejected)


def cited(value: Sequence[str], shown: Shown) -> list[str]:
    """The evidence ids of a part, each once; all of them were shown, and 1 to 32 are there."""
    known = shown.evidence_ids
    named = list(dict.fromkeys(one.strip() for one in value))
    if not named:
        broken("evidence-empty", "evidence_ids", "is empty", f"cite {listed(known)}")
    unknown = sum(one not in known for one in named)
    if unknown:
        what = f"has {unknown} of {len(named)} ids that were not shown"
        broken("evidence-unknown", "evidence_ids", what, f"use only {listed(known)}")
    if len(named) > limits.EVIDENCE_MAX:
        what = f"has {len(named)} ids, the most is {limits.EVIDENCE_MAX}"
        broken("evidence-too-many", "evidence_ids", what, "cite the clearest ones")
    return named


def refuse_unknown_keys(value: Any, known: frozenset[str], name: str) -> None:
    """Refuse an object that has other keys than the known ones."""
    if isinstance(value, Mapping) and not known.issuperset(value):
        told = f"has a key that is not known, known are {', '.join(sorted(known))}"
        broken("key-unknown", name, told)


def said(value: str, *, most: int) -> str:
    """A reply's reason, normalised; it is not blank and has at most `most` characters."""
    try:
        told = normalise(storable("reason", value))
    except InvalidInput:
        broken("reason-unstorable", "reason", "holds what no database keeps faithfully")
    if not told:
        broken("reason-blank", "reason", "is blank")
    if len(told) > most:
        broken("reason-too-long", "reason", f"has {len(told)} characters, the most is {most}")
    return told


def broken(rule: str, name: str, what: str, advice: str = "") -> NoReturn:
    """Refuse a field's value. The advice is for the model and is not stored."""
    told = f"{name} {what}; {advice}" if advice else f"{name} {what}"
    raise PydanticCustomError(rule, "{told}", {"told": told, "what": f"{name} {what}"})


def explain(error: ValidationError) -> str:
    """The rules an answer breaks, at most three spelled out, in words that are safe to store."""
    every = error.errors(include_url=False, include_input=False)
    told = [f"{_where(one)}{_told(one)} ({one['type']})" for one in every[:3]]
    more = f"; and {len(every) - 3} more" if len(every) > 3 else ""
    return "; ".join(told) + more


def _where(error: ErrorDetails) -> str:
    ordinals = [part for part in error["loc"] if isinstance(part, int)]
    return f"candidate {ordinals[0]}: " if ordinals else ""


def _told(error: ErrorDetails) -> str:
    """What is wrong, without the advice to the model, which repeats every id shown."""
    context = error.get("ctx", {})
    if "what" in context or "told" in context:
        return str(context.get("what") or context["told"])
    name = next((part for part in reversed(error["loc"]) if isinstance(part, str)), "candidate")
    return f"{name}: {error['msg'].lower()}"


def enum(values: Iterable[str]) -> dict[str, Any]:
    """The schema of a text that is one of these."""
    return {"type": "string", "enum": list(values)}


def listed(values: Sequence[str]) -> str:
    """Values as advice to the model spells them out, the first 64."""
    shown = ", ".join(values[:_IDS_LISTED])
    return shown if len(values) <= _IDS_LISTED else f"{shown} … ({len(values)} in all)"
