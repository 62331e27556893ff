"""Experiences: exact revisions for ever, the heads, and who may still be recalled."""

from dataclasses import dataclass
from typing import get_args

import sqlalchemy as sa

from pc_store import limits
from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.experience import Experience, parse
from pc_store.domain.refs import EXPERIENCE_FAMILY, ArtifactRef, Citation
from pc_store.domain.revision import content_digest
from pc_store.errors import ArtifactConflict, ArtifactInactive, ArtifactNotFound, InvalidInput
from pc_store.ledger import artifacts, candidates, entries, experiences, scopes
from pc_store.ledger.artifacts import Head, Lifecycle
from pc_store.ledger.database import Database
from pc_store.ledger.experiences import AmbiguousCue as AmbiguousCue
from pc_store.ledger.experiences import LifecycleChange as LifecycleChange
from pc_store.search.tokens import TOKENISER, terms_of
from pc_store.services import admit


@dataclass(frozen=True)
class ExperienceRevision:
    """One exact revision of an experience.

    Attributes:
        evidence: its lineage; what is cited there may have been changed since, or erased.
        head: the current revision, and its lifecycle.
        candidate_id: whose approval made it.
        content_digest: `sha256:` and the SHA-256 of the content's canonical JSON.
        log_position: where the scope's log ended when it was approved.
        purged: those of its citations whose entries were erased for good.
    """

    ref: ArtifactRef
    content: Experience
    evidence: EvidenceRefs
    head: ArtifactRef
    lifecycle: Lifecycle
    origin: str
    candidate_id: str | None
    content_digest: str
    created_at: int
    log_position: int
    purged: tuple[Citation, ...] = ()


@dataclass(frozen=True)
class ExperiencePage:
    """A page of experiences or revisions, and the `after` of the next; None: there is none."""

    items: tuple[ExperienceRevision, ...]
    next_after: str | int | None


def read_experience(db: Database, scope_id: str, ref: ArtifactRef) -> ExperienceRevision:
    """Return exactly the revision that a reference names, current or not.

    Raises:
        ScopeNotFound: no such scope.
        ArtifactNotFound: another family, no such experience, or it has no such revision.
    """
    with db.read() as conn:
        scopes.get(conn, scope_id)
        _head(conn, scope_id, ref)
        return _revisions(conn, scope_id, [ref])[0]


def experience_heads(
    db: Database,
    scope_id: str,
    after: str | None = None,
    limit: int = limits.PAGE_DEFAULT,
    *,
    include_inactive: bool = False,
) -> ExperiencePage:
    """The current revisions of a scope's experiences by id, which is by creation.

    Args:
        after: `next_after` of the page before, an artifact id.
        limit: 1 to 100.
        include_inactive: also those that are deprecated or retired.

    Raises:
        ScopeNotFound, InvalidInput (the limit).
    """
    _refuse_limit(limit)
    with db.read() as conn:
        scopes.get(conn, scope_id)
        found = artifacts.heads(
            conn,
            scope_id,
            EXPERIENCE_FAMILY,
            after=after or "",
            limit=limit + 1,
            active_only=not include_inactive,
        )
        items = tuple(_revisions(conn, scope_id, found[:limit]))
    return ExperiencePage(items, items[-1].ref.artifact_id if len(found) > limit else None)


def experience_revisions(
    db: Database,
    scope_id: str,
    artifact_id: str,
    *,
    after: int | None = None,
    limit: int = limits.PAGE_DEFAULT,
) -> ExperiencePage:
    """An experience's revisions, newest first, those before revision `after`.

    Raises:
        ScopeNotFound, ArtifactNotFound, InvalidInput (the limit).
    """
    _refuse_limit(limit)
    with db.read() as conn:
        scopes.get(conn, scope_id)
        head = _head(conn, scope_id, ArtifactRef(EXPERIENCE_FAMILY, artifact_id, 1)).ref.revision
        newest = head if after is None else min(after - 1, head)
        oldest = max(newest - limit + 1, 1)
        refs = [
            ArtifactRef(EXPERIENCE_FAMILY, artifact_id, number)
            for number in range(newest, oldest - 1, -1)
        ]
        items = tuple(_revisions(conn, scope_id, refs))
    return ExperiencePage(items, oldest if oldest > 1 and items else None)


def set_lifecycle(
    db: Database,
    scope_id: str,
    ref: ArtifactRef,
    *,
    state: Lifecycle,
    reason: str,
    author: str = "",
    refuse_secrets: bool = True,
    now_us: int,
) -> ExperienceRevision:
    """Withdraw an experience from recall, recurrence and further revisions, or bring it back.

    What was written stays readable. The state it has already changes nothing.

    Args:
        ref: the head.
        state: `deprecated` can be taken back by `active`; `retired` cannot.
        reason: 1 to 2,000 characters.

    Raises:
        ScopeNotFound, ArtifactNotFound.
        ArtifactConflict: `ref` is not the head; details.current is.
        ArtifactInactive: it is retired.
        InvalidInput: the state, or the reason. SecretDetected: the reason holds a credential.
    """
    if state not in get_args(Lifecycle):
        raise InvalidInput(
            "state", f"is {state!r}, one of {', '.join(get_args(Lifecycle))} is expected"
        )
    said = admit.told(reason, refuse_secrets=refuse_secrets)
    if said is None:
        raise InvalidInput("reason", "is missing")
    with db.write() as conn:
        scopes.get(conn, scope_id)
        artifacts.lock_head(conn, scope_id, ref.family, ref.artifact_id)
        head = _head(conn, scope_id, ref)
        if head.ref != ref:
            raise _moved(head)
        if head.lifecycle == "retired" != state:
            raise ArtifactInactive(
                f"artifact: {ref.artifact_id} is retired, which is final",
                artifact=vars(head.ref),
                lifecycle=head.lifecycle,
            )
        if head.lifecycle != state:
            if not artifacts.set_lifecycle(
                conn, scope_id, ref, expected=head.lifecycle, state=state
            ):
                raise _moved(_head(conn, scope_id, ref))
            experiences.note_lifecycle(
                conn,
                scope_id,
                ref.artifact_id,
                LifecycleChange(state, ref.revision, said, author, now_us),
            )
            if state == "active":
                show_document(conn, scope_id, ref, now_us=now_us)
            else:
                experiences.drop_document(conn, scope_id, ref.artifact_id)
        return _revisions(conn, scope_id, [ref])[0]


def lifecycle_changes(db: Database, scope_id: str, artifact_id: str) -> list[LifecycleChange]:
    """Every change of an experience's lifecycle, oldest first.

    Raises:
        ScopeNotFound, ArtifactNotFound.
    """
    with db.read() as conn:
        scopes.get(conn, scope_id)
        _head(conn, scope_id, ArtifactRef(EXPERIENCE_FAMILY, artifact_id, 1))
        return experiences.lifecycle_changes(conn, scope_id, artifact_id)


def ambiguous_cues(db: Database, scope_id: str) -> list[AmbiguousCue]:
    """Cues that several active heads have, so that a failure is told to none. By cue.

    Raises:
        ScopeNotFound: no such scope.
    """
    with db.read() as conn:
        scopes.get(conn, scope_id)
        return experiences.ambiguous_cues(conn, scope_id)


def show_document(conn: sa.Connection, scope_id: str, ref: ArtifactRef, *, now_us: int) -> None:
    """Let search and recurrence see a revision, the active head. The caller holds its lock."""
    content = experiences.content(conn, scope_id, ref)
    experiences.put_document(
        conn,
        scope_id,
        ref,
        content,
        terms=terms_of(content.document_text()),
        terms_version=TOKENISER,
        now_us=now_us,
    )


def _head(conn: sa.Connection, scope_id: str, ref: ArtifactRef) -> Head:
    """The head of the experience a reference names. Raises ArtifactNotFound."""
    found = None
    if ref.family == EXPERIENCE_FAMILY:
        found = admit.head_of(conn, scope_id, ref)
    if found is None:
        raise ArtifactNotFound(
            f"there is no experience {ref.family}/{ref.artifact_id}",
            family=ref.family,
            artifact_id=ref.artifact_id,
        )
    return found


def _moved(head: Head) -> ArtifactConflict:
    return ArtifactConflict(
        f"artifact: {head.ref.artifact_id} is at revision {head.ref.revision} by now",
        current=vars(head.ref),
    )


def _revisions(
    conn: sa.Connection, scope_id: str, refs: list[ArtifactRef]
) -> list[ExperienceRevision]:
    heads = artifacts.states(conn, scope_id, EXPERIENCE_FAMILY, {ref.artifact_id for ref in refs})
    lineages = artifacts.lineages(conn, scope_id, refs, earlier=False)
    cited = {one for ref in refs for one in lineages[ref].citations}
    bodies = entries.versions(conn, scope_id, {one.entry_version_id for one in cited})
    made_by = candidates.made_by(conn, scope_id, refs)
    found = []
    for ref in refs:
        row = artifacts.revision(conn, scope_id, ref.family, ref.artifact_id, ref.revision)
        head = heads[ref.artifact_id]
        found.append(
            ExperienceRevision(
                ref=ref,
                content=parse(row.content),
                evidence=lineages[ref],
                head=head.ref,
                lifecycle=head.lifecycle,
                origin=row.origin,
                candidate_id=made_by.get(ref),
                content_digest=content_digest(row.content),
                created_at=row.created_at,
                log_position=row.log_position or 0,
                purged=tuple(
                    one for one in lineages[ref].citations if bodies[one.entry_version_id].purged
                ),
            )
        )
    return found


def _refuse_limit(limit: int) -> None:
    if not 1 <= limit <= limits.PAGE_MAX:
        raise InvalidInput("limit", f"is {limit}, expected 1 to {limits.PAGE_MAX}")
