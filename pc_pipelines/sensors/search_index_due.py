"""`search_index_due`: asks for the builds of shards that are behind the ledger."""

from typing import TYPE_CHECKING

import dagster as dg

from pc_pipelines import jobs
from pc_pipelines.resources import StoreResource
from pc_pipelines.sensors.patience import (
    lane_keys,
    skips_while_the_store_is_away,
    unfinished_runs,
)
from pc_store.services.clock import now_us

if TYPE_CHECKING:
    from pc_store.services.index import ShardStatus

REQUESTS_MAX = 16
"""Most builds asked for in one tick."""
ASK_AGAIN_S = 300
"""A shard whose build failed is asked for again after this long."""
LANE = "search_index"


@dg.sensor(
    job=jobs.search_index_build,
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Asks for a shard's build when more than 500 documents and 5 % of it changed, when a "
        "change has waited PC_INDEX_MAX_AGE_S, or when its file must not be used any more."
    ),
)
@skips_while_the_store_is_away
def search_index_due(
    context: dg.SensorEvaluationContext, store: StoreResource
) -> dg.SensorResult | dg.SkipReason:
    """One run a shard, none for a shard that has one; the ones furthest behind first."""
    from pc_store.services.index import status

    busy = lane_keys(unfinished_runs(context.instance), LANE)
    now = now_us()
    due = {
        one.name: (one, why)
        for one in sorted(status(store.db, store.settings), key=_urgency)
        if one.name not in busy and (why := one.due(store.settings, now_us=now)) is not None
    }
    if not due:
        return dg.SkipReason(f"no shard is due{f'; {len(busy)} are being built' if busy else ''}")
    for name, (_, why) in due.items():
        context.log.info(f"{name}: {why}")
    return dg.SensorResult(
        run_requests=[build_request(one, now) for one, _ in list(due.values())[:REQUESTS_MAX]]
    )


def build_request(shard: "ShardStatus", now: int) -> dg.RunRequest:
    """The run that builds a shard's next file.

    A build raises the generation, so that the next one has another key. A shard whose build
    failed has the same generation: it is asked for again in the next period.
    """
    period = now // 1_000_000 // ASK_AGAIN_S
    return dg.RunRequest(
        run_key=f"{shard.name}#{shard.generation or 0}#{period}",
        partition_key=shard.name,
        tags={"pc/lane": f"{LANE}/{shard.name}"},
    )


def _urgency(shard: "ShardStatus") -> tuple[bool, int, str]:
    return shard.tail.wrong is None, -shard.tail.rows, shard.name
