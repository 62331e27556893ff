"""`memory_windows_due`, evaluated as the daemon does; its requests run in this process."""

import contextlib

import dagster as dg
import pytest
import sqlalchemy as sa
from dagster import DagsterEventType
from model_stub import adding
from plant import Plant, Tick

from pc_store.domain.source import new_source
from pc_store.ledger import scopes, sources
from pc_store.ledger.database import open_database
from pc_store.services.begin import open_next
from pc_store.services.clock import now_us

NAMES = (
    "memory_windows_due",
    "experience_windows_due",
    "experience_observer",
    "review_inbox_observer",
    "landing_files_arrived",
    "source_log_observer",
    "windows_committed_elsewhere",
    "dead_runs",
)
FIRST = "shop@00000001-00000003"


def due(plant: Plant) -> Tick:
    return plant.tick("memory_windows_due")


def finish(plant: Plant, *runs: dg.DagsterRun) -> None:
    """End queued runs as if they had succeeded, without running them."""
    for run in runs:
        event = dg.DagsterEvent(
            event_type_value=DagsterEventType.PIPELINE_SUCCESS.value, job_name=run.job_name
        )
        plant.instance.report_dagster_event(event, run.run_id)


def end_back_off(plant: Plant) -> None:
    with plant.db.engine.begin() as conn:
        conn.execute(sa.text("UPDATE windows SET next_attempt_at = 0"))


def test_a_small_lag_is_one_run_of_one_window(plant: Plant):
    plant.scope("shop")
    plant.put("shop", 5)
    tick = due(plant)
    assert tick.windows == [FIRST]
    (request,) = tick.requests
    assert request.job_name == "memory_extraction"
    assert request.run_key == f"{FIRST}#1"
    assert {name: value for name, value in request.tags.items() if name.startswith("pc/")} == {
        "pc/lane": "memory/shop",
        "pc/consumer": "memory",
    }
    assert plant.keys() == [FIRST]
    (result,) = plant.perform(tick)
    assert result.success
    assert due(plant).windows == ["shop@00000004-00000005"]


def test_nothing_due_is_a_skip_that_says_so(plant: Plant):
    plant.scope("shop")
    tick = due(plant)
    assert (tick.requests, tick.skipped) == ([], "no scope has a window due")


def test_a_backlog_of_more_than_three_windows_is_one_drain(plant: Plant):
    for scope, count in (("exactly", 9), ("more", 10)):
        plant.scope(scope)
        plant.put(scope, count)
    tick = due(plant)
    assert tick.windows == ["exactly@00000001-00000003"]
    assert tick.drains == [["more"]]
    assert tick.requests[-1].tags["pc/lane"] == "memory/more"
    assert all(result.success for result in plant.perform(tick))
    assert plant.cursor("more") == 10


@pytest.mark.slow
def test_many_small_scopes_are_swept_and_a_backlog_keeps_its_own_run(plant: Plant):
    many = [f"s{n:02}" for n in range(25)]
    for scope in many:
        plant.scope(scope)
        plant.put(scope, 1)
    plant.scope("s05big")
    plant.put("s05big", 30)
    tick = due(plant)
    assert tick.windows == []
    assert sorted(tick.drains, key=len) == [["s05big"], many]
    results = plant.perform(tick)
    assert all(result.success for result in results)
    assert {plant.status(scope).memory_lag for scope in [*many, "s05big"]} == {0}


def test_twenty_small_scopes_have_a_run_each(plant: Plant):
    for n in range(20):
        plant.scope(f"s{n:02}")
        plant.put(f"s{n:02}", 1)
    assert len(due(plant).windows) == 20


def test_at_most_fifty_runs_are_asked_for_and_at_most_fifty_unfinished(plant: Plant):
    for n in range(60):
        plant.scope(f"s{n:02}")
        plant.put(f"s{n:02}", 10)
    first = due(plant)
    assert first.drains == [[f"s{n:02}"] for n in range(50)]
    runs = [plant.queued(request) for request in first.requests]
    full = due(plant)
    assert (full.requests, full.skipped) == (
        [],
        "50 runs are unfinished; waiting for some to end",
    )
    finish(plant, *runs[:3])
    assert due(plant).drains == [["s50"], ["s51"], ["s52"]]


@pytest.mark.parametrize("status", ["NOT_STARTED", "STARTING", "STARTED", "CANCELING"])
def test_a_scope_with_an_unfinished_run_is_passed_over(plant: Plant, status):
    plant.scope("shop")
    plant.put("shop", 5)
    (request,) = due(plant).requests
    run = plant.queued(request, status=dg.DagsterRunStatus[status])
    skipped = due(plant)
    assert skipped.skipped == "no scope has a window due; 1 scopes are being worked on"
    finish(plant, run)
    assert due(plant).windows == [FIRST]


def test_runs_that_people_launched_make_a_scope_busy_unless_they_replay(plant: Plant):
    plant.scope("shop")
    plant.put("shop", 6)
    plant.extract(FIRST)
    launched = dg.RunRequest(job_name="memory_extraction", partition_key="shop@00000004-00000006")
    run = plant.queued(launched)
    assert due(plant).requests == []
    finish(plant, run)
    for config in ({"mode": "replay"}, {"mode": "shadow", "generation": "g"}):
        replay = dg.RunRequest(
            job_name="memory_extraction",
            partition_key=FIRST,
            run_config={"ops": {"memory_windows": {"config": config}}},
        )
        plant.queued(replay)
    assert due(plant).windows == ["shop@00000004-00000006"]


def test_the_ingestion_of_a_scope_does_not_hold_its_windows_up(plant: Plant):
    plant.scope("shop")
    plant.put("shop", 3)
    plant.instance.add_dynamic_partitions("pc_main_scopes", ["shop"])
    plant.queued(
        dg.RunRequest(
            job_name="source_ingestion", partition_key="shop", tags={"pc/lane": "sources/shop"}
        )
    )
    assert due(plant).windows == [FIRST]


def test_run_keys_carry_the_attempt_so_that_nothing_is_dropped_after_a_failure(asking, model_stub):
    asking.scope("shop")
    asking.put("shop", 3)
    model_stub.answer(*[adding(("Nobody said this.", "e99"))] * 4)
    first = due(asking)
    (result,) = asking.perform(first)
    assert not result.success
    assert due(asking).requests == []  # it backs off
    end_back_off(asking)
    second = due(asking)
    assert [tick.requests[0].run_key for tick in (first, second)] == [f"{FIRST}#1", f"{FIRST}#2"]
    model_stub.reset()
    (result,) = asking.perform(second)
    assert result.success
    assert asking.materialized("memory_windows", FIRST)["attempt"] == 2


def test_a_lost_queue_or_a_new_dagster_home_loses_nothing(new_plant):
    plant = new_plant()
    for scope, count in (("shop", 3), ("big", 20)):
        plant.scope(scope)
        plant.put(scope, count)
    assert len(due(plant).requests) == 2  # and then the queue is lost
    again = due(plant)
    assert (again.windows, again.drains) == ([FIRST], [["big"]])
    renewed = new_plant()
    fresh = due(renewed)
    assert (fresh.windows, fresh.drains) == ([FIRST], [["big"]])
    assert renewed.keys() == [FIRST]
    assert all(result.success for result in renewed.perform(fresh))
    assert (renewed.cursor("shop"), renewed.cursor("big")) == (3, 20)


def test_a_planned_window_is_kept_when_more_sources_arrive(plant: Plant):
    plant.scope("shop")
    plant.put("shop", 2)
    assert due(plant).windows == ["shop@00000001-00000002"]
    plant.put("shop", 5)
    assert due(plant).windows == ["shop@00000001-00000002"]


def test_a_window_that_is_not_full_waits_for_its_time(new_plant):
    plant = new_plant(WINDOW_MAX_WAIT_S="3600")
    plant.scope("shop")
    plant.put("shop", 2)
    assert due(plant).requests == []
    plant.put("shop", 1)
    assert due(plant).windows == [FIRST]


@pytest.mark.parametrize(
    "status", [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED], ids=str
)
def test_a_run_that_broke_off_is_recorded_with_its_window_and_backs_off(plant: Plant, status):
    plant.scope("shop")
    plant.put("shop", 3)
    (request,) = due(plant).requests
    run = plant.queued(request, status=dg.DagsterRunStatus.STARTED)
    (window,) = plant.windows("shop")
    with plant.db.engine.begin() as conn:
        conn.execute(
            sa.text("UPDATE windows SET status = 'running', attempt = 1, run_id = :run"),
            {"run": run.run_id},
        )
    kind = {"FAILURE": "PIPELINE_FAILURE", "CANCELED": "PIPELINE_CANCELED"}[status.value]
    event = dg.DagsterEvent(event_type_value=kind, job_name=run.job_name)
    plant.instance.report_dagster_event(event, run.run_id)
    assert due(plant).requests == []
    (window,) = plant.windows("shop")
    assert (window.status, window.counted_failures) == ("failed", 0)
    assert run.run_id in window.error["message"]
    assert window.next_attempt_at > now_us() + 20_000_000
    end_back_off(plant)
    assert due(plant).windows == [FIRST]


def test_a_window_that_a_shell_is_working_on_is_left_to_it(plant: Plant):
    plant.scope("shop")
    plant.put("shop", 3)
    open_next(
        plant.db, plant.settings, "shop", "memory", run_id="local-1", now_us=now_us() - 50_000_000
    )
    assert due(plant).skipped == "1 scopes are being worked on outside this instance"
    with plant.db.engine.begin() as conn:  # it is dead: its heartbeat is older than the lease
        conn.execute(sa.text("UPDATE heartbeats SET beat_at = beat_at - 60000000"))
    assert due(plant).windows == [FIRST]


@contextlib.contextmanager
def locked(plant: Plant):
    with plant.db.engine.connect() as conn:
        conn.exec_driver_sql("BEGIN EXCLUSIVE")
        yield
        conn.rollback()


def test_a_busy_store_skips_the_tick(new_plant):
    plant = new_plant(DATABASE_WAIT_S="0.2")
    plant.scope("shop")
    plant.put("shop", 3)
    plant.db.close()
    with locked(plant):
        tick = due(plant)
    assert tick.requests == []
    assert tick.skipped.endswith("trying again at the next tick")
    assert "the ledger is busy" in tick.skipped
    assert due(plant).windows == [FIRST]


@pytest.mark.parametrize("name", NAMES)
def test_an_unreachable_store_skips_the_tick_of_every_sensor(new_plant, monkeypatch, name):
    plant = new_plant()
    (plant.settings.landing_path / "shop").mkdir(parents=True)
    monkeypatch.setenv("PC_DATABASE_URL", "postgresql://pc@127.0.0.1:1/none")
    plant.instance.add_dynamic_partitions("pc_main_scopes", ["shop"])
    tick = plant.tick(name)
    assert tick.requests == []
    assert "the ledger cannot be used" in tick.skipped


def test_a_tick_over_five_thousand_scopes_is_bounded_and_fair(new_plant):
    plant = new_plant(build=five_thousand_scopes)
    first = due(plant)
    assert [len(scopes) for scopes in first.drains] == [100] * 50
    swept = [scope for scopes in first.drains for scope in scopes]
    assert swept == [f"s{n:04}" for n in range(5_000)]
    runs = [plant.queued(request) for request in first.requests]
    assert due(plant).requests == []
    finish(plant, *runs[:2])
    second = due(plant)
    assert [len(scopes) for scopes in second.drains] == [100, 100]
    assert sorted([*second.drains[0], *second.drains[1]]) == swept[:200]


def five_thousand_scopes(url: str) -> None:
    """Scopes s0000 to s4999 with one source each."""
    db = open_database(url)
    with db.write() as conn:
        for n in range(5_000):
            name = f"s{n:04}"
            scopes.create(conn, name, title=name, summary=name, now_us=now_us())
            sources.append(conn, name, [new_source("1", "One fact.")], after=0, now_us=now_us())
    db.close()
