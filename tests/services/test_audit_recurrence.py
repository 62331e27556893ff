"""What the checks on the recurrence ledger find, and what they pass."""

import pytest
import sqlalchemy as sa
from recurrence_rig import CUE, SCOPE, avoiding, check, told

from pc_store.ledger.schema import candidates, recurrence_events, recurrence_streaks
from pc_store.services.audit import audit


def found(ledger):
    """The offending rows of every check that fails, without the ids."""
    patient = ledger.settings.model_copy(update={"inbox_age_target_s": 3_000_000_000})
    findings = audit(ledger.db, patient, scope_id=SCOPE)
    return {one.check: one.rows for one in findings if not one.passed}


def test_a_ledger_at_work_passes(ledger):
    ref = ledger.experience()
    ledger.receipt(ref)
    for letter in "RRARRR":
        ledger.fails() if letter == "R" else ledger.outcome(avoiding("receipt-1"))
        ledger.settle()
    assert found(ledger) == {}


def test_what_people_have_to_see_is_listed(ledger):
    first = ledger.experience()
    ledger.experience()
    prose = ledger.capture("prose", "It failed.", {"kind": "task-outcome"})
    forged = ledger.raw(told(checks=[check(CUE)], receipt="log"), "forged")
    ledger.run()
    assert found(ledger) == {
        "every_task_outcome_can_be_read": [
            {
                "scope_id": SCOPE,
                "position": prose,
                "source_id": "prose",
                "problem": "outcome: is not JSON: expecting value at line 1 column 1",
            }
        ],
        "every_receipt_named_counts": [
            {
                "scope_id": SCOPE,
                "position": forged,
                "source_id": "forged",
                "problem": "the source 'log' is no receipt that this server wrote",
            }
        ],
        "every_cue_has_one_experience": [
            {
                "scope_id": SCOPE,
                "cue_key": CUE.casefold(),
                "experiences": 2,
                "first": first.artifact_id,
                "last": found(ledger)["every_cue_has_one_experience"][0]["last"],
            }
        ],
    }


@pytest.mark.parametrize(
    "statement",
    [
        sa.update(recurrence_streaks).values(streak=2),
        sa.update(recurrence_streaks).values(last_position=1),
        sa.delete(recurrence_streaks),
        sa.delete(recurrence_events),
        sa.update(recurrence_events).values(event="avoided"),
        sa.update(recurrence_events).values(voided=True),
    ],
)
def test_counts_that_do_not_follow_from_the_verdicts_are_found(ledger, statement):
    ledger.experience()
    for _ in range(3):
        ledger.fails()
    ledger.run()
    with ledger.db.write() as conn:
        conn.execute(statement)
    assert list(found(ledger)) == ["streaks_follow_from_verdicts"]


def test_a_second_open_review_is_found(ledger):
    ledger.experience()
    for _ in range(3):
        ledger.fails()
    ledger.settle()
    with ledger.db.write() as conn:
        row = dict(
            conn.execute(sa.select(candidates).where(candidates.c.origin == "recurrence"))
            .one()
            ._mapping
        )
        conn.execute(sa.insert(candidates).values(row | {"candidate_id": "x", "cue_key": "y"}))
    assert list(found(ledger)) == ["one_open_review_per_failure"]
