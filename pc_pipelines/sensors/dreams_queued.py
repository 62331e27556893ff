"""`dreams_queued`: asks for a run while dreams wait and none is at work on them."""

import time

import dagster as dg

from pc_pipelines import jobs
from pc_pipelines.resources import StoreResource
from pc_pipelines.sensors.patience import (
    lane_keys,
    skips_while_the_store_is_away,
    unfinished_runs,
)
from pc_store.services.clock import now_us
from pc_store.services.dream import Waiting, waiting

LANE = "dream"
KEY = "all"
"""One run works on the dreams of all scopes, so there is one lane."""
LOOK_FOR_S = 4.0
"""How long a tick looks for a dream. The daemon comes round to a sensor every five seconds; most
of these the tick itself looks, a query every quarter of a second, so that a dream starts sooner.
A tick that has not ended when the daemon comes round, or an interval of all five seconds, costs
the next turn."""
_LOOK_EVERY_S = 0.25


@dg.sensor(
    job=jobs.dream,
    minimum_interval_seconds=1,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Asks for a run when dreams wait, or were left by a worker that is gone. One run works on "
        "all of them, and goes before the windows' runs in the queue. A tick looks for 4 seconds."
    ),
)
@skips_while_the_store_is_away
def dreams_queued(
    context: dg.SensorEvaluationContext, store: StoreResource
) -> dg.SensorResult | dg.SkipReason:
    """At most one run at a time: it never takes the windows more than one place."""
    if not store.settings.dream_enabled:
        return dg.SkipReason("dreams are switched off: PC_DREAM_ENABLED")
    if lane_keys(unfinished_runs(context.instance), LANE):
        return dg.SkipReason("a run is at work, which looks for further dreams itself")
    found = _found(store)
    if not found.due:
        return dg.SkipReason(f"no dream is due; {found.pending} are worked on or wait a little")
    return dg.SensorResult(
        run_requests=[
            dg.RunRequest(
                run_key=f"{LANE}#{now_us()}",
                tags={"pc/lane": f"{LANE}/{KEY}", "dagster/priority": "1"},
            )
        ]
    )


def _found(store: StoreResource) -> Waiting:
    until = time.monotonic() + LOOK_FOR_S
    while not (found := waiting(store.db, now_us=now_us())).due and time.monotonic() < until:
        time.sleep(_LOOK_EVERY_S)
    return found
