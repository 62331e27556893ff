"""Page cursors come back as they were sealed, for the same list, for an hour, and not otherwise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pc_store.domain.page_cursor import LIFETIME_S, seal, unseal
from pc_store.errors import CursorExpired, InvalidCursor

SECRET = b"s" * 32
NOW = 1_700_000_000
BOUND = ["sources", "shop", 50, ""]
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(json_values, json_values)
def test_a_place_comes_back_as_it_was(place, bound_to):
    cursor = seal(SECRET, bound_to, place, now_s=NOW)
    assert cursor.isascii()
    assert unseal(SECRET, bound_to, cursor, now_s=NOW + LIFETIME_S) == place


def test_a_cursor_serves_one_list_of_one_store():
    cursor = seal(SECRET, BOUND, "e9", now_s=NOW)
    for secret, bound_to in (
        (SECRET, ["sources", "shop", 51, ""]),
        (SECRET, ["sources", "shop", 50, "someone else"]),
        (SECRET, ["revisions", "shop", 50, ""]),
        (b"t" * 32, BOUND),
    ):
        with pytest.raises(InvalidCursor):
            unseal(secret, bound_to, cursor, now_s=NOW)


@given(st.data())
def test_a_cursor_altered_anywhere_is_refused(data):
    cursor = seal(SECRET, BOUND, ["e9", 7], now_s=NOW)
    at = data.draw(st.integers(0, len(cursor) - 1))
    other = data.draw(st.characters(codec="utf-8").filter(lambda one: one != cursor[at]))
    with pytest.raises(InvalidCursor):
        unseal(SECRET, BOUND, cursor[:at] + other + cursor[at + 1 :], now_s=NOW)


@given(st.text(st.characters(codec="utf-8")))
def test_what_is_no_cursor_is_refused(text):
    with pytest.raises(InvalidCursor) as caught:
        unseal(SECRET, BOUND, text, now_s=NOW)
    assert caught.value.details == {"field": "cursor", "reason": "is invalid"}


def test_a_cursor_expires_after_an_hour():
    cursor = seal(SECRET, BOUND, 1, now_s=NOW)
    with pytest.raises(CursorExpired):
        unseal(SECRET, BOUND, cursor, now_s=NOW + LIFETIME_S + 1)
