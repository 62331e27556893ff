"""What a model may reply about an experience whose failure keeps coming back: a changed one."""

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Self

from pydantic import ConfigDict, Field, WithJsonSchema, field_validator, model_validator

from pc_store import limits
from pc_store.domain.candidate import compare
from pc_store.domain.experience import Experience
from pc_store.llm.experience_replies import Content, refuse_copies
from pc_store.llm.judging import (
    Shown,
    SingleReply,
    broken,
    cited,
    enum,
    refuse_unknown_keys,
    said,
)
from pc_store.llm.policy import folded

_KEYS = frozenset(("reason", "evidence_ids", "proposal"))


class RedraftReply(SingleReply):
    """A changed experience, or null if the records do not show what to change."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)
    key: ClassVar[str] = "proposal"
    target: ClassVar[Experience]

    reason: str = Field(description="what is changed and why, or why nothing is")
    evidence_ids: list[str] = Field(default=[])
    proposal: Content | None

    @model_validator(mode="before")
    @classmethod
    def _nothing_else(cls, value: Any) -> Any:
        refuse_unknown_keys(value, _KEYS, "answer")
        return value

    @field_validator("reason")
    @classmethod
    def _reason_is_said(cls, value: str) -> str:
        return said(value, most=limits.DRAFT_REASON_MAX_CHARS)

    @model_validator(mode="after")
    def _is_a_change_that_is_shown(self) -> Self:
        if self.proposal is None:
            return self
        self.evidence_ids = cited(self.evidence_ids, self.shown)
        refuse_copies(self.proposal, self.shown)
        _refuse_another_failure(self.proposal, self.target)
        if all(
            folded(change.before or "") == folded(change.after or "")
            for change in compare(self.target, self.proposal)
        ):
            what = "says what the experience says already"
            broken("unchanged", "proposal", what, "change it, or make it null")
        return self


def _refuse_another_failure(proposal: Experience, target: Experience) -> None:
    """The failure that is tracked stays: its cue word for word, and where its repair belongs."""
    kept, told = target.failure, proposal.failure
    assert kept is not None  # else nothing could have come back
    if told is None:
        broken("failure-missing", "failure", "is missing", "keep the experience's")
    if told.signature.recall_cue != kept.signature.recall_cue:
        advice = f"copy it word for word: {kept.signature.recall_cue}"
        broken("cue-changed", "failure.signature.recall_cue", "is another than before", advice)
    if told.repair_surface != kept.repair_surface:
        what = f"is another than before, {kept.repair_surface} is expected"
        broken("surface-changed", "failure.repair_surface", what)


def redraft_model(
    evidence_ids: Iterable[str], *, of: Experience, examples: frozenset[str]
) -> type[RedraftReply]:
    """The reply of one draft, with the ids it may use as an enum of its schema.

    Args:
        evidence_ids: of the records shown, at least one; the experience's is not among them.
        of: what the experience says now; it tracks a failure.
        examples: folded texts (`policy.examples`) that must not come back.
    """
    rules = Shown(tuple(dict.fromkeys(evidence_ids)), (), examples)

    class Redrafted(RedraftReply):
        """A changed experience, or null if the records do not show what to change."""

        shown: ClassVar[Shown] = rules
        target: ClassVar[Experience] = of

        evidence_ids: list[Annotated[str, WithJsonSchema(enum(rules.evidence_ids))]] = Field(
            default=[], description="ids of the records that show it; empty without a proposal"
        )

    return Redrafted
