"""`memory_windows`, run as a job in this process: what is written, and what the UI then shows."""

import dagster as dg
import pytest
import sqlalchemy as sa
from dagster import DagsterEventType
from model_stub import adding, hold, says, status
from plant import PASSED, Plant, failure_message, in_thread, steps

from pc_pipelines.definitions import defs
from pc_store.services.clock import now_us
from pc_store.services.extract import flush
from pc_store.services.promote import diff, discard

OPS = ["open_window", "ask_model", "validate", "commit", "report"]
FIRST = "shop@00000001-00000003"
SECOND = "shop@00000004-00000006"


@pytest.mark.parametrize(
    ("ledger", "history"), [("sqlite", "sqlite"), ("postgres", "postgres")], ids=["sqlite", "pg"]
)
def test_a_window_becomes_memory_and_every_op_and_check_says_so(
    new_plant, model_stub, ledger, history
):
    env = {name.removeprefix("PC_"): value for name, value in model_stub.env().items()}
    plant = new_plant(ledger=ledger, history=history, **env)
    plant.scope("shop")
    plant.put("shop", 5)
    result = plant.extract(FIRST)
    assert result.success
    assert steps(result, DagsterEventType.STEP_SUCCESS) == OPS
    assert plant.cursor("shop") == 3
    assert plant.texts("shop") == ["Fact 1 holds.", "Fact 2 holds.", "Fact 3 holds."]
    assert plant.checks(FIRST) == PASSED

    metadata = plant.materialized("memory_windows", FIRST)
    assert metadata.pop("seconds in the model") > 0
    (window,) = plant.windows("shop")
    assert metadata == {
        "scope": "shop",
        "first position": 1,
        "last position": 3,
        "mode": "live",
        "provider": "openai",
        "model": "stub-1",
        "prompt": "memory.extract, packaged version 1",
        "attempt": 1,
        "positions": 3,
        "sources shown": 3,
        "sources filtered": 0,
        "entries shown": 0,
        "proposals": 3,
        "proposals accepted": 3,
        "proposals rejected": 0,
        "entries added": 3,
        "entries revised": 0,
        "entries known already": 0,
        "model calls": 1,
        "tokens in": 100,
        "tokens out": 20,
        "re-asks": 0,
        "memory revision": 1,
        "window id": window.window_id,
        "cursor after": 3,
        "lag after": 2,
        "active entries after": 3,
    }
    assert window.run_id == result.run_id
    assert plant.materialized("memory", "shop") == {
        "scope": "shop",
        "revision": 1,
        "active entries": 3,
        "retired entries": 0,
        "cursor": 3,
        "lag": 2,
    }


def test_the_next_window_follows_and_its_entries_join_the_others(plant: Plant):
    plant.scope("shop")
    plant.put("shop", 6, text="We decided that orders of more than {n}00 EUR need an approval.")
    assert plant.extract(FIRST).success
    assert plant.extract(SECOND).success
    assert plant.cursor("shop") == 6
    assert plant.materialized("memory_windows", SECOND)["provider"] == "builtin"
    assert plant.materialized("memory", "shop")["lag"] == 0


def test_a_rejected_answer_writes_nothing_and_fails_its_check_with_the_reason(asking, model_stub):
    asking.scope("shop")
    asking.put("shop", 3)
    model_stub.always(adding(("Fact 1 holds.", "e1"), ("Nobody said this.", "e99")))
    result = asking.extract(FIRST)
    assert not result.success
    assert steps(result, DagsterEventType.STEP_SUCCESS) == ["open_window", "ask_model"]
    assert steps(result, DagsterEventType.STEP_FAILURE) == ["validate"]
    assert (asking.cursor("shop"), asking.texts("shop")) == (0, [])
    assert asking.materialized("memory_windows", FIRST) is None

    shown = asking.checks(FIRST)
    assert shown.pop("evidence_ids_resolve") == "FAILED"
    assert set(shown.values()) == {"SUCCEEDED"}

    message = failure_message(result)
    assert "Nobody said this" not in message
    assert "proposal 2" in message
    assert "Nothing was written; the cursor stays at 0 and the next attempt is due at" in message
    (window,) = asking.windows("shop")
    assert (window.status, window.attempt, window.counted_failures) == ("failed", 1, 1)
    assert window.error["code"] == "inference_invalid_output"
    assert window.next_attempt_at - window.started_at > 20_000_000  # 30 s, give or take a fifth


def test_a_dropped_secret_warns_and_the_rest_is_committed(asking, model_stub):
    asking.scope("shop")
    asking.put("shop", 3)
    key = "AKIA" + "QWERTYUIOPASDFGH"
    model_stub.always(adding(("Fact 1 holds.", "e1"), (f"The key is {key}.", "e2")))
    result = asking.extract(FIRST)
    assert result.success
    assert asking.texts("shop") == ["Fact 1 holds."]
    assert asking.checks(FIRST) == {**PASSED, "no_secret_in_text": "FAILED"}
    failed = [one for one in result.get_asset_check_evaluations() if not one.passed]
    assert [one.severity for one in failed] == [dg.AssetCheckSeverity.WARN]
    assert key not in str(asking.materialized("memory_windows", FIRST))


def memory_extraction() -> dg.JobDefinition:
    return defs.resolve_job_def("memory_extraction")


def test_re_executing_a_failed_commit_does_not_ask_the_model_again(asking, model_stub):
    asking.scope("shop")
    asking.put("shop", 3)
    full = "CREATE TRIGGER full BEFORE INSERT ON memory_changes BEGIN SELECT RAISE(ABORT, 'x'); END"
    with asking.db.engine.begin() as conn:
        conn.execute(sa.text(full))
    failed = asking.extract(FIRST)
    assert steps(failed, DagsterEventType.STEP_FAILURE) == ["commit"]
    assert (asking.cursor("shop"), asking.texts("shop")) == (0, [])
    with asking.db.engine.begin() as conn:
        conn.execute(sa.text("DROP TRIGGER full"))
    asked = len(model_stub.requests())
    with dg.execute_job(
        dg.reconstructable(memory_extraction),
        instance=asking.instance,
        tags={"dagster/partition": FIRST},  # as the UI copies it from the failed run
        reexecution_options=dg.ReexecutionOptions.from_failure(failed.run_id, asking.instance),
    ) as again:
        assert again.success
        done = [e.step_key for e in again.all_events if e.is_step_success]
    assert done == ["memory_windows.commit", "memory_windows.report"]
    assert len(model_stub.requests()) == asked == 1
    assert asking.cursor("shop") == 3
    assert asking.checks(FIRST) == PASSED


@pytest.mark.slow
def test_a_provider_fault_is_retried_by_its_op_and_no_other(asking, model_stub):
    asking.scope("shop")
    asking.put("shop", 3)
    model_stub.answer(status(503))
    result = asking.extract(FIRST)
    assert steps(result, DagsterEventType.STEP_UP_FOR_RETRY) == ["ask_model"]
    assert steps(result, DagsterEventType.STEP_RESTARTED) == ["ask_model"]
    assert result.success
    assert asking.cursor("shop") == 3


@pytest.mark.parametrize("number", [401, 404])
def test_a_refusing_endpoint_is_not_retried(asking, model_stub, number):
    asking.scope("shop")
    asking.put("shop", 3)
    model_stub.always(status(number))
    result = asking.extract(FIRST)
    assert not result.success
    assert steps(result, DagsterEventType.STEP_UP_FOR_RETRY) == []
    assert len(model_stub.requests()) == 1
    (window,) = asking.windows("shop")
    assert (window.status, window.error["code"]) == ("failed", "inference_misconfigured")


def test_a_processed_window_is_left_alone_and_the_run_says_why(plant: Plant):
    plant.scope("shop")
    plant.put("shop", 3)
    plant.extract(FIRST)
    before = plant.materialized("memory_windows", FIRST)
    result = plant.extract(FIRST)
    assert result.success
    assert steps(result, DagsterEventType.STEP_SKIPPED) == OPS[1:]
    assert result.get_asset_materialization_events() == []
    assert plant.observed("memory_windows", FIRST) == [
        f"{FIRST} is already processed, the cursor is at 3: nothing was done. "
        "Launch it with mode: replay to run it again."
    ]
    assert plant.materialized("memory_windows", FIRST) == before
    assert plant.checks(FIRST) == PASSED
    assert len(plant.windows("shop")) == 1


def test_a_replay_runs_a_window_again_and_the_cursor_stays(asking, model_stub):
    asking.scope("shop")
    asking.put("shop", 6)
    asking.extract(FIRST)
    asking.extract(SECOND)
    model_stub.answer(adding(("Fact 1 holds, says the new prompt.", "e1")))
    result = asking.extract(FIRST, mode="replay")
    assert result.success
    assert asking.cursor("shop") == 6
    assert asking.texts("shop")[-1] == "Fact 1 holds, says the new prompt."
    shown = asking.materialized("memory_windows", FIRST)
    assert (shown["mode"], shown["entries added"], shown["cursor after"]) == ("replay", 1, 6)
    assert asking.checks(FIRST) == PASSED


def test_a_rejected_replay_leaves_the_window_materialised_and_fails_its_check(asking, model_stub):
    asking.scope("shop")
    asking.put("shop", 3)
    asking.extract(FIRST)
    model_stub.always(says({"candidates": "none"}))
    result = asking.extract(FIRST, mode="replay")
    assert not result.success
    assert "the memory is as it was" in failure_message(result)
    assert asking.materialized("memory_windows", FIRST)["mode"] == "live"
    assert asking.texts("shop") == ["Fact 1 holds.", "Fact 2 holds.", "Fact 3 holds."]


@pytest.mark.parametrize(
    ("key", "mode", "reason"),
    [
        ("shop", "auto", "'shop' is no window: SCOPE@FIRST-LAST"),
        ("shop@1-3", "auto", "eight-digit positions is expected"),
        ("shop@00000003-00000001", "auto", "do not run back"),
        ("shop@00000000-00000003", "auto", "count from 1"),
        ("nobody@00000001-00000003", "auto", "nobody"),
        (SECOND, "auto", "ahead of the cursor, which is at 0: the windows before it come first"),
        ("shop@00000001-00000099", "auto", "ends past the log, which ends at 6"),
        ("shop@00000001-00009999", "auto", "covers more than 1000 positions"),
        (FIRST, "replay", "is not behind the cursor, which is at 0"),
    ],
)
def test_a_key_that_names_no_window_of_now_fails_with_the_reason_and_no_retry(
    plant: Plant, key, mode, reason
):
    plant.scope("shop")
    plant.put("shop", 6)
    result = plant.extract(key, mode=mode)
    assert not result.success
    assert steps(result, DagsterEventType.STEP_FAILURE) == ["open_window"]
    assert steps(result, DagsterEventType.STEP_UP_FOR_RETRY) == []
    assert reason in failure_message(result)
    assert (plant.cursor("shop"), plant.windows("shop")) == (0, [])


def test_a_window_across_the_cursor_or_unlike_the_planned_one_is_refused(plant: Plant):
    plant.scope("shop")
    plant.put("shop", 6)
    plant.extract(FIRST)
    across = plant.extract("shop@00000002-00000004")
    assert "lies across the cursor, which is at 3" in failure_message(across)
    plant.tick("memory_windows_due")  # plans (3, 6]
    other = plant.extract("shop@00000004-00000005")
    assert "does not match the window that is planned: (3, 6]" in failure_message(other)


def test_a_run_that_another_overtook_ends_well_and_writes_nothing(asking, model_stub):
    asking.scope("shop")
    asking.put("shop", 3)
    model_stub.answer(hold(adding(("The slow run says this.", "e1"))))
    slow = in_thread(lambda: asking.extract(FIRST))
    model_stub.wait_until_held()
    fast = asking.extract(FIRST)
    assert fast.success
    model_stub.release()
    result = slow()
    assert result.success
    assert result.get_asset_materialization_events() == []
    assert asking.observed("memory_windows", FIRST) == [
        f"{FIRST} is processed: run {fast.run_id} was faster, this run wrote nothing."
    ]
    assert asking.texts("shop") == ["Fact 1 holds.", "Fact 2 holds.", "Fact 3 holds."]
    assert asking.checks(FIRST) == PASSED


def test_a_flush_during_the_model_call_wins_and_the_run_says_so(asking, model_stub):
    asking.scope("shop")
    asking.put("shop", 3)
    model_stub.answer(hold())
    slow = in_thread(lambda: asking.extract(FIRST))
    model_stub.wait_until_held()
    from pc_pipelines.resources import StoreResource

    flush(asking.db, asking.settings, StoreResource().proposer, "shop")
    model_stub.release()
    assert slow().success
    assert len(asking.texts("shop")) == 3


def test_sources_that_arrive_during_the_model_call_wait_for_the_next_window(asking, model_stub):
    asking.scope("shop")
    asking.put("shop", 2)
    model_stub.answer(hold())
    run = in_thread(lambda: asking.extract("shop@00000001-00000002"))
    model_stub.wait_until_held()
    asking.put("shop", 2)
    model_stub.release()
    assert run().success
    assert asking.cursor("shop") == 2
    assert asking.materialized("memory_windows", "shop@00000001-00000002")["lag after"] == 2


def test_nothing_a_run_leaves_in_dagster_holds_the_text_of_a_source(asking, model_stub):
    asking.scope("shop")
    asking.put("shop", 3, text="The password of customer {n} is hunter2.")
    model_stub.always(says({"candidates": []}))
    asking.extract(FIRST)
    held = [path.read_bytes() for path in asking.home.rglob("*") if path.is_file()]
    assert not [content for content in held if b"hunter2" in content]


def test_a_shadow_replay_keeps_its_results_aside_and_adds_nothing_to_plots(asking, model_stub):
    asking.scope("shop")
    asking.put("shop", 6)
    asking.extract(FIRST)
    asking.extract(SECOND)
    memory = asking.materialized("memory", "shop")
    model_stub.answer(adding(("Fact 1 holds, says the new prompt.", "e1")))

    result = asking.extract(FIRST, mode="shadow", generation="prompt-2")

    assert result.success
    assert asking.texts("shop") == [f"Fact {n} holds." for n in range(1, 7)]
    assert asking.cursor("shop") == 6
    shown = asking.materialized("memory_windows", FIRST)
    window = asking.windows("shop")[-1]
    assert shown.pop("shadow replay").startswith(
        "**Nothing of the memory changed.** 3 sources were shown; 1 proposals are kept"
    )
    assert shown == {
        "mode": "shadow",
        "generation": "prompt-2",
        "scope": "shop",
        "provider": "openai",
        "model": "stub-1",
        "prompt": "memory.extract, packaged version 1",
        "window id": window.window_id,
    }
    assert asking.materialized("memory", "shop") == memory
    assert asking.checks(FIRST) == PASSED
    first = diff(asking.db, "shop", "prompt-2").items[0]
    assert (first.what, first.text) == ("added", "Fact 1 holds, says the new prompt.")

    asked = len(model_stub.requests())
    again = asking.extract(FIRST, mode="shadow", generation="prompt-2")
    assert again.success
    assert len(again.get_asset_materialization_events()) == 1  # so that a backfill counts it
    assert (len(model_stub.requests()), asking.checks(FIRST)) == (asked, PASSED)

    discard(asking.db, "shop", "prompt-2", now_us=now_us())
    ended = asking.extract(SECOND, mode="shadow", generation="prompt-2")
    assert not ended.success
    assert "generation 'prompt-2' was discarded already" in failure_message(ended)
    nameless = asking.extract(SECOND, mode="shadow")
    assert "a shadow replay names where its results are kept" in failure_message(nameless)
    assert asking.tick("windows_committed_elsewhere").skipped == (
        "0 windows reported, 0 keys of overtaken windows removed"
    )
