"""A store, a Dagster instance of the shipped `dagster.yaml`, and a `Plant` over both.

It runs jobs in this process and evaluates sensors as the daemon does. `conftest.py` makes plants.
"""

import json
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
from dagster import DagsterEventType
from dagster._core.definitions.asset_checks.asset_check_spec import AssetCheckKey

from pc_pipelines.definitions import defs
from pc_pipelines.partitions import memory_windows as window_set
from pc_pipelines.partitions import scopes as scope_set
from pc_pipelines.resources import StoreResource
from pc_pipelines.window_sets import EXPERIENCE_WINDOWS, MEMORY_WINDOWS, WindowSet
from pc_store.domain.scope import partition_key
from pc_store.domain.source import new_source
from pc_store.domain.verdict import CHECKS
from pc_store.domain.window import Consumer
from pc_store.ledger.database import Database
from pc_store.ledger.windows import WindowRow
from pc_store.services.administer import ScopeStatus, create_scope, scope_status
from pc_store.services.capture import capture_many
from pc_store.services.clock import now_us
from pc_store.services.remember import list_entries
from pc_store.services.watch import list_windows
from pc_store.settings import Settings

REPOSITORY = defs.get_repository_def()
PASSED = dict.fromkeys(CHECKS, "SUCCEEDED")
"""What `Plant.checks` says of a window without a fault."""
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(frozen=True)
class Tick:
    """What a sensor's evaluation led to; runs that the daemon would drop are not in it."""

    requests: list[dg.RunRequest]
    skipped: str | None
    events: list[Any]

    @property
    def windows(self) -> list[str]:
        """The partitions of the single-window runs asked for."""
        return [str(r.partition_key) for r in self.requests if r.partition_key]

    @property
    def drains(self) -> list[list[str]]:
        """The scope keys of each drain run asked for."""
        return [
            r.run_config["ops"]["drain"]["config"]["scopes"]
            for r in self.requests
            if r.job_name in ("memory_drain", "experience_drain")
        ]


@dataclass
class Plant:
    """One store and one Dagster instance.

    Sensors keep their cursors and run keys here as the daemon does; `renewed` is what is left
    when DAGSTER_HOME is lost.
    """

    db: Database
    instance: dg.DagsterInstance
    home: Path
    cursors: dict[str, str | None] = field(default_factory=dict)
    run_keys: set[tuple[str, str | None]] = field(default_factory=set)

    @property
    def settings(self) -> Settings:
        return Settings.load()

    # the store

    def scope(self, scope_id: str) -> str:
        """Create a scope; its key."""
        return create_scope(self.db, scope_id, now_us=now_us()).key

    def put(self, scope_id: str, count: int, *, text: str = "Fact {n} holds.") -> None:
        """Append sources, numbered on from those that are there."""
        first = self.status(scope_id).high_watermark + 1
        offered = [
            new_source(f"s{n}", text.format(n=n) + " Lunch.") for n in range(first, first + count)
        ]
        capture_many(self.db, scope_id, offered, now_us=now_us())

    def put_outcomes(self, scope_id: str, *contents: str) -> None:
        """Append sources that say of themselves that they are task outcomes."""
        first = self.status(scope_id).high_watermark + 1
        offered = [
            new_source(f"s{n}", content, {"kind": "task-outcome"})
            for n, content in enumerate(contents, start=first)
        ]
        capture_many(self.db, scope_id, offered, now_us=now_us())

    def status(self, scope_id: str) -> ScopeStatus:
        return scope_status(self.db, scope_id)

    def cursor(self, scope_id: str, consumer: Consumer = "memory") -> int:
        return self.status(scope_id).cursors[consumer]

    def texts(self, scope_id: str) -> list[str]:
        """Texts of the active entries, by creation."""
        return [one.entry.text for one in list_entries(self.db, scope_id, limit=10_000)[1]]

    def windows(self, scope_id: str) -> list[WindowRow]:
        """Every window of the scope, oldest first."""
        found = list_windows(self.db, scope_id=scope_id, limit=10_000)
        return [row for _, row in found][::-1]

    def land(self, scope_id: str, name: str, *contents: str, age_s: float = 60) -> Path:
        """Put a file into the scope's landing folder, last modified so long ago."""
        folder = self.settings.landing_path / partition_key(scope_id)
        folder.mkdir(parents=True, exist_ok=True)
        lines = [
            json.dumps({"source_id": f"{name}#{n}", "content": said})
            for n, said in enumerate(contents)
        ]
        path = folder / name
        path.write_text("\n".join(lines) + "\n")
        then = now_us() / 1_000_000 - age_s
        os.utime(path, (then, then))
        return path

    # runs

    def keys(self, definition: dg.DynamicPartitionsDefinition = window_set) -> list[str]:
        assert definition.name is not None
        return list(self.instance.get_dynamic_partitions(definition.name))

    def run(
        self,
        job: str,
        *,
        partition: str | None = None,
        config: Mapping[str, Any] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> dg.ExecuteInProcessResult:
        """Run a job in this process; a failed run is returned, not raised."""
        if partition is not None and job != "search_index_build":  # whose partitions are static
            definition = scope_set
            for windows in (MEMORY_WINDOWS, EXPERIENCE_WINDOWS):
                if job == windows.window_job:
                    definition = windows.partitions
            self.instance.add_dynamic_partitions(str(definition.name), [partition])
        return defs.resolve_job_def(job).execute_in_process(
            instance=self.instance,
            partition_key=partition,
            run_config={**(config or {}), **_QUIET},
            tags=dict(tags or {}),
            raise_on_error=False,
        )

    def extract(
        self, key: str, *, mode: str | None = None, **more: str
    ) -> dg.ExecuteInProcessResult:
        """Run one window."""
        config = {"ops": {"memory_windows": {"config": {"mode": mode, **more}}}} if mode else None
        return self.run("memory_extraction", partition=key, config=config)

    def incubate(self, key: str, *, mode: str | None = None) -> dg.ExecuteInProcessResult:
        """Run one experience window."""
        config = {"ops": {"experience_windows": {"config": {"mode": mode}}}} if mode else None
        return self.run("experience_incubation", partition=key, config=config)

    def drain(
        self, *scope_keys: str, job: str = "memory_drain", **config: Any
    ) -> dg.ExecuteInProcessResult:
        return self.run(
            job,
            config={"ops": {"drain": {"config": {"scopes": list(scope_keys), **config}}}},
        )

    def queued(self, request: dg.RunRequest, *, status: Any = None) -> dg.DagsterRun:
        """Make the run that the daemon would make for a request, without running it."""
        job = defs.resolve_job_def(str(request.job_name))
        tags = {**request.tags}
        if request.partition_key:
            tags["dagster/partition"] = request.partition_key
        return self.instance.create_run_for_job(
            job,
            run_config=dict(request.run_config),
            tags=tags,
            status=status or dg.DagsterRunStatus.NOT_STARTED,
        )

    # sensors

    def tick(self, name: str) -> "Tick":
        """Evaluate a sensor as the daemon does, and do what the daemon does with the outcome.

        Requests with a run key that the sensor used before are dropped, as the daemon drops them.
        """
        sensor = REPOSITORY.get_sensor_def(name)
        context = dg.build_sensor_context(
            instance_ref=self.instance.get_ref(),
            cursor=self.cursors.get(name),
            resources={"store": StoreResource()},
            repository_def=REPOSITORY,
            sensor_name=name,
        )
        with context:
            outcome = sensor.evaluate_tick(context)
        self.cursors[name] = outcome.cursor
        for request in outcome.dynamic_partitions_requests or []:
            set_name = request.partitions_def_name
            if isinstance(request, dg.AddDynamicPartitionsRequest):
                self.instance.add_dynamic_partitions(set_name, list(request.partition_keys))
            else:
                for key in request.partition_keys:
                    self.instance.delete_dynamic_partition(set_name, key)
        for event in outcome.asset_events:
            self.instance.report_runless_asset_event(event)
        fresh = [
            r if r.job_name else r.with_replaced_attrs(job_name=sensor.job_name)
            for r in outcome.run_requests or []
            if (name, r.run_key) not in self.run_keys
        ]
        self.run_keys |= {(name, request.run_key) for request in fresh}
        return Tick(fresh, outcome.skip_message, list(outcome.asset_events))

    def perform(self, tick: "Tick") -> list[dg.ExecuteInProcessResult]:
        """Run what a tick asked for."""
        return [
            self.run(
                str(request.job_name),
                partition=request.partition_key,
                config=request.run_config,
                tags=request.tags,
            )
            for request in tick.requests
        ]

    # what the UI shows

    def materialized(self, asset: str, key: str) -> dict[str, Any] | None:
        """Metadata of a partition's latest materialisation."""
        found = self.instance.fetch_materializations(
            dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset), asset_partitions=[key]), limit=1
        ).records
        if not found:
            return None
        event = found[0].asset_materialization
        assert event is not None
        return {name: value.value for name, value in event.metadata.items()}

    def checks(self, key: str, windows: WindowSet = MEMORY_WINDOWS) -> dict[str, str]:
        """How the UI's partitions tab shows each check of a window."""
        names = windows.family.checks
        keys = [AssetCheckKey(windows.asset_key, check) for check in names]
        status = dict.fromkeys(names, "Missing")
        for info in self.instance.event_log_storage.get_asset_check_partition_info(
            keys, partition_keys=[key]
        ):
            if info.is_current:
                status[info.check_key.name] = info.latest_execution_status.value
        return status

    def observed(self, asset: str, key: str) -> list[str]:
        """Descriptions of a partition's observations, newest first."""
        found = self.instance.fetch_observations(
            dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset), asset_partitions=[key]), limit=50
        ).records
        events = [record.event_log_entry.asset_observation for record in found]
        return [event.description or "" for event in events if event is not None]


def failure_message(result: dg.ExecuteInProcessResult) -> str:
    """What the failed run's one failed step says."""
    (event,) = [e for e in result.all_events if e.event_type == DagsterEventType.STEP_FAILURE]
    data = event.step_failure_data
    said = data.user_failure_data.description if data.user_failure_data else None
    return said or str(data.error)


def steps(result: dg.ExecuteInProcessResult, kind: DagsterEventType) -> list[str]:
    """Names of the ops with an event of this kind, in order."""
    return [
        str(event.step_key).rpartition(".")[2]
        for event in result.all_events
        if event.event_type == kind
    ]


def in_thread(work: Callable[[], Any]) -> Callable[[], Any]:
    """Begin work in a thread; calling what is returned waits for its result."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(work()), daemon=True)
    thread.start()

    def wait() -> Any:
        thread.join(60)
        assert results, "the thread has not ended, or it raised"
        return results[0]

    return wait
