"""The log of recalls: nobody waits for it, what it cannot keep is lost aloud, and it forgets."""

import logging
import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

from pc_store.domain.entry import Draft
from pc_store.domain.refs import SourceRef, new_id
from pc_store.domain.source import new_source
from pc_store.errors import ScopeNotFound
from pc_store.ledger import recall_log
from pc_store.ledger.database import open_database
from pc_store.services import administer, capture, recalls, remember
from pc_store.services.commit import commit_drafts
from pc_store.services.find import SearchResult
from pc_store.services.prepare import prepare_context
from pc_store.services.recalls import RecallLog, forget_recalls, list_recalls
from pc_store.settings import Settings

NOW = 1_700_000_000_000_000
DAY = 86_400_000_000


@pytest.fixture
def keep(shop_db):
    """A log that keeps, closed at the end."""
    log = RecallLog(shop_db, days=30)
    yield log
    log.close()


def note(query="amounts", scope_id="shop"):
    result = SearchResult(memory=None, mode=None, hits=())
    return recalls.searched(scope_id, query, result, started_us=0)


@contextmanager
def held(db):
    """Nobody else can write to the log."""
    with db.write() as conn:
        if not db.is_sqlite:
            conn.exec_driver_sql("LOCK TABLE recalls IN ACCESS EXCLUSIVE MODE")
        yield


def impatient(new_database):
    """A ledger with the scope `shop` whose writers give up soon."""
    db = open_database(new_database(), wait_s=0.2)
    administer.create_scope(db, "shop", now_us=NOW)
    return db


def _extracted(db, text, *source_ids):
    """An entry made from sources."""
    refs = tuple(SourceRef("content", name) for name in source_ids)
    draft = Draft("add", "fact", text, refs)
    with db.write() as conn:
        commit_drafts(conn, "shop", [draft], origin="extraction", now_us=NOW)


def logged(db, count, scope_id="shop"):
    until = time.monotonic() + 20
    while True:
        rows = list_recalls(db, scope_id, limit=5_000)
        if len(rows) >= count or time.monotonic() > until:
            return rows
        time.sleep(0.02)


def test_notes_become_rows_newest_first(shop_db, keep):
    ids = [keep.note(note(str(number))) for number in range(700)]
    rows = logged(shop_db, 700)
    assert [row.recall_id for row in rows] == sorted(ids, reverse=True)
    page = list_recalls(shop_db, "shop", before=rows[2].recall_id, limit=2)
    assert page == rows[3:5]
    with pytest.raises(ScopeNotFound):
        list_recalls(shop_db, "nowhere", limit=1)


def test_closing_writes_what_waits_and_ends_it(shop_db):
    log = RecallLog(shop_db, days=30)
    for number in range(1_200):
        log.note(note(str(number)))
    log.close()
    assert len(list_recalls(shop_db, "shop", limit=5_000)) == 1_200
    assert log.note(note()) is None
    RecallLog(shop_db, days=30).close()  # one that never wrote


def test_without_days_there_is_no_log(shop_db):
    log = RecallLog(shop_db, days=0)
    assert log.note(note()) is None
    log.close()
    assert list_recalls(shop_db, "shop", limit=1) == []


def test_a_full_queue_loses_notes_and_says_how_many(shop_db, keep, caplog):
    with held(shop_db), caplog.at_level(logging.WARNING, "pc_store.services.recalls"):
        started = time.monotonic()
        ids = [keep.note(note()) for _ in range(recalls.WAITING_MAX + 800)]
        assert time.monotonic() - started < 5
    kept = [one for one in ids if one is not None]
    assert recalls.WAITING_MAX <= len(kept) < len(ids)
    assert len(logged(shop_db, len(kept))) == len(kept)
    keep.close()
    lost = [record.args[0] for record in caplog.records if "too many waited" in record.message]
    assert sum(lost) == len(ids) - len(kept)


def test_a_busy_ledger_is_tried_again(new_database):
    db = impatient(new_database)
    log = RecallLog(db, days=30)
    with held(db):
        log.note(note())
        time.sleep(1.2)
    assert len(logged(db, 1)) == 1
    log.close()
    db.close()


def test_a_ledger_that_stays_busy_loses_the_notes_aloud(new_database, caplog):
    db = impatient(new_database)
    log = RecallLog(db, days=30)
    with held(db), caplog.at_level(logging.WARNING, "pc_store.services.recalls"):
        log.note(note())
        log.close()
    assert [record.message for record in caplog.records] == ["1 recalls were not logged: StoreBusy"]
    assert list_recalls(db, "shop", limit=1) == []
    db.close()


def test_many_threads_note_at_once(shop_db, keep):
    def work():
        for number in range(50):
            keep.note(note(str(number)))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(logged(shop_db, 300)) == 300


def test_old_recalls_are_dropped_and_young_ones_stay(shop_db):
    some = note().recall
    with shop_db.write() as conn:
        for age_days in (0, 1, 29, 31, 400):
            at = NOW - age_days * DAY
            row = replace(some, recall_id=new_id("rcl_", at_us=at), recalled_at=at)
            recall_log.insert(conn, [row])
        old = NOW - 90 * DAY
        recall_log.insert(
            conn,
            [
                replace(some, recall_id=new_id("rcl_", at_us=old, ordinal=n), recalled_at=old)
                for n in range(2_100)
            ],
        )
    assert forget_recalls(shop_db, days=30, now_us=NOW) == 2_102
    left = list_recalls(shop_db, "shop", limit=10)
    assert [(NOW - row.recalled_at) // DAY for row in left] == [0, 1, 29]
    assert forget_recalls(shop_db, days=0, now_us=NOW + 1) == 3


def test_the_log_forgets_by_itself(shop_db, keep):
    old = note().recall
    at = old.recalled_at - 31 * DAY
    with shop_db.write() as conn:
        row = replace(old, recall_id=new_id("rcl_", at_us=at), recalled_at=at)
        recall_log.insert(conn, [row])
    new = keep.note(note())
    until = time.monotonic() + 20
    while time.monotonic() < until:
        left = [row.recall_id for row in list_recalls(shop_db, "shop", limit=9)]
        if left == [new]:
            break
        time.sleep(0.02)
    assert left == [new]


def test_preparations_are_counted_by_scope_and_day(shop_db):
    base = replace(note().recall, surface="prepare_context")
    rows = [
        (NOW, 900, 225, 1_000),
        (NOW + 1, 700, 175, None),
        (NOW + 2, 0, None, None),
        (NOW - 2 * DAY, 400, 100, 50),
        (NOW - 40 * DAY, 400, 100, 50),
    ]
    with shop_db.write() as conn:
        recall_log.insert(conn, [replace(base, recall_id="rcl_x", surface="search")])
        for number, (at, size, tokens, baseline) in enumerate(rows):
            row = replace(base, recall_id=f"rcl_{number}", recalled_at=at, content_bytes=size)
            row = replace(row, tokens=tokens, baseline_tokens=baseline)
            recall_log.insert(conn, [row])
    with shop_db.read() as conn:
        found = recall_log.preparations(conn, ["shop", "other"], since_us=NOW - 30 * DAY)
    assert found.keys() == {"shop"}
    counts = [
        (one.total, one.ready, one.comparable, one.baseline_tokens, one.recalled_tokens)
        for one in found["shop"]
    ]
    assert counts == [(1, 1, 1, 50, 100), (3, 2, 1, 1_000, 225)]


def test_the_baseline_is_every_source_once(shop_db, keep, tmp_path):
    settings = Settings(home=tmp_path, embed_provider="none")
    offered = [new_source(name, "word " * 100) for name in ("s1", "s2")]
    capture.capture_many(shop_db, "shop", offered, now_us=NOW)
    _extracted(shop_db, "Amounts are cents.", "s1")
    _extracted(shop_db, "Amounts are integers.", "s1", "s2")
    result = prepare_context(shop_db, settings, "shop", "amounts")
    assert len(result.items) == 2
    keep.note(recalls.prepared("shop", "amounts", result, max_bytes=8_000, started_us=0))
    (row,) = logged(shop_db, 1)
    assert row.baseline_tokens == 2 * (500 // 4 + 1)
    assert row.tokens == len(result.content) // 4 + 1
    remember.remember(shop_db, "shop", kind="fact", text="Amounts by hand.", now_us=NOW)
    result = prepare_context(shop_db, settings, "shop", "amounts")
    keep.note(recalls.prepared("shop", "amounts", result, max_bytes=8_000, started_us=0))
    assert [one.baseline_tokens is None for one in logged(shop_db, 2)] == [True, False]
