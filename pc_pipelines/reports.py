"""How a window's outcome reads in Dagster: metadata, check results, materialisations."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData,
)

from pc_store.domain.verdict import CHECKS, SECRET, Check
from pc_store.ledger.windows import WindowRow
from pc_store.services.administer import ScopeStatus
from pc_store.services.extract import Judged

MEMORY_WINDOWS = dg.AssetKey("memory_windows")
WINDOW_ID = "window id"
"""Names the ledger's row in metadata: how a materialisation is told from one of a replay."""

_COUNTS = {
    "positions": "positions",
    "sources": "sources shown",
    "filtered": "sources filtered",
    "shown": "entries shown",
    "proposals": "proposals",
    "accepted": "proposals accepted",
    "rejected": "proposals rejected",
    "added": "entries added",
    "revised": "entries revised",
    "unchanged": "entries known already",
}


def window_metadata(window: WindowRow, status: ScopeStatus | None) -> dict[str, Any]:
    """Everything of a processed window that is worth a plot or a look."""
    usage = window.usage or {}
    counts = window.counts or {}
    metadata: dict[str, Any] = {
        "scope": window.scope_id,
        "first position": window.after + 1,
        "last position": window.through,
        "mode": window.kind,
        "provider": window.provider or "none asked",
        "model": window.model or "none asked",
        "prompt": f"{window.prompt_key}, {window.prompt_revision}",
        "attempt": window.attempt,
        **{label: counts[name] for name, label in _COUNTS.items() if name in counts},
        "model calls": usage.get("calls", 0),
        "tokens in": usage.get("tokens_in", 0),
        "tokens out": usage.get("tokens_out", 0),
        "re-asks": usage.get("reasks", 0),
        "seconds in the model": round(float(usage.get("seconds", 0.0)), 3),
        "memory revision": window.memory_revision or 0,
        WINDOW_ID: window.window_id,
    }
    if status is not None:
        metadata["cursor after"] = status.cursors["memory"]
        metadata["lag after"] = status.memory_lag
        metadata["active entries after"] = status.active_entries
    if window.rejects:
        metadata["rejected proposals"] = rejects_table(window.rejects)
    return metadata


def what_follows(window: WindowRow) -> str:
    """What becomes of a window that failed, and of the cursor, as the end of a sentence."""
    if window.status == "split":
        return f"the cursor stays at {window.after} and the next window will be half as large"
    if window.status == "quarantined":
        return f"source {window.through} is set aside in quarantine and the cursor passes it"
    if window.kind == "replay":
        return "the memory is as it was"
    due = datetime.fromtimestamp(window.next_attempt_at / 1_000_000, UTC)
    return f"the cursor stays at {window.after} and the next attempt is due at {due:%H:%M:%S} UTC"


def rejects_table(rejects: list[dict[str, Any]]) -> dg.TableMetadataValue:
    """Rejected proposals by number, rule and reason; never their text."""
    return dg.MetadataValue.table(
        [
            dg.TableRecord(
                {"proposal": item["ordinal"], "check": item["rule"], "reason": item["reason"]}
            )
            for item in rejects[:50]
        ]
    )


def window_materialization(
    partition: str, window: WindowRow, status: ScopeStatus | None
) -> dg.AssetMaterialization:
    """A processed window as an event, for where its asset is not what runs."""
    return dg.AssetMaterialization(
        asset_key=MEMORY_WINDOWS, partition=partition, metadata=window_metadata(window, status)
    )


def check_evaluations(
    instance: dg.DagsterInstance,
    partition: str,
    window: WindowRow,
    *,
    judged: Judged | None = None,
) -> Iterator[dg.AssetCheckEvaluation]:
    """A window's checks as events, for where no check output can be yielded.

    They name the partition's latest materialisation, if it has one: Dagster takes a result that
    names none, or an older one, for out of date and shows the check as missing.

    Args:
        judged: the verdict on an answer that is not committed; by default the window is a
            processed one, whose row has what was wrong.
    """
    target = _latest_materialization(instance, partition)
    broken = committed_offenders(window) if judged is None else offenders(judged)
    for check, items in broken.items():
        yield dg.AssetCheckEvaluation(
            asset_key=MEMORY_WINDOWS,
            check_name=check,
            partition=partition,
            target_materialization_data=target,
            blocking=True,
            **check_values(check, items, window, refused=judged is not None and judged.refused),
        )


def _latest_materialization(
    instance: dg.DagsterInstance, partition: str
) -> AssetCheckEvaluationTargetMaterializationData | None:
    found = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=MEMORY_WINDOWS, asset_partitions=[partition]), limit=1
    ).records
    if not found:
        return None
    return AssetCheckEvaluationTargetMaterializationData(
        storage_id=found[0].storage_id, run_id=found[0].run_id, timestamp=found[0].timestamp
    )


def log_checks(
    context: dg.OpExecutionContext, evaluations: Iterator[dg.AssetCheckEvaluation]
) -> None:
    """Log check evaluations from an op that has no outputs for them."""
    for evaluation in evaluations:
        context.log_event(evaluation)  # type: ignore[arg-type]  # taken, but not annotated so


def offenders(judged: Judged) -> dict[Check, list[dict[str, Any]]]:
    """The proposals that break each check, as plain values."""
    return {check: [vars(item) for item in judged.broken(check)] for check in CHECKS}


def committed_offenders(window: WindowRow) -> dict[Check, list[dict[str, Any]]]:
    """As `offenders`, of a window that was committed without the proposals named."""
    rejects = window.rejects or []
    return {check: [item for item in rejects if item["rule"] == check] for check in CHECKS}


def check_values(
    check: Check, broken: list[dict[str, Any]], window: WindowRow, *, refused: bool
) -> dict[str, Any]:
    """How one check came out. A dropped secret or a salvaged answer warns and refuses nothing."""
    metadata: dict[str, Any] = {
        "window": f"({window.after}, {window.through}]",
        "scope": window.scope_id,
        "offending proposals": len(broken),
    }
    if broken:
        metadata["offenders"] = rejects_table(broken)
    error = refused and check != SECRET
    return {
        "passed": not broken,
        "severity": dg.AssetCheckSeverity.ERROR if error else dg.AssetCheckSeverity.WARN,
        "description": CHECKS[check],
        "metadata": metadata,
    }
