"""Text is normalised in one way, and what no database keeps faithfully is refused by name."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pc_store.domain import text
from pc_store.errors import InvalidInput

STORABLE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))


def refusal(call, *args):
    with pytest.raises(InvalidInput) as caught:
        call(*args)
    return caught.value.details


@pytest.mark.parametrize(
    ("given_text", "kept"),
    [
        ("  plain\t\n", "plain"),
        ("\u3000全角\u3000", "全角"),
        ("\u00a0no-break\u00a0", "no-break"),
        ("\u200bzero width stays\u200b", "\u200bzero width stays\u200b"),
        ("cafe\u0301", "caf\u00e9"),
        ("\uac00", "\uac00"),
        ("\u1100\u1161", "\uac00"),
        ("Case And  inner   spaces\r\nstay", "Case And  inner   spaces\r\nstay"),
        ("\uff41 full width stays", "\uff41 full width stays"),
        ("line\u2028separator", "line\u2028separator"),
        ("\u202eright to left", "\u202eright to left"),
        ("👩‍👩‍👧‍👦", "👩‍👩‍👧‍👦"),
    ],
)
def test_an_entry_text_is_composed_and_stripped_and_otherwise_as_given(given_text, kept):
    assert text.entry_text(given_text) == kept


@given(STORABLE)
def test_normalising_again_changes_nothing(value):
    once = text.normalise(value)
    assert text.normalise(once) == once
    assert unicodedata.is_normalized("NFC", once)
    assert once == once.strip()


@pytest.mark.parametrize(
    ("value", "observed"),
    [("整" * 2731, 8193), ("a" * 8193, 8193), ("😀" * 2049, 8196)],
)
def test_a_text_over_8192_bytes_is_refused_with_its_size(value, observed):
    assert refusal(text.entry_text, value) == {
        "field": "text",
        "reason": f"is {observed} UTF-8 bytes, the most is 8192",
        "code": "text-too-long",
        "limit": 8192,
        "observed": observed,
    }


@pytest.mark.parametrize("value", ["整" * 2730, "a" * 8192, "😀" * 2048])
def test_a_text_of_up_to_8192_bytes_is_kept(value):
    assert text.entry_text(value) == value


def test_the_size_that_counts_is_the_one_after_normalisation():
    assert text.entry_text("\u3000" * 9000 + "e\u0301" * 4096) == "é" * 4096


@pytest.mark.parametrize("value", ["", " ", "\u3000\u00a0\t\n"])
def test_a_blank_text_or_kind_is_refused(value):
    for field, call in (("text", text.entry_text), ("kind", text.entry_kind)):
        assert refusal(call, value) == {
            "field": field,
            "reason": "is blank",
            "code": "string-empty",
        }


def test_a_kind_has_at_most_128_characters_after_normalisation():
    assert text.entry_kind(" " + "é" * 128 + " ") == "é" * 128
    assert refusal(text.entry_kind, "k" * 129) == {
        "field": "kind",
        "reason": "has 129 characters, the most is 128",
    }


def test_a_reason_is_optional_and_has_at_most_512_code_points():
    assert [text.reason(value) for value in (None, "", " \u3000", " why ", "😀" * 512)] == [
        None,
        None,
        None,
        "why",
        "😀" * 512,
    ]
    assert refusal(text.reason, "x" * 513) == {
        "field": "reason",
        "reason": "has 513 characters, the most is 512",
        "code": "reason-too-long",
    }


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("ab\x00cd", "a NUL character at character 2"),
        ("\ud800", "a lone surrogate at character 0"),
        ("x\udfff", "a lone surrogate at character 1"),
        ("\ude00\ud83d", "a lone surrogate at character 0"),
    ],
)
def test_what_no_database_keeps_is_refused_and_the_field_named(value, what):
    reason = f"holds {what}, which is refused"
    calls = {"text": text.entry_text, "kind": text.entry_kind, "reason": text.reason}
    for field, call in calls.items():
        assert refusal(call, value) == {"field": field, "reason": reason}
    assert refusal(text.identifier, "source_id", value, 256) == {
        "field": "source_id",
        "reason": reason,
    }


@given(STORABLE)
def test_whatever_else_unicode_has_is_storable(value):
    assert text.storable("text", value) == value


def test_an_identifier_is_kept_byte_for_byte_or_refused():
    for kept in ("Alpha", "e\u0301", "é", "a b", "a\nb", "...", "汉" * 256):
        assert text.identifier("source_id", kept, 256) == kept
    assert [
        refusal(text.identifier, "source_id", value, 256)["reason"]
        for value in ("", " ", " a", "a\n", "a\u3000", "x" * 257)
    ] == [
        "is blank",
        "is blank",
        "has white space around it",
        "has white space around it",
        "has white space around it",
        "has 257 characters, the most is 256",
    ]


@given(STORABLE, STORABLE)
def test_texts_have_the_same_digest_exactly_when_they_are_the_same(one, other):
    assert (text.digest(one) == text.digest(other)) == (one == other)
