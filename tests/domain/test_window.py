"""Where windows start and end, what they are called, and when a failed one is tried again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pc_store.domain.scope import partition_key
from pc_store.domain.window import (
    WindowKey,
    end_of_window,
    fitting_end,
    parse_key,
    retry_delay_s,
)
from pc_store.errors import WindowRefused

POSITION = st.integers(1, 99_999_999)


def test_seven_sources_with_limit_three_make_windows_up_to_five_and_seven():
    assert end_of_window(2, 7, 3) == 5
    assert end_of_window(5, 7, 3) == 7
    assert end_of_window(7, 7, 3) == 7


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(1, 1_000))
def test_windows_cover_a_log_in_order_without_gap_or_overlap(cursor, waiting, limit):
    high = cursor + waiting
    covered = []
    while (end := end_of_window(cursor, high, limit)) > cursor:
        assert end - cursor <= limit
        covered.extend(range(cursor + 1, end + 1))
        cursor = end
    assert cursor == high
    assert covered == list(range(high - waiting + 1, high + 1))


@pytest.mark.parametrize(
    ("sizes", "budget", "end"),
    [
        ([10], 100, 8),
        ([100], 10, 8),
        ([50, 50], 100, 9),
        ([50, 51], 100, 8),
        ([101, 1], 100, 8),
        ([40, 40, 40, 1], 100, 9),
    ],
)
def test_a_window_is_cut_before_the_source_that_would_break_the_budget(sizes, budget, end):
    assert fitting_end(7, sizes, budget) == end


@given(st.lists(st.integers(1, 500), min_size=1), st.integers(1, 1_000))
def test_a_window_is_the_longest_that_fits_and_never_empty(sizes, budget):
    taken = fitting_end(0, sizes, budget)
    assert 1 <= taken <= len(sizes)
    assert taken == 1 or sum(sizes[:taken]) <= budget
    assert taken == len(sizes) or sum(sizes[: taken + 1]) > budget


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), POSITION, POSITION)
def test_a_window_key_reads_back_as_itself_for_any_scope(scope_id, one, other):
    key = WindowKey(partition_key(scope_id), min(one, other), max(one, other))
    assert parse_key(str(key)) == key
    assert key.after == key.first - 1


def test_window_keys_of_a_scope_sort_as_their_positions():
    keys = [WindowKey("orders", first, first + 9) for first in (1, 11, 101, 99_999_990)]
    assert [str(key) for key in keys] == sorted(map(str, keys))
    assert str(keys[0]) == "orders@00000001-00000010"


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "orders",
        "orders@1-3",
        "orders@00000001-00000003 ",
        "orders@00000001-00000003\n",
        "orders@00000001-",
        "@00000001-00000003",
        "a@b@00000001-00000003",
        "orders@00000000-00000003",
        "orders@00000004-00000003",
        "orders@000000001-000000003",
        "orders@-0000001-00000003",
        "orders@٠٠٠٠٠٠٠١-٠٠٠٠٠٠٠٣",
        "orders@0000000²-00000003",
    ],
)
def test_anything_else_typed_as_a_key_is_refused(typed):
    with pytest.raises(WindowRefused, match="is no window"):
        parse_key(typed)


def test_the_pause_before_a_retry_doubles_up_to_its_cap():
    def delays(jitter):
        return [
            retry_delay_s(attempt, base_s=30, cap_s=1_800, jitter=jitter)
            for attempt in (1, 2, 3, 7, 8, 1_000_000)
        ]

    assert delays(0.5) == [30, 60, 120, 1_800, 1_800, 1_800]
    assert delays(0.0) == pytest.approx([24, 48, 96, 1_440, 1_440, 1_440])
    assert delays(1.0) == pytest.approx([36, 72, 144, 2_160, 2_160, 2_160])
