"""`search_index`: one materialisation builds one file; a sensor asks for those that are behind."""

import os
import sys

import dagster as dg
import pytest
from dagster_process import DagsterProcess
from plant import REPOSITORY, Plant, failure_message

from pc_pipelines.partitions import shards as shard_set
from pc_pipelines.resources import StoreResource
from pc_pipelines.schedules import nightly_compaction
from pc_store.search import building, shards
from pc_store.services import remember
from pc_store.services.clock import now_us
from pc_store.services.index import status
from pc_store.services.index_names import shard_name
from pc_store.services.purge import purge

SENSOR = "search_index_due"
MODULE = sys.modules[f"pc_pipelines.sensors.{SENSOR}"]  # the package has the sensor by this name
HOUR = 3_600_000_000


def fill(plant: Plant, scope_id: str, count: int = 3, *, now: int | None = None) -> str:
    """Remember facts in a new scope; the name of its shard."""
    plant.scope(scope_id)
    entries = [remember.NewEntry("fact", f"Rule {n} of {scope_id} holds.") for n in range(count)]
    remember.remember_batch(plant.db, scope_id, entries, now_us=now or now_us() - HOUR)
    return shard_name(shards.shard_of(scope_id, 16))


def build(plant: Plant, name: str, **config: object) -> dg.ExecuteInProcessResult:
    given = {"ops": {"search_index": {"config": config}}} if config else None
    return plant.run("search_index_build", partition=name, config=given)


def failed_checks(result: dg.ExecuteInProcessResult) -> set[str]:
    return {one.check_name for one in result.get_asset_check_evaluations() if not one.passed}


def test_there_is_a_partition_for_each_shard():
    assert list(shard_set.get_partition_keys()) == [f"s{n:02d}" for n in range(16)]


def test_a_materialisation_is_a_built_file(plant: Plant):
    name = fill(plant, "shop")
    assert build(plant, name).success
    [one] = [one for one in status(plant.db, plant.settings) if one.generation]
    metadata = plant.materialized("search_index", name)
    assert metadata is not None
    assert metadata.pop("seconds") > 0
    assert metadata == {
        "generation": 1,
        "scopes": 1,
        "documents": 3,
        "vectors": 3,
        "scopes with HNSW": 0,
        "embedding profile": "builtin:usem3:512:unit",
        "bytes": one.bytes,
        "tail before": 3,
        "texts embedded": 3,
        "texts not embedded": 0,
        "file": str(plant.settings.index_path / name / "000001.duckdb"),
    }
    assert build(plant, name).success
    again = plant.materialized("search_index", name)
    assert again is not None
    assert (again["generation"], again["tail before"], again["texts embedded"]) == (2, 0, 0)


def test_a_materialisation_without_vectors(plant: Plant):
    name = fill(plant, "shop")
    assert build(plant, name, embed=False).success
    metadata = plant.materialized("search_index", name)
    assert metadata is not None
    assert (metadata["documents"], metadata["vectors"], metadata["texts embedded"]) == (3, 0, 0)


def test_a_build_beside_another_says_so_and_materialises_nothing(plant: Plant):
    name = fill(plant, "shop")
    with building.claim(plant.settings.index_path, int(name[1:])):
        assert build(plant, name).success
    assert plant.materialized("search_index", name) is None
    assert plant.observed("search_index", name) == [
        "another builder is at work on the shard: nothing was done"
    ]


def test_an_index_that_cannot_be_written_fails_with_one_sentence(plant: Plant):
    name = fill(plant, "shop")
    plant.settings.index_path.parent.mkdir(parents=True, exist_ok=True)
    plant.settings.index_path.write_text("a file where the folder should be")
    result = build(plant, name)
    assert not result.success
    assert "cannot be written" in failure_message(result)


def test_the_sensor_asks_for_what_has_waited_and_for_nothing_else(plant: Plant):
    assert plant.tick(SENSOR).skipped == "no shard is due"
    fill(plant, "young", now=now_us())
    assert plant.tick(SENSOR).skipped == "no shard is due"
    name = fill(plant, "old")
    tick = plant.tick(SENSOR)
    assert tick.windows == [name]
    (request,) = tick.requests
    assert request.job_name == "search_index_build"
    assert request.tags["pc/lane"] == f"search_index/{name}"
    (result,) = plant.perform(tick)
    assert result.success
    assert plant.tick(SENSOR).skipped == "no shard is due"


def test_a_large_tail_does_not_wait(plant: Plant):
    name = fill(plant, "big", 100, now=now_us())
    assert plant.tick(SENSOR).requests == []
    for part in range(5):
        entries = [remember.NewEntry("fact", f"Law {part} {n}.") for n in range(100)]
        remember.remember_batch(plant.db, "big", entries, now_us=now_us())
    assert plant.tick(SENSOR).windows == [name]


def test_at_most_sixteen_builds_a_tick_the_worst_first(plant: Plant, monkeypatch):
    names = {}
    for number in range(60):
        scope_id = f"scope-{number}"
        names.setdefault(fill(plant, scope_id, 1), scope_id)
    fullest = fill(plant, "full", 40)
    assert len(names) > 8
    monkeypatch.setattr(MODULE, "REQUESTS_MAX", 8)
    tick = plant.tick(SENSOR)
    assert len(tick.windows) == 8
    assert tick.windows[0] == fullest


def test_a_shard_with_an_unfinished_run_is_not_asked_for(plant: Plant):
    name = fill(plant, "shop")
    (request,) = plant.tick(SENSOR).requests
    plant.queued(request)
    assert plant.tick(SENSOR).skipped == "no shard is due; 1 are being built"
    assert request.partition_key == name


def test_a_failed_build_is_asked_for_again_in_the_next_period(plant: Plant, monkeypatch):
    name = fill(plant, "shop")
    assert plant.tick(SENSOR).windows == [name]
    assert plant.tick(SENSOR).windows == []  # its key was used: the daemon drops it
    monkeypatch.setattr(MODULE, "now_us", lambda: now_us() + 300_000_000)
    assert plant.tick(SENSOR).windows == [name]


def test_a_shard_is_asked_for_again_after_its_build(plant: Plant):
    name = fill(plant, "shop")
    plant.perform(plant.tick(SENSOR))
    remember.remember(plant.db, "shop", kind="fact", text="One more.", now_us=now_us() - HOUR)
    assert plant.tick(SENSOR).windows == [name]


def test_what_was_erased_leaves_the_file_at_the_next_tick(plant: Plant):
    name = fill(plant, "shop")
    plant.perform(plant.tick(SENSOR))
    _, entries = remember.list_entries(plant.db, "shop", limit=10)
    purge(plant.db, "shop", entries[0].entry.entry_id, now_us=now_us())
    assert plant.tick(SENSOR).windows == [name]


def test_a_tick_over_many_scopes_is_quick(plant: Plant):
    for number in range(150):
        fill(plant, f"scope-{number}", 1, now=now_us())
    started = now_us()
    assert plant.tick(SENSOR).skipped == "no shard is due"
    assert now_us() - started < 5_000_000


def test_compaction_builds_what_is_largely_not_current(plant: Plant):
    def evaluate() -> list[dg.RunRequest]:
        context = dg.build_schedule_context(
            instance=plant.instance,
            resources={"store": StoreResource()},
            repository_def=REPOSITORY,
        )
        with context:
            return list(nightly_compaction.evaluate_tick(context).run_requests or [])

    name = fill(plant, "shop", 10)
    assert evaluate() == []
    plant.perform(plant.tick(SENSOR))
    for _ in range(2):
        _, entries = remember.list_entries(plant.db, "shop", limit=1)
        remember.retire(plant.db, "shop", entries[0].citation, now_us=now_us())
    (request,) = evaluate()
    assert request.partition_key == name
    assert request.tags["pc/lane"] == f"search_index/{name}"


def test_upkeep_removes_files_that_no_shard_uses(plant: Plant):
    name = fill(plant, "shop")
    build(plant, name)
    old = plant.settings.index_path / "words" / "1.duckdb"
    old.parent.mkdir()
    old.write_bytes(b"x")
    result = plant.run("upkeep")
    assert result.success
    assert not old.exists()
    assert build(plant, name).success


def test_upkeep_keeps_the_run_that_built_the_file_in_use(plant: Plant):
    name = fill(plant, "shop")
    first, second = build(plant, name).run_id, build(plant, name).run_id
    plant.run("upkeep", config={"ops": {"delete_old_runs": {"config": {"older_than_days": 0}}}})
    assert not plant.instance.has_run(first)
    assert plant.instance.has_run(second)


def test_checks_pass_on_a_sound_index_and_name_what_is_wrong(plant: Plant):
    name = fill(plant, "shop", 8)
    build(plant, name)
    sound = plant.run("integrity_audit")
    assert sound.success
    passed = {
        one.check_name: one.passed
        for one in sound.get_asset_check_evaluations()
        if one.asset_key == dg.AssetKey("search_index")
    }
    assert passed == dict.fromkeys(
        (
            "index_files_can_be_read",
            "index_covers_ledger",
            "index_agrees_with_exact_search",
            "hnsw_recall_at_least_095",
        ),
        True,
    )
    path = shards.current_path(plant.settings.index_path, int(name[1:]))
    assert path is not None
    shards.close_all()
    path.write_bytes(b"not a database")
    assert failed_checks(plant.run("integrity_audit")) >= {
        "index_files_can_be_read",
        "index_covers_ledger",
    }


@pytest.mark.slow
def test_a_daemon_keeps_the_index_near_the_ledger(plant: Plant, tmp_path):
    """What was written is filed by runs that nobody launched, once each."""
    names = {fill(plant, f"scope-{number}") for number in range(3)}
    env = {name: value for name, value in os.environ.items() if name.startswith("PC_")}
    dagster = DagsterProcess(tmp_path / "live", env=env).start()
    try:
        dagster.wait_for(
            lambda: set(dagster.partitions("search_index")["materialized"]) == names,
            "the builds",
            within_s=240,
        )
        dagster.wait_for(lambda: not dagster.unfinished(), "the runs to end", within_s=120)
        assert dagster.partitions("search_index")["failed"] == []
        runs = dagster.runs(pipelineName="search_index_build")
        assert {run["status"] for run in runs} == {"SUCCESS"}
        assert {run["tags"]["dagster/sensor_name"] for run in runs} == {SENSOR}
        assert len(runs) == len(names)
        assert sum(one.tail.rows for one in status(plant.db, plant.settings)) == 0
        assert dagster.stop() == 0
    finally:
        dagster.kill()
