"""The program's verdict on an answer: which proposals are kept, and which rule the others break.

Every provider's answer passes through here before anything is written, whatever the provider
checked itself.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from pc_store import limits
from pc_store.domain import text
from pc_store.domain.entry import Draft
from pc_store.domain.proposal import KINDS, Proposal, Rejected
from pc_store.domain.refs import SourceRef
from pc_store.domain.secret import find_secret
from pc_store.errors import InvalidInput

Check = Literal[
    "every_proposal_is_well_formed",
    "evidence_ids_resolve",
    "revisions_target_shown_entries",
    "no_secret_in_text",
]

CHECKS: dict[Check, str] = {
    "every_proposal_is_well_formed": (
        "The answer is a list of proposals, and each has an intent, a known kind, a text of 1 to "
        "8,192 bytes and a reason of at most 512 characters."
    ),
    "evidence_ids_resolve": "Every proposal cites 1 to 32 pieces of the evidence it was shown.",
    "revisions_target_shown_entries": (
        "Every revision names one entry that was shown, and no entry is revised twice."
    ),
    "no_secret_in_text": "No proposal contains a credential; those that do are dropped.",
}

SECRET: Check = "no_secret_in_text"  # noqa: S105 - the name of a check


def check_of(rule: str) -> Check:
    """The check under which a rule of the provider's edge shows, by the rule's name."""
    if rule.startswith("evidence-"):
        return "evidence_ids_resolve"
    if rule.startswith("entry-"):
        return "revisions_target_shown_entries"
    return "every_proposal_is_well_formed"


K = TypeVar("K")
"""What becomes of a kept proposal."""


@dataclass
class Verdict(Generic[K]):
    """Kept drafts, in order, and what was rejected. Secrets are dropped; the rest is a fault."""

    kept: list[K] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)

    @property
    def faults(self) -> list[Rejected]:
        """The rejections that refuse the whole answer: all but dropped secrets."""
        return [item for item in self.rejected if item.rule != SECRET]


def judge(
    proposals: Sequence[Proposal],
    *,
    evidence: Mapping[str, SourceRef],
    shown: Collection[str],
    refuse_secrets: bool,
) -> Verdict[Draft]:
    """Judge each proposal by itself and against the others.

    Args:
        proposals: the answer, in order.
        evidence: the evidence ids that were shown, and the sources they stand for.
        shown: the entry ids that were shown.
        refuse_secrets: drop proposals that contain a credential.
    """
    verdict: Verdict[Draft] = Verdict()
    revised: set[str] = set()
    for ordinal, proposal in enumerate(proposals, start=1):
        broken = _broken_rule(proposal, evidence, shown, revised, refuse_secrets)
        if broken is not None:
            check, why = broken
            verdict.rejected.append(Rejected(ordinal, check, why))
            continue
        if proposal.entry_id is not None:
            revised.add(proposal.entry_id)
        verdict.kept.append(
            Draft(
                intent=proposal.intent,
                kind=proposal.kind,
                text=text.entry_text(proposal.text),
                sources=tuple(dict.fromkeys(evidence[name] for name in proposal.evidence_ids)),
                entry_id=proposal.entry_id,
                reason=text.reason(proposal.reason),
            )
        )
    return verdict


def _broken_rule(
    proposal: Proposal,
    evidence: Mapping[str, SourceRef],
    shown: Collection[str],
    revised: Collection[str],
    refuse_secrets: bool,
) -> tuple[Check, str] | None:
    """The first rule a proposal breaks; the reason names fields and ids, never the text."""
    well_formed: Check = "every_proposal_is_well_formed"
    if proposal.intent not in ("add", "revise"):
        return well_formed, f"intent: {proposal.intent!r} is neither add nor revise"
    if proposal.kind not in KINDS:
        return well_formed, f"kind: is none of {', '.join(KINDS)}"
    try:
        text.entry_text(proposal.text)
        text.reason(proposal.reason)
    except InvalidInput as error:
        return well_formed, error.message

    cites: Check = "evidence_ids_resolve"
    named = dict.fromkeys(proposal.evidence_ids)
    if not named:
        return cites, "evidence_ids: is empty"
    if len(named) > limits.EVIDENCE_MAX:
        return cites, f"evidence_ids: has {len(named)}, the most is {limits.EVIDENCE_MAX}"
    if unknown := [name for name in named if name not in evidence]:
        return cites, f"evidence_ids: {listed(unknown)} was not shown"

    targets: Check = "revisions_target_shown_entries"
    if proposal.intent == "add" and proposal.entry_id is not None:
        return targets, "entry_id: an add names no entry"
    if proposal.intent == "revise":
        if proposal.entry_id is None:
            return targets, "entry_id: a revise names the entry it revises"
        if proposal.entry_id not in shown:
            return targets, f"entry_id: {listed([proposal.entry_id])} was not shown"
        if proposal.entry_id in revised:
            return targets, f"entry_id: {listed([proposal.entry_id])} is revised twice"

    secret = find_secret(f"{proposal.text}\n{proposal.reason or ''}") if refuse_secrets else None
    if secret is not None:
        return SECRET, f"text: contains a credential: {secret}"
    return None


def listed(names: Sequence[str]) -> str:
    """Ids as an error may show them: a model may put anything there, so they are cut short."""
    return ", ".join(repr(name[:40]) for name in names[:5])
