"""The tests' own database servers: they run, they are empty, copies are true, nothing is left."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import postgres_server
import pytest
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

NewDatabase = Callable[..., str]


def ask(url: str, question: str) -> object:
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        return connection.execute(text(question)).scalar()


def tables(url: str) -> list[str]:
    return inspect(create_engine(url, poolclass=NullPool)).get_table_names()


def build_shelf(url: str) -> None:
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE shelf (title VARCHAR NOT NULL)"))
        connection.execute(text("INSERT INTO shelf VALUES ('书')"))


def test_the_server_answers(postgres_url: str) -> None:
    assert str(ask(postgres_url, "SELECT version()")).startswith("PostgreSQL ")


def test_a_database_is_empty_and_stores_any_text(database_url: str) -> None:
    assert tables(database_url) == []
    build_shelf(database_url)
    assert ask(database_url, "SELECT title FROM shelf") == "书"


def test_copies_of_a_built_database_do_not_see_each_other(new_database: NewDatabase) -> None:
    one, other = new_database(build_shelf), new_database(build_shelf)
    ask(one, "DELETE FROM shelf RETURNING 1")
    assert ask(one, "SELECT count(*) FROM shelf") == 0
    assert ask(other, "SELECT count(*) FROM shelf") == 1


def test_a_database_is_built_once_a_session(new_database: NewDatabase) -> None:
    calls = []

    def build(url: str) -> None:
        calls.append(url)
        build_shelf(url)

    copies = {new_database(build), new_database(build)}
    assert len(copies) == 2
    assert len(calls) == 1


def test_a_postgres_database_is_dropped_though_a_connection_is_open(postgres_url: str) -> None:
    databases = postgres_server.Databases(postgres_url)
    url = databases.create()
    engine = create_engine(url)
    connection = engine.connect()
    assert connection.execute(text("SELECT 1")).scalar() == 1
    databases.drop(url)
    databases.close()
    connection.invalidate()
    engine.dispose()
    with pytest.raises(OperationalError, match="does not exist"):
        ask(url, "SELECT 1")


@pytest.mark.parametrize("binaries", postgres_server.installations(), ids=str)
def test_a_killed_session_leaves_neither_server_nor_files(binaries: Path) -> None:
    session = (
        "import pathlib, sys, time\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "import postgres_server as s\n"
        "s.installations = lambda: [pathlib.Path(sys.argv[1])]\n"
        "with s.running_server() as url: print(url, flush=True); time.sleep(300)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", session, str(binaries), str(Path(__file__).parent)],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        home = Path(str(ask(url, "SHOW data_directory"))).parent
        process.kill()
    deadline = time.monotonic() + 30
    while home.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not home.exists()
    with pytest.raises(OperationalError, match="refused"):
        ask(url, "SELECT 1")
