"""Scope ids are kept byte for byte; their keys are safe names that never meet."""

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pc_store import limits
from pc_store.domain import scope
from pc_store.errors import InvalidInput

IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=256)
ODD = (
    "a/b",
    "a|b",
    "a,b",
    "...",
    ".",
    "..",
    "汉字",
    "a\nb",
    "汉" * 256,
    "😀" * 256,
    "汉" * 255 + "字",
    "Alpha",
    "alpha",
    "ALPHA",
    unicodedata.normalize("NFC", "álpha"),
    unicodedata.normalize("NFD", "álpha"),
    "a@b",
    "a%2Fb",
    "a~b",
    "a%7Eb",
    " a",
    "a ",
    "con",
    ".hidden",
    "a..b",
    "a...b",
    "-rf",
    "*",
    "~",
    "%",
)


def safe(key):
    return (
        re.fullmatch(r"[A-Za-z0-9_.~%-]{1,200}", key) is not None
        and not key.startswith(".")
        and not key.endswith(".")
        and ".." not in key
    )


def test_odd_ids_have_different_safe_keys():
    keys = [scope.partition_key(value) for value in ODD]
    assert len(set(keys)) == len(ODD)
    assert [key for key in keys if not safe(key)] == []


def test_a_plain_id_is_its_own_key_and_others_can_be_read_from_theirs():
    assert [scope.partition_key(value) for value in ("orders", "team-1_eu.prod", "a/b", "汉")] == [
        "orders",
        "team-1_eu.prod",
        "a%2Fb",
        "%E6%B1%89",
    ]


@given(IDS)
def test_every_key_is_a_safe_file_name_of_at_most_200_characters(value):
    assert safe(scope.partition_key(value))


@given(IDS, IDS)
def test_different_ids_have_different_keys(one, other):
    assert (scope.partition_key(one) == scope.partition_key(other)) == (one == other)


@given(IDS.filter(lambda value: len(value) > 67), st.integers(0, 255), st.characters(codec="ascii"))
def test_long_ids_that_differ_in_one_character_have_different_keys(value, place, character):
    place %= len(value)
    other = value[:place] + character + value[place + 1 :]
    assert (scope.partition_key(value) == scope.partition_key(other)) == (value == other)


@given(IDS)
@example("汉" * 256)
@example("a~" + "b" * 254)
def test_a_key_used_as_an_id_does_not_get_the_key_of_another_id(value):
    key = scope.partition_key(value)
    assert (scope.partition_key(key) == key) == (key == value)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "is blank"),
        (" \u3000", "is blank"),
        ("x" * 257, "has 257 characters, the most is 256"),
        ("a\x00", "holds a NUL character at character 1, which is refused"),
        ("\ud800", "holds a lone surrogate at character 0, which is refused"),
    ],
)
def test_an_id_that_breaks_a_rule_is_refused(value, reason):
    for call, most in ((scope.scope_id, 256), (scope.title, 256), (scope.summary, 2_000)):
        if most == 2_000 and len(value) == 257:
            assert call(value) == value
            continue
        with pytest.raises(InvalidInput) as caught:
            call(value)
        assert (caught.value.field, caught.value.reason) == (call.__name__, reason)


@given(IDS)
def test_an_id_is_kept_byte_for_byte_or_refused(value):
    assert len(value) <= limits.SCOPE_ID_MAX_CHARS
    if "\x00" in value or not value.strip():
        with pytest.raises(InvalidInput):
            scope.scope_id(value)
    else:
        assert scope.scope_id(value) == value
