"""What a model may reply about a dream: a plan, with a proposal or with the reason for none."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Self, get_args

from pydantic import ConfigDict, Field, WithJsonSchema, field_validator, model_validator

from pc_store import limits
from pc_store.domain.dream_run import Intent, Outcome, Plan
from pc_store.llm.experience_replies import Content, refuse_copies, refuse_unsupported
from pc_store.llm.judging import (
    Shown,
    SingleReply,
    broken,
    cited,
    enum,
    refuse_unknown_keys,
    said,
)

_KEYS = frozenset(("outcome", "reason", "intent", "proposal", "evidence_ids"))
_OF_TARGET = ("corroborate", "refine", "correct")


class PlanReply(SingleReply):
    """What to make of the evidence."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)
    key: ClassVar[str] = "outcome"
    has_target: ClassVar[bool] = False

    outcome: Annotated[str, WithJsonSchema(enum(get_args(Outcome)))]
    reason: str = Field(description="one or two sentences for who reviews it")
    intent: Annotated[
        str | None, WithJsonSchema({"anyOf": [enum(get_args(Intent)), {"type": "null"}]})
    ] = None
    proposal: Content | None = None
    evidence_ids: list[str] = Field(default=[])

    @model_validator(mode="before")
    @classmethod
    def _nothing_else(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and value.get("package", "") is None:
            value = {name: told for name, told in value.items() if name != "package"}
        refuse_unknown_keys(value, _KEYS, "answer")
        return value

    @field_validator("outcome")
    @classmethod
    def _known_outcome(cls, value: str) -> str:
        if value not in get_args(Outcome):
            broken("outcome-unknown", "outcome", f"is none of {', '.join(get_args(Outcome))}")
        return value

    @field_validator("reason")
    @classmethod
    def _reason_is_said(cls, value: str) -> str:
        return said(value, most=limits.CANDIDATE_REASON_MAX_CHARS)

    @model_validator(mode="after")
    def _all_or_nothing(self) -> Self:
        if self.outcome != "proposed":
            for name in ("intent", "proposal", "evidence_ids"):
                if getattr(self, name):
                    what = f"is there although the outcome is {self.outcome}"
                    broken(f"{name}-unwanted", name, what, "leave it out, or make it null")
            return self
        if self.proposal is None:
            broken("proposal-missing", "proposal", "is missing, the outcome is proposed")
        intents = _OF_TARGET if self.has_target else ("create",)
        if self.intent not in intents:
            about = "a target" if self.has_target else "no target"
            broken("intent-wrong", "intent", f"with {about} is expected to be {', '.join(intents)}")
        self.evidence_ids = cited(self.evidence_ids, self.shown)
        refuse_copies(self.proposal, self.shown)
        refuse_unsupported(self.proposal, self.shown.cues_of(self.evidence_ids))
        return self

    def plan(self) -> Plan:
        """The plan as the program's own value."""
        return Plan(
            self.outcome,  # type: ignore[arg-type]  # checked above
            self.reason,
            self.intent,  # type: ignore[arg-type]
            self.proposal,
            tuple(self.evidence_ids),
        )


def plan_model(
    evidence_ids: Iterable[str],
    *,
    cues: Mapping[str, tuple[str, ...]],
    has_target: bool,
    examples: frozenset[str],
) -> type[PlanReply]:
    """The reply of one dream, with the ids it may use as an enum of its schema.

    Args:
        evidence_ids: those shown, at least one.
        cues: by evidence id, the normalised texts of the failures verified at or below it.
        has_target: whether an experience is to be replaced.
        examples: folded texts (`policy.examples`) that must not come back.
    """
    rules = Shown(tuple(dict.fromkeys(evidence_ids)), (), examples, dict(cues))
    to_be_replaced = has_target

    class DreamPlan(PlanReply):
        """What to make of the evidence."""

        shown: ClassVar[Shown] = rules
        has_target: ClassVar[bool] = to_be_replaced

        evidence_ids: list[Annotated[str, WithJsonSchema(enum(rules.evidence_ids))]] = Field(
            default=[], description="ids of what the proposal rests on; empty without one"
        )

    return DreamPlan
