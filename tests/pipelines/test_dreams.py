"""Dreams in Dagster: the sensor asks for one run, and that works on everything that waits."""

import importlib
import threading
import time

import dagster as dg
import pytest
from model_stub import ModelStub, status
from plant import Plant

from pc_pipelines.assets.dream_candidates import dream_candidates
from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.dream_run import dream_request
from pc_store.domain.refs import SourceRef
from pc_store.services import dream
from pc_store.services.clock import now_us
from pc_store.services.remember import remember

SENSOR = "dreams_queued"
MODULE = importlib.import_module("pc_pipelines.sensors.dreams_queued")
CONFIG = {"ops": {"dream_candidates": {"config": {"linger_s": 0.0}}}}


@pytest.fixture
def model(model_stub: ModelStub, monkeypatch: pytest.MonkeyPatch) -> ModelStub:
    """The stub as the model."""
    for name, value in model_stub.env().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PC_RETRY_BASE_S", "0")
    return model_stub


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ticks that look once, but for the test of the others."""
    monkeypatch.setattr(MODULE, "LOOK_FOR_S", 0.0)


def submit(plant: Plant, scope: str, number: int):
    text = f"Fact {number} is known."
    made = remember(plant.db, scope, kind="fact", text=text, now_us=now_us()).entry
    evidence = EvidenceRefs((SourceRef("content", "s1"),), (), (made.citation,))
    request = dream_request("refine_experience", evidence)
    return dream.submit(
        plant.db, plant.settings, scope, request, key=f"k{number}", now_us=now_us()
    ).run


def materialized(plant: Plant):
    """Metadata of the latest materialisation."""
    key = dg.AssetKey("dream_candidates")
    event = plant.instance.get_latest_materialization_event(key).asset_materialization
    return {name: value.value for name, value in event.metadata.items()}


def became(plant: Plant, run):
    now = dream.get_dream(plant.db, run.scope_id, run.run_id)
    return now.status, now.outcome or now.error


@pytest.fixture
def two(plant: Plant, model):
    """Two scopes with a source each."""
    for scope in ("orders", "billing"):
        plant.scope(scope)
        plant.put(scope, 1)
    return ("orders", "billing")


def test_one_run_works_on_the_dreams_of_all_scopes(plant, two, model):
    model.answer(status(503))
    runs = [submit(plant, scope, n) for scope in two for n in range(2)]
    [request] = plant.tick(SENSOR).requests
    tags = {name: request.tags[name] for name in ("pc/lane", "dagster/priority")}
    assert tags == {"pc/lane": "dream/all", "dagster/priority": "1"}
    result = plant.run("dream", config=CONFIG)
    assert result.success
    assert [became(plant, run) for run in runs] == [("succeeded", "proposed")] * 4
    told = materialized(plant)
    counts = {name: told[name] for name in told if name not in ("ended", "longest wait, seconds")}
    assert counts == {
        "dreams": 4,
        "proposed": 4,
        "no change": 0,
        "needs evidence": 0,
        "failed": 0,
        "model calls": 5,
        "tokens in": 400,
        "tokens out": 80,
    }
    assert {record.data["dream"] for record in told["ended"].records} == {
        run.run_id for run in runs
    }
    assert {dream.get_dream(plant.db, r.scope_id, r.run_id).dagster_run_id for r in runs} == {
        result.run_id
    }
    assert plant.tick(SENSOR).requests == []


def test_a_dream_that_fails_fails_no_run(plant, two, model):
    model.answer(status(401))
    run = submit(plant, "orders", 1)
    assert plant.run("dream", config=CONFIG).success
    assert became(plant, run) == ("failed", "generation_failed")
    assert materialized(plant)["failed"] == 1


def test_nothing_to_do_asks_for_no_run(plant, two):
    assert "no dream is due" in plant.tick(SENSOR).skipped
    assert plant.run("dream", config=CONFIG).success


def test_one_run_at_a_time(plant, two):
    submit(plant, "orders", 1)
    [request] = plant.tick(SENSOR).requests
    plant.queued(request)
    submit(plant, "orders", 2)
    assert "a run is at work" in plant.tick(SENSOR).skipped


def test_switched_off_they_wait(plant, two, monkeypatch):
    run = submit(plant, "orders", 1)
    monkeypatch.setenv("PC_DREAM_ENABLED", "false")
    assert "switched off" in plant.tick(SENSOR).skipped
    assert plant.run("dream", config=CONFIG).success
    assert became(plant, run) == ("queued", None)


def test_a_run_spends_no_more_than_its_budget(plant, two):
    runs = [submit(plant, "orders", n) for n in range(8)]
    config = {"ops": {"dream_candidates": {"config": {"budget_s": 0.0, "linger_s": 0.0}}}}
    assert plant.run("dream", config=config).success
    left = [run for run in runs if became(plant, run)[0] == "queued"]
    assert len(left) < len(runs)
    assert not any(became(plant, run)[0] == "running" for run in runs)


def test_dreams_do_not_share_the_windows_pool():
    assert dream_candidates.op.pool == "dreams"


def test_a_tick_looks_for_a_while(plant, two, monkeypatch):
    monkeypatch.setattr(MODULE, "LOOK_FOR_S", 30.0)
    later = threading.Timer(0.5, lambda: submit(plant, "orders", 1))
    later.start()
    began = time.monotonic()
    assert len(plant.tick(SENSOR).requests) == 1
    assert time.monotonic() - began < 25
    later.join()
