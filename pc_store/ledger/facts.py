"""Facts of the store as a whole: single values by name."""

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from pc_store.ledger.schema import store_facts


def get(conn: sa.Connection, name: str) -> str | None:
    """A fact's value; None when it was never put."""
    query = sa.select(store_facts.c.value).where(store_facts.c.name == name)
    return conn.execute(query).scalar_one_or_none()


def put(conn: sa.Connection, name: str, value: str) -> None:
    """Set a fact, in place of an earlier value."""
    if put_once(conn, name, value) != value:
        conn.execute(sa.update(store_facts).where(store_facts.c.name == name).values(value=value))


def put_once(conn: sa.Connection, name: str, value: str) -> str:
    """Set a fact unless it is set, and return what it is now."""
    known = get(conn, name)
    if known is not None:
        return known
    try:
        with conn.begin_nested():
            conn.execute(sa.insert(store_facts).values(name=name, value=value))
    except IntegrityError:  # another writer was first
        known = get(conn, name)
        assert known is not None
        return known
    return value
