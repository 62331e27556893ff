"""Candidates: one row each for where it stands, and its immutable versions."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from pc_store.domain.candidate import Candidate, CandidateVersion, EvidenceRefs, Status
from pc_store.domain.experience import Experience, parse
from pc_store.domain.refs import ArtifactRef, SourceRef
from pc_store.errors import CandidateNotFound, Conflict
from pc_store.ledger.artifacts import citation_json, citation_of
from pc_store.ledger.schema import artifacts, candidate_versions, candidates

_NEWEST = sa.select(
    candidates,
    *(candidate_versions.c[name] for name in ("proposal", "source_refs", "artifact_refs")),
    candidate_versions.c.citations,
    candidate_versions.c.reason,
).join(
    candidate_versions,
    sa.and_(
        candidate_versions.c.scope_id == candidates.c.scope_id,
        candidate_versions.c.candidate_id == candidates.c.candidate_id,
        candidate_versions.c.version == candidates.c.version,
    ),
)


@dataclass(frozen=True)
class Waiting:
    """What waits for review in a scope.

    Attributes:
        pending: pending candidates.
        oldest_at: when the oldest of them was made.
        stale: those whose target is no longer an active head.
    """

    scope_id: str
    pending: int
    oldest_at: int
    stale: int


def insert(conn: sa.Connection, candidate: Candidate) -> None:
    """Add a candidate with its first version.

    Raises:
        Conflict: the id is taken, or a review of the same recurrence is open.
    """
    row = {name: getattr(candidate, name) for name in _PLAIN}
    try:
        with conn.begin_nested():
            conn.execute(
                sa.insert(candidates).values(
                    **row,
                    target_id=candidate.target.artifact_id if candidate.target else None,
                    target_revision=candidate.target.revision if candidate.target else None,
                )
            )
    except IntegrityError:
        raise Conflict(
            f"the candidate {candidate.candidate_id} exists, or its review is open already",
            candidate_id=candidate.candidate_id,
        ) from None
    _insert_version(conn, candidate, author=candidate.author)


def add_version(conn: sa.Connection, candidate: Candidate, *, author: str) -> bool:
    """Add a version to a pending candidate that is at the one before; False when it is not.

    Args:
        candidate: as it will be; of its row the version, fingerprint, cue key and time change.

    Raises:
        Conflict: it is about a recurrence, and one of the same target and new cue is open.
    """
    changed = (
        sa.update(candidates)
        .where(
            *_key(candidate.scope_id, candidate.candidate_id),
            candidates.c.version == candidate.version - 1,
            candidates.c.status == "pending",
        )
        .values(
            version=candidate.version,
            fingerprint=candidate.fingerprint,
            cue_key=candidate.cue_key,
            updated_at=candidate.updated_at,
        )
    )
    try:
        with conn.begin_nested():
            moved = conn.execute(changed)
    except IntegrityError:
        raise Conflict(
            f"the failure {candidate.cue_key!r} has an open review already",
            candidate_id=candidate.candidate_id,
        ) from None
    if moved.rowcount != 1:
        return False
    _insert_version(conn, candidate, author=author)
    return True


def decide(
    conn: sa.Connection,
    scope_id: str,
    candidate_id: str,
    *,
    version: int,
    status: Status,
    result: ArtifactRef | None,
    reason: str | None,
    author: str,
    now_us: int,
) -> bool:
    """End the review of a pending candidate at a version; False when it is not that any more."""
    moved = conn.execute(
        sa.update(candidates)
        .where(
            *_key(scope_id, candidate_id),
            candidates.c.version == version,
            candidates.c.status == "pending",
        )
        .values(
            status=status,
            result_id=result.artifact_id if result else None,
            result_revision=result.revision if result else None,
            decision_reason=reason,
            decided_by=author,
            updated_at=now_us,
        )
    )
    return moved.rowcount == 1


def get(conn: sa.Connection, scope_id: str, candidate_id: str) -> Candidate:
    """A candidate with its newest version. Raises CandidateNotFound."""
    row = conn.execute(_NEWEST.where(*_key(scope_id, candidate_id))).one_or_none()
    if row is None:
        raise CandidateNotFound(
            f"the scope has no candidate {candidate_id!r}", candidate_id=candidate_id
        )
    return _candidate(row)


def lock(conn: sa.Connection, scope_id: str, candidate_id: str) -> Candidate:
    """Lock a candidate until the transaction ends and return it. Raises CandidateNotFound."""
    query = sa.select(candidates.c.version).where(*_key(scope_id, candidate_id))
    conn.execute(query.with_for_update())
    return get(conn, scope_id, candidate_id)


def page(
    conn: sa.Connection,
    scope_id: str,
    *,
    status: Status | None = None,
    family: str | None = None,
    origin: str | None = None,
    target_id: str | None = None,
    after: str | None = None,
    limit: int,
) -> list[Candidate]:
    """Candidates by the time they were made, then by id, after a given one.

    Raises:
        CandidateNotFound: there is no candidate `after`.
    """
    query = _NEWEST.where(candidates.c.scope_id == scope_id)
    for column, value in (
        (candidates.c.status, status),
        (candidates.c.family, family),
        (candidates.c.origin, origin),
        (candidates.c.target_id, target_id),
    ):
        if value is not None:
            query = query.where(column == value)
    if after is not None:
        made = get(conn, scope_id, after).created_at
        query = query.where(
            sa.or_(
                candidates.c.created_at > made,
                sa.and_(candidates.c.created_at == made, candidates.c.candidate_id > after),
            )
        )
    query = query.order_by(candidates.c.created_at, candidates.c.candidate_id).limit(limit)
    return [_candidate(row) for row in conn.execute(query)]


def versions(conn: sa.Connection, scope_id: str, candidate_id: str) -> list[CandidateVersion]:
    """A candidate's versions, oldest first."""
    table = candidate_versions
    query = (
        sa.select(table)
        .where(table.c.scope_id == scope_id, table.c.candidate_id == candidate_id)
        .order_by(table.c.version)
    )
    return [
        CandidateVersion(
            row.version,
            _proposal(row),
            _evidence(row),
            row.reason,
            row.fingerprint,
            row.author,
            row.created_at,
        )
        for row in conn.execute(query)
    ]


def known_fingerprints(
    conn: sa.Connection, scope_id: str, fingerprints: Collection[str]
) -> dict[str, str]:
    """Those of the fingerprints that some version of some candidate, whatever became of it, has.

    Returns:
        By fingerprint the candidate's id, the first by id where there are several.
    """
    table = candidate_versions
    wanted = sorted(set(fingerprints))
    found: dict[str, str] = {}
    for start in range(0, len(wanted), 500):
        query = (
            sa.select(table.c.fingerprint, sa.func.min(table.c.candidate_id).label("first"))
            .where(
                table.c.scope_id == scope_id, table.c.fingerprint.in_(wanted[start : start + 500])
            )
            .group_by(table.c.fingerprint)
        )
        found |= {row.fingerprint: row.first for row in conn.execute(query)}
    return found


def of_window(conn: sa.Connection, scope_id: str, window_id: str) -> list[str]:
    """Ids of the candidates that an incubation window made, in the order it made them."""
    query = (
        sa.select(candidates.c.candidate_id)
        .where(candidates.c.scope_id == scope_id, candidates.c.window_id == window_id)
        .order_by(candidates.c.candidate_id)
    )
    return list(conn.execute(query).scalars())


def rivals(conn: sa.Connection, scope_id: str, target_ids: Collection[str]) -> dict[str, list[str]]:
    """Ids of the pending candidates by the artifact they would revise, oldest first."""
    wanted = sorted(set(target_ids))
    found: dict[str, list[str]] = {}
    for start in range(0, len(wanted), 500):
        query = (
            sa.select(candidates.c.target_id, candidates.c.candidate_id)
            .where(
                candidates.c.scope_id == scope_id,
                candidates.c.target_id.in_(wanted[start : start + 500]),
                candidates.c.status == "pending",
            )
            .order_by(candidates.c.created_at, candidates.c.candidate_id)
        )
        for row in conn.execute(query):
            found.setdefault(row.target_id, []).append(row.candidate_id)
    return found


def made_by(
    conn: sa.Connection, scope_id: str, refs: Collection[ArtifactRef]
) -> dict[ArtifactRef, str]:
    """Ids of the candidates whose approval made some of the revisions."""
    wanted = sorted({ref.artifact_id for ref in refs})
    found = {}
    for start in range(0, len(wanted), 500):
        query = sa.select(
            candidates.c.family,
            candidates.c.result_id,
            candidates.c.result_revision,
            candidates.c.candidate_id,
        ).where(
            candidates.c.scope_id == scope_id,
            candidates.c.result_id.in_(wanted[start : start + 500]),
            candidates.c.result_revision.in_(sorted({ref.revision for ref in refs})),
        )
        for row in conn.execute(query):
            made = ArtifactRef(row.family, row.result_id, row.result_revision)
            found[made] = row.candidate_id
    return found


def waiting(conn: sa.Connection) -> list[Waiting]:
    """What waits for review, by scope; scopes where nothing does are left out."""
    standing = sa.and_(
        artifacts.c.head == candidates.c.target_revision, artifacts.c.lifecycle == "active"
    )
    stale = sa.and_(
        candidates.c.target_id.is_not(None), sa.func.coalesce(standing, False).is_(False)
    )
    query = (
        sa.select(
            candidates.c.scope_id,
            sa.func.count().label("pending"),
            sa.func.min(candidates.c.created_at).label("oldest_at"),
            sa.func.sum(sa.case((stale, 1), else_=0)).label("stale"),
        )
        .select_from(candidates)
        .outerjoin(
            artifacts,
            sa.and_(
                artifacts.c.scope_id == candidates.c.scope_id,
                artifacts.c.family == candidates.c.family,
                artifacts.c.artifact_id == candidates.c.target_id,
            ),
        )
        .where(candidates.c.status == "pending")
        .group_by(candidates.c.scope_id)
        .order_by(candidates.c.scope_id)
    )
    return [
        Waiting(row.scope_id, int(row.pending), int(row.oldest_at), int(row.stale))
        for row in conn.execute(query)
    ]


_PLAIN = (
    *("scope_id", "candidate_id", "family", "version", "status", "origin", "intent", "author"),
    *("fingerprint", "cue_key", "decision_reason", "decided_by", "window_id"),
    *("created_at", "updated_at"),
)


def _insert_version(conn: sa.Connection, candidate: Candidate, *, author: str) -> None:
    evidence = candidate.evidence
    conn.execute(
        sa.insert(candidate_versions).values(
            scope_id=candidate.scope_id,
            candidate_id=candidate.candidate_id,
            version=candidate.version,
            proposal=candidate.proposal.to_json(),
            source_refs=[[ref.source_type, ref.source_id] for ref in evidence.sources],
            artifact_refs=[[r.family, r.artifact_id, r.revision] for r in evidence.artifacts],
            citations=[citation_json(cited) for cited in evidence.citations],
            reason=candidate.reason,
            fingerprint=candidate.fingerprint,
            author=author,
            created_at=candidate.updated_at,
        )
    )


def _key(scope_id: str, candidate_id: str) -> tuple[sa.ColumnElement[bool], ...]:
    return candidates.c.scope_id == scope_id, candidates.c.candidate_id == candidate_id


def _candidate(row: sa.Row[Any]) -> Candidate:
    plain: Mapping[str, Any] = {name: getattr(row, name) for name in _PLAIN}
    return Candidate(
        **plain,
        target=_ref(row.family, row.target_id, row.target_revision),
        result=_ref(row.family, row.result_id, row.result_revision),
        proposal=_proposal(row),
        evidence=_evidence(row),
        reason=row.reason,
    )


def _ref(family: str, artifact_id: str | None, revision: int | None) -> ArtifactRef | None:
    if artifact_id is None or revision is None:
        return None
    return ArtifactRef(family, artifact_id, revision)


def _proposal(row: sa.Row[Any]) -> Experience:
    return parse(row.proposal)


def _evidence(row: sa.Row[Any]) -> EvidenceRefs:
    return EvidenceRefs(
        tuple(SourceRef(*pair) for pair in row.source_refs),
        tuple(ArtifactRef(*triple) for triple in row.artifact_refs),
        tuple(citation_of(one) for one in row.citations),
    )
