"""What an experience must say, and how it is kept, searched and shown."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pc_store.domain.experience import Experience, parse
from pc_store.errors import InvalidInput

FIELDS = {
    "situation": "An amount went through a float.",
    "action": "Parsed it as Decimal.",
    "outcome": "The input gives the expected value.",
    "lesson": "Decimal for this importer.",
}
FAILURE = {
    "signature": {"recall_cue": " “Amounts” are off ", "symptom": "19.99 becomes 1998"},
    "repair_surface": "experience_content",
    "verification": {"condition": "an amount was read", "check_subject": "cents check"},
}
WHOLE = FIELDS | {"failure": FAILURE}


def changed(path, value):
    """The whole sample with one place changed; `...` takes it away."""
    sample = copy.deepcopy(WHOLE)
    *steps, last = path.split(".")
    place = sample
    for step in steps:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return sample


def fault(value, **more):
    with pytest.raises(InvalidInput) as caught:
        parse(value, **more)
    return caught.value.field, caught.value.reason


def test_what_is_read_is_written_the_same_with_every_field_there():
    assert parse(WHOLE).to_json() == WHOLE
    assert parse(FIELDS).to_json() == FIELDS | {"failure": None}
    assert parse(FIELDS | {"failure": None}) == parse(FIELDS)
    short = changed("failure.signature.symptom", ...)
    assert parse(short).to_json() == changed("failure.signature.symptom", None)


def test_white_space_around_a_text_is_legal_and_kept():
    assert parse(FIELDS | {"lesson": "\n  x \t"}).lesson == "\n  x \t"


LONG = "x" * 8_000


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "string should have at least 1 character"),
        (" \n\u3000", "is blank"),
        (LONG + "x", "string should have at most 8000 characters"),
        (None, "input should be a valid string"),
        (7, "input should be a valid string"),
        (..., "field required"),
    ],
)
def test_each_of_the_four_fields_is_a_text_that_says_something(name, value, reason):
    assert fault(changed(name, value)) == (f"proposal.{name}", reason)
    assert getattr(parse(changed(name, LONG)), name) == LONG


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("failure.signature", ..., "field required"),
        ("failure.repair_surface", ..., "field required"),
        ("failure.verification", ..., "field required"),
        ("failure.signature.recall_cue", ..., "field required"),
        ("failure.signature.recall_cue", "", "string should have at least 1 character"),
        ("failure.signature.recall_cue", "  ", "is blank"),
        ("failure.signature.recall_cue", "x" * 513, "string should have at most 512 characters"),
        (
            "failure.signature.recall_cue",
            "!!! …\u200b",
            "holds no letter, digit or symbol, so nothing could ever equal it",
        ),
        ("failure.signature.symptom", "", "string should have at least 1 character"),
        ("failure.signature.symptom", LONG + "x", "string should have at most 8000 characters"),
        (
            "failure.repair_surface",
            "elsewhere",
            "input should be 'experience_content', 'working_state', 'recall_policy' or "
            "'acceptance_check'",
        ),
        ("failure.verification.condition", "", "string should have at least 1 character"),
        ("failure.verification.check_subject", " ", "is blank"),
        (
            "failure.verification.check_subject",
            "x" * 513,
            "string should have at most 512 characters",
        ),
        ("failure.verification.check_subject", ..., "field required"),
        ("extra", 1, "extra inputs are not permitted"),
        ("failure.extra", 1, "extra inputs are not permitted"),
        ("failure.signature.extra", 1, "extra inputs are not permitted"),
        ("failure.verification.extra", 1, "extra inputs are not permitted"),
        ("lesson", "a\x00b", "holds a NUL character at character 1, which is refused"),
        ("lesson", "a\ud800", "holds a lone surrogate at character 1, which is refused"),
    ],
)
def test_a_broken_rule_is_named_by_its_path(path, value, reason):
    assert fault(changed(path, value)) == (f"proposal.{path}", reason)


@pytest.mark.parametrize("value", [None, [], "text", 3])
def test_anything_but_an_object_is_refused(value):
    field, reason = fault(value, field="content")
    assert (field, "valid dictionary or instance of Experience" in reason) == ("content", True)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("failure.signature.recall_cue", "x" * 512),
        ("failure.signature.recall_cue", "$"),
        ("failure.signature.symptom", " "),
        ("failure.verification.condition", " "),
        ("failure.verification.check_subject", "…"),
        ("failure.repair_surface", "acceptance_check"),
    ],
)
def test_what_the_contract_allows_is_taken(path, value):
    assert parse(changed(path, value)).to_json() == changed(path, value)


def test_models_refuse_what_no_database_keeps_with_a_validation_error():
    """A model's answer is read by pydantic alone; nothing but its own error may come of it."""
    for value in ("a\x00", "\udfff"):
        with pytest.raises(ValidationError):
            Experience.model_validate(FIELDS | {"action": value})


def test_the_cue_key_is_the_normalised_cue():
    assert (parse(WHOLE).cue_key, parse(FIELDS).cue_key) == ("amounts” are off", None)


def test_search_reads_the_four_fields_the_cue_and_the_symptom():
    four = list(FIELDS.values())
    assert parse(FIELDS).document_text() == "\n".join(four)
    assert parse(WHOLE).document_text() == "\n".join(
        [*four, " “Amounts” are off ", "19.99 becomes 1998"]
    )
    without = changed("failure.signature.symptom", None)
    assert parse(without).document_text() == "\n".join([*four, " “Amounts” are off "])


def test_lines_are_labelled_in_the_contracts_order():
    four = [
        "Situation: An amount went through a float.",
        "Action: Parsed it as Decimal.",
        "Outcome: The input gives the expected value.",
        "Lesson: Decimal for this importer.",
    ]
    rest = [
        "Failure cue:  “Amounts” are off ",
        "Symptom: 19.99 becomes 1998",
        "Repair surface: experience_content",
        "Verification condition: an amount was read",
        "Verification check: cents check",
    ]
    assert parse(FIELDS).lines() == four
    assert parse(WHOLE).lines() == four + rest
    without = parse(changed("failure.signature.symptom", None)).lines()
    assert without == four + [line for line in rest if not line.startswith("Symptom")]


def test_the_schema_says_what_the_contract_says():
    schema = Experience.model_json_schema()
    text = {"maxLength": 8_000, "minLength": 1, "pattern": r"\S", "type": "string"}
    lesson = schema["properties"]["lesson"]
    assert {name: lesson[name] for name in text} == text
    assert schema["additionalProperties"] is False
    assert schema["required"] == list(FIELDS)


@given(st.fixed_dictionaries({name: st.text(max_size=20) for name in FIELDS}))
def test_any_text_is_kept_as_it_is_or_refused_by_name(values):
    try:
        kept = parse(values)
    except InvalidInput as error:
        name = error.field.removeprefix("proposal.")
        text = values[name]
        assert not text.strip() or "\x00" in text
    else:
        assert kept.to_json() == values | {"failure": None}
