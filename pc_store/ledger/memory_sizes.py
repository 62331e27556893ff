"""How many entries each memory's head holds, kept as running counts."""

from collections.abc import Iterable

import sqlalchemy as sa

from pc_store.domain.entry import Op
from pc_store.domain.revision import Size
from pc_store.ledger.schema import memory_sizes

_STEP: dict[Op, tuple[int, int]] = {
    "add": (1, 0),
    "revise": (0, 0),
    "deactivate": (-1, 1),
    "reactivate": (1, -1),
}


def get(conn: sa.Connection, scope_id: str) -> Size:
    """The counts; zeros before the first entry."""
    query = sa.select(memory_sizes.c.active, memory_sizes.c.inactive)
    row = conn.execute(query.where(memory_sizes.c.scope_id == scope_id)).one_or_none()
    return Size(row.active, row.inactive) if row is not None else Size(0, 0)


def change(conn: sa.Connection, scope_id: str, ops: Iterable[Op]) -> None:
    """Count what a revision changes. The caller holds the memory's lock."""
    steps = [_STEP[op] for op in ops]
    active, inactive = sum(step[0] for step in steps), sum(step[1] for step in steps)
    if not active and not inactive:
        return
    table = memory_sizes
    changed = conn.execute(
        sa.update(table)
        .where(table.c.scope_id == scope_id)
        .values(active=table.c.active + active, inactive=table.c.inactive + inactive)
    )
    if changed.rowcount == 0:
        conn.execute(sa.insert(table).values(scope_id=scope_id, active=active, inactive=inactive))
