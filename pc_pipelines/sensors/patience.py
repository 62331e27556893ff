"""What sensors share: they skip a tick while the store is away, and see which runs are at work."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

from pc_pipelines.resources import StoreResource
from pc_pipelines.window_sets import WindowSet
from pc_store.domain.window import parse_key
from pc_store.errors import StoreBusy, StoreUnavailable, WindowRefused

Evaluation = Callable[[dg.SensorEvaluationContext, StoreResource], dg.SensorResult | dg.SkipReason]

UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
_FORGOTTEN_AFTER = timedelta(days=2)
"""A run without an event for so long blocks nothing any more, whatever its status says."""


def skips_while_the_store_is_away(evaluate: Evaluation) -> Evaluation:
    """A tick that meets a busy or unreachable store is skipped with the reason, not failed."""

    @functools.wraps(evaluate)
    def patient(
        context: dg.SensorEvaluationContext, store: StoreResource
    ) -> dg.SensorResult | dg.SkipReason:
        try:
            return evaluate(context, store)
        except (StoreBusy, StoreUnavailable) as error:
            return dg.SkipReason(f"{error.message}; trying again at the next tick")

    return patient


def unfinished_runs(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """Runs that wait or work, whatever their job."""
    since = datetime.now(UTC) - _FORGOTTEN_AFTER
    return list(instance.get_runs(filters=dg.RunsFilter(statuses=UNFINISHED, updated_after=since)))


def lane_keys(runs: list[dg.DagsterRun], family: str) -> set[str]:
    """The scope keys of the lanes that runs have taken in a family."""
    lanes = (run.tags.get("pc/lane", "").partition("/") for run in runs)
    return {key for name, _, key in lanes if name == family}


def scopes_at_work(windows: WindowSet, run: dg.DagsterRun) -> Iterator[str]:
    """Keys of the scopes whose cursor an unfinished run may move, whoever launched it.

    A replay, shadow or not, moves none, so a bulk replay does not hold up its scopes' new windows.
    """
    ops: Mapping[str, Any] = run.run_config.get("ops") or {}  # type: ignore[assignment]
    if ops.get(windows.asset, {}).get("config", {}).get("mode") in ("replay", "shadow"):
        return
    yield from lane_keys([run], windows.consumer)
    if run.job_name == windows.drain_job:
        yield from ops.get("drain", {}).get("config", {}).get("scopes", [])
    elif run.job_name == windows.window_job or windows.asset_key in (run.asset_selection or ()):
        with contextlib.suppress(WindowRefused):  # no key of ours: anybody can type one
            yield parse_key(run.tags.get("dagster/partition", "")).scope_key
