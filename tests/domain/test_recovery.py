"""What follows a failed window, for every combination of what is known about the failure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pc_store.domain.recovery import next_step


@pytest.mark.parametrize(
    ("failures", "size", "answered", "others", "step"),
    [
        (0, 100, False, False, "retry"),
        (0, 1, True, True, "retry"),
        (2, 100, True, True, "retry"),
        (2, 1, True, True, "retry"),
        (3, 100, True, False, "split"),
        (3, 100, False, False, "split"),
        (3, 2, False, False, "split"),
        (3, 1, True, False, "quarantine"),
        (3, 1, False, True, "quarantine"),
        (3, 1, False, False, "retry"),
        (9, 1, False, False, "retry"),
        (9, 1, False, True, "quarantine"),
        (9, 2, True, True, "split"),
    ],
)
def test_a_window_is_retried_then_halved_then_its_one_source_set_aside(
    failures, size, answered, others, step
):
    assert (
        next_step(
            counted_failures=failures,
            max_attempts=3,
            size=size,
            answered=answered,
            others_answered_since=others,
        )
        == step
    )


def test_with_one_attempt_allowed_the_first_counted_failure_decides():
    def first(size):
        return next_step(
            counted_failures=1,
            max_attempts=1,
            size=size,
            answered=True,
            others_answered_since=False,
        )

    assert [first(2), first(1)] == ["split", "quarantine"]


@given(st.integers(0, 20), st.integers(1, 10), st.integers(1, 1_000))
def test_a_model_that_is_silent_for_everybody_sets_no_source_aside(failures, most, size):
    step = next_step(
        counted_failures=failures,
        max_attempts=most,
        size=size,
        answered=False,
        others_answered_since=False,
    )
    assert step == ("split" if failures >= most and size > 1 else "retry")


@given(st.integers(1, 1_000), st.booleans(), st.integers(1, 5))
def test_a_source_that_breaks_every_window_is_alone_after_halving_and_then_set_aside(
    size, answered, most
):
    steps = []
    while "quarantine" not in steps:
        step = next_step(
            counted_failures=most,
            max_attempts=most,
            size=size,
            answered=answered,
            others_answered_since=True,
        )
        steps.append(step)
        size = max(1, size // 2)
    assert set(steps[:-1]) <= {"split"}
    assert len(steps) <= 11
