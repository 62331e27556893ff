"""`memory_windows`: one partition is one window of one scope's log, extracted into its memory.

Five ops, so that the run page shows where time went, and a re-execution from a failed commit
does not ask the model again: the answer waits in the ledger, ops hand each other ids only.
A run that has nothing to do, or that another run has overtaken, ends well and writes nothing.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from pc_pipelines import partitions, reports
from pc_pipelines.assets.memory import materialization
from pc_pipelines.failures import failure
from pc_pipelines.resources import StoreResource
from pc_store.domain.verdict import CHECKS
from pc_store.domain.window import OPEN
from pc_store.errors import StoreError
from pc_store.ledger.windows import WindowRow
from pc_store.services.administer import scope_status
from pc_store.services.ask import ask
from pc_store.services.begin import open_named
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
_WINDOW = {"window": dg.Out(dict, is_required=False)}


@dg.op(
    config_schema={"mode": MODE},
    ins={"source_log": dg.In(dg.Nothing)},
    out=_WINDOW,
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
        raise failure(error) from None
    window = opened.window
    if opened.status != "open" or window is None:
        again = " Launch it with mode: replay to run it again."
        _nothing_to_do(
            context,
            f"{key} is {opened.status}, the cursor is at {opened.cursor}: nothing was done."
            + (again if opened.status == "already processed" else ""),
            window,
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
            reports.WINDOW_ID: window.window_id,
        },
    )


@dg.op(
    pool="llm",
    out=_WINDOW,
    retry_policy=dg.RetryPolicy(
        max_retries=2, delay=5, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS
    ),
    tags={"pc/step": "ask"},
)
def ask_model(
    context: dg.OpExecutionContext, window: dict[str, Any], store: StoreResource
) -> Iterator[dg.Output[dict[str, Any]]]:
    """Show the sources to the proposer; the answer is kept in the ledger."""
    window_id = window["window_id"]
    try:
        kept = ask(store.db, store.settings, store.proposer, window_id)
        row = read_window(store.db, window_id)
    except StoreError as error:
        if _overtaken(context, store, window_id):
            return
        raise failure(error) from None
    except Exception as error:  # a bug, which asking again would only pay for twice
        raise dg.Failure(f"{type(error).__name__}: {error}", allow_retries=False) from error
    yield dg.Output(
        window,
        "window",
        metadata={
            "provider": row.provider or "none asked",
            "model": row.model or "none asked",
            "prompt": f"{row.prompt_key}, {row.prompt_revision}",
            "sources shown": len(kept.evidence),
            "sources filtered": sum(kept.filtered.values()),
            "entries shown": len(kept.shown),
            "proposals": len(kept.proposals) + len(kept.rejected),
            "answer reused": kept.reused,
            "model calls": kept.usage.calls,
            "tokens in": kept.usage.tokens_in,
            "tokens out": kept.usage.tokens_out,
            "seconds in the model": round(kept.usage.seconds, 3),
        },
    )


@dg.op(out=_WINDOW, tags={"pc/step": "validate"})
def validate(
    context: dg.OpExecutionContext, window: dict[str, Any], store: StoreResource
) -> Iterator[dg.Output[dict[str, Any]]]:
    """Judge the answer before anything is written; a refused one fails its checks here."""
    window_id = window["window_id"]
    try:
        judged = judge_window(store.db, store.settings, window_id)
        if not judged.refused:
            yield dg.Output(
                window,
                "window",
                metadata={
                    "proposals accepted": len(judged.verdict.kept),
                    "proposals rejected": len(judged.verdict.rejected),
                },
            )
            return
        row = read_window(store.db, window_id)
        error = refuse(store.db, store.settings, window_id, judged)
        after = read_window(store.db, window_id)
    except StoreError as unusable:
        if _overtaken(context, store, window_id):
            return
        raise failure(unusable) from None
    key = context.partition_key
    evaluations = reports.check_evaluations(context.instance, key, row, judged=judged)
    reports.log_checks(context, evaluations)
    raise dg.Failure(
        f"{error.message}. Nothing was written; {reports.what_follows(after)}.",
        metadata={
            "window status": after.status,
            "attempt": after.attempt,
            "failures that count": after.counted_failures,
            "rejected proposals": reports.rejects_table([vars(i) for i in judged.verdict.rejected]),
        },
        allow_retries=False,
    )


@dg.op(out=_WINDOW, tags={"pc/step": "commit"})
def commit(
    context: dg.OpExecutionContext, window: dict[str, Any], store: StoreResource
) -> Iterator[dg.Output[dict[str, Any]]]:
    """Write the memory's new revision and the cursor in one transaction."""
    window_id = window["window_id"]
    try:
        done = commit_window(store.db, store.settings, window_id, run_id=context.run_id)
    except StoreError as error:
        if _overtaken(context, store, window_id):
            return
        raise failure(error) from None
    row = done.window
    assert row is not None
    yield dg.Output(
        window,
        "window",
        metadata={"memory revision": row.memory_revision or 0, "cursor after": done.current_cursor},
    )


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
    try:
        row = read_window(store.db, window["window_id"])
        status = scope_status(store.db, row.scope_id)
    except StoreError as error:
        raise failure(error) from None
    yield dg.Output(None, "result", metadata=reports.window_metadata(row, status))
    # A partitioned check that passes before its materialisation would show as missing.
    for check, broken in reports.committed_offenders(row).items():
        yield dg.AssetCheckResult(
            asset_key=reports.MEMORY_WINDOWS,
            check_name=check,
            **reports.check_values(check, broken, row, refused=False),
        )
    context.log_event(materialization(status))


def _nothing_to_do(context: dg.OpExecutionContext, why: str, window: WindowRow | None) -> None:
    """End a run well without a result; its log and the asset's events say why.

    The run had announced results of the checks, and Dagster would show them as missing from now
    on, so those of the window as it was processed are given again.
    """
    context.log.info(why)
    context.log_event(
        dg.AssetObservation(
            reports.MEMORY_WINDOWS, partition=context.partition_key, description=why
        )
    )
    if window is not None and window.status == "processed":
        key = context.partition_key
        reports.log_checks(context, reports.check_evaluations(context.instance, key, window))


def _overtaken(context: dg.OpExecutionContext, store: StoreResource, window_id: str) -> bool:
    """Whether another run has ended the window, which is no failure of this one."""
    try:
        window = read_window(store.db, window_id)
    except StoreError:
        return False
    if window.status in OPEN or window.status in ("split", "quarantined"):
        return False
    winner = "another" if window.run_id == context.run_id else f"run {window.run_id}"
    _nothing_to_do(
        context,
        f"{context.partition_key} is {window.status}: {winner} was faster, this run wrote nothing.",
        window,
    )
    return True


@dg.graph_asset(
    ins={
        "source_log": dg.AssetIn(
            "source_log",
            dagster_type=dg.Nothing,
            partition_mapping=partitions.NONE_IN_PARTICULAR,
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
