"""What the checks on experience look for: each function lists the rows that break its rule."""

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from pc_store.domain.experience import parse
from pc_store.domain.refs import EXPERIENCE_FAMILY, PROMPT_FAMILY, ArtifactRef
from pc_store.domain.text import digest
from pc_store.ledger import artifacts as ledger
from pc_store.ledger import manifests
from pc_store.ledger.schema import (
    artifact_revisions,
    artifacts,
    candidate_versions,
    candidates,
    experience_documents,
    lineage,
)
from pc_store.settings import Settings

Offenders = list[dict[str, Any]]


def documents_differ(conn: sa.Connection, _: Settings, scope_id: str | None) -> Offenders:
    """Active heads that search sees differently or not at all, and what else it sees."""
    heads = (
        sa.select(artifacts.c.scope_id, artifacts.c.artifact_id, artifact_revisions.c.content)
        .add_columns(artifacts.c.head)
        .join(
            artifact_revisions,
            sa.and_(
                artifact_revisions.c.scope_id == artifacts.c.scope_id,
                artifact_revisions.c.family == artifacts.c.family,
                artifact_revisions.c.artifact_id == artifacts.c.artifact_id,
                artifact_revisions.c.revision == artifacts.c.head,
            ),
        )
        .where(artifacts.c.family == EXPERIENCE_FAMILY, artifacts.c.lifecycle == "active")
    )
    wanted = {}
    for row in conn.execute(_scoped(heads, artifacts, scope_id)):
        experience = parse(row.content)
        body = experience.document_text()
        seen = (row.head, body, digest(body), experience.cue_key)
        wanted[row.scope_id, row.artifact_id] = seen
    table = experience_documents
    held = {
        (row.scope_id, row.artifact_id): (row.revision, row.text, row.text_digest, row.cue_key)
        for row in conn.execute(_scoped(sa.select(table), table, scope_id))
    }
    return [
        {"scope_id": scope, "artifact_id": artifact_id}
        for scope, artifact_id in sorted(wanted.keys() | held.keys())
        if wanted.get((scope, artifact_id)) != held.get((scope, artifact_id))
    ]


def approvals_differ(conn: sa.Connection, _: Settings, scope_id: str | None) -> Offenders:
    """Revisions that no single approval accounts for, and approvals without their revision."""
    approved = sa.select(
        candidates.c.scope_id,
        candidates.c.candidate_id,
        candidates.c.status,
        candidates.c.result_id,
        candidates.c.result_revision,
        candidate_versions.c.proposal,
    ).join(
        candidate_versions,
        sa.and_(
            candidate_versions.c.scope_id == candidates.c.scope_id,
            candidate_versions.c.candidate_id == candidates.c.candidate_id,
            candidate_versions.c.version == candidates.c.version,
        ),
    )
    revisions = sa.select(artifact_revisions).where(
        artifact_revisions.c.family == EXPERIENCE_FAMILY
    )
    contents = {
        (row.scope_id, row.artifact_id, row.revision): row.content
        for row in conn.execute(_scoped(revisions, artifact_revisions, scope_id))
    }
    offenders: Offenders = []
    made: set[tuple[str, str, int]] = set()
    query = _scoped(approved, candidates, scope_id).order_by(
        candidates.c.scope_id, candidates.c.candidate_id
    )
    for row in conn.execute(query):
        result = (row.scope_id, row.result_id, row.result_revision)
        if row.status != "approved":
            sound = row.result_id is None and row.result_revision is None
        else:
            sound = result not in made and contents.get(result) == row.proposal
            if sound:
                made.add(result)
        if not sound:
            offenders.append({"scope_id": row.scope_id, "candidate_id": row.candidate_id})
    heads = sa.select(artifacts.c.scope_id, artifacts.c.artifact_id, artifacts.c.head).where(
        artifacts.c.family == EXPERIENCE_FAMILY
    )
    expected = {
        (row.scope_id, row.artifact_id, number)
        for row in conn.execute(_scoped(heads, artifacts, scope_id))
        for number in range(1, row.head + 1)
    }
    unaccounted = (expected | contents.keys()) - (expected & contents.keys() & made)
    return offenders + [
        {"scope_id": scope, "artifact_id": artifact_id, "revision": number}
        for scope, artifact_id, number in sorted(unaccounted)
    ]


def without_evidence(conn: sa.Connection, _: Settings, scope_id: str | None) -> Offenders:
    """Experience revisions that cite nothing, or only a prompt."""
    cited = {
        (row.scope_id, row.artifact_id, row.revision)
        for row in conn.execute(_scoped(_LINEAGE, lineage, scope_id))
        if row.kind != "artifact" or row.ref["family"] != PROMPT_FAMILY
    }
    query = sa.select(
        artifact_revisions.c.scope_id,
        artifact_revisions.c.artifact_id,
        artifact_revisions.c.revision,
    ).where(artifact_revisions.c.family == EXPERIENCE_FAMILY)
    held = {tuple(row) for row in conn.execute(_scoped(query, artifact_revisions, scope_id))}
    return [
        {"scope_id": scope, "artifact_id": artifact_id, "revision": number}
        for scope, artifact_id, number in sorted(held - cited)
    ]


def lineage_broken(conn: sa.Connection, _: Settings, scope_id: str | None) -> Offenders:
    """Artifacts and entry versions that experiences cite and the ledger does not have."""
    cited: dict[str, dict[Any, dict[str, Any]]] = {}
    for row in conn.execute(_scoped(_LINEAGE, lineage, scope_id)):
        if row.kind == "source":
            continue  # `every_citation_resolves` looks at those
        ref = (ArtifactRef(**row.ref)) if row.kind == "artifact" else ledger.citation_of(row.ref)
        by = {"artifact_id": row.artifact_id, "revision": row.revision}
        cited.setdefault(row.scope_id, {}).setdefault(ref, by)
    offenders: Offenders = []
    for scope, refs in sorted(cited.items()):
        artifacts_cited = [ref for ref in refs if isinstance(ref, ArtifactRef)]
        held: set[Any] = ledger.existing(conn, scope, artifacts_cited)
        held |= _shown(conn, scope, refs.keys() - set(artifacts_cited))
        offenders += [
            {"scope_id": scope, **by, "cites": str(ref)}
            for ref, by in refs.items()
            if ref not in held
        ]
    return offenders


_LINEAGE = (
    sa.select(lineage)
    .where(lineage.c.family == EXPERIENCE_FAMILY)
    .order_by(lineage.c.scope_id, lineage.c.artifact_id, lineage.c.revision, lineage.c.ordinal)
)


def _shown(conn: sa.Connection, scope_id: str, citations: Collection[Any]) -> set[Any]:
    """The citations whose revision shows that version, purged or not."""
    spans = manifests.spans_of(conn, scope_id, {one.entry_id for one in citations})
    return {
        one
        for one in citations
        if any(
            span.entry_version_id == one.entry_version_id and span.shown_at(one.memory.revision)
            for span in spans.get(one.entry_id, [])
        )
    }


def _scoped(query: sa.Select[Any], table: sa.Table, scope_id: str | None) -> sa.Select[Any]:
    return query if scope_id is None else query.where(table.c.scope_id == scope_id)
