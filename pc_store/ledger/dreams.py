"""Dreams: one row each, from submission to the end; every change of a row is a compare-and-set."""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from pc_store.domain.dream_run import (
    PENDING,
    DreamBudget,
    DreamRequest,
    DreamRun,
    DreamUsage,
    Operation,
    Status,
)
from pc_store.dream_refusals import DreamNotFound
from pc_store.ledger.schema import dream_runs

_TABLE = dream_runs
_LOOKED_AT = 8
"""How many due dreams one claim tries, when others claim at the same time."""


def insert(conn: sa.Connection, run: DreamRun) -> None:
    """Add a dream. The caller holds the scope's lock, and knows its key to be new there."""
    conn.execute(sa.insert(_TABLE).values(operation=run.request.operation, **_row(run)))


def get(conn: sa.Connection, scope_id: str, run_id: str, *, lock: bool = False) -> DreamRun:
    """One dream, locked until the transaction ends if asked to. Raises DreamNotFound."""
    query = sa.select(_TABLE).where(_TABLE.c.scope_id == scope_id, _TABLE.c.run_id == run_id)
    row = conn.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise DreamNotFound(f"the scope has no dream {run_id!r}", run_id=run_id)
    return _run(row)


def of_key(conn: sa.Connection, scope_id: str, principal: str, key: str) -> DreamRun | None:
    """The dream that a principal's key names in a scope."""
    query = sa.select(_TABLE).where(
        _TABLE.c.scope_id == scope_id,
        _TABLE.c.principal == principal,
        _TABLE.c.idempotency_key == key,
    )
    row = conn.execute(query).one_or_none()
    return None if row is None else _run(row)


def page(
    conn: sa.Connection,
    scope_id: str,
    *,
    status: Status | None,
    operation: Operation | None,
    before: tuple[int, str] | None,
    limit: int,
) -> list[DreamRun]:
    """Dreams of a scope, newest first, those accepted before (microseconds, run id)."""
    query = sa.select(_TABLE).where(_TABLE.c.scope_id == scope_id)
    if status is not None:
        query = query.where(_TABLE.c.status == status)
    if operation is not None:
        query = query.where(_TABLE.c.operation == operation)
    if before is not None:
        accepted, run_id = before
        query = query.where(
            sa.or_(
                _TABLE.c.accepted_at < accepted,
                sa.and_(_TABLE.c.accepted_at == accepted, _TABLE.c.run_id < run_id),
            )
        )
    query = query.order_by(_TABLE.c.accepted_at.desc(), _TABLE.c.run_id.desc()).limit(limit)
    return [_run(row) for row in conn.execute(query)]


def pending(conn: sa.Connection, scope_id: str) -> int:
    """How many dreams of a scope wait or run."""
    query = sa.select(sa.func.count()).where(
        _TABLE.c.scope_id == scope_id, _TABLE.c.status.in_(PENDING)
    )
    return int(conn.execute(query).scalar_one())


@dataclass(frozen=True)
class Waiting:
    """Dreams of all scopes that have not ended.

    Attributes:
        pending: all of them.
        due: those that may be claimed now: that wait, or whose worker is gone.
        due_since: when the first of these could be claimed, microseconds; None without any.
        at_work: those that a worker holds.
    """

    pending: int
    due: int
    due_since: int | None
    at_work: int


_NOW = sa.bindparam("now", type_=sa.BigInteger)
_IS_DUE = _TABLE.c.next_attempt_at <= _NOW
_SINCE = sa.case(
    (_TABLE.c.next_attempt_at > _TABLE.c.accepted_at, _TABLE.c.next_attempt_at),
    else_=_TABLE.c.accepted_at,
)
_IS_HELD = sa.and_(_TABLE.c.status == "running", sa.not_(_IS_DUE))
# Made once: workers and Dagster's sensor ask four times a second, and making it costs most of that.
_WAITING = sa.select(
    sa.func.count(),
    sa.func.count(sa.case((_IS_DUE, 1))),
    sa.func.min(sa.case((_IS_DUE, _SINCE))),
    sa.func.count(sa.case((_IS_HELD, 1))),
).where(_TABLE.c.status.in_(PENDING))


def waiting(conn: sa.Connection, *, now_us: int) -> Waiting:
    """The dreams of all scopes that have not ended, in one query."""
    return Waiting(*conn.execute(_WAITING, {"now": now_us}).one())


def any_ended_since(conn: sa.Connection, moment_us: int) -> bool:
    """Whether any dream ended, well or not, at or after a moment."""
    query = sa.select(_TABLE.c.run_id).where(_TABLE.c.completed_at >= moment_us).limit(1)
    return conn.execute(query).first() is not None


def claim(
    conn: sa.Connection, claim_id: str, *, now_us: int, until_us: int, dagster_run_id: str | None
) -> DreamRun | None:
    """Take a due dream: the oldest of the scope that has waited longest for its turn.

    So a scope with many dreams does not keep the others waiting.

    Args:
        until_us: when others may take it over, unless that is put off.

    Returns:
        It as it was before, with its new claim; None when nothing is due.
    """
    turn = sa.func.row_number().over(
        partition_by=_TABLE.c.scope_id, order_by=(_TABLE.c.accepted_at, _TABLE.c.run_id)
    )
    waiting = (
        sa.select(_TABLE.c.scope_id, _TABLE.c.run_id, _TABLE.c.accepted_at, turn.label("turn"))
        .where(*_due(now_us))
        .subquery()
    )
    earlier = _TABLE.alias()
    served = (
        sa.select(sa.func.max(earlier.c.started_at))
        .where(earlier.c.scope_id == waiting.c.scope_id)
        .scalar_subquery()
    )
    query = (
        sa.select(waiting.c.scope_id, waiting.c.run_id)
        .where(waiting.c.turn == 1)
        .order_by(sa.func.coalesce(served, 0), waiting.c.accepted_at, waiting.c.run_id)
        .limit(_LOOKED_AT)
    )
    for row in conn.execute(query).all():
        taken = conn.execute(
            sa.update(_TABLE)
            .where(_TABLE.c.scope_id == row.scope_id, _TABLE.c.run_id == row.run_id, *_due(now_us))
            .values(claim=claim_id, next_attempt_at=until_us, dagster_run_id=dagster_run_id)
        )
        if taken.rowcount == 1:
            return get(conn, row.scope_id, row.run_id)
    return None


def keep(conn: sa.Connection, claim_ids: Collection[str], *, until_us: int) -> None:
    """Put off when others may take over what is being worked on."""
    conn.execute(
        sa.update(_TABLE)
        .where(
            _TABLE.c.status == "running",
            _TABLE.c.claim.in_(sorted(claim_ids)),
            _TABLE.c.next_attempt_at < until_us,
        )
        .values(next_attempt_at=until_us)
    )


def release(conn: sa.Connection, claim_ids: Collection[str]) -> int:
    """Let others take over at once what was being worked on; how many there were."""
    given = conn.execute(
        sa.update(_TABLE)
        .where(_TABLE.c.status == "running", _TABLE.c.claim.in_(sorted(claim_ids)))
        .values(claim=None, next_attempt_at=0)
    )
    return given.rowcount


def replace_held(conn: sa.Connection, run: DreamRun) -> None:
    """Write a dream, unless it has ended or has another claim; the caller has it locked.

    What the claim's keeper writes, `next_attempt_at` of a running one, is written as well.
    """
    conn.execute(
        sa.update(_TABLE)
        .where(
            _TABLE.c.scope_id == run.scope_id,
            _TABLE.c.run_id == run.run_id,
            _TABLE.c.status.in_(PENDING),
            _TABLE.c.claim == run.claim if run.claim is not None else _TABLE.c.claim.is_(None),
        )
        .values(_row(run))
    )


def note_usage(conn: sa.Connection, run: DreamRun, usage: DreamUsage) -> None:
    """Say what a dream has cost, also when it was cancelled meanwhile."""
    conn.execute(
        sa.update(_TABLE)
        .where(
            _TABLE.c.scope_id == run.scope_id,
            _TABLE.c.run_id == run.run_id,
            _TABLE.c.claim == run.claim,
        )
        .values(usage=asdict(usage))
    )


def _due(now_us: int) -> tuple[sa.ColumnElement[bool], ...]:
    return _TABLE.c.status.in_(PENDING), _TABLE.c.next_attempt_at <= now_us


_PLAIN = tuple(
    column.name
    for column in _TABLE.columns
    if column.name not in ("operation", "request", "usage", "budget")
)


def _row(run: DreamRun) -> dict[str, Any]:
    return {name: getattr(run, name) for name in _PLAIN} | {
        "request": run.request.to_json(),
        "usage": asdict(run.usage) if run.usage else None,
        "budget": run.budget.to_json(),
    }


def _run(row: sa.Row[Any]) -> DreamRun:
    plain = {name: getattr(row, name) for name in _PLAIN}
    return DreamRun(
        **plain,
        request=DreamRequest.from_json(row.request),
        usage=DreamUsage(**row.usage) if row.usage else None,
        budget=DreamBudget(**row.budget),
    )
