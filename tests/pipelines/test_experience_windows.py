"""`experience_windows`, one window at a time: the code of memory's, for candidates."""

import dagster as dg
import pytest
from dagster import DagsterEventType
from model_stub import adding, hold, says, status
from outcome_windows import FIRST, PASSED, SECOND, answers, checks, outcome, pending, proposing
from plant import Plant, failure_message, in_thread, steps
from recurrence_rig import SCOPE, Ledger

from pc_store.domain.source import new_source
from pc_store.services import administer, capture
from pc_store.services.clock import now_us

OPS = ["open_window", "ask_model", "validate", "commit", "report"]
FAILURE = {
    "signature": {"recall_cue": "Amounts off by one cent", "symptom": None},
    "repair_surface": "experience_content",
    "verification": {"condition": "an amount was read", "check_subject": "cents check"},
}


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


def test_an_answer_of_another_kind_is_refused(asking, model_stub):
    asking.scope("shop")
    asking.put_outcomes("shop", outcome())
    model_stub.always(adding(("Fact 1 holds.", "e1")))
    result = asking.incubate("shop@00000001-00000001")
    assert steps(result, DagsterEventType.STEP_FAILURE) == ["validate"]
    assert pending(asking) == []


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
