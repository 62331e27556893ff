"""What a model may reply: the rules, told to the model, enforced, and used to save what is good.

The schema of a call lists the ids that were shown, so an endpoint that enforces schemas cannot
name another one. Most do not, so every rule is checked again here. A message of this module is
read twice: by the model, when its answer is sent back, and by a person, in the record of what
was rejected. It names fields, rules and ids of ours, and repeats no word of the model's.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NoReturn, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from pc_store import limits
from pc_store.domain import text as texts
from pc_store.domain.proposal import KINDS, Proposal, Rejected
from pc_store.errors import InvalidInput
from pc_store.llm.policy import folded

_IDS_LISTED = 64
"""Most allowed ids that one message to the model spells out."""

Intent = Literal["add", "revise"]


class UnreadableError(ValueError):
    """A model's answer does not hold exactly one JSON object; the message says what it holds."""


def _broken(rule: str, field: str, what: str, advice: str = "") -> NoReturn:
    told = f"{field} {what}; {advice}" if advice else f"{field} {what}"
    raise PydanticCustomError(rule, "{told}", {"told": told, "what": f"{field} {what}"})


@dataclass(frozen=True)
class Shown:
    """What a call shows: the ids a reply may use, and the examples it may not copy."""

    evidence_ids: tuple[str, ...]
    entry_handles: tuple[str, ...] = ()
    examples: frozenset[str] = frozenset()


class Candidate(BaseModel):
    """One proposed change."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)
    shown: ClassVar[Shown]

    intent: Intent = Field(description="add a new entry, or revise a shown one")
    kind: str
    text: str = Field(description="the entry's whole text")
    evidence_ids: list[str]
    entry_id: str | None = None
    reason: str | None = Field(None, description="why, at most 512 characters")

    @field_validator("kind")
    @classmethod
    def _kind_is_known(cls, value: str) -> str:
        if value not in KINDS:
            _broken("kind-unknown", "kind", "is not a known kind", f"use {_listed(KINDS)}")
        return value

    @field_validator("text")
    @classmethod
    def _text_can_be_kept(cls, value: str) -> str:
        try:
            kept = texts.entry_text(value)
        except InvalidInput as error:
            _broken(error.details.get("code", "text-unstorable"), "text", error.reason)
        if folded(kept) in cls.shown.examples:
            _broken("example-copied", "text", "copies the example", "use only the evidence")
        return kept

    @field_validator("reason")
    @classmethod
    def _reason_can_be_kept(cls, value: str | None) -> str | None:
        try:
            return texts.reason(value)
        except InvalidInput as error:
            _broken(error.details.get("code", "reason-unstorable"), "reason", error.reason)

    @field_validator("evidence_ids")
    @classmethod
    def _evidence_was_shown(cls, value: list[str]) -> list[str]:
        known = cls.shown.evidence_ids
        cited = list(dict.fromkeys(one.strip() for one in value))
        if not cited:
            _broken("evidence-empty", "evidence_ids", "is empty", f"cite {_listed(known)}")
        unknown = sum(one not in known for one in cited)
        if unknown:
            what = f"has {unknown} of {len(cited)} ids that were not shown"
            _broken("evidence-unknown", "evidence_ids", what, f"use only {_listed(known)}")
        if len(cited) > limits.EVIDENCE_MAX:
            what = f"has {len(cited)} ids, the most is {limits.EVIDENCE_MAX}"
            _broken("evidence-too-many", "evidence_ids", what, "cite the clearest ones")
        return cited

    @field_validator("entry_id")
    @classmethod
    def _blank_is_none(cls, value: str | None) -> str | None:
        return (value or "").strip() or None

    @model_validator(mode="after")
    def _entry_agrees_with_intent(self) -> Self:
        shown = self.shown.entry_handles
        allowed = f"use only {_listed(shown)}" if shown else "no entry was shown, so only add"
        if self.intent == "add":
            if self.entry_id is not None:
                advice = "leave it null, or revise that entry"
                _broken("entry-on-add", "entry_id", "is set on an add", advice)
        elif self.entry_id is None:
            _broken("entry-missing", "entry_id", "is missing on a revise", allowed)
        elif self.entry_id not in shown:
            _broken("entry-not-shown", "entry_id", "names no entry that was shown", allowed)
        return self

    def proposal(self) -> Proposal:
        """The change as the program's own value; `entry_id` is still the handle shown."""
        return Proposal(
            self.intent,
            self.kind,
            self.text,
            tuple(self.evidence_ids),
            self.entry_id,
            self.reason,
        )


class Reply(BaseModel):
    """The proposed changes, an empty list if nothing is worth keeping."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)
    candidate: ClassVar[type[Candidate]]

    candidates: list[Candidate]

    @model_validator(mode="after")
    def _no_entry_is_revised_twice(self) -> Self:
        for first, later in _revised_again(self.candidates):
            what = f"of candidate {later} is already revised by candidate {first}"
            _broken("entry-revised-twice", "entry_id", what, "put both changes into one")
        return self

    @classmethod
    def model_validate_json(
        cls, json_data: str | bytes | bytearray, *_: Any, **options: Any
    ) -> Self:
        """Validate an answer's text, read with the tolerance of `one_object`.

        Raises:
            ValidationError: no object could be read, or it breaks a rule.
        """
        raw = json_data if isinstance(json_data, str) else bytes(json_data).decode()
        try:
            value = _reply_in(raw)
        except UnreadableError as error:
            told = PydanticCustomError("unreadable", "{told}", {"told": f"the answer {error}"})
            details: list[InitErrorDetails] = [{"type": told, "loc": (), "input": None}]
            raise ValidationError.from_exception_data(
                cls.__name__, details, hide_input=True
            ) from None
        return cls.model_validate(value, context=options.get("context"), strict=False)


def reply_model(
    evidence_ids: Iterable[str],
    entry_handles: Iterable[str] = (),
    *,
    examples: frozenset[str] = frozenset(),
) -> type[Reply]:
    """The reply of one call, with the ids it may use as enums of its schema.

    The schema is one flat object rather than one per intent: endpoints and their grammars
    treat unions unequally, and the validators tell the two apart anyway. Without entries
    there is only `add`.

    Args:
        evidence_ids: at least one; repeats (chunks of one source) are fine.
        entry_handles: how the entries are called in this call.
        examples: folded texts (`policy.examples`) that must not come back.
    """
    rules = Shown(tuple(dict.fromkeys(evidence_ids)), tuple(dict.fromkeys(entry_handles)), examples)
    intents = list(get_args(Intent)) if rules.entry_handles else ["add"]
    no_entry = {"type": "null"}
    entry = {"anyOf": [_enum(rules.entry_handles), no_entry]} if rules.entry_handles else no_entry

    class Change(Candidate):
        """One proposed change."""

        shown: ClassVar[Shown] = rules

        intent: Annotated[Intent, WithJsonSchema(_enum(intents))]
        kind: Annotated[str, WithJsonSchema(_enum(KINDS))]
        evidence_ids: list[Annotated[str, WithJsonSchema(_enum(rules.evidence_ids))]] = Field(
            description="ids of the evidence that states it",
            json_schema_extra={"minItems": 1},
        )
        entry_id: Annotated[str | None, WithJsonSchema(entry)] = Field(
            None, description="the shown entry to revise; null for add"
        )

    class Changes(Reply):
        """The proposed changes, an empty list if nothing is worth keeping."""

        candidate: ClassVar[type[Candidate]] = Change

        candidates: list[Change]  # type: ignore[assignment]  # narrower on purpose

    return Changes


def sift(
    candidates: Sequence[Any], model: type[Reply]
) -> tuple[tuple[Proposal, ...], tuple[Rejected, ...]]:
    """Judge each candidate of a broken answer by itself.

    Returns the proposals that break no rule, and the others with the field and rule they
    break; `ordinal` counts from 0. Of two revisions of one entry the first is kept.
    """
    kept: list[Proposal] = []
    rejected: list[Rejected] = []
    revised: set[str] = set()
    for ordinal, value in enumerate(candidates):
        try:
            one = model.candidate.model_validate(value, strict=False)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            rejected.append(Rejected(ordinal, first["type"], _told(first)))
            continue
        if one.entry_id is not None and one.entry_id in revised:
            told = "entry_id is revised by an earlier candidate"
            rejected.append(Rejected(ordinal, "entry-revised-twice", told))
            continue
        if one.entry_id is not None:
            revised.add(one.entry_id)
        kept.append(one.proposal())
    return tuple(kept), tuple(rejected)


def read_leniently(text: str) -> list[Any] | None:
    """The candidates of an answer, unjudged, or None if it holds no single list of them."""
    try:
        value = _reply_in(text)
    except UnreadableError:
        return None
    candidates = value.get("candidates")
    return candidates if isinstance(candidates, list) else None


def _reply_in(text: str) -> dict[str, Any]:
    """The object of an answer, taken out of a tool's call that was written as text."""
    value = one_object(text)
    inner = value.get("arguments", value.get("parameters"))
    return inner if "candidates" not in value and isinstance(inner, dict) else value


def one_object(text: str) -> dict[str, Any]:
    """The one JSON object an answer holds.

    Tolerated, because they leave no doubt: a byte order mark, reasoning in a `<think>` block
    before the answer, Markdown fences, prose around the object, commas after the last member,
    raw line breaks in strings, and the same object twice.

    Raises:
        UnreadableError: there is none, a list instead, two different ones, one with a key twice,
            or text that begins like an object and is not one, such as an answer cut short.
    """
    bare = _after_thinking(text.strip().strip("\ufeff").strip())
    found: list[Any] = []
    position = 0
    while start := _START.search(bare, position):
        value, position = _value_at(bare, start.start())
        if value not in found:
            found.append(value)
    if not found:
        raise UnreadableError("is empty" if not bare else "holds no JSON object")
    if len(found) > 1:
        raise UnreadableError("holds several different JSON values, exactly one object is expected")
    if not isinstance(found[0], dict):
        raise UnreadableError("is a list, an object with the key candidates is expected")
    return found[0]


# What begins an object or a list, not a placeholder like {user} or a footnote like [1] in prose.
_START = re.compile(r'\{(?=\s*["}])|\[(?=\s*[\[{])|^\[(?=\s*\])')
_THOUGHT = re.compile(r"<(think|thinking|reasoning)>.*?</\1>\s*", re.DOTALL | re.IGNORECASE)
_THOUGHT_END = re.compile(r"</(?:think|thinking|reasoning)>\s*", re.IGNORECASE)
_THOUGHT_START = re.compile(r"<(?:think|thinking|reasoning)>", re.IGNORECASE)
_LAST_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])', re.DOTALL)


def _after_thinking(text: str) -> str:
    while thought := _THOUGHT.match(text):
        text = text[thought.end() :]
    if _THOUGHT_START.match(text):
        raise UnreadableError("ends inside its reasoning")
    # Some chat templates open the block in the prompt, so that only its end is in the answer.
    if not text.startswith(("{", "[", "`")) and (end := _THOUGHT_END.search(text)):
        text = text[end.end() :]
    return text


def _value_at(text: str, start: int) -> tuple[Any, int]:
    """The JSON value that begins at `start`, and where it ends."""
    try:
        try:
            return _DECODER.raw_decode(text, start)
        except json.JSONDecodeError:
            # Same length, so that the end is right in the original as well.
            mended = _LAST_COMMA.sub(lambda m: m[0] if m[0] != "," else " ", text[start:])
            value, length = _DECODER.raw_decode(mended)
            return value, start + length
    except UnreadableError:
        raise
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise UnreadableError(f"is not valid JSON at {where}: {error.msg.lower()}") from None
    except (ValueError, RecursionError):
        raise UnreadableError(
            "is not valid JSON: it nests too deep or holds too large a number"
        ) from None


def _without_doubt(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, member in pairs:
        if key in value and value[key] != member:
            raise UnreadableError("has a key twice in one object, with different values")
        value[key] = member
    return value


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_without_doubt)


def _revised_again(candidates: Iterable[Candidate]) -> Iterable[tuple[int, int]]:
    """Pairs (first, later) of candidates that revise the same entry."""
    first: dict[str, int] = {}
    for ordinal, one in enumerate(candidates):
        if one.entry_id is not None and first.setdefault(one.entry_id, ordinal) != ordinal:
            yield first[one.entry_id], ordinal


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
    field = next((part for part in reversed(error["loc"]) if isinstance(part, str)), "candidate")
    return f"{field}: {error['msg'].lower()}"


def _enum(values: Iterable[str]) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


def _listed(values: Sequence[str]) -> str:
    listed = ", ".join(values[:_IDS_LISTED])
    return listed if len(values) <= _IDS_LISTED else f"{listed} … ({len(values)} in all)"
