"""Statistics over scopes: what they hold, what waits, what models cost; in the contract's shape."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from pc_store.domain.window import CONSUMERS
from pc_store.errors import InvalidInput
from pc_store.ledger import inventories
from pc_store.ledger.database import Database
from pc_store.ledger.inventories import Cost, Holdings
from pc_store.services.bind import selected

PERIODS = {"today": 1, "7d": 7, "30d": 30}
"""Days a period covers, today (UTC) included."""
PURPOSES = {consumer: f"{consumer}_extraction" for consumer in CONSUMERS}
_NO_RECALL = dict.fromkeys(
    (
        "preparations",
        "ready_preparations",
        "comparable_preparations",
        "baseline_tokens",
        "recalled_tokens",
        "token_reduction",
    ),
    0,
)
_NO_RECURRENCE = dict.fromkeys(
    (
        "selected",
        "recurred",
        "avoided",
        "unknown",
        "unlinked_handoff_citations",
        "needing_review",
    ),
    0,
)


def statistics(
    db: Database, selection: Mapping[str, Any], *, period: str = "30d", now_us: int
) -> dict[str, Any]:
    """The answer of `POST /v1/stats`, JSON as the contract has it.

    `{selection, scope_ids, as_of, inventory, usage, recall, by_scope}`; one consistent read.
    What belongs to parts this store does not have yet (candidates, recall, recurrence) is 0.

    Raises:
        InvalidInput: the period is none of `PERIODS`, or the selection is malformed.
        ScopeNotFound: a named scope does not exist.
    """
    if period not in PERIODS:
        raise InvalidInput("period", f"is {period!r}, one of {', '.join(PERIODS)} is expected")
    moment = datetime.fromtimestamp(now_us / 1_000_000, UTC)
    days = [moment.date() - timedelta(days=back) for back in range(PERIODS[period])][::-1]
    since = datetime(days[0].year, days[0].month, days[0].day, tzinfo=UTC)
    with db.read() as conn:
        ids = [scope.scope_id for scope in selected(conn, selection)]
        held = inventories.holdings(conn, ids)
        costs = inventories.costs(conn, ids, since_us=int(since.timestamp()) * 1_000_000)
    covered = {
        "preset": period,
        "start_date": str(days[0]),
        "end_date": str(days[-1]),
        "timezone": "UTC",
    }
    return {
        "selection": dict(selection),
        "scope_ids": ids,
        "as_of": moment.isoformat().replace("+00:00", "Z"),
        "inventory": _inventory(held.values()),
        "usage": _usage([cost for one in costs.values() for cost in one], days, covered),
        "recall": _recall(days, covered),
        "by_scope": [
            {
                "scope_id": scope_id,
                "inventory": _inventory([held[scope_id]]),
                "usage": _usage(costs.get(scope_id, []), days, covered),
                "recall": _recall(days, covered),
                "recurrence": {**_NO_RECURRENCE, "top_revisions": []},
            }
            for scope_id in ids
        ],
    }


def _inventory(held: Iterable[Holdings]) -> dict[str, Any]:
    families: Counter[str] = Counter()
    kinds: dict[str, Counter[str]] = {}
    total = processed = 0
    for one in held:
        total += one.sources
        processed += one.processed
        families.update(one.artifacts)
        for (kind, state), count in one.entries.items():
            kinds.setdefault(kind, Counter())[state] += count
    return {
        "sources": {
            "total": total,
            "memory_processed": processed,
            "memory_pending": total - processed,
        },
        "artifacts": {
            "total": families.total(),
            "by_family": [
                {"family": family, "total": families[family]} for family in sorted(families)
            ],
        },
        "candidates": {"total": 0, "pending": 0, "approved": 0, "rejected": 0, "by_family": []},
        "memory": {
            "entries": {
                **_states(sum(kinds.values(), Counter())),
                "by_kind": [{"kind": kind, **_states(kinds[kind])} for kind in sorted(kinds)],
            }
        },
    }


def _states(counts: Counter[str]) -> dict[str, int]:
    return {
        "total": counts.total(),
        "active": counts["active"],
        "inactive": counts["inactive"],
    }


def _usage(costs: list[Cost], days: list[date], covered: dict[str, Any]) -> dict[str, Any]:
    by_day: dict[date, list[Cost]] = {day: [] for day in days}
    for cost in costs:
        by_day.get(cost.day, []).append(cost)
    return {
        "period": covered,
        "totals": _models(costs),
        "by_purpose": _by_purpose(costs),
        "daily": [
            {"date": str(day), **_models(some), "by_purpose": _by_purpose(some)}
            for day, some in by_day.items()
        ],
    }


def _models(costs: list[Cost]) -> dict[str, Any]:
    return {
        "generation": {
            "requests": sum(cost.requests for cost in costs),
            "input_tokens": sum(cost.tokens_in for cost in costs),
            "output_tokens": sum(cost.tokens_out for cost in costs),
        },
        "embedding": {"requests": 0, "input_tokens": 0, "output_tokens": 0},
    }


def _by_purpose(costs: list[Cost]) -> list[dict[str, Any]]:
    return [
        {"purpose": PURPOSES[name], **_models([cost for cost in costs if cost.consumer == name])}
        for name in CONSUMERS
        if any(cost.consumer == name for cost in costs)
    ]


def _recall(days: list[date], covered: dict[str, Any]) -> dict[str, Any]:
    return {
        "period": covered,
        "estimator": None,
        "totals": _NO_RECALL,
        "daily": [{"date": str(day), **_NO_RECALL} for day in days],
    }
