"""Landing files as they were when last ingested, so that only new ones are read."""

import sqlalchemy as sa

from pc_store.ledger.schema import landing_files


def known(conn: sa.Connection, scope_id: str) -> dict[str, tuple[int, int]]:
    """(size in bytes, modified in ns) of each file ingested, by path."""
    query = sa.select(landing_files).where(landing_files.c.scope_id == scope_id)
    return {row.path: (row.size_bytes, row.modified_ns) for row in conn.execute(query)}


def record(
    conn: sa.Connection,
    scope_id: str,
    path: str,
    *,
    size_bytes: int,
    modified_ns: int,
    now_us: int,
    accepted: int,
    rejected: int,
) -> None:
    """Note a file as ingested in this state."""
    key = (landing_files.c.scope_id == scope_id, landing_files.c.path == path)
    conn.execute(sa.delete(landing_files).where(*key))
    conn.execute(
        sa.insert(landing_files).values(
            scope_id=scope_id,
            path=path,
            size_bytes=size_bytes,
            modified_ns=modified_ns,
            ingested_at=now_us,
            accepted=accepted,
            rejected=rejected,
        )
    )
