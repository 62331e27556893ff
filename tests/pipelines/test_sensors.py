"""Every sensor but `memory_windows_due`: landing files, logs and windows of others, dead runs."""

import os
import time
from pathlib import Path

import dagster as dg
import pytest
import sqlalchemy as sa
from model_stub import hold
from plant import PASSED, Plant, Tick, failure_message, in_thread

from pc_pipelines.partitions import scopes as scope_set
from pc_pipelines.resources import StoreResource
from pc_store.domain.source import new_source
from pc_store.domain.window import parse_key
from pc_store.ledger import scopes, sources
from pc_store.services.begin import open_named
from pc_store.services.capture import capture_many
from pc_store.services.clock import now_us
from pc_store.services.extract import drain, flush

FIRST = "shop@00000001-00000003"


def due(plant: Plant) -> Tick:
    return plant.tick("memory_windows_due")


# landing files


def test_landing_files_become_the_log_and_the_partition_says_what_came_in(plant: Plant):
    plant.scope("shop")
    plant.land("shop", "a.jsonl", "one", "two")
    tick = plant.tick("landing_files_arrived")
    assert tick.windows == ["shop"]
    assert tick.requests[0].tags["pc/lane"] == "sources/shop"
    (result,) = plant.perform(tick)
    assert result.success
    assert plant.materialized("source_log", "shop") == {
        "scope": "shop",
        "files": 1,
        "new": 2,
        "already known": 0,
        "noise dropped": 0,
        "rejected": 0,
        "reject file": "none",
        "high watermark": 2,
        "memory lag": 2,
    }
    assert plant.tick("landing_files_arrived").skipped == "no new landing files"
    assert due(plant).windows == ["shop@00000001-00000002"]


def test_a_file_that_is_still_being_copied_waits(plant: Plant):
    plant.scope("shop")
    plant.land("shop", "a.jsonl", "one", age_s=0)
    assert plant.tick("landing_files_arrived").skipped == "no new landing files"
    plant.land("shop", "a.jsonl", "one", "two")
    (result,) = plant.perform(plant.tick("landing_files_arrived"))
    assert result.success
    assert plant.status("shop").high_watermark == 2


def test_folders_that_are_no_scopes_are_named(plant: Plant):
    plant.scope("shop")
    plant.land("shopp", "a.jsonl", "one")
    skipped = plant.tick("landing_files_arrived").skipped
    assert skipped == "no new landing files; no scope has the folders shopp"


def test_the_same_files_are_not_asked_for_twice_but_changed_ones_are(plant: Plant):
    plant.scope("shop")
    plant.land("shop", "a.jsonl", "one")
    assert plant.tick("landing_files_arrived").windows == ["shop"]
    assert plant.tick("landing_files_arrived").windows == []
    plant.land("shop", "b.jsonl", "two")
    assert plant.tick("landing_files_arrived").windows == ["shop"]


def test_a_scope_whose_ingestion_is_unfinished_is_passed_over(plant: Plant):
    plant.scope("shop")
    plant.land("shop", "a.jsonl", "one")
    (request,) = plant.tick("landing_files_arrived").requests
    plant.queued(request)
    plant.land("shop", "b.jsonl", "two")
    assert plant.tick("landing_files_arrived").requests == []


def test_bad_lines_are_rejected_and_counted_and_the_others_come_in(plant: Plant):
    plant.scope("shop")
    path = plant.land("shop", "a.jsonl", "one", "two")
    modified = path.stat().st_mtime
    path.write_text(path.read_text() + '{"source_id": "x", "content": 7}\n')
    os.utime(path, (modified, modified))
    result = plant.run("source_ingestion", partition="shop")
    assert result.success
    shown = plant.materialized("source_log", "shop")
    assert (shown["new"], shown["rejected"]) == (2, 1)
    assert '"content": 7' in Path(shown["reject file"]).read_text().replace("\\", "")


def test_a_partition_that_is_no_scope_fails_with_what_to_do(plant: Plant):
    result = plant.run("source_ingestion", partition="new")
    assert not result.success
    assert "create it with `pc scope create`, or set create_scope" in failure_message(result)
    config = {"ops": {"source_log": {"config": {"create_scope": True}}}}
    assert plant.run("source_ingestion", partition="new", config=config).success
    assert plant.status("new").high_watermark == 0


# logs and windows written elsewhere


def test_logs_written_through_other_doors_are_observed_once(plant: Plant):
    plant.scope("shop")
    plant.scope("汉字")
    plant.put("shop", 2)
    plant.put("汉字", 1)
    tick = plant.tick("source_log_observer")
    seen = [(event.partition, event.metadata["high watermark"].value) for event in tick.events]
    assert seen == [("shop", 2), ("%E6%B1%89%E5%AD%97", 1)]
    assert tick.events[0].tags == {"dagster/data_version": "2"}
    assert plant.keys(scope_set) == ["%E6%B1%89%E5%AD%97", "shop"]
    assert plant.tick("source_log_observer").events == []
    plant.put("shop", 1)
    (event,) = plant.tick("source_log_observer").events
    assert event.metadata["high watermark"].value == 3


def test_a_log_that_was_stamped_before_others_but_written_after_is_still_seen(plant: Plant):
    plant.scope("early")
    plant.scope("late")
    plant.tick("source_log_observer")
    stamp = now_us() - 2_000_000
    plant.put("late", 1)
    assert [event.partition for event in plant.tick("source_log_observer").events] == ["late"]
    capture_many(plant.db, "early", [new_source("s", "x")], now_us=stamp)
    assert [event.partition for event in plant.tick("source_log_observer").events] == ["early"]
    assert plant.tick("source_log_observer").events == []


def test_the_observer_takes_two_hundred_logs_a_tick(plant: Plant):
    with plant.db.write() as conn:
        for n in range(250):
            name = f"s{n:03}"
            scopes.create(conn, name, title=name, summary=name, now_us=now_us())
            sources.append(conn, name, [new_source("1", "x")], after=0, now_us=now_us())
    first, second = plant.tick("source_log_observer"), plant.tick("source_log_observer")
    assert (len(first.events), len(second.events)) == (200, 50)
    assert plant.tick("source_log_observer").events == []


def elsewhere(plant: Plant) -> str | None:
    return plant.tick("windows_committed_elsewhere").skipped


def test_windows_flushed_in_a_shell_become_partitions_with_their_checks(plant: Plant):
    plant.scope("shop")
    plant.put("shop", 5)
    for _ in range(2):
        flush(plant.db, plant.settings, StoreResource().proposer, "shop")
    assert elsewhere(plant) == "2 windows reported, 0 keys of overtaken windows removed"
    keys = [FIRST, "shop@00000004-00000005"]
    assert plant.keys() == keys
    assert [plant.materialized("memory_windows", key)["last position"] for key in keys] == [3, 5]
    assert [plant.checks(key) for key in keys] == [PASSED, PASSED]
    assert plant.materialized("memory", "shop")["cursor"] == 5
    assert elsewhere(plant) == "0 windows reported, 0 keys of overtaken windows removed"


def test_windows_of_this_instance_are_not_reported_again(plant: Plant):
    plant.scope("shop")
    plant.put("shop", 12)
    plant.drain("shop")
    assert elsewhere(plant) == "0 windows reported, 0 keys of overtaken windows removed"


def test_a_window_that_was_overtaken_loses_its_key(plant: Plant):
    plant.scope("shop")
    plant.put("shop", 3)
    assert due(plant).windows == [FIRST]
    with plant.db.engine.begin() as conn:  # another store's tool has moved the cursor
        conn.execute(sa.text("UPDATE cursors SET position = 1 WHERE consumer = 'memory'"))
    assert due(plant).windows == ["shop@00000002-00000003"]
    assert elsewhere(plant) == "0 windows reported, 1 keys of overtaken windows removed"
    assert plant.keys() == ["shop@00000002-00000003"]


def test_a_new_dagster_home_is_told_of_every_window_there_was(new_plant):
    plant = new_plant()
    plant.scope("shop")
    plant.put("shop", 9)
    plant.drain("shop")
    renewed = new_plant()
    assert elsewhere(renewed) == "3 windows reported, 0 keys of overtaken windows removed"
    assert len(renewed.keys()) == 3
    assert renewed.checks(FIRST) == PASSED


def test_a_window_whose_run_died_after_the_commit_is_reported(plant: Plant):
    plant.scope("shop")
    plant.put("shop", 3)
    (request,) = due(plant).requests
    run = plant.queued(request, status=dg.DagsterRunStatus.STARTED)
    flush(plant.db, plant.settings, StoreResource().proposer, "shop", run_id=run.run_id)
    assert elsewhere(plant) == "0 windows reported, 0 keys of overtaken windows removed"
    plant.instance.report_run_failed(run, "killed")
    assert elsewhere(plant) == "1 windows reported, 0 keys of overtaken windows removed"
    assert plant.checks(FIRST) == PASSED


def test_fifty_windows_are_reported_a_tick_until_all_are(new_plant):
    plant = new_plant(SOURCE_WINDOW_LIMIT="1")
    plant.scope("shop")
    plant.put("shop", 60, text="Lunch {n}.")
    drain(plant.db, plant.settings, StoreResource().proposer, "shop", budget_s=60)
    assert elsewhere(plant).startswith("50 windows reported")
    assert elsewhere(plant).startswith("10 windows reported")
    assert elsewhere(plant).startswith("0 windows reported")


# dead runs


def test_a_run_without_a_heartbeat_is_ended_and_its_window_asked_for_again(new_plant):
    plant = new_plant(LEASE_S="2", RETRY_BASE_S="0")
    plant.scope("shop")
    plant.put("shop", 3)
    (request,) = due(plant).requests
    run = plant.queued(request, status=dg.DagsterRunStatus.STARTED)
    open_named(
        plant.db, parse_key(FIRST), "memory", mode="auto", run_id=run.run_id, now_us=now_us()
    )
    assert plant.tick("dead_runs").skipped == "0 of 1 started runs were dead"
    with plant.db.engine.begin() as conn:
        conn.execute(sa.text("UPDATE heartbeats SET beat_at = beat_at - 3000000"))
    assert plant.tick("dead_runs").skipped == "1 of 1 started runs were dead"
    ended = plant.instance.get_run_by_id(run.run_id)
    assert ended.status == dg.DagsterRunStatus.FAILURE
    assert due(plant).windows == [FIRST]


def test_a_run_that_waits_for_the_model_keeps_beating(new_plant, model_stub):
    named = {name.removeprefix("PC_"): value for name, value in model_stub.env().items()}
    plant = new_plant(**named, LEASE_S="1.2")
    plant.scope("shop")
    plant.put("shop", 3)
    model_stub.answer(hold())
    run = in_thread(lambda: plant.extract(FIRST))
    model_stub.wait_until_held()
    time.sleep(2)
    assert plant.tick("dead_runs").skipped == "0 of 1 started runs were dead"
    model_stub.release()
    assert run().success


def test_a_run_that_waits_for_a_slot_of_the_pool_keeps_beating(new_plant):
    plant = new_plant(LEASE_S="1.2")
    plant.instance.event_log_storage.set_concurrency_slots("llm", 0)
    plant.scope("shop")
    plant.put("shop", 3)
    run = in_thread(lambda: plant.extract(FIRST))
    deadline = time.monotonic() + 30
    while not plant.windows("shop") and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(2)
    assert plant.tick("dead_runs").skipped == "0 of 1 started runs were dead"
    plant.instance.event_log_storage.set_concurrency_slots("llm", 1)
    assert run().success


# scope ids that are awkward


AWKWARD = ["a/b", "a|b", "a,b", "...", "汉字", "line\nbreak", "x" * 256, "Alpha", "alpha"]


@pytest.mark.slow
def test_awkward_scope_ids_go_all_the_way_and_never_meet(plant: Plant):
    keys = {scope: plant.scope(scope) for scope in AWKWARD}
    assert len(set(keys.values())) == len(AWKWARD)
    for scope in AWKWARD:
        plant.land(scope, "a.jsonl", f"We decided that {scope[:5]!r} is not like the others.")
    landed = plant.perform(plant.tick("landing_files_arrived"))
    assert [result.success for result in landed] == [True] * len(AWKWARD)
    tick = due(plant)
    assert sorted(tick.windows) == sorted(f"{key}@00000001-00000001" for key in keys.values())
    assert all(result.success for result in plant.perform(tick))
    for scope, key in keys.items():
        assert plant.cursor(scope) == 1
        assert plant.materialized("source_log", key)["scope"] == scope
        assert plant.materialized("memory_windows", f"{key}@00000001-00000001")["scope"] == scope
        assert plant.materialized("memory", key)["scope"] == scope
        assert plant.checks(f"{key}@00000001-00000001") == PASSED
    assert sorted(plant.keys(scope_set)) == sorted(keys.values())
