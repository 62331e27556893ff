"""How a window's outcome reads in Dagster: metadata, check results, materialisations."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData,
)

from pc_pipelines.window_sets import WindowSet
from pc_store.domain.verdict import SECRET
from pc_store.ledger.windows import WindowRow
from pc_store.services.administer import ScopeStatus
from pc_store.services.settle import Judged

WINDOW_ID = "window id"
"""Names the ledger's row in metadata: how a materialisation is told from one of a replay."""
_IDS_SHOWN = 100
"""Most candidate ids that a commit's metadata lists."""


def labelled(windows: WindowSet, counts: Mapping[str, int]) -> dict[str, int]:
    """A window's counts under the names that people read; only those that its set names."""
    return {label: counts[name] for name, label in windows.counts.items() if name in counts}


def made(window: WindowRow, candidate_ids: Sequence[str]) -> dict[str, Any]:
    """What a commit wrote: the memory's revision, the candidates, or what a shadow kept."""
    if window.kind == "shadow":
        return {"proposals kept": (window.counts or {}).get("kept", 0)}
    if window.memory_revision is not None:
        return {"memory revision": window.memory_revision}
    return {"candidates": ", ".join(candidate_ids[:_IDS_SHOWN]) or "none"}


def window_metadata(
    windows: WindowSet, window: WindowRow, status: ScopeStatus | None
) -> dict[str, Any]:
    """Everything of a processed window that is worth a plot or a look."""
    if window.kind == "shadow":
        return _shadow_metadata(window)
    usage = window.usage or {}
    metadata: dict[str, Any] = {
        "scope": window.scope_id,
        "first position": window.after + 1,
        "last position": window.through,
        "mode": window.kind,
        "provider": window.provider or "none asked",
        "model": window.model or "none asked",
        "prompt": f"{window.prompt_key}, {window.prompt_revision}",
        "attempt": window.attempt,
        **labelled(windows, window.counts or {}),
        "model calls": usage.get("calls", 0),
        "tokens in": usage.get("tokens_in", 0),
        "tokens out": usage.get("tokens_out", 0),
        "re-asks": usage.get("reasks", 0),
        "seconds in the model": round(float(usage.get("seconds", 0.0)), 3),
        WINDOW_ID: window.window_id,
    }
    if window.memory_revision is not None:
        metadata["memory revision"] = window.memory_revision
    if status is not None:
        cursor = status.cursors[windows.consumer]
        metadata["cursor after"] = cursor
        metadata["lag after"] = status.high_watermark - cursor
        metadata |= windows.figures(status)
    if window.rejects:
        metadata["rejected proposals"] = rejects_table(window.rejects)
    return metadata


def _shadow_metadata(window: WindowRow) -> dict[str, Any]:
    """What a shadow replay did, without a number: plots are of what the memory was made from."""
    counts, usage = window.counts or {}, window.usage or {}
    metadata: dict[str, Any] = {
        "mode": window.kind,
        "generation": window.generation or "",
        "shadow replay": dg.MetadataValue.md(
            f"**Nothing of the memory changed.** {counts.get('sources', 0)} sources were shown; "
            f"{counts.get('kept', 0)} proposals are kept in the generation and "
            f"{counts.get('rejected', 0)} were rejected. {usage.get('tokens_in', 0)} tokens in, "
            f"{usage.get('tokens_out', 0)} out. Next: "
            f"`pc generation diff '{window.scope_id}' {window.generation}`"
        ),
        "scope": window.scope_id,
        "provider": window.provider or "none asked",
        "model": window.model or "none asked",
        "prompt": f"{window.prompt_key}, {window.prompt_revision}",
        WINDOW_ID: window.window_id,
    }
    if window.rejects:
        metadata["rejected proposals"] = rejects_table(window.rejects)
    return metadata


def what_follows(windows: WindowSet, window: WindowRow) -> str:
    """What becomes of a window that failed, and of the cursor, as the end of a sentence."""
    if window.status == "split":
        return f"the cursor stays at {window.after} and the next window will be half as large"
    if window.status == "quarantined":
        return f"source {window.through} is set aside in quarantine and the cursor passes it"
    if window.kind != "live":
        return windows.unchanged
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
    windows: WindowSet, partition: str, window: WindowRow, status: ScopeStatus | None
) -> dg.AssetMaterialization:
    """A processed window as an event, for where its asset is not what runs."""
    metadata = window_metadata(windows, window, status)
    return dg.AssetMaterialization(
        asset_key=windows.asset_key, partition=partition, metadata=metadata
    )


def check_evaluations(
    windows: WindowSet,
    instance: dg.DagsterInstance,
    partition: str,
    window: WindowRow,
    *,
    judged: Judged[Any] | None = None,
) -> Iterator[dg.AssetCheckEvaluation]:
    """A window's checks as events, for where no check output can be yielded.

    They name the partition's latest materialisation, if it has one: Dagster takes a result that
    names none, or an older one, for out of date and shows the check as missing.

    Args:
        judged: the verdict on an answer that is not committed; by default the window is a
            processed one, whose row has what was wrong.
    """
    target = _latest_materialization(windows, instance, partition)
    broken = committed_offenders(windows, window) if judged is None else offenders(windows, judged)
    for check, items in broken.items():
        yield dg.AssetCheckEvaluation(
            asset_key=windows.asset_key,
            check_name=check,
            partition=partition,
            target_materialization_data=target,
            blocking=True,
            **check_values(
                windows,
                check,
                items,
                window,
                refused=judged is not None and judged.refused,
            ),
        )


def _latest_materialization(
    windows: WindowSet, instance: dg.DagsterInstance, partition: str
) -> AssetCheckEvaluationTargetMaterializationData | None:
    found = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=windows.asset_key, asset_partitions=[partition]), limit=1
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


def offenders(windows: WindowSet, judged: Judged[Any]) -> dict[str, list[dict[str, Any]]]:
    """The proposals that break each check, as plain values."""
    return {check: [vars(item) for item in judged.broken(check)] for check in windows.family.checks}


def committed_offenders(windows: WindowSet, window: WindowRow) -> dict[str, list[dict[str, Any]]]:
    """As `offenders`, of a window that was committed without the proposals named."""
    rejects = window.rejects or []
    return {
        check: [item for item in rejects if item["rule"] == check]
        for check in windows.family.checks
    }


def check_values(
    windows: WindowSet,
    check: str,
    broken: list[dict[str, Any]],
    window: WindowRow,
    *,
    refused: bool,
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
        "description": windows.family.checks[check],
        "metadata": metadata,
    }
