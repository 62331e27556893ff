"""Bindings: which scope an id of another system stands for."""

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from pc_store.domain.scope import BindingKey
from pc_store.ledger.schema import scope_bindings


def get(conn: sa.Connection, key: BindingKey) -> str | None:
    """The scope a key is bound to; None when it is not."""
    query = sa.select(scope_bindings.c.scope_id).where(*_is(key))
    return conn.execute(query).scalar_one_or_none()


def put(conn: sa.Connection, key: BindingKey, scope_id: str, *, now_us: int) -> None:
    """Bind a key, in place of an earlier binding."""
    change = sa.update(scope_bindings).where(*_is(key)).values(scope_id=scope_id, bound_at=now_us)
    if conn.execute(change).rowcount:
        return
    row = {"integration": key.integration, "kind": key.kind, "external_id": key.external_id}
    try:
        with conn.begin_nested():
            conn.execute(
                sa.insert(scope_bindings).values(**row, scope_id=scope_id, bound_at=now_us)
            )
    except IntegrityError:  # another writer bound it in the meantime; the last one wins
        conn.execute(change)


def drop(conn: sa.Connection, key: BindingKey) -> bool:
    """Unbind a key; False when it was not bound."""
    return conn.execute(sa.delete(scope_bindings).where(*_is(key))).rowcount == 1


def bound_scopes(
    conn: sa.Connection,
    *,
    integration: str | None = None,
    kind: str | None = None,
    external_id_part: str | None = None,
) -> set[str]:
    """Scopes with a binding that has all of what is given; the part compares case-sensitively."""
    query = sa.select(scope_bindings.c.scope_id, scope_bindings.c.external_id)
    if integration is not None:
        query = query.where(scope_bindings.c.integration == integration)
    if kind is not None:
        query = query.where(scope_bindings.c.kind == kind)
    return {
        row.scope_id
        for row in conn.execute(query)
        if external_id_part is None or external_id_part in row.external_id
    }


def _is(key: BindingKey) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        scope_bindings.c.integration == key.integration,
        scope_bindings.c.kind == key.kind,
        scope_bindings.c.external_id == key.external_id,
    )
