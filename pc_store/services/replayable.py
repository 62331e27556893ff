"""Execute a request once per idempotency key, and answer it the same way again for 24 hours.

Keys belong to a principal and a route. Only answers are kept, not errors: a request that raised
wrote nothing and may be sent again with its key.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from pc_store import limits
from pc_store.domain import strict_json
from pc_store.domain.text import identifier
from pc_store.errors import IdempotencyConflict
from pc_store.ledger import idempotency
from pc_store.ledger.database import Database
from pc_store.ledger.idempotency import RequestKey

KEY_MAX_CHARS = limits.IDEMPOTENCY_KEY_MAX_CHARS
KEPT_S = 86_400
ABANDONED_S = 900
"""After this long a request `once_around_model` began is taken for dead, and its key is free."""


@dataclass(frozen=True)
class Answer:
    """An HTTP answer: its status and its JSON body. `replayed` when it was kept from before."""

    status: int
    body: Any
    replayed: bool = False


def once(
    db: Database,
    *,
    principal: str,
    route: str,
    key: str | None,
    body: Any,
    act: Callable[[Database], Answer],
    now_us: int,
) -> Answer:
    """Answer a request, executing it only if its key is new; with no key just execute it.

    `act` is given a database that joins one write transaction, in which the key is taken and
    the answer kept, so all of it is written or none. It must not call a model. Of requests
    that come at the same time one executes, the others wait and get its answer.

    Args:
        principal: who asks, "" without authentication.
        route: method and path, such as `POST /v1/memory/remember`.
        body: JSON value; what makes two requests the same.

    Raises:
        InvalidInput: the key is blank, unstorable or over 256 characters.
        IdempotencyConflict: the key was used with another body.
    """
    if key is None:
        return act(db)
    name, digest = _named(principal, route, key), strict_json.digest(body)
    with db.joined() as joined, joined.write() as conn:
        kept = _taken(conn, name, digest, now_us)
        if kept is not None:
            return kept
        done = act(joined)
        idempotency.answer(conn, name, status=done.status, text=strict_json.dumps(done.body))
    return done


def once_around_model(
    db: Database,
    *,
    principal: str,
    route: str,
    key: str | None,
    body: Any,
    act: Callable[[], Answer],
    now_us: int,
) -> Answer:
    """Like `once`, for requests that call a model (flush, drain, replay): no transaction is open.

    The key is taken before and the answer kept after, in transactions of their own.

    Raises:
        InvalidInput, IdempotencyConflict: as `once`; or a request with this key is at work.
    """
    if key is None:
        return act()
    name, digest = _named(principal, route, key), strict_json.digest(body)
    with db.write() as conn:
        kept = _taken(conn, name, digest, now_us)
    if kept is not None:
        return kept
    try:
        done = act()
    except BaseException:
        with db.write() as conn:
            idempotency.drop(conn, name)
        raise
    with db.write() as conn:
        idempotency.answer(conn, name, status=done.status, text=strict_json.dumps(done.body))
    return done


def _named(principal: str, route: str, key: str) -> RequestKey:
    return RequestKey(principal, route, identifier("Idempotency-Key", key, KEY_MAX_CHARS))


def _taken(conn: sa.Connection, name: RequestKey, digest: str, now_us: int) -> Answer | None:
    """Take the key and return None, or return the answer kept under it."""
    idempotency.drop_before(conn, now_us - KEPT_S * 1_000_000)
    while True:
        kept = idempotency.take(conn, name, digest=digest, now_us=now_us)
        if kept is None:
            return None
        age_s = (now_us - kept.created_at) / 1_000_000
        if age_s > KEPT_S or (kept.status is None and age_s > ABANDONED_S):
            idempotency.drop(conn, name)
            continue
        if kept.digest != digest:
            raise IdempotencyConflict(
                f"the idempotency key {name.key!r} was used for another request to {name.route}",
                reason="other request",
            )
        if kept.status is None or kept.answer is None:
            raise IdempotencyConflict(
                f"the request with the idempotency key {name.key!r} is still at work",
                reason="in progress",
            )
        return Answer(kept.status, json.loads(kept.answer), replayed=True)
