"""Running counts of each tracked failure, and the walk that tells when a review is due.

A streak is ordered by the position of outcomes in the log, never by when they were judged. The
walk weighs verdicts for a review only up to the ledger's cursor, below which every outcome has
been judged: so outcomes judged out of order never make a review due that their order would not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from pc_store.domain.recurrence import REVIEWED_SURFACE, Tracked, Verdict
from pc_store.domain.refs import EXPERIENCE_FAMILY, ArtifactRef
from pc_store.ledger.schema import experience_documents, recurrence_events, recurrence_streaks


@dataclass(frozen=True)
class StreakRow:
    """The counts of one tracked failure; see the table for what each is."""

    ref: ArtifactRef
    cue_key: str
    surface: str
    streak: int = 0
    recurred: int = 0
    avoided: int = 0
    last_position: int = 0
    walked_position: int = 0
    unreviewed: int = 0
    due_position: int = 0
    reviewed_position: int = 0
    review_id: str | None = None
    blocked: str | None = None
    updated_at: int = 0


def get(conn: sa.Connection, scope_id: str, ref: ArtifactRef, cue: str) -> StreakRow | None:
    """The counts of a tracked failure; None before its first verdict."""
    query = sa.select(recurrence_streaks).where(*_key(recurrence_streaks, scope_id, ref, cue))
    row = conn.execute(query).one_or_none()
    return None if row is None else _row(row)


def put(conn: sa.Connection, scope_id: str, row: StreakRow, *, now_us: int) -> None:
    """Write the counts of a tracked failure that has a row."""
    values = {
        name: value for name, value in vars(row).items() if name not in ("ref", "cue_key")
    } | {"updated_at": now_us}
    conn.execute(
        sa.update(recurrence_streaks)
        .where(*_key(recurrence_streaks, scope_id, row.ref, row.cue_key))
        .values(values)
    )


def count(
    conn: sa.Connection,
    scope_id: str,
    one: Tracked,
    verdict: Verdict,
    position: int,
    *,
    now_us: int,
) -> None:
    """Count a verdict that was just added.

    One that is the last by position costs the same however many there are; a late one reads
    the verdicts after it.
    """
    row = get(conn, scope_id, one.ref, one.cue_key)
    if row is None:
        row = StreakRow(one.ref, one.cue_key, one.surface)
        conn.execute(
            sa.insert(recurrence_streaks).values(
                scope_id=scope_id,
                artifact_id=one.ref.artifact_id,
                revision=one.ref.revision,
                **{name: value for name, value in vars(row).items() if name != "ref"},
            )
        )
    came_back = verdict == "recurred"
    later = [] if position > row.last_position else list(_verdicts(conn, scope_id, row, position))
    if "avoided" not in later:
        before = row.streak + 1 if came_back else len(later)
        row = replace(row, streak=before)
    row = replace(
        row,
        recurred=row.recurred + came_back,
        avoided=row.avoided + (not came_back),
        last_position=max(row.last_position, position),
    )
    if position <= row.walked_position:
        row = rewound(row)
        if came_back and row.review_id and position <= row.reviewed_position:
            row = replace(row, due_position=row.reviewed_position)
    put(conn, scope_id, row, now_us=now_us)


def recount(conn: sa.Connection, scope_id: str, ref: ArtifactRef, cue: str, *, now_us: int) -> None:
    """Count again all that stands, after a verdict was taken back."""
    row = get(conn, scope_id, ref, cue)
    if row is None:
        return
    table = recurrence_events
    standing = _standing(scope_id, row)
    totals = dict.fromkeys(("recurred", "avoided"), 0)
    grouped = sa.select(table.c.event, sa.func.count()).where(*standing).group_by(table.c.event)
    totals.update((row[0], row[1]) for row in conn.execute(grouped))
    last = conn.execute(sa.select(sa.func.max(table.c.outcome_position)).where(*standing)).scalar()
    avoided_at = conn.execute(
        sa.select(sa.func.max(table.c.outcome_position)).where(
            *standing, table.c.event == "avoided"
        )
    ).scalar()
    streak = conn.execute(
        sa.select(sa.func.count()).where(
            *standing, table.c.event == "recurred", table.c.outcome_position > (avoided_at or 0)
        )
    ).scalar_one()
    row = replace(
        row,
        streak=streak,
        recurred=totals["recurred"],
        avoided=totals["avoided"],
        last_position=last or 0,
    )
    put(conn, scope_id, rewound(row), now_us=now_us)


def walk(
    conn: sa.Connection,
    scope_id: str,
    ref: ArtifactRef,
    cue: str,
    *,
    through: int,
    threshold: int,
    now_us: int,
) -> None:
    """Weigh the verdicts up to a position that were not weighed yet, and note a review as due.

    A review is due after `threshold` recurrences in a row that none has seen; while one is
    open, after each.
    """
    row = get(conn, scope_id, ref, cue)
    if row is None or row.surface != REVIEWED_SURFACE:
        return
    unreviewed, due = row.unreviewed, row.due_position
    table = recurrence_events
    query = (
        sa.select(table.c.event, table.c.outcome_position)
        .where(
            *_standing(scope_id, row),
            table.c.outcome_position > row.walked_position,
            table.c.outcome_position <= through,
        )
        .order_by(table.c.outcome_position)
    )
    for event, position in conn.execute(query):
        unreviewed = unreviewed + 1 if event == "recurred" else 0
        if unreviewed >= threshold or (unreviewed and row.review_id):
            due = position
    walked = max(through, row.walked_position)
    row = replace(row, walked_position=walked, unreviewed=unreviewed, due_position=due)
    put(conn, scope_id, row, now_us=now_us)


def due(
    conn: sa.Connection, scope_id: str | None, *, untouched_since_us: int | None = None, limit: int
) -> list[tuple[str, StreakRow]]:
    """(scope, counts) of tracked failures of active heads whose review is due, by scope and id.

    Args:
        scope_id: None for all scopes.
        untouched_since_us: pass over those whose review was blocked after this moment.
    """
    table, heads = recurrence_streaks, experience_documents
    query = (
        sa.select(table)
        .join(
            heads,
            sa.and_(
                heads.c.scope_id == table.c.scope_id,
                heads.c.artifact_id == table.c.artifact_id,
                heads.c.revision == table.c.revision,
            ),
        )
        .where(table.c.due_position > 0, table.c.surface == REVIEWED_SURFACE)
        .order_by(table.c.scope_id, table.c.artifact_id, table.c.cue_key)
        .limit(limit)
    )
    if scope_id is not None:
        query = query.where(table.c.scope_id == scope_id)
    if untouched_since_us is not None:
        query = query.where(
            sa.or_(table.c.blocked.is_(None), table.c.updated_at <= untouched_since_us)
        )
    return [(row.scope_id, _row(row)) for row in conn.execute(query)]


def streak_outcomes(
    conn: sa.Connection, scope_id: str, row: StreakRow, *, through: int, limit: int
) -> list[int]:
    """Positions, ascending, of the latest `limit` recurrences in a row up to a position."""
    table = recurrence_events
    query = (
        sa.select(table.c.event, table.c.outcome_position)
        .where(*_standing(scope_id, row), table.c.outcome_position <= through)
        .order_by(table.c.outcome_position.desc())
        .limit(limit)
    )
    found: list[int] = []
    for event, position in conn.execute(query):
        if event == "avoided":
            break
        found.append(position)
    return found[::-1]


def length(conn: sa.Connection, scope_id: str, row: StreakRow, *, through: int) -> int:
    """How many recurrences in a row end at a position, which is that of a recurrence."""
    if row.last_position == through:
        return row.streak
    table = recurrence_events
    standing = (*_standing(scope_id, row), table.c.outcome_position <= through)
    avoided_at = (
        sa.select(sa.func.coalesce(sa.func.max(table.c.outcome_position), 0))
        .where(*standing, table.c.event == "avoided")
        .scalar_subquery()
    )
    query = sa.select(sa.func.count()).where(*standing, table.c.outcome_position > avoided_at)
    return int(conn.execute(query).scalar_one())


def recurrences_in(
    conn: sa.Connection, scope_id: str, row: StreakRow, *, first: int, last: int, limit: int
) -> list[int]:
    """Positions, ascending, of the latest `limit` recurrences at positions first to last."""
    table = recurrence_events
    query = (
        sa.select(table.c.outcome_position)
        .where(
            *_standing(scope_id, row),
            table.c.event == "recurred",
            table.c.outcome_position >= first,
            table.c.outcome_position <= last,
        )
        .order_by(table.c.outcome_position.desc())
        .limit(limit)
    )
    return list(conn.execute(query).scalars())[::-1]


def recurred_at(
    conn: sa.Connection, scope_id: str, row: StreakRow, positions: Sequence[int]
) -> list[int]:
    """Those of the positions, at most 500, where the failure came back."""
    table = recurrence_events
    query = sa.select(table.c.outcome_position).where(
        *_standing(scope_id, row),
        table.c.event == "recurred",
        table.c.outcome_position.in_(positions),
    )
    return list(conn.execute(query).scalars())


def longest(conn: sa.Connection, scope_id: str, *, limit: int) -> list[StreakRow]:
    """The counts of failures that came back last, the longest streak first."""
    table = recurrence_streaks
    query = (
        sa.select(table)
        .where(table.c.scope_id == scope_id, table.c.streak > 0)
        .order_by(table.c.streak.desc(), table.c.artifact_id, table.c.revision, table.c.cue_key)
        .limit(limit)
    )
    return [_row(row) for row in conn.execute(query)]


def rewound(row: StreakRow) -> StreakRow:
    """The counts with the walk to be made again from the last review on."""
    return replace(row, walked_position=row.reviewed_position, unreviewed=0, due_position=0)


def _verdicts(conn: sa.Connection, scope_id: str, row: StreakRow, after: int) -> Iterator[str]:
    table = recurrence_events
    query = sa.select(table.c.event).where(
        *_standing(scope_id, row), table.c.outcome_position > after
    )
    yield from conn.execute(query).scalars()


def _standing(scope_id: str, row: StreakRow) -> tuple[sa.ColumnElement[bool], ...]:
    table = recurrence_events
    return (
        *_key(table, scope_id, row.ref, row.cue_key),
        table.c.event.in_(("recurred", "avoided")),
        table.c.voided.is_(False),
    )


def _key(
    table: sa.Table, scope_id: str, ref: ArtifactRef, cue: str
) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        table.c.scope_id == scope_id,
        table.c.artifact_id == ref.artifact_id,
        table.c.revision == ref.revision,
        table.c.cue_key == cue,
    )


def _row(row: sa.Row[Any]) -> StreakRow:
    values = dict(row._mapping)
    del values["scope_id"]
    ref = ArtifactRef(EXPERIENCE_FAMILY, values.pop("artifact_id"), values.pop("revision"))
    return StreakRow(ref=ref, **values)
