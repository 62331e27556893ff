"""A purged entry's text is nowhere any more; what is left of it says so, for ever."""

from pathlib import Path

import duckdb
import numpy as np
import pytest
from desk import rows

from pc_store.domain.entry import Draft
from pc_store.domain.refs import SourceRef
from pc_store.domain.text import digest
from pc_store.errors import EntryNotFound, EntryPurged, RevisionConflict, ScopeNotFound
from pc_store.ledger import terms, vectors, windows
from pc_store.search import building, shards
from pc_store.services import administer, find, index_build, remember
from pc_store.services.audit import audit
from pc_store.services.commit import commit_drafts
from pc_store.services.purge import purge
from pc_store.services.read_artifacts import read_artifact
from pc_store.services.read_memory import changes_since, page_entries, read_entry, trace_entry
from pc_store.services.replayable import Answer, once
from pc_store.settings import Settings

NOW = 1_700_000_000_000_000
WORD = "zanzibarian"
TEXT = f"The {WORD} customer pays in cents."


def add(db, text, **more):
    return remember.remember(db, "shop", kind="fact", text=text, now_us=NOW, **more).entry


def story(db):
    """An entry with two versions that hold the word, beside another; its id and citations."""
    one = add(db, TEXT, reason=f"{WORD} said so")
    two = remember.revise(
        db, "shop", one.citation, kind="fact", text=f"{TEXT} Always.", now_us=NOW
    ).entry
    add(db, "Something else.")
    return one.entry.entry_id, one.citation, two.citation


def gone(act):
    with pytest.raises(EntryPurged) as caught:
        act()
    assert (caught.value.code, caught.value.details["purged_at"]) == ("entry_purged", NOW + 1)


def test_no_table_holds_the_text_and_every_citation_says_that_it_is_gone(shop_db, tmp_path):
    entry_id, first, second = story(shop_db)
    assert WORD in str(rows(shop_db))
    done = purge(shop_db, "shop", entry_id, reason="asked to", now_us=NOW + 1)
    assert WORD not in str(rows(shop_db))
    assert (done.memory.revision, len(done.versions), done.purged_at) == (4, 2, NOW + 1)
    fresh = remember.list_changes(shop_db, "shop")[1][0]
    assert (fresh.op, fresh.reason) == ("deactivate", "asked to")
    for citation in (first, second):
        gone(lambda citation=citation: read_entry(shop_db, "shop", citation))
    gone(lambda: remember.cite(shop_db, "shop", entry_id))
    listed = page_entries(shop_db, "shop", include_inactive=True).entries
    assert [one.entry.text for one in listed] == ["Something else."]
    assert {item.entry.text for item in trace_entry(shop_db, "shop", entry_id)} == {""}
    assert all(finding.passed for finding in audit(shop_db, Settings()))


def test_ids_and_hashes_stay_and_revisions_read_as_before_but_for_reasons(shop_db, tmp_path):
    entry_id, *_ = story(shop_db)
    before = [read_artifact(shop_db, "shop", "memory", "memory", revision=n) for n in (1, 2, 3)]
    done = purge(shop_db, "shop", entry_id, now_us=NOW + 1)
    after = [read_artifact(shop_db, "shop", "memory", "memory", revision=n) for n in (1, 2, 3)]
    assert after[1:] == before[1:]
    assert after[0].content["manifest"] == before[0].content["manifest"]
    assert after[0].content["changes"][0]["reason"] is None
    hashes = [
        (entry["entry_version_id"], entry["entry_content_hash"])
        for one in before[:2]
        for entry in one.content["manifest"]["entries"]
    ]
    assert list(done.versions) == hashes


def test_purging_again_changes_nothing_and_a_retired_entry_needs_no_revision(shop_db, tmp_path):
    entry_id, *_ = story(shop_db)
    fresh = remember.cite(shop_db, "shop", entry_id).citation
    remember.retire(shop_db, "shop", fresh, now_us=NOW)
    first = purge(shop_db, "shop", entry_id, now_us=NOW + 1)
    assert first.memory.revision == 4
    add(shop_db, "One more.")
    second = purge(shop_db, "shop", entry_id, now_us=NOW + 2)
    assert (second.versions, second.purged_at) == (first.versions, first.purged_at)
    assert second.memory.revision == 5


def test_what_was_purged_cannot_be_written_to(shop_db, tmp_path):
    entry_id, _, second = story(shop_db)
    done = purge(shop_db, "shop", entry_id, now_us=NOW + 1)
    with pytest.raises(RevisionConflict) as caught:
        remember.retire(shop_db, "shop", second, now_us=NOW)
    [state, moved] = [caught.value.details[name] for name in ("state", "entry_changed")]
    assert (state, moved) == ("inactive", False)
    fresh = type(second)(done.memory, entry_id, second.entry_version_id)
    for act in (
        lambda: remember.retire(shop_db, "shop", fresh, now_us=NOW),
        lambda: remember.reactivate(shop_db, "shop", fresh, now_us=NOW),
        lambda: remember.revise(shop_db, "shop", fresh, kind="fact", text="Back.", now_us=NOW),
    ):
        gone(act)


def test_extraction_never_brings_a_purged_text_back_and_a_person_may(shop_db, tmp_path):
    entry_id, *_ = story(shop_db)
    purge(shop_db, "shop", entry_id, now_us=NOW + 1)
    draft = Draft("add", "fact", TEXT, (SourceRef("content", "s1"),))
    with shop_db.write() as conn:
        done = commit_drafts(conn, "shop", [draft], origin="extraction", now_us=NOW)
    assert [one.why for one in done.dropped] == ["equal to a retired entry"]
    again = add(shop_db, TEXT)
    assert again.entry.entry_id != entry_id
    assert (again.entry.version, again.entry.text) == (1, TEXT)


def words_on_disk(folder):
    """Whether some file of the index still holds the word, in any table, packed or not."""
    for path in folder.rglob("*"):
        if path.is_file() and WORD.encode() in path.read_bytes():
            return True
    for path in folder.rglob("*.duckdb"):
        with duckdb.connect(str(path), read_only=True) as connection:
            for (table,) in connection.execute(
                "SELECT schema_name || '.' || table_name FROM duckdb_tables()"
            ).fetchall():
                rows = connection.execute(f"SELECT * FROM {table}").fetchall()
                if WORD in str(rows):
                    return True
    return False


def test_search_forgets_it_at_once_and_its_files_with_the_next_build(shop_db, tmp_path):
    entry_id, *_ = story(shop_db)
    administer.create_scope(shop_db, "neighbour", now_us=NOW)
    for scope in ("shop", "neighbour"):
        remember.remember_batch(
            shop_db,
            scope,
            [remember.NewEntry("fact", f"Filler number {number}.") for number in range(100)],
            now_us=NOW,
        )
    store = Settings(index_dir=tmp_path, index_shards=1, embed_provider="none")

    def search(query, scope="shop"):
        return find.search(shop_db, store, scope, query, limit=3)

    def opened():
        shard = shards.open_current(tmp_path, 0, 1)
        assert shard is not None
        return shard

    assert index_build.build(shop_db, store, 0) is not None
    assert search(WORD).hits
    assert words_on_disk(tmp_path)
    before = opened()
    purge(shop_db, "shop", entry_id, now_us=NOW + 1)
    assert search(WORD).hits == ()
    assert len(search("filler").hits) == len(search("filler", "neighbour").hits) == 3
    assert opened() is before, "what is not erased is still found in the file"
    # a builder that had read the ledger before publishes only now
    with building.claim(tmp_path, 0) as work:
        assert work is not None
        work.begin("shop", "memory", **told(before.covered["shop", "memory"]))
        work.add([terms.TermsRow("mem_ent_x", "mem_ver_x", WORD, digest(WORD))], {})
        work.publish(shards_in_all=1, hnsw_min_rows=1_000)
    assert search(WORD).hits == ()
    assert words_on_disk(tmp_path)
    assert index_build.build(shop_db, store, 0) is not None, "an erasure makes a build due"
    assert not words_on_disk(tmp_path)
    assert search(WORD).hits == ()
    assert index_build.build(shop_db, store, 0) is None


def test_an_erasure_of_a_retired_entry_makes_a_build_due_as_well(shop_db, tmp_path):
    entry_id, *_ = story(shop_db)
    store = Settings(index_dir=tmp_path, index_shards=1, embed_provider="none")
    assert index_build.build(shop_db, store, 0) is not None
    remember.retire(shop_db, "shop", remember.cite(shop_db, "shop", entry_id).citation, now_us=NOW)
    purge(shop_db, "shop", entry_id, now_us=NOW + 1)
    assert find.search(shop_db, store, "shop", WORD).hits == ()
    assert index_build.build(shop_db, store, 0) is not None
    assert not words_on_disk(tmp_path)


def told(covered):
    return {"revision": covered.revision, "anchor": covered.anchor, "purges": covered.purges}


def test_embeddings_waiting_answers_and_kept_answers_go_too(shop_db, tmp_path):
    def act(joined):
        done = remember.remember(joined, "shop", kind="fact", text=TEXT, now_us=NOW)
        return Answer(200, {"id": done.entry.entry.entry_id, "text": TEXT})

    asked = {"principal": "", "route": "r", "key": "k", "body": 1, "act": act, "now_us": NOW}
    entry_id = once(shop_db, **asked).body["id"]
    unrelated = {"proposals": [{"text": "Unrelated.", "entry_id": None}]}
    with shop_db.write() as conn:
        vectors.put(
            conn, "p", {digest(TEXT): np.ones(2, np.float32), "other": np.ones(2, np.float32)}
        )
        for number, answer in enumerate(
            (
                {"proposals": [{"text": f" {TEXT}", "entry_id": None}]},
                {"proposals": [{"text": "Changed.", "entry_id": entry_id}]},
                unrelated,
            )
        ):
            windows.insert(
                conn,
                f"w{number}",
                "shop",
                "memory",
                after=0,
                through=1,
                high_watermark=1,
                kind="replay",
                now_us=NOW,
            )
            windows.put_draft(conn, f"w{number}", basis="b", answer=answer, now_us=NOW)
    purge(shop_db, "shop", entry_id, now_us=NOW + 1)
    assert WORD not in str(rows(shop_db))
    with shop_db.read() as conn:
        assert list(vectors.get(conn, "p", [digest(TEXT), "other"])) == ["other"]
        assert windows.drafts_of(conn, "shop") == {"w2": unrelated}
    kept = once(shop_db, **asked)
    assert (kept.status, kept.replayed) == (410, True)
    assert kept.body["error"]["code"] == "entry_purged"


def test_the_file_of_a_sqlite_ledger_does_not_hold_the_text_either(shop_db, tmp_path):
    if not shop_db.is_sqlite:
        pytest.skip("PostgreSQL keeps dead rows until its vacuum")
    for number in range(60):
        add(shop_db, f"Filler {number}. " + "x" * 400)
    entry_id = add(shop_db, f"{TEXT} " + "y" * 6_000).entry.entry_id
    for number in range(60):
        add(shop_db, f"Filler {number}. " + "z" * 400)
    path = Path(shop_db.engine.url.database)
    files = [path, Path(f"{path}-wal")]
    assert any(WORD.encode() in file.read_bytes() for file in files)
    purge(shop_db, "shop", entry_id, now_us=NOW + 1)
    assert not any(WORD.encode() in file.read_bytes() for file in files)


def test_what_is_not_there_is_named(shop_db, tmp_path):
    with pytest.raises(EntryNotFound):
        purge(shop_db, "shop", "mem_ent_none", now_us=NOW)
    with pytest.raises(ScopeNotFound):
        purge(shop_db, "none", "mem_ent_none", now_us=NOW)
    assert changes_since(shop_db, "shop") == (None, [])
