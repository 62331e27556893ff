"""Experiences as search and recurrence see them: active heads; and their changes of lifecycle."""

from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa

from pc_store.domain.experience import Experience, parse
from pc_store.domain.refs import EXPERIENCE_FAMILY, ArtifactRef
from pc_store.domain.text import digest
from pc_store.ledger import artifacts
from pc_store.ledger.artifacts import Lifecycle
from pc_store.ledger.schema import artifacts as heads
from pc_store.ledger.schema import candidates, experience_documents, experience_lifecycles


@dataclass(frozen=True)
class AmbiguousCue:
    """A cue that several active heads have, so that a failure could be any of them."""

    cue_key: str
    experiences: tuple[ArtifactRef, ...]


@dataclass(frozen=True)
class LifecycleChange:
    """A change of an experience's lifecycle: to which state, at which head, why, by whom, when."""

    state: Lifecycle
    revision: int
    reason: str
    author: str
    changed_at: int


def content(conn: sa.Connection, scope_id: str, ref: ArtifactRef) -> Experience:
    """What one exact revision says. Raises ArtifactNotFound."""
    return parse(artifacts.revision(conn, scope_id, *_named(ref), ref.revision).content)


def put_document(
    conn: sa.Connection,
    scope_id: str,
    ref: ArtifactRef,
    experience: Experience,
    *,
    terms: str,
    terms_version: str,
    now_us: int,
) -> None:
    """Let search and recurrence see a revision in place of the ones before it.

    The caller holds the lock of the artifact's head.
    """
    body = experience.document_text()
    values = {
        "revision": ref.revision,
        "text": body,
        "text_digest": digest(body),
        "terms": terms,
        "terms_version": terms_version,
        "cue_key": experience.cue_key,
        "updated_at": now_us,
    }
    table = experience_documents
    replaced = conn.execute(sa.update(table).where(*_key(scope_id, ref.artifact_id)).values(values))
    if replaced.rowcount == 0:
        conn.execute(
            sa.insert(table).values(scope_id=scope_id, artifact_id=ref.artifact_id, **values)
        )


def drop_document(conn: sa.Connection, scope_id: str, artifact_id: str) -> None:
    """Let neither search nor recurrence see an experience any more."""
    conn.execute(sa.delete(experience_documents).where(*_key(scope_id, artifact_id)))


def with_cues(
    conn: sa.Connection, scope_id: str, cue_keys: Collection[str]
) -> dict[str, list[ArtifactRef]]:
    """The active heads that have one of the normalised cues, by cue, then by id."""
    wanted = sorted(set(cue_keys))
    table = experience_documents
    found: dict[str, list[ArtifactRef]] = {}
    for start in range(0, len(wanted), 500):
        query = (
            sa.select(table.c.cue_key, table.c.artifact_id, table.c.revision)
            .where(table.c.scope_id == scope_id, table.c.cue_key.in_(wanted[start : start + 500]))
            .order_by(table.c.cue_key, table.c.artifact_id)
        )
        for row in conn.execute(query):
            ref = ArtifactRef(EXPERIENCE_FAMILY, row.artifact_id, row.revision)
            found.setdefault(row.cue_key, []).append(ref)
    return found


def ambiguous_cues(conn: sa.Connection, scope_id: str) -> list[AmbiguousCue]:
    """The cues that more than one active head has, by cue."""
    table = experience_documents
    query = (
        sa.select(table.c.cue_key)
        .where(table.c.scope_id == scope_id, table.c.cue_key.is_not(None))
        .group_by(table.c.cue_key)
        .having(sa.func.count() > 1)
        .order_by(table.c.cue_key)
    )
    shared = with_cues(conn, scope_id, list(conn.execute(query).scalars()))
    return [AmbiguousCue(cue, tuple(refs)) for cue, refs in shared.items()]


def note_lifecycle(
    conn: sa.Connection, scope_id: str, artifact_id: str, change: LifecycleChange
) -> None:
    """Add a change to an experience's record. The caller holds the lock of its head."""
    table = experience_lifecycles
    last = sa.select(sa.func.coalesce(sa.func.max(table.c.ordinal), 0)).where(
        table.c.scope_id == scope_id, table.c.artifact_id == artifact_id
    )
    ordinal = int(conn.execute(last).scalar_one()) + 1
    row = {"scope_id": scope_id, "artifact_id": artifact_id, "ordinal": ordinal}
    conn.execute(sa.insert(table).values(**row, **vars(change)))


def lifecycle_changes(
    conn: sa.Connection, scope_id: str, artifact_id: str
) -> list[LifecycleChange]:
    """Every change of an experience's lifecycle, oldest first."""
    table = experience_lifecycles
    query = (
        sa.select(
            table.c.state, table.c.revision, table.c.reason, table.c.author, table.c.changed_at
        )
        .where(table.c.scope_id == scope_id, table.c.artifact_id == artifact_id)
        .order_by(table.c.ordinal)
    )
    return [LifecycleChange(*row) for row in conn.execute(query)]


def standings(
    conn: sa.Connection, scope_ids: Collection[str]
) -> dict[str, dict[Lifecycle, tuple[int, int]]]:
    """(experiences, revisions of them) by scope and lifecycle; without those of which are none."""
    query = (
        sa.select(
            heads.c.scope_id,
            heads.c.lifecycle,
            sa.func.count().label("held"),
            sa.func.sum(heads.c.head).label("revisions"),
        )
        .where(heads.c.scope_id.in_(list(scope_ids)), heads.c.family == EXPERIENCE_FAMILY)
        .group_by(heads.c.scope_id, heads.c.lifecycle)
        .order_by(heads.c.scope_id, heads.c.lifecycle)
    )
    found: dict[str, dict[Lifecycle, tuple[int, int]]] = {}
    for row in conn.execute(query):
        found.setdefault(row.scope_id, {})[row.lifecycle] = (int(row.held), int(row.revisions))
    return found


def changed_since(conn: sa.Connection, moment_us: int, *, limit: int) -> list[tuple[str, int]]:
    """(scope, last changed at) of approvals and lifecycle changes at or after a moment.

    At most `limit` scopes, the oldest last change first.
    """
    changes = sa.union_all(
        sa.select(candidates.c.scope_id, candidates.c.updated_at.label("at")).where(
            candidates.c.status == "approved", candidates.c.updated_at >= moment_us
        ),
        sa.select(experience_lifecycles.c.scope_id, experience_lifecycles.c.changed_at).where(
            experience_lifecycles.c.changed_at >= moment_us
        ),
    ).subquery()
    last = sa.func.max(changes.c.at).label("last")
    query = (
        sa.select(changes.c.scope_id, last)
        .group_by(changes.c.scope_id)
        .order_by(last, changes.c.scope_id)
        .limit(limit)
    )
    return [(row.scope_id, int(row.last)) for row in conn.execute(query)]


def _named(ref: ArtifactRef) -> tuple[str, str]:
    return ref.family, ref.artifact_id


def _key(scope_id: str, artifact_id: str) -> tuple[sa.ColumnElement[bool], ...]:
    table = experience_documents
    return table.c.scope_id == scope_id, table.c.artifact_id == artifact_id
