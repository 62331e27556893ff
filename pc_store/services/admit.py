"""What a candidate must satisfy whenever it is proposed, revised or approved."""

import sqlalchemy as sa

from pc_store.domain import outcome
from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.candidate import reason as checked_reason
from pc_store.domain.experience import Experience
from pc_store.domain.failure import failure_items
from pc_store.domain.outcome import TaskOutcome
from pc_store.domain.refs import EXPERIENCE_FAMILY, ArtifactRef, SourceRef
from pc_store.domain.secret import find_secret
from pc_store.domain.source import CONTENT_TYPE, Source
from pc_store.errors import ArtifactConflict, ArtifactInactive, InvalidInput, SecretDetected
from pc_store.ledger import artifacts, sources
from pc_store.ledger.artifacts import Head
from pc_store.services.trace_evidence import settle, shown, why_unavailable


def told(reason: str | None, *, refuse_secrets: bool) -> str | None:
    """Normalise a reason; None stays None.

    Raises:
        InvalidInput: blank, or over 2,000 characters.
        SecretDetected: it holds a credential.
    """
    said = checked_reason(reason)
    if refuse_secrets and said and (kind := find_secret(said)):
        raise SecretDetected("reason", f"contains a credential: {kind}")
    return said


def refuse_secret(proposal: Experience) -> None:
    """Raise SecretDetected if a field of the proposal holds a credential; it names the field."""
    for line_field, body in _texts(proposal):
        if kind := find_secret(body):
            raise SecretDetected(f"proposal.{line_field}", f"contains a credential: {kind}")


def admit(
    conn: sa.Connection, scope_id: str, proposal: Experience, evidence: EvidenceRefs
) -> EvidenceRefs:
    """Check the evidence of a proposal, and add the root sources of the entries it cites.

    A proposal that tracks a failure needs a task outcome, among the sources given, with a
    verified failing item whose normalised text is the cue and whose own evidence can be read.

    Raises:
        InvalidInput and its kinds of InvalidEvidence: as `trace_evidence.settle`; or no outcome
            shows the failure (field `evidence`).
    """
    settled = settle(conn, scope_id, evidence)
    if proposal.cue_key is not None:
        _refuse_unseen_failure(conn, scope_id, proposal.cue_key, evidence.sources)
    return settled


def refuse_foreign_target(target: ArtifactRef | None, evidence: EvidenceRefs) -> None:
    """Raise InvalidInput unless the target, if any, is an experience and among the evidence."""
    if target is None:
        return
    if target.family != EXPERIENCE_FAMILY:
        raise InvalidInput("target", f"is of the family {target.family!r}, not an experience")
    if target not in evidence.artifacts:
        raise InvalidInput("target", f"{shown(target)} is not among the artifact references")


def refuse_moved_target(target: ArtifactRef, head: Head | None) -> None:
    """Let only an active head be a target.

    Raises:
        InvalidInput: there is no such experience.
        ArtifactConflict: it has another head; details.current names it.
        ArtifactInactive: it is deprecated or retired.
    """
    if head is None:
        raise InvalidInput("target", f"there is no {shown(target)}")
    if head.ref != target:
        raise ArtifactConflict(
            f"target: {shown(target)} is not the head, which is revision {head.ref.revision}",
            current=vars(head.ref),
        )
    if head.lifecycle != "active":
        raise ArtifactInactive(
            f"target: {target.family}/{target.artifact_id} is {head.lifecycle} "
            "and takes no new revision",
            artifact=vars(head.ref),
            lifecycle=head.lifecycle,
        )


def head_of(conn: sa.Connection, scope_id: str, target: ArtifactRef) -> Head | None:
    """The head of the artifact that a reference names; None without such an artifact."""
    found = artifacts.states(conn, scope_id, target.family, [target.artifact_id])
    return found.get(target.artifact_id)


def outcome_of(source: Source) -> TaskOutcome | None:
    """The task outcome that a source holds; None if it holds none, or one that breaks a rule."""
    if source.source_type != CONTENT_TYPE or source.metadata.get("kind") != outcome.KIND:
        return None
    try:
        return outcome.parse(source.value) if source.structured else outcome.loads(source.content)
    except InvalidInput:
        return None


def _refuse_unseen_failure(
    conn: sa.Connection, scope_id: str, cue_key: str, refs: tuple[SourceRef, ...]
) -> None:
    why = None
    held = sources.some(conn, scope_id, refs)
    for ref in refs:
        seen = outcome_of(held[ref])
        for item in failure_items(seen) if seen else ():
            if item.cue_key != cue_key or not cue_key:
                continue
            problem = why_unavailable(conn, scope_id, item.evidence)
            if problem is None:
                return
            why = why or f"{item.kind} {item.index} of {ref.source_id!r} relies on: {problem}"
    reason = "no task outcome among the sources has a verified failing item that equals the cue"
    if why:
        reason = f"the failing item that equals the cue has evidence that cannot be used: {why}"
    raise InvalidInput("evidence", reason, rule="failure", cue_key=cue_key)


def _texts(proposal: Experience) -> list[tuple[str, str]]:
    found = [
        (name, getattr(proposal, name)) for name in ("situation", "action", "outcome", "lesson")
    ]
    if failure := proposal.failure:
        found += [
            ("failure.signature.recall_cue", failure.signature.recall_cue),
            ("failure.signature.symptom", failure.signature.symptom or ""),
            ("failure.verification.condition", failure.verification.condition),
            ("failure.verification.check_subject", failure.verification.check_subject),
        ]
    return found
