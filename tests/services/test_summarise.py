"""Statistics count what scopes hold, what waits and what models cost, in the contract's shape."""

from datetime import UTC, datetime, timedelta

import pytest
from dreaming import nothing
from model_stub import says, status

from pc_store.domain.source import new_source
from pc_store.errors import InvalidInput, ScopeNotFound
from pc_store.ledger import cursors, windows
from pc_store.services import administer, capture, instruct, remember
from pc_store.services.clock import now_us
from pc_store.services.summarise import statistics

NOW = int(datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp() * 1_000_000)
DAY = 86_400_000_000
NOTHING = {"requests": 0, "input_tokens": 0, "output_tokens": 0}


def fill(db):
    """Two scopes: one with a memory, a prompt, sources and windows of three days; one empty."""
    administer.create_scope(db, "empty", now_us=NOW)
    done = remember.remember_batch(
        db,
        "shop",
        [
            remember.NewEntry("fact", "A."),
            remember.NewEntry("fact", "B."),
            remember.NewEntry("decision", "C."),
        ],
        now_us=NOW,
    )
    remember.retire(db, "shop", done.entries[0].citation, now_us=NOW)
    instruct.set_prompt(db, "shop", "memory.extract", "Keep facts.", now_us=NOW)
    offered = [new_source(f"s{number}", "Text.") for number in range(5)]
    capture.capture_many(db, "shop", offered, now_us=NOW)
    with db.write() as conn:
        cursors.advance(conn, "shop", "memory", after=0, through=2, now_us=NOW)
        for number, age in enumerate((0, 1, 40)):
            windows.insert(
                conn,
                f"w{number}",
                "shop",
                "memory",
                after=0,
                through=1,
                high_watermark=5,
                kind="replay",
                now_us=NOW,
            )
            usage = {"calls": 2, "tokens_in": 100, "tokens_out": 10}
            windows.update(conn, f"w{number}", answered_at=NOW - age * DAY, usage=usage)


def test_one_scopes_inventory(shop_db):
    fill(shop_db)
    found = statistics(shop_db, {"mode": "exact", "scope_ids": ["shop"]}, now_us=NOW)
    assert found["inventory"] == {
        "sources": {"total": 5, "memory_processed": 2, "memory_pending": 3},
        "artifacts": {
            "total": 2,
            "by_family": [{"family": "memory", "total": 1}, {"family": "prompt", "total": 1}],
        },
        "candidates": {"total": 0, "pending": 0, "approved": 0, "rejected": 0, "by_family": []},
        "memory": {
            "entries": {
                "total": 3,
                "active": 2,
                "inactive": 1,
                "by_kind": [
                    {"kind": "decision", "total": 1, "active": 1, "inactive": 0},
                    {"kind": "fact", "total": 2, "active": 1, "inactive": 1},
                ],
            }
        },
    }
    assert (found["scope_ids"], found["as_of"]) == (["shop"], "2026-11-30T12:00:00Z")
    assert [one["scope_id"] for one in found["by_scope"]] == ["shop"]
    assert found["by_scope"][0]["inventory"] == found["inventory"]


def test_usage_is_counted_by_day_and_purpose_within_the_period(shop_db):
    fill(shop_db)
    for period, days, calls in (("today", 1, 2), ("7d", 7, 4), ("30d", 30, 4)):
        found = statistics(shop_db, {"mode": "all"}, period=period, now_us=NOW)["usage"]
        first = datetime(2026, 11, 30, tzinfo=UTC) - timedelta(days=days - 1)
        assert found["period"] == {
            "preset": period,
            "start_date": f"{first:%Y-%m-%d}",
            "end_date": "2026-11-30",
            "timezone": "UTC",
        }
        spent = {"requests": calls, "input_tokens": 50 * calls, "output_tokens": 5 * calls}
        assert found["totals"] == {"generation": spent, "embedding": NOTHING}
        assert found["by_purpose"] == [
            {"purpose": "memory_extraction", "generation": spent, "embedding": NOTHING}
        ]
        assert len(found["daily"]) == days
        assert found["daily"][-1]["date"] == "2026-11-30"
        assert found["daily"][-1]["generation"]["requests"] == 2


def test_candidates_and_what_dreams_cost_are_counted(sleeper):
    cited = sleeper.remembered()
    sleeper.desk.approved()
    sleeper.says(cited)
    sleeper.stub.answer(status(503), says(nothing()))
    sleeper.dreamt(cited)
    sleeper.queued(cited)
    sleeper.pending()
    sleeper.having(llm_provider="builtin").dreamt(cited)
    found = statistics(sleeper.db, {"mode": "all"}, period="today", now_us=now_us())
    counts = {"total": 2, "pending": 1, "approved": 1, "rejected": 0}
    families = [{"family": "experience", **counts}]
    assert found["inventory"]["candidates"] == {**counts, "by_family": families}
    (spent,) = [one for one in found["usage"]["by_purpose"] if one["purpose"] == "dream"]
    assert spent["generation"] == {"requests": 3, "input_tokens": 200, "output_tokens": 40}
    assert spent in found["usage"]["daily"][-1]["by_purpose"]
    everything = [one["generation"]["requests"] for one in found["usage"]["by_purpose"]]
    assert found["usage"]["totals"]["generation"]["requests"] == sum(everything)


def test_a_selection_of_several_sums_them_and_lists_each(shop_db):
    fill(shop_db)
    remember.remember(shop_db, "empty", kind="fact", text="D.", now_us=NOW)
    found = statistics(shop_db, {"mode": "all"}, now_us=NOW)
    assert found["scope_ids"] == ["empty", "shop"]
    assert found["inventory"]["memory"]["entries"]["total"] == 4
    assert found["inventory"]["artifacts"]["total"] == 3
    empty, shop = found["by_scope"]
    assert empty["inventory"]["memory"]["entries"]["by_kind"] == [
        {"kind": "fact", "total": 1, "active": 1, "inactive": 0}
    ]
    assert empty["usage"]["by_purpose"] == []
    assert shop["recurrence"]["recurred"] == 0


def test_what_is_asked_wrongly_is_refused(shop_db):
    for selection, period, error in (
        ({"mode": "all"}, "1d", InvalidInput),
        ({"mode": "some"}, "7d", InvalidInput),
        ({"mode": "exact", "scope_ids": ["none"]}, "7d", ScopeNotFound),
    ):
        with pytest.raises(error):
            statistics(shop_db, selection, period=period, now_us=NOW)
