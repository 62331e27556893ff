"""Which task outcomes count for which experience, and that each counts once."""

import random

import pytest
import sqlalchemy as sa
from recurrence_rig import CHECK, CONDITION, CUE, SCOPE, avoiding, check, content, seen, told

from pc_store.domain.experience import parse
from pc_store.domain.outcome import parse as outcome_of
from pc_store.domain.refs import ArtifactRef
from pc_store.domain.source import ineligible
from pc_store.errors import InvalidInput, ScopeNotFound, SourceConflict
from pc_store.ledger import artifacts, cursors, experiences, judgements
from pc_store.ledger.schema import (
    artifact_revisions,
    experience_documents,
)
from pc_store.services import capture, outcomes, recur
from pc_store.services.administer import scope_status
from pc_store.services.experiences import set_lifecycle
from pc_store.services.plan import pass_over
from pc_store.services.read_memory import cite
from pc_store.services.remember import reactivate, remember, retire
from pc_store.services.summarise import statistics


def late(source_id):
    """Evidence that is a source which may not be there yet."""
    return [{"kind": "source", "source_ref": {"source_type": "content", "source_id": source_id}}]


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


def test_a_failure_linked_to_other_experiences_counts_for_none(ledger):
    ref = ledger.experience()
    other = ledger.experience("Dates are a day late")
    ledger.receipt(other)
    ledger.fails(receipt="receipt-1")
    ledger.run()
    assert (ledger.streak(ref), ledger.verdicts()) == (0, [])


def test_two_heads_with_one_cue_are_ambiguous_unless_a_receipt_cites_one(ledger):
    first, second = ledger.experience(), ledger.experience()
    ledger.receipt(second, name="second")
    ledger.receipt(first, second, name="both")
    apart = ledger.experience("Dates are a day late")
    unlinked = ledger.fails()
    both = ledger.fails(receipt="both")
    linked = ledger.fails(receipt="second")
    good = ledger.outcome(avoiding("both"))
    elsewhere = ledger.fails("Dates are a day late")
    ledger.run()
    results = {position: result for (position, _, _), result in ledger.results().items()}
    assert (results[unlinked], results[both]) == ("ambiguous", "ambiguous")
    founding = 3
    assert sorted(ledger.verdicts()) == sorted(
        [
            (founding, "recurred", first.artifact_id, 1),  # of the second, after the first
            (linked, "recurred", second.artifact_id, 1),
            *((good, "avoided", ref.artifact_id, 1) for ref in (first, second)),
            (elsewhere, "recurred", apart.artifact_id, 1),
        ]
    )


def test_an_ambiguous_failure_does_not_stop_an_avoidance(ledger):
    first, second = ledger.experience(), ledger.experience()
    ledger.receipt(first, second)
    both = avoiding("receipt-1", checks=[check(CHECK, "passed"), check(CUE)])
    at = ledger.outcome(both)
    ledger.run()
    events = [event for position, event, _, _ in ledger.verdicts() if position == at]
    assert events == ["avoided", "avoided"]


def test_only_active_heads_are_matched_without_a_receipt(ledger):
    ref = ledger.experience()
    set_lifecycle(ledger.db, SCOPE, ref, state="deprecated", reason="wrong", now_us=ledger.tick())
    ledger.fails()
    ledger.run()
    assert ledger.verdicts() == []
    set_lifecycle(ledger.db, SCOPE, ref, state="active", reason="right", now_us=ledger.tick())
    ledger.run()
    assert ledger.verdicts() == [], "what was decided is frozen"
    ledger.fails()
    ledger.run()
    assert ledger.streak(ref) == 1


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


def test_one_bad_experience_stops_no_other(ledger):
    good = ledger.experience()
    blank = ledger.experience("Dates are a day late")
    with ledger.db.write() as conn:
        broken = content() | {
            "failure": content()["failure"] | {"signature": {"recall_cue": "!!!", "symptom": None}}
        }
        conn.execute(
            sa.update(artifact_revisions)
            .where(artifact_revisions.c.artifact_id == blank.artifact_id)
            .values(content=broken)
        )
        conn.execute(
            sa.update(experience_documents)
            .where(experience_documents.c.artifact_id == blank.artifact_id)
            .values(cue_key="")
        )
    ledger.receipt(good, blank)
    ledger.outcome(told(checks=[check("!!!"), check("…"), check(CUE)]))
    ledger.fails("Dates are a day late")
    ledger.outcome(told(checks=[check("!!!"), check(CUE)], receipt="receipt-1"))
    ledger.run()
    assert {row[2] for row in ledger.verdicts()} == {good.artifact_id}
    assert ledger.streak(good) == 2


def test_a_cue_that_grows_under_normalisation_is_told_apart_and_reviewed(ledger):
    cue = "ﷺ" * 500
    ref = ledger.experience(cue)
    for _ in range(3):
        ledger.fails(cue)
    ledger.run()
    [review] = ledger.review()
    assert review.done == "opened"
    [made] = ledger.reviews()
    assert len(made.reason) < 2_000
    assert made.target == ref


def test_lookalikes_are_told_apart(ledger):
    ref = ledger.experience()
    ledger.fails(CUE.replace("A", "\u0410"))  # Cyrillic
    ledger.fails("Amounts off by one  cent s")
    ledger.fails("ｆｕｌｌｗｉｄｔｈ " + CUE)
    ledger.run()
    assert ledger.streak(ref) == 0
    assert sorted(ledger.results().values()) == ["unmatched"] * 4


def test_an_outcome_is_refused_for_what_is_not_there(ledger):
    for value, field in (
        (told(checks=[check(CUE, evidence=late("gone"))]), "outcome.checks[0].evidence[0]"),
        (
            told(observations=[seen("x"), seen("y", late("gone"))]),
            "outcome.observations[1].evidence[0]",
        ),
        (told(receipt="gone"), "outcome.handoff_receipt_ref"),
        (told(receipt="log"), "outcome.handoff_receipt_ref"),
        (told() | {"status": "done"}, "outcome.status"),
        (told() | {"observations": []}, "outcome.observations"),
        ("text", "outcome"),
    ):
        with pytest.raises(InvalidInput) as refused:
            outcomes.record_outcome(ledger.db, SCOPE, "o", value, now_us=1)
        assert refused.value.field == field, value
    with pytest.raises(ScopeNotFound):
        outcomes.record_outcome(ledger.db, "nowhere", "o", told(), now_us=1)
    assert ledger.end() == 1


def test_an_outcome_again_is_the_same_and_another_a_conflict(ledger):
    first = outcomes.record_outcome(ledger.db, SCOPE, "o", told(), now_us=1)
    assert outcomes.record_outcome(ledger.db, SCOPE, "o", told(), now_us=2) == first
    with pytest.raises(SourceConflict):
        outcomes.record_outcome(ledger.db, SCOPE, "o", told(status="blocked"), now_us=3)
    with pytest.raises(SourceConflict):
        outcomes.record_outcome(ledger.db, SCOPE, "log", told(), now_us=3)


def test_an_outcome_again_is_the_same_even_when_its_evidence_is_gone(ledger):
    entry = remember(ledger.db, SCOPE, kind="fact", text="Cents.", now_us=ledger.tick()).entry
    cited = {
        "memory_ref": vars(entry.citation.memory),
        "entry_id": entry.citation.entry_id,
        "entry_version_id": entry.citation.entry_version_id,
    }
    value = told(checks=[check(CUE, evidence=[{"kind": "memory", "memory_citation": cited}])])
    first = outcomes.record_outcome(ledger.db, SCOPE, "o", value, now_us=1)
    retire(ledger.db, SCOPE, entry.citation, now_us=ledger.tick())
    assert outcomes.record_outcome(ledger.db, SCOPE, "o", value, now_us=2) == first
    with pytest.raises(InvalidInput):
        outcomes.record_outcome(ledger.db, SCOPE, "another", value, now_us=3)
    ref = ledger.experience()
    ledger.raw(value, "captured")
    ledger.run()
    assert ledger.streak(ref) == 0
    late = [row for row in ledger.matches().values() if row.result == "pending"]
    assert [row.note.split()[0] for row in late] == ["memory", "memory"]
    again = cite(ledger.db, SCOPE, entry.citation.entry_id)
    reactivate(ledger.db, SCOPE, again.citation, now_us=ledger.tick())
    ledger.capture("noise", "Something that lets the ledger be run.")
    ledger.run()
    assert ledger.streak(ref) == 1, "what an outcome relied on is there again"


def test_a_receipt_is_refused_for_what_does_not_exist_or_is_taken(ledger):
    ref = ledger.experience()
    for refs, field in (
        ([], "experiences"),
        ([ref, ArtifactRef("experience", ref.artifact_id, 2)], "experiences[1]"),
        ([ArtifactRef("experience", "nothing", 1)], "experiences[0]"),
        ([ArtifactRef("experience", f"e{n}", 1) for n in range(33)], "experiences"),
    ):
        with pytest.raises(InvalidInput) as refused:
            outcomes.record_receipt(ledger.db, SCOPE, "r", refs, now_us=1)
        assert refused.value.field == field
    first = outcomes.record_receipt(ledger.db, SCOPE, "r", [ref, ref], now_us=1)
    assert outcomes.record_receipt(ledger.db, SCOPE, "r", [ref], now_us=2) == first
    for name, note in (("r", "another note"), ("log", None)):
        with pytest.raises(SourceConflict):
            outcomes.record_receipt(ledger.db, SCOPE, name, [ref], note=note, now_us=3)
    held = capture.read_source(ledger.db, SCOPE, "content", "r")
    assert (held.role, held.internal, held.structured) == ("receipt", False, True)
    assert ineligible(held, now_us=9) == "receipt", "it is not shown to the memory model"


def test_a_captured_twin_of_a_receipt_is_never_taken_for_one(ledger):
    ref = ledger.experience()
    position = ledger.receipt(ref, name="real")
    real = capture.read_source(ledger.db, SCOPE, "content", "real")
    ledger.capture("twin", real.content, dict(real.metadata))
    with ledger.db.read() as conn:
        assert outcomes.cited_by_receipt(conn, SCOPE, real.ref) == outcomes.Receipt(
            position, (ref,)
        )
        assert isinstance(
            outcomes.cited_by_receipt(conn, SCOPE, type(real.ref)("content", "twin")), str
        )
    with pytest.raises(SourceConflict):
        outcomes.record_receipt(ledger.db, SCOPE, "twin", [ref], now_us=9)


def test_the_body_of_a_receipt_is_what_its_route_takes(ledger):
    ref = ledger.experience()
    memory = ArtifactRef("memory", "memory", 1)
    assert outcomes.receipt_body(SCOPE, "r", [ref, memory, ref], note="n") == {
        "scope_id": SCOPE,
        "receipt_id": "r",
        "experiences": [{"family": "experience", "artifact_id": ref.artifact_id, "revision": 1}],
        "note": "n",
    }


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


def test_revisions_that_nobody_approved_have_only_their_lineage(ledger):
    with ledger.db.write() as conn:
        artifacts.ensure(conn, SCOPE, "experience", "exp_direct", now_us=1)
        artifacts.commit(
            conn,
            SCOPE,
            "experience",
            "exp_direct",
            expected=0,
            content=content(),
            reason=None,
            origin="explicit",
            window_id=None,
            now_us=1,
        )
        ref = ArtifactRef("experience", "exp_direct", 1)
        experiences.put_document(
            conn, SCOPE, ref, parse(content()), terms="", terms_version="t", now_us=1
        )
    ledger.fails()
    ledger.run()
    assert ledger.streak(ref) == 1
