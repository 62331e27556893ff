"""Building in the background of a server: when it is asked for, and how it ends."""

import threading
import time

import pytest

from pc_store.domain.entry import Draft
from pc_store.ledger.database import open_database
from pc_store.search import building, lexical, shards
from pc_store.services import administer, find, gather, index_build, remember
from pc_store.services.commit import commit_drafts
from pc_store.services.purge import purge
from pc_store.settings import Settings

NOW = 1_700_000_000_000_000


@pytest.fixture
def quick(monkeypatch):
    """Few changes outgrow a shard, and the background does not wait."""
    monkeypatch.setattr(gather, "SMALL_SCOPE", 3)
    monkeypatch.setattr(lexical, "TAIL_ROWS", 2)
    monkeypatch.setattr(index_build, "SETTLE_S", 0.0)
    monkeypatch.setattr(index_build, "REST_FACTOR", 0.0)


@pytest.fixture
def store(tmp_path):
    return Settings(index_dir=tmp_path / "index", index_shards=1, embed_provider="none")


def write(db, *texts, at=NOW):
    with db.write() as conn:
        drafts = [Draft("add", "fact", text) for text in texts]
        return commit_drafts(conn, "shop", drafts, origin="explicit", now_us=at).changed


def generation(store):
    shard = shards.open_current(store.index_path, 0, 1)
    return 0 if shard is None else shard.generation


def wait_for(store, number):
    deadline = time.monotonic() + 30
    while generation(store) < number and time.monotonic() < deadline:
        time.sleep(0.01)
    assert generation(store) == number


def search(db, store):
    return len(find.search(db, store, "shop", "amount", limit=50).hits)


def test_a_search_that_reads_much_from_the_ledger_makes_a_server_build(shop_db, store, quick):
    with index_build.in_background(shop_db, store):
        write(shop_db, "amount 1", "amount 2")
        assert search(shop_db, store) == 2
        write(shop_db, "amount 3", at=NOW + 1)
        assert search(shop_db, store) == 3
        wait_for(store, 1)
        write(shop_db, "amount 4", "amount 5", at=NOW + 2)
        assert search(shop_db, store) == 5
        write(shop_db, "amount 6", at=NOW + 3)
        assert search(shop_db, store) == 6
        wait_for(store, 2)
        assert search(shop_db, store) == 6
    assert generation(store) == 2


def test_an_erasure_makes_a_server_build(shop_db, store, quick):
    [one, _] = write(shop_db, "amount zanzibar", "amount")
    index_build.build(shop_db, store, 0)
    with index_build.in_background(shop_db, store):
        purge(shop_db, "shop", one.entry_id, now_us=NOW + 1)
        wait_for(store, 2)
    assert search(shop_db, store) == 1


def test_without_a_server_nothing_is_built(shop_db, store, quick):
    before = set(threading.enumerate())  # other tests' servers may run in this process
    write(shop_db, *(f"amount {n}" for n in range(9)))
    assert search(shop_db, store) == 9
    with index_build.in_background(shop_db, store):
        pass
    assert generation(store) == 0
    assert set(threading.enumerate()) <= before


def test_a_server_that_stops_breaks_off_its_build(shop_db, store, quick, monkeypatch):
    write(shop_db, *(f"amount {n}" for n in range(50)))
    reached, stopped = threading.Event(), threading.Event()
    begin = building.Work.begin

    def slowly(work, *args, **kwargs):
        begin(work, *args, **kwargs)
        reached.set()
        stopped.wait(30)

    monkeypatch.setattr(building.Work, "begin", slowly)
    with index_build.in_background(shop_db, store) as background:
        assert search(shop_db, store) == 50
        assert reached.wait(30)
        ending = threading.Thread(target=background.stop)
        ending.start()
        stopped.set()
        ending.join(30)
        assert not ending.is_alive()
    assert search(shop_db, store) == 50
    leftover = {path.name for path in (store.index_path / "s00").iterdir()}
    assert leftover <= {"LOCK", "CURRENT", "000001.duckdb"}


def test_a_build_that_fails_is_logged_and_the_next_one_is_tried(shop_db, store, quick, caplog):
    store.index_path.write_text("a file where the folder should be")
    write(shop_db, "amount 1", "amount 2", "amount 3")
    with index_build.in_background(shop_db, store):
        assert search(shop_db, store) == 3
        deadline = time.monotonic() + 30
        while "cannot be written" not in caplog.text and time.monotonic() < deadline:
            time.sleep(0.01)
        store.index_path.unlink()
        assert search(shop_db, store) == 3
        wait_for(store, 1)
    assert caplog.text.count("the search index was not built") >= 1


def test_a_busy_shard_rests_between_builds(shop_db, store, quick, monkeypatch):
    monkeypatch.setattr(index_build, "REST_FACTOR", 1_000.0)
    with index_build.in_background(shop_db, store):
        write(shop_db, "amount 1", "amount 2", "amount 3")
        assert search(shop_db, store) == 3
        wait_for(store, 1)
        write(shop_db, *(f"amount {n}" for n in range(4, 10)), at=NOW + 1)
        assert search(shop_db, store) == 9
        time.sleep(0.3)
        assert generation(store) == 1


def test_two_ledgers_of_a_process_build_each_its_own(shop_db, store, quick, tmp_path):
    other_store = store.model_copy(update={"index_dir": tmp_path / "other"})
    other = open_database(f"sqlite:///{tmp_path / 'other.db'}")
    try:
        administer.create_scope(other, "shop", now_us=NOW)
        with (
            index_build.in_background(shop_db, store),
            index_build.in_background(other, other_store),
        ):
            remember.remember(other, "shop", kind="fact", text="amount", now_us=NOW)
            write(other, "amount 2", "amount 3", at=NOW + 1)
            assert search(other, other_store) == 3
            wait_for(other_store, 1)
            assert generation(store) == 0
    finally:
        other.close()
