"""Experiences, proposed, written or rewritten by any model behind an OpenAI-compatible endpoint."""

from collections.abc import Sequence

from pc_store.domain import strict_json
from pc_store.domain.experience import Experience
from pc_store.domain.experience_proposal import Draft, Exhibit, ExperienceAnswer, Redraft
from pc_store.domain.proposal import Answered, Evidence, ShownEntry
from pc_store.domain.source import estimated_tokens
from pc_store.llm import policy as prompts
from pc_store.llm.chat import ChatModel
from pc_store.llm.evidence import records_text
from pc_store.llm.experience_providers import redraft_prompt
from pc_store.llm.experience_replies import candidates_model, generation_model
from pc_store.llm.redraft_replies import redraft_model

CANDIDATES_REPLY = "experience.reply"
PROPOSAL_REPLY = "experience.proposal"
_SCHEMA_TOKENS = 700
"""What the reply's schema takes, without the ids in it."""


class OpenAIExperienceModel(ChatModel):
    """A proposer and generator of experiences; safe to share between threads."""

    def overhead_tokens(self, policy: str) -> int:
        """Estimated tokens that an incubation call sends beside its evidence."""
        return estimated_tokens(_system(policy, CANDIDATES_REPLY)) + _SCHEMA_TOKENS

    def propose(
        self, evidence: Sequence[Evidence], entries: Sequence[ShownEntry] = (), *, policy: str
    ) -> ExperienceAnswer:
        """Ask once for candidates from task outcomes that fit one call; no entry is ever shown.

        Raises:
            ModelError: as `ChatModel.ask`.
        """
        del entries
        if not evidence:
            return Answered(())
        system = _system(policy, CANDIDATES_REPLY)
        model = candidates_model(
            (one.evidence_id for one in evidence),
            cues={one.evidence_id: one.cues for one in evidence},
            examples=prompts.examples(system),
        )
        reply, usage = self.ask(model, system=system, user=records_text(evidence))
        return Answered(tuple(one.proposal() for one in reply.candidates), usage)

    def generate(
        self, exhibits: Sequence[Exhibit], *, target_evidence_id: str | None, policy: str
    ) -> Draft:
        """Ask once for an experience from evidence that people chose.

        Raises:
            ModelError: as `ChatModel.ask`.
        """
        system = _system(policy, PROPOSAL_REPLY)
        model = generation_model(
            cues={one.evidence_id: one.cues for one in exhibits},
            examples=prompts.examples(system),
        )
        shown = {"evidence": _told(exhibits), "target_evidence_id": target_evidence_id}
        reply, usage = self.ask(model, system=system, user=strict_json.dumps(shown))
        return Draft(reply.proposal, usage)

    def redraft(self, exhibits: Sequence[Exhibit], *, target: Experience) -> Redraft:
        """Ask once for a change of an experience whose failure keeps coming back.

        Raises:
            ModelError: as `ChatModel.ask`.
        """
        assert target.failure is not None  # else nothing could come back
        system = redraft_prompt()
        model = redraft_model(
            (one.evidence_id for one in exhibits if one.kind == "source"),
            of=target,
            examples=prompts.examples(system),
        )
        (named,) = (one.evidence_id for one in exhibits if one.kind == "artifact")
        shown = {
            "evidence": _told(exhibits),
            "target_evidence_id": named,
            "recall_cue": target.failure.signature.recall_cue,
            "repair_surface": target.failure.repair_surface,
        }
        reply, usage = self.ask(model, system=system, user=strict_json.dumps(shown))
        cited = () if reply.proposal is None else tuple(reply.evidence_ids)
        return Redraft(reply.proposal, reply.reason, cited, usage)


def _told(exhibits: Sequence[Exhibit]) -> list[dict[str, str | bool]]:
    names = ("evidence_id", "kind", "content", "truncated")
    return [{name: getattr(one, name) for name in names} for one in exhibits]


def _system(policy: str, reply: str) -> str:
    return f"{policy.strip()}\n\n{prompts.reply_format(reply).text}"
