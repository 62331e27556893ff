"""`dead_runs`: ends runs whose process is gone."""

import dagster as dg

from pc_pipelines.resources import StoreResource
from pc_pipelines.sensors.patience import skips_while_the_store_is_away
from pc_store.services.clock import now_us
from pc_store.services.watch import last_beats


@dg.sensor(
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Reports runs failed whose process no longer gives a sign of life.",
)
@skips_while_the_store_is_away
def dead_runs(
    context: dg.SensorEvaluationContext, store: StoreResource
) -> dg.SensorResult | dg.SkipReason:
    """After a crash of the whole machine such runs would stay started and block their lanes."""
    records = context.instance.get_run_records(
        filters=dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])
    )
    beats = last_beats(store.db, [record.dagster_run.run_id for record in records])
    oldest = now_us() - int(store.settings.lease_s * 1_000_000)
    dead = [
        record.dagster_run
        for record in records
        if (beat := beats.get(record.dagster_run.run_id)) is not None and beat < oldest
    ]
    for run in dead:
        context.instance.report_run_failed(
            run, f"its process gave no sign of life for {store.settings.lease_s:g} s"
        )
    return dg.SkipReason(f"{len(dead)} of {len(records)} started runs were dead")
