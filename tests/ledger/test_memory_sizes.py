"""The running counts of a memory's entries are right from the first upgrade on."""

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from pc_store.domain.revision import Size
from pc_store.ledger import memory_sizes, migrations
from pc_store.ledger.database import Database, open_database
from pc_store.ledger.schema import manifest_spans


def at_0002(url):
    config = Config()
    config.set_main_option("script_location", str(next(iter(migrations.__path__))))
    database = Database(url)
    with database.write() as conn:
        config.attributes["connection"] = conn
        command.upgrade(config, "0002")
    database.close()


def test_the_upgrade_counts_the_entries_that_are_there(new_database):
    url = new_database(at_0002)
    old = Database(url)
    spans = [
        ("shop", "e1", 1, 2, "active"),
        ("shop", "e1", 2, None, "inactive"),
        ("shop", "e2", 1, None, "active"),
        ("shop", "e3", 3, None, "active"),
        ("other", "e1", 1, None, "active"),
    ]
    with old.write() as conn:
        conn.execute(
            sa.insert(manifest_spans),
            [
                {
                    "scope_id": scope_id,
                    "entry_id": entry_id,
                    "from_revision": first,
                    "to_revision": end,
                    "entry_version_id": f"{entry_id}v{first}",
                    "state": state,
                }
                for scope_id, entry_id, first, end, state in spans
            ],
        )
    old.close()
    new = open_database(url)
    with new.read() as conn:
        sizes = [memory_sizes.get(conn, scope_id) for scope_id in ("shop", "other", "none")]
    new.close()
    assert sizes == [Size(2, 1), Size(1, 0), Size(0, 0)]


def test_each_kind_of_change_is_counted(db):
    for ops, expected in (
        (["add", "add", "revise"], Size(2, 0)),
        (["deactivate"], Size(1, 1)),
        (["revise"], Size(1, 1)),
        (["reactivate", "deactivate"], Size(1, 1)),
        (["reactivate"], Size(2, 0)),
    ):
        with db.write() as conn:
            memory_sizes.change(conn, "shop", ops)
        with db.read() as conn:
            assert memory_sizes.get(conn, "shop") == expected


def add_and_fail(database):
    with database.write() as conn:
        memory_sizes.change(conn, "shop", ["add"])
        raise ZeroDivisionError


def test_what_joins_a_transaction_is_written_with_it_or_not_at_all(db):
    with db.joined() as joined:
        with joined.write() as conn:
            memory_sizes.change(conn, "shop", ["add"])
        with joined.read() as conn:
            assert memory_sizes.get(conn, "shop") == Size(1, 0)
        with pytest.raises(ZeroDivisionError):
            add_and_fail(joined)
        with db.read() as conn:
            assert memory_sizes.get(conn, "shop") == Size(0, 0)
    with db.read() as conn:
        assert memory_sizes.get(conn, "shop") == Size(1, 0)
    with pytest.raises(ZeroDivisionError), db.joined() as joined:
        add_and_fail(joined)
    with db.read() as conn:
        assert memory_sizes.get(conn, "shop") == Size(1, 0)
