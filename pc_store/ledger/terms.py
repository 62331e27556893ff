"""Search terms of a memory's entries: light rows for the index, without the entries' texts."""

from dataclasses import dataclass

import sqlalchemy as sa

from pc_store.domain.refs import MEMORY_FAMILY, MEMORY_ID
from pc_store.ledger.entries import SPANS_WITH_VERSIONS
from pc_store.ledger.schema import (
    artifact_revisions,
    entry_versions,
    manifest_spans,
    memory_changes,
    purges,
)

_CURRENT = manifest_spans.c.to_revision.is_(None)


@dataclass(frozen=True)
class TermsRow:
    """What search needs of an active entry; `text` only where `terms` are another tokeniser's."""

    entry_id: str
    entry_version_id: str
    terms: str
    text: str | None = None


def active(conn: sa.Connection, scope_id: str, tokeniser: str) -> list[TermsRow]:
    """The active entries of the head, by entry id, as search reads them."""
    return _terms(conn, scope_id, tokeniser, after=0)


def changed(
    conn: sa.Connection, scope_id: str, revision: int, tokeniser: str
) -> tuple[set[str], list[TermsRow]]:
    """What happened to the active set after a revision, as search reads it.

    Returns:
        The version ids active at that revision and not at the head, and the rows active at
        the head and not at that revision, by entry id.
    """
    gone = sa.select(manifest_spans.c.entry_version_id).where(
        manifest_spans.c.scope_id == scope_id,
        manifest_spans.c.from_revision <= revision,
        manifest_spans.c.to_revision > revision,
        manifest_spans.c.state == "active",
    )
    before = set(conn.execute(gone).scalars())
    after = _terms(conn, scope_id, tokeniser, after=revision)
    kept = before & {row.entry_version_id for row in after}
    return before - kept, [row for row in after if row.entry_version_id not in kept]


def fingerprint(conn: sa.Connection, scope_id: str, revision: int) -> str:
    """Tells a memory's revision from another ledger's of the same number, or before a purge."""
    query = (
        sa.select(
            sa.func.count(),
            sa.func.min(memory_changes.c.entry_id),
            sa.func.min(memory_changes.c.to_version_id),
            sa.func.max(memory_changes.c.to_version_id),
        )
        .select_from(memory_changes)
        .where(memory_changes.c.scope_id == scope_id, memory_changes.c.revision == revision)
    )
    made = sa.select(artifact_revisions.c.created_at).where(
        artifact_revisions.c.scope_id == scope_id,
        artifact_revisions.c.family == MEMORY_FAMILY,
        artifact_revisions.c.artifact_id == MEMORY_ID,
        artifact_revisions.c.revision == revision,
    )
    made_by = conn.execute(query).one()
    purged = sa.select(sa.func.count()).select_from(purges).where(purges.c.scope_id == scope_id)
    parts = conn.execute(made).scalar_one_or_none(), *made_by, conn.execute(purged).scalar_one()
    return " ".join(map(str, parts))


def _terms(conn: sa.Connection, scope_id: str, tokeniser: str, *, after: int) -> list[TermsRow]:
    foreign = sa.case((entry_versions.c.terms_version != tokeniser, entry_versions.c.text))
    query = (
        sa.select(
            manifest_spans.c.entry_id,
            manifest_spans.c.entry_version_id,
            entry_versions.c.terms,
            foreign,
        )
        .select_from(SPANS_WITH_VERSIONS)
        .where(
            manifest_spans.c.scope_id == scope_id,
            manifest_spans.c.from_revision > after,
            _CURRENT,
            manifest_spans.c.state == "active",
        )
        .order_by(manifest_spans.c.entry_id)
    )
    return [TermsRow(*row) for row in conn.execute(query)]
