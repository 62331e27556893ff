"""Transactions: all or nothing, reads that hold still, writes that give up in time."""

import threading
import time

import pytest
import sqlalchemy as sa

from pc_store.errors import StoreBusy
from pc_store.ledger.database import Database
from pc_store.ledger.schema import store_facts


def put(conn, name, value="1"):
    conn.execute(sa.insert(store_facts).values(name=name, value=value))


def names(conn):
    return list(conn.execute(sa.select(store_facts.c.name).order_by("name")).scalars())


def test_a_block_that_raises_leaves_nothing_behind(db):
    def write():
        with db.write() as conn:
            put(conn, "a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()
    with db.write() as conn:
        put(conn, "b")
    with db.read() as conn:
        assert names(conn) == ["b"]


def test_a_read_sees_one_moment_and_neither_waits_for_a_writer_nor_makes_it_wait(db):
    with db.write() as conn:
        put(conn, "a")
    with db.read() as early:
        assert names(early) == ["a"]
        with db.write() as conn:
            put(conn, "b")
            with db.read() as beside:
                assert names(beside) == ["a"]
        assert names(early) == ["a"]
    with db.read() as late:
        assert names(late) == ["a", "b"]


def test_what_is_written_in_a_read_is_gone_afterwards(db):
    try:
        with db.read() as conn:
            put(conn, "a")
    except sa.exc.DBAPIError as error:  # Postgres refuses outright
        assert "read-only" in str(error.orig)  # noqa: PT017
    with db.read() as conn:
        assert names(conn) == []


def test_a_write_that_another_keeps_out_for_too_long_is_busy_and_can_be_repeated(db):
    impatient = Database(db.engine.url.render_as_string(hide_password=False), wait_s=0.2)
    with db.write() as conn:
        put(conn, "a")
        started = time.monotonic()
        with pytest.raises(StoreBusy) as caught, impatient.write() as other:
            put(other, "a")
        assert 0.15 < time.monotonic() - started < 5
        assert caught.value.code == "store_busy"
    with impatient.write() as other:
        put(other, "b")
    with db.read() as conn:
        assert names(conn) == ["a", "b"]
    impatient.close()


def test_a_write_waits_for_one_that_ends_in_time_and_builds_on_it(db):
    began = threading.Event()

    def append(letter, *, hold_s=0.0):
        with db.write() as conn:
            value = store_facts.c.value
            changed = sa.update(store_facts).values(value=value + letter)
            conn.execute(changed.where(store_facts.c.name == "a"))
            began.set()
            time.sleep(hold_s)

    with db.write() as conn:
        put(conn, "a")
    holder = threading.Thread(target=append, args=["2"], kwargs={"hold_s": 0.3})
    holder.start()
    began.wait()
    append("3")
    holder.join()
    with db.read() as conn:
        assert conn.execute(sa.select(store_facts.c.value)).scalars().all() == ["123"]
