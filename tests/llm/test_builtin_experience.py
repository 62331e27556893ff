"""The builtin author: drafts that say what a record says, with every status as it is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pc_store.domain import outcome, strict_json
from pc_store.domain.experience import CUE_MAX_CHARS, TEXT_MAX_CHARS, Failure, parse
from pc_store.domain.experience_proposal import Exhibit, cues_of
from pc_store.domain.outcome import CheckStatus, Status
from pc_store.domain.proposal import Evidence
from pc_store.errors import GenerationUnavailable
from pc_store.llm.builtin_experience import BuiltinExperienceAuthor, draft

SEEN = [{"kind": "source", "source_ref": {"source_type": "content", "source_id": "log"}}]


def check(name, status, *, verified=False, details=None):
    value = {"name": name, "status": status, "details": details}
    return value | ({"basis": "verified", "evidence": SEEN} if verified else {})


def seen(text, *, verified=False):
    return {"text": text} | ({"basis": "verified", "evidence": SEEN} if verified else {})


def record(**changes):
    value = {
        "objective": "Import the orders.",
        "status": "succeeded",
        "summary": "Decimal was used instead of float.",
        "observations": [seen("0.29 became 29 cents.", verified=True)],
    }
    return value | changes


def drafted(**changes):
    return draft(outcome.parse(record(**changes)))


def proposals(*contents):
    evidence = [
        Evidence(
            f"e{n}", "content", f"o{n}", content if isinstance(content, str) else dump(content)
        )
        for n, content in enumerate(contents, start=1)
    ]
    return BuiltinExperienceAuthor().propose(evidence).proposals


def dump(value):
    return strict_json.dumps(value)


def test_a_record_is_rewritten_with_every_status_as_it_is():
    made = drafted(
        checks=[
            check("amounts are exact", "passed", verified=True),
            check("unit tests", "passed"),
            check("other currencies", "skipped", details="no data"),
        ],
        produced_artifacts=[{"family": "memory", "artifact_id": "memory", "revision": 3}],
        remaining_work=["Check negative amounts."],
    )
    assert made.to_json() == {
        "situation": "Import the orders.",
        "action": "Decimal was used instead of float.\nProduced: memory/memory@3.",
        "outcome": (
            "The task ended as succeeded.\n"
            "Observed (verified): 0.29 became 29 cents.\n"
            "Check (verified), passed: amounts are exact\n"
            "Check (declared, not verified), passed: unit tests\n"
            "Check (declared, not verified), skipped: other currencies (no data)"
        ),
        "lesson": (
            "Verified for this task: amounts are exact (passed).\n"
            "Declared, not verified: unit tests (passed); other currencies (skipped).\n"
            "Still open: Check negative amounts.\n"
            "Other inputs and conditions still have to be checked."
        ),
        "failure": None,
    }


def test_a_chinese_record_is_rewritten_in_chinese():
    made = drafted(
        objective="修复订单 CSV 导入的金额精度。",
        summary="改为从原始文本直接解析 Decimal。",
        observations=[seen("0.29 得到 29 分。", verified=True)],
        checks=[check("金额用例", "passed", verified=True), check("边界用例", "skipped")],
        remaining_work=["其他精度"],
    )
    assert made.outcome == (
        "任务结束状态：succeeded。\n"
        "观察（已验证）：0.29 得到 29 分。\n"
        "检查（已验证），passed：金额用例\n"
        "检查（仅声明，未验证），skipped：边界用例"
    )
    assert made.lesson == (
        "本次任务中已验证：金额用例 (passed)。\n"
        "仅声明，未验证：边界用例 (skipped)。\n"
        "尚未完成：其他精度。\n"
        "其他输入和条件仍需检查。"
    )


@pytest.mark.parametrize(
    "objective", ["注文の金額を直す。", "주문 금액을 고친다.", "Fix 金额 in the importer."]
)
def test_other_languages_keep_their_words_between_english_ones(objective):
    made = drafted(objective=objective)
    assert made.situation == objective
    assert made.outcome.startswith("The task ended as succeeded.")


def test_a_record_without_anything_verified_supports_no_conclusion():
    made = drafted(observations=[seen("It ran.")], checks=[check("unit tests", "passed")])
    assert made.lesson == (
        "Declared, not verified: unit tests (passed).\nNo conclusion yet: nothing was verified."
    )


def test_what_was_verified_without_a_result_is_told_as_not_shown():
    made = drafted(checks=[check("big file", "timed_out", verified=True), check("x", "failed")])
    assert made.lesson == (
        "Not prevented here, as verified: big file (timed_out).\n"
        "Declared, not verified: x (failed)."
    )
    made = drafted(checks=[check("big file", "skipped", verified=True)])
    assert made.lesson == "Not shown: big file (skipped)."


@given(
    status=st.sampled_from(Status.__args__),
    checks=st.lists(st.tuples(st.sampled_from(CheckStatus.__args__), st.booleans()), max_size=6),
)
@settings(max_examples=150, deadline=None)
def test_only_verified_passed_checks_are_ever_told_as_support(status, checks):
    made = drafted(
        status=status,
        checks=[check(f"check<{n}>", state, verified=v) for n, (state, v) in enumerate(checks)],
    )
    (support,) = [line for line in made.lesson.split("\n") if line.startswith("Verified")] or [""]
    for number, (state, verified) in enumerate(checks):
        name = f"check<{number}>"
        assert (name in support) == (verified and state == "passed")
        basis = "verified" if verified else "declared, not verified"
        assert f"Check ({basis}), {state}: {name}" in made.outcome
    assert parse(made.to_json()) == made


# The failure to track


def failed(**changes):
    return (
        record(
            status="failed",
            observations=[seen("An amount with cents was read.", verified=True)],
            checks=[
                check("Amounts are exact", "failed", verified=True, details=" 28 instead of 29 "),
                check("lint", "failed"),
            ],
        )
        | changes
    )


def test_a_failure_is_made_of_the_records_own_words():
    made = draft(outcome.parse(failed()))
    assert made.failure == Failure.model_validate(
        {
            "signature": {"recall_cue": "Amounts are exact", "symptom": "28 instead of 29"},
            "repair_surface": "experience_content",
            "verification": {
                "condition": "An amount with cents was read.",
                "check_subject": "Amounts are exact",
            },
        }
    )
    assert made.cue_key in cues_of(dump(failed()))


@pytest.mark.parametrize(
    "changes",
    [
        {"checks": [check("a", "failed", verified=True), check("b", "timed_out", verified=True)]},
        {"checks": [check("a", "failed")]},
        {"checks": [check("a", "skipped", verified=True)]},
        {"checks": [check("a", "failed", verified=True), check("A!", "passed", verified=True)]},
        {"checks": [check("!!!", "failed", verified=True)]},
        {"checks": [check("x" * (CUE_MAX_CHARS + 1), "failed", verified=True)]},
        {"observations": [seen("one", verified=True), seen("two", verified=True)]},
        {"observations": [seen("one")]},
        {"observations": [seen("x" * (TEXT_MAX_CHARS + 1), verified=True)]},
    ],
    ids=[
        *("two failed", "declared", "skipped", "named twice", "no key", "long name"),
        *("two conditions", "declared condition", "long condition"),
    ],
)
def test_where_a_part_would_have_to_be_chosen_or_made_up_there_is_no_failure(changes):
    assert draft(outcome.parse(failed(**changes))).failure is None


# Proposing


def test_each_well_formed_outcome_is_one_draft_that_cites_it():
    other = record(objective="Export the orders.")
    made = proposals(record(), "no outcome", other, "{}", dump([1]))
    assert [one.evidence_ids for one in made] == [("e1",), ("e3",)]
    assert [one.content.situation for one in made] == ["Import the orders.", "Export the orders."]


def test_outcomes_that_read_the_same_are_one_draft_that_cites_them_all():
    made = proposals(record(), record(objective="Another."), record())
    assert [one.evidence_ids for one in made] == [("e1", "e3"), ("e2",)]


def test_one_draft_cites_no_more_outcomes_than_a_proposal_may():
    (made,) = proposals(*([record()] * 50))
    assert made.evidence_ids == tuple(f"e{n}" for n in range(1, 33))


def test_an_outcome_as_long_as_one_may_be_fits_the_content():
    most = outcome.ITEMS_MAX
    made = drafted(
        objective="o" * 8_192,
        summary="s" * 8_192,
        observations=[seen(f"{n}" + "x" * 8_000) for n in range(most)],
        checks=[check(f"{n}" + "y" * 8_000, "failed", verified=True) for n in range(most)],
    )
    assert {len(getattr(made, name)) for name in ("situation", "action", "outcome", "lesson")} == {
        TEXT_MAX_CHARS
    }
    assert parse(made.to_json()) == made


# Generating


def exhibit(content, kind="source"):
    text = content if isinstance(content, str) else dump(content)
    return Exhibit(f"{kind}:x", kind, "{}", truncated=False, text=text if kind == "source" else "")


def test_the_one_outcome_among_the_evidence_is_drafted():
    shown = [exhibit("a note"), exhibit(record()), exhibit("", kind="artifact")]
    made = BuiltinExperienceAuthor().generate(shown)
    assert made.content == draft(outcome.parse(record()))


@pytest.mark.parametrize(
    ("contents", "target"),
    [
        (["a note"], None),
        ([], None),
        ([record(), record(objective="Another.")], None),
        ([record()], "artifact:experience/exp_1@1"),
    ],
)
def test_what_takes_a_model_is_not_available(contents, target):
    with pytest.raises(GenerationUnavailable) as caught:
        BuiltinExperienceAuthor().generate(
            [exhibit(content) for content in contents], target_evidence_id=target
        )
    assert caught.value.details == {"family": "experience"}
