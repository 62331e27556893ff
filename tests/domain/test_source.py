"""What may be captured, when two captures are the same, and what the memory model is shown."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pc_store.domain.refs import SourceRef
from pc_store.domain.source import (
    NewSource,
    Source,
    estimated_tokens,
    ineligible,
    new_source,
)
from pc_store.errors import InvalidInput

NOON = int(datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()) * 1_000_000


def stored(metadata=None, *, source_type="content", internal=False):
    return Source(1, source_type, "s1", "text", metadata or {}, "d", internal, 0)


def refusal(*args, **kwargs):
    with pytest.raises(InvalidInput) as caught:
        new_source(*args, **kwargs)
    return caught.value.field, caught.value.reason


def test_a_source_is_what_was_offered():
    assert new_source("s1", " text ", {"kind": "note"}) == NewSource(
        "s1", " text ", {"kind": "note"}, "content"
    )
    assert new_source("s1", "text").metadata == new_source("s1", "text", {}).metadata == {}
    assert stored().ref == SourceRef("content", "s1")


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        (("", "x"), ("source_id", "is blank")),
        ((" s", "x"), ("source_id", "has white space around it")),
        (("s" * 257, "x"), ("source_id", "has 257 characters, the most is 256")),
        (("s", ""), ("content", "is blank")),
        (("s", " \u3000\n"), ("content", "is blank")),
        (("s", "x" * 200_001), ("content", "has 200001 characters, the most is 200000")),
        (("s", b"x"), ("content", "is a bytes, a string is expected")),
        (("s", "x\x00"), ("content", "holds a NUL character at character 1, which is refused")),
        (("s", "\ud800"), ("content", "holds a lone surrogate at character 0, which is refused")),
        (("s", "x", [1]), ("metadata", "is a list, an object is expected")),
        (("s", "x", {"a": float("nan")}), ("metadata.a", "is not a finite number")),
        (("s", "x", {"a": {"b": ["\x00"]}}), ("metadata.a.b[0]", None)),
        (("s", "x", {"\ud800": 1}), ("metadata", None)),
        (("s", "x", {"a": "y" * 65_536}), ("metadata", "is 65544 bytes, the most is 65536")),
    ],
)
def test_a_source_that_breaks_a_rule_is_refused_and_the_field_named(arguments, refused):
    field, reason = refusal(*arguments)
    assert (field, reason if refused[1] else None) == refused


def test_a_source_type_has_at_most_128_characters():
    assert new_source("s", "x", source_type="t" * 128).source_type == "t" * 128
    assert refusal("s", "x", source_type="t" * 129) == (
        "source_type",
        "has 129 characters, the most is 128",
    )


def test_sources_are_the_same_when_content_and_metadata_are_equal_json():
    base = new_source("s", "x", {"a": 1, "b": [True, None]}).digest
    assert new_source("other id", "x", {"b": [True, None], "a": 1.0}).digest == base
    different = [
        new_source("s", "x ", {"a": 1, "b": [True, None]}),
        new_source("s", "x", {"a": 2, "b": [True, None]}),
        new_source("s", "x", {"a": "1", "b": [True, None]}),
        new_source("s", "x", {"a": True, "b": [True, None]}),
        new_source("s", "x", {"a": 1, "b": [None, True]}),
        new_source("s", "x", {"a": 1, "b": [True]}),
        new_source("s", "x", {"a": 1}),
        new_source("s", "x"),
    ]
    assert len({base, *(source.digest for source in different)}) == len(different) + 1


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (stored(), None),
        (stored({"kind": "task-outcome"}), None),
        (stored(internal=True), "internal"),
        (stored(source_type="skill-usage"), "no text"),
        (stored({"expires_at": "2026-11-30T12:00:01Z"}), None),
        (stored({"expires_at": "2026-11-30T12:00:00Z"}), "expired"),
        (stored({"expires_at": "2026-11-30T12:00:00.000001+00:00"}), None),
        (stored({"expires_at": "2026-11-30T14:00:00+02:00"}), "expired"),
        (stored({"expires_at": "2026-11-30T11:00:01-01:00"}), None),
        (stored({"expires_at": "2026-11-30T11:59:59"}), "expired"),
        (stored({"expires_at": "2026-12-01"}), None),
        (stored({"expires_at": "2026-11-30"}), "expired"),
        (stored({"expires_at": "tomorrow"}), "malformed expiry"),
        (stored({"expires_at": ""}), "malformed expiry"),
        (stored({"expires_at": None}), "malformed expiry"),
        (stored({"expires_at": 1_800_000_000}), "malformed expiry"),
        (stored({"expires_at": "0001-01-01T00:00:00+23:59"}), "expired"),
        (stored({"expires_at": "9999-12-31T23:59:59-23:59"}), None),
    ],
)
def test_the_model_is_shown_what_is_neither_internal_nor_expired_nor_without_text(source, why):
    assert ineligible(source, now_us=NOON) == why


def test_an_estimate_counts_four_ascii_characters_or_one_other_as_a_token():
    texts = ["", "abcd", "abcdefgh", "整数", "abcd整数", "é" * 10, "😀"]
    assert [estimated_tokens(text) for text in texts] == [1, 2, 3, 3, 4, 11, 2]


@given(st.text(), st.text())
def test_a_longer_text_never_estimates_fewer_tokens(one, other):
    assert max(estimated_tokens(one), estimated_tokens(other)) <= estimated_tokens(one + other)
    assert estimated_tokens(one + other) <= estimated_tokens(one) + estimated_tokens(other)
