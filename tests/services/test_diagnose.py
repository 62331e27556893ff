"""What a person is told of a scope's processing, and of the whole store."""

import pytest
from desk import Desk, experience, source
from dreaming import SCOPE, Sleeper

from pc_store.domain.source import new_source
from pc_store.errors import ScopeNotFound
from pc_store.ledger import cursors, quarantines, windows
from pc_store.services import capture, dream
from pc_store.services.diagnose import (
    GAUGES,
    ProcessingStatus,
    doctor_facts,
    gauges,
    processing_status,
    standing,
)
from pc_store.settings import Settings

NOW = 1_700_000_000_000_000
ERROR = {"code": "inference_timeout", "message": "no answer"}


def put(db, count):
    offered = [new_source(f"s{number}", "Text.") for number in range(count)]
    capture.capture_many(db, "shop", offered, now_us=NOW)


def outcomes(db, count):
    told = [new_source(f"o{number}", "{}", {"kind": "task-outcome"}) for number in range(count)]
    capture.capture_many(db, "shop", told, now_us=NOW)


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


def levels(db, settings=None, *, now_us=NOW):
    found = doctor_facts(db, settings or Settings(), now_us=now_us)
    return {fact.name: (fact.level, fact.says) for fact in found}


SCHEDULED = Settings(memory_schedule_seconds=60, experience_schedule_seconds=60)
LATER = NOW + 3_600_000_000


def test_the_doctor_finds_a_healthy_store_well(shop_db):
    found = levels(shop_db, SCHEDULED)
    assert {level for level, _ in found.values()} == {"ok"}
    assert list(found) == [
        *(f"{consumer} backlog" for consumer in ("memory", "experience", "recurrence")),
        *(f"{consumer} schedule" for consumer in ("memory", "experience", "recurrence")),
        "failing windows",
        "quarantine",
        "dreams",
        "review inbox",
    ]


def test_the_doctor_names_what_is_wrong(shop_db):
    fail(shop_db)
    found = levels(shop_db, Settings(lag_target=2))
    assert found["memory schedule"][0] == "warning"
    assert found["memory backlog"] == (
        "warning",
        "3 positions of 1 scopes wait, most in one 3, the target is 2",
    )
    assert found["failing windows"] == (
        "error",
        "shop memory (2, 5], attempt 2: inference_timeout, next in 30 s",
    )
    assert found["quarantine"] == ("error", "shop memory position 2: broken")


def test_only_outcomes_wait_for_experience_and_recurrence(shop_db):
    put(shop_db, 5)
    found = levels(shop_db)
    for consumer in ("experience", "recurrence"):
        assert found[f"{consumer} backlog"] == (
            "ok",
            "0 task outcomes of 0 scopes wait, most in one 0, the target is 1000",
        )
        assert found[f"{consumer} schedule"][0] == "ok"
    outcomes(shop_db, 2)
    found = levels(shop_db, Settings(lag_target=1))
    assert found["experience backlog"] == (
        "warning",
        "2 task outcomes of 1 scopes wait, most in one 2, the target is 1",
    )
    assert found["experience schedule"] == (
        "warning",
        "PC_EXPERIENCE_SCHEDULE_SECONDS is unset: windows run only on request",
    )
    assert found["recurrence schedule"][0] == "warning"


def test_what_waits_too_long_while_no_cursor_moves_is_not_scheduled(shop_db):
    put(shop_db, 1)
    outcomes(shop_db, 1)
    found = levels(shop_db, SCHEDULED, now_us=LATER)
    for consumer, sensor in (
        ("memory", "memory_windows_due"),
        ("experience", "experience_windows_due"),
        ("recurrence", "recurrence_due"),
    ):
        level, says = found[f"{consumer} schedule"]
        assert level == "error"
        assert says.startswith("not scheduled: 'shop' has waited over 600 s")
        assert f"the sensor {sensor} on?" in says
    with shop_db.write() as conn:
        for consumer, through in (("memory", 1), ("experience", 1), ("recurrence", 2)):
            cursors.advance(conn, "shop", consumer, after=0, through=through, now_us=LATER - 9)
    found = levels(shop_db, SCHEDULED, now_us=LATER)
    assert {found[f"{one}"][0] for one in found if one.endswith("schedule")} == {"ok"}


def test_a_window_that_waits_for_its_next_attempt_is_not_unscheduled(shop_db):
    fail(shop_db)
    with shop_db.write() as conn:
        windows.update(conn, "w2", next_attempt_at=LATER + 1)
    assert levels(shop_db, SCHEDULED, now_us=LATER)["memory schedule"][0] == "ok"
    assert levels(shop_db, SCHEDULED, now_us=LATER + 1)["memory schedule"][0] == "error"


def test_candidates_that_wait_are_told_with_the_oldest_age(shop_db):
    put(shop_db, 1)
    Desk(shop_db).propose(sources=[source("s0")])
    Desk(shop_db).propose(experience(action="x"), sources=[source("s0")])
    assert levels(shop_db, now_us=LATER)["review inbox"] == (
        "ok",
        "2 candidates wait for review, the oldest for 1.0 hours, the target is 168; "
        "0 have a stale target",
    )
    strict = Settings(inbox_age_target_s=3_599)
    assert levels(shop_db, strict, now_us=LATER)["review inbox"][0] == "warning"


def test_dreams_that_wait_while_nobody_works_on_them_are_an_error(rig):
    sleeper = Sleeper(rig)
    cited = sleeper.remembered()
    first, second = sleeper.queued(cited), sleeper.queued(cited)
    soon, late = (first.accepted_at + seconds * 1_000_000 for seconds in (60, 61))
    assert levels(rig.db, now_us=soon)["dreams"] == ("ok", "2 wait or are worked on")
    level, says = levels(rig.db, now_us=late)["dreams"]
    assert level == "error"
    assert says.startswith("2 wait, the oldest for 61 s, and nobody works on them: ")
    for named in ("dreams_queued", "PC_DREAM_WORKER", "pc dream run-pending"):
        assert named in says
    off = Settings(dream_enabled=False)
    assert levels(rig.db, off, now_us=late)["dreams"] == (
        "warning",
        "switched off: PC_DREAM_ENABLED; 2 wait",
    )
    claimed = sleeper.claim(lease_s=600)
    assert claimed.run_id == first.run_id
    assert standing(rig.db, now_us=late).unattended_s == 0
    dream.cancel(rig.db, SCOPE, first.run_id, now_us=late)
    assert standing(rig.db, now_us=late + 1).unattended_s == 0
    much_later = late + 61_000_000
    waited = standing(rig.db, now_us=much_later)
    assert (waited.dreams.pending, waited.dreams.due) == (1, 1)
    assert waited.unattended_s == (much_later - second.accepted_at) / 1_000_000


def test_the_gauges_are_all_given(shop_db):
    put(shop_db, 2)
    outcomes(shop_db, 1)
    found = gauges(standing(shop_db, now_us=NOW), now_us=NOW)
    assert found.keys() == GAUGES.keys()
    assert {name: value for name, value in found.items() if value} == {
        "pc_memory_waiting_scopes": 1,
        "pc_memory_waiting_positions": 3,
        "pc_experience_waiting_scopes": 1,
        "pc_experience_waiting_outcomes": 1,
        "pc_recurrence_waiting_scopes": 1,
        "pc_recurrence_waiting_outcomes": 1,
    }
