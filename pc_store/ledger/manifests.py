"""Whole manifests without the entries' texts, and what changed them: when, by whom, why."""

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from pc_store.domain.refs import MEMORY_FAMILY, MEMORY_ID
from pc_store.domain.revision import EntryChange
from pc_store.ledger.schema import (
    artifact_revisions,
    entry_versions,
    manifest_spans,
    memory_changes,
)


@dataclass(frozen=True)
class ManifestRow:
    """An entry as a revision's manifest lists it."""

    entry_id: str
    entry_version_id: str
    content_hash: str
    state: str


@dataclass(frozen=True)
class SpanRow(ManifestRow):
    """The same from one revision until before another; None while current."""

    from_revision: int
    to_revision: int | None

    def shown_at(self, revision: int) -> bool:
        """Whether that revision's manifest has it."""
        return self.from_revision <= revision and (
            self.to_revision is None or revision < self.to_revision
        )


@dataclass(frozen=True)
class Made:
    """A change with the revision that made it."""

    revision: int
    change: EntryChange
    origin: str
    created_at: int


_VERSION = sa.and_(
    entry_versions.c.scope_id == manifest_spans.c.scope_id,
    entry_versions.c.entry_version_id == manifest_spans.c.entry_version_id,
)
_MADE_BY = sa.join(
    memory_changes,
    artifact_revisions,
    sa.and_(
        artifact_revisions.c.scope_id == memory_changes.c.scope_id,
        artifact_revisions.c.family == MEMORY_FAMILY,
        artifact_revisions.c.artifact_id == MEMORY_ID,
        artifact_revisions.c.revision == memory_changes.c.revision,
    ),
)
_SPANS = sa.select(
    manifest_spans.c.entry_id,
    manifest_spans.c.entry_version_id,
    entry_versions.c.content_hash,
    manifest_spans.c.state,
    manifest_spans.c.from_revision,
    manifest_spans.c.to_revision,
).join(entry_versions, _VERSION)
_MADE = sa.select(
    memory_changes, artifact_revisions.c.origin, artifact_revisions.c.created_at
).select_from(_MADE_BY)


def at(conn: sa.Connection, scope_id: str, revision: int) -> list[ManifestRow]:
    """A revision's manifest by entry id, retired and purged entries included."""
    query = (
        sa.select(
            manifest_spans.c.entry_id,
            manifest_spans.c.entry_version_id,
            entry_versions.c.content_hash,
            manifest_spans.c.state,
        )
        .join(entry_versions, _VERSION)
        .where(
            manifest_spans.c.scope_id == scope_id,
            manifest_spans.c.from_revision <= revision,
            sa.or_(manifest_spans.c.to_revision.is_(None), manifest_spans.c.to_revision > revision),
        )
        .order_by(manifest_spans.c.entry_id)
    )
    return [ManifestRow(*row) for row in conn.execute(query)]


def made_between(conn: sa.Connection, scope_id: str, *, after: int, through: int) -> list[Made]:
    """The changes of revisions (after, through], by revision, then entry id."""
    query = _MADE.where(
        memory_changes.c.scope_id == scope_id,
        memory_changes.c.revision > after,
        memory_changes.c.revision <= through,
    ).order_by(memory_changes.c.revision, memory_changes.c.entry_id)
    return [_made(row) for row in conn.execute(query)]


def made_to(conn: sa.Connection, scope_id: str, entry_id: str) -> list[Made]:
    """Every change of one entry, oldest first."""
    query = _MADE.where(
        memory_changes.c.scope_id == scope_id, memory_changes.c.entry_id == entry_id
    ).order_by(memory_changes.c.revision)
    return [_made(row) for row in conn.execute(query)]


def last_made(
    conn: sa.Connection, scope_id: str, entry_ids: Iterable[str], *, through: int
) -> dict[str, Made]:
    """Each entry's last change up to a revision, by entry id."""
    ids = sorted(set(entry_ids))
    found: dict[str, Made] = {}
    for start in range(0, len(ids), 500):
        spans = sa.select(manifest_spans.c.entry_id, manifest_spans.c.from_revision).where(
            manifest_spans.c.scope_id == scope_id,
            manifest_spans.c.entry_id.in_(ids[start : start + 500]),
            manifest_spans.c.from_revision <= through,
            sa.or_(manifest_spans.c.to_revision.is_(None), manifest_spans.c.to_revision > through),
        )
        span = spans.subquery()
        query = _MADE.join(
            span,
            sa.and_(
                span.c.entry_id == memory_changes.c.entry_id,
                span.c.from_revision == memory_changes.c.revision,
            ),
        ).where(memory_changes.c.scope_id == scope_id)
        for row in conn.execute(query):
            found[row.entry_id] = _made(row)
    return found


def spans_through(conn: sa.Connection, scope_id: str, *, first: int, last: int) -> list[SpanRow]:
    """All spans that some revision of first to last shows, by entry id and start."""
    query = _SPANS.where(
        manifest_spans.c.scope_id == scope_id,
        manifest_spans.c.from_revision <= last,
        sa.or_(manifest_spans.c.to_revision.is_(None), manifest_spans.c.to_revision > first),
    ).order_by(manifest_spans.c.entry_id, manifest_spans.c.from_revision)
    return [SpanRow(*row) for row in conn.execute(query)]


def spans_of(
    conn: sa.Connection, scope_id: str, entry_ids: Iterable[str]
) -> dict[str, list[SpanRow]]:
    """All spans of some entries, by entry id, oldest first; the last is current."""
    ids = sorted(set(entry_ids))
    found: dict[str, list[SpanRow]] = {}
    for start in range(0, len(ids), 500):
        query = _SPANS.where(
            manifest_spans.c.scope_id == scope_id,
            manifest_spans.c.entry_id.in_(ids[start : start + 500]),
        ).order_by(manifest_spans.c.entry_id, manifest_spans.c.from_revision)
        for row in conn.execute(query):
            found.setdefault(row.entry_id, []).append(SpanRow(*row))
    return found


def _made(row: sa.Row) -> Made:  # type: ignore[type-arg]
    before, after = row.from_version_id, row.to_version_id
    if row.op == "reactivate":  # the ledger notes the version that became active again
        before, after = after, None
    return Made(
        row.revision,
        EntryChange(row.op, row.entry_id, before, after, row.reason),
        row.origin,
        row.created_at,
    )
