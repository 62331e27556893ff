"""What task outcomes said of tracked failures: matches of failing items, and events."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from pc_store.domain.recurrence import Match, Mode, Result
from pc_store.domain.refs import EXPERIENCE_FAMILY, ArtifactRef
from pc_store.ledger.schema import experience_documents, recurrence_events, recurrence_matches

TERMINAL = ("recurred", "avoided")


@dataclass(frozen=True)
class MatchRow:
    """What a failing item was matched to."""

    position: int
    kind: str
    index: int
    cue_key: str
    mode: Mode
    result: Result
    matched: ArtifactRef | None
    eligible: tuple[ArtifactRef, ...]
    note: str | None


@dataclass(frozen=True)
class EventRow:
    """An event of the ledger."""

    event_id: str
    event: str
    ref: ArtifactRef
    cue_key: str
    position: int
    evidence: dict[str, Any]
    voided: bool
    recorded_at: int


def matches(
    conn: sa.Connection, scope_id: str, positions: Iterable[int]
) -> dict[tuple[int, str, int], MatchRow]:
    """The matches of some outcomes, by (position, kind, index)."""
    table = recurrence_matches
    wanted = sorted(set(positions))
    found: dict[tuple[int, str, int], MatchRow] = {}
    for start in range(0, len(wanted), 500):
        query = sa.select(table).where(
            table.c.scope_id == scope_id, table.c.outcome_position.in_(wanted[start : start + 500])
        )
        for row in conn.execute(query):
            one = match_row(row)
            found[one.position, one.kind, one.index] = one
    return found


def match_row(row: sa.Row[Any]) -> MatchRow:
    """A row of `recurrence_matches` as a value."""
    matched = None if row.artifact_id is None else _experience(row.artifact_id, row.revision)
    return MatchRow(
        row.outcome_position,
        row.item_kind,
        row.item_index,
        row.cue_key,
        row.mode,
        row.result,
        matched,
        tuple(_experience(**one) for one in row.eligible),
        row.note,
    )


def put_match(
    conn: sa.Connection,
    scope_id: str,
    position: int,
    kind: str,
    index: int,
    *,
    digest: str,
    cue: str,
    mode: Mode,
    match: Match,
    again: bool,
    now_us: int,
) -> None:
    """Store a match; with `again` in place of one that was pending."""
    table = recurrence_matches
    ref = match.matched.ref if match.matched else None
    values = {
        "item_digest": digest,
        "cue_key": cue,
        "mode": mode,
        "result": match.result,
        "artifact_id": ref.artifact_id if ref else None,
        "revision": ref.revision if ref else None,
        "eligible": [named(one) for one in match.eligible],
        "note": match.note,
        "decided_at": now_us,
    }
    name = {
        "scope_id": scope_id,
        "outcome_position": position,
        "item_kind": kind,
        "item_index": index,
    }
    if again:
        conn.execute(
            sa.update(table)
            .where(*(table.c[column] == value for column, value in name.items()))
            .where(table.c.result == "pending")
            .values(values)
        )
    else:
        conn.execute(sa.insert(table).values(name | values))


def put_event(
    conn: sa.Connection,
    scope_id: str,
    event: EventRow,
    *,
    verdict_key: str | None,
) -> bool:
    """Add an event unless it, or another verdict of its key, is there; tell whether it was added.

    The caller holds the ledger's lock, so nobody adds one between the look and the write.
    """
    table = recurrence_events
    known = sa.select(table.c.event_id).where(
        table.c.scope_id == scope_id,
        table.c.event_id == event.event_id
        if verdict_key is None
        else table.c.verdict_key == verdict_key,
    )
    if conn.execute(known).first() is not None:
        return False
    conn.execute(
        sa.insert(table).values(
            scope_id=scope_id,
            event_id=event.event_id,
            verdict_key=verdict_key,
            event=event.event,
            artifact_id=event.ref.artifact_id,
            revision=event.ref.revision,
            cue_key=event.cue_key,
            outcome_position=event.position,
            evidence=event.evidence,
            voided=False,
            recorded_at=event.recorded_at,
        )
    )
    return True


def events_between(
    conn: sa.Connection, scope_id: str, *, after: int, through: int
) -> list[EventRow]:
    """The verdicts on outcomes at positions (after, through], by position."""
    table = recurrence_events
    query = (
        sa.select(table)
        .where(
            table.c.scope_id == scope_id,
            table.c.outcome_position > after,
            table.c.outcome_position <= through,
            table.c.event.in_(TERMINAL),
        )
        .order_by(table.c.outcome_position, table.c.event_id)
    )
    return [event_row(row) for row in conn.execute(query)]


def cues(conn: sa.Connection, scope_id: str, *, limit: int) -> list[tuple[ArtifactRef, str]]:
    """(revision, cue) of the active heads that track a failure, by cue, then by id."""
    table = experience_documents
    query = (
        sa.select(table.c.artifact_id, table.c.revision, table.c.cue_key)
        .where(table.c.scope_id == scope_id, table.c.cue_key.is_not(None))
        .order_by(table.c.cue_key, table.c.artifact_id)
        .limit(limit)
    )
    return [
        (_experience(row.artifact_id, row.revision), row.cue_key) for row in conn.execute(query)
    ]


def event(conn: sa.Connection, scope_id: str, event_id: str) -> EventRow | None:
    """An event by its id; None without one."""
    table = recurrence_events
    query = sa.select(table).where(table.c.scope_id == scope_id, table.c.event_id == event_id)
    row = conn.execute(query).one_or_none()
    return None if row is None else event_row(row)


def void(conn: sa.Connection, scope_id: str, event_id: str) -> None:
    """Mark a verdict as taken back."""
    table = recurrence_events
    conn.execute(
        sa.update(table)
        .where(table.c.scope_id == scope_id, table.c.event_id == event_id)
        .values(voided=True)
    )


def events_on(
    conn: sa.Connection, scope_id: str, ref: ArtifactRef, positions: Iterable[int]
) -> list[EventRow]:
    """The events of a revision on outcomes at some positions, by position."""
    table = recurrence_events
    wanted = sorted(set(positions))
    found: list[EventRow] = []
    for start in range(0, len(wanted), 500):
        query = (
            sa.select(table)
            .where(
                table.c.scope_id == scope_id,
                table.c.artifact_id == ref.artifact_id,
                table.c.revision == ref.revision,
                table.c.outcome_position.in_(wanted[start : start + 500]),
            )
            .order_by(table.c.outcome_position, table.c.event_id)
        )
        found += [event_row(row) for row in conn.execute(query)]
    return found


def event_row(row: sa.Row[Any]) -> EventRow:
    """A row of `recurrence_events` as a value."""
    return EventRow(
        row.event_id,
        row.event,
        _experience(row.artifact_id, row.revision),
        row.cue_key,
        row.outcome_position,
        row.evidence,
        row.voided,
        row.recorded_at,
    )


def named(ref: ArtifactRef) -> dict[str, Any]:
    """An experience revision as the ledger's JSON names it."""
    return {"artifact_id": ref.artifact_id, "revision": ref.revision}


def _experience(artifact_id: str, revision: int) -> ArtifactRef:
    return ArtifactRef(EXPERIENCE_FAMILY, artifact_id, revision)
