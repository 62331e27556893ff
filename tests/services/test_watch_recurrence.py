"""Where recurrence has something to do, and that the rest costs nobody a run."""

from recurrence_rig import CUE, SCOPE, check, told

from pc_store.domain.source import new_source
from pc_store.services import administer, capture
from pc_store.services.watch_recurrence import PAUSE_US, Due, due_scopes


def due(ledger, *, wait_us=PAUSE_US + 1, **more):
    ledger.now += wait_us
    found = due_scopes(ledger.db, ledger.settings, **{"limit": 10, **more}, now_us=ledger.now)
    return [(one.scope_id, one.outcomes, one.reviews) for one in found]


def test_outcomes_and_reviews_make_a_scope_due_once_a_minute(ledger):
    ledger.experience()
    for _ in range(3):
        ledger.fails()
    assert due(ledger) == [(SCOPE, True, False)]
    assert due(ledger, wait_us=1_000) == [], "it was asked for a moment ago"
    ledger.run()
    assert due(ledger) == [(SCOPE, False, True)]
    ledger.review()
    assert due(ledger) == []


def test_a_log_that_grew_by_other_things_is_passed_over_on_the_spot(ledger):
    for number in range(250):
        ledger.capture(f"chat-{number}", "hello")
    for _ in range(3):
        assert due(ledger) == []
    assert ledger.run().cursor == ledger.end()
    status = administer.scope_status(ledger.db, SCOPE)
    assert status.cursors["recurrence"] == ledger.end()
    ledger.fails()
    assert due(ledger) == [(SCOPE, True, False)]


def test_what_an_outcome_waits_for_makes_its_scope_due(ledger):

    late = [{"kind": "source", "source_ref": {"source_type": "content", "source_id": "run"}}]
    ledger.experience()
    ledger.raw(told(checks=[check(CUE, evidence=late)]), "waits")
    ledger.run()
    assert due(ledger) == []
    ledger.capture("run", "It failed.")
    assert due(ledger) == [(SCOPE, True, False)]


def test_busy_scopes_are_passed_over_and_the_longest_unserved_come_first(ledger):
    for name in ("a", "b", "c"):
        administer.create_scope(ledger.db, name, now_us=ledger.tick())
        source = new_source("o", "prose", {"kind": "task-outcome"})
        capture.capture(ledger.db, name, source, now_us=ledger.tick())
    assert due(ledger, limit=2) == [("a", True, False), ("b", True, False)]
    assert due(ledger, limit=2, busy=["a"]) == [("c", True, False), ("b", True, False)]
    found = due_scopes(ledger.db, ledger.settings, limit=9, now_us=ledger.now + PAUSE_US + 9)
    assert found[0] == Due("a", "a", outcomes=True, reviews=False)
