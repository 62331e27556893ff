"""By which rules drafts become changes: what is new, seen again, retired, merged or dropped."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pc_store.domain.entry import Change, Draft, Dropped, EntryVersion, content_hash, plan_changes
from pc_store.domain.refs import ArtifactRef, SourceRef
from pc_store.domain.text import digest

S1, S2, S3 = (SourceRef("content", f"s{number}") for number in (1, 2, 3))
MANY = tuple(SourceRef("content", f"s{number:03}") for number in range(40))
BLUE = EntryVersion("e1", "v1", 1, "fact", "blue", source_refs=(S1,))
RED = EntryVersion("e2", "v2", 1, "fact", "red", source_refs=(S2,))
RETIRED = replace(BLUE, state="inactive")


def plan(entries, *drafts, extracted=True):
    alike = {}
    for entry in entries:
        alike.setdefault(digest(entry.text), []).append(entry)
    return plan_changes(
        drafts,
        targets={entry.entry_id: entry for entry in entries if entry.state == "active"},
        alike=alike,
        extracted=extracted,
    )


def add(text, *sources, kind="fact", reason=None):
    return Draft("add", kind, text, sources, reason=reason)


def revise(entry_id, text, *sources, kind="fact", reason=None):
    return Draft("revise", kind, text, sources, entry_id, reason)


def added(text, *sources, kind="fact", reason=None):
    return Change("add", None, kind, text, sources, reason)


@pytest.mark.parametrize("extracted", [True, False])
def test_a_new_text_is_added_with_its_evidence_and_reason(extracted):
    planned = plan([BLUE], add("green", S1, reason="why"), extracted=extracted)
    assert planned.changes == [added("green", S1, reason="why")]
    assert planned.dropped == []


def test_evidence_is_kept_once_each_and_sorted_however_it_was_cited():
    assert plan([], add("green", S2, S1, S2)).changes == [added("green", S1, S2)]


def test_a_text_seen_again_in_another_source_gives_its_evidence_to_the_entry():
    planned = plan([BLUE], add("blue", S3, S2))
    assert planned.changes == [Change("revise", BLUE, "fact", "blue", (S1, S2, S3), "seen again")]
    assert planned.dropped == []


def test_a_text_seen_again_in_the_same_source_changes_nothing():
    draft = add("blue", S1)
    planned = plan([BLUE], draft)
    assert (planned.changes, planned.dropped) == ([], [Dropped(draft, "already known")])


def test_an_explicit_write_of_a_known_text_changes_nothing_whatever_its_evidence():
    draft = add("blue", S2)
    planned = plan([BLUE], draft, extracted=False)
    assert (planned.changes, planned.dropped) == ([], [Dropped(draft, "already known")])


@pytest.mark.parametrize("extracted", [True, False])
def test_the_same_text_of_another_kind_is_another_entry(extracted):
    planned = plan([BLUE], add("blue", S2, kind="decision"), extracted=extracted)
    assert planned.changes == [added("blue", S2, kind="decision")]


def test_a_retired_text_stays_retired_when_a_program_proposes_it():
    for draft in (add("blue", S2), add("blue", S2, kind="decision"), revise("e2", "blue", S3)):
        planned = plan([RETIRED, RED], draft)
        assert planned.changes == []
        assert planned.dropped == [Dropped(draft, "equal to a retired entry")]


def test_a_retired_text_comes_back_as_a_new_entry_when_a_person_writes_it():
    assert plan([RETIRED], add("blue"), extracted=False).changes == [added("blue")]
    assert plan([RETIRED, RED], revise("e2", "blue"), extracted=False).changes == [
        Change("revise", RED, "fact", "blue", (S2,))
    ]


def test_a_text_retired_once_and_written_again_by_a_person_is_seen_again_like_any_other():
    again = replace(BLUE, entry_id="e3", entry_version_id="v3")
    assert plan([RETIRED, again], add("blue", S2)).changes == [
        Change("revise", again, "fact", "blue", (S1, S2), "seen again")
    ]


def test_a_retired_kind_of_a_text_stays_retired_though_another_kind_of_it_is_active():
    other = replace(RED, text="blue", kind="decision")
    draft = add("blue", S3)
    assert plan([RETIRED, other], draft).dropped == [Dropped(draft, "equal to a retired entry")]
    assert plan([RETIRED, other], add("blue", S3, kind="constraint")).changes == [
        added("blue", S3, kind="constraint")
    ]


def test_a_text_that_a_revision_gives_up_does_not_count_as_active():
    holder = replace(RED, text="blue")
    draft = add("blue", S3)
    planned = plan([RETIRED, holder], draft, revise("e2", "grey"))
    assert planned.changes == [Change("revise", holder, "fact", "grey", (S2,))]
    assert planned.dropped == [Dropped(draft, "equal to a retired entry")]


def test_additions_of_one_batch_with_the_same_text_become_one_with_the_evidence_of_all():
    first, second = add("green", S3, reason="first"), add("green", S1, S3, reason="second")
    planned = plan([], first, second)
    assert planned.changes == [added("green", S1, S3, reason="first")]
    assert planned.dropped == [Dropped(second, "already known")]


def test_texts_seen_again_twice_in_one_batch_make_one_change():
    planned = plan([BLUE], add("blue", S2), add("blue", S3))
    assert planned.changes == [Change("revise", BLUE, "fact", "blue", (S1, S2, S3), "seen again")]


def test_an_addition_equal_to_a_revision_of_the_batch_gives_it_its_evidence_in_either_order():
    revision, addition = revise("e1", "navy", S2, reason="darker"), add("navy", S3)
    for drafts in ((revision, addition), (addition, revision)):
        planned = plan([BLUE], *drafts)
        assert planned.changes == [Change("revise", BLUE, "fact", "navy", (S1, S2, S3), "darker")]
        assert planned.dropped == [Dropped(addition, "already known")]


def test_revisions_come_before_additions_each_in_the_order_of_the_drafts():
    planned = plan([BLUE, RED], add("b"), revise("e2", "r"), add("a"), revise("e1", "q"))
    assert [change.text for change in planned.changes] == ["r", "q", "b", "a"]


@pytest.mark.parametrize("extracted", [True, False])
@pytest.mark.parametrize("sources", [(), (S1,)])
def test_a_revision_that_says_nothing_new_changes_nothing(extracted, sources):
    draft = revise("e1", "blue", *sources, reason="because")
    planned = plan([BLUE], draft, extracted=extracted)
    assert (planned.changes, planned.dropped) == ([], [Dropped(draft, "unchanged")])


def test_a_revision_with_new_evidence_only_is_a_new_version_that_cites_all_of_it():
    assert plan([BLUE], revise("e1", "blue", S3, reason="again")).changes == [
        Change("revise", BLUE, "fact", "blue", (S1, S3), "again")
    ]


@pytest.mark.parametrize(("text", "kind"), [("navy", "fact"), ("blue", "decision")])
def test_a_revision_with_a_new_text_or_kind_cites_the_old_and_the_new_evidence(text, kind):
    assert plan([BLUE], revise("e1", text, S2, kind=kind)).changes == [
        Change("revise", BLUE, kind, text, (S1, S2))
    ]


def test_a_revision_to_the_text_of_another_active_entry_is_allowed():
    assert plan([BLUE, RED], revise("e2", "blue")).changes == [
        Change("revise", RED, "fact", "blue", (S2,))
    ]


def test_an_entry_cites_32_sources_at_most_however_often_it_is_seen():
    full = replace(BLUE, source_refs=MANY[:32])
    nearly = replace(BLUE, source_refs=MANY[:31])
    draft = add("blue", MANY[39])
    assert plan([full], draft).dropped == [Dropped(draft, "already known")]
    again = revise("e1", "blue", MANY[39])
    assert plan([full], again).dropped == [Dropped(again, "unchanged")]
    [change] = plan([nearly], add("blue", MANY[39], MANY[38])).changes
    assert change.sources == (*MANY[:31], MANY[39])
    [change] = plan([], add("green", *MANY[:20]), add("green", *MANY[20:])).changes
    assert change.sources == MANY[:32]


def test_a_new_text_cites_its_own_evidence_before_that_of_the_text_it_replaces():
    full = replace(BLUE, source_refs=MANY[:32])
    [change] = plan([full], revise("e1", "navy", *MANY[36:])).changes
    assert change.sources == (*MANY[:28], *MANY[36:])


def test_an_entry_hash_is_that_of_the_published_form():
    assert (
        content_hash("fact", "blue", [S1], [ArtifactRef("memory", "memory", 2)])
        == "010c117478e07b1a6ac3c259508233eab01d7855c370f926a5c85bf45182cbd0"
    )


TEXTS = st.sampled_from(["a", "b", "c"])
KINDS = st.sampled_from(["fact", "decision"])
EVIDENCE = st.builds(
    lambda start, count: MANY[start : start + count], st.integers(0, 39), st.integers(0, 32)
)
ENTRIES = st.lists(
    st.tuples(TEXTS, KINDS, EVIDENCE, st.sampled_from(["active", "active", "inactive"])), max_size=5
).map(
    lambda rows: [
        EntryVersion(f"e{n}", f"v{n}", 1, kind, text, state, sources)
        for n, (text, kind, sources, state) in enumerate(rows)
    ]
)


@st.composite
def batches(draw):
    entries = draw(ENTRIES)
    active = [entry.entry_id for entry in entries if entry.state == "active"]
    revised = draw(st.permutations(active))[: draw(st.integers(0, len(active)))]
    drafts = [
        Draft("revise", draw(KINDS), draw(TEXTS), draw(EVIDENCE), entry_id) for entry_id in revised
    ]
    added_drafts = draw(st.lists(st.builds(Draft, st.just("add"), KINDS, TEXTS, EVIDENCE)))
    return entries, draw(st.permutations([*drafts, *added_drafts]))


def applied(entries, changes):
    current = {entry.entry_id: entry for entry in entries}
    for change in changes:
        entry_id = change.before.entry_id if change.before else f"n{len(current)}"
        current[entry_id] = EntryVersion(
            entry_id, "", 1, change.kind, change.text, "active", change.sources
        )
    return [current[entry_id] for entry_id in sorted(current)]


@given(batches(), st.booleans())
def test_no_entry_is_changed_twice_and_its_evidence_is_sorted_unique_and_bounded(batch, extracted):
    entries, drafts = batch
    changes = plan(entries, *drafts, extracted=extracted).changes
    targets = [change.before.entry_id for change in changes if change.before]
    new = [(change.kind, change.text) for change in changes if change.before is None]
    assert len(set(targets)) == len(targets)
    assert len(set(new)) == len(new)
    for change in changes:
        assert list(change.sources) == sorted(set(change.sources))
        assert len(change.sources) <= 32


@given(batches(), st.booleans())
def test_the_same_drafts_applied_again_change_nothing(batch, extracted):
    entries, drafts = batch
    after = applied(entries, plan(entries, *drafts, extracted=extracted).changes)
    assert plan(after, *drafts, extracted=extracted).changes == []


@given(batches())
def test_a_program_brings_no_text_back_that_is_only_known_as_retired(batch):
    entries, drafts = batch
    active = {entry.text for entry in entries if entry.state == "active"}
    retired = {entry.text for entry in entries} - active
    after = applied(entries, plan(entries, *drafts).changes)
    assert retired.isdisjoint(entry.text for entry in after if entry.state == "active")


@given(batches())
def test_what_a_program_proposed_is_known_afterwards_with_its_evidence_or_was_retired(batch):
    entries, drafts = batch
    planned = plan(entries, *drafts)
    refused = [item.draft for item in planned.dropped if item.why == "equal to a retired entry"]
    after = applied(entries, planned.changes)
    for draft in drafts:
        if draft in refused:
            continue
        alike = [
            entry
            for entry in after
            if (entry.kind, entry.text, entry.state) == (draft.kind, draft.text, "active")
        ]
        assert any(
            set(draft.sources) <= set(entry.source_refs) or len(entry.source_refs) == 32
            for entry in alike
        )


@given(batches(), st.booleans())
def test_no_evidence_of_a_text_that_stays_is_lost(batch, extracted):
    entries, drafts = batch
    for change in plan(entries, *drafts, extracted=extracted).changes:
        if change.before and (change.before.kind, change.before.text) == (change.kind, change.text):
            assert set(change.before.source_refs) <= set(change.sources)
