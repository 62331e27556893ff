"""What a dream costs, and how soon one starts.

    python benchmarks/bench_dream.py [--alone 7] [--burst 30]

Dagster: a real `dagster dev`, whose sensor asks for the run. Dreams are submitted one at a time,
each after the run before has ended, at changing moments of the sensor's turn; then many at once.
Server: `pc serve` with `PC_DREAM_WORKER`. Counted are the CPU seconds of all processes, those that
have ended included, less what they spend idle in the same time. "Empty" is a run of a code
location that holds nothing but an op without a body: what is above it is ours, our imports and
those of the model's client included. The model is the tests' stub, which answers at once.

Our modules are compiled once, as an installation has them, and nobody asks the web server while a
run waits for more: the answers would be counted.
"""

# ruff: noqa: E402 - the imports need the path set first

import argparse
import contextlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(_TESTS), str(_TESTS / "pipelines")]

import psutil
from dagster_process import DagsterProcess, cpu_seconds
from model_stub import ModelStub

from pc_pipelines.assets.dream_candidates import LINGER_S
from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.dream_run import DreamRun, dream_request
from pc_store.domain.refs import SourceRef
from pc_store.domain.source import new_source
from pc_store.ledger.database import Database, open_database
from pc_store.services import dream
from pc_store.services.administer import create_scope
from pc_store.services.capture import capture_many
from pc_store.services.clock import now_us
from pc_store.services.remember import remember
from pc_store.settings import Settings

IDLE_S = 60.0
"""The longest interval of a sensor, so that each has its turn."""
TURN_S = 5.0
COMPILED = {"PYTHONDONTWRITEBYTECODE": ""}
SCOPE = "shop"
EMPTY = """
import dagster as dg

@dg.op
def nothing():
    pass

@dg.job(executor_def=dg.in_process_executor)
def empty():
    nothing()

defs = dg.Definitions(jobs=[empty])
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--alone", type=int, default=7, help="dreams one at a time")
    parser.add_argument("--burst", type=int, default=30, help="dreams at once")
    chosen = parser.parse_args()
    empty = empty_run(chosen.alone)
    print(f"an empty run of Dagster's        {empty:6.2f} CPU s  (median of {chosen.alone})")
    with_dagster(chosen.alone, chosen.burst, empty)
    with_server(chosen.alone, chosen.burst)


# Dagster


def empty_run(count: int) -> float:
    """CPU seconds of a run that does nothing: the median of so many."""
    home = Path(tempfile.mkdtemp(prefix="pc-bench-"))
    (home / "empty.py").write_text(EMPTY)
    (home / "workspace.yaml").write_text(
        f"load_from: [{{python_file: {{relative_path: {home / 'empty.py'}, "
        "location_name: pc_pipelines}}]"
    )
    try:
        workspace = str(home / "workspace.yaml")
        with DagsterProcess(home, env=COMPILED, workspace=workspace) as dagster:
            idle = idle_rate(dagster)
            spent = []
            for _ in range(count):
                began = time.monotonic()
                with cpu_seconds(dagster) as so_far:
                    dagster.launch("empty")
                    dagster.wait_for(lambda: not dagster.unfinished(), "the run")
                    time.sleep(2)  # until its worker is gone, and its parent has its times
                    spent.append(so_far() - idle * (time.monotonic() - began))
            dagster.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return statistics.median(spent)


def with_dagster(alone: int, burst: int, empty: float) -> None:
    """Print how soon dreams start under `dagster dev`, and what they cost."""
    with store() as (home, db, env), DagsterProcess(home, env=env) as dagster:
        idle = idle_rate(dagster)
        waits, spent = [], []
        for number in range(alone):
            began = time.monotonic()
            with cpu_seconds(dagster) as so_far:
                run = ended(db, submit(db, number))
                time.sleep(LINGER_S)
                dagster.wait_for(lambda: not dagster.unfinished(), "the run to end")
                time.sleep(2)
                spent.append(so_far() - idle * (time.monotonic() - began))
            waits.append(waited(run))
            time.sleep(number * 1.37 % TURN_S)
        print(f"Dagster, alone: starts after     {told(waits)}")
        each = statistics.median(spent)
        print(f"Dagster, alone:                  {each:6.2f} CPU s, {each - empty:.2f} above empty")
        began = time.monotonic()
        with cpu_seconds(dagster) as so_far:
            runs = [submit(db, alone + number) for number in range(burst)]
            waits = [waited(ended(db, run)) for run in runs]
            took = time.monotonic() - began
            time.sleep(LINGER_S)
            dagster.wait_for(lambda: not dagster.unfinished(), "the run to end")
            time.sleep(2)
            cost = (so_far() - idle * (time.monotonic() - began)) / burst
        print(
            f"Dagster, {burst} at once: start after   {told(waits)}; all ended after {took:.1f} s"
        )
        print(f"Dagster, {burst} at once:             {cost:6.2f} CPU s each")
        dagster.stop()


def idle_rate(dagster: DagsterProcess) -> float:
    """CPU seconds a second of an instance that has nothing to do."""
    dagster.wait_for(lambda: not dagster.unfinished(), "a quiet start", within_s=120)
    time.sleep(LINGER_S)
    with cpu_seconds(dagster) as so_far:
        time.sleep(IDLE_S)
        return so_far() / IDLE_S


# A server


def with_server(alone: int, burst: int) -> None:
    """Print the same of a server that works on dreams itself."""
    with store() as (home, db, env):
        command = [str(Path(sys.executable).parent / "pc"), "serve", "--port", "0"]
        env = env | {"PC_HOME": str(home), "PC_DREAM_WORKER": "true", "PATH": "/usr/bin:/bin"}
        with subprocess.Popen(
            command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as server:
            process = psutil.Process(server.pid)
            time.sleep(5)
            ended(db, submit(db, 0))  # the first one imports the model's client
            began, before = time.monotonic(), cpu(process)
            time.sleep(IDLE_S)
            idle = (cpu(process) - before) / (time.monotonic() - began)
            began, before, waits = time.monotonic(), cpu(process), []
            for number in range(1, alone + burst):
                waits.append(waited(ended(db, submit(db, number))))
            spent = cpu(process) - before - idle * (time.monotonic() - began)
            server.terminate()
        print(f"pc serve, alone: starts after    {told(waits)}")
        print(f"pc serve, alone:                 {spent / len(waits):6.2f} CPU s")
        print(f"pc serve, idle:                  {100 * idle:6.1f} % of one CPU")


def cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


# Dreams


@contextlib.contextmanager
def store() -> Iterator[tuple[Path, Database, dict[str, str]]]:
    """A home, a ledger with one scope and one source, and the environment that names both."""
    home = Path(tempfile.mkdtemp(prefix="pc-bench-"))
    url = f"sqlite:///{home / 'ledger.db'}"
    db = open_database(url)
    try:
        with ModelStub() as stub:
            create_scope(db, SCOPE, now_us=now_us())
            capture_many(db, SCOPE, [new_source("s1", "The import ran.")], now_us=now_us())
            yield home, db, {**stub.env(), **COMPILED, "PC_DATABASE_URL": url}
    finally:
        db.close()
        shutil.rmtree(home, ignore_errors=True)


def submit(db: Database, number: int) -> DreamRun:
    """Submit a dream of one entry and one source."""
    text = f"Fact {number} is known."
    entry = remember(db, SCOPE, kind="fact", text=text, now_us=now_us()).entry
    evidence = EvidenceRefs((SourceRef("content", "s1"),), (), (entry.citation,))
    request = dream_request("refine_experience", evidence)
    return dream.submit(db, Settings(), SCOPE, request, key=f"k{number}", now_us=now_us()).run


def ended(db: Database, run: DreamRun) -> DreamRun:
    """The dream once it has ended, as it is expected to."""
    while not (now := dream.get_dream(db, SCOPE, run.run_id)).ended:
        time.sleep(0.02)
    assert now.outcome == "proposed", now
    return now


def waited(run: DreamRun) -> float:
    """Seconds from its submission to its first attempt."""
    assert run.started_at is not None
    return (run.started_at - run.accepted_at) / 1_000_000


def told(waits: list[float]) -> str:
    return f"{statistics.median(waits):6.2f} s  (at most {max(waits):.2f}, of {len(waits)})"


if __name__ == "__main__":
    main()
