"""Reading a memory: pages, changes, histories, comparisons, and its size against its budget."""

import pytest

from pc_store.domain import strict_json
from pc_store.domain.capacity import Budget
from pc_store.errors import (
    ArtifactNotFound,
    CapacityExceeded,
    EntryNotFound,
    InvalidInput,
    ScopeNotFound,
    SecretDetected,
)
from pc_store.services import remember
from pc_store.services.read_artifacts import read_artifact
from pc_store.services.read_memory import (
    changes_since,
    compare_revisions,
    page_entries,
    read_capacity,
    read_entry,
    trace_entry,
)
from pc_store.services.remember import NewEntry, remember_batch

NOW = 1_700_000_000_000_000
KEY = "AKIA" + "ABCDEFGHIJKLMNOP"


def add(db, text, *, at=0, **more):
    done = remember.remember(db, "shop", kind="fact", text=text, now_us=NOW + at, **more)
    return done.entry


def batch(db, *texts, **more):
    return remember_batch(
        db, "shop", [NewEntry("fact", text) for text in texts], now_us=NOW, **more
    )


def story(db):
    """One entry that is added, revised, retired and reactivated, beside another; its id."""
    one = add(db, "One.", at=1_000, reason="first")
    add(db, "Two.", at=2_000)
    for at, act, more in (
        (3_000, remember.revise, {"kind": "rule", "text": "One, revised.", "reason": "better"}),
        (4_000, remember.retire, {"reason": "over"}),
        (5_000, remember.reactivate, {}),
    ):
        fresh = remember.cite(db, "shop", one.entry.entry_id).citation
        act(db, "shop", fresh, **more, now_us=NOW + at)
    return one.entry.entry_id


def test_a_batch_is_one_revision_with_an_answer_per_item(shop_db):
    add(shop_db, "Known.")
    done = batch(shop_db, "A.", " A. ", "Known.", "B.")
    assert done.memory.revision == 2
    assert [one and one.entry.text for one in done.entries] == ["A.", None, None, "B."]
    assert {one.citation.memory.revision for one in done.entries if one} == {2}
    for one in done.entries:
        if one:
            assert read_entry(shop_db, "shop", one.citation).entry == one.entry
    again = batch(shop_db, "A.", "B.")
    assert (again.memory.revision, again.entries) == (2, (None, None))


def test_a_batch_with_a_bad_item_writes_nothing_and_names_it(shop_db):
    for item, field, error in (
        (NewEntry("fact", " "), "entries[1].text", InvalidInput),
        (NewEntry("", "x"), "entries[1].kind", InvalidInput),
        (NewEntry("fact", KEY), "entries[1].text", SecretDetected),
    ):
        with pytest.raises(error) as caught:
            remember_batch(shop_db, "shop", [NewEntry("fact", "A."), item], now_us=NOW)
        assert (type(caught.value), caught.value.field) == (error, field)
        assert caught.value.details["field"] == field
        assert KEY not in str(caught.value)
    for count in (0, 101):
        with pytest.raises(InvalidInput):
            batch(shop_db, *map(str, range(count)))
    assert page_entries(shop_db, "shop").memory is None
    assert batch(shop_db, *map(str, range(100))).memory.revision == 1


def test_pages_cover_every_entry_once_in_order(shop_db):
    batch(shop_db, *(f"Entry {number:02}." for number in range(7)))
    seen, after = [], None
    while True:
        page = page_entries(shop_db, "shop", after=after, limit=3)
        seen += [one.entry.text for one in page.entries]
        after = page.next_after
        if after is None:
            break
    assert seen == [f"Entry {number:02}." for number in range(7)]
    assert page_entries(shop_db, "shop").next_after is None
    assert page_entries(shop_db, "shop", kind="rule").entries == ()
    for limit in (0, 101):
        with pytest.raises(InvalidInput):
            page_entries(shop_db, "shop", limit=limit)
    with pytest.raises(ScopeNotFound):
        page_entries(shop_db, "none")


def test_extras_say_why_and_when(shop_db):
    entry_id = story(shop_db)
    [one, two] = page_entries(shop_db, "shop", extras=True).entries
    assert (one.citation.entry_id, one.reason, one.updated_at) == (entry_id, None, NOW + 5_000)
    assert (two.reason, two.updated_at, two.entry.created_at) == (None, NOW + 2_000, NOW + 2_000)
    old = remember.cite(shop_db, "shop", entry_id, revision=4).citation
    read = read_entry(shop_db, "shop", old, extras=True)
    assert (read.entry.state, read.reason, read.updated_at) == ("inactive", "over", NOW + 4_000)


def test_changes_are_the_heads_or_those_since_a_revision(shop_db):
    assert changes_since(shop_db, "shop", since_revision=7) == (None, [])
    entry_id = story(shop_db)

    def ops(since):
        memory, revisions = changes_since(shop_db, "shop", since_revision=since)
        assert memory.revision == 5
        return [(one.memory.revision, [c.op for c in one.changes]) for one in revisions]

    assert ops(None) == [(5, ["reactivate"])]
    assert ops(5) == []
    assert ops(0) == [
        (1, ["add"]),
        (2, ["add"]),
        (3, ["revise"]),
        (4, ["deactivate"]),
        (5, ["reactivate"]),
    ]
    _, revisions = changes_since(shop_db, "shop", since_revision=2)
    revise, deactivate, reactivate = (one.changes[0] for one in revisions)
    assert revise.entry_id == entry_id
    assert revise.from_entry_version_id != revise.to_entry_version_id
    for change in (deactivate, reactivate):
        assert change.from_entry_version_id == revise.to_entry_version_id
        assert change.to_entry_version_id is None
    for wrong in (-1, 6):
        with pytest.raises(InvalidInput):
            ops(wrong)


def test_the_trace_of_an_entry_tells_every_change(shop_db):
    entry_id = story(shop_db)
    assert [
        (item.memory.revision, item.op, item.entry.kind, item.entry.text, item.entry.state)
        for item in trace_entry(shop_db, "shop", entry_id)
    ] == [
        (1, "add", "fact", "One.", "active"),
        (3, "revise", "rule", "One, revised.", "active"),
        (4, "deactivate", "rule", "One, revised.", "inactive"),
        (5, "reactivate", "rule", "One, revised.", "active"),
    ]
    assert [item.reason for item in trace_entry(shop_db, "shop", entry_id)] == [
        "first",
        "better",
        "over",
        None,
    ]
    with pytest.raises(EntryNotFound):
        trace_entry(shop_db, "shop", "mem_ent_none")


def test_two_revisions_differ_by_what_is_not_the_same_in_both(shop_db):
    entry_id = story(shop_db)

    def differing(before, after):
        return [
            (one.before and one.before.text, one.after and (one.after.text, one.after.state))
            for one in compare_revisions(shop_db, "shop", before=before, after=after)
        ]

    assert differing(0, 2) == [(None, ("One.", "active")), (None, ("Two.", "active"))]
    assert differing(1, 4) == [
        ("One.", ("One, revised.", "inactive")),
        (None, ("Two.", "active")),
    ]
    assert differing(3, 5) == []
    assert differing(2, 2) == []
    assert compare_revisions(shop_db, "shop", before=2, after=3)[0].entry_id == entry_id
    for before, after, error in ((0, 6, ArtifactNotFound), (3, 2, InvalidInput)):
        with pytest.raises(error):
            differing(before, after)


def test_capacity_measures_the_canonical_content(shop_db):
    with pytest.raises(ArtifactNotFound):
        read_capacity(shop_db, "shop", budget=Budget())
    entry_id = story(shop_db)
    remember.retire(shop_db, "shop", remember.cite(shop_db, "shop", entry_id).citation, now_us=NOW)
    found = read_capacity(shop_db, "shop", budget=Budget(1, 1, 2_000))
    content = read_artifact(shop_db, "shop", "memory", "memory").content
    assert found.manifest_bytes == len(strict_json.canonical(content))
    assert (found.active_entry_count, found.manifest_entry_count) == (1, 2)
    assert (found.exceeded, found.compactable_entry_count) == (("manifest_entries",), 0)


def test_a_write_that_outgrows_the_budget_is_refused_whole(shop_db):
    budget = Budget(max_active_entries=2)
    kept = batch(shop_db, "A.", "B.", budget=budget)
    for act in (
        lambda: add(shop_db, "C.", budget=budget),
        lambda: batch(shop_db, "A.", "C.", budget=budget),
    ):
        with pytest.raises(CapacityExceeded) as caught:
            act()
        assert caught.value.details == {"dimension": "active_entries", "limit": 2, "observed": 3}
    assert page_entries(shop_db, "shop").memory == kept.memory
    retired = remember.retire(shop_db, "shop", kept.entries[0].citation, now_us=NOW)
    assert add(shop_db, "C.", budget=budget) is not None
    fresh = remember.cite(shop_db, "shop", retired.entry.entry.entry_id).citation
    with pytest.raises(CapacityExceeded):
        remember.reactivate(shop_db, "shop", fresh, budget=budget, now_us=NOW)


def test_over_its_bytes_a_memory_may_be_retired_from_but_not_grow(shop_db):
    kept = batch(shop_db, "A.", "B.")
    small = Budget(max_manifest_bytes=1_024)
    with pytest.raises(CapacityExceeded) as caught:
        add(shop_db, "C.", budget=small, reason="r" * 500)
    assert caught.value.details["dimension"] == "manifest_bytes"
    assert (
        remember.retire(shop_db, "shop", kept.entries[0].citation, now_us=NOW).memory.revision == 2
    )
