"""kill -9 of a builder, at random points, again and again: searches never notice."""

import multiprocessing
import random
import threading
import time

import pytest
import shard_builder

from pc_store.domain.entry import Draft
from pc_store.ledger.database import open_database
from pc_store.search import shards
from pc_store.services import administer, find, index_build
from pc_store.services.commit import commit_drafts
from pc_store.settings import Settings

NOW = 1_700_000_000_000_000
SCOPE = "shop"
DRIVERS = ["psycopg2", "sqlalchemy.dialects.postgresql.psycopg2", "sqlalchemy.dialects.sqlite"]
BUILD_S = 0.5
"""About what a build takes on a busy machine; a kill falls somewhere into the next two."""


@pytest.fixture
def ledger(new_database):
    url = new_database(lambda address: open_database(address).close())
    db = open_database(url)
    administer.create_scope(db, SCOPE, now_us=NOW)
    write(db, 0, 200)
    yield url, db
    db.close()


def write(db, first, count):
    drafts = [Draft("add", "fact", f"amount number {n} 金额") for n in range(first, first + count)]
    with db.write() as conn:
        commit_drafts(conn, SCOPE, drafts, origin="explicit", now_us=NOW + first)


def kill_builders(ledger, tmp_path, *, kills: int, seed: int) -> None:
    url, db = ledger
    settings = Settings(index_dir=tmp_path / "index", index_shards=1, embed_provider="none")
    assert index_build.build(db, settings, 0) is not None
    done = threading.Event()
    errors: list[BaseException] = []
    asked = [0]

    def read() -> None:
        try:
            while not done.is_set():
                found = find.search(db, settings, SCOPE, "number 7 金额", limit=50)
                assert len(found.hits) == 50
                assert "number 7 " in found.hits[0].text
                shard = shards.open_current(settings.index_path, 0, 1)
                assert shard is not None, "there is always a generation in use"
                assert shard.covered[SCOPE, "memory"].docs >= 200
                asked[0] += 1
        except BaseException as error:  # noqa: BLE001 - judged by the thread that started this one
            errors.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["duckdb", "pc_store.services.index_build", *DRIVERS])
    chance = random.Random(seed)
    try:
        for number in range(kills):
            here, there = context.Pipe(duplex=False)
            builder = context.Process(
                target=shard_builder.build_for_ever,
                args=(url, str(settings.index_path), there),
            )
            builder.start()
            there.close()
            assert here.poll(60), "the builder did not start"
            here.close()
            time.sleep(chance.uniform(0, 2 * BUILD_S))
            write(db, 200 + number, 1)
            builder.kill()
            builder.join(30)
            assert builder.exitcode == -9
    finally:
        done.set()
        for reader in readers:
            reader.join(60)
    assert errors == []
    assert asked[0] > kills
    built = index_build.build(db, settings, 0, force=True)
    assert built is not None
    assert built.docs == 200 + kills
    folder = settings.index_path / "s00"
    assert sorted(path.name for path in folder.iterdir()) == [built.path.name, "CURRENT", "LOCK"]


def test_builders_killed_four_times_leave_a_whole_index(ledger, tmp_path):
    kill_builders(ledger, tmp_path, kills=4, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_builders_killed_at_random_points_leave_a_whole_index(ledger, tmp_path, seed):
    kill_builders(ledger, tmp_path, kills=40, seed=seed)
