"""Evidence that comes late, outcomes in any order, and replays lead to the same ledger."""

import random

from recurrence_rig import CHECK, CUE, SCOPE, avoiding, check, late, told

from pc_store.ledger import cursors, judgements
from pc_store.services import recur
from pc_store.services.administer import scope_status
from pc_store.services.plan import pass_over


def test_evidence_that_comes_later_is_judged_when_it_comes(ledger):
    ref = ledger.experience()
    ledger.receipt(ref)
    failed = ledger.raw(told(checks=[check(CUE, evidence=late("run-1"))]), "fails")
    passed = ledger.raw(
        avoiding("receipt-1", checks=[check(CHECK, "passed", evidence=late("run-2"))]), "passes"
    )
    assert ledger.run().pending == 1
    assert (ledger.verdicts(), ledger.results()[failed, "check", 0]) == ([], "pending")
    ledger.capture("noise", "Nothing to do with it.")
    assert ledger.run().retried == 0
    ledger.capture("run-2", "It passed.")
    ledger.run()
    assert ledger.verdicts() == [(passed, "avoided", ref.artifact_id, 1)]
    ledger.capture("run-1", "It failed.")
    ledger.run()
    assert ledger.verdicts()[0] == (failed, "recurred", ref.artifact_id, 1)
    assert (ledger.streak(ref), ledger.row(ref).recurred) == (0, 1)
    with ledger.db.read() as conn:
        assert judgements.waiting(conn, SCOPE, limit=9) == []


def test_an_avoidance_waits_while_a_contradicting_failure_has_no_evidence_yet(ledger):
    ref = ledger.experience()
    ledger.receipt(ref)
    both = avoiding(
        "receipt-1", checks=[check(CHECK, "passed"), check(CUE, evidence=late("run-1"))]
    )
    at = ledger.raw(both, "both")
    ledger.run()
    assert ledger.verdicts() == []
    ledger.capture("run-1", "It failed.")
    ledger.run()
    assert ledger.verdicts() == [(at, "recurred", ref.artifact_id, 1)]


def test_evidence_in_windows_that_incubation_passes_over_is_noticed(ledger):
    ref = ledger.experience()
    at = ledger.raw(told(checks=[check(CUE, evidence=late("run-1"))]), "fails")
    ledger.run()
    assert ledger.verdicts() == []
    with ledger.db.write() as conn:
        cursors.advance(conn, SCOPE, "experience", after=0, through=at, now_us=ledger.tick())
    ledger.capture("run-1", "It failed.")
    ledger.capture("noise", "Nothing to do with it.")
    ledger.raw(told(), "another")
    settings = ledger.settings.model_copy(update={"source_window_limit": 2})
    assert pass_over(ledger.db, settings, SCOPE, "experience", now_us=ledger.tick())
    assert ledger.verdicts() == [(at, "recurred", ref.artifact_id, 1)]
    assert scope_status(ledger.db, SCOPE).cursors == {
        "memory": 0,
        "experience": at + 2,
        "recurrence": at + 2,
    }


def test_an_item_waits_for_an_artifact_as_well(ledger):
    ref = ledger.experience()
    artifact = {"family": "experience", "artifact_id": ref.artifact_id, "revision": 2}
    evidence = [{"kind": "artifact", "artifact_ref": artifact}]
    at = ledger.raw(told(checks=[check(CUE, evidence=evidence)]), "fails")
    for _ in range(3):
        ledger.fails()
    ledger.settle()
    [review] = ledger.reviews()
    ledger.approve(ledger.change(review))
    ledger.capture("noise", "Something that lets the ledger be run.")
    ledger.run()
    assert ledger.results()[at, "check", 0] == "unmatched", "it is older than the head now"
    with ledger.db.read() as conn:
        assert judgements.waiting(conn, SCOPE, limit=9) == []


def test_replaying_adds_nothing(ledger):
    ref = ledger.experience()
    ledger.receipt(ref)
    for letter in "RRARRR":
        ledger.fails() if letter == "R" else ledger.outcome(avoiding("receipt-1"))
    ledger.settle()
    before = ledger.ledger()
    for _ in range(2):
        done = ledger.record(0, ledger.end())
        assert done == recur.Recorded(cursor=ledger.end())
        assert ledger.review() == []
    assert ledger.ledger() == before


def test_any_order_of_processing_gives_the_same_ledger(ledger):
    ref = ledger.experience()
    ledger.receipt(ref)
    pattern = "RARRARRRARRAR"
    for letter in pattern:
        ledger.fails() if letter == "R" else ledger.outcome(avoiding("receipt-1"))
    start = ledger.end() - len(pattern)
    ledger.record(0, start)
    order = list(range(start, ledger.end()))
    random.Random(7).shuffle(order)
    for position in order:
        ledger.record(position, position + 1)
        ledger.review()
    ledger.settle()
    shuffled, reviews = ledger.ledger(), ledger.reviews()
    assert [len(one.evidence.sources) for one in reviews] == [6]
    row = ledger.row(ref)
    assert (row.streak, row.recurred, row.avoided) == (1, 9, 4)
    ledger.forget()
    ledger.run()
    ledger.review()
    again = ledger.ledger()
    del again["recurrence_streaks"], shuffled["recurrence_streaks"]  # they name the candidates
    assert again == shuffled
    assert [one.evidence for one in ledger.reviews()] == [one.evidence for one in reviews]


def test_out_of_order_outcomes_make_no_review_due_that_their_order_would_not(ledger):
    ref = ledger.experience()
    ledger.receipt(ref)
    first = ledger.end()
    for letter in "RARR":
        ledger.fails() if letter == "R" else ledger.outcome(avoiding("receipt-1"))
    ledger.record(0, first)
    for offset in (0, 2, 3):
        ledger.record(first + offset, first + offset + 1)
        ledger.review()
    assert ledger.streak(ref) == 3
    ledger.record(first + 1, first + 2)
    ledger.settle()
    assert (ledger.streak(ref), ledger.reviews()) == (2, [])


def test_windows_and_the_consumer_share_one_ledger(ledger):
    ref = ledger.experience()
    ledger.fails()
    done = ledger.record(0, ledger.end())
    assert (done.recurred, done.cursor) == (1, ledger.end())
    assert ledger.run() == recur.Recorded(cursor=ledger.end())
    ledger.fails()
    ledger.run()
    with ledger.db.write() as conn:
        again = recur.record(
            conn, ledger.settings, SCOPE, after=0, through=ledger.end(), now_us=ledger.tick()
        )
    assert (again.recurred, ledger.streak(ref)) == (0, 2)
