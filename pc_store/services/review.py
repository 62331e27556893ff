"""Review candidates: correct one, approve it into an experience, or reject it."""

from collections.abc import Sequence
from dataclasses import replace

import sqlalchemy as sa

from pc_store.domain.candidate import Candidate, EvidenceRefs, fingerprint
from pc_store.domain.experience import Experience
from pc_store.domain.refs import EXPERIENCE_FAMILY, ArtifactRef, Citation, SourceRef, new_id
from pc_store.errors import (
    ArtifactConflict,
    CandidateConflict,
    CandidateTerminal,
    InvalidInput,
    RevisionConflict,
    UnchangedProposal,
)
from pc_store.ledger import artifacts, candidates, experiences, scopes, sources
from pc_store.ledger.database import Database
from pc_store.search.tokens import TOKENISER, terms_of
from pc_store.services import admit
from pc_store.services.read_candidates import Advice as Advice
from pc_store.services.read_candidates import CandidatePage as CandidatePage
from pc_store.services.read_candidates import Diff as Diff
from pc_store.services.read_candidates import InboxSummary as InboxSummary
from pc_store.services.read_candidates import advise as advise
from pc_store.services.read_candidates import diff as diff
from pc_store.services.read_candidates import get_candidate as get_candidate
from pc_store.services.read_candidates import history as history
from pc_store.services.read_candidates import inbox as inbox
from pc_store.services.read_candidates import list_candidates as list_candidates

REVIEWED = "review"
"""The origin of every revision that an approval makes."""


def revise(
    db: Database,
    scope_id: str,
    candidate_id: str,
    *,
    expected_version: int,
    proposal: Experience,
    sources: Sequence[SourceRef],
    artifacts: Sequence[ArtifactRef],
    citations: Sequence[Citation] | None = None,
    target: ArtifactRef | None = None,
    reason: str | None = None,
    author: str = "",
    refuse_secrets: bool = True,
    now_us: int,
) -> Candidate:
    """Replace all that a pending candidate says, as its next version.

    Args:
        expected_version: the version that was looked at.
        citations: None keeps those it has, an empty list takes them away.
        target: what it was from the start.
        reason: None leaves it without one.

    Raises:
        ScopeNotFound, CandidateNotFound.
        CandidateTerminal: it is decided, whatever the version.
        CandidateConflict: it is at another version.
        ArtifactConflict, ArtifactInactive: its target moved on; it can only be rejected.
        as `propose` otherwise; or InvalidInput, the target is another than before.
    """
    with db.write() as conn:
        return revise_in(
            conn,
            scope_id,
            candidate_id,
            expected_version=expected_version,
            proposal=proposal,
            sources=sources,
            artifacts=artifacts,
            citations=citations,
            target=target,
            reason=reason,
            author=author,
            refuse_secrets=refuse_secrets,
            now_us=now_us,
        )


def revise_in(
    conn: sa.Connection,
    scope_id: str,
    candidate_id: str,
    *,
    expected_version: int,
    proposal: Experience,
    sources: Sequence[SourceRef],
    artifacts: Sequence[ArtifactRef],
    citations: Sequence[Citation] | None = None,
    target: ArtifactRef | None = None,
    reason: str | None = None,
    author: str = "",
    refuse_secrets: bool = True,
    now_us: int,
) -> Candidate:
    """Like `revise`, in the caller's transaction; what is refused was not written."""
    candidate = _pending(conn, scope_id, candidate_id, expected_version)
    said = admit.told(reason, refuse_secrets=refuse_secrets)
    if refuse_secrets:
        admit.refuse_secret(proposal)
    kept = candidate.evidence.citations if citations is None else tuple(citations)
    evidence = EvidenceRefs(tuple(sources), tuple(artifacts), kept)
    settled = admit.admit(conn, scope_id, proposal, evidence)
    if target != candidate.target:
        raise InvalidInput("target", "differs from the candidate's, which never changes")
    admit.refuse_foreign_target(target, evidence)
    if target is not None:
        admit.refuse_moved_target(target, admit.head_of(conn, scope_id, target))
    revised = replace(
        candidate,
        version=candidate.version + 1,
        fingerprint=fingerprint(proposal, settled),
        cue_key=proposal.cue_key,
        updated_at=now_us,
        proposal=proposal,
        evidence=settled,
        reason=said,
    )
    if not candidates.add_version(conn, revised, author=author):
        _refuse_stale(candidates.get(conn, scope_id, candidate_id), expected_version)
    return revised


def approve(
    db: Database,
    scope_id: str,
    candidate_id: str,
    *,
    expected_version: int,
    author: str = "",
    now_us: int,
) -> Candidate:
    """Make a candidate an experience: a new one, or its target's next revision.

    All or nothing, in one transaction: what is refused stays pending at its version. Approving
    the approved version again returns it as it is.

    Raises:
        ScopeNotFound, CandidateNotFound.
        CandidateTerminal: it is rejected, or another version is approved.
        CandidateConflict: it is at another version.
        ArtifactConflict: the target is no longer the head. ArtifactInactive: it is withdrawn.
        InvalidInput and its kinds of InvalidEvidence: what it stands on does not stand any more.
        UnchangedProposal: it says what its target says.
    """
    with db.write() as conn:
        scopes.get(conn, scope_id)
        candidate = candidates.lock(conn, scope_id, candidate_id)
        if candidate.status == "approved" and candidate.version == expected_version:
            return candidate
        _refuse_stale(candidate, expected_version)
        admit.admit(conn, scope_id, candidate.proposal, candidate.evidence)
        result = _commit(conn, candidate, now_us)
        experiences.put_document(
            conn,
            scope_id,
            result,
            candidate.proposal,
            terms=terms_of(candidate.proposal.document_text()),
            terms_version=TOKENISER,
            now_us=now_us,
        )
        decided = candidates.decide(
            conn,
            scope_id,
            candidate_id,
            version=expected_version,
            status="approved",
            result=result,
            reason=None,
            author=author,
            now_us=now_us,
        )
        now = candidates.get(conn, scope_id, candidate_id)
        if not decided:
            _refuse_stale(now, expected_version)
        return now


def reject(
    db: Database,
    scope_id: str,
    candidate_id: str,
    *,
    expected_version: int,
    reason: str,
    author: str = "",
    refuse_secrets: bool = True,
    now_us: int,
) -> Candidate:
    """End a candidate's review without a result. Evidence and target are not looked at again.

    Raises:
        ScopeNotFound, CandidateNotFound, CandidateTerminal, CandidateConflict: as `revise`.
        InvalidInput: the reason is blank, or over 2,000 characters.
        SecretDetected: the reason contains a credential.
    """
    said = admit.told(reason, refuse_secrets=refuse_secrets)
    if said is None:
        raise InvalidInput("reason", "is missing")
    with db.write() as conn:
        _pending(conn, scope_id, candidate_id, expected_version)
        decided = candidates.decide(
            conn,
            scope_id,
            candidate_id,
            version=expected_version,
            status="rejected",
            result=None,
            reason=said,
            author=author,
            now_us=now_us,
        )
        now = candidates.get(conn, scope_id, candidate_id)
        if not decided:
            _refuse_stale(now, expected_version)
        return now


def _pending(
    conn: sa.Connection, scope_id: str, candidate_id: str, expected_version: int
) -> Candidate:
    """The candidate, locked; refused unless it is pending at the expected version."""
    scopes.get(conn, scope_id)
    candidate = candidates.lock(conn, scope_id, candidate_id)
    _refuse_stale(candidate, expected_version)
    return candidate


def _refuse_stale(candidate: Candidate, expected_version: int) -> None:
    if candidate.status != "pending":
        raise CandidateTerminal(
            f"the candidate {candidate.candidate_id} is {candidate.status}, which is final",
            status=candidate.status,
        )
    if candidate.version != expected_version:
        raise CandidateConflict(
            f"the candidate {candidate.candidate_id} is at version {candidate.version}, "
            f"{expected_version} was expected",
            expected_version=expected_version,
            current_version=candidate.version,
        )


def _commit(conn: sa.Connection, candidate: Candidate, now_us: int) -> ArtifactRef:
    """Write the candidate's content as a revision and return it."""
    scope_id, target = candidate.scope_id, candidate.target
    if target is None:
        artifact_id = new_id("exp_", at_us=now_us)
        artifacts.ensure(conn, scope_id, EXPERIENCE_FAMILY, artifact_id, now_us=now_us)
    else:
        artifact_id = target.artifact_id
        artifacts.lock_head(conn, scope_id, EXPERIENCE_FAMILY, artifact_id)
        admit.refuse_moved_target(target, admit.head_of(conn, scope_id, target))
        if experiences.content(conn, scope_id, target) == candidate.proposal:
            raise UnchangedProposal("proposal", "says what its target says already")
    try:
        revision = artifacts.commit(
            conn,
            scope_id,
            EXPERIENCE_FAMILY,
            artifact_id,
            expected=target.revision if target else 0,
            content=candidate.proposal.to_json(),
            reason=None,
            origin=REVIEWED,
            window_id=candidate.window_id,
            now_us=now_us,
            sources=candidate.evidence.sources,
            used=candidate.evidence.artifacts,
            citations=candidate.evidence.citations,
            log_position=sources.high_watermark(conn, scope_id),
        )
    except RevisionConflict as error:
        current = ArtifactRef(EXPERIENCE_FAMILY, artifact_id, error.details["current"])
        raise ArtifactConflict(f"target: {error.message}", current=vars(current)) from None
    return ArtifactRef(EXPERIENCE_FAMILY, artifact_id, revision)
