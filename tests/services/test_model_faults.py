"""What a faulty model does to a window: only a valid list, possibly empty, moves the cursor."""

import json

import pytest
from extraction_rig import SCOPE, fact, usage
from model_stub import adding, body, dropped, says, status, text

from pc_store.domain.proposal import Usage
from pc_store.errors import (
    ModelAnsweredBadly,
    ModelMisconfigured,
    ModelSilent,
    ModelUnavailable,
)
from pc_store.ledger import cursors
from pc_store.services import extract, recover
from pc_store.services.clock import now_us

ADD = {"intent": "add", "kind": "fact", "text": "Two holds.", "evidence_ids": ["e1"]}
REVISE = {**ADD, "intent": "revise"}
BACKOFF_S = 30.0
"""Base of the pause in the tests that look at it; the first is 24 to 36 seconds long."""


def bad(*candidates) -> dict:
    return says({"candidates": list(candidates)})


WRONG_ANSWERS = {
    "prose": text("I would keep that two holds."),
    "empty text": text(""),
    "no text": text(None),
    "an empty object": text("{}"),
    "a list": text("[]"),
    "a list of changes": text(json.dumps([ADD])),
    "null for a list": says({"candidates": None}),
    "an object for a list": says({"candidates": {"0": ADD}}),
    "two different answers": text('{"candidates": []} {"candidates": [1]}'),
    "an unknown kind": bad({**ADD, "kind": "rumour"}),
    "an unknown intent": bad({**ADD, "intent": "delete"}),
    "no text in it": bad({**ADD, "text": " \n"}),
    "too long a text": bad({**ADD, "text": "x" * 8_193}),
    "too long a reason": bad({**ADD, "reason": "x" * 513}),
    "unknown evidence": bad({**ADD, "evidence_ids": ["e9"]}),
    "no evidence": bad({**ADD, "evidence_ids": []}),
    "an add of an entry": bad({**ADD, "entry_id": "m1"}),
    "a revise of nothing": bad(REVISE),
    "a revise of an unshown entry": bad({**REVISE, "entry_id": "m9"}),
    "one entry twice": bad({**REVISE, "entry_id": "m1"}, {**REVISE, "entry_id": "m1", "text": "?"}),
    "one bad among good": bad(ADD, {**ADD, "text": "Three.", "evidence_ids": ["e9"]}),
}
"""Answers that are sent back once; the same answer again refuses the window."""

UNFINISHED_ANSWERS = {
    "length": says({"candidates": []}, finish_reason="length"),
    "content_filter": says({"candidates": []}, finish_reason="content_filter"),
    "a refusal": text(None, refusal="no"),
    "no choices": body('{"id": "1", "object": "chat.completion", "choices": []}'),
    "400": status(400, code="context_length_exceeded"),
}
"""Answers that are not sent back: nothing can be learned from the same question again."""

FAILED_CALLS = {
    "429": (status(429, retry_after_ms=1), ModelUnavailable, 0),
    "503": (status(503, retry_after_ms=1), ModelUnavailable, 0),
    "no response": (dropped(), ModelUnavailable, 0),
    "500": (status(500), ModelSilent, 1),
    "a timeout": (says({"candidates": []}, delay_s=3), ModelSilent, 1),
    "401": (status(401), ModelMisconfigured, 0),
    "404": (status(404, code="model_not_found"), ModelMisconfigured, 0),
}
"""Answers, the error they lead to, and whether it counts against the input."""

CODES = {
    ModelAnsweredBadly: "inference_invalid_output",
    ModelSilent: "inference_timeout",
    ModelUnavailable: "inference_unavailable",
    ModelMisconfigured: "inference_misconfigured",
}


def remembering_one(rig) -> None:
    """Have one entry to show and one source to ask about, which brings it up."""
    rig.remember(fact(1))
    rig.put(f"{fact(2)} And fact 1 too.")


def assert_failed(rig, error, expected, *, counted: int) -> None:
    """The window failed with nothing written, and is to be tried again after a pause."""
    assert type(error) is expected
    row = rig.last()
    wait_s = (row.next_attempt_at - now_us()) / 1_000_000
    assert (rig.cursor(), rig.entries(), rig.head()) == (0, [("fact", fact(1), ())], 1)
    assert (row.status, row.attempt, row.counted_failures) == ("failed", 1, counted)
    assert row.error == {"code": CODES[expected], "message": error.message}
    assert 0.8 * BACKOFF_S - 15 < wait_s <= 1.2 * BACKOFF_S
    assert rig.drafts() == 0


@pytest.mark.parametrize("answer", WRONG_ANSWERS.values(), ids=WRONG_ANSWERS)
def test_a_wrong_answer_is_sent_back_once_and_then_refused(new_rig, answer):
    rig = new_rig(retry_base_s=BACKOFF_S)
    remembering_one(rig)
    rig.stub.always(answer)
    assert_failed(rig, rig.fails(), ModelAnsweredBadly, counted=1)
    assert len(rig.stub.requests()) == 2
    assert usage(rig.last()) == Usage(calls=2, tokens_in=200, tokens_out=40, reasks=1)
    assert rig.last().rejects


@pytest.mark.parametrize("answer", UNFINISHED_ANSWERS.values(), ids=UNFINISHED_ANSWERS)
def test_an_answer_that_is_not_complete_is_refused_at_once(new_rig, answer):
    rig = new_rig(retry_base_s=BACKOFF_S)
    remembering_one(rig)
    rig.stub.always(answer)
    assert_failed(rig, rig.fails(), ModelAnsweredBadly, counted=1)
    assert len(rig.stub.requests()) == 1


@pytest.mark.parametrize("case", FAILED_CALLS.values(), ids=FAILED_CALLS)
def test_a_call_that_fails_leaves_everything_and_counts_only_if_the_input_may_be_to_blame(
    new_rig, case
):
    answer, expected, counted = case
    rig = new_rig(retry_base_s=BACKOFF_S, timeout_s=1.0 if answer.get("delay_s") else 10.0)
    remembering_one(rig)
    rig.stub.always(answer)
    assert_failed(rig, rig.fails(), expected, counted=counted)


@pytest.mark.parametrize(
    "answer",
    [
        adding(("Two holds.", "e1"), fenced=True),
        text(f"Sure! Here it is:\n{json.dumps({'candidates': [ADD]})}\nAnything else?"),
        text(f'<think>{{"candidates": []}}</think>{json.dumps({"candidates": [ADD]})}'),
        text('\ufeff{"candidates": [' + json.dumps(ADD) + ",],}"),
    ],
    ids=["fenced", "in prose", "after thinking", "with marks and commas too many"],
)
def test_what_leaves_no_doubt_is_accepted(rig, answer):
    remembering_one(rig)
    rig.stub.answer(answer)
    assert rig.flush().current_cursor == 1
    assert rig.texts() == [fact(1), "Two holds."]
    assert len(rig.stub.requests()) == 1


def test_the_answer_is_sent_back_with_the_rule_it_breaks_and_a_better_one_is_taken(rig):
    remembering_one(rig)
    rig.stub.answer(bad({**ADD, "evidence_ids": ["e9"]}), bad(ADD))
    assert rig.flush().current_cursor == 1
    assert rig.texts() == [fact(1), "Two holds."]
    _, again = rig.stub.requests()
    told = json.dumps(again["body"]["messages"][2:])
    assert "evidence_ids has 1 of 1 ids that were not shown; use only e1" in told
    assert rig.last().error is None
    assert usage(rig.last()) == Usage(calls=2, tokens_in=200, tokens_out=40, reasks=1)


def test_a_retired_entry_is_not_shown_and_cannot_be_revised(rig):
    remembering_one(rig)
    rig.retire(fact(1))
    rig.stub.always(bad({**REVISE, "entry_id": "m1"}))
    error = rig.fails()
    assert "no entry was shown, so only add" in json.dumps(rig.stub.requests()[1]["body"])
    assert (type(error), rig.cursor(), rig.head()) == (ModelAnsweredBadly, 0, 2)
    assert [(one["rule"], one["reason"]) for one in rig.last().rejects] == [
        ("revisions_target_shown_entries", "entry_id names no entry that was shown")
    ]


# The last attempt


def test_the_last_attempt_keeps_what_is_right_and_records_what_is_broken(rig):
    remembering_one(rig)
    rig.stub.always(bad({**ADD, "evidence_ids": ["e9"], "text": "?"}, ADD, {**ADD, "kind": "x"}))
    assert [type(rig.fails()) for _ in range(2)] == [ModelAnsweredBadly] * 2
    assert (rig.cursor(), rig.last().counted_failures) == (0, 2)
    assert rig.flush().current_cursor == 1
    assert rig.texts() == [fact(1), "Two holds."]
    row = rig.last()
    assert (row.status, row.attempt, row.error) == ("processed", 3, None)
    assert (row.counts["proposals"], row.counts["accepted"], row.counts["rejected"]) == (3, 1, 2)
    assert [one["reason"] for one in row.rejects] == [
        "evidence_ids has 1 of 1 ids that were not shown",
        "kind is not a known kind",
    ]


def test_without_a_good_proposal_the_last_attempt_sets_the_source_aside(rig):
    remembering_one(rig)
    rig.stub.always(bad({**ADD, "kind": "x"}))
    for _ in range(3):
        rig.fails()
    assert (rig.cursor(), rig.texts(), rig.last().status) == (1, [fact(1)], "quarantined")
    assert rig.flush().status == "idle"


# Halving and quarantine


def poisoned(rig, count: int, *poison: int) -> None:
    rig.put(*(f"{fact(n)}{' POISON.' if n in poison else ''}" for n in range(1, count + 1)))


def set_aside(rig) -> list[tuple[int, str, str]]:
    found = recover.quarantined(rig.db, scope_id=SCOPE, limit=100)
    return [(one.position, one.source_id, one.reason.partition(":")[0]) for one in found]


def window_limit(rig) -> int | None:
    with rig.db.read() as conn:
        return cursors.get(conn, SCOPE, "memory").window_limit


def test_halving_finds_the_one_poison_source_and_all_around_it_is_processed(new_rig):
    rig = new_rig(source_window_limit=8, window_max_attempts=2)
    poisoned(rig, 12, 6)
    rig.stub.whenever("POISON", text("no"))
    went = rig.flush_until_idle()
    assert rig.texts() == [fact(n) for n in range(1, 13) if n != 6]
    assert set_aside(rig) == [(6, "s6", "inference_invalid_output")]
    assert [(row.after, row.through, row.status) for row in rig.windows()] == [
        (0, 8, "split"),
        (0, 4, "processed"),
        (4, 12, "split"),
        (4, 8, "split"),
        (4, 6, "split"),
        (4, 5, "processed"),
        (5, 7, "split"),
        (5, 6, "quarantined"),
        (6, 8, "processed"),
        (8, 12, "processed"),
    ]
    assert sum(error is not None for error in went) == 2 * 6
    assert rig.last().counted_failures == 0
    assert window_limit(rig) == 8
    assert rig.offending() == {"no_quarantined_sources": 1}


def test_the_window_limit_widens_until_it_is_lifted(new_rig):
    rig = new_rig(source_window_limit=1_000)
    limits = []
    with rig.db.write() as conn:
        cursors.narrow(conn, SCOPE, "memory", window_limit=100)
    rig.put_facts(5)
    for _ in range(5):
        rig.flush(source_window_limit=1)
        limits.append(window_limit(rig))
    assert limits == [200, 400, 800, None, None]


def test_two_hundred_old_sources_with_three_poison_ones_are_imported_but_for_those(new_rig):
    rig = new_rig(source_window_limit=50, window_max_attempts=1)
    poison = (7, 100, 101)
    poisoned(rig, 200, *poison)
    rig.stub.whenever("POISON", text("{}"))
    rig.flush_until_idle()
    expected = [fact(n) for n in range(1, 201) if n not in poison]
    aside = [(n, f"s{n}", "inference_invalid_output") for n in poison]
    assert (rig.texts(), set_aside(rig), rig.cursor()) == (expected, aside, 200)
    before = rig.entries(), rig.head(), rig.changes()
    for _ in range(2):
        for first, last in ((1, 6), (8, 99), (102, 200)):
            rig.replay(first, last)
        for position in poison:
            with pytest.raises(ModelAnsweredBadly):
                rig.replay(position, position)
        assert (rig.entries(), rig.head(), rig.changes()) == before
        assert (set_aside(rig), rig.cursor()) == (aside, 200)


@pytest.mark.parametrize("outage", ["refused", 429, 503])
def test_an_outage_never_splits_a_window_or_sets_a_source_aside(rig, outage):
    rig.put_facts(3)
    if outage == "refused":
        rig.stub.kill()
    else:
        rig.stub.always(status(outage, retry_after_ms=1))
    for _ in range(8):
        assert type(rig.fails()) is ModelUnavailable
    row = rig.last()
    assert (row.status, row.attempt, row.counted_failures) == ("failed", 8, 0)
    assert (len(rig.windows()), rig.cursor(), set_aside(rig)) == (1, 0, [])
    rig.stub.reset()
    assert rig.flush().current_cursor == 3


def test_a_wrong_key_never_sets_a_source_aside_however_often(rig):
    rig.put_facts(1)
    rig.stub.always(status(401))
    for _ in range(8):
        assert type(rig.fails()) is ModelMisconfigured
    assert (rig.cursor(), rig.last().counted_failures, set_aside(rig)) == (0, 0, [])


def test_silence_about_one_source_sets_it_aside_when_the_model_answers_a_harmless_one(rig):
    rig.put("Fact 1 holds. POISON.", fact(2))
    rig.stub.whenever("POISON", status(500))
    for _ in range(3):
        assert type(rig.fails()) is ModelSilent
    assert rig.ranges("split") == [(0, 2)]
    for _ in range(3):
        assert type(rig.fails()) is ModelSilent
    assert (rig.cursor(), rig.last().status) == (1, "quarantined")
    assert set_aside(rig) == [(1, "s1", "inference_timeout")]
    asked = rig.stub.requests()[-1]["body"]["messages"][-1]["content"]
    assert "POISON" not in asked
    assert rig.flush().current_cursor == 2


def test_a_drain_goes_on_past_a_source_that_was_set_aside(rig):
    rig.put("Fact 1 holds. POISON.", fact(2))
    rig.stub.whenever("POISON", says({}))
    for _ in range(5):
        rig.fails()
    done = extract.drain(rig.db, rig.settings, rig.model, SCOPE, budget_s=60)
    assert [result.current_cursor for result in done] == [2]
    assert [position for position, *_ in set_aside(rig)] == [1]


def test_a_silence_of_everybody_halves_windows_and_empties_no_log(rig):
    rig.put_facts(3)
    rig.stub.always(status(500))
    for _ in range(12):
        assert type(rig.fails()) is ModelSilent
    assert (rig.cursor(), set_aside(rig)) == (0, [])
    assert rig.ranges("split", "failed") == [(0, 3), (0, 1)]
    rig.stub.reset()
    rig.flush_until_idle()
    assert (rig.cursor(), rig.texts()) == (3, [fact(n) for n in range(1, 4)])
