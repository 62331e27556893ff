"""What a model may reply about a memory: changes, each an addition or a revision of an entry."""

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal, Self, get_args

from pydantic import Field, WithJsonSchema, field_validator, model_validator

from pc_store.domain import text as texts
from pc_store.domain.proposal import KINDS, Proposal
from pc_store.errors import InvalidInput
from pc_store.llm.judging import Part, Reply, Shown, broken, cited, enum, listed
from pc_store.llm.policy import folded

Intent = Literal["add", "revise"]


class Candidate(Part):
    """One proposed change."""

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
            broken("kind-unknown", "kind", "is not a known kind", f"use {listed(KINDS)}")
        return value

    @field_validator("text")
    @classmethod
    def _text_can_be_kept(cls, value: str) -> str:
        try:
            kept = texts.entry_text(value)
        except InvalidInput as error:
            broken(error.details.get("code", "text-unstorable"), "text", error.reason)
        if folded(kept) in cls.shown.examples:
            broken("example-copied", "text", "copies the example", "use only the evidence")
        return kept

    @field_validator("reason")
    @classmethod
    def _reason_can_be_kept(cls, value: str | None) -> str | None:
        try:
            return texts.reason(value)
        except InvalidInput as error:
            broken(error.details.get("code", "reason-unstorable"), "reason", error.reason)

    @field_validator("evidence_ids")
    @classmethod
    def _evidence_was_shown(cls, value: list[str]) -> list[str]:
        return cited(value, cls.shown)

    @field_validator("entry_id")
    @classmethod
    def _blank_is_none(cls, value: str | None) -> str | None:
        return (value or "").strip() or None

    @model_validator(mode="after")
    def _entry_agrees_with_intent(self) -> Self:
        shown = self.shown.entry_handles
        allowed = f"use only {listed(shown)}" if shown else "no entry was shown, so only add"
        if self.intent == "add":
            if self.entry_id is not None:
                advice = "leave it null, or revise that entry"
                broken("entry-on-add", "entry_id", "is set on an add", advice)
        elif self.entry_id is None:
            broken("entry-missing", "entry_id", "is missing on a revise", allowed)
        elif self.entry_id not in shown:
            broken("entry-not-shown", "entry_id", "names no entry that was shown", allowed)
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


class ChangesReply(Reply):
    """The proposed changes, an empty list if nothing is worth keeping."""

    candidates: list[Candidate]

    @model_validator(mode="after")
    def _no_entry_is_revised_twice(self) -> Self:
        for first, later in _revised_again(self.candidates):
            what = f"of candidate {later} is already revised by candidate {first}"
            broken("entry-revised-twice", "entry_id", what, "put both changes into one")
        return self


def reply_model(
    evidence_ids: Iterable[str],
    entry_handles: Iterable[str] = (),
    *,
    examples: frozenset[str] = frozenset(),
) -> type[ChangesReply]:
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
    entry = {"anyOf": [enum(rules.entry_handles), no_entry]} if rules.entry_handles else no_entry

    class Change(Candidate):
        """One proposed change."""

        shown: ClassVar[Shown] = rules

        intent: Annotated[Intent, WithJsonSchema(enum(intents))]
        kind: Annotated[str, WithJsonSchema(enum(KINDS))]
        evidence_ids: list[Annotated[str, WithJsonSchema(enum(rules.evidence_ids))]] = Field(
            description="ids of the evidence that states it",
            json_schema_extra={"minItems": 1},
        )
        entry_id: Annotated[str | None, WithJsonSchema(entry)] = Field(
            None, description="the shown entry to revise; null for add"
        )

    class Changes(ChangesReply):
        """The proposed changes, an empty list if nothing is worth keeping."""

        part: ClassVar[type[Part]] = Change

        candidates: list[Change]  # type: ignore[assignment]  # narrower on purpose

    return Changes


def _revised_again(candidates: Iterable[Candidate]) -> Iterable[tuple[int, int]]:
    """Pairs (first, later) of candidates that revise the same entry."""
    first: dict[str, int] = {}
    for ordinal, one in enumerate(candidates):
        if one.entry_id is not None and first.setdefault(one.entry_id, ordinal) != ordinal:
            yield first[one.entry_id], ordinal
