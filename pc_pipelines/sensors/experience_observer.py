"""`experience_observer`: shows what people's decisions made of the experiences."""

import dagster as dg

from pc_pipelines import partitions
from pc_pipelines.assets.experience import materialization
from pc_pipelines.resources import StoreResource
from pc_pipelines.sensors.changes import unseen_changes
from pc_pipelines.sensors.patience import skips_while_the_store_is_away
from pc_store.services.watch_experience import ExperienceStanding, experiences_changed_since

EVENTS_MAX = 200


@dg.sensor(
    minimum_interval_seconds=15,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Reports the scopes with approvals or changed lifecycles since: how many experiences are "
        "active, deprecated and retired, and their revisions."
    ),
)
@skips_while_the_store_is_away
def experience_observer(
    context: dg.SensorEvaluationContext, store: StoreResource
) -> dg.SensorResult | dg.SkipReason:
    """At most 200 scopes a tick, oldest change first."""

    def look(since: int, limit: int) -> list[tuple[str, str | int, int, ExperienceStanding]]:
        changed = experiences_changed_since(store.db, since, limit=limit)
        return [(one.scope_id, one.version, at, one) for one, at in changed]

    new, cursor = unseen_changes(context.cursor, store, look, most=EVENTS_MAX)
    if not new:
        return dg.SkipReason("no experience was approved or changed its lifecycle")
    keys = sorted(standing.scope_key for standing in new)
    return dg.SensorResult(
        asset_events=[materialization(standing) for standing in new],
        dynamic_partitions_requests=[partitions.scopes.build_add_request(keys)],
        cursor=cursor,
        skip_reason=f"the experiences of {len(new)} scopes were reported",
    )
