"""Writers that meet: each succeeds or is told so, nothing is written twice, nothing is lost."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from pc_store.domain.entry import Draft
from pc_store.domain.refs import ArtifactRef
from pc_store.errors import Conflict, StoreBusy
from pc_store.ledger.database import Database, open_database
from pc_store.services import administer, remember
from pc_store.services.commit import commit_drafts
from pc_store.services.remember import cite, entry_history, list_changes, list_entries, retire

SCOPE = "shop"
NOW = 1_700_000_000_000_000


def migrated(url):
    open_database(url).close()


@pytest.fixture
def db(new_database):
    database = open_database(new_database(migrated))
    administer.create_scope(database, SCOPE, now_us=NOW)
    yield database
    database.close()


def add(db, text):
    return remember.remember(db, SCOPE, kind="fact", text=text, now_us=NOW)


def change(db, citation, text):
    return remember.revise(db, SCOPE, citation, kind="fact", text=text, now_us=NOW)


def memory(revision):
    return ArtifactRef("memory", "memory", revision)


def test_fifty_who_remember_the_same_text_at_once_make_one_entry(db):
    with ThreadPoolExecutor(10) as pool:
        written = list(pool.map(lambda _: add(db, "the same"), range(50)))
    assert [one.memory for one in written] == [memory(1)] * 50
    assert sum(one.entry is not None for one in written) == 1
    _, listed = list_entries(db, SCOPE, limit=9)
    assert [cited.entry.text for cited in listed] == ["the same"]


def test_writers_at_once_succeed_or_conflict_and_every_effective_write_is_one_revision(db):
    shared = add(db, "shared").entry.entry.entry_id

    def write(writer):
        effective = 0
        for number in range(25):
            try:
                if number % 3:
                    add(db, f"{writer} {number}")
                else:
                    cited = cite(db, SCOPE, shared)
                    change(db, cited.citation, f"shared {writer} {number}")
            except Conflict:
                continue
            effective += 1
        return effective

    with ThreadPoolExecutor(8) as pool:
        effective = sum(pool.map(write, range(8)))
    head, rows = list_changes(db, SCOPE, since_revision=0)
    assert head == len(rows) == effective + 1
    assert [row.revision for row in rows] == list(range(1, head + 1))
    assert administer.scope_status(db, SCOPE).active_entries == 8 * 16 + 1
    assert [one.version for one in entry_history(db, SCOPE, shared)] == list(
        range(1, effective + 2 - 8 * 16)
    )


def test_a_write_that_cannot_get_in_is_busy_and_succeeds_when_repeated(db):
    first = add(db, "X").entry
    impatient = Database(db.engine.url.render_as_string(hide_password=False), wait_s=0.1)
    writes = (
        lambda: add(impatient, "Y"),
        lambda: change(impatient, first.citation, "Z"),
        lambda: retire(impatient, SCOPE, first.citation, now_us=NOW),
    )
    with db.write() as conn:
        commit_drafts(conn, SCOPE, [Draft("add", "fact", "W")], origin="explicit", now_us=NOW)
        for write in writes:
            with pytest.raises(StoreBusy):
                write()
        conn.rollback()
    assert writes[1]().memory == memory(2)
    impatient.close()
