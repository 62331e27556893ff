"""The nightly jobs: pruning of window keys and old runs, and the audit as asset checks."""

import dagster as dg
import numpy as np
import sqlalchemy as sa
from plant import REPOSITORY, Plant, steps

from pc_store.domain.refs import new_id
from pc_store.domain.text import digest
from pc_store.ledger import recall_log, vectors, windows
from pc_store.ledger.recall_log import Recall
from pc_store.services import remember, watch
from pc_store.services.clock import now_us
from pc_store.services.recalls import list_recalls


def test_old_window_keys_are_pruned_and_those_at_work_stay(new_plant):
    plant = new_plant(WINDOW_PARTITIONS_KEPT="100")
    plant.scope("shop")
    plant.put("shop", 3)
    open_window = plant.tick("memory_windows_due").windows[0]
    plant.instance.add_dynamic_partitions(
        "pc_main_memory_windows", [f"old@{n:08d}-{n:08d}" for n in range(1, 151)]
    )
    result = plant.run("upkeep")
    assert result.success
    left = plant.keys()
    assert left[0] == open_window
    assert left[1:] == [f"old@{n:08d}-{n:08d}" for n in range(51, 151)]
    again = plant.run("upkeep")
    assert again.success
    assert len(plant.keys()) == 101


def test_heartbeats_of_long_ended_runs_are_forgotten(plant: Plant):
    month_us = 31 * 86_400_000_000
    with plant.db.write() as conn:
        windows.beat(conn, "old", now_us=now_us() - month_us)
        windows.beat(conn, "young", now_us=now_us())
    assert plant.run("upkeep").success
    assert set(watch.last_beats(plant.db, ["old", "young"])) == {"young"}


def test_recalls_are_forgotten_after_their_days(new_plant):
    plant = new_plant(RECALL_DAYS="2")
    plant.scope("shop")
    day_us = 86_400_000_000
    for age, query in ((3, "old"), (1, "young")):
        at = now_us() - age * day_us
        recall = Recall(
            recall_id=new_id("rcl_", at_us=at),
            scope_id="shop",
            surface="search",
            query_digest=query,
            mode="fts",
            hits=[],
            dropped={"counts": {}, "items": []},
            max_bytes=None,
            content_bytes=None,
            tokens=None,
            baseline_tokens=None,
            took_us=1,
            recalled_at=at,
        )
        with plant.db.write() as conn:
            recall_log.insert(conn, [recall])
    assert plant.run("upkeep").success
    (left,) = list_recalls(plant.db, "shop", limit=10)
    assert left.query_digest == "young"


def test_vectors_of_texts_that_nobody_holds_go_and_those_of_others_when_asked(plant: Plant):
    direction = np.array([1], dtype=np.float32)
    plant.scope("shop")
    remember.remember(plant.db, "shop", kind="fact", text="said", now_us=now_us())
    for profile in ("builtin:usem3:512:unit", "openai:old:1:unit"):
        with plant.db.write() as conn:
            texts = [digest(text) for text in ("said", "never said")]
            vectors.put(conn, profile, dict.fromkeys(texts, direction))

    def left():
        with plant.db.read() as conn:
            return {one.profile: one.vectors for one in vectors.sizes(conn)}

    assert plant.run("upkeep").success
    assert left() == {"builtin:usem3:512:unit": 1, "openai:old:1:unit": 1}
    config = {"ops": {"prune_vectors": {"config": {"other_profiles": True}}}}
    assert plant.run("upkeep", config=config).success
    assert left() == {"builtin:usem3:512:unit": 1}


def test_a_pruned_window_can_be_brought_back_by_its_name(plant: Plant):
    plant.scope("shop")
    plant.put("shop", 3)
    key = "shop@00000001-00000003"
    plant.extract(key)
    plant.instance.delete_dynamic_partition("pc_main_memory_windows", key)
    assert plant.extract(key, mode="replay").success
    assert plant.materialized("memory_windows", key)["mode"] == "replay"


def test_old_runs_go_once_nothing_shows_them(plant: Plant):
    plant.scope("shop")
    plant.put("shop", 6)
    first, second = "shop@00000001-00000003", "shop@00000004-00000006"
    runs = [plant.extract(first).run_id, plant.extract(second).run_id]
    plant.tick("source_log_observer")
    idle = plant.drain().run_id  # reported nothing
    config = {"ops": {"delete_old_runs": {"config": {"older_than_days": 0}}}}

    plant.run("upkeep", config=config)
    assert plant.instance.has_run(runs[0])  # both keys are listed: both runs are still shown
    assert plant.instance.has_run(runs[1])
    assert not plant.instance.has_run(idle)

    for key in (first, second):
        plant.instance.delete_dynamic_partition("pc_main_memory_windows", key)
    plant.run("upkeep", config=config)
    assert not plant.instance.has_run(runs[0])
    assert plant.instance.has_run(runs[1])  # where the scope's memory stands
    assert plant.materialized("memory", "shop")["cursor"] == 6


def test_young_runs_stay(plant: Plant):
    run = plant.drain().run_id
    assert plant.run("upkeep").success
    assert plant.instance.has_run(run)


def test_the_audit_passes_on_a_sound_store_and_names_what_is_wrong(plant: Plant):
    plant.scope("shop")
    plant.put("shop", 6, text="We decided that order {n} must be paid in advance.")
    plant.extract("shop@00000001-00000003")
    sound = plant.run("integrity_audit")
    assert sound.success
    results = sound.get_asset_check_evaluations()
    on_state = {
        key.name
        for key in REPOSITORY.asset_graph.asset_check_keys
        if not key.asset_key.to_user_string().endswith("_windows")  # those judge answers
    }
    assert {"positions_are_gapless", "head_equals_manifest", "index_covers_ledger"} <= on_state
    assert {one.check_name: one.passed for one in results} == dict.fromkeys(on_state, True)
    with plant.db.engine.begin() as conn:
        conn.execute(sa.text("DELETE FROM sources WHERE position = 2"))
        conn.execute(
            sa.text(
                "INSERT INTO quarantined_sources (scope_id, consumer, position, window_id, reason,"
                " quarantined_at) VALUES ('shop', 'memory', 5, 'w', 'why', :now)"
            ),
            {"now": now_us()},
        )
    broken = plant.run("integrity_audit")
    failed = {one.check_name: one for one in broken.get_asset_check_evaluations() if not one.passed}
    assert failed["positions_are_gapless"].severity == dg.AssetCheckSeverity.ERROR
    assert failed["no_quarantined_sources"].severity == dg.AssetCheckSeverity.WARN
    assert failed["positions_are_gapless"].metadata["offending rows"].value == 1
    (record,) = failed["positions_are_gapless"].metadata["offenders"].records
    assert record.data["scope_id"] == "shop"
    assert "every_citation_resolves" in failed


def test_a_landing_run_does_not_audit_every_scope(plant: Plant):
    plant.scope("shop")
    result = plant.run("source_ingestion", partition="shop")
    assert steps(result, dg.DagsterEventType.STEP_SUCCESS) == ["source_log"]
    assert result.get_asset_check_evaluations() == []
