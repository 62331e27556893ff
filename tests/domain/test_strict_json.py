"""JSON that reads differently elsewhere is refused; equal values have equal canonical bytes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pc_store.domain import strict_json
from pc_store.errors import InvalidInput

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
NUMBERS = INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | INTEGERS.map(float)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def refusal(text):
    with pytest.raises(InvalidInput) as caught:
        strict_json.loads(text)
    return f"{caught.value.field}: {caught.value.reason}"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("1.7976931348623157e308", 1.7976931348623157e308),
        ("1e-400", 0.0),
        ('"\\ud83d\\ude00"', "😀"),
        ('"\\u2028\\u202e"', "\u2028\u202e"),
        (' {"b": [1, 2.5, null, true], "a": ""} ', {"b": [1, 2.5, None, True], "a": ""}),
        ('{"a": {"a": 1}, "A": 2}', {"a": {"a": 1}, "A": 2}),
        ('{"\u00e9": 1, "e\u0301": 2}', {"\u00e9": 1, "e\u0301": 2}),
    ],
)
def test_json_that_reads_the_same_everywhere_is_accepted(text, value):
    assert strict_json.loads(text) == value


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("NaN", "body: holds NaN, which is not JSON"),
        ("[Infinity]", "body: holds Infinity, which is not JSON"),
        ("-Infinity", "body: holds -Infinity, which is not JSON"),
        ('{"a": [1e400]}', "body.a[0]: is not a finite number"),
        ("-1e400", "body: is not a finite number"),
        ('{"a": 1, "a": 1}', "body: has the key 'a' more than once in one object"),
        ('{"a": 1, "\\u0061": 2}', "body: has the key 'a' more than once in one object"),
        ('[{"b": {"x": 1, "x": 2}}]', "body: has the key 'x' more than once in one object"),
        (
            "9223372036854775808",
            "body: holds the integer 9223372036854775808, which exceeds 64 bits",
        ),
        (
            "-9223372036854775809",
            "body: holds the integer -9223372036854775809, which exceeds 64 bits",
        ),
        ("1" * 100_000, f"body: holds the integer {'1' * 24}, which exceeds 64 bits"),
        ('"\\ud800"', "body: holds a lone surrogate at character 0, which is refused"),
        ('["\\udc00\\ud800"]', "body[0]: holds a lone surrogate at character 0, which is refused"),
        ('{"\\ud800": 1}', "body: holds a lone surrogate at character 0, which is refused"),
        ('{"a": "x\\u0000"}', "body.a: holds a NUL character at character 1, which is refused"),
        ('{"\\u0000integer": "1"}', "body: holds a NUL character at character 0, which is refused"),
        ("", "body: is not JSON: expecting value at line 1 column 1"),
        ("{'a': 1}", None),
        ('{"a": 1,}', None),
        ("[1] 2", "body: is not JSON: extra data at line 1 column 5"),
        ('"a\nb"', None),
        ("\ufeff1", None),
        ("01", None),
    ],
)
def test_json_that_does_not_is_refused_and_the_place_named(text, refused):
    said = refusal(text)
    assert said == refused or (refused is None and said.startswith("body: is not JSON: "))


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        '[{"a":' * 50_000,
        '"]"' + "[" * 100_000,
    ],
)
def test_a_depth_bomb_is_refused_at_once(text):
    assert refusal(text) == "body: nests deeper than 64"


def test_sixty_four_levels_are_accepted_and_brackets_inside_strings_are_none():
    deep = "[" * 64 + "]" * 64
    assert strict_json.dumps(strict_json.loads(deep)) == deep
    assert refusal("[" * 65 + "]" * 65) == "body: nests deeper than 64"
    inside = json.dumps(["[{" * 100_000, '\\"[[' * 1_000, "]}" * 10])
    assert strict_json.dumps(strict_json.loads(inside)) == inside.replace(", ", ",")
    wide = "[" + ",".join(["[]"] * 1_000) + "]"
    assert strict_json.loads(wide) == [[]] * 1_000


def test_a_value_that_was_parsed_elsewhere_is_held_to_the_same_rules():
    deep = nested = []
    for _ in range(100_000):
        nested.append([])
        nested = nested[0]
    for value, refused in (
        (deep, "metadata: nests deeper than 64"),
        ({"a": {1: 2}}, "metadata.a: has the key 1, which is not a string"),
        ({"a": b"x"}, "metadata.a: is a bytes, which is no JSON value"),
        ([2**63], "metadata[0]: is an integer that exceeds 64 bits"),
    ):
        with pytest.raises(InvalidInput) as caught:
            strict_json.checked(value, field="metadata")
        assert caught.value.message == refused
    while deep:  # taken apart by hand: letting go of it whole would recurse
        deep = deep.pop()


@given(VALUES)
def test_what_is_written_reads_back_the_same_to_the_digit(value):
    text = strict_json.dumps(value)
    assert strict_json.dumps(strict_json.loads(text)) == text
    assert strict_json.loads(text) == value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "1.0"),
        ("0", "-0.0"),
        ("100", "1e2"),
        ("1000000000000000000", "1e18"),
        ("9007199254740992", "9007199254740992.0"),
        ("-9223372036854775808", "-9223372036854775808.0"),
        ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}'),
        ('"\\u00e9"', '"é"'),
        ('"/"', '"\\/"'),
        ("[ ]", "[]"),
    ],
)
def test_equal_values_have_equal_digests_however_they_are_spelt(one, other):
    assert strict_json.digest(strict_json.loads(one)) == strict_json.digest(
        strict_json.loads(other)
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", '"1"'),
        ("1", "true"),
        ("0", "false"),
        ("null", "false"),
        ("[1,2]", "[2,1]"),
        ("[]", "{}"),
        ("9007199254740993", "9007199254740992"),
        ("9223372036854775807", "9223372036854775806"),
        ("9223372036854775807", '"9223372036854775807"'),
        ('"\\u00e9"', '"e\\u0301"'),
        ('"A"', '"a"'),
    ],
)
def test_different_values_have_different_digests(one, other):
    assert strict_json.digest(strict_json.loads(one)) != strict_json.digest(
        strict_json.loads(other)
    )


def typed(value):
    """The value with its types spelt out, so that True is not 1."""
    if isinstance(value, dict):
        return "object", frozenset((key, typed(member)) for key, member in value.items())
    if isinstance(value, list):
        return "array", tuple(map(typed, value))
    return type(value) if isinstance(value, bool | str | None) else "number", value


@given(VALUES, VALUES)
def test_canonical_bytes_are_equal_exactly_when_values_are(one, other):
    same = typed(one) == typed(other)
    assert (strict_json.canonical(one) == strict_json.canonical(other)) == same


@given(NUMBERS, NUMBERS)
def test_canonical_numbers_are_equal_exactly_when_numbers_are(one, other):
    assert (strict_json.canonical(one) == strict_json.canonical(other)) == (one == other)
    assert strict_json.canonical([one]) == strict_json.canonical([float(one)]) or one != float(one)


def test_digests_are_sha256_of_the_published_forms():
    assert (
        strict_json.digest("hello")
        == "5aa762ae383fbb727af3c7a36d4940a5b8c40a989452d2304fc958ff3f354e7a"
    )
    assert strict_json.canonical({"b": 1.0, "a": [True, None, "é"]}) == (
        '{"a":[true,null,"é"],"b":1}'.encode()
    )
