"""A real `dagster dev` in a process of its own, and the GraphQL that its UI speaks.

Used by the live tests, the browser tests, the screenshots and the benchmark. Knows nothing of
pytest. Every process it starts is in one session of its own, which `kill` ends as a whole.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import psutil

ROOT = Path(__file__).parents[2]
LOCATION = {"repositoryLocationName": "pc_pipelines", "repositoryName": "__repository__"}
UNFINISHED = ("QUEUED", "NOT_STARTED", "STARTING", "STARTED", "CANCELING")

_RUNS = """
query Runs($filter: RunsFilter) {
  runsOrError(filter: $filter, limit: 500) {
    ... on Runs { results { runId status jobName tags { key value } startTime endTime } }
  }
}
"""
_EVENTS = """
query Events($runId: ID!) {
  logsForRun(runId: $runId, limit: 1000) {
    ... on EventConnection { events { __typename ... on MessageEvent { message stepKey }
      ... on ExecutionStepFailureEvent { error { message } } } }
  }
}
"""
_PARTITIONS = """
query Partitions($key: AssetKeyInput!) {
  assetNodeOrError(assetKey: $key) { ... on AssetNode { assetPartitionStatuses {
    ... on DefaultPartitionStatuses {
      materializedPartitions failedPartitions materializingPartitions unmaterializedPartitions
    } } } }
}
"""
_LAUNCH_BACKFILL = """
mutation Launch($backfillParams: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $backfillParams) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
  }
}
"""
_BACKFILL = """
query Backfill($id: String!) {
  partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } }
}
"""
_LAUNCH_RUN = """
mutation Launch($params: ExecutionParams!) {
  launchPipelineExecution(executionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
    ... on RunConfigValidationInvalid { errors { message } }
  }
}
"""


class DagsterProcess:
    """A `dagster dev` on a home of its own, serving this checkout's code location."""

    def __init__(
        self,
        home: Path,
        *,
        env: Mapping[str, str] | None = None,
        workspace: str = "workspace.yaml",
    ) -> None:
        self.home = home
        self.workspace = workspace
        self.dagster_home = home / "dagster"
        self.dagster_home.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / "dagster.yaml", self.dagster_home / "dagster.yaml")
        self.log = home / "dagster-dev.log"
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PC_")},
            "DAGSTER_HOME": str(self.dagster_home),
            "DAGSTER_DISABLE_TELEMETRY": "1",
            "PC_HOME": str(home),
            "PYTHONUNBUFFERED": "1",
            **(env or {}),
        }

    @property
    def url(self) -> str:
        """Where the UI is."""
        return f"http://127.0.0.1:{self.port}"

    def start(self, *, within_s: float = 120) -> Self:
        """Start it and return once the UI answers and the code location is loaded."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        command = [str(Path(sys.executable).parent / "dagster"), "dev", "-w", self.workspace]
        command += ["-h", "127.0.0.1", "-p", str(self.port)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # a parent that was started with `&` hands SIGINT down ignored, and then
                # neither SIGINT nor SIGTERM would stop it
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
        self.wait_for(self._answers, "the UI to answer", within_s=within_s, every_s=0.3)
        return self

    def stop(self, *, within_s: float = 60) -> int:
        """Stop it as Ctrl-C would; its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(within_s)
        finally:
            self.kill()

    def kill(self) -> None:
        """End every process of it at once, as a power cut would."""
        if self._process is not None:
            for process in self.processes():
                with contextlib.suppress(psutil.Error):
                    process.kill()
            self._process.wait(10)
            self._process = None

    def processes(self) -> list[psutil.Process]:
        """Every living process of it: the parent, the servers, the daemon, the run workers."""
        assert self._process is not None
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                if os.getsid(process.pid) == self._process.pid:
                    found.append(process)
        return found

    def workers(self) -> list[psutil.Process]:
        """The run workers: one multiprocessing child of the code server for each run."""
        found = []
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                line = " ".join(process.cmdline())
                if "spawn_main" in line and "resource_tracker" not in line:
                    found.append(process)
        return found

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"dagster dev ended: {self.log.read_text()[-3_000:]}")
        try:
            query = "{workspaceOrError{...on Workspace{locationEntries{loadStatus}}}}"
            found = self.graphql(query)["workspaceOrError"]["locationEntries"]
        except (OSError, KeyError, urllib.error.URLError):
            return False
        return [entry["loadStatus"] for entry in found] == ["LOADED"]

    def wait_for(
        self,
        happened: Callable[[], Any],
        what: str,
        *,
        within_s: float = 60,
        every_s: float = 0.5,
    ) -> Any:
        """Return what `happened` returns once that is true."""
        ends = time.monotonic() + within_s
        while not (found := happened()):
            if time.monotonic() > ends:
                tail = self.log.read_text(errors="replace")[-3_000:]
                raise TimeoutError(f"waited {within_s:g} s for {what}; the log ends:\n{tail}")
            time.sleep(every_s)
        return found

    def graphql(self, query: str, **variables: Any) -> Any:
        """Ask what the UI would ask; the answer's `data`."""
        request = urllib.request.Request(
            f"{self.url}/graphql",
            json.dumps({"query": query, "variables": variables}).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            answer = json.load(response)
        assert not answer.get("errors"), answer["errors"]
        return answer["data"]

    def runs(self, **matching: Any) -> list[dict[str, Any]]:
        """Runs, newest first; `matching` is GraphQL's RunsFilter. Tags come as a dictionary."""
        results = self.graphql(_RUNS, filter=matching)["runsOrError"]["results"]
        for run in results:
            run["tags"] = {tag["key"]: tag["value"] for tag in run["tags"]}
        return list(results)

    def unfinished(self) -> list[dict[str, Any]]:
        """Runs that wait or work."""
        return self.runs(statuses=list(UNFINISHED))

    def events(self, run_id: str) -> list[dict[str, Any]]:
        """A run's first 1,000 events."""
        return list(self.graphql(_EVENTS, runId=run_id)["logsForRun"]["events"])

    def partitions(self, asset: str) -> dict[str, list[str]]:
        """An asset's partition keys: materialized, failed, materializing, unmaterialized."""
        found = self.graphql(_PARTITIONS, key={"path": [asset]})["assetNodeOrError"]
        statuses = found["assetPartitionStatuses"]
        return {name.removesuffix("Partitions"): sorted(keys) for name, keys in statuses.items()}

    def launch_backfill(self, asset: str, partitions: list[str], config: Mapping[str, Any]) -> str:
        """Launch what the UI's dialog launches; the backfill's id."""
        params = {
            "assetSelection": [{"path": [asset]}],
            "partitionNames": partitions,
            "runConfigData": config,
            "tags": [],
        }
        launched = self.graphql(_LAUNCH_BACKFILL, backfillParams=params)["launchPartitionBackfill"]
        assert launched["__typename"] == "LaunchBackfillSuccess", launched
        return str(launched["backfillId"])

    def backfill_status(self, backfill_id: str) -> str:
        """A backfill's status, such as COMPLETED_SUCCESS."""
        return str(self.graphql(_BACKFILL, id=backfill_id)["partitionBackfillOrError"]["status"])

    def launch(
        self, job: str, *, config: Mapping[str, Any] | None = None, partition: str | None = None
    ) -> str:
        """Launch a job; the run's id."""
        tags = [{"key": "dagster/partition", "value": partition}] if partition else []
        params = {
            "selector": {**LOCATION, "pipelineName": job},
            "runConfigData": config or {},
            "executionMetadata": {"tags": tags},
            "mode": "default",
        }
        launched = self.graphql(_LAUNCH_RUN, params=params)["launchPipelineExecution"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        return str(launched["run"]["runId"])


@contextlib.contextmanager
def cpu_seconds(dagster: DagsterProcess) -> Iterator[Callable[[], float]]:
    """Yield a function: CPU seconds of all its processes, ended ones included, since the start.

    Ended children are counted by the kernel in their parent once it has waited for them.
    """

    def total() -> float:
        spent = 0.0
        for process in dagster.processes():
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                spent += times.user + times.system + times.children_user + times.children_system
        return spent

    before = total()
    yield lambda: total() - before
