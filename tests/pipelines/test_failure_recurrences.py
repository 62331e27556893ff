"""Recurrence in Dagster: the sensor finds what is due, the two assets do and show it."""

import pytest
from model_stub import says, status
from plant import Plant, failure_message
from recurrence_rig import CUE, SCOPE, Ledger, avoiding, check, content, told

from pc_pipelines.partitions import scopes as scope_set
from pc_store.domain.experience import parse
from pc_store.services import administer
from pc_store.services.clock import now_us

SENSOR = "recurrence_due"


@pytest.fixture
def ledger(plant: Plant) -> Ledger:
    """The scope `orders` of the plant's store."""
    administer.create_scope(plant.db, SCOPE, now_us=1)
    made = Ledger(plant.db, plant.settings, now=now_us() - 3_600_000_000)
    made.capture("log", "The log of the run.")
    return made


def due(plant: Plant) -> list[tuple[str | None, str]]:
    return [(one.partition_key, one.tags["pc/due"]) for one in plant.tick(SENSOR).requests]


def test_outcomes_are_judged_and_three_in_a_row_open_a_review(plant, ledger):
    ref = ledger.experience()
    for _ in range(3):
        ledger.fails()
    ledger.capture("prose", "Again!", {"kind": "task-outcome"})
    tick = plant.tick(SENSOR)
    assert [request.partition_key for request in tick.requests] == [SCOPE]
    assert plant.keys(scope_set) == [SCOPE]
    [result] = plant.perform(tick)
    assert result.success
    [review] = ledger.reviews()
    judged = plant.materialized("failure_recurrences", SCOPE)
    assert {name: judged[name] for name in judged if name != "longest streaks"} == {
        "scope": SCOPE,
        "outcomes": 5,
        "malformed": 1,
        "recurred": 3,
        "avoided": 0,
        "unmatched": 1,
        "ambiguous": 0,
        "pending": 0,
        "cursor": ledger.end(),
    }
    [row] = [record.data for record in judged["longest streaks"].records]
    assert (row["experience"], row["streak"], row["review"]) == (ref.artifact_id, 3, "due")
    reviews = plant.materialized("recurrence_reviews", SCOPE)
    assert {name: reviews[name] for name in reviews if name != "reviews"} == {
        "scope": SCOPE,
        "opened": 1,
        "grown": 0,
        "blocked": 0,
        "drafted": 0,
        "refused": 0,
        "model calls": 0,
        "tokens in": 0,
        "tokens out": 0,
    }
    [row] = [record.data for record in reviews["reviews"].records]
    assert row["candidate"] == review.candidate_id
    assert due(plant) == []


def test_a_review_that_became_due_elsewhere_is_found(plant, ledger):
    ledger.experience()
    for _ in range(3):
        ledger.fails()
    ledger.run()
    assert due(plant) == [(SCOPE, "reviews")]


def test_a_model_drafts_the_change_and_a_failing_one_fails_no_run(
    plant, ledger, model_stub, monkeypatch
):
    for name, value in model_stub.env().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PC_LLM_TRANSPORT_RETRIES", "0")
    monkeypatch.setenv("PC_RETRY_BASE_S", "0")
    ref = ledger.experience()
    for _ in range(3):
        ledger.fails()
    model_stub.answer(status(500))
    assert all(result.success for result in plant.perform(plant.tick(SENSOR)))
    told_of = plant.materialized("recurrence_reviews", SCOPE)
    assert [told_of[name] for name in ("opened", "drafted", "refused")] == [1, 0, 1]
    [row] = [record.data for record in told_of["drafts"].records]
    assert (row["done"], row["attempt"]) == ("failed", 1)
    [made] = ledger.reviews()
    assert due(plant) == [(SCOPE, "drafts")]
    draft = content(lesson="Round once, at the end.")
    shows = [f"source:content/{one.source_id}" for one in made.evidence.sources]
    model_stub.answer(says({"reason": "All do.", "evidence_ids": shows, "proposal": draft}))
    result = plant.run("recurrence", partition=SCOPE)
    assert [
        event.step_key for event in result.all_events if event.event_type_value == "STEP_SUCCESS"
    ] == [
        "failure_recurrences",
        *(f"recurrence_reviews.{step}" for step in ("open_reviews", "draft_changes", "report")),
    ]
    told_of = plant.materialized("recurrence_reviews", SCOPE)
    names = ("drafted", "refused", "model calls", "tokens in", "tokens out")
    assert [told_of[name] for name in names] == [1, 0, 1, 100, 20]
    [now] = ledger.reviews()
    assert (now.version, now.target, now.proposal) == (2, ref, parse(draft))
    assert due(plant) == []


def test_logs_without_outcomes_ask_for_no_run(plant, ledger):
    ledger.capture("chat", "hello")
    assert due(plant) == []
    assert ledger.run().cursor == ledger.end()


def test_a_scope_with_a_run_is_left_alone(plant, ledger):
    ledger.experience()
    ledger.fails()
    [request] = plant.tick(SENSOR).requests
    plant.queued(request)
    ledger.fails()
    assert due(plant) == []


def test_a_partition_that_is_no_scope_fails_with_a_sentence(plant):
    result = plant.run("recurrence", partition="nowhere")
    assert failure_message(result) == "no scope has the key 'nowhere'"


def test_checks_show_what_people_have_to_see(plant, ledger):
    ref = ledger.experience()
    ledger.receipt(ref)
    ledger.outcome(avoiding("receipt-1"))
    ledger.raw(told(checks=[check(CUE)], receipt="never"), "unlinked")
    ledger.capture("prose", "Again!", {"kind": "task-outcome"})
    ledger.run()
    result = plant.run("integrity_audit")
    shown = {
        one.check_name: one.passed
        for one in result.get_asset_check_evaluations()
        if one.asset_key.to_user_string() in ("failure_recurrences", "recurrence_reviews")
    }
    assert shown == {
        "every_task_outcome_can_be_read": False,
        "every_receipt_named_counts": False,
        "every_cue_has_one_experience": True,
        "streaks_follow_from_verdicts": True,
        "one_open_review_per_failure": True,
        "no_review_is_blocked": True,
    }
