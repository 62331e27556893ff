"""The asset of a set of windows: one partition is one window of one scope's log.

Five ops, so that the run page shows where time went, and a re-execution from a failed commit
does not ask the model again: the answer waits in the ledger, ops hand each other ids only.
A run that has nothing to do, or that another run has overtaken, ends well and writes nothing.

Dagster wants the ops of a code location to have different names, so each set has its own; inside
its asset they are called by what they do, in all sets alike.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg

from pc_pipelines import partitions, reports
from pc_pipelines.failures import failure
from pc_pipelines.resources import StoreResource
from pc_pipelines.window_sets import WindowSet
from pc_store.domain.window import OPEN
from pc_store.errors import GenerationEnded, StoreError
from pc_store.ledger.windows import WindowRow
from pc_store.services.administer import scope_status
from pc_store.services.ask import ask
from pc_store.services.begin import open_named
from pc_store.services.clock import now_us
from pc_store.services.settle import commit_window, judge_window, refuse
from pc_store.services.watch import read_window

_MODES = (
    "auto: process the window at the cursor and leave those behind it alone. replay: run a "
    "window behind the cursor again, e.g. after a prompt change; the cursor stays."
)
_CONFIG = {
    "mode": dg.Field(
        dg.Enum("WindowMode", [dg.EnumValue("auto"), dg.EnumValue("replay")]),
        default_value="auto",
        description=_MODES,
    )
}
_CONFIG_WITH_SHADOWS = {
    "mode": dg.Field(
        dg.Enum("ShadowMode", [dg.EnumValue(mode) for mode in ("auto", "replay", "shadow")]),
        default_value="auto",
        description=(
            f"{_MODES} shadow: the same, but the results are kept in a generation, to be compared "
            "with the memory and promoted or discarded; what many windows should be run with."
        ),
    ),
    "generation": dg.Field(
        str,
        is_required=False,
        description="shadow: the name of the generation; made if there is none.",
    ),
}
_WINDOW = {"window": dg.Out(dict, is_required=False)}

Outputs = Iterator[dg.Output[dict[str, Any]]]


def window_asset(windows: WindowSet, *, description: str) -> dg.AssetsDefinition:
    """The asset of a set: open, ask, validate, commit, report; its checks come from the family."""
    open_window = _open_window(windows).alias("open_window")
    ask_model = _ask_model(windows).alias("ask_model")
    validate = _validate(windows).alias("validate")
    commit = _commit(windows).alias("commit")
    report = _report(windows).alias("report")

    @dg.graph_asset(
        name=windows.asset,
        ins={
            "source_log": dg.AssetIn(
                "source_log",
                dagster_type=dg.Nothing,
                partition_mapping=partitions.NONE_IN_PARTICULAR,
            )
        },
        config=dg.ConfigMapping(
            config_schema=_config(windows),
            config_fn=lambda config: {"open_window": {"config": config}},
        ),
        partitions_def=windows.partitions,
        group_name=windows.consumer,
        kinds={"llm"},
        check_specs=[
            dg.AssetCheckSpec(
                check,
                asset=windows.asset,
                description=asserts,
                blocking=True,
                partitions_def=windows.partitions,
            )
            for check, asserts in windows.family.checks.items()
        ],
        description=description,
    )
    def asset(source_log):  # type: ignore[no-untyped-def]
        """Open, ask, validate, commit, report."""
        outputs = report(commit(validate(ask_model(open_window(source_log)))))
        return {
            "result": outputs[0],
            **{name: getattr(outputs, name) for name in _check_outputs(windows).values()},
        }

    return asset


def _check_outputs(windows: WindowSet) -> Mapping[str, str]:
    """The names of the outputs that carry check results, by check."""
    return {check: f"{windows.asset}_{check}" for check in windows.family.checks}


def _config(windows: WindowSet) -> dict[str, dg.Field]:
    return _CONFIG_WITH_SHADOWS if windows.shadows else _CONFIG


def _open_window(windows: WindowSet) -> dg.OpDefinition:
    @dg.op(
        name=f"{windows.consumer}_open_window",
        config_schema=_config(windows),
        ins={"source_log": dg.In(dg.Nothing)},
        out=_WINDOW,
        tags={"pc/step": "open"},
    )
    def open_window(context: dg.OpExecutionContext, store: StoreResource) -> Outputs:
        """Fix the window that the partition names, and begin an attempt at it."""
        key = partitions.window_key(context.partition_key)
        try:
            opened = open_named(
                store.db,
                key,
                windows.consumer,
                mode=context.op_config["mode"],
                run_id=context.run_id,
                now_us=now_us(),
                generation=context.op_config.get("generation"),
            )
        except StoreError as error:
            raise failure(error) from None
        window = opened.window
        if opened.status == "already processed" and window is not None and window.generation:
            _told_again(windows, context, window)
            return
        if opened.status != "open" or window is None:
            again = " Launch it with mode: replay to run it again."
            _nothing_to_do(
                windows,
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
                **({"generation": window.generation} if window.generation else {}),
                "attempt": window.attempt,
                reports.WINDOW_ID: window.window_id,
            },
        )

    return open_window


def _ask_model(windows: WindowSet) -> dg.OpDefinition:
    @dg.op(
        name=f"{windows.consumer}_ask_model",
        pool="llm",
        out=_WINDOW,
        retry_policy=dg.RetryPolicy(
            max_retries=2, delay=5, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS
        ),
        tags={"pc/step": "ask"},
    )
    def ask_model(
        context: dg.OpExecutionContext, window: dict[str, Any], store: StoreResource
    ) -> Outputs:
        """Show the sources to the proposer; the answer is kept in the ledger."""
        window_id = window["window_id"]
        try:
            author = windows.author(store)
            kept = ask(windows.family, store.db, store.settings, author, window_id)
            row = read_window(store.db, window_id)
        except StoreError as error:
            if _overtaken(windows, context, store, window_id, error):
                return
            raise failure(error) from None
        except Exception as error:  # a bug, which asking again would only pay for twice
            raise dg.Failure(f"{type(error).__name__}: {error}", allow_retries=False) from error
        seen = {"sources": len(kept.evidence), "filtered": sum(kept.filtered.values())}
        seen["shown"] = len(kept.shown)
        yield dg.Output(
            window,
            "window",
            metadata={
                "provider": row.provider or "none asked",
                "model": row.model or "none asked",
                "prompt": f"{row.prompt_key}, {row.prompt_revision}",
                **reports.labelled(windows, seen),
                "proposals": len(kept.proposals) + len(kept.rejected),
                "answer reused": kept.reused,
                "model calls": kept.usage.calls,
                "tokens in": kept.usage.tokens_in,
                "tokens out": kept.usage.tokens_out,
                "seconds in the model": round(kept.usage.seconds, 3),
            },
        )

    return ask_model


def _validate(windows: WindowSet) -> dg.OpDefinition:
    @dg.op(name=f"{windows.consumer}_validate", out=_WINDOW, tags={"pc/step": "validate"})
    def validate(
        context: dg.OpExecutionContext, window: dict[str, Any], store: StoreResource
    ) -> Outputs:
        """Judge the answer before anything is written; a refused one fails its checks here."""
        window_id = window["window_id"]
        try:
            judged = judge_window(windows.family, store.db, store.settings, window_id)
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
            if _overtaken(windows, context, store, window_id, unusable):
                return
            raise failure(unusable) from None
        evaluations = reports.check_evaluations(
            windows, context.instance, context.partition_key, row, judged=judged
        )
        reports.log_checks(context, evaluations)
        raise dg.Failure(
            f"{error.message}. Nothing was written; {reports.what_follows(windows, after)}.",
            metadata={
                "window status": after.status,
                "attempt": after.attempt,
                "failures that count": after.counted_failures,
                "rejected proposals": reports.rejects_table(
                    [vars(item) for item in judged.verdict.rejected]
                ),
            },
            allow_retries=False,
        )

    return validate


def _commit(windows: WindowSet) -> dg.OpDefinition:
    @dg.op(name=f"{windows.consumer}_commit", out=_WINDOW, tags={"pc/step": "commit"})
    def commit(
        context: dg.OpExecutionContext, window: dict[str, Any], store: StoreResource
    ) -> Outputs:
        """Write what was accepted, and the cursor, in one transaction."""
        window_id = window["window_id"]
        try:
            done = commit_window(
                windows.family, store.db, store.settings, window_id, run_id=context.run_id
            )
        except StoreError as error:
            if _overtaken(windows, context, store, window_id, error):
                return
            raise failure(error) from None
        row = done.window
        assert row is not None
        yield dg.Output(
            window,
            "window",
            metadata={
                **reports.made(row, done.candidate_ids),
                "cursor after": done.current_cursor,
            },
        )

    return commit


def _report(windows: WindowSet) -> dg.OpDefinition:
    @dg.op(
        name=f"{windows.consumer}_report",
        out={
            "result": dg.Out(dg.Nothing),
            **{name: dg.Out(is_required=False) for name in _check_outputs(windows).values()},
        },
        tags={"pc/step": "report"},
    )
    def report(
        context: dg.OpExecutionContext, window: dict[str, Any], store: StoreResource
    ) -> Iterator[Any]:
        """Say what the window did, for its partition, its checks and where the scope stands."""
        try:
            row = read_window(store.db, window["window_id"])
            status = scope_status(store.db, row.scope_id)
        except StoreError as error:
            raise failure(error) from None
        yield dg.Output(None, "result", metadata=reports.window_metadata(windows, row, status))
        # A partitioned check that passes before its materialisation would show as missing.
        for check, broken in reports.committed_offenders(windows, row).items():
            yield dg.AssetCheckResult(
                asset_key=windows.asset_key,
                check_name=check,
                **reports.check_values(windows, check, broken, row, refused=False),
            )
        if windows.standing is not None and row.kind != "shadow":
            context.log_event(windows.standing(status))

    return report


def _told_again(windows: WindowSet, context: dg.OpExecutionContext, window: WindowRow) -> None:
    """Report a window that its generation has already, so that a repeated backfill counts it."""
    key = context.partition_key
    context.log.info(f"{key} is in generation {window.generation} already: nobody was asked.")
    context.log_event(reports.window_materialization(windows, key, window, None))
    reports.log_checks(context, reports.check_evaluations(windows, context.instance, key, window))


def _nothing_to_do(
    windows: WindowSet, context: dg.OpExecutionContext, why: str, window: WindowRow | None
) -> None:
    """End a run well without a result; its log and the asset's events say why.

    The run had announced results of the checks, and Dagster would show them as missing from now
    on, so those of the window as it was processed are given again.
    """
    context.log.info(why)
    key = context.partition_key
    context.log_event(dg.AssetObservation(windows.asset_key, partition=key, description=why))
    if window is not None and window.status == "processed":
        evaluations = reports.check_evaluations(windows, context.instance, key, window)
        reports.log_checks(context, evaluations)


def _overtaken(
    windows: WindowSet,
    context: dg.OpExecutionContext,
    store: StoreResource,
    window_id: str,
    error: StoreError,
) -> bool:
    """Whether another run has ended the window, which is no failure of this one."""
    if isinstance(error, GenerationEnded):
        return False
    try:
        window = read_window(store.db, window_id)
    except StoreError:
        return False
    if window.status in OPEN or window.status in ("split", "quarantined"):
        return False
    winner = "another" if window.run_id == context.run_id else f"run {window.run_id}"
    why = (
        f"{context.partition_key} is {window.status}: {winner} was faster, this run wrote nothing."
    )
    _nothing_to_do(windows, context, why, window)
    return True
