"""The migrations lead to the schema, once, whoever opens the store; what is no store is refused."""

import re
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext

from pc_store.errors import InvalidInput, StoreUnavailable
from pc_store.ledger import migrations, scopes
from pc_store.ledger.database import Database, open_database
from pc_store.ledger.migrations import VERSION_TABLE
from pc_store.ledger.schema import metadata, sources
from pc_store.services import administer

NOW = 1_700_000_000_000_000
OPEN = "import sys; from pc_store.ledger.database import open_database as o; o(sys.argv[1]).close()"


def created(url):
    """Make the tables from the schema, without migrations."""
    database = Database(url)
    metadata.create_all(database.engine)
    database.close()


def picture(url):
    """All that a database says of its tables, indexes and constraints."""
    engine = Database(url).engine
    with engine.connect() as conn:
        inspector = sa.inspect(conn)
        tables = {}
        for table in sorted(set(inspector.get_table_names()) - {VERSION_TABLE}):
            columns = [
                {**column, "type": repr(column["type"])} for column in inspector.get_columns(table)
            ]
            comment = inspector.get_table_comment(table) if conn.dialect.name != "sqlite" else {}
            tables[table] = {
                "columns": columns,
                "key": inspector.get_pk_constraint(table),
                "unique": sorted(inspector.get_unique_constraints(table), key=str),
                "comment": comment,
            }
        if conn.dialect.name == "sqlite":
            query = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        else:
            query = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"
        indexes = {
            name: " ".join(sql.split())
            for name, sql in conn.exec_driver_sql(query).all()
            if not name.startswith(VERSION_TABLE)
        }
    engine.dispose()
    return tables, indexes


def migrate_to(url, revision):
    config = Config()
    config.set_main_option("script_location", str(next(iter(migrations.__path__))))
    database = Database(url)
    with database.write() as conn:
        config.attributes["connection"] = conn
        command.upgrade(config, revision)
    database.close()


def refusal(url, error=StoreUnavailable):
    with pytest.raises(error) as caught:
        open_database(url, wait_s=1)
    return caught.value.message


def test_the_migrations_lead_exactly_to_the_schema(new_database):
    migrated, direct = new_database(), new_database()
    open_database(migrated).close()
    created(direct)
    assert picture(migrated) == picture(direct)
    assert sorted(picture(migrated)[0]) == sorted(metadata.tables)
    database = Database(migrated)
    with database.engine.connect() as conn:
        options = {
            "compare_type": True,
            "compare_server_default": True,
            "version_table": VERSION_TABLE,
        }
        context = MigrationContext.configure(conn, opts=options)
        assert compare_metadata(context, metadata) == []
    database.close()


def test_a_scope_has_one_open_live_window_a_consumer_and_the_database_sees_to_it(database_url):
    open_database(database_url).close()
    definition = picture(database_url)[1]["uq_windows_open"]
    found = re.fullmatch(r"CREATE UNIQUE INDEX uq_windows_open ON (.*) WHERE (.*)", definition)
    assert re.sub(r"public\.| USING btree", "", found[1]) == "windows (scope_id, consumer)"
    assert re.findall(r"'([a-z]+)'", found[2]) == ["live", "planned", "running", "failed"]


def test_opening_again_changes_nothing(database_url):
    first = open_database(database_url)
    scope = administer.create_scope(first, "orders", now_us=NOW)
    before = picture(database_url)
    again = open_database(database_url)
    assert administer.get_scope(again, "orders") == scope
    with again.read() as conn:
        versions = conn.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalars().all()
    assert versions == [migrations.head_revision()]
    assert picture(database_url) == before
    first.close()
    again.close()


@pytest.mark.parametrize("stop", migrations.known_revisions()[:-1])
def test_a_store_of_any_earlier_version_is_brought_up_to_date_with_its_rows(new_database, stop):
    url, fresh = new_database(), new_database()
    migrate_to(url, stop)
    old = Database(url)
    with old.write() as conn:
        conn.exec_driver_sql("INSERT INTO store_facts (name, value) VALUES ('id', 'kept')")
    old.close()
    opened = open_database(url)
    with opened.read() as conn:
        assert conn.exec_driver_sql("SELECT name, value FROM store_facts").all() == [("id", "kept")]
    opened.close()
    open_database(fresh).close()
    assert picture(url) == picture(fresh)


def test_task_outcomes_of_an_earlier_version_are_marked(new_database):
    url = new_database()
    migrate_to(url, "0006")
    columns = "scope_id, position, source_type, source_id, content, digest, tokens, received_at"
    told = '{"kind":"task-outcome"}'
    rows = [
        (1, "content", told, "false", "NULL"),
        (2, "content", '{"a":{"kind":"task-outcome"}}', "false", "NULL"),
        (3, "other", told, "false", "NULL"),
        (4, "content", told, "true", "NULL"),
        (5, "content", told, "false", "'receipt'"),
        (6, "content", '{"a":1,"kind":"task-outcome"}', "false", "NULL"),
    ]
    old = Database(url)
    with old.write() as conn:
        for at, source_type, metadata, internal, role in rows:
            conn.exec_driver_sql(
                f"INSERT INTO sources ({columns}, metadata, internal, role) VALUES ('shop', {at}, "
                f"'{source_type}', 's{at}', 'c', 'd', 1, 1, '{metadata}', {internal}, {role})"
            )
    old.close()
    opened = open_database(url)
    query = sa.select(sources.c.position).where(sources.c.kind == "task-outcome")
    with opened.read() as conn:
        assert sorted(conn.execute(query).scalars()) == [1, 6]
    opened.close()


def test_threads_that_open_an_empty_database_at_once_all_succeed(database_url):
    def work(number):
        database = open_database(database_url)
        scope = administer.create_scope(database, f"scope {number}", now_us=NOW)
        database.close()
        return scope.scope_id

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(work, range(8)))
    database = open_database(database_url)
    with database.read() as conn:
        assert [scope.scope_id for scope in scopes.each(conn)] == sorted(made)
    database.close()


def test_processes_that_open_an_empty_database_at_once_all_succeed(new_database):
    url, fresh = new_database(), new_database()
    starting = [
        subprocess.Popen([sys.executable, "-c", OPEN, url], stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    ended = [(process.communicate(timeout=60)[1], process.returncode) for process in starting]
    assert ended == [("", 0)] * 3
    open_database(fresh).close()
    assert picture(url) == picture(fresh)


def test_a_schema_newer_than_the_program_is_refused(database_url):
    database = open_database(database_url)
    with database.write() as conn:
        conn.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    database.close()
    assert refusal(database_url) == (
        "the ledger is at schema 9999, this version of the program knows "
        f"{migrations.head_revision()}: upgrade the program"
    )


@pytest.mark.parametrize("versions", [["7e2f3204cf8e"], ["0002", "7e2f3204cf8e"], ["0002abc"]])
def test_a_database_that_another_program_migrates_is_refused_and_left_alone(database_url, versions):
    database = Database(database_url)
    with database.write() as conn:
        conn.exec_driver_sql(f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL)")
        for version in versions:
            conn.exec_driver_sql(f"INSERT INTO {VERSION_TABLE} VALUES ('{version}')")
    database.close()
    before = picture(database_url)
    assert refusal(database_url).endswith(
        "which is another program's: the ledger needs a database of its own"
    )
    assert picture(database_url) == before


def test_a_program_that_keeps_its_own_alembic_version_in_the_same_database_is_left_alone(
    database_url,
):
    database = Database(database_url)
    with database.write() as conn:
        conn.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        conn.exec_driver_sql("INSERT INTO alembic_version VALUES ('7e2f3204cf8e')")
    database.close()
    for _ in range(2):
        opened = open_database(database_url)
        with opened.read() as conn:
            kept = conn.exec_driver_sql("SELECT version_num FROM alembic_version").scalars().all()
        opened.close()
        assert kept == ["7e2f3204cf8e"]


def test_a_database_with_another_programs_table_of_the_same_name_is_refused(database_url):
    database = Database(database_url)
    with database.write() as conn:
        conn.exec_driver_sql("CREATE TABLE sources (id INTEGER)")
    database.close()
    before = picture(database_url)
    assert refusal(database_url) == (
        "the database holds another program's table 'sources': the ledger needs a database of "
        "its own"
    )
    assert picture(database_url) == before


@pytest.mark.parametrize("content", [b"not a database, but a text of some length" * 100, b"short"])
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "ledger.db"
    path.write_bytes(content)
    assert refusal(f"sqlite:///{path}") == "the ledger cannot be used: file is not a database"
    assert path.read_bytes() == content


def test_a_damaged_ledger_is_refused(tmp_path):
    path = tmp_path / "ledger.db"
    open_database(f"sqlite:///{path}").close()
    content = bytearray(path.read_bytes())
    content[100:4_096] = b"\xff" * 3_996
    path.write_bytes(content)
    assert refusal(f"sqlite:///{path}") == (
        "the ledger cannot be used: database disk image is malformed"
    )


def test_a_path_that_cannot_be_opened_is_refused(tmp_path):
    assert refusal(f"sqlite:///{tmp_path}") == (
        "the ledger cannot be used: unable to open database file"
    )
    (tmp_path / "file").touch()
    assert refusal(f"sqlite:///{tmp_path}/file/ledger.db").startswith(
        "the ledger's folder cannot be made: "
    )


def test_an_empty_file_becomes_a_ledger(tmp_path):
    path = tmp_path / "new folder" / "ledger.db"
    path.parent.mkdir()
    path.touch()
    open_database(f"sqlite:///{path}").close()
    with sqlite3.connect(path) as conn:
        assert conn.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
    conn.close()


def test_a_server_that_is_not_there_is_refused_without_its_password():
    message = refusal("postgresql://app:toy-pass@127.0.0.1:1/orders")
    assert message.startswith("the ledger cannot be used: ")
    assert "toy-pass" not in message


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://h/d", "", "ledger.db"])
def test_a_url_of_another_kind_names_the_setting(url):
    assert refusal(url, InvalidInput).startswith("PC_DATABASE_URL: ")


def test_a_label_hides_the_password():
    database = Database("postgresql://app:toy-pass@127.0.0.1:1/orders")
    assert database.label == "postgresql+psycopg2://app:***@127.0.0.1:1/orders"
    database.close()
