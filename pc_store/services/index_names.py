"""How many shards the search index has, and what they are called, for who does not open it."""

from contextlib import suppress
from pathlib import Path

import sqlalchemy as sa

from pc_store.errors import StoreError
from pc_store.ledger import facts
from pc_store.ledger.database import Database
from pc_store.ledger.terms import SHARDS_FACT
from pc_store.settings import Settings


def stored_shards(conn: sa.Connection) -> int | None:
    """How many shards this ledger's index has; None before its first build."""
    kept = facts.get(conn, SHARDS_FACT)
    return int(kept) if kept is not None else None


def shard_name(shard: int) -> str:
    """`s00`, `s01` …"""
    return f"s{shard:02d}"


def shard_number(name: str) -> int:
    """The shard of a name that `shard_name` gave."""
    return int(name.removeprefix("s"))


def shard_names(settings: Settings) -> list[str]:
    """The names of all shards, for who has no ledger open.

    The ledger is asked how many there are, but it is not made: where it cannot be read, the
    settings say what its first build will fix.
    """
    count = None
    url = sa.make_url(settings.ledger_url)
    if url.get_backend_name() != "sqlite" or Path(url.database or "").exists():
        with suppress(StoreError, sa.exc.SQLAlchemyError):
            db = Database(settings.ledger_url, wait_s=settings.database_wait_s)
            try:
                with db.read() as conn:
                    count = stored_shards(conn)
            finally:
                db.close()
    return [shard_name(number) for number in range(count or settings.index_shards)]
