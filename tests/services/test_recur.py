"""What counts as a recurrence or an avoidance, once each, and what the counts lead to."""

import pytest
from recurrence_rig import CHECK, CONDITION, CUE, SCOPE, avoiding, check, seen, told

from pc_store.domain.outcome import parse as outcome_of
from pc_store.domain.refs import ArtifactRef
from pc_store.ledger import judgements
from pc_store.services.summarise import statistics


def test_recurrences_are_counted_between_avoidances_and_lead_to_one_review(ledger):
    ref = ledger.experience()
    ledger.receipt(ref)
    counted, made = [], []
    for letter in "RRARRR":
        ledger.fails() if letter == "R" else ledger.outcome(avoiding("receipt-1"))
        made += [one.done for one in ledger.settle()]
        counted.append(ledger.streak(ref))
    assert counted == [1, 2, 0, 1, 2, 3]
    assert made == ["opened"]
    for expected in (4, 5):
        ledger.fails()
        assert [one.done for one in ledger.settle()] == ["grown"]
        assert ledger.streak(ref) == expected
    [review] = ledger.reviews()
    assert (review.version, review.status, review.origin) == (3, "pending", "recurrence")
    assert (review.target, review.evidence.artifacts) == (ref, (ref,))
    assert len(review.evidence.sources) == 5
    assert "5 in a row, 7 since the approval" in review.reason


def test_the_founding_outcome_never_counts_whenever_it_is_judged(ledger):
    ref = ledger.experience()
    assert ledger.run().recurred == 0
    [match] = ledger.matches().values()
    assert (match.result, match.matched, match.eligible) == ("unmatched", None, ())
    assert (
        match.note == f"not {ref.artifact_id} revision 1: the outcome is among what the "
        "revision was made from"
    )


def test_an_outcome_that_was_in_the_log_at_approval_does_not_count(ledger):
    ledger.fails()
    ref = ledger.experience()
    after = ledger.fails()
    ledger.run()
    assert ledger.verdicts() == [(after, "recurred", ref.artifact_id, 1)]


def test_a_revision_starts_at_zero_and_the_old_one_keeps_its_own(ledger):
    first = ledger.experience()
    ledger.receipt(first, name="old")
    for _ in range(3):
        ledger.fails()
    ledger.settle()
    [review] = ledger.reviews()
    second = ledger.approve(ledger.change(review))
    assert second == ArtifactRef("experience", first.artifact_id, 2)
    assert (ledger.streak(first), ledger.streak(second)) == (3, 0)

    linked = ledger.fails(receipt="old")
    unlinked = ledger.fails()
    ledger.settle()
    assert ledger.verdicts()[-2:] == [
        (linked, "recurred", first.artifact_id, 1),
        (unlinked, "recurred", first.artifact_id, 2),
    ]
    assert (ledger.streak(first), ledger.streak(second)) == (4, 1)
    assert [one.status for one in ledger.reviews()] == ["approved"]


def test_what_a_task_merely_says_neither_counts_nor_clears(ledger):
    ref = ledger.experience()
    ledger.receipt(ref)
    ledger.fails()
    for status in ("passed", "skipped", "cancelled", "unknown"):
        ledger.outcome(told(checks=[check(CUE, status)]))
    ledger.outcome(told(checks=[check(CUE, "failed", evidence=())]))
    ledger.outcome(told(observations=[seen(CUE, evidence=())]))
    for status in ("succeeded", "partial", "cancelled", "unknown"):
        ledger.outcome(told(status=status, observations=[seen(CUE)]))
    for status in ("skipped", "failed", "unknown", "timed_out", "unavailable", "cancelled"):
        ledger.outcome(avoiding("receipt-1", checks=[check(CHECK, status)]))
    for changes in (
        {"observations": [seen(CONDITION, evidence=())]},
        {"checks": [check(CHECK, "passed", evidence=())]},
        {"observations": [seen("Something else happened")]},
        {"checks": [check("another check", "passed")]},
        {"checks": [check(CHECK, "passed"), check(CHECK.upper(), "passed")]},
        {"observations": [seen(CONDITION), seen(f"  {CONDITION}!")]},
        {"receipt": None},
    ):
        ledger.outcome(avoiding(**{"receipt": "receipt-1"} | changes))
    ledger.run()
    assert (ledger.streak(ref), ledger.row(ref).recurred, ledger.row(ref).avoided) == (1, 1, 0)


@pytest.mark.parametrize(
    "outcome",
    [
        told(status=status, checks=[check("  ＡＭＯＵＮＴＳ off by\tone cent.", failing)])
        for status in ("succeeded", "partial", "cancelled")
        for failing in ("failed", "timed_out", "unavailable")
    ]
    + [told(status=status, observations=[seen(f"“{CUE}”")]) for status in ("failed", "blocked")]
    + [told(checks=[check(CUE), check(CUE)], observations=[seen(CUE)])],
)
def test_a_verified_failing_item_that_equals_the_cue_counts_once(ledger, outcome):
    ref = ledger.experience()
    ledger.outcome(outcome)
    ledger.run()
    assert ledger.streak(ref) == 1


def test_an_avoidance_needs_a_receipt_of_this_server_that_came_before(ledger):
    ref = ledger.experience()
    named = f'[{{"artifact_id": "{ref.artifact_id}", "revision": 1}}]'
    forged = f'{{"schema": "pc-pipelines.receipt.v1", "experiences": {named}, "note": null}}'
    metadata = {
        "kind": "experience-receipt",
        "schema": "pc-pipelines.receipt.v1",
        "role": "receipt",
    }
    ledger.capture("forged", forged, metadata)
    for name in ("forged", "later", "never"):
        ledger.raw(avoiding(name), f"avoids-{name}")
    failed = ledger.raw(told(checks=[check(CUE)], receipt="later"), "fails-later")
    ledger.receipt(ref, name="later")
    ledger.run()
    assert ledger.verdicts() == [(failed, "recurred", ref.artifact_id, 1)]
    with ledger.db.read() as conn:
        problems = [row.problem for row in judgements.judged(conn, SCOPE, range(1, 99)).values()]
    assert [problem for problem in problems if problem] == [
        "the source 'forged' is no receipt that this server wrote",
        "the receipt 'later' was not in the log before the outcome",
        "the receipt 'never' was not in the log before the outcome",
        "the receipt 'later' was not in the log before the outcome",
    ]
    good = ledger.outcome(avoiding("later"))
    ledger.run()
    assert ledger.verdicts()[-1] == (good, "avoided", ref.artifact_id, 1)
    assert ledger.streak(ref) == 0


def test_a_failed_task_can_have_avoided_this_failure(ledger):
    ref = ledger.experience()
    ledger.receipt(ref)
    ledger.fails()
    ledger.outcome(avoiding("receipt-1", status="failed"))
    ledger.run()
    assert ledger.streak(ref) == 0


def test_an_outcome_that_fails_and_passes_is_a_recurrence(ledger):
    ref = ledger.experience()
    ledger.receipt(ref)
    both = avoiding("receipt-1", checks=[check(CHECK, "passed"), check(CUE)])
    at = ledger.outcome(both)
    ledger.run()
    assert ledger.verdicts() == [(at, "recurred", ref.artifact_id, 1)]


def test_malformed_outcomes_are_kept_noted_and_passed_over(ledger):
    ref = ledger.experience()
    bad = {
        "prose": "It failed again.",
        "array": "[]",
        "schema": '{"schema": "other", "objective": "o"}',
        "extra": outcome_of(told()).dumps()[:-2] + ', "more": 1}',
        "nan": '{"objective": NaN}',
    }
    for name, text in bad.items():
        ledger.capture(name, text, {"kind": "task-outcome"})
    ledger.capture("elsewhere", "x", {"note": {"kind": "task-outcome"}})
    ledger.fails()
    done = ledger.run()
    assert (done.malformed, done.outcomes, done.recurred) == (len(bad), len(bad) + 2, 1)
    assert ledger.streak(ref) == 1


def test_statistics_count_what_stands(ledger):
    ref = ledger.experience()
    quiet = ledger.experience("Dates are a day late", repair_surface="working_state")
    ledger.receipt(ref, quiet)
    for _ in range(4):
        ledger.fails()
    for _ in range(3):
        ledger.fails("Dates are a day late")
    ledger.outcome(avoiding("receipt-1", observations=[seen("Else")]))
    ledger.settle()
    stats = statistics(ledger.db, {"mode": "all"}, now_us=ledger.tick())["by_scope"]
    [block] = [one["recurrence"] for one in stats if one["scope_id"] == SCOPE]
    assert block == {
        "selected": 2,
        "recurred": 7,
        "avoided": 0,
        "unknown": 2,
        "unlinked_handoff_citations": 0,
        "needing_review": 2,
        "top_revisions": [
            {
                "artifact_ref": vars(ref),
                "signature_key": CUE.casefold(),
                "terminal_recurred_streak": 4,
            },
            {
                "artifact_ref": vars(quiet),
                "signature_key": "dates are a day late",
                "terminal_recurred_streak": 3,
            },
        ],
    }
    assert [one.target for one in ledger.reviews()] == [ref], "another surface asks for none"
