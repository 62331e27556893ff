"""Artifacts read revision by revision: content, lineage and digest are the same for ever."""

import pytest

from pc_store.domain.refs import ArtifactRef
from pc_store.domain.revision import content_digest
from pc_store.errors import ArtifactNotFound, InvalidInput, ScopeNotFound
from pc_store.services import instruct, remember
from pc_store.services.read_artifacts import list_artifacts, list_revisions, read_artifact

NOW = 1_700_000_000_000_000


def write(db):
    """Ten revisions of every kind of change; what each read as right after it was made."""
    ids, seen = [], []

    def note():
        seen.append(read_artifact(db, "shop", "memory", "memory"))

    for number in range(4):
        done = remember.remember(db, "shop", kind="fact", text=f"Fact {number}.", now_us=NOW)
        ids.append(done.entry.entry.entry_id)
        note()
    for entry_id in (ids[2], ids[0]):
        for act, more in (
            (remember.revise, {"kind": "fact", "text": f"New {entry_id}.", "reason": "because"}),
            (remember.retire, {}),
            (remember.reactivate, {}),
        ):
            fresh = remember.cite(db, "shop", entry_id).citation
            act(db, "shop", fresh, **more, now_us=NOW)
            note()
    return seen


def test_every_revision_reads_as_it_did_when_it_was_made(shop_db):
    seen = write(shop_db)
    assert [one.ref.revision for one in seen] == list(range(1, 11))
    for one in seen:
        again = read_artifact(shop_db, "shop", "memory", "memory", revision=one.ref.revision)
        assert again == one
        entries = one.content["manifest"]["entries"]
        assert entries == sorted(entries, key=lambda entry: entry["entry_id"])
        assert one.content_digest == content_digest(one.content)
    assert set(seen[0].content) == {"schema", "manifest", "changes"}
    assert seen[0].content["schema"] == "powercontext.memory.v1"
    assert seen[4].content["changes"][0]["reason"] == "because"


def test_pages_of_revisions_run_backwards_with_the_same_digests(shop_db):
    seen = write(shop_db)
    found, after = [], None
    while True:
        page = list_revisions(shop_db, "shop", "memory", "memory", after=after, limit=3)
        found += page.items
        after = page.next_after
        if after is None:
            break
    assert [one.ref.revision for one in found] == list(range(10, 0, -1))
    assert [one.content_digest for one in found[::-1]] == [one.content_digest for one in seen]


def test_a_collection_lists_heads_that_have_a_revision(shop_db):
    assert list_artifacts(shop_db, "shop", "memory", limit=1).items == ()
    last = write(shop_db)[-1]
    [item] = list_artifacts(shop_db, "shop", "memory", limit=1).items
    assert (item.ref, item.content_digest) == (last.ref, last.content_digest)
    assert list_artifacts(shop_db, "shop", "prompt", limit=1).items == ()
    instruct.set_prompt(shop_db, "shop", "memory.extract", "Keep facts.", now_us=NOW)
    [item] = list_artifacts(shop_db, "shop", "prompt", limit=1).items
    assert item.ref == ArtifactRef("prompt", "memory.extract", 1)
    read = read_artifact(shop_db, "shop", "prompt", "memory.extract", revision=1)
    assert read.content["text"] == "Keep facts."
    [revision] = list_revisions(shop_db, "shop", "prompt", "memory.extract", limit=5).items
    assert revision.content_digest == read.content_digest == content_digest(read.content)


def test_what_is_not_there_is_named(shop_db):
    write(shop_db)
    for asked in (("memory", "memory", 11), ("memory", "other", None), ("prompt", "x", 1)):
        with pytest.raises(ArtifactNotFound):
            read_artifact(shop_db, "shop", *asked[:2], revision=asked[2])
    with pytest.raises(ArtifactNotFound):
        list_revisions(shop_db, "shop", "memory", "other", limit=1)
    with pytest.raises(ScopeNotFound):
        list_artifacts(shop_db, "none", "memory", limit=1)
    for act in (
        lambda: list_artifacts(shop_db, "shop", "skill", limit=1),
        lambda: read_artifact(shop_db, "shop", "bogus", "x"),
        lambda: list_revisions(shop_db, "shop", "memory", "memory", limit=0),
    ):
        with pytest.raises(InvalidInput):
            act()
