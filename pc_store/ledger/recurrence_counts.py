"""Counts of recurrence over scopes, for statistics."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from pc_store.ledger import streaks
from pc_store.ledger.schema import recurrence_events, recurrence_streaks
from pc_store.ledger.streaks import StreakRow

TOP_MAX = 20


@dataclass
class RecurrenceCounts:
    """What the ledger of a scope adds up to.

    Attributes:
        selected: experiences that the receipts of judged outcomes cite, once an outcome.
        unknown: those of them whose outcome gave no verdict.
        needing_review: failures with at least the threshold of recurrences in a row.
        top: the longest streaks, at most 20.
    """

    selected: int = 0
    recurred: int = 0
    avoided: int = 0
    unknown: int = 0
    needing_review: int = 0
    top: list[StreakRow] = field(default_factory=list)


def counts(
    conn: sa.Connection, scope_ids: Sequence[str], *, threshold: int
) -> dict[str, RecurrenceCounts]:
    """The counts of each of the scopes; those without any verdict or selection are left out."""
    found: dict[str, RecurrenceCounts] = {}
    for start in range(0, len(scope_ids), 500):
        some = scope_ids[start : start + 500]
        for scope_id, selected, unknown in conn.execute(_selections(some)):
            one = found.setdefault(scope_id, RecurrenceCounts())
            one.selected, one.unknown = int(selected), int(unknown)
        for row in conn.execute(_totals(some, threshold)):
            one = found.setdefault(row.scope_id, RecurrenceCounts())
            one.recurred, one.avoided = int(row.recurred), int(row.avoided)
            one.needing_review = int(row.needing)
    for scope_id, one in found.items():
        one.top = streaks.longest(conn, scope_id, limit=TOP_MAX)
    return found


def _selections(scope_ids: Sequence[str]) -> sa.Select[Any]:
    chosen, verdict = recurrence_events.alias(), recurrence_events.alias()
    judged = (
        sa.select(sa.literal(1))
        .where(
            *(
                verdict.c[name] == chosen.c[name]
                for name in ("scope_id", "artifact_id", "revision", "cue_key", "outcome_position")
            ),
            verdict.c.event.in_(("recurred", "avoided")),
            verdict.c.voided.is_(False),
        )
        .exists()
    )
    return (
        sa.select(chosen.c.scope_id, sa.func.count(), sa.func.sum(sa.case((judged, 0), else_=1)))
        .where(chosen.c.scope_id.in_(scope_ids), chosen.c.event == "selected")
        .group_by(chosen.c.scope_id)
    )


def _totals(scope_ids: Sequence[str], threshold: int) -> sa.Select[Any]:
    table = recurrence_streaks
    return (
        sa.select(
            table.c.scope_id,
            sa.func.sum(table.c.recurred).label("recurred"),
            sa.func.sum(table.c.avoided).label("avoided"),
            sa.func.sum(sa.case((table.c.streak >= threshold, 1), else_=0)).label("needing"),
        )
        .where(table.c.scope_id.in_(scope_ids))
        .group_by(table.c.scope_id)
    )
