"""Which experience windows are due, how a backlog is drained, and what others did meanwhile."""

import os
import subprocess
import sys

import dagster as dg
from outcome_windows import FIRST, PASSED, SECOND, answers, checks, outcome, pending, proposing, put
from plant import REPOSITORY, Plant, failure_message

from pc_pipelines.resources import StoreResource
from pc_pipelines.window_sets import EXPERIENCE_WINDOWS
from pc_store.domain.window import parse_key
from pc_store.services import incubate
from pc_store.services.begin import open_named
from pc_store.services.clock import now_us


def due(plant: Plant):
    return plant.tick("experience_windows_due")


# a backlog


def test_a_backlog_is_drained_window_by_window_and_each_is_a_partition(plant: Plant):
    plant.scope("shop")
    plant.put_outcomes("shop", *(outcome(f"Task {n}.") for n in range(8)))
    assert plant.drain("shop", job="experience_drain").success
    keys = [FIRST, SECOND, "shop@00000007-00000008"]
    assert plant.keys(EXPERIENCE_WINDOWS.partitions) == keys
    shown = [plant.materialized("experience_windows", key) for key in keys]
    assert [(one["cursor after"], one["lag after"]) for one in shown] == [(3, 5), (6, 2), (8, 0)]
    assert [checks(plant, key) for key in keys] == [PASSED] * 3
    assert len(pending(plant)) == 8
    assert (plant.keys(), plant.cursor("shop")) == ([], 0)


def test_one_failing_scope_stops_no_other(asking, model_stub):
    for scope in ("a", "b"):
        asking.scope(scope)
    asking.put_outcomes("a", outcome("POISON"))
    asking.put_outcomes("b", outcome("b"))
    model_stub.whenever("POISON", answers(proposing("e99")))
    model_stub.always(answers(proposing("e1")))
    result = asking.drain("a", "b", job="experience_drain")
    assert failure_message(result).startswith("1 of 2 scopes failed, the others went on: a: ")
    assert "FAILED" in checks(asking, "a@00000001-00000001").values()
    assert (pending(asking, "a"), len(pending(asking, "b"))) == ([], 1)


def test_a_backlog_is_one_drain_of_its_own_job(plant: Plant):
    plant.scope("shop")
    put(plant, "shop", 10)
    tick = due(plant)
    assert tick.drains == [["shop"]]
    assert [request.job_name for request in tick.requests] == ["experience_drain"]
    assert all(result.success for result in plant.perform(tick))
    assert (plant.cursor("shop", "experience"), plant.cursor("shop")) == (10, 0)


def test_a_drain_passes_over_what_lies_between_outcomes(plant: Plant):
    plant.scope("shop")
    for _ in range(3):
        plant.put_outcomes("shop", outcome())
        plant.put("shop", 9)
    tick = due(plant)
    assert tick.drains == [["shop"]]
    assert all(result.success for result in plant.perform(tick))
    assert sorted((row.after, row.through, row.status) for row in plant.windows("shop")) == [
        (0, 3, "processed"),
        (3, 9, "passed"),
        (9, 12, "processed"),
        (12, 18, "passed"),
        (18, 21, "processed"),
    ]
    assert len(plant.keys(EXPERIENCE_WINDOWS.partitions)) == 3
    assert due(plant).skipped == "no scope has a window due"


# what is due


def test_due_windows_are_asked_for_in_a_lane_of_their_own(plant: Plant):
    plant.scope("shop")
    plant.put_outcomes("shop", *(outcome(f"Task {n}.") for n in range(5)))
    tick = due(plant)
    [request] = tick.requests
    assert (request.job_name, request.partition_key) == ("experience_incubation", FIRST)
    assert request.run_key == f"{FIRST}#1"
    assert {name: value for name, value in request.tags.items() if name.startswith("pc/")} == {
        "pc/lane": "experience/shop",
        "pc/consumer": "experience",
    }
    assert plant.keys(EXPERIENCE_WINDOWS.partitions) == [FIRST]
    assert plant.keys() == []
    [result] = plant.perform(tick)
    assert result.success
    assert due(plant).windows == ["shop@00000004-00000005"]


def test_a_log_without_outcomes_costs_no_run_and_one_later_costs_one(plant: Plant):
    plant.scope("shop")
    plant.put("shop", 31)
    assert due(plant).skipped == "no scope has a window due"
    plant.put_outcomes("shop", outcome())
    tick = due(plant)
    assert tick.windows == ["shop@00000031-00000032"]
    assert plant.keys(EXPERIENCE_WINDOWS.partitions) == tick.windows
    assert [result.success for result in plant.perform(tick)] == [True]
    told = [(row.after, row.through, row.status) for row in plant.windows("shop")]
    assert sorted(told) == [(0, 30, "passed"), (30, 32, "processed")]
    assert due(plant).skipped == "no scope has a window due"
    elsewhere = plant.tick("windows_committed_elsewhere").skipped
    assert elsewhere == "0 windows reported, 0 keys of overtaken windows removed"
    assert plant.keys(EXPERIENCE_WINDOWS.partitions) == tick.windows


def test_runs_of_one_consumer_do_not_hold_the_other_up(plant: Plant):
    plant.scope("shop")
    put(plant, "shop", 3)
    [memory] = plant.tick("memory_windows_due").requests
    plant.queued(memory)
    plant.queued(dg.RunRequest(job_name="memory_extraction", partition_key=FIRST))
    [mine] = due(plant).requests
    plant.queued(mine)
    assert due(plant).skipped == "no scope has a window due; 1 scopes are being worked on"

    for scope in ("a", "b"):
        plant.scope(scope)
        put(plant, scope, 10)
    drains = plant.tick("memory_windows_due").requests
    assert [request.tags["pc/lane"] for request in drains] == ["memory/a", "memory/b"]
    plant.queued(drains[0])
    assert sorted(due(plant).drains) == [["a"], ["b"]]


def test_windows_launched_in_the_ui_make_a_scope_busy(plant: Plant):
    """The UI materialises assets in a job that Dagster makes for all of them."""
    plant.scope("shop")
    put(plant, "shop", 3)
    plant.instance.add_dynamic_partitions(EXPERIENCE_WINDOWS.set_name, [FIRST])
    run = plant.instance.create_run_for_job(
        launched_job(),
        tags={"dagster/partition": FIRST},
        asset_selection=frozenset({EXPERIENCE_WINDOWS.asset_key}),
    )
    assert run.job_name == "__ASSET_JOB"
    assert due(plant).requests == []
    assert plant.tick("memory_windows_due").windows == [FIRST]


def launched_job() -> dg.JobDefinition:
    """What the UI launches to materialise one asset."""
    job = REPOSITORY.get_job("__ASSET_JOB")
    return job.get_subset(asset_selection={EXPERIENCE_WINDOWS.asset_key})


def test_a_dead_run_is_ended_and_its_window_asked_for_again(new_plant):
    plant = new_plant(RETRY_BASE_S="0")
    plant.scope("shop")
    put(plant, "shop", 3)
    [request] = due(plant).requests
    run = plant.queued(request, status=dg.DagsterRunStatus.STARTED)
    then = now_us() - 120_000_000
    open_named(
        plant.db, parse_key(FIRST), "experience", mode="auto", run_id=run.run_id, now_us=then
    )
    assert plant.tick("dead_runs").skipped == "1 of 1 started runs were dead"
    assert due(plant).windows == [FIRST]
    [window] = plant.windows("shop")
    assert run.run_id in window.error["message"]


def test_the_sensor_is_off_until_a_schedule_is_set():
    code = (
        "from pc_pipelines.sensors import experience_windows_due as it; "
        "print(it.default_status.value, it.minimum_interval_seconds)"
    )
    for value, expected in ((None, "STOPPED 30"), ("5", "RUNNING 5")):
        env = {**os.environ, **({"PC_EXPERIENCE_SCHEDULE_SECONDS": value} if value else {})}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=60
        )
        assert done.stdout.strip() == expected, done.stderr


# windows and their keys


def test_windows_incubated_elsewhere_become_partitions_with_their_checks(plant: Plant):
    plant.scope("shop")
    plant.put_outcomes("shop", *(outcome(f"Task {n}.") for n in range(5)))
    author = StoreResource().experience_author
    for _ in range(2):
        incubate.incubate(plant.db, plant.settings, author, "shop")
    plant.extract(FIRST)  # of memory, whose cursor is another
    tick = plant.tick("windows_committed_elsewhere")
    assert tick.skipped == "2 windows reported, 0 keys of overtaken windows removed"
    keys = [FIRST, "shop@00000004-00000005"]
    assert plant.keys(EXPERIENCE_WINDOWS.partitions) == keys
    shown = [plant.materialized("experience_windows", key) for key in keys]
    assert [one["candidates made"] for one in shown] == [3, 2]
    assert [checks(plant, key) for key in keys] == [PASSED, PASSED]
    tick = plant.tick("windows_committed_elsewhere")
    assert tick.skipped == "0 windows reported, 0 keys of overtaken windows removed"


def test_a_planned_window_that_was_overtaken_loses_its_key(plant: Plant):
    plant.scope("shop")
    put(plant, "shop", 2)
    assert due(plant).windows == ["shop@00000001-00000002"]
    author = StoreResource().experience_author
    incubate.incubate(plant.db, plant.settings, author, "shop")
    put(plant, "shop", 3)
    assert due(plant).windows == ["shop@00000003-00000005"]
    overtaken = plant.incubate("shop@00000001-00000002")
    assert overtaken.success
    assert overtaken.get_asset_materialization_events() == []
    assert plant.cursor("shop", "experience") == 2


def test_old_window_keys_are_pruned_in_each_set_by_itself(new_plant):
    plant = new_plant(WINDOW_PARTITIONS_KEPT="100")
    plant.scope("shop")
    put(plant, "shop", 3)
    [at_work] = due(plant).windows
    old = [f"old@{n:08d}-{n:08d}" for n in range(1, 151)]
    plant.instance.add_dynamic_partitions(EXPERIENCE_WINDOWS.set_name, old)
    plant.instance.add_dynamic_partitions("pc_main_memory_windows", old[:100])
    assert plant.run("upkeep").success
    assert plant.keys(EXPERIENCE_WINDOWS.partitions) == [at_work, *old[50:]]
    assert plant.keys() == old[:100]
