"""Counts over scopes: what each holds, what waits, what models cost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, Literal

import sqlalchemy as sa

from pc_store.domain.window import Consumer
from pc_store.ledger.schema import (
    artifacts,
    candidates,
    cursors,
    dream_runs,
    entry_versions,
    manifest_spans,
    source_heads,
    windows,
)

_SOME = 500


@dataclass
class Holdings:
    """What a scope holds; entries by (kind, state), artifacts with a revision by family.

    Candidates are by (family, status).
    """

    sources: int = 0
    processed: int = 0
    artifacts: dict[str, int] = field(default_factory=dict)
    entries: dict[tuple[str, str], int] = field(default_factory=dict)
    candidates: dict[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True)
class Cost:
    """What a window's model calls cost, on the day (UTC) of the last answer; or a dream's.

    Those of a dream are of the day that its first attempt began.
    """

    by: Consumer | Literal["dream"]
    day: date
    requests: int
    tokens_in: int
    tokens_out: int


def holdings(conn: sa.Connection, scope_ids: Sequence[str]) -> dict[str, Holdings]:
    """What each of the scopes holds."""
    found = {scope_id: Holdings() for scope_id in scope_ids}
    for some in _chunks(scope_ids):
        logs = (
            sa.select(source_heads.c.scope_id, source_heads.c.position, cursors.c.position)
            .join(cursors, cursors.c.scope_id == source_heads.c.scope_id)
            .where(source_heads.c.scope_id.in_(some), cursors.c.consumer == "memory")
        )
        for scope_id, head, cursor in conn.execute(logs):
            found[scope_id].sources, found[scope_id].processed = head, cursor
        families = (
            sa.select(artifacts.c.scope_id, artifacts.c.family, sa.func.count())
            .where(artifacts.c.scope_id.in_(some), artifacts.c.head > 0)
            .group_by(artifacts.c.scope_id, artifacts.c.family)
        )
        for scope_id, family, count in conn.execute(families):
            found[scope_id].artifacts[family] = count
        for scope_id, kind, state, count in conn.execute(_entries(some)):
            found[scope_id].entries[kind, state] = count
        proposed = (
            sa.select(
                candidates.c.scope_id, candidates.c.family, candidates.c.status, sa.func.count()
            )
            .where(candidates.c.scope_id.in_(some))
            .group_by(candidates.c.scope_id, candidates.c.family, candidates.c.status)
        )
        for scope_id, family, status, count in conn.execute(proposed):
            found[scope_id].candidates[family, status] = count
    return found


def _entries(scope_ids: Sequence[str]) -> sa.Select[Any]:
    return (
        sa.select(
            manifest_spans.c.scope_id,
            entry_versions.c.kind,
            manifest_spans.c.state,
            sa.func.count(),
        )
        .join(
            entry_versions,
            sa.and_(
                entry_versions.c.scope_id == manifest_spans.c.scope_id,
                entry_versions.c.entry_version_id == manifest_spans.c.entry_version_id,
            ),
        )
        .where(manifest_spans.c.scope_id.in_(scope_ids), manifest_spans.c.to_revision.is_(None))
        .group_by(manifest_spans.c.scope_id, entry_versions.c.kind, manifest_spans.c.state)
    )


def costs(conn: sa.Connection, scope_ids: Sequence[str], *, since_us: int) -> dict[str, list[Cost]]:
    """What windows and dreams cost since a moment, by scope; scopes without any are absent."""
    found: dict[str, list[Cost]] = {}
    for some in _chunks(scope_ids):
        query = sa.select(
            windows.c.scope_id, windows.c.consumer, windows.c.answered_at, windows.c.usage
        ).where(windows.c.scope_id.in_(some), windows.c.answered_at >= since_us)
        for row in conn.execute(query.order_by(windows.c.window_id)):
            if row.usage:
                spent = row.usage["calls"], row.usage["tokens_in"], row.usage["tokens_out"]
                cost = Cost(row.consumer, _day(row.answered_at), *spent)
                found.setdefault(row.scope_id, []).append(cost)
        table = dream_runs
        dreamt = sa.select(table.c.scope_id, table.c.started_at, table.c.usage).where(
            table.c.scope_id.in_(some), table.c.started_at >= since_us
        )
        for scope_id, started_at, usage in conn.execute(dreamt.order_by(table.c.run_id)):
            if usage and usage["model_calls"]:
                tokens = usage["input_tokens"] or 0, usage["output_tokens"] or 0
                cost = Cost("dream", _day(started_at), usage["model_calls"], *tokens)
                found.setdefault(scope_id, []).append(cost)
    return found


def _day(time_us: int) -> date:
    return datetime.fromtimestamp(time_us / 1_000_000, UTC).date()


def _chunks(scope_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(scope_ids), _SOME):
        yield scope_ids[start : start + _SOME]
