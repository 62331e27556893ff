"""What the checks on dreams and on the review inbox look for: the rows that break their rules."""

from typing import Any

import sqlalchemy as sa

from pc_store.domain.dream_run import PENDING
from pc_store.ledger.schema import candidates, dream_runs
from pc_store.services.clock import now_us as clock
from pc_store.settings import Settings

Offenders = list[dict[str, Any]]


def ends_differ(conn: sa.Connection, _: Settings, scope_id: str | None) -> Offenders:
    """Dreams without the end that their status says, and ends that are not both sides' own."""
    runs, made = dream_runs, candidates
    own = sa.and_(
        made.c.scope_id == runs.c.scope_id,
        made.c.candidate_id == runs.c.candidate_id,
        made.c.origin == "dream",
    )
    ended = runs.c.status.not_in(PENDING)
    proposed = sa.func.coalesce(runs.c.outcome, "") == "proposed"
    endless = sa.or_(
        ended != runs.c.completed_at.is_not(None),
        (runs.c.status == "succeeded") != runs.c.outcome.is_not(None),
        (runs.c.status == "failed") != runs.c.error.is_not(None),
    )
    apart = sa.case(
        (proposed, made.c.candidate_id.is_(None)), else_=runs.c.candidate_id.is_not(None)
    )
    of_dreams = (
        sa.select(
            runs.c.scope_id,
            runs.c.run_id.label("dream"),
            runs.c.candidate_id,
            sa.case((endless, "its end is not whole"), else_="not its candidate").label("why"),
        )
        .outerjoin(made, own)
        .where(sa.or_(endless, apart))
    )
    of_candidates = (
        sa.select(
            made.c.scope_id,
            sa.null().label("dream"),
            made.c.candidate_id,
            sa.literal("no dream proposed it").label("why"),
        )
        .outerjoin(runs, sa.and_(own, runs.c.outcome == "proposed"))
        .where(made.c.origin == "dream", runs.c.run_id.is_(None))
    )
    if scope_id is not None:
        of_dreams = of_dreams.where(runs.c.scope_id == scope_id)
        of_candidates = of_candidates.where(made.c.scope_id == scope_id)
    return [
        dict(row._mapping)
        for query, name in ((of_dreams, "dream"), (of_candidates, "candidate_id"))
        for row in conn.execute(query.order_by("scope_id", name))
    ]


def overdue(conn: sa.Connection, settings: Settings, scope_id: str | None) -> Offenders:
    """Pending candidates that have waited too long for a review, the oldest first."""
    table, now = candidates, clock()
    before = now - int(settings.inbox_age_target_s * 1_000_000)
    query = (
        sa.select(table.c.scope_id, table.c.candidate_id, table.c.origin, table.c.created_at)
        .where(table.c.status == "pending", table.c.created_at < before)
        .order_by(table.c.created_at, table.c.scope_id, table.c.candidate_id)
    )
    if scope_id is not None:
        query = query.where(table.c.scope_id == scope_id)
    return [
        {
            "scope_id": row.scope_id,
            "candidate_id": row.candidate_id,
            "origin": row.origin,
            "hours": (now - row.created_at) // 3_600_000_000,
        }
        for row in conn.execute(query)
    ]
