"""The rules on one outcome and one experience."""

import re

import pytest

from pc_store.domain import recurrence
from pc_store.domain.experience import parse as experience
from pc_store.domain.failure import failure_items
from pc_store.domain.outcome import parse
from pc_store.domain.recurrence import Avoidance, Match, Tracked
from pc_store.domain.refs import ArtifactRef, SourceRef

REF = ArtifactRef("experience", "exp_1", 1)
OUTCOME = SourceRef("content", "outcome")
EVIDENCE = [{"kind": "source", "source_ref": {"source_type": "content", "source_id": "log"}}]


def tracked(cue="a cue", *, ref=REF, approved_at=5, lineage=()) -> Tracked:
    return Tracked(
        ref, cue, "experience_content", "the case", "the check", approved_at, frozenset(lineage)
    )


def item(text="A cue!", status="failed"):
    check = {"name": text, "status": status, "basis": "verified", "evidence": EVIDENCE}
    return failure_items(outcome(checks=[check]))[0]


def outcome(observations=({"text": "o"},), checks=(), status="failed"):
    return parse(
        {
            "objective": "o",
            "status": status,
            "summary": "s",
            "observations": list(observations),
            "checks": list(checks),
        }
    )


def verified(name, text, **more):
    return {name: text, "basis": "verified", "evidence": EVIDENCE, **more}


def test_an_experience_says_what_it_tracks():
    said = {
        "situation": "s",
        "action": "a",
        "outcome": "o",
        "lesson": "l",
        "failure": {
            "signature": {"recall_cue": " A CUE. ", "symptom": None},
            "repair_surface": "recall_policy",
            "verification": {"condition": "The case!", "check_subject": "ＴＨＥ check"},
        },
    }
    made = recurrence.tracked(REF, experience(said), approved_at=5, lineage=[OUTCOME])
    assert made == Tracked(
        REF, "a cue", "recall_policy", "the case", "the check", 5, frozenset({OUTCOME})
    )
    plain = experience(said | {"failure": None})
    assert recurrence.tracked(REF, plain, approved_at=5, lineage=()) is None


@pytest.mark.parametrize(
    ("position", "lineage", "counts"),
    [(6, (), True), (5, (), False), (1, (), False), (6, (OUTCOME,), False)],
)
def test_what_a_revision_was_made_from_does_not_count_for_it(position, lineage, counts):
    one = tracked(lineage=lineage)
    match = recurrence.match(item(), [one], outcome=OUTCOME, position=position)
    assert match.result == ("matched" if counts else "unmatched")
    assert (match.note is None) is counts


def test_one_is_matched_several_are_ambiguous_and_none_is_unmatched():
    other = tracked(ref=ArtifactRef("experience", "exp_0", 3))
    old = tracked(ref=ArtifactRef("experience", "exp_2", 1), approved_at=9)

    def match(*alike):
        return recurrence.match(item(), alike, outcome=OUTCOME, position=9)

    assert match() == Match("unmatched")
    assert match(tracked()) == Match("matched", tracked(), (REF,))
    assert match(tracked(), other) == Match("ambiguous", None, (other.ref, REF))
    assert match(tracked(), old).matched == tracked(), "one that was approved later is no rival"
    assert "exp_2 revision 1" in match(tracked(), old).note
    assert recurrence.match(item("!!!"), [], outcome=OUTCOME, position=9).result == "unmatched"


def test_an_avoidance_is_one_observation_and_one_passed_check():
    seen, passed = verified("text", "The case."), verified("name", "the CHECK", status="passed")
    noise = [verified("text", "x"), {"text": "the case"}]
    declared = [{"name": "the check", "status": "passed"}]
    found = recurrence.avoidance(outcome([*noise, seen], [*declared, passed]), tracked())
    assert found == Avoidance(2, 1)


@pytest.mark.parametrize(
    ("observations", "checks", "words"),
    [
        ((), ("passed",), "no verified observation equals the condition"),
        (("The case", "the case"), ("passed",), r"more than one \(2\) verified observation"),
        (("the case",), (), "no verified check equals the check subject"),
        (("the case",), ("passed", "passed"), r"more than one \(2\) verified check"),
        (("the case",), ("skipped",), "the check has the status skipped"),
        (("the case",), ("failed",), "the check has the status failed"),
    ],
)
def test_anything_else_is_no_avoidance_and_says_why(observations, checks, words):
    told = outcome(
        [{"text": "o"}, *(verified("text", text) for text in observations)],
        [verified("name", "the check", status=status) for status in checks],
    )
    found = recurrence.avoidance(told, tracked())
    assert isinstance(found, str)
    assert re.match(words, found), found


def test_texts_of_which_nothing_is_left_are_no_condition_and_no_subject():
    blank = Tracked(REF, "a cue", "experience_content", "", "", 5, frozenset())
    told = outcome([verified("text", "…")], [verified("name", "!!!", status="passed")])
    assert isinstance(recurrence.avoidance(told, blank), str)
    assert not recurrence.speaks_of_avoiding(told, blank)


def test_near_misses_are_told():
    told = outcome(
        [{"text": "A cue"}, verified("text", "a cue")],
        [
            {"name": "a cue", "status": "failed"},
            verified("name", "a cue", status="skipped"),
            verified("name", "a cue", status="failed"),
        ],
        status="succeeded",
    )
    assert recurrence.remarks(told, tracked()) == [
        "check 0 equals the cue, but it is declared, not verified",
        "check 1 equals the cue, but the status is skipped",
        "observation 0 equals the cue, but it is declared, not verified",
        "observation 1 equals the cue, but the status is succeeded",
    ]
    assert recurrence.failing(told, tracked())


def test_a_verdict_is_named_by_revision_cue_and_outcome():
    names = {
        recurrence.verdict_key(scope, ArtifactRef("experience", artifact, revision), cue, position)
        for scope in ("a", "b")
        for artifact in ("x", "y")
        for revision in (1, 2)
        for cue in ("c", "d")
        for position in (1, 2)
    }
    assert len(names) == 32


@pytest.mark.parametrize(
    ("left", "right", "ratio"),
    [
        ("abcd", "abcd", 1.0),
        ("abcd", "wxyz", 0.0),
        ("a", "a", 1.0),
        ("amounts off by one cent", "amount off by one cent", 0.93),
        ("金额差一分", "金额差一角", 0.75),
    ],
)
def test_likeness_is_of_bigrams(left, right, ratio):
    assert recurrence.alike(left, right) == pytest.approx(ratio, abs=0.01)


def test_the_reason_of_a_review_is_short_whatever_the_cue():
    reason = recurrence.review_reason(REF, "字" * 9_000, streak=3, recurred=9)
    assert len(reason) < 500
    assert reason.startswith("This failure keeps coming back: 3 in a row, 9 since the approval")
