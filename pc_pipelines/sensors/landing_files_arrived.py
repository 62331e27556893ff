"""`landing_files_arrived`: asks for runs that take in new landing files."""

import hashlib
import json
import time

import dagster as dg

from pc_pipelines import jobs, partitions
from pc_pipelines.resources import StoreResource
from pc_pipelines.sensors.patience import (
    lane_keys,
    skips_while_the_store_is_away,
    unfinished_runs,
)
from pc_store.services.clock import now_us
from pc_store.services.ingest import LandingFile
from pc_store.services.plan import landing_backlog

REQUESTS_MAX = 50
_FOLDERS_NAMED = 5
_ASK_AGAIN_S = 300


@dg.sensor(
    job=jobs.source_ingestion,
    minimum_interval_seconds=15,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Asks for a run when files in a scope's landing folder are new or have changed.",
)
@skips_while_the_store_is_away
def landing_files_arrived(
    context: dg.SensorEvaluationContext, store: StoreResource
) -> dg.SensorResult | dg.SkipReason:
    """One run a scope; files that changed in the last seconds wait, they may be half copied."""
    busy = lane_keys(unfinished_runs(context.instance), "sources")
    found, unknown = landing_backlog(
        store.db, store.settings.landing_path, limit=REQUESTS_MAX + len(busy), now_us=now_us()
    )
    pending = {key: files for key, files in found.items() if key not in busy}
    notes = [f"no scope has the folders {', '.join(unknown[:_FOLDERS_NAMED])}"] if unknown else []
    if len(unknown) > _FOLDERS_NAMED:
        notes.append(f"nor {len(unknown) - _FOLDERS_NAMED} more")
    if not pending:
        return dg.SkipReason("; ".join(["no new landing files", *notes]))
    for note in notes:
        context.log.warning(note)
    period = int(time.time() // _ASK_AGAIN_S)
    requests = [
        dg.RunRequest(
            # the same files are asked for again only after a while, should their run have failed
            run_key=f"{key}#{_signature(files)}#{period}",
            partition_key=key,
            tags={"pc/lane": f"sources/{key}"},
        )
        for key, files in list(pending.items())[:REQUESTS_MAX]
    ]
    return dg.SensorResult(
        run_requests=requests,
        dynamic_partitions_requests=[partitions.scopes.build_add_request(sorted(pending))],
    )


def _signature(files: list[LandingFile]) -> str:
    states = [(file.path, file.size_bytes, file.modified_ns) for file in files]
    return hashlib.sha256(json.dumps(states).encode()).hexdigest()[:16]
