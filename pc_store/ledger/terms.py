"""What search reads of entries and experiences: light rows, without what only readers need."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from pc_store.domain.refs import MEMORY_FAMILY, MEMORY_ID
from pc_store.ledger.entries import SPANS_WITH_VERSIONS
from pc_store.ledger.schema import (
    artifact_revisions,
    artifacts,
    entry_versions,
    experience_documents,
    manifest_spans,
    memory_changes,
    purges,
    store_facts,
)

SHARDS_FACT = "index_shards"
"""The name under which the ledger keeps the number of its index's shards."""

_CHUNK = 500
_CURRENT = manifest_spans.c.to_revision.is_(None)


@dataclass(frozen=True, slots=True)
class TermsRow:
    """A document as search knows it: an active entry's version, or an active experience's head.

    Attributes:
        ref: the entry's id, or the experience's artifact id.
        version: the entry version's id; of an experience, its revision with its text's digest.
        terms: its tokens, joined by blanks.
        text_digest: what its vector is stored under.
        text: only where `terms` are another tokeniser's.
    """

    ref: str
    version: str
    terms: str
    text_digest: str
    text: str | None = None


@dataclass(frozen=True)
class ScopeState:
    """What search asks of a scope before anything else, read in one statement.

    Attributes:
        head: the memory's revision, 0 before its first entry; None when there is no scope.
        anchor: tells the revision that was asked about from another ledger's revision of the
            same number: when it was made, and the first change it made, whose ids are random.
        purges: erasures of the memory's entries so far.
        shards: how many shards the index has; None before the first build.
    """

    head: int | None
    anchor: str
    purges: int
    shards: int | None


def state(conn: sa.Connection, scope_id: str, *, revision: int) -> ScopeState:
    """A scope's state, with the anchor of one revision of its memory."""
    row = conn.execute(_STATE, {"scope": scope_id, "revision": revision}).one()
    return ScopeState(
        None if row.head is None else int(row.head),
        _anchor(row.created_at, row.first_change),
        int(row.purges),
        int(row.shards) if row.shards is not None else None,
    )


def active(conn: sa.Connection, scope_id: str, tokeniser: str) -> list[TermsRow]:
    """The active entries of the head, by entry id, as search reads them."""
    return list(active_rows(conn, scope_id, tokeniser))


def active_rows(conn: sa.Connection, scope_id: str, tokeniser: str) -> Iterator[TermsRow]:
    """The same, a few at a time, for memories that should not be held at once."""
    return _entries(conn, scope_id, tokeniser, after=0)


def changed(
    conn: sa.Connection, scope_id: str, revision: int, tokeniser: str
) -> tuple[set[tuple[str, str]], list[TermsRow]]:
    """What happened to the active set after a revision, as search reads it.

    Returns:
        (entry id, version id) of what was active at that revision and is not at the head, and
        the rows active at the head and not at that revision, by entry id.
    """
    gone = sa.select(manifest_spans.c.entry_id, manifest_spans.c.entry_version_id).where(
        manifest_spans.c.scope_id == scope_id,
        manifest_spans.c.from_revision <= revision,
        manifest_spans.c.to_revision > revision,
        manifest_spans.c.state == "active",
    )
    before = {(row.entry_id, row.entry_version_id) for row in conn.execute(gone)}
    after = list(_entries(conn, scope_id, tokeniser, after=revision))
    kept = before & {(row.ref, row.version) for row in after}
    return before - kept, [row for row in after if (row.ref, row.version) not in kept]


def experience_versions(conn: sa.Connection, scope_id: str) -> list[tuple[str, str]]:
    """(artifact id, version) of the scope's active experience heads, by id."""
    table = experience_documents
    query = (
        sa.select(table.c.artifact_id, table.c.revision, table.c.text_digest)
        .where(table.c.scope_id == scope_id)
        .order_by(table.c.artifact_id)
    )
    return [(row[0], _experience_version(row[1], row[2])) for row in conn.execute(query)]


def experiences(
    conn: sa.Connection,
    scope_id: str,
    tokeniser: str,
    *,
    artifact_ids: Collection[str] | None = None,
) -> list[TermsRow]:
    """The active experience heads, all or some of them, by id, as search reads them."""
    table = experience_documents
    foreign = sa.case((table.c.terms_version != tokeniser, table.c.text))
    query = (
        sa.select(
            table.c.artifact_id, table.c.revision, table.c.terms, table.c.text_digest, foreign
        )
        .where(table.c.scope_id == scope_id)
        .order_by(table.c.artifact_id)
    )
    found: list[Any] = []
    if artifact_ids is None:
        found += conn.execute(query)
    else:
        ids = sorted(artifact_ids)
        for start in range(0, len(ids), _CHUNK):
            some = table.c.artifact_id.in_(ids[start : start + _CHUNK])
            found += conn.execute(query.where(some))
    return [
        TermsRow(row[0], _experience_version(row[1], row[3]), row[2], row[3], row[4])
        for row in found
    ]


def revision_of(version: str) -> int:
    """The revision in an experience's `TermsRow.version`."""
    return int(version.partition("@")[0])


def texts(
    conn: sa.Connection, scope_id: str, family: str, rows: Collection[tuple[str, str]]
) -> dict[str, str]:
    """The texts of some documents, given as (ref, version), by their SHA-256."""
    found: dict[str, str] = {}
    memory = family == MEMORY_FAMILY
    table: sa.Table = entry_versions if memory else experience_documents
    column = table.c.entry_version_id if memory else table.c.artifact_id
    ids = sorted({version if memory else ref for ref, version in rows})
    for start in range(0, len(ids), _CHUNK):
        query = sa.select(table.c.text_digest, table.c.text).where(
            table.c.scope_id == scope_id, column.in_(ids[start : start + _CHUNK])
        )
        for digest, text in conn.execute(query):
            found[digest] = text
    return found


def scopes_with_documents(conn: sa.Connection) -> list[str]:
    """Every scope that has a memory revision or an active experience, by id."""
    memories = sa.select(artifacts.c.scope_id).where(
        artifacts.c.family == MEMORY_FAMILY,
        artifacts.c.artifact_id == MEMORY_ID,
        artifacts.c.head > 0,
    )
    query = memories.union(sa.select(experience_documents.c.scope_id))
    return sorted(conn.execute(query).scalars())


def _anchor(created_at: int | None, first_change: str | None) -> str:
    return f"{created_at} {first_change}"


def _experience_version(revision: int, text_digest: str) -> str:
    return f"{revision}@{text_digest[:32]}"


def _entries(
    conn: sa.Connection, scope_id: str, tokeniser: str, *, after: int
) -> Iterator[TermsRow]:
    found = conn.execute(
        _LATE_ENTRIES if after else _ENTRIES,
        {"scope": scope_id, "tokeniser": tokeniser} | ({"after": after} if after else {}),
        execution_options={"yield_per": 2_000},
    )
    for row in found:
        yield TermsRow(*row)


_SCOPE = sa.bindparam("scope", type_=sa.Text)
_REVISION = sa.bindparam("revision", type_=sa.BigInteger)
_MEMORY = (
    artifacts.c.scope_id == _SCOPE,
    artifacts.c.family == MEMORY_FAMILY,
    artifacts.c.artifact_id == MEMORY_ID,
)
_MADE = (
    artifact_revisions.c.scope_id == _SCOPE,
    artifact_revisions.c.family == MEMORY_FAMILY,
    artifact_revisions.c.artifact_id == MEMORY_ID,
    artifact_revisions.c.revision == _REVISION,
)
_STATE = sa.select(
    sa.select(artifacts.c.head).where(*_MEMORY).scalar_subquery().label("head"),
    sa.select(artifact_revisions.c.created_at).where(*_MADE).scalar_subquery().label("created_at"),
    sa.select(
        memory_changes.c.entry_id
        + sa.literal(" ")
        + memory_changes.c.op
        + sa.literal(" ")
        + sa.func.coalesce(memory_changes.c.to_version_id, "")
    )
    .where(memory_changes.c.scope_id == _SCOPE, memory_changes.c.revision == _REVISION)
    .order_by(memory_changes.c.entry_id)
    .limit(1)
    .scalar_subquery()
    .label("first_change"),
    sa.select(sa.func.count())
    .select_from(purges)
    .where(purges.c.scope_id == _SCOPE)
    .scalar_subquery()
    .label("purges"),
    sa.select(store_facts.c.value)
    .where(store_facts.c.name == SHARDS_FACT)
    .scalar_subquery()
    .label("shards"),
)
_ENTRIES = (
    sa.select(
        manifest_spans.c.entry_id,
        manifest_spans.c.entry_version_id,
        entry_versions.c.terms,
        entry_versions.c.text_digest,
        sa.case(
            (
                entry_versions.c.terms_version != sa.bindparam("tokeniser", type_=sa.Text),
                entry_versions.c.text,
            )
        ),
    )
    .select_from(SPANS_WITH_VERSIONS)
    .where(
        manifest_spans.c.scope_id == _SCOPE,
        manifest_spans.c.state == "active",
    )
    .order_by(manifest_spans.c.entry_id)
)
_LATE_ENTRIES = _ENTRIES.where(
    manifest_spans.c.from_revision > sa.bindparam("after", type_=sa.BigInteger),
    # written so that SQLite reads the spans after the revision, and not all current ones
    sa.func.coalesce(manifest_spans.c.to_revision, 0) == 0,
)
_ENTRIES = _ENTRIES.where(_CURRENT)
