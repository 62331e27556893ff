"""Checks on what the ledger holds. Each asserts one sentence and lists the rows that break it.

The same functions are asset checks in Dagster and `pc audit` in the shell.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import sqlalchemy as sa

from pc_store.domain.entry import content_hash
from pc_store.domain.refs import MEMORY_FAMILY, MEMORY_ID, ArtifactRef, SourceRef
from pc_store.domain.text import digest
from pc_store.domain.window import CONSUMERS
from pc_store.ledger import backlogs, scopes
from pc_store.ledger.database import Database
from pc_store.ledger.schema import (
    artifacts,
    cursors,
    entry_versions,
    lineage,
    manifest_spans,
    memory_changes,
    purges,
    quarantined_sources,
    source_heads,
    sources,
)
from pc_store.services import audit_dreams, audit_experience, audit_recurrence
from pc_store.settings import Settings

ROWS_SHOWN = 50
"""Most offending rows a finding lists; it always counts all of them."""

Part = Literal[
    "source_log",
    "memory",
    "experience",
    "failure_recurrences",
    "recurrence_reviews",
    "dream_candidates",
    "review_inbox",
]


@dataclass(frozen=True)
class Finding:
    """One check's result; `rows` are the offenders, at most 50 of `count`."""

    check: str
    asserts: str
    count: int
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether nothing offends."""
        return self.count == 0


@dataclass(frozen=True)
class Rule:
    """A check: what it asserts, on which asset it shows, and how serious a failure is."""

    name: str
    asserts: str
    part: Part
    blocking: bool
    offenders: Callable[[sa.Connection, Settings, str | None], Sequence[dict[str, Any]]]


def audit(
    db: Database, settings: Settings, *, scope_id: str | None = None, names: Sequence[str] = ()
) -> list[Finding]:
    """Run checks, all or the named, over one scope or all of them, in one consistent read.

    Raises:
        NotFound: no such scope.
    """
    with db.read() as conn:
        if scope_id is not None:
            scopes.get(conn, scope_id)
        findings = []
        for rule in RULES:
            if names and rule.name not in names:
                continue
            rows = rule.offenders(conn, settings, scope_id)
            findings.append(Finding(rule.name, rule.asserts, len(rows), list(rows[:ROWS_SHOWN])))
        return findings


def _scoped(query: sa.Select[Any], table: sa.Table, scope_id: str | None) -> sa.Select[Any]:
    return query if scope_id is None else query.where(table.c.scope_id == scope_id)


def _rows(conn: sa.Connection, query: sa.Select[Any]) -> list[dict[str, Any]]:
    return [dict(row._mapping) for row in conn.execute(query)]


def _gaps(conn: sa.Connection, _: Settings, scope_id: str | None) -> list[dict[str, Any]]:
    held = (
        sa.select(
            sources.c.scope_id,
            sa.func.count().label("held"),
            sa.func.min(sources.c.position).label("first"),
            sa.func.max(sources.c.position).label("last"),
        )
        .group_by(sources.c.scope_id)
        .subquery()
    )
    query = (
        sa.select(
            source_heads.c.scope_id, source_heads.c.position.label("head"), held.c.held, held.c.last
        )
        .outerjoin(held, held.c.scope_id == source_heads.c.scope_id)
        .where(
            sa.or_(
                sa.func.coalesce(held.c.held, 0) != source_heads.c.position,
                sa.func.coalesce(held.c.last, 0) != source_heads.c.position,
                sa.func.coalesce(held.c.first, 1) != 1,
            )
        )
        .order_by(source_heads.c.scope_id)
    )
    return _rows(conn, _scoped(query, source_heads, scope_id))


def _cursors_beyond(conn: sa.Connection, _: Settings, scope_id: str | None) -> list[dict[str, Any]]:
    query = (
        sa.select(
            cursors.c.scope_id,
            cursors.c.consumer,
            cursors.c.position.label("cursor"),
            source_heads.c.position.label("head"),
        )
        .join(source_heads, source_heads.c.scope_id == cursors.c.scope_id)
        .where(sa.or_(cursors.c.position > source_heads.c.position, cursors.c.position < 0))
        .order_by(cursors.c.scope_id, cursors.c.consumer)
    )
    return _rows(conn, _scoped(query, cursors, scope_id))


def _quarantined(conn: sa.Connection, _: Settings, scope_id: str | None) -> list[dict[str, Any]]:
    table = quarantined_sources
    query = (
        sa.select(table.c.scope_id, table.c.consumer, table.c.position, table.c.reason)
        .where(table.c.released_at.is_(None))
        .order_by(table.c.scope_id, table.c.consumer, table.c.position)
    )
    return _rows(conn, _scoped(query, table, scope_id))


def _lagging(conn: sa.Connection, settings: Settings, scope_id: str | None) -> list[dict[str, Any]]:
    return [
        {"scope_id": scope, "consumer": consumer, "lag": lag}
        for consumer in CONSUMERS
        for scope, lag in backlogs.over(conn, consumer, settings.lag_target, scope_id=scope_id)
    ]


def _uncited(conn: sa.Connection, _: Settings, scope_id: str | None) -> list[dict[str, Any]]:
    query = _current(scope_id).where(
        manifest_spans.c.state == "active", entry_versions.c.origin != "explicit"
    )
    return [
        {"scope_id": row.scope_id, "entry_id": row.entry_id, "version": row.version}
        for row in conn.execute(query)
        if not row.source_refs
    ]


def _unresolved(conn: sa.Connection, _: Settings, scope_id: str | None) -> list[dict[str, Any]]:
    offenders: list[dict[str, Any]] = []
    cited: dict[str, dict[SourceRef, str]] = {}
    for row in conn.execute(_versions(scope_id)):
        for pair in row.source_refs:
            cited.setdefault(row.scope_id, {})[SourceRef(*pair)] = row.entry_id
    query = sa.select(lineage.c.scope_id, lineage.c.ref).where(lineage.c.kind == "source")
    for row in conn.execute(_scoped(query, lineage, scope_id)):
        cited.setdefault(row.scope_id, {}).setdefault(SourceRef(**row.ref), "lineage")
    for scope, refs in sorted(cited.items()):
        held = set()
        ids = sorted({ref.source_id for ref in refs})
        for start in range(0, len(ids), 500):
            found = conn.execute(
                sa.select(sources.c.source_type, sources.c.source_id).where(
                    sources.c.scope_id == scope, sources.c.source_id.in_(ids[start : start + 500])
                )
            )
            held |= {SourceRef(row.source_type, row.source_id) for row in found}
        offenders += [
            {"scope_id": scope, "entry_id": refs[ref], "source_id": ref.source_id}
            for ref in sorted(set(refs) - held)
        ]
    return offenders


def _tampered(conn: sa.Connection, _: Settings, scope_id: str | None) -> list[dict[str, Any]]:
    query = _scoped(sa.select(purges.c.scope_id, purges.c.entry_id), purges, scope_id)
    purged = {(row.scope_id, row.entry_id) for row in conn.execute(query)}
    return [
        {"scope_id": row.scope_id, "entry_id": row.entry_id, "version": row.version}
        for row in conn.execute(_versions(scope_id))
        if (bool(row.text) if (row.scope_id, row.entry_id) in purged else not _as_written(row))
    ]


def _as_written(row: sa.Row[Any]) -> bool:
    """Whether a version's text, kind and evidence are those its digests were made of."""
    sources_cited = [SourceRef(*pair) for pair in row.source_refs]
    artifacts_cited = [ArtifactRef(*ref) for ref in row.artifact_refs]
    return bool(
        digest(row.text) == row.text_digest
        and content_hash(row.kind, row.text, sources_cited, artifacts_cited) == row.content_hash
    )


def _head_differs(conn: sa.Connection, _: Settings, scope_id: str | None) -> list[dict[str, Any]]:
    """Replay every change of a memory and compare the outcome with its spans and its head."""
    offenders: list[dict[str, Any]] = []
    query = sa.select(memory_changes).order_by(
        memory_changes.c.scope_id, memory_changes.c.revision, memory_changes.c.entry_id
    )
    replayed: dict[tuple[str, str], list[_Span]] = {}
    last: dict[str, int] = {}
    for row in conn.execute(_scoped(query, memory_changes, scope_id)):
        spans = replayed.setdefault((row.scope_id, row.entry_id), [])
        if spans:
            spans[-1] = spans[-1]._replace(to_revision=row.revision)
        if row.op == "deactivate":
            spans.append(_Span(row.revision, None, row.from_version_id, "inactive"))
        else:
            spans.append(_Span(row.revision, None, row.to_version_id, "active"))
        last[row.scope_id] = row.revision
    query = sa.select(manifest_spans).order_by(
        manifest_spans.c.scope_id, manifest_spans.c.entry_id, manifest_spans.c.from_revision
    )
    held: dict[tuple[str, str], list[_Span]] = {}
    for row in conn.execute(_scoped(query, manifest_spans, scope_id)):
        held.setdefault((row.scope_id, row.entry_id), []).append(
            _Span(row.from_revision, row.to_revision, row.entry_version_id, row.state)
        )
    for scope, entry in sorted(set(replayed) | set(held)):
        if replayed.get((scope, entry)) != held.get((scope, entry)):
            offenders.append({"scope_id": scope, "entry_id": entry, "reason": "manifest"})
    heads = sa.select(artifacts.c.scope_id, artifacts.c.head).where(
        artifacts.c.family == MEMORY_FAMILY, artifacts.c.artifact_id == MEMORY_ID
    )
    for row in conn.execute(_scoped(heads, artifacts, scope_id).order_by(artifacts.c.scope_id)):
        if row.head != last.get(row.scope_id, 0):
            offenders.append({"scope_id": row.scope_id, "entry_id": None, "reason": "head"})
    return offenders


class _Span(NamedTuple):
    from_revision: int
    to_revision: int | None
    entry_version_id: str | None
    state: str


def _versions(scope_id: str | None) -> sa.Select[Any]:
    """Every version ever written: any of them can be read by a citation."""
    query = sa.select(entry_versions).order_by(
        entry_versions.c.scope_id, entry_versions.c.entry_id, entry_versions.c.version
    )
    return _scoped(query, entry_versions, scope_id)


def _current(scope_id: str | None) -> sa.Select[Any]:
    query = (
        sa.select(entry_versions, manifest_spans.c.state)
        .join(
            manifest_spans,
            sa.and_(
                entry_versions.c.scope_id == manifest_spans.c.scope_id,
                entry_versions.c.entry_version_id == manifest_spans.c.entry_version_id,
            ),
        )
        .where(manifest_spans.c.to_revision.is_(None))
        .order_by(entry_versions.c.scope_id, entry_versions.c.entry_id)
    )
    return _scoped(query, entry_versions, scope_id)


RULES: tuple[Rule, ...] = (
    Rule(
        "positions_are_gapless",
        "A log's positions run from 1 to its head with none missing.",
        "source_log",
        True,
        _gaps,
    ),
    Rule(
        "cursor_within_log",
        "No cursor is past the end of its log.",
        "source_log",
        True,
        _cursors_beyond,
    ),
    Rule(
        "no_quarantined_sources",
        "No source is set aside because it could not be processed.",
        "source_log",
        False,
        _quarantined,
    ),
    Rule(
        "lag_within_target",
        "In no scope more than PC_LAG_TARGET wait: positions for memory, task outcomes for others.",
        "source_log",
        False,
        _lagging,
    ),
    Rule(
        "every_active_entry_cites_evidence",
        "Every active entry that was extracted cites at least one source.",
        "memory",
        True,
        _uncited,
    ),
    Rule(
        "every_citation_resolves",
        "Every source that an entry or a revision cites is in the log.",
        "memory",
        True,
        _unresolved,
    ),
    Rule(
        "every_text_matches_its_digest",
        "No stored entry was altered after it was written.",
        "memory",
        True,
        _tampered,
    ),
    Rule(
        "head_equals_manifest",
        "Replaying all changes of a memory gives its manifest at every revision.",
        "memory",
        True,
        _head_differs,
    ),
    Rule(
        "documents_equal_active_heads",
        "Search and recurrence see every active experience head as it is, and nothing else.",
        "experience",
        True,
        audit_experience.documents_differ,
    ),
    Rule(
        "every_revision_was_approved",
        "Every experience revision is what one approved candidate says, and each of these has one.",
        "experience",
        True,
        audit_experience.approvals_differ,
    ),
    Rule(
        "every_experience_cites_evidence",
        "Every experience revision was made from something that is not a prompt.",
        "experience",
        True,
        audit_experience.without_evidence,
    ),
    Rule(
        "experience_lineage_resolves",
        "Every artifact and entry version that an experience cites is there.",
        "experience",
        True,
        audit_experience.lineage_broken,
    ),
    *(Rule(*one) for one in audit_recurrence.RULES),
    Rule(
        "dreams_and_candidates_agree",
        "Every dream that proposed has its candidate, and every dream's candidate its dream; none "
        "that ended is without its end.",
        "dream_candidates",
        True,
        audit_dreams.ends_differ,
    ),
    Rule(
        "inbox_age_within_target",
        "No candidate has waited for its review longer than PC_INBOX_AGE_TARGET_S.",
        "review_inbox",
        False,
        audit_dreams.overdue,
    ),
)
