"""The program's verdict on proposed experiences: which are kept, and which rule the others break.

Every provider's answer passes through here before anything is written, whatever the provider
checked itself. What only the ledger can tell, such as whether the evidence behind a failure
still resolves, is checked when a candidate is inserted.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pc_store import limits
from pc_store.domain.experience import Experience
from pc_store.domain.experience_proposal import ExperienceProposal
from pc_store.domain.proposal import Rejected
from pc_store.domain.refs import SourceRef
from pc_store.domain.secret import find_secret
from pc_store.domain.verdict import Verdict, listed

ExperienceCheck = Literal[
    "every_proposal_is_well_formed",
    "evidence_ids_resolve",
    "failures_are_supported",
    "no_secret_in_text",
]

EXPERIENCE_CHECKS: dict[str, str] = {
    "every_proposal_is_well_formed": (
        "The answer is a list of candidates, and each has a situation, action, outcome and lesson "
        "of 1 to 8,000 characters, and a failure that is null or complete."
    ),
    "evidence_ids_resolve": "Every candidate cites 1 to 32 pieces of the evidence it was shown.",
    "failures_are_supported": (
        "The cue of every failure is what a verified failing check or observation of a cited task "
        "outcome says, and the evidence of that item resolves."
    ),
    "no_secret_in_text": "No candidate contains a credential; those that do are dropped.",
}


@dataclass(frozen=True)
class ExperienceDraft:
    """A proposal that breaks no rule known here, with the sources it cites, in their order."""

    ordinal: int
    content: Experience
    sources: tuple[SourceRef, ...]


def experience_check_of(rule: str) -> str:
    """The check under which a rule of the provider's edge shows, by the rule's name."""
    if rule.startswith("evidence-"):
        return "evidence_ids_resolve"
    if rule.startswith("failure-"):
        return "failures_are_supported"
    return "every_proposal_is_well_formed"


def judge_experiences(
    proposals: Sequence[ExperienceProposal],
    *,
    evidence: Mapping[str, SourceRef],
    cues: Mapping[str, Collection[str]],
    refuse_secrets: bool,
) -> Verdict[ExperienceDraft]:
    """Judge each proposal by itself. Secrets are dropped; what else is wrong is a fault.

    Args:
        evidence: the evidence ids that were shown, and the sources they stand for.
        cues: by evidence id, the normalised texts of the failures its source verifies.
        refuse_secrets: drop proposals that contain a credential.
    """
    verdict: Verdict[ExperienceDraft] = Verdict()
    for ordinal, proposal in enumerate(proposals, start=1):
        broken = _broken_rule(proposal, evidence, cues, refuse_secrets)
        if broken is not None:
            verdict.rejected.append(Rejected(ordinal, *broken))
            continue
        cited = tuple(dict.fromkeys(evidence[name] for name in proposal.evidence_ids))
        verdict.kept.append(ExperienceDraft(ordinal, proposal.content, cited))
    return verdict


def _broken_rule(
    proposal: ExperienceProposal,
    evidence: Mapping[str, SourceRef],
    cues: Mapping[str, Collection[str]],
    refuse_secrets: bool,
) -> tuple[ExperienceCheck, str] | None:
    """The first rule a proposal breaks; the reason names fields and ids, never the text."""
    cites: ExperienceCheck = "evidence_ids_resolve"
    named = dict.fromkeys(proposal.evidence_ids)
    if not named:
        return cites, "evidence_ids: is empty"
    if len(named) > limits.EVIDENCE_MAX:
        return cites, f"evidence_ids: has {len(named)}, the most is {limits.EVIDENCE_MAX}"
    if unknown := [name for name in named if name not in evidence]:
        return cites, f"evidence_ids: {listed(unknown)} was not shown"

    key = proposal.content.cue_key
    if key is not None and not any(key in cues.get(name, ()) for name in named):
        return "failures_are_supported", (
            "proposal.failure: no verified failing check or observation of the cited evidence "
            "says its recall cue"
        )
    if refuse_secrets:
        secret = find_secret("\n".join(proposal.content.lines()))
        if secret is not None:
            return "no_secret_in_text", f"proposal: contains a credential: {secret}"
    return None
