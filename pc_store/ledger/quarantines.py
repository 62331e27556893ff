"""Sources a consumer could not process, set aside so that nothing blocks."""

from dataclasses import dataclass

import sqlalchemy as sa

from pc_store.domain.window import Consumer
from pc_store.ledger.schema import quarantined_sources, sources


@dataclass(frozen=True)
class Quarantined:
    """A source set aside, and why."""

    scope_id: str
    consumer: Consumer
    position: int
    source_type: str
    source_id: str
    window_id: str
    reason: str
    quarantined_at: int
    released_at: int | None


def put(
    conn: sa.Connection,
    scope_id: str,
    consumer: Consumer,
    position: int,
    *,
    window_id: str,
    reason: str,
    now_us: int,
) -> None:
    """Set a source aside, again if it was released before."""
    where = _where(scope_id, consumer, position)
    conn.execute(sa.delete(quarantined_sources).where(*where))
    conn.execute(
        sa.insert(quarantined_sources).values(
            scope_id=scope_id,
            consumer=consumer,
            position=position,
            window_id=window_id,
            reason=reason,
            quarantined_at=now_us,
        )
    )


def release(
    conn: sa.Connection,
    scope_id: str,
    consumer: Consumer,
    *,
    after: int,
    through: int,
    now_us: int,
) -> int:
    """Note that sources at positions (after, through] are no longer set aside; how many were."""
    changed = conn.execute(
        sa.update(quarantined_sources)
        .where(
            quarantined_sources.c.scope_id == scope_id,
            quarantined_sources.c.consumer == consumer,
            quarantined_sources.c.position > after,
            quarantined_sources.c.position <= through,
            quarantined_sources.c.released_at.is_(None),
        )
        .values(released_at=now_us)
    )
    return changed.rowcount


def page(
    conn: sa.Connection,
    *,
    scope_id: str | None = None,
    include_released: bool = False,
    limit: int,
) -> list[Quarantined]:
    """Sources set aside, by scope, consumer and position."""
    table = quarantined_sources
    query = (
        sa.select(table, sources.c.source_type, sources.c.source_id)
        .join(
            sources,
            sa.and_(sources.c.scope_id == table.c.scope_id, sources.c.position == table.c.position),
        )
        .order_by(table.c.scope_id, table.c.consumer, table.c.position)
        .limit(limit)
    )
    if scope_id is not None:
        query = query.where(table.c.scope_id == scope_id)
    if not include_released:
        query = query.where(table.c.released_at.is_(None))
    return [Quarantined(**row._mapping) for row in conn.execute(query)]


def _where(scope_id: str, consumer: Consumer, position: int) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        quarantined_sources.c.scope_id == scope_id,
        quarantined_sources.c.consumer == consumer,
        quarantined_sources.c.position == position,
    )


def count(conn: sa.Connection, scope_id: str) -> int:
    """How many sources of a scope are set aside now."""
    query = (
        sa.select(sa.func.count())
        .select_from(quarantined_sources)
        .where(
            quarantined_sources.c.scope_id == scope_id,
            quarantined_sources.c.released_at.is_(None),
        )
    )
    return int(conn.execute(query).scalar_one())
