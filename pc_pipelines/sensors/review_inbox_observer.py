"""`review_inbox_observer`: shows what waits for review, and for how long."""

import hashlib
import json
from dataclasses import asdict

import dagster as dg

from pc_pipelines.assets.review_inbox import observation
from pc_pipelines.resources import StoreResource
from pc_pipelines.sensors.patience import skips_while_the_store_is_away
from pc_store.services.clock import now_us
from pc_store.services.read_candidates import inbox

AGAIN_AFTER_US = 3_600_000_000
"""An inbox that did not change but is not empty is observed again: what waits grows older."""


@dg.sensor(
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Observes what waits for review when that has changed, and once an hour while anything "
        "does: how many candidates, the oldest's age, how many have a stale target, by scope."
    ),
)
@skips_while_the_store_is_away
def review_inbox_observer(
    context: dg.SensorEvaluationContext, store: StoreResource
) -> dg.SensorResult | dg.SkipReason:
    """At most one observation a tick."""
    seen, at = json.loads(context.cursor) if context.cursor else ("", 0)
    now = now_us()
    found = inbox(store.db)
    told = json.dumps(asdict(found), sort_keys=True)
    version = hashlib.sha256(told.encode()).hexdigest()[:16]
    if version == seen and not (found.pending and now - at >= AGAIN_AFTER_US):
        return dg.SkipReason(f"nothing new: {found.pending} candidates wait for review")
    return dg.SensorResult(
        asset_events=[observation(found, version=version, now_us=now)],
        cursor=json.dumps([version, now]),
        skip_reason=f"{found.pending} candidates wait for review",
    )
