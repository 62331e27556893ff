"""`memory_windows`: one partition is one window of one scope's log, extracted into its memory.

Five ops, so that the run page shows where time went, and a re-execution from a failed commit
does not ask the model again: the answer waits in the ledger, ops hand each other ids only.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from pc_pipelines import partitions, reports
from pc_pipelines.assets.memory import materialization
from pc_pipelines.resources import StoreResource
from pc_store.domain.verdict import CHECKS
from pc_store.errors import ModelUnavailable, StoreBusy, StoreError
from pc_store.ledger.database import Database
from pc_store.services.administer import scope_status
from pc_store.services.ask import ask
from pc_store.services.begin import alive, open_named
from pc_store.services.clock import now_us
from pc_store.services.extract import commit_window, judge_window, refuse
from pc_store.services.watch import read_window

MODE = dg.Field(
    dg.Enum("WindowMode", [dg.EnumValue("auto"), dg.EnumValue("replay")]),
    default_value="auto",
    description=(
        "auto: process the window at the cursor and leave those behind it alone. replay: run a "
        "window behind the cursor again, e.g. after a prompt change; the cursor stays."
    ),
)
_CHECK_OUTPUT = {check: f"memory_windows_{check}" for check in CHECKS}


def _failure(error: StoreError) -> dg.Failure:
    """An error as Dagster shows it; retried by its op only where that can help."""
    return dg.Failure(
        error.message,
        metadata={"code": error.code, **{k: str(v) for k, v in error.details.items()}},
        allow_retries=isinstance(error, ModelUnavailable | StoreBusy),
    )


def _beating(db: Database, store: StoreResource, context: dg.OpExecutionContext) -> Any:
    return alive(db, context.run_id, every_s=store.settings.lease_s / 4)


@dg.op(
    config_schema={"mode": MODE},
    ins={"source_log": dg.In(dg.Nothing)},
    out={"window": dg.Out(dict, is_required=False)},
    tags={"pc/step": "open"},
)
def open_window(
    context: dg.OpExecutionContext, store: StoreResource
) -> Iterator[dg.Output[dict[str, Any]]]:
    """Fix the window that the partition names, and begin an attempt at it."""
    key = partitions.window_key(context.partition_key)
    try:
        opened = open_named(
            store.db,
            key,
            "memory",
            mode=context.op_config["mode"],
            run_id=context.run_id,
            now_us=now_us(),
        )
    except StoreError as error:
        raise _failure(error) from error
    window = opened.window
    if opened.status != "open" or window is None:
        again = ", launch it with mode: replay to run it again"
        context.log.info(
            f"{key} is {opened.status}: the cursor is at {opened.cursor}"
            f"{again if opened.status == 'already processed' else ''}; nothing to do"
        )
        return
    yield dg.Output(
        {"window_id": window.window_id},
        "window",
        metadata={
            "scope": window.scope_id,
            "first position": window.after + 1,
            "last position": window.through,
            "high watermark": window.high_watermark,
            "mode": window.kind,
            "attempt": window.attempt,
        },
    )


@dg.op(
    pool="llm",
    out=dg.Out(dict),
    retry_policy=dg.RetryPolicy(
        max_retries=2, delay=5, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS
    ),
    tags={"pc/step": "ask"},
)
def ask_model(
    context: dg.OpExecutionContext, window: dict[str, Any], store: StoreResource
) -> dg.Output[dict[str, Any]]:
    """Show the sources to the proposer; the answer is kept in the ledger."""
    with _beating(store.db, store, context):
        try:
            kept = ask(store.db, store.settings, store.proposer, window["window_id"])
        except StoreError as error:
            raise _failure(error) from error
    row = read_window(store.db, window["window_id"])
    return dg.Output(
        window,
        metadata={
            "provider": row.provider or "none",
            "model": row.model or "none",
            "prompt": f"{row.prompt_key}, {row.prompt_revision}",
            "sources shown": len(kept.evidence),
            "sources filtered": sum(kept.filtered.values()),
            "entries shown": len(kept.shown),
            "proposals": len(kept.proposals) + len(kept.rejected),
            "answer reused": kept.reused,
            "calls": kept.usage.calls,
            "tokens in": kept.usage.tokens_in,
            "tokens out": kept.usage.tokens_out,
            "seconds": round(kept.usage.seconds, 3),
        },
    )


@dg.op(out=dg.Out(dict), tags={"pc/step": "validate"})
def validate(
    context: dg.OpExecutionContext, window: dict[str, Any], store: StoreResource
) -> dict[str, Any]:
    """Judge the answer before anything is written; a refused one fails its checks here."""
    window_id = window["window_id"]
    try:
        judged = judge_window(store.db, store.settings, window_id)
        if not judged.refused:
            return window
        row = read_window(store.db, window_id)
        for evaluation in reports.check_evaluations(judged, context.partition_key, row):
            context.log_event(evaluation)
        error = refuse(store.db, store.settings, window_id, judged)
    except StoreError as unusable:
        raise _failure(unusable) from unusable
    after = read_window(store.db, window_id)
    raise dg.Failure(
        f"{error.message}. Nothing was written, the cursor stays at {row.after}; "
        f"the window is now {after.status}",
        metadata={
            "window status": after.status,
            "attempt": after.attempt,
            "failures that count": after.counted_failures,
            "rejected proposals": reports.rejects_table(after.rejects or []),
        },
        allow_retries=False,
    )


@dg.op(out=dg.Out(dict), tags={"pc/step": "commit"})
def commit(
    context: dg.OpExecutionContext, window: dict[str, Any], store: StoreResource
) -> dict[str, Any]:
    """Write the memory's new revision and the cursor in one transaction."""
    window_id = window["window_id"]
    try:
        judged = judge_window(store.db, store.settings, window_id)
        commit_window(store.db, store.settings, window_id, run_id=context.run_id)
    except StoreError as error:
        raise _failure(error) from error
    return {**window, "offenders": reports.offenders(judged)}


@dg.op(
    out={
        "result": dg.Out(dg.Nothing),
        **{name: dg.Out(is_required=False) for name in _CHECK_OUTPUT.values()},
    },
    tags={"pc/step": "report"},
)
def report(
    context: dg.OpExecutionContext, window: dict[str, Any], store: StoreResource
) -> Iterator[Any]:
    """Say what the window did, for its partition, its checks and the scope's memory."""
    row = read_window(store.db, window["window_id"])
    status = scope_status(store.db, row.scope_id)
    yield dg.Output(None, "result", metadata=reports.window_metadata(row, status))
    for check in CHECKS:
        yield dg.AssetCheckResult(
            asset_key=reports.MEMORY_WINDOWS,
            check_name=check,
            **reports.check_values(check, window["offenders"][check], row, refused=False),
        )
    context.log_event(materialization(status))


@dg.graph_asset(
    ins={
        "source_log": dg.AssetIn(
            "source_log",
            dagster_type=dg.Nothing,
            partition_mapping=dg.AllPartitionMapping(),
        )
    },
    config=dg.ConfigMapping(
        config_schema={"mode": MODE},
        config_fn=lambda config: {"open_window": {"config": {"mode": config["mode"]}}},
    ),
    partitions_def=partitions.memory_windows,
    group_name="memory",
    kinds={"llm"},
    check_specs=[
        dg.AssetCheckSpec(
            check,
            asset="memory_windows",
            description=description,
            blocking=True,
            partitions_def=partitions.memory_windows,
        )
        for check, description in CHECKS.items()
    ],
    description=(
        "One partition is one window (SCOPE@FIRST-LAST) of a scope's log: its sources are shown "
        "to the model, the proposals validated, and the memory committed together with the cursor."
    ),
)
def memory_windows(source_log):  # type: ignore[no-untyped-def]
    """Open, ask, validate, commit, report."""
    outputs = report(commit(validate(ask_model(open_window(source_log)))))
    return {
        "result": outputs[0],
        **{name: getattr(outputs, name) for name in _CHECK_OUTPUT.values()},
    }
