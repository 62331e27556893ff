"""The builtin author of dreams: it drafts from one record, and says what it cannot do."""

import pytest

from pc_store.domain import outcome, strict_json
from pc_store.domain.dream_graph import Projection, ShownItem
from pc_store.llm.builtin_dream import BuiltinDreamer
from pc_store.llm.builtin_experience import draft

RECORD = {
    "objective": "Import the orders.",
    "status": "succeeded",
    "summary": "Decimal was used.",
    "observations": [{"text": "0.29 became 29 cents."}],
}


def item(name, kind, text):
    return ShownItem(name, kind, text, False, ())


def entry(name="e_m"):
    return item(name, "memory", '{"kind":"fact","text":"Amounts are cents."}')


def record(name="e_s", **changes):
    return item(name, "source", strict_json.dumps(RECORD | changes))


def plan(*items, target=None):
    projection = Projection(items, (), False)
    return BuiltinDreamer().dream(projection, target_evidence_id=target).plan


def test_one_task_outcome_becomes_a_draft():
    made = plan(entry(), record())
    assert (made.outcome, made.intent, made.evidence_ids) == ("proposed", "create", ("e_s",))
    assert made.proposal == draft(outcome.parse(RECORD))
    assert "no model" in made.reason


def test_without_a_source_it_needs_evidence():
    for items in ((entry(),), (item("e_x", "experience", "{}"), entry())):
        made = plan(*items)
        assert (made.outcome, made.proposal, made.intent, made.evidence_ids) == (
            "needs_evidence",
            None,
            None,
            (),
        )


@pytest.mark.parametrize(
    ("items", "target"),
    [
        ((entry(), item("e_s", "source", "A log.")), None),
        ((entry(), record("e_1"), record("e_2", summary="Other.")), None),
        ((item("e_t", "experience", "{}"), record()), "e_t"),
        ((entry(), record(status="perhaps")), None),
    ],
)
def test_bringing_texts_together_takes_a_model(items, target):
    made = plan(*items, target=target)
    assert (made.outcome, made.proposal) == ("no_change", None)
    assert "No model is configured" in made.reason
