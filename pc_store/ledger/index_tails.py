"""What the search index does not hold yet: counts over all scopes, in a few statements.

Only counts and times; what changed itself is for `terms`, a scope at a time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from pc_store.domain.refs import MEMORY_FAMILY, MEMORY_ID
from pc_store.ledger.schema import (
    artifact_revisions,
    artifacts,
    experience_documents,
    manifest_spans,
    memory_sizes,
    purges,
)

_SOME = 300


@dataclass(frozen=True)
class Memory:
    """A scope's memory: its head, its active entries, and erasures of its entries so far."""

    head: int
    active: int
    purges: int


@dataclass(frozen=True)
class Behind:
    """What happened to a memory after a revision.

    Attributes:
        changes: entries added, revised, retired or reactivated, each time counted.
        gone: entry versions active at that revision and not now.
        since: when the first of the changes was made.
    """

    changes: int
    gone: int
    since: int


@dataclass(frozen=True)
class Document:
    """An active experience head as search knows it, and when it became that."""

    artifact_id: str
    revision: int
    text_digest: str
    updated_at: int


def memories(conn: sa.Connection) -> dict[str, Memory]:
    """Every memory that has a revision, by scope."""
    erased = (
        sa.select(purges.c.scope_id, sa.func.count().label("number"))
        .group_by(purges.c.scope_id)
        .subquery()
    )
    query = (
        sa.select(
            artifacts.c.scope_id,
            artifacts.c.head,
            sa.func.coalesce(memory_sizes.c.active, 0),
            sa.func.coalesce(erased.c.number, 0),
        )
        .outerjoin(memory_sizes, memory_sizes.c.scope_id == artifacts.c.scope_id)
        .outerjoin(erased, erased.c.scope_id == artifacts.c.scope_id)
        .where(
            artifacts.c.family == MEMORY_FAMILY,
            artifacts.c.artifact_id == MEMORY_ID,
            artifacts.c.head > 0,
        )
    )
    return {row[0]: Memory(*row[1:]) for row in conn.execute(query)}


def behind(conn: sa.Connection, revisions: Mapping[str, int]) -> dict[str, Behind]:
    """What happened to memories after a revision of each; those without a change are absent."""
    found: dict[str, Behind] = {}
    for known in _known(revisions):
        first = (
            sa.select(artifact_revisions.c.created_at)
            .where(
                artifact_revisions.c.scope_id == known.c.scope_id,
                artifact_revisions.c.family == MEMORY_FAMILY,
                artifact_revisions.c.artifact_id == MEMORY_ID,
                artifact_revisions.c.revision == known.c.revision + 1,
            )
            .scalar_subquery()
        )
        changes = _count(
            manifest_spans.c.scope_id == known.c.scope_id,
            manifest_spans.c.from_revision > known.c.revision,
        )
        gone = _count(
            manifest_spans.c.scope_id == known.c.scope_id,
            manifest_spans.c.to_revision > known.c.revision,
            manifest_spans.c.from_revision <= known.c.revision,
            manifest_spans.c.state == "active",
        )
        for scope_id, number, masked, since in conn.execute(
            sa.select(known.c.scope_id, changes, gone, first)
        ):
            if number:
                found[scope_id] = Behind(number, masked, since)
    return found


def documents(conn: sa.Connection) -> dict[str, list[Document]]:
    """The active experience heads of every scope that has one, by id."""
    table = experience_documents
    query = sa.select(
        table.c.scope_id,
        table.c.artifact_id,
        table.c.revision,
        table.c.text_digest,
        table.c.updated_at,
    ).order_by(table.c.scope_id, table.c.artifact_id)
    found: dict[str, list[Document]] = {}
    for row in conn.execute(query):
        found.setdefault(row[0], []).append(Document(*row[1:]))
    return found


def _count(*conditions: sa.ColumnElement[bool]) -> sa.ScalarSelect[int]:
    return (
        sa.select(sa.func.count()).select_from(manifest_spans).where(*conditions).scalar_subquery()
    )


def _known(revisions: Mapping[str, int]) -> Iterator[sa.CTE]:
    pairs = sorted(revisions.items())
    for start in range(0, len(pairs), _SOME):
        columns = (sa.column("scope_id", sa.Text), sa.column("revision", sa.BigInteger))
        yield sa.values(*columns).data(pairs[start : start + _SOME]).cte("known")
