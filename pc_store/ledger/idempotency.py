"""Answers kept for idempotency keys: a key is taken, then answered, then forgotten."""

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from pc_store.ledger.schema import idempotent_answers

_DROPPED_AT_ONCE = 100
"""Most outlived answers one request takes away, so that none of them waits for long."""


@dataclass(frozen=True)
class RequestKey:
    """Whose request it is, to which route, under which key."""

    principal: str
    route: str
    key: str


@dataclass(frozen=True)
class Kept:
    """What is known under a key; `status` and `answer` are None while the request is at work."""

    digest: str
    status: int | None
    answer: str | None
    created_at: int


def take(conn: sa.Connection, name: RequestKey, *, digest: str, now_us: int) -> Kept | None:
    """Take a key, or return what is known under it, locked until the transaction ends.

    Waits for a transaction that is taking the same key.
    """
    row = {"principal": name.principal, "route": name.route, "key": name.key}
    try:
        with conn.begin_nested():
            conn.execute(
                sa.insert(idempotent_answers).values(**row, digest=digest, created_at=now_us)
            )
    except IntegrityError:
        query = sa.select(idempotent_answers).where(*_is(name)).with_for_update()
        known = conn.execute(query).one_or_none()
        if known is not None:
            return Kept(known.digest, known.status, known.answer, known.created_at)
        return take(conn, name, digest=digest, now_us=now_us)  # it was dropped in between
    return None


def answer(conn: sa.Connection, name: RequestKey, *, status: int, text: str) -> None:
    """Keep the answer of the request that took a key."""
    conn.execute(sa.update(idempotent_answers).where(*_is(name)).values(status=status, answer=text))


def drop(conn: sa.Connection, name: RequestKey) -> None:
    """Free a key."""
    conn.execute(sa.delete(idempotent_answers).where(*_is(name)))


def drop_before(conn: sa.Connection, moment_us: int) -> None:
    """Free some of the keys taken before a moment, the oldest first."""
    table = idempotent_answers
    old = (
        sa.select(table.c.principal, table.c.route, table.c.key)
        .where(table.c.created_at < moment_us)
        .order_by(table.c.created_at, table.c.principal, table.c.route, table.c.key)
        .limit(_DROPPED_AT_ONCE)
        .with_for_update(skip_locked=True)
    )
    for row in conn.execute(old).all():
        drop(conn, RequestKey(row.principal, row.route, row.key))


def replace_naming(conn: sa.Connection, entry_id: str, *, status: int, text: str) -> None:
    """Put another answer in the place of all that name an entry."""
    table = idempotent_answers
    conn.execute(
        sa.update(table)
        .where(table.c.answer.contains(entry_id, autoescape=True))
        .values(status=status, answer=text)
    )


def _is(name: RequestKey) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        idempotent_answers.c.principal == name.principal,
        idempotent_answers.c.route == name.route,
        idempotent_answers.c.key == name.key,
    )
