"""Sensors: due windows, landing files, logs written elsewhere, windows committed elsewhere,
and runs whose process is dead.

A sensor's own cursor holds nothing that matters: what is due is read from the ledger.
"""

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import dagster as dg

from pc_pipelines import jobs, partitions, reports
from pc_pipelines.assets.memory import materialization
from pc_pipelines.resources import StoreResource
from pc_store.domain.window import parse_key
from pc_store.errors import StoreBusy, StoreUnavailable, WindowRefused
from pc_store.ledger.backlogs import Backlog
from pc_store.services.administer import scope_keys, scope_status
from pc_store.services.capture import logs_changed_since
from pc_store.services.clock import now_us
from pc_store.services.ingest import LandingFile
from pc_store.services.plan import due_scopes, landing_backlog, note_served, plan_windows
from pc_store.services.watch import ended_since, keyed, last_beats
from pc_store.settings import Settings

REQUESTS_MAX = 50
"""Most runs asked for in one tick, and most that may be unfinished at a time."""
SINGLE_RUNS_MAX = 20
"""With more scopes due than this, small ones are swept together: a run's start costs seconds."""
SWEEP_SCOPES = 100
"""Scopes in one sweeping run."""
DRAIN_ABOVE_WINDOWS = 3
"""A backlog of more windows than this is drained in one run."""
_EVENTS_MAX = 200

_UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
_SETTINGS = Settings.load()
_SCHEDULED = _SETTINGS.memory_schedule_seconds is not None
_STATUS = dg.DefaultSensorStatus.RUNNING if _SCHEDULED else dg.DefaultSensorStatus.STOPPED


@dg.sensor(
    jobs=[jobs.memory_extraction, jobs.memory_drain],
    minimum_interval_seconds=_SETTINGS.memory_schedule_seconds or 30,
    default_status=_STATUS,
    description=(
        "Asks for runs of due memory windows: one window for a small lag, one draining run for a "
        "backlog, sweeping runs when many scopes are due. The longest unserved scope comes first."
    ),
)
def memory_windows_due(
    context: dg.SensorEvaluationContext, store: StoreResource
) -> dg.SensorResult | dg.SkipReason:
    """At most 50 runs a tick, none for a scope that has one."""
    unfinished = context.instance.get_runs(
        filters=dg.RunsFilter(
            statuses=_UNFINISHED, job_name=None, updated_after=datetime.now(UTC) - timedelta(days=2)
        )
    )
    busy = {key for run in unfinished for key in _scopes_of(run)}
    room = REQUESTS_MAX - len(unfinished)
    if room <= 0:
        return dg.SkipReason(f"{len(unfinished)} runs are unfinished; waiting for some to end")
    try:
        due = due_scopes(
            store.db,
            store.settings,
            "memory",
            busy=busy,
            limit=REQUESTS_MAX * SWEEP_SCOPES,
            now_us=now_us(),
        )
        if not due:
            return dg.SkipReason("no scope has a window due")
        return _requests(store, due, room)
    except (StoreBusy, StoreUnavailable) as error:
        return dg.SkipReason(error.message)


def _requests(store: StoreResource, due: list[Backlog], room: int) -> dg.SensorResult:
    """Runs for as many of the due scopes as there is room for, in their order."""
    drain_above = DRAIN_ABOVE_WINDOWS * store.settings.source_window_limit
    small = [backlog for backlog in due if backlog.lag <= drain_above]
    sweeping = len(small) > SINGLE_RUNS_MAX
    groups: list[list[Backlog]] = []
    swept: list[Backlog] | None = None
    for backlog in due:
        if backlog.lag > drain_above or not sweeping:
            groups.append([backlog])
        elif swept is None or len(swept) == SWEEP_SCOPES:
            swept = [backlog]
            groups.append(swept)
        else:
            swept.append(backlog)
    groups = groups[:room]

    now = now_us()
    single = {
        group[0].scope_id: group[0]
        for group in groups
        if len(group) == 1 and group[0].lag <= drain_above
    }
    planned = plan_windows(store.db, store.settings, list(single), "memory", now_us=now)
    windows = {window.scope_id: (key, window) for key, window in keyed(store.db, planned)}
    drained = [b.scope_id for group in groups for b in group if b.scope_id not in single]
    note_served(store.db, drained, "memory", now_us=now)

    requests: list[dg.RunRequest] = []
    new_keys: list[str] = []
    for group in groups:
        first = group[0]
        if first.scope_id in single:
            if first.scope_id not in windows:
                continue  # somebody else's commit was faster
            key, window = windows[first.scope_id]
            new_keys.append(str(key))
            requests.append(
                dg.RunRequest(
                    run_key=f"{key}#{window.requests + 1}",
                    job_name=jobs.memory_extraction.name,
                    partition_key=str(key),
                    tags={"pc/lane": f"memory/{first.scope_key}", "pc/consumer": "memory"},
                )
            )
        else:
            requests.append(_drain_request(group, now))
    return dg.SensorResult(
        run_requests=requests,
        dynamic_partitions_requests=[partitions.memory_windows.build_add_request(new_keys)]
        if new_keys
        else [],
    )


def _drain_request(group: list[Backlog], now: int) -> dg.RunRequest:
    keys = [backlog.scope_key for backlog in group]
    lane = {"pc/lane": f"memory/{keys[0]}"} if len(keys) == 1 else {"pc/sweep": str(len(keys))}
    return dg.RunRequest(
        run_key=f"drain {hashlib.sha256(' '.join(keys).encode()).hexdigest()[:16]}#{now}",
        job_name=jobs.memory_drain.name,
        run_config={"ops": {"drain": {"config": {"scopes": keys}}}},
        tags={**lane, "pc/consumer": "memory"},
    )


def _scopes_of(run: dg.DagsterRun) -> Iterator[str]:
    """Keys of the scopes an unfinished run works on, whoever launched it."""
    if lane := run.tags.get("pc/lane"):
        yield lane.partition("/")[2]
    if partition := run.tags.get("dagster/partition"):
        with contextlib.suppress(WindowRefused):  # a scope partition, or no key of ours
            yield parse_key(partition).scope_key
    drained = run.run_config.get("ops", {}).get("drain", {}).get("config", {})
    yield from drained.get("scopes", [])


@dg.sensor(
    job=jobs.source_ingestion,
    minimum_interval_seconds=15,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Asks for a run when files in a scope's landing folder are new or have changed.",
)
def landing_files_arrived(
    context: dg.SensorEvaluationContext, store: StoreResource
) -> dg.SensorResult | dg.SkipReason:
    """One run a scope; files that changed in the last seconds wait, they may be half copied."""
    pending, unknown = landing_backlog(
        store.db, store.settings.landing_path, limit=REQUESTS_MAX, now_us=now_us()
    )
    notes = [f"no scope for the folders {', '.join(unknown[:5])}"] if unknown else []
    if not pending:
        return dg.SkipReason("; ".join(["no new landing files", *notes]))
    five_minutes = int(time.time() // 300)
    requests = [
        dg.RunRequest(
            # the same files are asked for again only after a while, should their run have failed
            run_key=f"{key}#{_signature(files)}#{five_minutes}",
            partition_key=key,
            tags={"pc/lane": f"sources/{key}"},
        )
        for key, files in pending.items()
    ]
    for note in notes:
        context.log.warning(note)
    return dg.SensorResult(
        run_requests=requests,
        dynamic_partitions_requests=[partitions.scopes.build_add_request(sorted(pending))],
    )


def _signature(files: list[LandingFile]) -> str:
    states = [(file.path, file.size_bytes, file.modified_ns) for file in files]
    return hashlib.sha256(json.dumps(states).encode()).hexdigest()[:16]


@dg.sensor(
    minimum_interval_seconds=15,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Observes logs that grew: high watermark and data version of each changed scope.",
)
def source_log_observer(
    context: dg.SensorEvaluationContext, store: StoreResource
) -> dg.SensorResult | dg.SkipReason:
    """At most 200 scopes a tick, oldest change first."""
    since = int(context.cursor or 0)
    changed = logs_changed_since(store.db, since + 1, limit=_EVENTS_MAX)
    if not changed:
        return dg.SkipReason("no log has grown")
    keys = scope_keys(store.db, [scope_id for scope_id, _, _ in changed])
    return dg.SensorResult(
        asset_events=[
            dg.AssetObservation(
                asset_key="source_log",
                partition=keys[scope_id],
                metadata={"scope": scope_id, "high watermark": position},
                tags={"dagster/data_version": str(position)},
            )
            for scope_id, position, _ in changed
        ],
        dynamic_partitions_requests=[partitions.scopes.build_add_request(sorted(keys.values()))],
        cursor=str(changed[-1][2]),
    )


@dg.sensor(
    minimum_interval_seconds=15,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Reports windows that were committed outside this instance (API, CLI, another instance) as "
        "materialised partitions, and removes the keys of windows that were overtaken."
    ),
)
def windows_committed_elsewhere(
    context: dg.SensorEvaluationContext, store: StoreResource
) -> dg.SensorResult | dg.SkipReason:
    """At most 200 windows a tick, in the order they ended."""
    finished_at, window_id = json.loads(context.cursor) if context.cursor else (0, "")
    ended = ended_since(
        store.db, "memory", finished_at=finished_at, window_id=window_id, limit=_EVENTS_MAX
    )
    if not ended:
        return dg.SkipReason("no window has ended")
    name = partitions.set_name(partitions.memory_windows)
    here = set(context.instance.get_dynamic_partitions(name))
    last_status = {str(key): window.status for key, window in ended}
    gone = [
        key
        for key, status in last_status.items()
        if status in ("superseded", "split") and key in here
    ]
    events: list[dg.AssetMaterialization] = []
    new_keys: list[str] = []
    for key, window in ended:
        elsewhere = (window.run_id or "").startswith("local-") or str(key) not in here
        if window.status == "processed" and elsewhere:
            new_keys.append(str(key))
            events.append(
                dg.AssetMaterialization(
                    asset_key=reports.MEMORY_WINDOWS,
                    partition=str(key),
                    metadata=reports.window_metadata(window, None),
                )
            )
    for scope_id in sorted({window.scope_id for _, window in ended}) if events else []:
        events.append(materialization(scope_status(store.db, scope_id)))
    last = ended[-1][1]
    requests: list[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest] = []
    if new_keys:
        requests.append(partitions.memory_windows.build_add_request(new_keys))
    if gone:
        requests.append(partitions.memory_windows.build_delete_request(gone))
    return dg.SensorResult(
        asset_events=events,
        dynamic_partitions_requests=requests,
        cursor=json.dumps([last.finished_at, last.window_id]),
    )


@dg.sensor(
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Reports runs failed whose process no longer gives a sign of life.",
)
def dead_runs(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SkipReason:
    """After a crash of the whole machine such runs would stay started and block their lanes."""
    records = context.instance.get_run_records(
        filters=dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])
    )
    beats = last_beats(store.db, [record.dagster_run.run_id for record in records])
    lease_us = int(store.settings.lease_s * 1_000_000)
    dead = [
        record.dagster_run
        for record in records
        if (beat := beats.get(record.dagster_run.run_id)) is not None and beat < now_us() - lease_us
    ]
    for run in dead:
        context.instance.report_run_failed(
            run, f"its process gave no sign of life for {store.settings.lease_s:g} s"
        )
    return dg.SkipReason(f"{len(dead)} of {len(records)} started runs were dead")


ALL = [
    memory_windows_due,
    landing_files_arrived,
    source_log_observer,
    windows_committed_elsewhere,
    dead_runs,
]
