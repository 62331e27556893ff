"""Dreams by any model behind an OpenAI-compatible endpoint."""

from pc_store.domain import strict_json
from pc_store.domain.dream_graph import Projection
from pc_store.domain.dream_run import Dreamt
from pc_store.llm import policy as prompts
from pc_store.llm.chat import ChatModel
from pc_store.llm.dream_providers import system_prompt
from pc_store.llm.dream_replies import plan_model


class OpenAIDreamer(ChatModel):
    """An author of dreams; safe to share between threads. It uses no tools but the reply's."""

    def dream(
        self,
        projection: Projection,
        *,
        target_evidence_id: str | None,
        feedback: str | None,
        within_s: float,
        max_tokens: int,
    ) -> Dreamt:
        """Send one request, which is not sent again whatever comes of it.

        Raises:
            ModelError: as `ChatModel.ask`.
        """
        system = system_prompt()
        model = plan_model(
            (one.evidence_id for one in projection.items),
            cues={one.evidence_id: one.cues for one in projection.items},
            has_target=target_evidence_id is not None,
            examples=prompts.examples(system),
        )
        shown = {
            "operation": "refine_experience",
            "target_evidence_id": target_evidence_id,
            "evidence": projection.to_json(),
        }
        if feedback is not None:
            shown["refused_before"] = feedback
        reply, usage = self.ask(
            model,
            system=system,
            user=strict_json.dumps(shown),
            reasks=0,
            within_s=within_s,
            max_tokens=max_tokens,
        )
        return Dreamt(reply.plan(), usage)
