"""Which task outcomes were judged, and what those wait for that cannot be judged yet."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from pc_store.domain.outcome import KIND
from pc_store.domain.recurrence import Mode
from pc_store.domain.refs import SourceRef
from pc_store.domain.source import CONTENT_TYPE
from pc_store.errors import ScopeNotFound
from pc_store.ledger.schema import (
    cursors,
    recurrence_outcomes,
    recurrence_waits,
    scopes,
    source_heads,
    sources,
)

_WAITING_SOURCE = "source "


@dataclass(frozen=True)
class OutcomeSource:
    """A source whose metadata says that it is a task outcome."""

    position: int
    source_id: str
    content: str

    @property
    def ref(self) -> SourceRef:
        """How others name it."""
        return SourceRef(CONTENT_TYPE, self.source_id)


@dataclass(frozen=True)
class OutcomeRow:
    """How an outcome was judged."""

    position: int
    result: str
    mode: Mode | None
    receipt_position: int | None
    problem: str | None


def lock(conn: sa.Connection, scope_id: str) -> int:
    """Lock the scope's recurrence ledger until the transaction ends and return its cursor.

    Raises:
        ScopeNotFound: no such scope.
    """
    query = sa.select(cursors.c.position).where(
        cursors.c.scope_id == scope_id, cursors.c.consumer == "recurrence"
    )
    position = conn.execute(query.with_for_update()).scalar_one_or_none()
    if position is None:
        raise ScopeNotFound(f"there is no scope {scope_id!r}", scope_id=scope_id)
    return int(position)


def unjudged(
    conn: sa.Connection, scope_id: str, *, after: int, through: int
) -> list[OutcomeSource]:
    """The task outcomes at positions (after, through] that were not judged yet, in order."""
    judged = sa.select(recurrence_outcomes.c.outcome_position).where(
        recurrence_outcomes.c.scope_id == scope_id,
        recurrence_outcomes.c.outcome_position == sources.c.position,
    )
    query = _outcomes(scope_id).where(
        sources.c.position > after, sources.c.position <= through, ~judged.exists()
    )
    return _read(conn, query)


def at(conn: sa.Connection, scope_id: str, positions: Iterable[int]) -> list[OutcomeSource]:
    """The task outcomes at some positions, in order."""
    wanted = sorted(set(positions))
    found: list[OutcomeSource] = []
    for start in range(0, len(wanted), 500):
        some = wanted[start : start + 500]
        found += _read(conn, _outcomes(scope_id).where(sources.c.position.in_(some)))
    return found


@dataclass(frozen=True)
class Behind:
    """A scope whose log goes on past the `recurrence` cursor."""

    scope_id: str
    scope_key: str
    cursor: int
    high_watermark: int


def behind(conn: sa.Connection, *, served_before_us: int, limit: int) -> list[Behind]:
    """Scopes with positions past the `recurrence` cursor, the longest unserved first.

    Args:
        served_before_us: pass over those that were served at or after this moment.
    """
    query = (
        sa.select(
            cursors.c.scope_id,
            scopes.c.key.label("scope_key"),
            cursors.c.position.label("cursor"),
            source_heads.c.position.label("high_watermark"),
        )
        .join(source_heads, source_heads.c.scope_id == cursors.c.scope_id)
        .join(scopes, scopes.c.scope_id == cursors.c.scope_id)
        .where(
            cursors.c.consumer == "recurrence",
            cursors.c.served_at < served_before_us,
            source_heads.c.position > cursors.c.position,
        )
        .order_by(cursors.c.served_at, cursors.c.scope_id)
        .limit(limit)
    )
    return [Behind(**row._mapping) for row in conn.execute(query)]


def holds_outcome(conn: sa.Connection, scope_id: str, *, after: int, through: int) -> bool:
    """Whether a task outcome is among the sources at positions (after, through]."""
    query = _outcomes(scope_id).where(sources.c.position > after, sources.c.position <= through)
    return conn.execute(query.with_only_columns(sources.c.position).limit(1)).first() is not None


def _outcomes(scope_id: str) -> sa.Select[Any]:
    columns = (sources.c.position, sources.c.source_id, sources.c.content)
    return sa.select(*columns).where(sources.c.scope_id == scope_id, sources.c.kind == KIND)


def _read(conn: sa.Connection, query: sa.Select[Any]) -> list[OutcomeSource]:
    return [
        OutcomeSource(**row._mapping) for row in conn.execute(query.order_by(sources.c.position))
    ]


def put_outcome(conn: sa.Connection, scope_id: str, row: OutcomeRow, *, now_us: int) -> None:
    """Note that an outcome was judged."""
    conn.execute(
        sa.insert(recurrence_outcomes).values(
            scope_id=scope_id,
            outcome_position=row.position,
            result=row.result,
            mode=row.mode,
            receipt_position=row.receipt_position,
            problem=row.problem,
            decided_at=now_us,
        )
    )


def outcomes_page(
    conn: sa.Connection, scope_id: str, *, after: int, limit: int
) -> tuple[list[OutcomeSource], int | None]:
    """The next task outcomes after a position, judged or not, in order; and where to go on."""
    query = _outcomes(scope_id).where(sources.c.position > after)
    found = _read(conn, query.limit(limit))
    return found, found[-1].position if len(found) == limit else None


def judged(conn: sa.Connection, scope_id: str, positions: Iterable[int]) -> dict[int, OutcomeRow]:
    """How outcomes at some positions, at most 500, were judged; without those that were not."""
    table = recurrence_outcomes
    query = sa.select(table).where(
        table.c.scope_id == scope_id, table.c.outcome_position.in_(sorted(set(positions)))
    )
    return {
        row.outcome_position: OutcomeRow(
            row.outcome_position, row.result, row.mode, row.receipt_position, row.problem
        )
        for row in conn.execute(query)
    }


def put_waits(
    conn: sa.Connection, scope_id: str, position: int, refs: Sequence[str], *, now_us: int
) -> None:
    """Set what an outcome waits for, in place of what it waited for."""
    table = recurrence_waits
    conn.execute(
        sa.delete(table).where(table.c.scope_id == scope_id, table.c.outcome_position == position)
    )
    if refs:
        conn.execute(
            sa.insert(table),
            [
                {
                    "scope_id": scope_id,
                    "outcome_position": position,
                    "waits_for": ref,
                    "tried_at": now_us,
                }
                for ref in sorted(set(refs))
            ],
        )


def waiting_for(
    conn: sa.Connection, scope_id: str, *, after: int, through: int, retried: int
) -> set[int]:
    """Positions of outcomes worth judging again.

    Those that wait for a source at a position in (after, through], and those that wait for
    something that is no source, at most `retried` of these, the longest untried first.
    """
    table = recurrence_waits
    if conn.execute(_waits(scope_id).limit(1)).first() is None:
        return set()
    name = sa.literal(_WAITING_SOURCE) + sources.c.source_type + "/" + sources.c.source_id
    arrived = _waits(scope_id).join(
        sources, sa.and_(sources.c.scope_id == table.c.scope_id, name == table.c.waits_for)
    )
    found = conn.execute(
        arrived.where(sources.c.position > after, sources.c.position <= through)
    ).scalars()
    others = (
        _waits(scope_id)
        .where(~table.c.waits_for.startswith(_WAITING_SOURCE))
        .order_by(table.c.tried_at, table.c.outcome_position)
        .limit(retried)
    )
    return set(found) | set(conn.execute(others).scalars())


def waiting(conn: sa.Connection, scope_id: str, *, limit: int) -> list[tuple[int, str]]:
    """(position, reference) of what outcomes of a scope wait for, by position."""
    table = recurrence_waits
    query = (
        sa.select(table.c.outcome_position, table.c.waits_for)
        .where(table.c.scope_id == scope_id)
        .order_by(table.c.outcome_position, table.c.waits_for)
        .limit(limit)
    )
    return [(row.outcome_position, row.waits_for) for row in conn.execute(query)]


def _waits(scope_id: str) -> sa.Select[Any]:
    table = recurrence_waits
    return sa.select(table.c.outcome_position).where(table.c.scope_id == scope_id)
