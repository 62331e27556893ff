"""Asking a proposer about a whole window: as many calls as the budget needs, one answer."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Protocol, runtime_checkable

from pc_store import limits
from pc_store.domain.proposal import (
    Answer,
    Evidence,
    Proposal,
    Proposer,
    Rejected,
    ShownEntry,
    Usage,
)
from pc_store.domain.source import estimated_tokens
from pc_store.errors import ModelAnsweredBadly, ModelError, ModelMisconfigured
from pc_store.llm.evidence import MIN_BUDGET_TOKENS, batches, request_text

_HANDLE_TOKENS = 10


@runtime_checkable
class Prompted(Protocol):
    """A proposer that sends a prompt of its own beside what it is shown."""

    def overhead_tokens(self, policy: str) -> int:
        """Estimated tokens of that prompt."""


def propose_all(
    proposer: Proposer,
    evidence: Sequence[Evidence],
    entries: Sequence[ShownEntry],
    policy: str,
    budget_tokens: int,
) -> Answer:
    """Ask about all the evidence, in log order, and merge the answers.

    Proposals that agree in intent, kind, text and entry, as those from the overlap of two
    chunks do, become one that cites the evidence of all. Of two revisions of one entry the
    first is kept and the second rejected. `Rejected.ordinal` counts through all the answers.

    Args:
        entries: the most relevant first; they get at most half of the room beside the policy,
            and those that do not fit are not shown.
        budget_tokens: most estimated tokens one call may send, before any re-ask.

    Raises:
        ModelMisconfigured: the policy leaves too little of the budget for evidence.
        ModelAnsweredBadly: an answer broke a rule. If a list of candidates could be read from it
            (`readable`), the rest was asked as well, and `salvage` and `rejected` are of all.
        ModelError: a call failed; `usage` is what all of them cost.
    """
    if not evidence:
        return Answer(())
    overhead = proposer.overhead_tokens(policy) if isinstance(proposer, Prompted) else 0
    room = budget_tokens - overhead
    shown = _fitting(entries, min(room // 2, room - MIN_BUDGET_TOKENS))
    room -= _tokens(shown)
    if room < MIN_BUDGET_TOKENS:
        raise ModelMisconfigured(
            f"the prompt takes {overhead} tokens of PC_PROMPT_TOKEN_BUDGET ({budget_tokens}); "
            f"{MIN_BUDGET_TOKENS} must be left for evidence"
        )
    merged = _Merged()
    broken: ModelAnsweredBadly | None = None
    for batch in batches(evidence, budget_tokens=room):
        try:
            answer = proposer.propose(batch, shown, policy=policy)
        except ModelAnsweredBadly as error:
            merged.usage += error.usage or Usage()
            if not error.readable:
                error.usage = merged.usage
                raise
            broken = broken or error
            answer = Answer(error.salvage, rejected=error.rejected)
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
    return Answer(tuple(merged.proposals.values()), merged.usage, tuple(merged.rejected))


class _Merged:
    """Several answers as one."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.proposals: dict[tuple[str, str, str, str | None], Proposal] = {}
        self.rejected: list[Rejected] = []
        self._revised: set[str] = set()
        self._seen = 0

    def take(self, answer: Answer) -> None:
        self.usage += answer.usage
        self.rejected += [replace(one, ordinal=self._seen + one.ordinal) for one in answer.rejected]
        taken = {one.ordinal for one in answer.rejected}
        total = len(answer.proposals) + len(answer.rejected)
        free = [ordinal for ordinal in range(total) if ordinal not in taken]
        for ordinal, proposal in zip(free, answer.proposals, strict=False):
            self._add(proposal, self._seen + ordinal)
        self._seen += total

    def _add(self, proposal: Proposal, ordinal: int) -> None:
        key = (proposal.intent, proposal.kind, proposal.text, proposal.entry_id)
        known = self.proposals.get(key)
        if known is not None:
            cited = dict.fromkeys(known.evidence_ids + proposal.evidence_ids)
            self.proposals[key] = replace(known, evidence_ids=tuple(cited)[: limits.EVIDENCE_MAX])
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
