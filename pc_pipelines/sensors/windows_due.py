"""What asks for the runs of due windows: one sensor a set, all with this code."""

import hashlib
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

import dagster as dg
from dagster._core.definitions.target import ExecutableDefinition

from pc_pipelines.resources import StoreResource
from pc_pipelines.sensors.patience import (
    scopes_at_work,
    skips_while_the_store_is_away,
    unfinished_runs,
)
from pc_pipelines.window_sets import WindowSet
from pc_store.domain.window import WindowKey
from pc_store.errors import StoreError
from pc_store.ledger.backlogs import Backlog
from pc_store.ledger.windows import WindowRow
from pc_store.services.clock import now_us
from pc_store.services.plan import due_scopes, note_served, plan_windows
from pc_store.services.recover import record_failure
from pc_store.services.watch import keyed, last_beats, list_windows

REQUESTS_MAX = 50
"""Most runs asked for in one tick, and most of this sensor's that may be unfinished at a time."""
SINGLE_RUNS_MAX = 20
"""With more scopes due than this, small ones are swept together: a run's start costs seconds."""
SWEEP_SCOPES = 100
"""Scopes in one sweeping run."""
DRAIN_ABOVE_WINDOWS = 3
"""A backlog of more windows than this is drained in one run."""
CONSUMER_TAG = "pc/consumer"
PRIORITY = {"dagster/priority": "1"}
"""New sources come before the replays of a backfill, which have priority 0."""

_ENDED_BADLY = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
_LOOK_BACK = timedelta(hours=1)
_EVERY_S = 30


def windows_due(
    windows: WindowSet, *, jobs: Sequence[ExecutableDefinition], every_s: int | None
) -> dg.SensorDefinition:
    """The sensor that asks for the runs of a set's due windows.

    Args:
        jobs: the one that runs one window and the one that drains.
        every_s: its least interval; None for one that is off until somebody switches it on.
    """

    @dg.sensor(
        name=f"{windows.asset}_due",
        jobs=jobs,
        minimum_interval_seconds=every_s or _EVERY_S,
        default_status=dg.DefaultSensorStatus.STOPPED
        if every_s is None
        else dg.DefaultSensorStatus.RUNNING,
        description=(
            f"Asks for runs of due {windows.consumer} windows: one window for a small lag, one "
            "draining run for a backlog, sweeping runs when many scopes are due. The longest "
            "unserved scope comes first. Windows that hold nothing for the consumer get no run."
        ),
    )
    @skips_while_the_store_is_away
    def due(
        context: dg.SensorEvaluationContext, store: StoreResource
    ) -> dg.SensorResult | dg.SkipReason:
        """At most 50 runs a tick, none for a scope that has one."""
        return _evaluated(windows, context.instance, store)

    return due


def _evaluated(
    windows: WindowSet, instance: dg.DagsterInstance, store: StoreResource
) -> dg.SensorResult | dg.SkipReason:
    unfinished = unfinished_runs(instance)
    _note_broken_off(windows, instance, store, {run.run_id for run in unfinished})
    mine = sum(run.tags.get(CONSUMER_TAG) == windows.consumer for run in unfinished)
    room = REQUESTS_MAX - mine
    if room <= 0:
        return dg.SkipReason(f"{mine} runs are unfinished; waiting for some to end")
    busy = {key for run in unfinished for key in scopes_at_work(windows, run)}
    due = due_scopes(
        store.db,
        store.settings,
        windows.consumer,
        busy=busy,
        limit=room * SWEEP_SCOPES,
        now_us=now_us(),
    )
    if not due:
        at_work = f"; {len(busy)} scopes are being worked on" if busy else ""
        return dg.SkipReason(f"no scope has a window due{at_work}")
    return _requests(windows, instance, store, due, room)


def _note_broken_off(
    windows: WindowSet,
    instance: dg.DagsterInstance,
    store: StoreResource,
    unfinished: Collection[str],
) -> None:
    """Record a failed attempt for windows whose run was killed or cancelled half way.

    Such a run could not say so itself. Without the record its window would be asked for again
    at once and for ever, should it be what kills its runs.
    """
    ended = instance.get_runs(
        filters=dg.RunsFilter(statuses=_ENDED_BADLY, updated_after=datetime.now(UTC) - _LOOK_BACK),
        limit=500,
    )
    broken_off = {run.run_id: run for run in ended if run.run_id not in unfinished}
    if not broken_off:
        return
    for _, window in list_windows(
        store.db,
        consumer=windows.consumer,
        statuses=("running",),
        limit=REQUESTS_MAX * SWEEP_SCOPES,
    ):
        if run := broken_off.get(window.run_id or ""):
            how = "was cancelled" if run.status == dg.DagsterRunStatus.CANCELED else "died"
            error = StoreError(f"run {run.run_id} {how} before it was done with the window")
            record_failure(store.db, store.settings, window.window_id, error)


def _requests(
    windows: WindowSet,
    instance: dg.DagsterInstance,
    store: StoreResource,
    due: list[Backlog],
    room: int,
) -> dg.SensorResult | dg.SkipReason:
    """Runs for as many of the due scopes as there is room for, in their order."""
    drain_above = DRAIN_ABOVE_WINDOWS * store.settings.source_window_limit
    groups = _groups(due, drain_above)[:room]
    alone = [group[0] for group in groups if len(group) == 1 and group[0].lag <= drain_above]
    now = now_us()
    planned = _planned(windows, instance, store, [backlog.scope_id for backlog in alone], now)
    single = {backlog.scope_id for backlog in alone}
    together = [b.scope_id for group in groups for b in group if b.scope_id not in single]
    note_served(store.db, together, windows.consumer, now_us=now)

    requests: list[dg.RunRequest] = []
    for group in groups:
        first = group[0]
        if first.scope_id not in single:
            requests.append(_drain_request(windows, group, now))
        elif first.scope_id in planned:
            requests.append(_window_request(windows, *planned[first.scope_id]))
    if not requests:
        return dg.SkipReason(f"{len(alone)} scopes are being worked on outside this instance")
    new_keys = [str(key) for key, _ in planned.values()]
    return dg.SensorResult(
        run_requests=requests,
        dynamic_partitions_requests=[windows.partitions.build_add_request(new_keys)]
        if new_keys
        else [],
    )


def _groups(due: list[Backlog], drain_above: int) -> list[list[Backlog]]:
    """The scopes of each run: a backlog by itself; small lags too, or else 100 at a time."""
    sweeping = sum(backlog.lag <= drain_above for backlog in due) > SINGLE_RUNS_MAX
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
    return groups


def _planned(
    windows: WindowSet,
    instance: dg.DagsterInstance,
    store: StoreResource,
    scope_ids: list[str],
    now: int,
) -> dict[str, tuple[WindowKey, WindowRow]]:
    """The next window of each scope, except those somebody outside this instance works on."""
    planned = plan_windows(store.db, store.settings, scope_ids, windows.consumer, now_us=now)
    running = [window for window in planned if window.status == "running"]
    beats = last_beats(store.db, [window.run_id for window in running if window.run_id])
    alive_since = now - int(store.settings.lease_s * 1_000_000)
    taken = {
        window.window_id
        for window in running
        if window.run_id
        and beats.get(window.run_id, 0) >= alive_since
        and not instance.has_run(window.run_id)  # a run of ours would have made its scope busy
    }
    free = [window for window in planned if window.window_id not in taken]
    return {window.scope_id: (key, window) for key, window in keyed(store.db, free)}


def _window_request(windows: WindowSet, key: WindowKey, window: WindowRow) -> dg.RunRequest:
    return dg.RunRequest(
        # Dagster remembers run keys for ever: one that came back would be dropped silently.
        run_key=f"{key}#{window.requests + 1}",
        job_name=windows.window_job,
        partition_key=str(key),
        tags={"pc/lane": windows.lane(key.scope_key), **_tags(windows)},
    )


def _drain_request(windows: WindowSet, group: list[Backlog], now: int) -> dg.RunRequest:
    keys = [backlog.scope_key for backlog in group]
    lane = {"pc/lane": windows.lane(keys[0])} if len(keys) == 1 else {"pc/sweep": str(len(keys))}
    return dg.RunRequest(
        run_key=f"drain {hashlib.sha256(' '.join(keys).encode()).hexdigest()[:16]}#{now}",
        job_name=windows.drain_job,
        run_config={"ops": {"drain": {"config": {"scopes": keys}}}},
        tags={**lane, **_tags(windows)},
    )


def _tags(windows: WindowSet) -> dict[str, str]:
    return {CONSUMER_TAG: windows.consumer, **PRIORITY}
