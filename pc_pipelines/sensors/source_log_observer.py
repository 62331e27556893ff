"""`source_log_observer`: shows logs that grew, whoever wrote to them."""

import dagster as dg

from pc_pipelines import partitions
from pc_pipelines.resources import StoreResource
from pc_pipelines.sensors.changes import unseen_changes
from pc_pipelines.sensors.patience import skips_while_the_store_is_away
from pc_store.services.administer import scope_keys
from pc_store.services.capture import logs_changed_since

EVENTS_MAX = 200


@dg.sensor(
    minimum_interval_seconds=15,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Observes logs that grew: high watermark and data version of each changed scope.",
)
@skips_while_the_store_is_away
def source_log_observer(
    context: dg.SensorEvaluationContext, store: StoreResource
) -> dg.SensorResult | dg.SkipReason:
    """At most 200 scopes a tick, oldest change first."""

    def look(since: int, limit: int) -> list[tuple[str, str | int, int, tuple[str, int]]]:
        changed = logs_changed_since(store.db, since, limit=limit)
        return [(scope, high, at, (scope, high)) for scope, high, at in changed]

    new, cursor = unseen_changes(context.cursor, store, look, most=EVENTS_MAX)
    if not new:
        return dg.SkipReason("no log has grown")
    keys = scope_keys(store.db, [scope for scope, _ in new])
    return dg.SensorResult(
        asset_events=[
            dg.AssetObservation(
                asset_key="source_log",
                partition=keys[scope],
                metadata={"scope": scope, "high watermark": high},
                tags={"dagster/data_version": str(high)},
            )
            for scope, high in new
        ],
        dynamic_partitions_requests=[partitions.scopes.build_add_request(sorted(keys.values()))],
        cursor=cursor,
        skip_reason=f"{len(new)} logs that have grown were observed",
    )
