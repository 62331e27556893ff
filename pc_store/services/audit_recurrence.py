"""Checks on the recurrence ledger: what people have to see, and that its counts are right."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import sqlalchemy as sa

from pc_store.ledger.schema import (
    candidates,
    experience_documents,
    recurrence_events,
    recurrence_outcomes,
    recurrence_streaks,
    sources,
)
from pc_store.settings import Settings

Offenders = Callable[[sa.Connection, Settings, str | None], Sequence[dict[str, Any]]]
RecurrencePart = Literal["failure_recurrences", "recurrence_reviews"]


def _scoped(query: sa.Select[Any], table: sa.Table, scope_id: str | None) -> sa.Select[Any]:
    return query if scope_id is None else query.where(table.c.scope_id == scope_id)


def _rows(conn: sa.Connection, query: sa.Select[Any]) -> list[dict[str, Any]]:
    return [dict(row._mapping) for row in conn.execute(query)]


def _problems(result: str) -> Offenders:
    """Outcomes of a result that have a problem, by scope and position."""

    def offenders(
        conn: sa.Connection, _: Settings, scope_id: str | None
    ) -> Sequence[dict[str, Any]]:
        table = recurrence_outcomes
        query = (
            sa.select(
                table.c.scope_id,
                table.c.outcome_position.label("position"),
                sources.c.source_id,
                table.c.problem,
            )
            .join(
                sources,
                sa.and_(
                    sources.c.scope_id == table.c.scope_id,
                    sources.c.position == table.c.outcome_position,
                ),
            )
            .where(table.c.result == result, table.c.problem.is_not(None))
            .order_by(table.c.scope_id, table.c.outcome_position)
        )
        return _rows(conn, _scoped(query, table, scope_id))

    return offenders


def _shared_cues(conn: sa.Connection, _: Settings, scope_id: str | None) -> list[dict[str, Any]]:
    table = experience_documents
    query = (
        sa.select(
            table.c.scope_id,
            table.c.cue_key,
            sa.func.count().label("experiences"),
            sa.func.min(table.c.artifact_id).label("first"),
            sa.func.max(table.c.artifact_id).label("last"),
        )
        .where(table.c.cue_key.is_not(None))
        .group_by(table.c.scope_id, table.c.cue_key)
        .having(sa.func.count() > 1)
        .order_by(table.c.scope_id, table.c.cue_key)
    )
    return _rows(conn, _scoped(query, table, scope_id))


def _miscounted(conn: sa.Connection, _: Settings, scope_id: str | None) -> list[dict[str, Any]]:
    """Walk every verdict by position and compare the counts with those that were kept."""
    names = ("scope_id", "artifact_id", "revision", "cue_key")
    events, kept = recurrence_events, recurrence_streaks
    query = (
        sa.select(*(events.c[name] for name in names), events.c.event, events.c.outcome_position)
        .where(events.c.event.in_(("recurred", "avoided")), events.c.voided.is_(False))
        .order_by(*(events.c[name] for name in names), events.c.outcome_position)
    )
    counted: dict[tuple[Any, ...], tuple[int, int, int, int]] = {}
    for *key, event, position in conn.execute(_scoped(query, events, scope_id)):
        streak, recurred, avoided, _last = counted.get(tuple(key), (0, 0, 0, 0))
        if event == "recurred":
            counted[tuple(key)] = (streak + 1, recurred + 1, avoided, position)
        else:
            counted[tuple(key)] = (0, recurred, avoided + 1, position)
    stored = {
        tuple(row[:4]): tuple(row[4:])
        for row in conn.execute(
            _scoped(
                sa.select(
                    *(kept.c[name] for name in names),
                    *(kept.c.streak, kept.c.recurred, kept.c.avoided, kept.c.last_position),
                ),
                kept,
                scope_id,
            )
        )
    }
    none = (0, 0, 0, 0)
    return [
        {**dict(zip(names, key, strict=True)), "kept": str(stored.get(key)), "is": str(now)}
        for key in sorted(set(counted) | set(stored))
        if (now := counted.get(key, none)) != stored.get(key)
    ]


def _twice_open(conn: sa.Connection, _: Settings, scope_id: str | None) -> list[dict[str, Any]]:
    table = candidates
    query = (
        sa.select(
            table.c.scope_id,
            table.c.target_id,
            table.c.target_revision,
            sa.func.count().label("open"),
        )
        .where(table.c.origin == "recurrence", table.c.status == "pending")
        .group_by(table.c.scope_id, table.c.target_id, table.c.target_revision)
        .having(sa.func.count() > 1)
        .order_by(table.c.scope_id, table.c.target_id, table.c.target_revision)
    )
    return _rows(conn, _scoped(query, table, scope_id))


def _blocked(conn: sa.Connection, _: Settings, scope_id: str | None) -> list[dict[str, Any]]:
    table = recurrence_streaks
    query = (
        sa.select(
            *(table.c.scope_id, table.c.artifact_id, table.c.revision, table.c.cue_key),
            table.c.blocked.label("why"),
        )
        .where(table.c.due_position > 0, table.c.blocked.is_not(None))
        .order_by(table.c.scope_id, table.c.artifact_id, table.c.revision, table.c.cue_key)
    )
    return _rows(conn, _scoped(query, table, scope_id))


RULES: tuple[tuple[str, str, RecurrencePart, bool, Offenders], ...] = (
    (
        "every_task_outcome_can_be_read",
        "Every source that says it is a task outcome is one; others are judged as nothing.",
        "failure_recurrences",
        False,
        _problems("malformed"),
    ),
    (
        "every_receipt_named_counts",
        "Every receipt that an outcome names was written by this server, before the outcome.",
        "failure_recurrences",
        False,
        _problems("judged"),
    ),
    (
        "every_cue_has_one_experience",
        "No two active experiences have one cue, which makes unlinked failures ambiguous.",
        "failure_recurrences",
        False,
        _shared_cues,
    ),
    (
        "streaks_follow_from_verdicts",
        "Walking all verdicts by position gives the streaks and counts that are kept.",
        "failure_recurrences",
        True,
        _miscounted,
    ),
    (
        "one_open_review_per_failure",
        "No experience revision has more than one open review of its failure.",
        "recurrence_reviews",
        True,
        _twice_open,
    ),
    (
        "no_review_is_blocked",
        "Every review that is due could be opened.",
        "recurrence_reviews",
        False,
        _blocked,
    ),
)
"""(name, what it asserts, the asset it shows on, how serious, offenders) of each."""
