"""A memory's size in bytes is that of its canonical JSON; growth beyond the budget is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pc_store.domain import strict_json
from pc_store.domain.capacity import Budget, exceeded, refuse_growth
from pc_store.domain.revision import (
    EntryChange,
    Size,
    content_bytes,
    content_digest,
    entry_bytes,
    fragments_digest,
    manifest_entry,
    memory_content,
)
from pc_store.errors import CapacityExceeded

states = st.lists(st.sampled_from(["active", "inactive"]), max_size=5)
changes = st.lists(
    st.builds(
        EntryChange,
        st.sampled_from(["add", "revise", "deactivate", "reactivate"]),
        st.just("mem_ent_" + "0" * 32),
        st.none() | st.just("mem_ver_" + "1" * 32),
        st.none() | st.just("mem_ver_" + "2" * 32),
        st.none() | st.text(st.characters(codec="utf-8"), max_size=20),
    ),
    max_size=3,
)


def entry(number, state):
    return f"mem_ent_{number:032x}", f"mem_ver_{number:032x}", f"{number:064x}", state


@given(states, changes)
def test_size_and_digest_are_those_of_the_content(states, changes):
    listed = [entry(number, state) for number, state in enumerate(states)]
    content = memory_content([manifest_entry(*one) for one in listed], changes)
    size = Size(states.count("active"), states.count("inactive"))
    assert content_bytes(size, changes) == len(strict_json.canonical(content))
    assert fragments_digest([entry_bytes(*one) for one in listed], changes) == content_digest(
        content
    )


@pytest.mark.parametrize(
    ("before", "after", "dimension"),
    [
        ((2, 0, 10), (3, 0, 20), "active_entries"),
        ((2, 2, 10), (2, 3, 20), "manifest_entries"),
        ((1, 0, 90), (2, 0, 101), "manifest_bytes"),
        ((1, 0, 101), (1, 0, 102), "manifest_bytes"),
    ],
)
def test_growth_beyond_a_limit_is_refused_by_name(before, after, dimension):
    budget = Budget(2, 4, 100)
    with pytest.raises(CapacityExceeded) as caught:
        refuse_growth(
            budget,
            before=Size(*before[:2]),
            after=Size(*after[:2]),
            bytes_before=before[2],
            bytes_after=after[2],
        )
    limit = {"active_entries": 2, "manifest_entries": 4, "manifest_bytes": 100}[dimension]
    observed = {"active_entries": after[0], "manifest_entries": sum(after[:2])}
    assert caught.value.details == {
        "dimension": dimension,
        "limit": limit,
        "observed": observed.get(dimension, after[2]),
    }


def test_a_memory_over_its_budget_may_still_shrink_and_stay():
    budget = Budget(1, 1, 10)
    refuse_growth(budget, before=Size(3, 1), after=Size(2, 2), bytes_before=99, bytes_after=99)
    refuse_growth(budget, before=Size(3, 1), after=Size(3, 1), bytes_before=99, bytes_after=98)
    assert exceeded(budget, Size(3, 1), 99) == (
        "active_entries",
        "manifest_entries",
        "manifest_bytes",
    )
    assert exceeded(budget, Size(1, 0), 10) == ()
