"""Memory entries: immutable version rows, and the spans that make up each revision's manifest."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from pc_store.domain.entry import Change, EntryVersion, Op, content_hash
from pc_store.domain.refs import MEMORY_FAMILY, MEMORY_ID, ArtifactRef, SourceRef
from pc_store.domain.text import digest
from pc_store.errors import EntryNotFound
from pc_store.ledger import artifacts, memory_sizes
from pc_store.ledger.schema import (
    entry_versions,
    manifest_spans,
    memory_changes,
)


@dataclass(frozen=True)
class EntryRow:
    """An entry as a manifest holds it, with what search stores beside its text."""

    version: EntryVersion
    terms: str
    terms_version: str
    text_digest: str


@dataclass(frozen=True)
class NewVersion:
    """A change with the ids and terms its new version, if any, will carry."""

    change: Change
    entry_id: str
    entry_version_id: str
    terms: str
    terms_version: str


@dataclass(frozen=True)
class ChangeRow:
    """One entry's change in one revision."""

    revision: int
    entry_id: str
    op: Op
    from_version_id: str | None
    to_version_id: str | None
    reason: str | None


_CURRENT = manifest_spans.c.to_revision.is_(None)
_CURRENT_OF_FEW = sa.func.coalesce(manifest_spans.c.to_revision, 0) == 0
"""The same where entries are named: with the plain condition SQLite reads all current spans."""
SPANS_WITH_VERSIONS = sa.join(
    manifest_spans,
    entry_versions,
    sa.and_(
        entry_versions.c.scope_id == manifest_spans.c.scope_id,
        entry_versions.c.entry_version_id == manifest_spans.c.entry_version_id,
    ),
)
_ROW = sa.select(entry_versions, manifest_spans.c.state).select_from(SPANS_WITH_VERSIONS)
_PURGED_AS_INACTIVE = sa.select(
    entry_versions,
    sa.case((entry_versions.c.text == "", "inactive"), else_=manifest_spans.c.state).label("state"),
).select_from(SPANS_WITH_VERSIONS)


def head(conn: sa.Connection, scope_id: str) -> int:
    """The memory's current revision; 0 before its first entry."""
    return artifacts.head(conn, scope_id, MEMORY_FAMILY, MEMORY_ID)


def active(conn: sa.Connection, scope_id: str) -> list[EntryRow]:
    """The active entries of the head, by entry id, which is by creation."""
    query = _ROW.where(
        manifest_spans.c.scope_id == scope_id, _CURRENT, manifest_spans.c.state == "active"
    )
    return [_row(row) for row in conn.execute(query.order_by(manifest_spans.c.entry_id))]


def page(
    conn: sa.Connection,
    scope_id: str,
    *,
    include_inactive: bool = False,
    kind: str | None = None,
    after: str = "",
    limit: int | None,
) -> list[EntryRow]:
    """Entries of the head by entry id, after the given one; purged ones are left out."""
    query = _ROW.where(
        manifest_spans.c.scope_id == scope_id, _CURRENT, manifest_spans.c.entry_id > after
    )
    if not include_inactive:
        query = query.where(manifest_spans.c.state == "active")
    if kind is not None:
        query = query.where(entry_versions.c.kind == kind)
    query = query.where(entry_versions.c.text != "").order_by(manifest_spans.c.entry_id)
    return [_row(row) for row in conn.execute(query.limit(limit))]


def counts(conn: sa.Connection, scope_id: str) -> dict[str, int]:
    """Entries of the head by state; a state without entries is 0."""
    query = (
        sa.select(manifest_spans.c.state, sa.func.count().label("entries"))
        .where(manifest_spans.c.scope_id == scope_id, _CURRENT)
        .group_by(manifest_spans.c.state)
    )
    found = {row.state: row.entries for row in conn.execute(query)}
    return {"active": found.get("active", 0), "inactive": found.get("inactive", 0)}


def current(conn: sa.Connection, scope_id: str, entry_ids: Iterable[str]) -> dict[str, EntryRow]:
    """The head's rows of some entries, whatever their state, by entry id."""
    ids = sorted(set(entry_ids))
    found: dict[str, EntryRow] = {}
    for start in range(0, len(ids), 500):
        query = _ROW.where(
            manifest_spans.c.scope_id == scope_id,
            _CURRENT_OF_FEW,
            manifest_spans.c.entry_id.in_(ids[start : start + 500]),
        )
        for row in conn.execute(query):
            found[row.entry_id] = _row(row)
    return found


def alike(
    conn: sa.Connection, scope_id: str, text_digests: Iterable[str]
) -> dict[str, list[EntryVersion]]:
    """Entries, active or not, whose text (once purged, any version's) has a digest, by digest."""
    digests = sorted(set(text_digests))
    found: dict[str, list[EntryVersion]] = {}
    for start in range(0, len(digests), 500):
        held = sa.select(entry_versions.c.entry_version_id).where(
            entry_versions.c.scope_id == scope_id,
            entry_versions.c.text_digest.in_(digests[start : start + 500]),
        )
        query = _PURGED_AS_INACTIVE.where(
            manifest_spans.c.scope_id == scope_id,
            manifest_spans.c.entry_version_id.in_(held),  # joined, SQLite reads all the spans
            sa.or_(_CURRENT, entry_versions.c.text == ""),
        )
        for row in conn.execute(query):
            found.setdefault(row.text_digest, []).append(_row(row).version)
    return {name: sorted(some, key=lambda one: one.entry_id) for name, some in found.items()}


def ever_held(conn: sa.Connection, scope_id: str, text_digests: Iterable[str]) -> set[str]:
    """Those of the digests that some version of some entry, current or not, has."""
    digests = sorted(set(text_digests))
    found: set[str] = set()
    for start in range(0, len(digests), 500):
        query = sa.select(entry_versions.c.text_digest).where(
            entry_versions.c.scope_id == scope_id,
            entry_versions.c.text_digest.in_(digests[start : start + 500]),
        )
        found |= set(conn.execute(query).scalars())
    return found


def at(
    conn: sa.Connection, scope_id: str, revision: int, *, entry_id: str | None = None
) -> list[EntryRow]:
    """A revision's manifest, or one entry of it, by entry id."""
    query = _ROW.where(
        manifest_spans.c.scope_id == scope_id,
        manifest_spans.c.from_revision <= revision,
        sa.or_(_CURRENT, manifest_spans.c.to_revision > revision),
    )
    if entry_id is not None:
        query = query.where(manifest_spans.c.entry_id == entry_id)
    return [_row(row) for row in conn.execute(query.order_by(manifest_spans.c.entry_id))]


def versions(
    conn: sa.Connection, scope_id: str, version_ids: Collection[str]
) -> dict[str, EntryVersion]:
    """Those of the versions that exist, by id; `state` says nothing here."""
    ids = sorted(set(version_ids))
    found: dict[str, EntryVersion] = {}
    for start in range(0, len(ids), 500):
        query = sa.select(entry_versions, sa.literal("active").label("state")).where(
            entry_versions.c.scope_id == scope_id,
            entry_versions.c.entry_version_id.in_(ids[start : start + 500]),
        )
        for row in conn.execute(query):
            found[row.entry_version_id] = _row(row).version
    return found


def history(conn: sa.Connection, scope_id: str, entry_id: str) -> list[EntryRow]:
    """Every version of an entry, oldest first, in its last state. Raises EntryNotFound."""
    # a version that another one followed was active to the end: only active entries are revised
    query = (
        sa.select(entry_versions, sa.func.coalesce(manifest_spans.c.state, "active").label("state"))
        .outerjoin(
            manifest_spans,
            sa.and_(
                manifest_spans.c.scope_id == entry_versions.c.scope_id,
                manifest_spans.c.entry_version_id == entry_versions.c.entry_version_id,
                _CURRENT,
            ),
        )
        .where(entry_versions.c.scope_id == scope_id, entry_versions.c.entry_id == entry_id)
        .order_by(entry_versions.c.version)
    )
    rows = [_row(row) for row in conn.execute(query)]
    if not rows:
        raise EntryNotFound(f"the scope has no entry {entry_id!r}", entry_id=entry_id)
    return rows


def changes(conn: sa.Connection, scope_id: str, *, after: int, through: int) -> list[ChangeRow]:
    """The changes of revisions (after, through], by revision, then entry id."""
    query = (
        sa.select(memory_changes)
        .where(
            memory_changes.c.scope_id == scope_id,
            memory_changes.c.revision > after,
            memory_changes.c.revision <= through,
        )
        .order_by(memory_changes.c.revision, memory_changes.c.entry_id)
    )
    return [
        ChangeRow(
            row.revision, row.entry_id, row.op, row.from_version_id, row.to_version_id, row.reason
        )
        for row in conn.execute(query)
    ]


def apply(
    conn: sa.Connection,
    scope_id: str,
    revision: int,
    changed: Sequence[NewVersion],
    *,
    origin: str,
    now_us: int,
) -> None:
    """Write what a new revision changes: versions, closed and opened spans, change rows."""
    bodies = [
        _body(scope_id, item, revision, origin, now_us) for item in changed if _has_body(item)
    ]
    if bodies:
        conn.execute(sa.insert(entry_versions), bodies)
    replaced = [item.entry_id for item in changed if item.change.before is not None]
    for start in range(0, len(replaced), 500):
        conn.execute(
            sa.update(manifest_spans)
            .where(
                manifest_spans.c.scope_id == scope_id,
                _CURRENT_OF_FEW,
                manifest_spans.c.entry_id.in_(replaced[start : start + 500]),
            )
            .values(to_revision=revision)
        )
    conn.execute(
        sa.insert(manifest_spans),
        [
            {
                "scope_id": scope_id,
                "entry_id": item.entry_id,
                "from_revision": revision,
                "entry_version_id": item.entry_version_id,
                "state": "inactive" if item.change.op == "deactivate" else "active",
            }
            for item in changed
        ],
    )
    conn.execute(
        sa.insert(memory_changes),
        [
            {
                "scope_id": scope_id,
                "revision": revision,
                "entry_id": item.entry_id,
                "op": item.change.op,
                "from_version_id": _from_version(item.change),
                "to_version_id": None if item.change.op == "deactivate" else item.entry_version_id,
                "reason": item.change.reason,
            }
            for item in changed
        ],
    )
    memory_sizes.change(conn, scope_id, [item.change.op for item in changed])


def _has_body(item: NewVersion) -> bool:
    return item.change.op in ("add", "revise")


def _from_version(change: Change) -> str | None:
    if change.before is None or change.op == "reactivate":
        return None
    return change.before.entry_version_id


def _body(
    scope_id: str, item: NewVersion, revision: int, origin: str, now_us: int
) -> dict[str, Any]:
    change, before = item.change, item.change.before
    artifact_refs = before.artifact_refs if before else ()
    return {
        "scope_id": scope_id,
        "entry_version_id": item.entry_version_id,
        "entry_id": item.entry_id,
        "version": before.version + 1 if before else 1,
        "previous_version_id": before.entry_version_id if before else None,
        "kind": change.kind,
        "text": change.text,
        "text_digest": digest(change.text),
        "content_hash": content_hash(change.kind, change.text, change.sources, artifact_refs),
        "terms": item.terms,
        "terms_version": item.terms_version,
        "source_refs": [[ref.source_type, ref.source_id] for ref in change.sources],
        "artifact_refs": [[r.family, r.artifact_id, r.revision] for r in artifact_refs],
        "origin": origin,
        "created_in_revision": revision,
        "created_at": now_us,
    }


def _row(row: sa.Row) -> EntryRow:  # type: ignore[type-arg]
    return EntryRow(
        version=EntryVersion(
            entry_id=row.entry_id,
            entry_version_id=row.entry_version_id,
            version=row.version,
            kind=row.kind,
            text=row.text,
            state=row.state,
            source_refs=tuple(SourceRef(*pair) for pair in row.source_refs),
            artifact_refs=tuple(ArtifactRef(*triple) for triple in row.artifact_refs),
            created_in_revision=row.created_in_revision,
            origin=row.origin,
            created_at=row.created_at,
        ),
        terms=row.terms,
        terms_version=row.terms_version,
        text_digest=row.text_digest,
    )
