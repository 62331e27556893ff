"""The nightly upkeep ops: Dagster's history is bounded, the ledger keeps everything.

Dagster has no retention for runs. Deleting a run deletes the events of its partitions with it,
so window keys go first, and a run stays while it is the one that shows where something stands.
"""

from datetime import UTC, datetime, timedelta

import dagster as dg
from dagster import DagsterEventType, DagsterInstance

from pc_pipelines import partitions, window_sets
from pc_pipelines.resources import StoreResource
from pc_store.domain.window import OPEN
from pc_store.services.clock import now_us
from pc_store.services.recalls import forget_recalls
from pc_store.services.watch import forget_beats, list_windows

RUNS_KEPT_DAYS = 30
_RUNS_LOOKED_AT = 2_000
_ENDED = [
    dg.DagsterRunStatus.SUCCESS,
    dg.DagsterRunStatus.FAILURE,
    dg.DagsterRunStatus.CANCELED,
]


@dg.op(out={"pruned": dg.Out(dg.Nothing)})
def prune_window_partitions(
    context: dg.OpExecutionContext, store: StoreResource
) -> dg.Output[None]:
    """Keep the newest PC_WINDOW_PARTITIONS_KEPT keys of each set; the ledger keeps every window.

    Keys of windows that are still to be worked on stay. A pruned window can be brought back by
    adding its key in the UI.
    """
    kept = pruned = 0
    for windows in window_sets.ALL:
        name = windows.set_name
        keys = context.instance.get_dynamic_partitions(name)  # in the order they were added
        surplus = max(0, len(keys) - store.settings.window_partitions_kept)
        at_work: set[str] = set()
        if surplus:
            found = list_windows(store.db, consumer=windows.consumer, statuses=OPEN, limit=100_000)
            at_work = {str(key) for key, _ in found}
        old = [key for key in keys[:surplus] if key not in at_work]
        for key in old:
            context.instance.delete_dynamic_partition(name, key)
        context.log.info(f"{len(old)} of {len(keys)} keys of {windows.asset} pruned")
        pruned += len(old)
        kept += len(keys) - len(old)
    return dg.Output(None, "pruned", metadata={"keys pruned": pruned, "keys kept": kept})


@dg.op(
    ins={"pruned": dg.In(dg.Nothing)},
    out=dg.Out(dg.Nothing),
    config_schema={
        "older_than_days": dg.Field(
            int, default_value=RUNS_KEPT_DAYS, description="Younger runs are kept."
        )
    },
)
def delete_old_runs(context: dg.OpExecutionContext) -> dg.Output[None]:
    """Delete old runs that nothing shows any more, at most 2,000 a night, oldest first.

    A run that is the latest to have materialised some partition stays, so that a scope or a
    window that is still listed keeps its state.
    """
    instance = context.instance
    before = datetime.now(UTC) - timedelta(days=context.op_config["older_than_days"])
    records = instance.get_run_records(
        filters=dg.RunsFilter(statuses=_ENDED, created_before=before),
        limit=_RUNS_LOOKED_AT,
        ascending=True,
    )
    listed = {
        **{one.asset_key: _keys(instance, one.partitions) for one in window_sets.ALL},
        dg.AssetKey("source_log"): _keys(instance, partitions.scopes),
        dg.AssetKey("memory"): _keys(instance, partitions.scopes),
        dg.AssetKey("experience"): _keys(instance, partitions.scopes),
        dg.AssetKey("failure_recurrences"): _keys(instance, partitions.scopes),
        dg.AssetKey("recurrence_reviews"): _keys(instance, partitions.scopes),
        dg.AssetKey("search_index"): set(partitions.shards.get_partition_keys()),
    }
    deleted = 0
    for record in records:
        run_id = record.dagster_run.run_id
        if not _shown(instance, run_id, listed):
            instance.delete_run(run_id)
            deleted += 1
    context.log.info(f"{deleted} of {len(records)} old runs deleted")
    return dg.Output(
        None, metadata={"runs deleted": deleted, "old runs kept": len(records) - deleted}
    )


@dg.op(out=dg.Out(dg.Nothing))
def forget_heartbeats(store: StoreResource) -> dg.Output[None]:
    """Forget the heartbeats of runs that were last alive as long ago as runs are kept."""
    before_us = now_us() - RUNS_KEPT_DAYS * 86_400_000_000
    return dg.Output(None, metadata={"heartbeats": forget_beats(store.db, before_us=before_us)})


@dg.op(out=dg.Out(dg.Nothing))
def forget_old_recalls(store: StoreResource) -> dg.Output[None]:
    """Drop what was recalled longer than PC_RECALL_DAYS ago from the log of recalls."""
    dropped = forget_recalls(store.db, days=store.settings.recall_days, now_us=now_us())
    return dg.Output(None, metadata={"recalls dropped": dropped})


@dg.op(out=dg.Out(dg.Nothing))
def remove_index_leftovers(store: StoreResource) -> dg.Output[None]:
    """Remove index files that no shard uses: of older formats, of builders that died."""
    from pc_store.services.index import remove_leftovers

    removed = remove_leftovers(store.db, store.settings)
    return dg.Output(None, metadata={"files removed": removed})


@dg.op(
    out=dg.Out(dg.Nothing),
    config_schema={
        "other_profiles": dg.Field(
            bool,
            default_value=False,
            description="Also those of embedders that neither settings nor an index file use.",
        )
    },
)
def prune_vectors(context: dg.OpExecutionContext, store: StoreResource) -> dg.Output[None]:
    """Delete the vectors of texts that nobody holds any more."""
    from pc_store.services.prune import prune

    deleted = prune(store.db, store.settings, other_profiles=context.op_config["other_profiles"])
    return dg.Output(None, metadata={"vectors deleted": deleted})


def _keys(instance: DagsterInstance, definition: dg.DynamicPartitionsDefinition) -> set[str]:
    return set(instance.get_dynamic_partitions(partitions.set_name(definition)))


def _shown(instance: DagsterInstance, run_id: str, listed: dict[dg.AssetKey, set[str]]) -> bool:
    """Whether the run holds the latest materialisation of a partition that is listed."""
    made: dict[dg.AssetKey, set[str]] = {}
    for entry in instance.all_logs(run_id, of_type=DagsterEventType.ASSET_MATERIALIZATION):
        event = entry.get_dagster_event()
        asset, partition = event.asset_key, event.partition
        if asset is not None and partition is not None and partition in listed.get(asset, ()):
            made.setdefault(asset, set()).add(partition)
    return any(
        latest.run_id == run_id
        for asset, keys in made.items()
        for key in keys
        for latest in instance.fetch_materializations(
            dg.AssetRecordsFilter(asset_key=asset, asset_partitions=[key]), limit=1
        ).records
    )
