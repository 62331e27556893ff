import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pc_store.domain.proposal import KINDS, Proposal, Rejected
from pc_store.llm.judging import explain, sift
from pc_store.llm.policy import folded
from pc_store.llm.replies import ChangesReply, reply_model
from pc_store.llm.unwrap import UnreadableError, one_object

GOOD = {"intent": "add", "kind": "fact", "text": "Amounts are cents.", "evidence_ids": ["e1"]}
REVISION = {**GOOD, "intent": "revise", "entry_id": "m1"}
MODEL = reply_model(["e1", "e2", "e2"], ["m1", "m2"], examples=frozenset({folded("An example.")}))


def rejected(candidate, model=MODEL):
    kept, broken = sift([candidate], model)
    assert not kept
    return broken[0].rule, broken[0].reason


def test_the_schema_lists_the_ids_of_the_call():
    change = MODEL.model_json_schema()["$defs"]["Change"]["properties"]
    assert change["intent"]["enum"] == ["add", "revise"]
    assert change["kind"]["enum"] == list(KINDS)
    assert change["evidence_ids"]["items"]["enum"] == ["e1", "e2"]
    assert change["evidence_ids"]["minItems"] == 1
    assert change["entry_id"]["anyOf"] == [
        {"type": "string", "enum": ["m1", "m2"]},
        {"type": "null"},
    ]


def test_without_entries_the_schema_knows_no_revise():
    change = reply_model(["e1"]).model_json_schema()["$defs"]["Change"]["properties"]
    assert change["intent"]["enum"] == ["add"]
    assert change["entry_id"]["type"] == "null"
    assert rejected(REVISION, reply_model(["e1"]))[0] == "entry-not-shown"


def test_models_of_two_calls_do_not_share_their_ids():
    first, second = reply_model(["e1"]), reply_model(["e2"])
    assert sift([GOOD], first)[0]
    assert rejected(GOOD, second)[0] == "evidence-unknown"


def test_a_right_reply_is_normalised():
    reply = MODEL.model_validate(
        {
            "candidates": [
                {
                    **REVISION,
                    "text": "  Cafe\u0301 amounts. ",
                    "evidence_ids": ["e2", " e1", "e2"],
                    "reason": " ",
                    "extra": {"tolerated": True},
                }
            ],
            "also": "tolerated",
        }
    )
    assert [one.proposal() for one in reply.candidates] == [
        Proposal("revise", "fact", "Café amounts.", ("e2", "e1"), "m1", None)
    ]


def test_a_blank_entry_id_is_none():
    assert sift([{**GOOD, "entry_id": ""}], MODEL)[0][0].entry_id is None


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"evidence_ids": []}, "evidence-empty"),
        ({"evidence_ids": ["e9"]}, "evidence-unknown"),
        ({"evidence_ids": ["e1", "e9"]}, "evidence-unknown"),
        ({"evidence_ids": "e1"}, "list_type"),
        ({"evidence_ids": None}, "list_type"),
        ({"evidence_ids": [1]}, "string_type"),
        ({"entry_id": "m1"}, "entry-on-add"),
        ({"intent": "revise"}, "entry-missing"),
        ({"intent": "revise", "entry_id": "m3"}, "entry-not-shown"),
        ({"intent": "deactivate"}, "literal_error"),
        ({"kind": "Fact"}, "kind-unknown"),
        ({"kind": None}, "string_type"),
        ({"text": " \n"}, "string-empty"),
        ({"text": "字" * 2_731}, "text-too-long"),
        ({"text": "a\x00b"}, "text-unstorable"),
        ({"text": "a\ud800b"}, "text-unstorable"),
        ({"text": 5}, "string_type"),
        ({"text": "AN  example."}, "example-copied"),
        ({"reason": "x" * 513}, "reason-too-long"),
        ({"reason": "\x00"}, "reason-unstorable"),
    ],
)
def test_a_candidate_that_breaks_a_rule_is_rejected_by_its_name(change, rule):
    found, reason = rejected({**GOOD, **change})
    assert found == rule
    assert next(iter(change)) in reason or "entry_id" in reason


@pytest.mark.parametrize("field", ["intent", "kind", "text", "evidence_ids"])
def test_a_missing_field_is_named(field):
    candidate = {name: value for name, value in GOOD.items() if name != field}
    assert rejected(candidate) == ("missing", f"{field}: field required")


@pytest.mark.parametrize("candidate", [None, 1, "text", [], [GOOD]])
def test_what_is_no_object_is_no_candidate(candidate):
    assert rejected(candidate)[0] == "model_type"


def test_text_of_just_the_limit_is_kept_and_so_is_a_reason():
    longest = {**GOOD, "text": "x" * 8_192, "reason": "字" * 512}
    assert len(sift([longest], MODEL)[0]) == 1


def test_32_ids_may_be_cited_and_33_not():
    ids = [f"e{number}" for number in range(33)]
    model = reply_model(ids)
    assert sift([{**GOOD, "evidence_ids": ids[:32] * 2}], model)[0]
    assert rejected({**GOOD, "evidence_ids": ids}, model)[0] == "evidence-too-many"


def test_the_model_is_told_which_ids_it_may_use():
    with pytest.raises(ValidationError) as caught:
        MODEL.model_validate({"candidates": [{**GOOD, "evidence_ids": ["e9"]}]})
    assert "use only e1, e2" in str(caught.value)


def test_a_thousand_allowed_ids_are_not_all_spelled_out():
    model = reply_model(f"e{number}" for number in range(1_000))
    with pytest.raises(ValidationError) as caught:
        model.model_validate({"candidates": [{**GOOD, "evidence_ids": ["x"]}]})
    assert "(1000 in all)" in str(caught.value)
    assert len(str(caught.value)) < 1_000


def test_one_entry_is_revised_once_and_the_first_revision_is_salvaged():
    again = {**REVISION, "text": "Amounts are yuan."}
    with pytest.raises(ValidationError):
        MODEL.model_validate({"candidates": [REVISION, GOOD, again]})
    kept, broken = sift([REVISION, GOOD, again, {**again, "entry_id": "m2"}], MODEL)
    assert [one.entry_id for one in kept] == ["m1", None, "m2"]
    assert broken == (
        Rejected(2, "entry-revised-twice", "entry_id is revised by an earlier candidate"),
    )


@pytest.mark.parametrize("secret", ["hunter2", "e9-hunter2"])
def test_no_message_repeats_the_models_words(secret):
    bad = {
        "intent": secret,
        "kind": secret,
        "text": secret + "\x00",
        "evidence_ids": [secret],
        "entry_id": secret,
        "reason": secret * 99,
    }
    candidates = [bad, {**GOOD, "entry_id": secret}, {**REVISION, "entry_id": secret}, secret]
    with pytest.raises(ValidationError) as caught:
        MODEL.model_validate({"candidates": candidates})
    assert secret not in str(caught.value)
    assert secret not in explain(caught.value)
    assert secret not in repr(sift(candidates, MODEL))


def test_the_explanation_names_three_rules_and_counts_the_rest():
    with pytest.raises(ValidationError) as caught:
        MODEL.model_validate({"candidates": [{**GOOD, "evidence_ids": []}] * 5})
    told = explain(caught.value)
    assert told.startswith("candidate 0: evidence_ids is empty (evidence-empty); candidate 1:")
    assert told.endswith("; and 2 more")


EMPTY = '{"candidates": []}'
FULL = json.dumps({"candidates": [GOOD]})


@pytest.mark.parametrize(
    "text",
    [
        FULL,
        f"\ufeff{FULL}",
        f"  \n{FULL}\n",
        f"```json\n{FULL}\n```",
        f"```\n{FULL}\n```",
        f"Sure! Here it is:\n```json\n{FULL}\n```\nHope that helps {{user}} [1].",
        f"Sure! {FULL}",
        f"<think>maybe {EMPTY} or not?</think>\n{FULL}",
        f"<THINKING>{{\n</THINKING>{FULL}",
        f"I weigh it… {EMPTY}</think>{FULL}",
        f"{FULL}\n{FULL}",
        FULL.replace("}]}", ",}, ] ,}"),
        json.dumps({"name": "Changes", "arguments": {"candidates": [GOOD]}}),
        json.dumps({"name": "Changes", "parameters": {"candidates": [GOOD]}}),
    ],
)
def test_the_one_object_is_found_where_there_is_no_doubt(text):
    assert ChangesReply.parts_in(text) == [GOOD]
    assert len(MODEL.model_validate_json(text).candidates) == 1


@pytest.mark.parametrize(
    "said", ["a </think> b", "commas ,] and ,} inside", 'quotes \\" ,] too', "{user} [1] ```json"]
)
def test_what_stands_in_a_string_is_left_alone(said):
    text = json.dumps({"candidates": [{**GOOD, "text": said}]})
    assert ChangesReply.parts_in(text) == [{**GOOD, "text": said}]
    mended = text.replace("}]}", "},]}")
    assert ChangesReply.parts_in(mended) == [{**GOOD, "text": said}]


def test_raw_line_breaks_in_a_string_are_read():
    raw = '{"candidates": [{"text": "two\nlines"}]}'
    assert ChangesReply.parts_in(raw) == [{"text": "two\nlines"}]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\ufeff",
        "Nothing is worth keeping.",
        "I choose 3 of the 5",
        "null",
        "3",
        '"candidates"',
        "[]",
        f"[{FULL}]",
        json.dumps([GOOD]),
        f"```json\n{json.dumps([GOOD])}\n```",
        f"{EMPTY}\n{FULL}",
        f"{FULL} or {{}}",
        FULL[:-1],
        FULL[:60],
        '{"result": ' + EMPTY,
        f"<think>still thinking, maybe {EMPTY}",
        '{"candidates": [], "candidates": [1]}',
        '{"candidates": [' + "[" * 100_000,
        '{"candidates": [' + "9" * 5_000 + "]}",
        "{'candidates': []}",
    ],
)
def test_an_answer_that_leaves_doubt_is_not_read(text):
    assert ChangesReply.parts_in(text) is None
    with pytest.raises(UnreadableError):
        one_object(text)
    with pytest.raises(ValidationError):
        MODEL.model_validate_json(text)


@pytest.mark.parametrize(
    "text", ["{}", '{"candidates": null}', '{"candidates": {}}', '{"candidates": "none"}']
)
def test_only_a_list_of_candidates_counts_as_an_answer(text):
    assert ChangesReply.parts_in(text) is None
    with pytest.raises(ValidationError):
        MODEL.model_validate_json(text)


def test_an_empty_list_is_an_answer():
    assert MODEL.model_validate_json(EMPTY).candidates == []


def test_reading_takes_linear_time():
    prose = 'Well, {user} and [1] and " and , ] ' * 20_000
    assert ChangesReply.parts_in(prose + FULL) == [GOOD]
    assert ChangesReply.parts_in('{"a": "' * 50_000) is None


@given(st.text())
def test_no_text_whatever_makes_the_reader_fail_otherwise(text):
    ChangesReply.parts_in(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=15,
)


@given(st.lists(JSON))
def test_every_candidate_is_either_kept_or_rejected_whatever_it_is(candidates):
    kept, broken = sift(candidates, MODEL)
    assert len(kept) + len(broken) == len(candidates)


@given(st.dictionaries(st.text(), JSON))
def test_every_object_is_read_back_as_it_is(value):
    assert one_object(json.dumps(value)) == value
