"""The log of recalls: what was asked for, by its digest, and what was delivered of what was found.

It holds references, sizes and reasons, no query and no text.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime
from typing import Any, Literal

import sqlalchemy as sa

from pc_store.domain.refs import SourceRef
from pc_store.ledger.schema import recalls, sources

Surface = Literal["search", "experience_search", "prepare_context"]

PREFIX = "rcl_"
_DAY_US = 86_400_000_000
_SOME = 500


@dataclass(frozen=True)
class Recall:
    """One row; see `schema.recalls` for what the columns say."""

    recall_id: str
    scope_id: str
    surface: Surface
    query_digest: str
    mode: str | None
    hits: list[dict[str, Any]]
    dropped: dict[str, Any]
    max_bytes: int | None
    content_bytes: int | None
    tokens: int | None
    baseline_tokens: int | None
    took_us: int
    recalled_at: int


@dataclass(frozen=True)
class Preparations:
    """What the contexts that were prepared on one day (UTC) for one scope come to.

    Attributes:
        ready: those that had something to deliver.
        comparable: those of which every item was made from sources; the tokens are theirs.
    """

    day: date
    total: int
    ready: int
    comparable: int
    baseline_tokens: int
    recalled_tokens: int


_COLUMNS = [recalls.c[field.name] for field in fields(Recall)]


def insert(conn: sa.Connection, rows: Sequence[Recall]) -> None:
    """Add rows; their ids are new."""
    if rows:
        conn.execute(sa.insert(recalls), [asdict(row) for row in rows])


def page(
    conn: sa.Connection, scope_id: str, *, before: str | None = None, limit: int
) -> list[Recall]:
    """The recalls of a scope, newest first, before the given id."""
    query = sa.select(*_COLUMNS).where(recalls.c.scope_id == scope_id)
    if before is not None:
        query = query.where(recalls.c.recall_id < before)
    query = query.order_by(recalls.c.recall_id.desc()).limit(limit)
    return [Recall(**row._mapping) for row in conn.execute(query)]


def drop_before(conn: sa.Connection, moment_us: int, *, most: int) -> int:
    """Drop recalls of before a moment, the oldest first, at most `most`; how many there were."""
    old = (
        sa.select(recalls.c.recall_id)
        .where(recalls.c.recall_id < f"{PREFIX}{moment_us:014x}")
        .order_by(recalls.c.recall_id)
        .limit(most)
    )
    return conn.execute(sa.delete(recalls).where(recalls.c.recall_id.in_(old))).rowcount


def preparations(
    conn: sa.Connection, scope_ids: Sequence[str], *, since_us: int
) -> dict[str, list[Preparations]]:
    """What was prepared since a moment, by scope, a row for each day; idle scopes are absent."""
    ready = sa.case((recalls.c.content_bytes > 0, 1), else_=0)
    comparable = sa.case((recalls.c.baseline_tokens.is_not(None), 1), else_=0)
    recalled = sa.case((recalls.c.baseline_tokens.is_not(None), recalls.c.tokens), else_=0)
    day = (recalls.c.recalled_at // _DAY_US).label("day")
    found: dict[str, list[Preparations]] = {}
    for some in _chunks(scope_ids):
        query = (
            sa.select(
                recalls.c.scope_id,
                day,
                sa.func.count(),
                sa.func.sum(ready),
                sa.func.sum(comparable),
                sa.func.coalesce(sa.func.sum(recalls.c.baseline_tokens), 0),
                sa.func.sum(recalled),
            )
            .where(
                recalls.c.scope_id.in_(some),
                recalls.c.surface == "prepare_context",
                recalls.c.recalled_at >= since_us,
            )
            .group_by(recalls.c.scope_id, day)
            .order_by(recalls.c.scope_id, day)
        )
        for scope_id, number, *counts in conn.execute(query):
            when = datetime.fromtimestamp(number * (_DAY_US // 1_000_000), UTC).date()
            found.setdefault(scope_id, []).append(Preparations(when, *map(int, counts)))
    return found


def source_tokens(
    conn: sa.Connection, scope_id: str, refs: Iterable[SourceRef]
) -> dict[SourceRef, int]:
    """Estimated tokens of some sources of a scope; those that are not there are absent."""
    by_type: dict[str, list[str]] = {}
    for ref in refs:
        by_type.setdefault(ref.source_type, []).append(ref.source_id)
    found: dict[SourceRef, int] = {}
    for source_type, ids in by_type.items():
        for some in _chunks(ids):
            query = sa.select(sources.c.source_id, sources.c.tokens).where(
                sources.c.scope_id == scope_id,
                sources.c.source_type == source_type,
                sources.c.source_id.in_(some),
            )
            for source_id, tokens in conn.execute(query):
                found[SourceRef(source_type, source_id)] = int(tokens)
    return found


def _chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(values), _SOME):
        yield values[start : start + _SOME]
