"""`experience_windows`, its drain and its sensor: the code of memory's, for candidates."""

import json
import os
import subprocess
import sys

import dagster as dg
import pytest
from dagster import DagsterEventType
from model_stub import adding, hold, says, status
from plant import REPOSITORY, Plant, failure_message, in_thread, steps
from recurrence_rig import SCOPE, Ledger

from pc_pipelines.resources import StoreResource
from pc_pipelines.window_sets import EXPERIENCE_WINDOWS
from pc_store.domain.candidate import Candidate
from pc_store.domain.source import new_source
from pc_store.domain.window import parse_key
from pc_store.services import administer, capture, incubate
from pc_store.services.begin import open_named
from pc_store.services.clock import now_us
from pc_store.services.review import list_candidates

OPS = ["open_window", "ask_model", "validate", "commit", "report"]
PASSED = dict.fromkeys(EXPERIENCE_WINDOWS.family.checks, "SUCCEEDED")
FIRST = "shop@00000001-00000003"
SECOND = "shop@00000004-00000006"
CONTENT = {
    "situation": "An amount went through a float before it became cents.",
    "action": "Parsed the text as Decimal.",
    "outcome": "The input that failed gives the expected value.",
    "lesson": "Decimal for this importer; other precisions need their own checks.",
    "failure": None,
}
FAILURE = {
    "signature": {"recall_cue": "Amounts off by one cent", "symptom": None},
    "repair_surface": "experience_content",
    "verification": {"condition": "an amount was read", "check_subject": "cents check"},
}


def outcome(objective: str = "Import the orders.") -> str:
    """A task outcome as JSON."""
    return json.dumps(
        {
            "objective": objective,
            "status": "succeeded",
            "summary": "It was imported.",
            "observations": [{"text": "The import ran."}],
        }
    )


def proposing(*evidence_ids: str, **changes: object) -> dict[str, object]:
    """One candidate, as the model gives it."""
    return {"proposal": CONTENT | changes, "evidence_ids": list(evidence_ids)}


def answers(*items: dict[str, object]):
    return says({"candidates": list(items)})


def pending(plant: Plant, scope_id: str = "shop") -> list[Candidate]:
    return list(list_candidates(plant.db, scope_id, limit=100).items)


def checks(plant: Plant, key: str) -> dict[str, str]:
    return plant.checks(key, EXPERIENCE_WINDOWS)


def put(plant: Plant, scope_id: str, count: int) -> None:
    plant.put_outcomes(scope_id, *(outcome(f"Task {n}.") for n in range(count)))


def due(plant: Plant):
    return plant.tick("experience_windows_due")


# one window


@pytest.mark.parametrize(
    ("ledger", "history"), [("sqlite", "sqlite"), ("postgres", "postgres")], ids=["sqlite", "pg"]
)
def test_a_window_becomes_candidates_and_every_op_and_check_says_so(
    new_plant, model_stub, ledger, history
):
    env = {name.removeprefix("PC_"): value for name, value in model_stub.env().items()}
    plant = new_plant(ledger=ledger, history=history, **env)
    plant.scope("shop")
    plant.put("shop", 1)
    plant.put_outcomes("shop", outcome("Reproduce it."), outcome("Verify the fix."))
    plant.put("shop", 2)
    model_stub.answer(answers(proposing("e1", "e2")))
    result = plant.incubate(FIRST)
    assert result.success
    assert steps(result, DagsterEventType.STEP_SUCCESS) == OPS
    assert (plant.cursor("shop", "experience"), plant.cursor("shop")) == (3, 0)
    [made] = pending(plant)
    assert made.origin == "incubation"
    assert checks(plant, FIRST) == PASSED

    metadata = plant.materialized("experience_windows", FIRST)
    assert metadata.pop("seconds in the model") > 0
    [window] = plant.windows("shop")
    assert metadata == {
        "scope": "shop",
        "first position": 1,
        "last position": 3,
        "mode": "live",
        "provider": "openai",
        "model": "stub-1",
        "prompt": "experience.incubate, packaged version 1",
        "attempt": 1,
        "positions": 3,
        "sources shown": 2,
        "sources filtered": 1,
        "proposals": 1,
        "proposals accepted": 1,
        "proposals rejected": 0,
        "candidates made": 1,
        "candidates known already": 0,
        "failures recurred": 0,
        "failures avoided": 0,
        "model calls": 1,
        "tokens in": 100,
        "tokens out": 20,
        "re-asks": 0,
        "window id": window.window_id,
        "cursor after": 3,
        "lag after": 2,
    }
    assert (window.consumer, window.run_id) == ("experience", result.run_id)
    assert plant.materialized("experience", "shop") is None  # nobody has approved anything
    assert plant.keys() == []  # memory's windows are other partitions


def test_the_article_s_window_of_twenty_five_sources_cursor_ten_limit_five(new_plant, model_stub):
    env = {name.removeprefix("PC_"): value for name, value in model_stub.env().items()}
    plant = new_plant(SOURCE_WINDOW_LIMIT="5", LLM_TRANSPORT_RETRIES="0", **env)
    plant.scope("shop")
    plant.put("shop", 11)
    plant.put_outcomes("shop", outcome("Reproduce it."), outcome("Verify the fix."))
    elsewhere = new_source("s14", "{}", {"kind": "task-outcome"}, source_type="task-outcome")
    document = new_source("s15", "a document", {"kind": "document"})
    capture.capture_many(plant.db, "shop", [elsewhere, document], now_us=now_us())
    plant.put("shop", 10)
    for key in ("shop@00000001-00000005", "shop@00000006-00000010"):
        assert plant.incubate(key).success
    assert plant.cursor("shop", "experience") == 10
    assert model_stub.requests() == []  # nothing of it was a task outcome

    key = "shop@00000011-00000015"
    model_stub.answer(answers(proposing("e1", "e2")))
    assert plant.incubate(key).success
    shown = plant.materialized("experience_windows", key)
    figures = ("positions", "sources shown", "sources filtered", "candidates made")
    assert [shown[name] for name in figures] == [5, 2, 3, 1]
    assert (shown["cursor after"], shown["lag after"]) == (15, 10)
    [made] = pending(plant)
    assert [ref.source_id for ref in made.evidence.sources] == ["s12", "s13"]


def test_a_window_without_task_outcomes_asks_nobody_and_moves_the_cursor(asking, model_stub):
    asking.scope("shop")
    asking.put("shop", 3)
    assert asking.incubate(FIRST).success
    assert model_stub.requests() == []
    shown = asking.materialized("experience_windows", FIRST)
    assert (shown["sources shown"], shown["sources filtered"], shown["model calls"]) == (0, 3, 0)
    assert (asking.cursor("shop", "experience"), pending(asking)) == (3, [])
    assert checks(asking, FIRST) == PASSED


def test_without_a_model_the_builtin_author_drafts_from_each_outcome(plant: Plant):
    plant.scope("shop")
    plant.put_outcomes("shop", outcome("Import the orders."), "no outcome at all")
    assert plant.incubate("shop@00000001-00000002").success
    [made] = pending(plant)
    assert made.proposal.situation == "Import the orders."
    shown = plant.materialized("experience_windows", "shop@00000001-00000002")
    assert (shown["provider"], shown["model"]) == ("builtin", "outcome-2")
    assert (shown["sources shown"], shown["candidates made"]) == (2, 1)


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (proposing("e99"), "evidence_ids_resolve"),
        (proposing("e1", failure=FAILURE), "failures_are_supported"),
        (proposing("e1", lesson=""), "every_proposal_is_well_formed"),
    ],
)
def test_a_refused_answer_writes_nothing_and_fails_its_check(asking, model_stub, broken, check):
    asking.scope("shop")
    asking.put_outcomes("shop", outcome("a"), outcome("b"), outcome("c"))
    model_stub.always(answers(proposing("e1"), broken))
    result = asking.incubate(FIRST)
    assert not result.success
    assert steps(result, DagsterEventType.STEP_SUCCESS) == ["open_window", "ask_model"]
    assert steps(result, DagsterEventType.STEP_FAILURE) == ["validate"]
    assert (asking.cursor("shop", "experience"), pending(asking)) == (0, [])
    assert asking.materialized("experience_windows", FIRST) is None
    assert checks(asking, FIRST) == {**PASSED, check: "FAILED"}
    message = failure_message(result)
    assert "Nothing was written; the cursor stays at 0 and the next attempt is due at" in message
    [window] = asking.windows("shop")
    assert (window.status, window.attempt, window.counted_failures) == ("failed", 1, 1)


def test_a_dropped_secret_warns_and_the_other_candidates_are_made(asking, model_stub):
    asking.scope("shop")
    asking.put_outcomes("shop", outcome("a"), outcome("b"), outcome("c"))
    key = "AKIA" + "QWERTYUIOPASDFGH"
    model_stub.always(answers(proposing("e1"), proposing("e2", lesson=f"The key is {key}.")))
    result = asking.incubate(FIRST)
    assert result.success
    assert len(pending(asking)) == 1
    assert checks(asking, FIRST) == {**PASSED, "no_secret_in_text": "FAILED"}
    [failed] = [one for one in result.get_asset_check_evaluations() if not one.passed]
    assert failed.severity == dg.AssetCheckSeverity.WARN
    assert key not in str(asking.materialized("experience_windows", FIRST))


def test_a_run_that_another_overtook_ends_well_and_writes_nothing(asking, model_stub):
    asking.scope("shop")
    asking.put_outcomes("shop", outcome("a"), outcome("b"), outcome("c"))
    model_stub.answer(hold(answers(proposing("e1", lesson="The slow one."))))
    slow = in_thread(lambda: asking.incubate(FIRST))
    model_stub.wait_until_held()
    model_stub.answer(answers(proposing("e1", lesson="The fast one.")))
    fast = asking.incubate(FIRST)
    assert fast.success
    model_stub.release()
    result = slow()
    assert result.success
    assert result.get_asset_materialization_events() == []
    assert asking.observed("experience_windows", FIRST) == [
        f"{FIRST} is processed: run {fast.run_id} was faster, this run wrote nothing."
    ]
    assert [one.proposal.lesson for one in pending(asking)] == ["The fast one."]
    assert checks(asking, FIRST) == PASSED


@pytest.mark.slow
def test_a_processed_window_is_left_alone_and_a_replay_repeats_no_candidate(asking, model_stub):
    asking.scope("shop")
    asking.put_outcomes("shop", *(outcome(f"Task {n}.") for n in range(6)))
    for key in (FIRST, SECOND):
        model_stub.answer(answers(proposing("e1")))
        assert asking.incubate(key).success
    result = asking.incubate(FIRST)
    assert steps(result, DagsterEventType.STEP_SKIPPED) == OPS[1:]
    assert asking.observed("experience_windows", FIRST) == [
        f"{FIRST} is already processed, the cursor is at 6: nothing was done. "
        "Launch it with mode: replay to run it again."
    ]
    model_stub.answer(answers(proposing("e1"), proposing("e2", lesson="Another lesson.")))
    assert asking.incubate(FIRST, mode="replay").success
    shown = asking.materialized("experience_windows", FIRST)
    assert (shown["mode"], shown["cursor after"]) == ("replay", 6)
    assert (shown["candidates made"], shown["candidates known already"]) == (1, 1)
    assert "failures recurred" not in shown  # a replay judges no outcome again
    assert len(pending(asking)) == 3

    model_stub.always(says({"candidates": "none"}))
    refused = asking.incubate(FIRST, mode="replay")
    assert "the candidates are as they were" in failure_message(refused)


def test_failures_that_come_back_are_judged_in_the_same_commit(new_plant):
    plant = new_plant(SOURCE_WINDOW_LIMIT="10")
    administer.create_scope(plant.db, SCOPE, now_us=1)
    ledger = Ledger(plant.db, plant.settings, now=now_us() - 3_600_000_000)
    ledger.capture("log", "The log of the run.")
    ref = ledger.experience()
    ledger.fails()
    ledger.fails()
    key = f"{SCOPE}@00000001-{ledger.end():08d}"
    assert plant.incubate(key).success
    assert plant.materialized("experience_windows", key)["failures recurred"] == 2
    assert ledger.streak(ref) == 2


def test_nothing_a_run_leaves_in_dagster_holds_the_text_of_an_outcome(asking, model_stub):
    asking.scope("shop")
    asking.put_outcomes("shop", outcome("The password of customer 1 is hunter2."))
    model_stub.always(answers(proposing("e1", lesson="Never write hunter2 into a log.")))
    assert asking.incubate("shop@00000001-00000001").success
    assert len(pending(asking)) == 1
    held = [path.read_bytes() for path in asking.home.rglob("*") if path.is_file()]
    assert not [content for content in held if b"hunter2" in content]


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


def test_a_backlog_is_one_drain_of_its_own_job(plant: Plant):
    plant.scope("shop")
    put(plant, "shop", 10)
    tick = due(plant)
    assert tick.drains == [["shop"]]
    assert [request.job_name for request in tick.requests] == ["experience_drain"]
    assert all(result.success for result in plant.perform(tick))
    assert (plant.cursor("shop", "experience"), plant.cursor("shop")) == (10, 0)


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


@pytest.mark.slow
def test_a_provider_fault_is_retried_by_its_op_and_a_refusing_one_is_not(asking, model_stub):
    asking.scope("shop")
    asking.put_outcomes("shop", outcome("a"), outcome("b"), outcome("c"))
    model_stub.answer(status(401))
    assert steps(asking.incubate(FIRST), DagsterEventType.STEP_UP_FOR_RETRY) == []
    model_stub.answer(status(503), answers())
    result = asking.incubate(FIRST)
    assert steps(result, DagsterEventType.STEP_RESTARTED) == ["ask_model"]
    assert result.success


def test_an_answer_of_another_kind_is_refused(asking, model_stub):
    asking.scope("shop")
    asking.put_outcomes("shop", outcome())
    model_stub.always(adding(("Fact 1 holds.", "e1")))
    result = asking.incubate("shop@00000001-00000001")
    assert steps(result, DagsterEventType.STEP_FAILURE) == ["validate"]
    assert pending(asking) == []


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
