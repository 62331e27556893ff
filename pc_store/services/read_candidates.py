"""Read candidates: one, lists, versions, what one would change, what speaks against it."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, get_args

import sqlalchemy as sa

from pc_store import limits
from pc_store.domain.candidate import Candidate, CandidateVersion, FieldChange, Origin, Status
from pc_store.domain.candidate import compare as compare_fields
from pc_store.domain.refs import EXPERIENCE_FAMILY, ArtifactRef
from pc_store.errors import InvalidInput
from pc_store.ledger import artifacts, candidates, experiences, review_drafts, scopes
from pc_store.ledger.artifacts import Head, Lifecycle
from pc_store.ledger.candidates import Waiting as Waiting
from pc_store.ledger.database import Database
from pc_store.services.trace_evidence import shown

RIVALS_TOLD = 10
"""Most other candidates that warnings name, of each kind."""


@dataclass(frozen=True)
class CandidatePage:
    """A page of candidates, and the `after` of the next; None when there is none."""

    items: tuple[Candidate, ...]
    next_after: str | None


@dataclass(frozen=True)
class Warned:
    """Something a reviewer should know. It refuses nothing by itself.

    Attributes:
        code: `same_cue`, another active head tracks the same failure, so that neither could be
            told from the other; `rival`, another pending candidate has the same target;
            `stale_target`, the target is no longer an active head, so that it can only be
            rejected; `unchanged`, it says what its target says, so that it has to be revised;
            `model_draft`, its words are those that a model drafted for the review.
        artifact: the other head, or the target's.
        candidate_id: the other candidate.
    """

    code: Literal["same_cue", "rival", "stale_target", "unchanged", "model_draft"]
    message: str
    artifact: ArtifactRef | None = None
    candidate_id: str | None = None


@dataclass(frozen=True)
class Advice:
    """What is known about a pending candidate; nothing about a decided one."""

    stale_target: bool = False
    warnings: tuple[Warned, ...] = ()


@dataclass(frozen=True)
class Diff:
    """What a candidate's newest version would change.

    Attributes:
        target: what it is compared with; None for a new experience.
        current: the target's head now, and its lifecycle.
        stale_target: the target is not an active head.
        fields: every field of either content, in the content's order; those of the failure by
            path, `failure.signature.recall_cue`.
    """

    candidate: Candidate
    target: ArtifactRef | None
    current: ArtifactRef | None
    lifecycle: Lifecycle | None
    stale_target: bool
    fields: tuple[FieldChange, ...]


@dataclass(frozen=True)
class InboxSummary:
    """What waits for review everywhere.

    Attributes:
        oldest_at: when the oldest pending candidate was made, microseconds; None without any.
        stale: those whose target is no longer an active head.
        scopes: the same for every scope that has some, by scope id.
    """

    pending: int
    oldest_at: int | None
    stale: int
    scopes: tuple[Waiting, ...]


def get_candidate(db: Database, scope_id: str, candidate_id: str) -> Candidate:
    """A candidate with its newest version. Raises ScopeNotFound, CandidateNotFound."""
    with db.read() as conn:
        scopes.get(conn, scope_id)
        return candidates.get(conn, scope_id, candidate_id)


def list_candidates(
    db: Database,
    scope_id: str,
    *,
    status: Status | None = "pending",
    family: str | None = None,
    origin: Origin | None = None,
    target_id: str | None = None,
    after: str | None = None,
    limit: int = limits.PAGE_DEFAULT,
) -> CandidatePage:
    """Candidates by the time they were made, then by id.

    Args:
        status: None for all.
        after: `next_after` of the page before, a candidate id.
        limit: 1 to 100.

    Raises:
        ScopeNotFound, CandidateNotFound (there is no candidate `after`).
        InvalidInput: the limit or the status.
    """
    if not 1 <= limit <= limits.PAGE_MAX:
        raise InvalidInput("limit", f"is {limit}, expected 1 to {limits.PAGE_MAX}")
    if status is not None and status not in get_args(Status):
        raise InvalidInput(
            "status", f"is {status!r}, one of {', '.join(get_args(Status))} is expected"
        )
    with db.read() as conn:
        scopes.get(conn, scope_id)
        found = candidates.page(
            conn,
            scope_id,
            status=status,
            family=family,
            origin=origin,
            target_id=target_id,
            after=after,
            limit=limit + 1,
        )
    items = tuple(found[:limit])
    return CandidatePage(items, items[-1].candidate_id if len(found) > limit else None)


def history(db: Database, scope_id: str, candidate_id: str) -> list[CandidateVersion]:
    """A candidate's versions, oldest first. Raises ScopeNotFound, CandidateNotFound."""
    with db.read() as conn:
        scopes.get(conn, scope_id)
        candidates.get(conn, scope_id, candidate_id)
        return candidates.versions(conn, scope_id, candidate_id)


def diff(db: Database, scope_id: str, candidate_id: str) -> Diff:
    """What a candidate would change. Raises ScopeNotFound, CandidateNotFound."""
    with db.read() as conn:
        scopes.get(conn, scope_id)
        candidate = candidates.get(conn, scope_id, candidate_id)
        target, before, head = candidate.target, None, None
        if target is not None:
            before = experiences.content(conn, scope_id, target)
            found = artifacts.states(conn, scope_id, target.family, [target.artifact_id])
            head = found.get(target.artifact_id)
    return Diff(
        candidate,
        target,
        head.ref if head else None,
        head.lifecycle if head else None,
        target is not None and not _stands(target, head),
        compare_fields(before, candidate.proposal),
    )


def advise(db: Database, scope_id: str, some: Collection[Candidate]) -> dict[str, Advice]:
    """What a reviewer of each of a scope's candidates should know, by candidate id."""
    pending = [one for one in some if one.status == "pending"]
    targets = {one.target.artifact_id for one in pending if one.target}
    cues = {one.cue_key for one in pending if one.cue_key}
    with db.read() as conn:
        heads = artifacts.states(conn, scope_id, EXPERIENCE_FAMILY, targets)
        tracked = experiences.with_cues(conn, scope_id, cues)
        rivals = candidates.rivals(conn, scope_id, targets)
        reviews = [one.candidate_id for one in pending if one.origin == "recurrence"]
        drafted = review_drafts.drafted(conn, scope_id, reviews)
        copies = {
            one.candidate_id
            for one in pending
            if one.target and experiences.content(conn, scope_id, one.target) == one.proposal
        }
    advice = {one.candidate_id: Advice() for one in some}
    for one in pending:
        warnings = []
        target_id = one.target.artifact_id if one.target else None
        head = heads.get(target_id) if target_id else None
        stale = one.target is not None and not _stands(one.target, head)
        if stale:
            warnings.append(_stale(one.target, head))
        if one.candidate_id in copies:
            told = "it says what its target says: revise it before it can be approved"
            warnings.append(Warned("unchanged", told, one.target))
        if author := drafted.get(one.candidate_id):
            warnings.append(Warned("model_draft", f"its words are a {author}", one.target))
        same = [ref for ref in tracked.get(one.cue_key or "", ()) if ref.artifact_id != target_id]
        warnings += [
            Warned("same_cue", f"{shown(ref)} tracks the same cue {one.cue_key!r}", artifact=ref)
            for ref in same[:RIVALS_TOLD]
        ]
        others = [other for other in rivals.get(target_id or "", ()) if other != one.candidate_id]
        warnings += [
            Warned("rival", f"{other} has the same target", one.target, other)
            for other in others[:RIVALS_TOLD]
        ]
        advice[one.candidate_id] = Advice(stale, tuple(warnings))
    return advice


def inbox(db: Database) -> InboxSummary:
    """How much waits for review in all scopes, since when, and how much of it is stale."""
    with db.read() as conn:
        return inbox_in(conn)


def inbox_in(conn: sa.Connection) -> InboxSummary:
    """As `inbox`, as the transaction sees it."""
    waiting = candidates.waiting(conn)
    return InboxSummary(
        sum(one.pending for one in waiting),
        min((one.oldest_at for one in waiting), default=None),
        sum(one.stale for one in waiting),
        tuple(waiting),
    )


def _stands(target: ArtifactRef, head: Head | None) -> bool:
    return head is not None and head.ref == target and head.lifecycle == "active"


def _stale(target: ArtifactRef | None, head: Head | None) -> Warned:
    assert target is not None and head is not None  # noqa: PT018 - a target has a head
    if head.ref != target:
        message = f"the target is {shown(target)}, the head is at {head.ref.revision}"
    else:
        message = f"the target {shown(target)} is {head.lifecycle}"
    return Warned("stale_target", message, head.ref)
