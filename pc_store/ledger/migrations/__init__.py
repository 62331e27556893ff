"""Alembic migrations, run from code: a store brings itself up to date when it is opened."""

import re
from pathlib import Path

import sqlalchemy as sa

from pc_store.errors import StoreUnavailable
from pc_store.ledger.database import Database
from pc_store.ledger.schema import metadata

VERSION_TABLE = "pc_alembic_version"
"""Not Alembic's default name, which Dagster's storage uses: one database can hold both."""
_LOCK_KEY = 7_219_331_042
"""PostgreSQL advisory lock held while migrating; any constant of our own."""


def known_revisions() -> list[str]:
    """The migrations this code knows, oldest first."""
    versions = Path(__file__).parent / "versions"
    return sorted(path.stem.split("_")[0] for path in versions.glob("[0-9]*.py"))


def head_revision() -> str:
    """The newest migration this code knows."""
    return known_revisions()[-1]


def stored_revision(conn: sa.Connection) -> str | None:
    """The migration the database is at; None for an empty database.

    Raises:
        StoreUnavailable: the database is another program's.
    """
    tables = set(sa.inspect(conn).get_table_names())
    if VERSION_TABLE not in tables:
        if shared := sorted(tables & set(metadata.tables)):
            raise StoreUnavailable(
                f"the database holds another program's table {shared[0]!r}: the ledger needs a "
                "database of its own"
            )
        return None
    version = sa.column("version_num", sa.String)
    query = sa.select(version).select_from(sa.table(VERSION_TABLE))
    found = conn.execute(query).scalars().all()
    if len(found) > 1 or (found and not re.fullmatch("[0-9]{4}", found[0])):
        raise StoreUnavailable(
            f"the database is at schema {', '.join(found)}, which is another program's: the "
            "ledger needs a database of its own"
        )
    return found[0] if found else None


def upgrade(db: Database) -> None:
    """Bring the schema to `head_revision`, once, however many processes ask at the same time.

    Raises:
        StoreUnavailable: the schema is newer than this code, or another program's.
    """
    newest = head_revision()
    with db.read() as conn:
        if stored_revision(conn) == newest:
            return
    with db.write() as conn:
        if not db.is_sqlite:
            conn.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK_KEY})")
        stored = stored_revision(conn)
        if stored == newest:
            return
        if stored is not None and stored not in known_revisions():
            raise StoreUnavailable(
                f"the ledger is at schema {stored}, this version of the program knows {newest}: "
                "upgrade the program"
            )
        _run(conn)


def _run(conn: sa.Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = conn
    command.upgrade(config, "head")
