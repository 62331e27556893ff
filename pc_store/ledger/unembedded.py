"""Current texts, of entries and of experiences, that have no vector under a profile."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import sqlalchemy as sa

from pc_store.ledger.entries import SPANS_WITH_VERSIONS
from pc_store.ledger.schema import entry_versions, experience_documents, manifest_spans, vectors

Kind = Literal["entry", "experience"]

_SOME = 500


@dataclass(frozen=True)
class Unembedded:
    """A text without a vector, and the entry or experience that has it."""

    scope_id: str
    kind: Kind
    holder_id: str
    text_digest: str
    text: str

    @property
    def place(self) -> tuple[str, str]:
        """Where it stands among the scope's."""
        return self.kind, self.holder_id


def missing(
    conn: sa.Connection,
    scope_id: str,
    profile: str,
    *,
    limit: int,
    after: tuple[str, str] = ("", ""),
) -> list[Unembedded]:
    """The scope's texts without a vector, entries first, by id.

    Args:
        after: the `place` of the last one of the page before.
    """
    kind, holder_id = after
    found: list[Unembedded] = []
    if kind <= "entry":
        query = _entries(profile).where(
            manifest_spans.c.scope_id == scope_id,
            manifest_spans.c.entry_id > (holder_id if kind == "entry" else ""),
        )
        query = query.order_by(manifest_spans.c.entry_id).limit(limit)
        found += [
            Unembedded(scope_id, "entry", entry_id, name, text)
            for entry_id, name, text in conn.execute(query)
        ]
        holder_id = ""
    if len(found) < limit:
        documents = _experiences(profile).where(
            experience_documents.c.scope_id == scope_id,
            experience_documents.c.artifact_id > holder_id,
        )
        documents = documents.order_by(experience_documents.c.artifact_id)
        rows = conn.execute(documents.limit(limit - len(found)))
        found += [
            Unembedded(scope_id, "experience", artifact_id, name, text)
            for artifact_id, name, text in rows
        ]
    return found


def count(conn: sa.Connection, scope_ids: Iterable[str], profile: str) -> int:
    """How many entries and experiences of the scopes have a text without a vector."""
    total = 0
    for scope_id in scope_ids:
        entries = _entries(profile).where(manifest_spans.c.scope_id == scope_id)
        documents = _experiences(profile).where(experience_documents.c.scope_id == scope_id)
        for query in (entries, documents):
            counted = sa.select(sa.func.count()).select_from(query.subquery())
            total += conn.execute(counted).scalar_one()
    return total


def scopes_with(conn: sa.Connection, profile: str) -> list[str]:
    """The scopes that have a text without a vector, sorted."""
    entries = _entries(profile).with_only_columns(manifest_spans.c.scope_id)
    documents = _experiences(profile).with_only_columns(experience_documents.c.scope_id)
    found = {
        name for query in (entries, documents) for name in conn.execute(query.distinct()).scalars()
    }
    return sorted(found)


def still_held(conn: sa.Connection, texts: Iterable[Unembedded]) -> set[str]:
    """The digests of those texts that nobody has erased or replaced since they were read.

    They cannot be erased before the caller's transaction ends.
    """
    by_holder: dict[tuple[str, Kind], dict[str, str]] = {}
    for one in texts:
        by_holder.setdefault((one.scope_id, one.kind), {})[one.holder_id] = one.text_digest
    held: set[str] = set()
    for (scope_id, kind), wanted in sorted(by_holder.items()):
        table = entry_versions if kind == "entry" else experience_documents
        holder = table.c.entry_id if kind == "entry" else table.c.artifact_id
        holders = sorted(wanted)
        for start in range(0, len(holders), _SOME):
            query = (
                sa.select(holder, table.c.text_digest)
                .where(
                    table.c.scope_id == scope_id,
                    holder.in_(holders[start : start + _SOME]),
                    table.c.text != "",
                )
                .order_by(holder, table.c.text_digest)
                .with_for_update(read=True)
            )
            held |= {digest for name, digest in conn.execute(query) if wanted[name] == digest}
    return held


def _entries(profile: str) -> sa.Select[str, str, str]:
    return (
        sa.select(manifest_spans.c.entry_id, entry_versions.c.text_digest, entry_versions.c.text)
        .select_from(SPANS_WITH_VERSIONS)
        .where(
            manifest_spans.c.to_revision.is_(None),
            manifest_spans.c.state == "active",
            entry_versions.c.text != "",
            ~_has_vector(entry_versions.c.text_digest, profile),
        )
    )


def _experiences(profile: str) -> sa.Select[str, str, str]:
    table = experience_documents
    return sa.select(table.c.artifact_id, table.c.text_digest, table.c.text).where(
        ~_has_vector(table.c.text_digest, profile)
    )


def _has_vector(text_digest: sa.ColumnElement[str], profile: str) -> sa.Exists:
    return sa.exists().where(vectors.c.text_digest == text_digest, vectors.c.profile == profile)
