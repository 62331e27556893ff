"""The drain job: a backlog, a sweep, failures among others, and the time budget."""

import pytest
from model_stub import adding, hold, status
from plant import PASSED, Plant, failure_message, in_thread

from pc_pipelines.definitions import defs


@pytest.mark.parametrize(
    ("ledger", "history"), [("sqlite", "sqlite"), ("postgres", "postgres")], ids=["sqlite", "pg"]
)
def test_a_backlog_is_drained_window_by_window_and_each_is_a_partition(new_plant, ledger, history):
    plant = new_plant(ledger=ledger, history=history)
    plant.scope("shop")
    plant.put("shop", 8, text="We decided that order {n} must be paid in advance.")
    result = plant.drain("shop")
    assert result.success
    keys = ["shop@00000001-00000003", "shop@00000004-00000006", "shop@00000007-00000008"]
    assert plant.keys() == keys
    assert plant.cursor("shop") == 8
    shown = [plant.materialized("memory_windows", key) for key in keys]
    assert [(one["last position"], one["cursor after"], one["lag after"]) for one in shown] == [
        (3, 3, 5),
        (6, 6, 2),
        (8, 8, 0),
    ]
    assert [plant.checks(key) for key in keys] == [PASSED] * 3
    assert plant.materialized("memory", "shop")["cursor"] == 8


def test_a_sweep_serves_its_scopes_in_turn(plant: Plant):
    for scope in ("a", "b", "c"):
        plant.scope(scope)
        plant.put(scope, 5)
    plant.drain("a", "b", "c")
    windows = plant.keys()
    assert [key.partition("@")[0] for key in windows] == ["a", "b", "c"] * 2
    assert [plant.cursor(scope) for scope in ("a", "b", "c")] == [5, 5, 5]


def test_sources_that_arrive_later_do_not_prolong_a_run(asking, model_stub):
    asking.scope("shop")
    asking.put("shop", 3)
    asking.put("shop", 1)
    model_stub.answer(hold())
    run = in_thread(lambda: asking.drain("shop"))
    model_stub.wait_until_held()
    asking.put("shop", 20)
    model_stub.release()
    assert run().success
    assert asking.cursor("shop") == 6  # the window that reaches past 4, the end it began with


def test_one_failing_scope_stops_no_other(asking, model_stub):
    for scope in ("a", "b", "c"):
        asking.scope(scope)
    asking.put("a", 4)
    asking.put("b", 6, text="POISON {n}.")
    asking.put("c", 4)
    model_stub.whenever("POISON", adding(("Nobody said this.", "e99")))
    result = asking.drain("a", "b", "c")
    assert not result.success
    assert [asking.cursor(scope) for scope in ("a", "b", "c")] == [4, 0, 4]
    message = failure_message(result)
    assert message.startswith("1 of 3 scopes failed, the others went on: b: the answer was refused")
    assert "POISON" not in message
    rejected = "b@00000001-00000003"
    assert asking.materialized("memory_windows", rejected) is None
    assert "FAILED" in asking.checks(rejected).values()
    (window,) = asking.windows("b")
    assert (window.status, window.attempt) == ("failed", 1)


def test_unknown_scopes_are_named_and_the_others_drained(plant: Plant):
    plant.scope("shop")
    plant.put("shop", 2)
    result = plant.drain("nobody", "shop")
    assert "1 of 2 scopes failed" in failure_message(result)
    assert plant.cursor("shop") == 2


def test_a_model_that_is_down_is_not_asked_for_every_scope(asking, model_stub):
    scopes = [f"s{n}" for n in range(8)]
    for scope in scopes:
        asking.scope(scope)
        asking.put(scope, 2)
    model_stub.always(status(503))
    result = asking.drain(*scopes)
    assert "3 of 8 scopes failed" in failure_message(result)
    assert len(model_stub.requests()) == 3
    assert [len(asking.windows(scope)) for scope in scopes] == [1, 1, 1, 0, 0, 0, 0, 0]


def test_no_window_is_begun_after_the_budget_but_one_always_is(plant: Plant):
    plant.scope("shop")
    plant.put("shop", 9)
    result = plant.drain("shop", budget_s=0.0)
    assert result.success
    assert plant.cursor("shop") == 3


def test_the_drain_op_waits_for_a_slot_of_the_pool_and_gives_it_back(plant: Plant):
    """In the in-process executor too: without a limit the pool would not bound anything."""
    plant.instance.event_log_storage.set_concurrency_slots("llm", 1)
    plant.scope("shop")
    plant.put("shop", 2)
    assert defs.resolve_job_def("memory_drain").get_node_named("drain").definition.pool == "llm"
    result = plant.drain("shop")
    assert result.success
    slots = plant.instance.event_log_storage.get_concurrency_info("llm")
    assert (slots.slot_count, slots.active_slot_count) == (1, 0)


def test_the_ask_op_gives_its_slot_back_after_a_failure(asking, model_stub):
    asking.instance.event_log_storage.set_concurrency_slots("llm", 1)
    asking.scope("shop")
    asking.put("shop", 3)
    model_stub.always(status(401))
    assert not asking.extract("shop@00000001-00000003").success
    slots = asking.instance.event_log_storage.get_concurrency_info("llm")
    assert (slots.slot_count, slots.active_slot_count) == (1, 0)


def test_the_empty_list_of_scopes_is_a_run_that_does_nothing(plant: Plant):
    assert plant.drain().success
