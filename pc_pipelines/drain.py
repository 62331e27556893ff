"""The drain ops, one a set: many windows in one run, each reported as a partition of its own.

A run's start costs seconds of CPU, so backlogs and sweeps over many scopes share one.
"""

import time
from dataclasses import dataclass, field

import dagster as dg

from pc_pipelines import reports
from pc_pipelines.resources import StoreResource
from pc_pipelines.window_sets import WindowSet
from pc_store.errors import Conflict, ModelMisconfigured, ModelUnavailable, StoreError
from pc_store.services.administer import get_scope_by_key, scope_status
from pc_store.services.ask import ask
from pc_store.services.begin import open_next
from pc_store.services.clock import now_us
from pc_store.services.plan import pass_over
from pc_store.services.settle import commit_window, judge_window, refuse
from pc_store.services.watch import keyed, read_window

_SAME_FOR_ALL_AFTER = 3
"""Scopes that meet a dead or refusing model one after another before the rest are spared it."""


@dataclass
class _Tally:
    """How a run goes: windows by scope key, and why scopes were given up."""

    processed: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    model_down_in_a_row: int = 0


def drain(windows: WindowSet) -> dg.OpDefinition:
    """The op that drains scopes of their windows."""

    @dg.op(
        name=f"{windows.consumer}_drain_windows",
        config_schema={
            "scopes": dg.Field(
                [str], description="Scope keys, as the scope partitions spell them."
            ),
            "budget_s": dg.Field(
                float,
                is_required=False,
                description=(
                    "No window is begun after this many seconds; PC_DRAIN_BUDGET_S if unset."
                ),
            ),
        },
        out=dg.Out(dg.Nothing),
        pool="llm",
    )
    def drain_windows(context: dg.OpExecutionContext, store: StoreResource) -> dg.Output[None]:
        """Process windows one after another, scope by scope in turn, each reported by itself.

        A scope ends at the high watermark read when the run began, or with its first failed
        window, which is recorded as every failed window is; the other scopes go on.
        """
        return _drained(windows, context, store)

    return drain_windows


def _drained(
    windows: WindowSet, context: dg.OpExecutionContext, store: StoreResource
) -> dg.Output[None]:
    budget_s = context.op_config.get("budget_s", store.settings.drain_budget_s)
    deadline = time.monotonic() + budget_s
    keys = list(dict.fromkeys(context.op_config["scopes"]))
    tally = _Tally()
    pending: dict[str, tuple[str, int]] = {}
    for key in keys:
        try:
            scope_id = get_scope_by_key(store.db, key).scope_id
            pending[key] = scope_id, scope_status(store.db, scope_id).high_watermark
        except StoreError as error:
            tally.failed[key] = error.message
    begun = 0
    while pending and tally.model_down_in_a_row < _SAME_FOR_ALL_AFTER:
        for key, (scope_id, until) in list(pending.items()):
            if begun and time.monotonic() > deadline:
                break
            begun += 1
            try:
                reached = _drain_one(windows, context, store, key, scope_id, tally)
            except StoreError as error:
                tally.failed[key] = error.message
                context.log.warning(f"{scope_id!r}: {error.message}")
                del pending[key]
                down = isinstance(error, ModelUnavailable | ModelMisconfigured)
                tally.model_down_in_a_row = tally.model_down_in_a_row + 1 if down else 0
                if tally.model_down_in_a_row >= _SAME_FOR_ALL_AFTER:
                    break
                continue
            tally.model_down_in_a_row = 0
            if reached >= until:
                del pending[key]
        else:
            continue
        break
    done = sum(tally.processed.values())
    context.log.info(
        f"{done} windows of {len(tally.processed)} scopes processed; {len(tally.failed)} scopes "
        f"failed, {len(pending)} are left for the next run"
    )
    if tally.failed:
        raise _failure(tally, len(keys), left=len(pending))
    return dg.Output(
        None,
        metadata={
            "windows": done,
            "scopes": len(keys),
            "scopes left for the next run": len(pending),
        },
    )


def _drain_one(
    windows: WindowSet,
    context: dg.OpExecutionContext,
    store: StoreResource,
    key: str,
    scope_id: str,
    tally: _Tally,
) -> int:
    """Process a scope's next window and report it.

    Returns:
        Where the cursor is then; the log's end when nothing of it waits for the consumer.
    """
    family, db, settings = windows.family, store.db, store.settings
    if not pass_over(db, settings, scope_id, windows.consumer, now_us=now_us()):
        return scope_status(db, scope_id).high_watermark
    opened = open_next(
        db, settings, scope_id, windows.consumer, run_id=context.run_id, now_us=now_us()
    )
    window = opened.window
    if window is None:
        return opened.high_watermark
    ((window_key, _),) = keyed(db, [window])
    partition = str(window_key)
    context.instance.add_dynamic_partitions(windows.set_name, [partition])
    try:
        ask(family, db, settings, windows.author(store), window.window_id)
        judged = judge_window(family, db, settings, window.window_id)
        if judged.refused:
            evaluations = reports.check_evaluations(
                windows, context.instance, partition, window, judged=judged
            )
            reports.log_checks(context, evaluations)
            raise refuse(db, settings, window.window_id, judged)
        processed = commit_window(family, db, settings, window.window_id, run_id=context.run_id)
    except Conflict as lost:  # somebody else was faster, or the memory moved: look again
        context.log.info(f"{partition}: {lost.message}")
        return opened.cursor
    row = read_window(db, window.window_id)
    status = scope_status(db, scope_id)
    context.log_event(reports.window_materialization(windows, partition, row, status))
    evaluations = reports.check_evaluations(windows, context.instance, partition, row)
    reports.log_checks(context, evaluations)
    if windows.standing is not None:
        context.log_event(windows.standing(status))
    tally.processed[key] = tally.processed.get(key, 0) + 1
    return processed.current_cursor


def _failure(tally: _Tally, scopes: int, *, left: int) -> dg.Failure:
    first = "; ".join(f"{key}: {message}" for key, message in list(tally.failed.items())[:3])
    more = f"; and {len(tally.failed) - 3} more" if len(tally.failed) > 3 else ""
    return dg.Failure(
        f"{len(tally.failed)} of {scopes} scopes failed, the others went on: {first}{more}",
        metadata={
            "windows": sum(tally.processed.values()),
            "scopes": scopes,
            "scopes left for the next run": left,
            "failed scopes": dg.MetadataValue.table(
                [
                    dg.TableRecord({"scope": key, "reason": message})
                    for key, message in list(tally.failed.items())[:100]
                ]
            ),
        },
        allow_retries=False,
    )
