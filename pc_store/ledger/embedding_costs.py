"""What embedding each scope's texts cost, by day and purpose: running counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from pc_store.ledger.schema import embedding_costs

Purpose = Literal["memory_indexing"]

DAY_US = 86_400_000_000
_EPOCH = date(1970, 1, 1)
_SOME = 500


@dataclass(frozen=True)
class EmbeddingCost:
    """Requests, and tokens as the endpoint counts them, of one scope and day (UTC)."""

    purpose: str
    day: date
    requests: int
    tokens: int


def add(
    conn: sa.Connection,
    purpose: Purpose,
    by_scope: Mapping[str, tuple[int, int]],
    *,
    now_us: int,
) -> None:
    """Count (requests, tokens) for each scope, on the day of `now_us`."""
    table, day = embedding_costs, now_us // DAY_US
    for scope_id in sorted(by_scope):  # in one order, so that two writers cannot wait in a circle
        requests, tokens = by_scope[scope_id]
        change = (
            sa.update(table)
            .where(table.c.scope_id == scope_id, table.c.day == day, table.c.purpose == purpose)
            .values(requests=table.c.requests + requests, tokens=table.c.tokens + tokens)
        )
        if conn.execute(change).rowcount:
            continue
        row = {"scope_id": scope_id, "day": day, "purpose": purpose}
        try:
            with conn.begin_nested():
                conn.execute(sa.insert(table).values(**row, requests=requests, tokens=tokens))
        except IntegrityError:  # another writer made the row in the meantime
            conn.execute(change)


def since(
    conn: sa.Connection, scope_ids: Sequence[str], *, since_us: int
) -> dict[str, list[EmbeddingCost]]:
    """The costs of the days from a moment's on, by scope, oldest first."""
    table = embedding_costs
    found: dict[str, list[EmbeddingCost]] = {}
    for start in range(0, len(scope_ids), _SOME):
        query = (
            sa.select(table)
            .where(
                table.c.scope_id.in_(scope_ids[start : start + _SOME]),
                table.c.day >= since_us // DAY_US,
            )
            .order_by(table.c.scope_id, table.c.day, table.c.purpose)
        )
        for row in conn.execute(query):
            day = _EPOCH + timedelta(days=row.day)
            cost = EmbeddingCost(row.purpose, day, row.requests, row.tokens)
            found.setdefault(row.scope_id, []).append(cost)
    return found
