"""Asking a proposer about a whole window: as many calls as the budget needs, one answer."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Generic, Protocol, TypeVar, runtime_checkable

from pc_store import limits
from pc_store.domain.proposal import (
    Answered,
    Evidence,
    Proposed,
    ProposerOf,
    Rejected,
    ShownEntry,
    Usage,
)
from pc_store.domain.source import estimated_tokens
from pc_store.errors import ModelAnsweredBadly, ModelError, ModelMisconfigured
from pc_store.llm.evidence import MIN_BUDGET_TOKENS, batches, request_text

_HANDLE_TOKENS = 10

P = TypeVar("P", bound=Proposed)


@runtime_checkable
class Prompted(Protocol):
    """A proposer that sends a prompt of its own beside what it is shown."""

    def overhead_tokens(self, policy: str) -> int:
        """Estimated tokens of that prompt."""


@runtime_checkable
class ReadsWhole(Protocol):
    """A proposer that reads sources as records, of which a chunk would be none."""

    reads_whole: bool


def propose_all(
    proposer: ProposerOf[P],
    evidence: Sequence[Evidence],
    entries: Sequence[ShownEntry],
    policy: str,
    budget_tokens: int,
    *,
    most: int | None = None,
) -> Answered[P]:
    """Ask about all the evidence, in log order, and merge the answers.

    Proposals that want the same, as those from the overlap of two chunks do, become one that
    cites the evidence of all. Of two revisions of one entry the first is kept and the second
    rejected. `Rejected.ordinal` counts through all the answers.

    Args:
        entries: the most relevant first; they get at most half of the room beside the policy,
            and those that do not fit are not shown.
        budget_tokens: most estimated tokens one call may send, before any re-ask.
        most: pieces of evidence in one call; None for as many as fit.

    Raises:
        ModelMisconfigured: the policy leaves too little of the budget for evidence.
        ModelAnsweredBadly: an answer broke a rule. If a list of candidates could be read from it
            (`readable`), the rest was asked as well, and `salvage` and `rejected` are of all.
        ModelError: a call failed; `usage` is what all of them cost.
    """
    if not evidence:
        return Answered(())
    overhead = proposer.overhead_tokens(policy) if isinstance(proposer, Prompted) else 0
    room = budget_tokens - overhead
    shown = _fitting(entries, min(room // 2, room - MIN_BUDGET_TOKENS))
    room -= _tokens(shown)
    if room < MIN_BUDGET_TOKENS:
        raise ModelMisconfigured(
            f"the prompt takes {overhead} tokens of PC_PROMPT_TOKEN_BUDGET ({budget_tokens}); "
            f"{MIN_BUDGET_TOKENS} must be left for evidence"
        )
    merged: _Merged[P] = _Merged()
    broken: ModelAnsweredBadly | None = None
    whole = isinstance(proposer, ReadsWhole) and proposer.reads_whole
    calls = [list(evidence)] if whole else batches(evidence, budget_tokens=room, most=most)
    for batch in calls:
        try:
            answer = proposer.propose(batch, shown, policy=policy)
        except ModelAnsweredBadly as error:
            merged.usage += error.usage or Usage()
            if not error.readable:
                error.usage = merged.usage
                raise
            broken = broken or error
            answer = Answered(error.salvage, rejected=error.rejected)
        except ModelError as error:
            error.usage = merged.usage + (error.usage or Usage())
            raise
        merged.take(answer)
    if broken is not None:
        raise ModelAnsweredBadly(
            broken.message,
            usage=merged.usage,
            salvage=tuple(merged.proposals.values()),
            rejected=tuple(merged.rejected),
            readable=True,
        )
    return Answered(tuple(merged.proposals.values()), merged.usage, tuple(merged.rejected))


class _Merged(Generic[P]):
    """Several answers as one."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.proposals: dict[Hashable, P] = {}
        self.rejected: list[Rejected] = []
        self._revised: set[str] = set()
        self._seen = 0

    def take(self, answer: Answered[P]) -> None:
        self.usage += answer.usage
        self.rejected += [replace(one, ordinal=self._seen + one.ordinal) for one in answer.rejected]
        taken = {one.ordinal for one in answer.rejected}
        total = len(answer.proposals) + len(answer.rejected)
        free = [ordinal for ordinal in range(total) if ordinal not in taken]
        for ordinal, proposal in zip(free, answer.proposals, strict=False):
            self._add(proposal, self._seen + ordinal)
        self._seen += total

    def _add(self, proposal: P, ordinal: int) -> None:
        key = proposal.subject
        known = self.proposals.get(key)
        if known is not None:
            cited = dict.fromkeys(known.evidence_ids + proposal.evidence_ids)
            self.proposals[key] = known.citing(tuple(cited)[: limits.EVIDENCE_MAX])
        elif proposal.entry_id is not None and proposal.entry_id in self._revised:
            told = "entry_id is revised by an earlier candidate"
            self.rejected.append(Rejected(ordinal, "entry-revised-twice", told))
        else:
            self.proposals[key] = proposal
            if proposal.entry_id is not None:
                self._revised.add(proposal.entry_id)


def _fitting(entries: Sequence[ShownEntry], most: int) -> list[ShownEntry]:
    """The first entries that together take at most `most` estimated tokens."""
    sizes = accumulate(_tokens([entry]) for entry in entries)
    return [entry for entry, size in zip(entries, sizes, strict=True) if size <= most]


def _tokens(entries: Sequence[ShownEntry]) -> int:
    """Estimated tokens of the entries in a request, and of their handles in the reply's schema."""
    if not entries:
        return 0
    return estimated_tokens(request_text((), entries)) + _HANDLE_TOKENS * len(entries)
