"""Purges: entries whose text was erased for good, and the erasing itself."""

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from pc_store.ledger import vectors
from pc_store.ledger.schema import entry_versions, memory_changes, purges


@dataclass(frozen=True)
class Purged:
    """That an entry was purged: at which head of the memory, and when."""

    entry_id: str
    revision: int
    purged_at: int


@dataclass(frozen=True)
class Remains:
    """What is kept of one version of an entry."""

    entry_version_id: str
    content_hash: str
    text_digest: str


def get(conn: sa.Connection, scope_id: str, entry_id: str) -> Purged | None:
    """An entry's purge; None when there was none."""
    query = sa.select(purges.c.entry_id, purges.c.revision, purges.c.purged_at).where(
        purges.c.scope_id == scope_id, purges.c.entry_id == entry_id
    )
    row = conn.execute(query).one_or_none()
    return Purged(*row) if row is not None else None


def put(conn: sa.Connection, scope_id: str, entry_id: str, *, revision: int, now_us: int) -> None:
    """Note a purge."""
    conn.execute(
        sa.insert(purges).values(
            scope_id=scope_id, entry_id=entry_id, revision=revision, purged_at=now_us
        )
    )


def remains(conn: sa.Connection, scope_id: str, entry_id: str) -> list[Remains]:
    """Ids and hashes of an entry's versions, oldest first."""
    query = (
        sa.select(
            entry_versions.c.entry_version_id,
            entry_versions.c.content_hash,
            entry_versions.c.text_digest,
        )
        .where(entry_versions.c.scope_id == scope_id, entry_versions.c.entry_id == entry_id)
        .order_by(entry_versions.c.version)
    )
    return [Remains(*row) for row in conn.execute(query)]


def erase(conn: sa.Connection, scope_id: str, entry_id: str, text_digests: Iterable[str]) -> None:
    """Empty the texts, terms and reasons of an entry, and forget its texts' vectors.

    Where another entry has one of the texts, its vector is computed again at need.
    """
    conn.execute(
        sa.update(entry_versions)
        .where(entry_versions.c.scope_id == scope_id, entry_versions.c.entry_id == entry_id)
        .values(text="", terms="")
    )
    conn.execute(
        sa.update(memory_changes)
        .where(memory_changes.c.scope_id == scope_id, memory_changes.c.entry_id == entry_id)
        .values(reason=None)
    )
    vectors.drop(conn, set(text_digests))
