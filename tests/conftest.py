"""Fixtures that tests of every part use: databases of both kinds, and an environment of their own.

A test that takes `database_url` or `new_database` runs twice, on SQLite and on Postgres. Where no
Postgres server can be had, the second half is skipped and the end of the report says so.
"""

import contextlib
import gc
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from postgres_server import (
    MEMORY_FOLDER,
    Build,
    NoServerError,
    memory_can_be_used,
    running_server,
)
from postgres_server import Databases as PostgresDatabases
from sqlalchemy.dialects.postgresql.psycopg2 import PGDialect_psycopg2
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import LRUCache

from pc_store.ledger.database import Database, open_database

pytest_plugins = ["model_stub", "extraction_rig", "recurrence_rig"]

GIVEN_POSTGRES = "PC_TEST_POSTGRES_URL"
WHY_NO_POSTGRES = pytest.StashKey[str]()

for name in list(os.environ):  # the caller's settings are not the tests'
    if name == "DAGSTER_HOME" or (name.startswith("PC_") and not name.startswith("PC_TEST_")):
        del os.environ[name]
os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as `pc` and the code location do
if memory_can_be_used():  # where pytest makes its folders: ledgers wait for no disk there
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY_FOLDER))

# Every test has databases of its own, so engines of its own, each of which would compile every
# statement anew: an eighth of all the time. Here engines of a kind share what they compiled.
COMPILED = LRUCache(2_000)
for kind in (SQLiteDialect_pysqlite, PGDialect_psycopg2):
    kind.__eq__ = lambda self, other: type(self) is type(other)
    kind.__hash__ = lambda self: hash(type(self))


@sa.event.listens_for(sa.Engine, "engine_connect")
def _share_what_was_compiled(connection: sa.Connection) -> None:
    connection.execution_options(compiled_cache=COMPILED)


@pytest.fixture(scope="session")
def postgres_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the URL of a Postgres server on which tests may create databases."""
    if given := os.environ.get(GIVEN_POSTGRES):
        yield re.sub(r"^postgres(ql)?(\+psycopg2)?://", "postgresql+psycopg2://", given)
        return
    with contextlib.ExitStack() as stack:
        try:
            url = stack.enter_context(running_server())
        except NoServerError as error:
            request.config.stash[WHY_NO_POSTGRES] = str(error)
            pytest.skip(f"no Postgres server: {error}")
        yield url


@pytest.fixture(scope="session")
def postgres_databases(postgres_url: str) -> Iterator[PostgresDatabases]:
    databases = PostgresDatabases(postgres_url)
    yield databases
    databases.close()


class SqliteDatabases:
    """Creates and drops databases that are files of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._templates: dict[Build, str] = {}

    def create(self, build: Build | None = None) -> str:
        """Return the URL of a new database: empty, or a copy of what `build` once made."""
        url = f"sqlite:///{self._folder / secrets.token_hex(8)}.db"
        if build is None:
            return url
        if build not in self._templates:
            template = self.create()
            build(template)
            left_open = Path(f"{self._path(template)}-wal").exists()
            assert not left_open, f"{build!r} left a connection open; its writes are not all there"
            self._templates[build] = template
        shutil.copyfile(self._path(self._templates[build]), self._path(url))
        return url

    def drop(self, url: str) -> None:
        """Delete the file and what SQLite keeps beside it."""
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{self._path(url)}{suffix}").unlink(missing_ok=True)

    @staticmethod
    def _path(url: str) -> Path:
        return Path(url.removeprefix("sqlite:///"))


@pytest.fixture(scope="session")
def sqlite_databases(tmp_path_factory: pytest.TempPathFactory) -> SqliteDatabases:
    return SqliteDatabases(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture(params=["sqlite", "postgres"])
def new_database(request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """Yield a maker of databases that last as long as the test.

    `new_database()` returns the URL of an empty one, `new_database(migrate)` of a copy of what
    `migrate(url)` made of an empty one; it is called once a session.
    """
    databases = request.getfixturevalue(f"{request.param}_databases")
    made: list[str] = []

    def create(build: Build | None = None) -> str:
        made.append(databases.create(build))
        return made[-1]

    yield create
    for url in made:
        databases.drop(url)


@pytest.fixture
def database_url(new_database: Callable[..., str]) -> str:
    """Return the URL of a new database with nothing in it."""
    return new_database()


def migrated(url: str) -> None:
    """Give an empty database the newest schema."""
    open_database(url).close()


@pytest.fixture
def db(new_database: Callable[..., str]) -> Iterator[Database]:
    """Yield an empty ledger, once on each kind of database."""
    database = open_database(new_database(migrated))
    yield database
    database.close()


def pytest_collection_finish() -> None:
    """Look for cycles seldom, and never among the modules: that took a seventh of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly that half of the database tests did not run."""
    if reason := terminalreporter.config.stash.get(WHY_NO_POSTGRES, None):
        message = f"POSTGRES HALF SKIPPED: {reason}"
        terminalreporter.section("warning", yellow=True, bold=True)
        terminalreporter.line(message, yellow=True, bold=True)
