"""kill -9 of a worker, at random points, again and again: every window is processed once."""

import multiprocessing
import random
import time

import chaos_worker
import pytest
from extraction_rig import SCOPE, fact
from model_stub import says

from pc_store.services import promote
from pc_store.services.clock import now_us

PRELOADED = [
    "instructor",
    "psycopg2",
    "sqlalchemy.dialects.postgresql.psycopg2",
    "sqlalchemy.dialects.sqlite",
    "pc_store.llm.failures",
    "pc_store.llm.transport",
    "pc_store.services.extract",
    "pc_store.services.incubate",
    "pc_store.services.dream_worker",
]
WINDOW_S = 0.1
"""About what a window takes on a busy machine; a kill falls somewhere into the next two."""


@pytest.fixture(scope="module")
def forked():
    """Processes that need not import anything first: a kill then falls into the work."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def killed_and_restarted(
    forked, rig, tmp_path, *, kills: int, seed: int, work=chaos_worker.work
) -> int:
    """Kill one worker after the other, then let one finish; return how many were killed."""
    chance = random.Random(seed)
    killed = 0
    while True:
        here, there = forked.Pipe(duplex=False)
        worker = forked.Process(
            target=work,
            args=(rig.url, str(tmp_path), rig.stub.base_url, SCOPE, there),
        )
        worker.start()
        there.close()
        assert here.poll(60), "the worker did not start"
        here.close()
        if killed < kills:
            time.sleep(chance.uniform(0, 2 * WINDOW_S))
            worker.kill()
            worker.join(30)
            killed += worker.exitcode == -9
            finished = worker.exitcode == 0
        else:
            worker.join(120)
            assert worker.exitcode == 0
            finished = True
        worker.close()
        if finished:
            return killed


def assert_processed_once(rig, windows: int) -> None:
    size = rig.settings.source_window_limit
    high = windows * size
    rows = rig.windows()
    assert [(row.after, row.through) for row in rows] == [
        (after, after + size) for after in range(0, high, size)
    ]
    assert {row.status for row in rows} == {"processed"}
    assert [row.memory_revision for row in rows] == list(range(1, windows + 1))
    assert rig.entries() == [("fact", fact(n), (f"s{n}",)) for n in range(1, high + 1)]
    assert (rig.cursor(), rig.head(), rig.changes()) == (high, windows, high)
    assert (rig.drafts(), rig.offending()) == (0, {})


def test_a_worker_killed_five_times_processes_every_window_once(forked, rig, tmp_path):
    rig.put_facts(30)
    killed_and_restarted(forked, rig, tmp_path, kills=5, seed=5)
    assert_processed_once(rig, 10)


def test_a_shadow_replay_killed_between_and_in_windows_goes_on_and_keeps_each_once(
    forked, rig, tmp_path
):
    rig.put_facts(12)
    rig.stub.always(says({"candidates": []}))
    rig.flush_until_idle()
    rig.stub.reset()
    killed_and_restarted(forked, rig, tmp_path, kills=4, seed=9, work=chaos_worker.replay_aside)
    found = promote.diff(rig.db, SCOPE, "aside")
    assert [item.text for item in found.items] == [fact(n) for n in range(1, 13)]
    assert (found.generation.windows, rig.head(), rig.cursor()) == (4, 0, 12)
    promote.promote(rig.db, rig.settings, SCOPE, "aside", now_us=now_us())
    assert rig.entries() == [("fact", fact(n), (f"s{n}",)) for n in range(1, 13)]
    assert (rig.head(), rig.offending()) == (1, {})


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_workers_killed_at_random_points_of_thirty_windows_process_every_one_once(
    forked, rig, tmp_path, seed
):
    rig.put_facts(90)
    killed = killed_and_restarted(forked, rig, tmp_path, kills=40, seed=seed)
    assert_processed_once(rig, 30)
    assert killed >= 10
    assert sum(row.attempt for row in rig.windows()) > 30  # some kills fell into a window
