"""`windows_committed_elsewhere`: shows windows that no run of this instance has reported."""

import json
from collections.abc import Iterable
from typing import Any

import dagster as dg

from pc_pipelines import reports, window_sets
from pc_pipelines.resources import StoreResource
from pc_pipelines.sensors.patience import UNFINISHED, skips_while_the_store_is_away
from pc_pipelines.window_sets import WindowSet
from pc_store.domain.window import WindowKey
from pc_store.ledger.windows import WindowRow
from pc_store.services.administer import scope_status
from pc_store.services.clock import now_us
from pc_store.services.watch import ended_since

WINDOWS_MAX = 50
"""Most windows of a set reported in a tick: each is five events, of some 10 ms each on SQLite."""
_PAGE = 1_000
_KEYS_A_QUERY = 200
_START: tuple[int, str] = (0, "")


@dg.sensor(
    minimum_interval_seconds=15,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Reports windows committed outside this instance (API, CLI, another instance), or by a run "
        "that died before it could say so, as materialised partitions; removes the keys of windows "
        "that were overtaken."
    ),
)
@skips_while_the_store_is_away
def windows_committed_elsewhere(
    context: dg.SensorEvaluationContext, store: StoreResource
) -> dg.SkipReason:
    """At most 50 windows of each set a tick, in the order they ended."""
    cursors = _cursors(context.cursor)
    any_ended = False
    reported = removed = 0
    for windows in window_sets.ALL:
        finished_at, window_id = cursors.get(windows.consumer, _START)
        ended = ended_since(
            store.db, windows.consumer, finished_at=finished_at, window_id=window_id, limit=_PAGE
        )
        if not ended:
            continue
        any_ended = True
        cursor, here, gone = _evaluated(windows, context.instance, store, ended)
        if cursor is not None:
            cursors[windows.consumer] = cursor
            context.update_cursor(json.dumps(cursors))
        reported, removed = reported + here, removed + gone
    if not any_ended:
        return dg.SkipReason("no window has ended")
    return dg.SkipReason(
        f"{reported} windows reported, {removed} keys of overtaken windows removed"
    )


def _cursors(kept: str | None) -> dict[str, tuple[int, str]]:
    """How far each set was reported; earlier releases had the memory's windows only."""
    value: Any = json.loads(kept) if kept else {}
    return value if isinstance(value, dict) else {"memory": value}


def _evaluated(
    windows: WindowSet,
    instance: dg.DagsterInstance,
    store: StoreResource,
    ended: list[tuple[WindowKey, WindowRow]],
) -> tuple[tuple[int, str] | None, int, int]:
    """Report what is to be reported: up to where all is, windows reported, keys removed.

    A window is stamped before its commit waits for the ledger's lock, so one may appear behind
    another that was seen already. The cursor therefore stays a lock's wait behind; what lies
    between is told from what was reported by the window ids in the materialisations.
    """
    here = set(instance.get_dynamic_partitions(windows.set_name))
    known = _materialised(windows, instance, {str(key) for key, _ in ended} & here)
    settled = now_us() - int((store.settings.database_wait_s + 5) * 1_000_000)

    cursor: tuple[int, str] | None = None
    passing = True
    to_report: list[tuple[WindowKey, WindowRow]] = []
    gone: set[str] = set()
    for key, window in ended:
        seen = known.get(str(key), set())
        if window.status == "processed" and window.window_id not in seen:
            if len(to_report) == WINDOWS_MAX:
                break
            if _still_reporting(instance, window):
                passing = False
            else:
                to_report.append((key, window))
        if window.status in ("superseded", "split") and str(key) in here and not seen:
            gone.add(str(key))
        assert window.finished_at is not None
        if passing and window.finished_at <= settled:
            cursor = window.finished_at, window.window_id
    gone -= {str(key) for key, _ in to_report}
    _report(windows, instance, store, to_report)
    for overtaken in sorted(gone):
        instance.delete_dynamic_partition(windows.set_name, overtaken)
    return cursor, len(to_report), len(gone)


def _materialised(
    windows: WindowSet, instance: dg.DagsterInstance, keys: Iterable[str]
) -> dict[str, set[str]]:
    """The window ids that were reported under each key."""
    known: dict[str, set[str]] = {}
    wanted = sorted(keys)
    for start in range(0, len(wanted), _KEYS_A_QUERY):
        of_these = dg.AssetRecordsFilter(
            asset_key=windows.asset_key,
            asset_partitions=wanted[start : start + _KEYS_A_QUERY],
        )
        page = instance.fetch_materializations(of_these, limit=_PAGE)
        while True:
            for record in page.records:
                event = record.asset_materialization
                if event is not None and event.partition is not None:
                    value = event.metadata.get(reports.WINDOW_ID)
                    known.setdefault(event.partition, set()).add(str(value.value) if value else "")
            if not page.has_more:
                break
            page = instance.fetch_materializations(of_these, limit=_PAGE, cursor=page.cursor)
    return known


def _still_reporting(instance: dg.DagsterInstance, window: WindowRow) -> bool:
    """Whether a run of this instance has committed the window and is about to say so."""
    run = instance.get_run_by_id(window.run_id) if window.run_id else None
    return run is not None and run.status in UNFINISHED


def _report(
    windows: WindowSet,
    instance: dg.DagsterInstance,
    store: StoreResource,
    ended: list[tuple[WindowKey, WindowRow]],
) -> None:
    """Report windows, their checks, and where the scopes stand that they led to.

    Not as the tick's result, which is stored in one go: checks must name the materialisation.
    """
    if not ended:
        return
    instance.add_dynamic_partitions(windows.set_name, [str(key) for key, _ in ended])
    for key, window in ended:
        event = reports.window_materialization(windows, str(key), window, None)
        instance.report_runless_asset_event(event)
        for evaluation in reports.check_evaluations(windows, instance, str(key), window):
            instance.report_runless_asset_event(evaluation)
    if windows.standing is not None:
        for scope_id in sorted({window.scope_id for _, window in ended}):
            standing = windows.standing(scope_status(store.db, scope_id))
            instance.report_runless_asset_event(standing)
