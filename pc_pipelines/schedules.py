"""Schedules: nightly compaction, upkeep and audit. Windows are not scheduled, sensors find them."""

import dagster as dg

from pc_pipelines import jobs
from pc_pipelines.resources import StoreResource
from pc_pipelines.sensors.search_index_due import build_request
from pc_store.errors import StoreBusy, StoreUnavailable
from pc_store.services.clock import now_us


@dg.schedule(
    name="nightly_compaction",
    job=jobs.search_index_build,
    cron_schedule="40 2 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description=(
        "Builds shards of the search index anew of which more than a tenth is no longer "
        "current, at 02:40 UTC."
    ),
)
def nightly_compaction(
    context: dg.ScheduleEvaluationContext, store: StoreResource
) -> list[dg.RunRequest] | dg.SkipReason:
    """One run a shard; the shards a build would change anyway are left to the sensor."""
    from pc_store.services.index import status

    try:
        wasteful = [one for one in status(store.db, store.settings) if one.wasteful is not None]
    except (StoreBusy, StoreUnavailable) as error:
        return dg.SkipReason(f"{error.message}; trying again tomorrow")
    if not wasteful:
        return dg.SkipReason("every shard is compact")
    for one in wasteful:
        context.log.info(f"{one.name}: {one.wasteful}")
    return [build_request(one, now_us()) for one in wasteful]


ALL = [
    nightly_compaction,
    dg.ScheduleDefinition(
        name="nightly_upkeep",
        description="Prunes old window partitions and runs, at 03:10 UTC.",
        job=jobs.upkeep,
        cron_schedule="10 3 * * *",
        default_status=dg.DefaultScheduleStatus.RUNNING,
    ),
    dg.ScheduleDefinition(
        name="nightly_audit",
        description="Runs every check on the ledger's state, at 03:40 UTC.",
        job=jobs.integrity_audit,
        cron_schedule="40 3 * * *",
        default_status=dg.DefaultScheduleStatus.RUNNING,
    ),
]
