"""Changes of a memory, proposed by any model behind an OpenAI-compatible endpoint.

One call shows evidence and entries, and takes a checked list of changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pc_store.domain.proposal import Answer, Evidence, Proposal, ShownEntry
from pc_store.domain.source import estimated_tokens
from pc_store.errors import ModelAnsweredBadly
from pc_store.llm import policy as prompts
from pc_store.llm.chat import ChatModel
from pc_store.llm.evidence import request_text
from pc_store.llm.replies import reply_model

_SCHEMA_TOKENS = 600
"""What the reply's schema takes, without the ids in it."""


class OpenAIProposer(ChatModel):
    """A proposer behind an OpenAI-compatible endpoint; safe to share between threads."""

    def overhead_tokens(self, policy: str) -> int:
        """Estimated tokens a call sends beside its evidence and entries."""
        return estimated_tokens(_system(policy)) + _SCHEMA_TOKENS

    def propose(
        self, evidence: Sequence[Evidence], entries: Sequence[ShownEntry], *, policy: str
    ) -> Answer:
        """Ask once about evidence that fits one call, see `evidence.batches`.

        Entries are shown under the short handles m1, m2 …, which cost fewer tokens than their
        ids and cannot be mistyped; proposals name the real ids again.

        Raises:
            ModelError: as `ChatModel.ask`.
        """
        if not evidence:
            return Answer(())
        handles = {f"m{number}": entry.entry_id for number, entry in enumerate(entries, start=1)}
        shown = [
            replace(entry, entry_id=handle) for handle, entry in zip(handles, entries, strict=True)
        ]
        system = _system(policy)
        model = reply_model(
            (one.evidence_id for one in evidence), handles, examples=prompts.examples(system)
        )
        try:
            reply, usage = self.ask(model, system=system, user=request_text(evidence, shown))
        except ModelAnsweredBadly as error:
            error.salvage = tuple(_named(one, handles) for one in error.salvage)
            raise
        return Answer(tuple(_named(one.proposal(), handles) for one in reply.candidates), usage)


def _system(policy: str) -> str:
    return f"{policy.strip()}\n\n{prompts.reply_format().text}"


def _named(proposal: Proposal, handles: Mapping[str, str]) -> Proposal:
    if proposal.entry_id is None:
        return proposal
    return replace(proposal, entry_id=handles[proposal.entry_id])
