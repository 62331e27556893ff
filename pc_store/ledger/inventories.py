"""Counts over scopes: what each holds, what waits, what models cost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import sqlalchemy as sa

from pc_store.domain.window import Consumer
from pc_store.ledger.schema import (
    artifacts,
    cursors,
    entry_versions,
    manifest_spans,
    source_heads,
    windows,
)

_SOME = 500


@dataclass
class Holdings:
    """What a scope holds; entries by (kind, state), artifacts with a revision by family."""

    sources: int = 0
    processed: int = 0
    artifacts: dict[str, int] = field(default_factory=dict)
    entries: dict[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True)
class Cost:
    """What one window's model calls cost, on the day (UTC) of the last answer."""

    consumer: Consumer
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
    """What windows answered since a moment cost, by scope; scopes without any are absent."""
    found: dict[str, list[Cost]] = {}
    for some in _chunks(scope_ids):
        query = sa.select(
            windows.c.scope_id, windows.c.consumer, windows.c.answered_at, windows.c.usage
        ).where(windows.c.scope_id.in_(some), windows.c.answered_at >= since_us)
        for row in conn.execute(query.order_by(windows.c.window_id)):
            if row.usage:
                found.setdefault(row.scope_id, []).append(
                    Cost(
                        row.consumer,
                        datetime.fromtimestamp(row.answered_at / 1_000_000, UTC).date(),
                        row.usage["calls"],
                        row.usage["tokens_in"],
                        row.usage["tokens_out"],
                    )
                )
    return found


def _chunks(scope_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(scope_ids), _SOME):
        yield scope_ids[start : start + _SOME]
