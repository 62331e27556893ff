"""`source_log_observer`: shows logs that grew, whoever wrote to them."""

import json

import dagster as dg

from pc_pipelines import partitions
from pc_pipelines.resources import StoreResource
from pc_pipelines.sensors.patience import skips_while_the_store_is_away
from pc_store.services.administer import scope_keys
from pc_store.services.capture import logs_changed_since
from pc_store.services.clock import now_us

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
    """At most 200 scopes a tick, oldest change first.

    A change is stamped before it waits for the ledger's lock, so one may appear behind another
    that was seen already. The cursor therefore stays a lock's wait behind, and names what it
    has seen since.
    """
    since, seen = json.loads(context.cursor) if context.cursor else (0, {})
    changed = logs_changed_since(store.db, since, limit=EVENTS_MAX + len(seen))
    new = [(scope, high, at) for scope, high, at in changed if seen.get(scope) != high]
    if not new:
        return dg.SkipReason("no log has grown")
    left = {scope for scope, _, _ in new[EVENTS_MAX:]}
    new = new[:EVENTS_MAX]
    keys = scope_keys(store.db, [scope for scope, _, _ in new])
    settled = now_us() - int((store.settings.database_wait_s + 5) * 1_000_000)
    done = [row for row in changed if row[0] not in left]
    left_since = min((at for scope, _, at in changed if scope in left), default=settled)
    since = max([since, *(at for _, _, at in done if at <= min(settled, left_since))])
    seen = {scope: high for scope, high, at in done if at >= since}
    return dg.SensorResult(
        asset_events=[
            dg.AssetObservation(
                asset_key="source_log",
                partition=keys[scope],
                metadata={"scope": scope, "high watermark": high},
                tags={"dagster/data_version": str(high)},
            )
            for scope, high, _ in new
        ],
        dynamic_partitions_requests=[partitions.scopes.build_add_request(sorted(keys.values()))],
        cursor=json.dumps([since, seen]),
        skip_reason=f"{len(new)} logs that have grown were observed",
    )
