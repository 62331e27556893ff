"""Statistics over scopes: what they hold, what waits, what models cost; in the contract's shape."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from pc_store import limits
from pc_store.domain.window import CONSUMERS
from pc_store.errors import InvalidInput
from pc_store.ledger import embedding_costs, inventories, recall_log, recurrence_counts
from pc_store.ledger.database import Database
from pc_store.ledger.embedding_costs import EmbeddingCost
from pc_store.ledger.inventories import Cost, Holdings
from pc_store.ledger.recall_log import Preparations
from pc_store.ledger.recurrence_counts import RecurrenceCounts
from pc_store.services.bind import selected

PERIODS = {"today": 1, "7d": 7, "30d": 30}
"""Days a period covers, today (UTC) included."""
PURPOSES = {consumer: f"{consumer}_extraction" for consumer in CONSUMERS} | {"dream": "dream"}
ESTIMATOR = {"estimator_id": "character:four-ascii-or-one", "version": "1"}
"""How the tokens of recalls are estimated: `domain.source.estimated_tokens`."""


def statistics(
    db: Database,
    selection: Mapping[str, Any],
    *,
    period: str = "30d",
    threshold: int = limits.RECURRENCE_THRESHOLD,
    now_us: int,
) -> dict[str, Any]:
    """The answer of `POST /v1/stats`, JSON as the contract has it.

    `{selection, scope_ids, as_of, inventory, usage, recall, by_scope}`; one consistent read.
    `embedding` counts the texts that were embedded to be found (`memory_indexing`), not queries.
    `recall` counts contexts that were prepared, as far back as their log is kept.

    Args:
        threshold: recurrences in a row from which a failure needs review.

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
        since_us = int(since.timestamp()) * 1_000_000
        costs = inventories.costs(conn, ids, since_us=since_us)
        recurrences = recurrence_counts.counts(conn, ids, threshold=threshold)
        embedded = embedding_costs.since(conn, ids, since_us=since_us)
        prepared = recall_log.preparations(conn, ids, since_us=since_us)
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
        "usage": _usage(
            [cost for one in costs.values() for cost in one],
            [cost for one in embedded.values() for cost in one],
            days,
            covered,
        ),
        "recall": _recall([one for some in prepared.values() for one in some], days, covered),
        "by_scope": [
            {
                "scope_id": scope_id,
                "inventory": _inventory([held[scope_id]]),
                "usage": _usage(costs.get(scope_id, []), embedded.get(scope_id, []), days, covered),
                "recall": _recall(prepared.get(scope_id, []), days, covered),
                "recurrence": _recurrence(recurrences.get(scope_id, RecurrenceCounts())),
            }
            for scope_id in ids
        ],
    }


def _recurrence(counts: RecurrenceCounts) -> dict[str, Any]:
    return {
        "selected": counts.selected,
        "recurred": counts.recurred,
        "avoided": counts.avoided,
        "unknown": counts.unknown,
        "unlinked_handoff_citations": 0,  # this store has no handoffs; receipts always link
        "needing_review": counts.needing_review,
        "top_revisions": [
            {
                "artifact_ref": vars(row.ref),
                "signature_key": row.cue_key,
                "terminal_recurred_streak": row.streak,
            }
            for row in counts.top
        ],
    }


def _inventory(held: Iterable[Holdings]) -> dict[str, Any]:
    families: Counter[str] = Counter()
    kinds: dict[str, Counter[str]] = {}
    proposed: dict[str, Counter[str]] = {}
    total = processed = 0
    for one in held:
        total += one.sources
        processed += one.processed
        families.update(one.artifacts)
        for (kind, state), count in one.entries.items():
            kinds.setdefault(kind, Counter())[state] += count
        for (family, status), count in one.candidates.items():
            proposed.setdefault(family, Counter())[status] += count
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
        "candidates": {
            **_decisions(sum(proposed.values(), Counter())),
            "by_family": [
                {"family": family, **_decisions(proposed[family])} for family in sorted(proposed)
            ],
        },
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


def _decisions(counts: Counter[str]) -> dict[str, int]:
    return {
        "total": counts.total(),
        **{status: counts[status] for status in ("pending", "approved", "rejected")},
    }


def _usage(
    costs: list[Cost],
    embedded: list[EmbeddingCost],
    days: list[date],
    covered: dict[str, Any],
) -> dict[str, Any]:
    by_day: dict[date, list[Cost]] = {day: [] for day in days}
    for cost in costs:
        by_day.get(cost.day, []).append(cost)
    return {
        "period": covered,
        "totals": _models(costs, embedded),
        "by_purpose": _by_purpose(costs, embedded),
        "daily": [
            {
                "date": str(day),
                **_models(some, of_day := [cost for cost in embedded if cost.day == day]),
                "by_purpose": _by_purpose(some, of_day),
            }
            for day, some in by_day.items()
        ],
    }


def _models(costs: Iterable[Cost], embedded: Iterable[EmbeddingCost]) -> dict[str, Any]:
    costs, embedded = list(costs), list(embedded)
    return {
        "generation": {
            "requests": sum(cost.requests for cost in costs),
            "input_tokens": sum(cost.tokens_in for cost in costs),
            "output_tokens": sum(cost.tokens_out for cost in costs),
        },
        "embedding": {
            "requests": sum(cost.requests for cost in embedded),
            "input_tokens": sum(cost.tokens for cost in embedded),
            "output_tokens": 0,
        },
    }


def _by_purpose(costs: list[Cost], embedded: list[EmbeddingCost]) -> list[dict[str, Any]]:
    return [
        {
            "purpose": purpose,
            **_models([cost for cost in costs if cost.by == name], ()),
        }
        for name, purpose in PURPOSES.items()
        if any(cost.by == name for cost in costs)
    ] + [
        {"purpose": name, **_models((), [cost for cost in embedded if cost.purpose == name])}
        for name in sorted({cost.purpose for cost in embedded})
    ]


def _recall(
    prepared: list[Preparations], days: list[date], covered: dict[str, Any]
) -> dict[str, Any]:
    return {
        "period": covered,
        "estimator": ESTIMATOR,
        "totals": _contexts(prepared),
        "daily": [
            {"date": str(day), **_contexts(one for one in prepared if one.day == day)}
            for day in days
        ],
    }


def _contexts(prepared: Iterable[Preparations]) -> dict[str, int]:
    """What contexts cost, and what reading the sources they were made from would have."""
    some = list(prepared)
    baseline = sum(one.baseline_tokens for one in some)
    recalled = sum(one.recalled_tokens for one in some)
    return {
        "preparations": sum(one.total for one in some),
        "ready_preparations": sum(one.ready for one in some),
        "comparable_preparations": sum(one.comparable for one in some),
        "baseline_tokens": baseline,
        "recalled_tokens": recalled,
        "token_reduction": baseline - recalled,
    }
