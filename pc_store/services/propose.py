"""Propose an experience: check it against its evidence and put it before people."""

import sqlalchemy as sa

from pc_store.domain.candidate import Candidate, EvidenceRefs, Origin, fingerprint
from pc_store.domain.experience import Experience
from pc_store.domain.refs import EXPERIENCE_FAMILY, ArtifactRef, new_id
from pc_store.ledger import candidates, scopes
from pc_store.ledger.candidates import known_fingerprints as known_fingerprints
from pc_store.ledger.database import Database
from pc_store.services import admit


def propose(
    db: Database,
    scope_id: str,
    proposal: Experience,
    evidence: EvidenceRefs,
    *,
    target: ArtifactRef | None = None,
    reason: str | None = None,
    origin: Origin = "propose",
    author: str = "",
    refuse_secrets: bool = True,
    now_us: int,
) -> Candidate:
    """Make a pending candidate at version 1. Twice the same makes two.

    Args:
        evidence: 1 to 32 references that exist, one of them not a prompt.
        target: the experience head to be revised, also among `evidence.artifacts`; None for a
            new experience.
        reason: at most 2,000 characters, for who reviews it.

    Returns:
        The candidate; its evidence also has the root sources of the entries cited.

    Raises:
        ScopeNotFound: no such scope.
        InvalidInput and its subclasses: the reason, the evidence or the target breaks a rule, or
            a failure is to be tracked that no task outcome among the sources shows.
        SecretDetected: proposal or reason contain a credential.
        ArtifactConflict: the target is not the head. ArtifactInactive: it is withdrawn.
    """
    with db.write() as conn:
        return propose_in(
            conn,
            scope_id,
            proposal,
            evidence,
            target=target,
            reason=reason,
            origin=origin,
            author=author,
            refuse_secrets=refuse_secrets,
            now_us=now_us,
        )


def propose_in(
    conn: sa.Connection,
    scope_id: str,
    proposal: Experience,
    evidence: EvidenceRefs,
    *,
    target: ArtifactRef | None = None,
    reason: str | None = None,
    origin: Origin,
    author: str = "",
    now_us: int,
    candidate_id: str | None = None,
    window_id: str | None = None,
    intent: str | None = None,
    refuse_secrets: bool = True,
) -> Candidate:
    """Like `propose`, in the caller's transaction; what is refused was not written.

    Args:
        candidate_id: None for a new one, which sorts by time.
        window_id: of the incubation window it comes from.
        intent: what a dream meant to do.

    Raises:
        as `propose`; Conflict if the id is taken, or if it is of the origin `recurrence` and a
            pending one has the same target and cue.
    """
    scopes.get(conn, scope_id)
    said = admit.told(reason, refuse_secrets=refuse_secrets)
    if refuse_secrets:
        admit.refuse_secret(proposal)
    settled = admit.admit(conn, scope_id, proposal, evidence)
    admit.refuse_foreign_target(target, evidence)
    if target is not None:
        admit.refuse_moved_target(target, admit.head_of(conn, scope_id, target))
    candidate = Candidate(
        scope_id=scope_id,
        candidate_id=candidate_id or new_id("cand_", at_us=now_us),
        family=EXPERIENCE_FAMILY,
        version=1,
        status="pending",
        origin=origin,
        intent=intent,
        author=author,
        target=target,
        fingerprint=fingerprint(proposal, settled),
        cue_key=proposal.cue_key,
        result=None,
        decision_reason=None,
        decided_by=None,
        window_id=window_id,
        created_at=now_us,
        updated_at=now_us,
        proposal=proposal,
        evidence=settled,
        reason=said,
    )
    candidates.insert(conn, candidate)
    return candidate
