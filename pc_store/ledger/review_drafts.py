"""Drafts of reviews: one row a review says what a model was asked for it, and what came of that."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from pc_store.domain.proposal import Usage
from pc_store.domain.recurrence import is_draft
from pc_store.ledger.schema import (
    candidate_versions,
    candidates,
    experience_documents,
    review_drafts,
)

Status = Literal["waiting", "asked", "failed", "drafted", "unsupported", "overtaken"]
_OPEN = ("waiting", "asked", "failed")
_TABLE = review_drafts


@dataclass(frozen=True)
class DraftRow:
    """What a model was asked for one review; see the table for what each is."""

    scope_id: str
    candidate_id: str
    version: int
    status: Status
    attempts: int = 0
    due_at: int = 0
    why: str | None = None
    model: str | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    updated_at: int = 0


def want(
    conn: sa.Connection, scope_id: str, candidate_id: str, *, version: int, now_us: int
) -> None:
    """Let a draft be asked for, on the evidence that a review has at a version; nothing counts yet.

    The caller holds the lock of the scope's recurrences.
    """
    fresh = {
        "version": version,
        "status": "waiting",
        "attempts": 0,
        "due_at": now_us,
        "why": None,
        "updated_at": now_us,
    }
    known = conn.execute(sa.update(_TABLE).where(*_key(scope_id, candidate_id)).values(fresh))
    if known.rowcount == 0:
        row = DraftRow(scope_id, candidate_id, version, "waiting")
        conn.execute(sa.insert(_TABLE).values(vars(row) | fresh))


def due(
    conn: sa.Connection,
    scope_id: str | None,
    *,
    attempts_max: int,
    now_us: int,
    early: bool = False,
    limit: int,
) -> list[DraftRow]:
    """Drafts to be asked for, of pending reviews of active heads, the longest due first.

    Args:
        scope_id: None for all scopes.
        attempts_max: those that failed so often are left alone.
        early: those that failed before, too, although their next attempt is later.
    """
    heads = experience_documents
    moment = _TABLE.c.due_at <= now_us
    query = (
        sa.select(_TABLE)
        .join(
            candidates,
            sa.and_(
                candidates.c.scope_id == _TABLE.c.scope_id,
                candidates.c.candidate_id == _TABLE.c.candidate_id,
                candidates.c.status == "pending",
            ),
        )
        .join(
            heads,
            sa.and_(
                heads.c.scope_id == candidates.c.scope_id,
                heads.c.artifact_id == candidates.c.target_id,
                heads.c.revision == candidates.c.target_revision,
            ),
        )
        .where(
            _TABLE.c.status.in_(_OPEN),
            _TABLE.c.attempts < attempts_max,
            sa.or_(moment, _TABLE.c.status == "failed") if early else moment,
        )
        .order_by(_TABLE.c.due_at, _TABLE.c.scope_id, _TABLE.c.candidate_id)
        .limit(limit)
    )
    if scope_id is not None:
        query = query.where(_TABLE.c.scope_id == scope_id)
    return [_row(row) for row in conn.execute(query)]


def begin(conn: sa.Connection, seen: DraftRow, *, model: str, until_us: int, now_us: int) -> bool:
    """Count an attempt and keep others from making it; False when it is not as `seen` any more."""
    return _moved(
        conn,
        seen,
        {
            "status": "asked",
            "attempts": seen.attempts + 1,
            "due_at": until_us,
            "model": model,
            "updated_at": now_us,
        },
    )


def end(
    conn: sa.Connection,
    seen: DraftRow,
    status: Status,
    *,
    why: str | None = None,
    due_us: int = 0,
    now_us: int,
) -> bool:
    """Say what came of an attempt; False when the review has grown, or another was begun, since."""
    told = {"status": status, "why": why, "due_at": due_us, "updated_at": now_us}
    return _moved(conn, seen, told)


def spend(conn: sa.Connection, of: DraftRow, usage: Usage) -> None:
    """Add what an attempt cost, whatever became of it."""
    if not (usage.tokens_in or usage.tokens_out):
        return
    conn.execute(
        sa.update(_TABLE)
        .where(*_key(of.scope_id, of.candidate_id))
        .values(
            tokens_in=_TABLE.c.tokens_in + usage.tokens_in,
            tokens_out=_TABLE.c.tokens_out + usage.tokens_out,
        )
    )


def get(conn: sa.Connection, scope_id: str, candidate_id: str) -> DraftRow | None:
    """The row of a review; None for a candidate that is none."""
    query = sa.select(_TABLE).where(*_key(scope_id, candidate_id))
    row = conn.execute(query).one_or_none()
    return None if row is None else _row(row)


def drafted(conn: sa.Connection, scope_id: str, candidate_ids: Collection[str]) -> dict[str, str]:
    """The author of the draft whose words each of some reviews, at most 500, says now.

    One that says something else, or was never drafted, is left out.
    """
    table = candidate_versions
    query = (
        sa.select(table.c.candidate_id, table.c.author, table.c.proposal)
        .where(table.c.scope_id == scope_id, table.c.candidate_id.in_(sorted(candidate_ids)))
        .order_by(table.c.candidate_id, table.c.version)
    )
    said: dict[str, tuple[str, Any]] = {}
    for candidate_id, author, proposal in conn.execute(query):
        if candidate_id not in said or said[candidate_id][1] != proposal:
            said[candidate_id] = author, proposal
    return {name: author for name, (author, _) in said.items() if is_draft(author)}


def _moved(conn: sa.Connection, seen: DraftRow, values: dict[str, Any]) -> bool:
    moved = conn.execute(
        sa.update(_TABLE)
        .where(
            *_key(seen.scope_id, seen.candidate_id),
            _TABLE.c.version == seen.version,
            _TABLE.c.attempts == seen.attempts,
            _TABLE.c.status == seen.status,
        )
        .values(values)
    )
    return moved.rowcount == 1


def _key(scope_id: str, candidate_id: str) -> tuple[sa.ColumnElement[bool], ...]:
    return _TABLE.c.scope_id == scope_id, _TABLE.c.candidate_id == candidate_id


def _row(row: sa.Row[Any]) -> DraftRow:
    return DraftRow(**row._mapping)
