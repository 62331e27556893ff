"""Jobs: one window, one landing folder, a backlog drained in one run, and the nightly upkeep."""

import time
from typing import Any

import dagster as dg

from pc_pipelines import partitions, reports
from pc_pipelines.assets.memory import materialization
from pc_pipelines.resources import StoreResource
from pc_store.errors import CursorConflict, NotFound, StoreError
from pc_store.services.administer import get_scope_by_key, scope_status
from pc_store.services.ask import ask
from pc_store.services.begin import alive, open_next
from pc_store.services.clock import now_us
from pc_store.services.extract import commit_window, judge_window, refuse
from pc_store.services.watch import keyed, list_windows, read_window

memory_extraction = dg.define_asset_job(
    "memory_extraction",
    selection=["memory_windows"],
    description="Extract one window, the partition, into its scope's memory.",
)

source_ingestion = dg.define_asset_job(
    "source_ingestion",
    selection=["source_log"],
    description="Take in the landing files of one scope, the partition.",
)


@dg.op(
    config_schema={
        "scopes": dg.Field([str], description="Scope keys, as the scope partitions spell them."),
        "budget_s": dg.Field(
            float, is_required=False, description="No window is begun after this many seconds."
        ),
    },
    pool="llm",
)
def drain(context: dg.OpExecutionContext, store: StoreResource) -> None:
    """Process windows one after another, scope by scope in turn, each reported by itself.

    A scope ends at the high watermark read when the run began, or with its first failed
    window, which is recorded as every failed window is; the other scopes go on.
    """
    budget_s = context.op_config.get("budget_s", store.settings.drain_budget_s)
    deadline = time.monotonic() + budget_s
    pending = {}
    failed: dict[str, str] = {}
    for key in context.op_config["scopes"]:
        try:
            scope = get_scope_by_key(store.db, key)
            pending[key] = (scope, scope_status(store.db, scope.scope_id).high_watermark)
        except NotFound as error:
            failed[key] = error.message
    done = 0
    with alive(store.db, context.run_id, every_s=store.settings.lease_s / 4):
        while pending and (done == 0 or time.monotonic() < deadline):
            for key, (scope, until) in list(pending.items()):
                try:
                    reached = _drain_one(context, store, scope.scope_id)
                except StoreError as error:
                    failed[key] = error.message
                    context.log.warning(f"{scope.scope_id}: {error.message}")
                    del pending[key]
                    continue
                done += 1
                if reached is None or reached >= until:
                    del pending[key]
                if time.monotonic() > deadline:
                    break
    context.log.info(f"{done} windows, {len(pending)} scopes left for the next run")
    if failed:
        first = "; ".join(f"{key}: {message}" for key, message in list(failed.items())[:5])
        raise dg.Failure(
            f"{len(failed)} of {len(context.op_config['scopes'])} scopes failed: {first}",
            allow_retries=False,
        )


def _drain_one(context: dg.OpExecutionContext, store: StoreResource, scope_id: str) -> int | None:
    """Process a scope's next window and report it; the cursor afterwards, None when idle."""
    opened = open_next(
        store.db, store.settings, scope_id, "memory", run_id=context.run_id, now_us=now_us()
    )
    window = opened.window
    if window is None:
        return None
    ((key, _),) = keyed(store.db, [window])
    partition = str(key)
    context.instance.add_dynamic_partitions(
        partitions.set_name(partitions.memory_windows), [partition]
    )
    try:
        ask(store.db, store.settings, store.proposer, window.window_id)
        judged = judge_window(store.db, store.settings, window.window_id)
        if judged.refused:
            for evaluation in reports.check_evaluations(judged, partition, window):
                context.log_event(evaluation)
            raise refuse(store.db, store.settings, window.window_id, judged)
        processed = commit_window(store.db, store.settings, window.window_id, run_id=context.run_id)
    except CursorConflict as lost:
        context.log.info(f"{partition}: {lost.message}")
        return opened.cursor
    row = read_window(store.db, window.window_id)
    status = scope_status(store.db, scope_id)
    context.log_event(
        dg.AssetMaterialization(
            asset_key=reports.MEMORY_WINDOWS,
            partition=partition,
            metadata=reports.window_metadata(row, status),
        )
    )
    for evaluation in reports.check_evaluations(judged, partition, row):
        context.log_event(evaluation)
    context.log_event(materialization(status))
    return processed.current_cursor


@dg.job(description="Drain one scope's backlog, or sweep the windows of many, in one run.")
def memory_drain() -> None:
    """The drain op."""
    drain()


@dg.op
def prune_window_partitions(context: dg.OpExecutionContext, store: StoreResource) -> None:
    """Keep the newest PC_WINDOW_PARTITIONS_KEPT window keys; the ledger keeps every window.

    Keys of windows that are still to be worked on stay. A pruned window can be brought back by
    adding its key in the UI.
    """
    name = partitions.set_name(partitions.memory_windows)
    keys = context.instance.get_dynamic_partitions(name)
    surplus = len(keys) - store.settings.window_partitions_kept
    open_keys = {
        str(key)
        for key, _ in list_windows(
            store.db, consumer="memory", statuses=("planned", "running", "failed"), limit=100_000
        )
    }
    removed = 0
    for key in keys[: max(0, surplus)]:  # the instance lists keys in the order they were added
        if key not in open_keys:
            context.instance.delete_dynamic_partition(name, key)
            removed += 1
    context.log.info(f"{removed} of {len(keys)} window keys pruned")


@dg.job(description="Nightly upkeep: prune old window partitions.")
def upkeep() -> None:
    """The upkeep ops."""
    prune_window_partitions()


integrity_audit = dg.define_asset_job(
    "integrity_audit",
    selection=dg.AssetSelection.checks_for_assets("source_log", "memory"),
    description="Run every check on the ledger's state.",
)

ALL: list[Any] = [memory_extraction, source_ingestion, memory_drain, upkeep, integrity_audit]
