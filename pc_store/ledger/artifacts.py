"""Artifacts: heads, immutable revisions, and what each was made from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from pc_store.domain.refs import ArtifactRef, SourceRef
from pc_store.errors import ArtifactNotFound, RevisionConflict
from pc_store.ledger.schema import artifact_revisions, artifacts, lineage


@dataclass(frozen=True)
class Revision:
    """One immutable revision of an artifact."""

    ref: ArtifactRef
    content: Any
    reason: str | None
    origin: str
    window_id: str | None
    created_at: int


def head(conn: sa.Connection, scope_id: str, family: str, artifact_id: str) -> int:
    """The current revision; 0 when the artifact has none or does not exist."""
    query = sa.select(artifacts.c.head).where(*_key(scope_id, family, artifact_id))
    return int(conn.execute(query).scalar_one_or_none() or 0)


def lock_head(conn: sa.Connection, scope_id: str, family: str, artifact_id: str) -> int | None:
    """Lock the head until the transaction ends and return it; None without such an artifact."""
    query = sa.select(artifacts.c.head).where(*_key(scope_id, family, artifact_id))
    value = conn.execute(query.with_for_update()).scalar_one_or_none()
    return None if value is None else int(value)


def ensure(
    conn: sa.Connection, scope_id: str, family: str, artifact_id: str, *, now_us: int
) -> int:
    """Like `lock_head`, for an artifact that is made, with head 0, if it does not exist."""
    try:
        with conn.begin_nested():
            if lock_head(conn, scope_id, family, artifact_id) is None:
                conn.execute(
                    sa.insert(artifacts).values(
                        scope_id=scope_id,
                        family=family,
                        artifact_id=artifact_id,
                        head=0,
                        lifecycle="active",
                        created_at=now_us,
                    )
                )
    except IntegrityError:
        pass  # another writer made it in the meantime
    value = lock_head(conn, scope_id, family, artifact_id)
    assert value is not None
    return value


def commit(
    conn: sa.Connection,
    scope_id: str,
    family: str,
    artifact_id: str,
    *,
    expected: int,
    content: Any,
    reason: str | None,
    origin: str,
    window_id: str | None,
    now_us: int,
    sources: Sequence[SourceRef] = (),
    used: Sequence[ArtifactRef] = (),
) -> int:
    """Add revision `expected` + 1, make it the head, and record its lineage.

    Raises:
        RevisionConflict: the head is not `expected`.
    """
    moved = conn.execute(
        sa.update(artifacts)
        .where(*_key(scope_id, family, artifact_id), artifacts.c.head == expected)
        .values(head=expected + 1)
    )
    if moved.rowcount != 1:
        current = head(conn, scope_id, family, artifact_id)
        raise RevisionConflict(
            f"{family}/{artifact_id} is at revision {current}, {expected} was expected",
            expected=expected,
            current=current,
        )
    name = {"scope_id": scope_id, "family": family, "artifact_id": artifact_id}
    conn.execute(
        sa.insert(artifact_revisions).values(
            **name,
            revision=expected + 1,
            content=content,
            reason=reason,
            origin=origin,
            window_id=window_id,
            created_at=now_us,
        )
    )
    rows: list[dict[str, Any]] = [
        {"kind": "source", "ref": {"source_type": ref.source_type, "source_id": ref.source_id}}
        for ref in sources
    ] + [
        {
            "kind": "artifact",
            "ref": {
                "family": ref.family,
                "artifact_id": ref.artifact_id,
                "revision": ref.revision,
            },
        }
        for ref in used
    ]
    if rows:
        conn.execute(
            sa.insert(lineage),
            [
                {**name, "revision": expected + 1, "ordinal": ordinal, **row}
                for ordinal, row in enumerate(rows, start=1)
            ],
        )
    return expected + 1


def revision(
    conn: sa.Connection, scope_id: str, family: str, artifact_id: str, number: int
) -> Revision:
    """Return one revision. Raises ArtifactNotFound."""
    table = artifact_revisions
    query = sa.select(table).where(
        table.c.scope_id == scope_id,
        table.c.family == family,
        table.c.artifact_id == artifact_id,
        table.c.revision == number,
    )
    row = conn.execute(query).one_or_none()
    if row is None:
        raise ArtifactNotFound(
            f"{family}/{artifact_id} has no revision {number}",
            family=family,
            artifact_id=artifact_id,
            revision=number,
        )
    return _revision(row)


def revisions(
    conn: sa.Connection, scope_id: str, family: str, artifact_id: str, *, limit: int
) -> list[Revision]:
    """Revisions of an artifact, newest first."""
    table = artifact_revisions
    query = (
        sa.select(table)
        .where(
            table.c.scope_id == scope_id,
            table.c.family == family,
            table.c.artifact_id == artifact_id,
        )
        .order_by(table.c.revision.desc())
        .limit(limit)
    )
    return [_revision(row) for row in conn.execute(query)]


def heads(
    conn: sa.Connection, scope_id: str, family: str, *, after: str = "", limit: int
) -> list[ArtifactRef]:
    """The heads of a family's artifacts that have a revision, by id, after the given one."""
    query = (
        sa.select(artifacts.c.artifact_id, artifacts.c.head)
        .where(
            artifacts.c.scope_id == scope_id,
            artifacts.c.family == family,
            artifacts.c.head > 0,
            artifacts.c.artifact_id > after,
        )
        .order_by(artifacts.c.artifact_id)
        .limit(limit)
    )
    return [ArtifactRef(family, row.artifact_id, row.head) for row in conn.execute(query)]


def lineage_of(
    conn: sa.Connection, scope_id: str, ref: ArtifactRef
) -> list[tuple[str, dict[str, Any]]]:
    """(kind, reference) of everything a revision was made from, in order."""
    query = (
        sa.select(lineage.c.kind, lineage.c.ref)
        .where(
            lineage.c.scope_id == scope_id,
            lineage.c.family == ref.family,
            lineage.c.artifact_id == ref.artifact_id,
            lineage.c.revision == ref.revision,
        )
        .order_by(lineage.c.ordinal)
    )
    return [(row.kind, row.ref) for row in conn.execute(query)]


def _key(scope_id: str, family: str, artifact_id: str) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        artifacts.c.scope_id == scope_id,
        artifacts.c.family == family,
        artifacts.c.artifact_id == artifact_id,
    )


def _revision(row: sa.Row) -> Revision:  # type: ignore[type-arg]
    return Revision(
        ref=ArtifactRef(row.family, row.artifact_id, row.revision),
        content=row.content,
        reason=row.reason,
        origin=row.origin,
        window_id=row.window_id,
        created_at=row.created_at,
    )
