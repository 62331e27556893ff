"""Alembic migrations, run from code: a store brings itself up to date when it is opened."""

from pathlib import Path

import sqlalchemy as sa

from pc_store.errors import StoreUnavailable
from pc_store.ledger.database import Database

_LOCK_KEY = 7_219_331_042
"""PostgreSQL advisory lock held while migrating; any constant of our own."""


def head_revision() -> str:
    """The newest migration this code knows."""
    versions = Path(__file__).parent / "versions"
    return max(path.stem for path in versions.glob("[0-9]*.py")).split("_")[0]


def stored_revision(conn: sa.Connection) -> str | None:
    """The migration the database is at; None for an empty database."""
    if not sa.inspect(conn).has_table("alembic_version"):
        return None
    return conn.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one_or_none()


def upgrade(db: Database) -> None:
    """Bring the schema to `head_revision`, once, however many processes ask at the same time.

    Raises:
        StoreUnavailable: the schema is newer than this code.
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
        if stored is not None and stored > newest:
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
