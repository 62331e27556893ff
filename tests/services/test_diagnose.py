"""What a person is told of a scope's processing, and of the whole store."""

import pytest

from pc_store.domain.source import new_source
from pc_store.errors import ScopeNotFound
from pc_store.ledger import cursors, quarantines, windows
from pc_store.services import capture
from pc_store.services.diagnose import ProcessingStatus, doctor_facts, processing_status
from pc_store.settings import Settings

NOW = 1_700_000_000_000_000
ERROR = {"code": "inference_timeout", "message": "no answer"}


def put(db, count):
    offered = [new_source(f"s{number}", "Text.") for number in range(count)]
    capture.capture_many(db, "shop", offered, now_us=NOW)


def fail(db):
    """Process two sources, set one aside, and let the window after them fail."""
    put(db, 5)
    with db.write() as conn:
        cursors.advance(conn, "shop", "memory", after=0, through=2, now_us=NOW)
        quarantines.put(conn, "shop", "memory", 2, window_id="w", reason="broken", now_us=NOW)
        for name, after, through in (("w1", 0, 2), ("w2", 2, 5)):
            windows.insert(
                conn,
                name,
                "shop",
                "memory",
                after=after,
                through=through,
                high_watermark=5,
                kind="live",
                now_us=NOW,
            )
            if name == "w1":
                windows.update(conn, name, status="processed", finished_at=NOW + 7)
        windows.update(
            conn,
            "w2",
            status="failed",
            attempt=2,
            error=ERROR,
            next_attempt_at=NOW + 30_000_000,
        )


def test_a_fresh_scope_has_nothing_to_do(shop_db):
    status = processing_status(shop_db, "shop", now_us=NOW)
    assert status == ProcessingStatus("shop", "memory", 0, 0, None, None, 0, None, None, 0, None)
    assert status.pending == 0
    with pytest.raises(ScopeNotFound):
        processing_status(shop_db, "none", now_us=NOW)


def test_a_failing_window_is_told_with_its_error_and_next_attempt(shop_db):
    fail(shop_db)
    status = processing_status(shop_db, "shop", now_us=NOW)
    assert status == ProcessingStatus(
        "shop",
        "memory",
        cursor=2,
        high_watermark=5,
        oldest_pending_at=NOW,
        window_status="failed",
        attempt=2,
        next_attempt_at=NOW + 30_000_000,
        last_error=ERROR,
        quarantined=1,
        last_processed_at=NOW + 7,
    )
    assert status.pending == 3
    later = processing_status(shop_db, "shop", now_us=NOW + 30_000_000)
    assert later.next_attempt_at is None


def levels(db, settings):
    return {fact.name: (fact.level, fact.says) for fact in doctor_facts(db, settings, now_us=NOW)}


def test_the_doctor_finds_a_healthy_store_well(shop_db, tmp_path):
    found = levels(shop_db, Settings(home=tmp_path, memory_schedule_seconds=60))
    assert {level for level, _ in found.values()} == {"ok"}
    assert list(found) == [
        "ledger",
        "model",
        "schedule",
        "backlog",
        "failing windows",
        "quarantine",
        "index",
    ]


def test_the_doctor_names_what_is_wrong(shop_db, tmp_path):
    fail(shop_db)
    settings = Settings(home=tmp_path, lag_target=2, llm_base_url="http://127.0.0.1:9/v1")
    found = levels(shop_db, settings)
    assert found["model"] == ("error", "PC_LLM_MODEL is not set")
    assert found["schedule"][0] == "warning"
    assert found["backlog"] == ("warning", "3 positions of 1 scopes wait, the target is 2")
    assert found["failing windows"] == (
        "error",
        "shop (2, 5], attempt 2: inference_timeout, next in 30 s",
    )
    assert found["quarantine"] == ("error", "shop position 2: broken")


def test_the_model_is_named_without_the_password_in_its_address(db, tmp_path):
    settings = Settings(
        home=tmp_path, llm_model="m", llm_base_url="https://user:hunter22@models.example/v1"
    )
    facts = {fact.name: fact.says for fact in doctor_facts(db, settings, now_us=1)}
    assert facts["model"] == "m at https://models.example/v1"
