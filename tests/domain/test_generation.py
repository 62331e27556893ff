"""Names of generations, and which of their drafts a memory can still take."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pc_store.domain.entry import Draft, EntryVersion
from pc_store.domain.generation import KeptDraft, applicable, checked_name
from pc_store.domain.refs import SourceRef
from pc_store.errors import InvalidInput

NOW = {
    "moved": EntryVersion("moved", "v2", 2, "fact", "Moved."),
    "gone": EntryVersion("gone", "v1", 1, "fact", "Gone.", "inactive"),
    "here": EntryVersion("here", "v1", 1, "fact", "Here."),
    "there": EntryVersion("there", "v1", 1, "fact", "There."),
}
_DRAFTS = st.builds(
    lambda entry_id, text, source: KeptDraft(
        Draft(
            "add" if entry_id is None else "revise",
            "fact",
            text,
            (SourceRef("content", source),),
            entry_id,
        ),
        against=entry_id and "v1",
    ),
    st.sampled_from([None, *NOW]),
    st.sampled_from(["Here.", "There.", "One.", "Two."]),
    st.sampled_from(["s1", "s2", "s3"]),
)


@pytest.mark.parametrize("name", ["", ".", "a b", "a/b", "-a", "x" * 65, "ä", "a\n", "a\0"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(InvalidInput) as caught:
        checked_name(name)
    assert caught.value.field == "generation"


@pytest.mark.parametrize("name", ["a", "7", "prompt-2.1_b", "x" * 64])
def test_a_name_is_taken_as_it_is(name):
    assert checked_name(name) == name


@given(st.lists(_DRAFTS, max_size=8))
def test_what_is_applied_fits_the_memory_and_nothing_new_is_lost(kept):
    drafts, left_out = applicable(kept, NOW)
    revised = [draft.entry_id for draft in drafts if draft.entry_id]
    assert len(revised) == len(set(revised))
    assert set(revised) <= {"here", "there"}
    offered = [item.draft for item in kept]
    assert [one for one in drafts if one.entry_id is None] == [
        one for one in offered if one.entry_id is None
    ]
    for entry_id in ("here", "there"):
        of_it = [one for one in offered if one.entry_id == entry_id]
        changing = [one for one in of_it if one.text != NOW[entry_id].text]
        (applied,) = [one for one in drafts if one.entry_id == entry_id] or [None]
        if changing:
            assert applied == changing[-1]
        elif of_it:
            assert set(applied.sources) == {ref for one in of_it for ref in one.sources}
    whys = {item.why for item in left_out if item.draft.entry_id in ("moved", "gone")}
    assert whys <= {"changed since it was shown", "retired since it was shown"}
    assert len([one for one in left_out if one.draft.entry_id in ("moved", "gone")]) == len(
        [one for one in offered if one.entry_id in ("moved", "gone")]
    )
