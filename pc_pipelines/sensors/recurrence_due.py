"""`recurrence_due`: asks for runs where task outcomes wait, or reviews or drafts are due."""

import dagster as dg

from pc_pipelines import jobs, partitions
from pc_pipelines.resources import StoreResource
from pc_pipelines.sensors.patience import (
    lane_keys,
    skips_while_the_store_is_away,
    unfinished_runs,
)
from pc_store.services.clock import now_us
from pc_store.services.watch_recurrence import Due, due_scopes

REQUESTS_MAX = 20
"""Most runs asked for in one tick, and most that may be unfinished at a time."""
LANE = "recurrence"


@dg.sensor(
    job=jobs.recurrence,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Asks for a run of each scope with task outcomes to judge, with a failure that came back "
        "so often that its experience goes back to review, or with a review that wants a draft. "
        "Logs that grew by other things are passed over here."
    ),
)
@skips_while_the_store_is_away
def recurrence_due(
    context: dg.SensorEvaluationContext, store: StoreResource
) -> dg.SensorResult | dg.SkipReason:
    """At most 20 runs a tick, none for a scope that has one."""
    busy = lane_keys(unfinished_runs(context.instance), LANE)
    room = REQUESTS_MAX - len(busy)
    if room <= 0:
        return dg.SkipReason(f"{len(busy)} runs are unfinished; waiting for some to end")
    now = now_us()
    due = due_scopes(store.db, store.settings, busy=busy, limit=room, now_us=now)
    if not due:
        return dg.SkipReason("no task outcome waits, and no review or draft is due")
    return dg.SensorResult(
        run_requests=[_request(one, now) for one in due],
        dynamic_partitions_requests=[
            partitions.scopes.build_add_request(sorted(one.scope_key for one in due))
        ],
    )


def _request(due: Due, now: int) -> dg.RunRequest:
    why = [name for name in ("outcomes", "reviews", "drafts") if getattr(due, name)]
    return dg.RunRequest(
        run_key=f"{LANE} {due.scope_key}#{now}",
        partition_key=due.scope_key,
        tags={"pc/lane": f"{LANE}/{due.scope_key}", "pc/due": "-".join(why)},
    )
