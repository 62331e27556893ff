"""The builtin author of dreams: it joins nothing, and says so.

Bringing several texts together is judgment, which takes a model. What can be done without one is
to draft a new experience from the one well-formed task outcome that the selected knowledge rests
on, as `builtin_experience` does, and to tell knowledge that no source supports from knowledge
that has some.
"""

from pc_store.domain import outcome
from pc_store.domain.dream_graph import Projection, ShownItem
from pc_store.domain.dream_run import Dreamt, Plan
from pc_store.domain.outcome import TaskOutcome
from pc_store.errors import InvalidInput
from pc_store.llm.builtin_experience import draft


class BuiltinDreamer:
    """Answers by rule; needs no key and no network. The same evidence gives the same plan."""

    provider = "builtin"
    model = "dream-1"

    def prepare(self) -> None:
        """Nothing: rules need no loading."""

    def dream(
        self,
        projection: Projection,
        *,
        target_evidence_id: str | None = None,
        feedback: str | None = None,
        within_s: float = 0.0,
        max_tokens: int = 0,
    ) -> Dreamt:
        """A plan; see the module. The limits are kept anyway."""
        del feedback, within_s, max_tokens
        return Dreamt(_plan(projection, target_evidence_id))


def _plan(projection: Projection, target_evidence_id: str | None) -> Plan:
    roots = [one for one in projection.items if one.kind == "source"]
    if not roots:
        return Plan(
            "needs_evidence",
            "No source stands behind what was selected. Add the log or the task outcome that "
            "shows what was done and what came of it.",
        )
    read = [(one, record) for one in roots if (record := _read(one)) is not None]
    if target_evidence_id is not None:
        return Plan(
            "no_change",
            "No model is configured. The builtin rules do not rewrite an experience that exists.",
        )
    if len(read) != 1:
        return Plan(
            "no_change",
            f"No model is configured. The builtin rules draft an experience from exactly one task "
            f"outcome, and {len(read)} of the {len(roots)} sources behind the selection are one.",
        )
    ((item, record),) = read
    return Plan(
        "proposed",
        "Drafted by the builtin rules from the one task outcome behind the selection; no model "
        "has judged it.",
        "create",
        draft(record),
        (item.evidence_id,),
    )


def _read(item: ShownItem) -> TaskOutcome | None:
    try:
        return outcome.loads(item.text)
    except InvalidInput:
        return None
