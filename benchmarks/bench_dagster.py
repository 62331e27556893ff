"""What Dagster costs: a window by itself, a window in a drain run, and a tick of the sensor.

    python benchmarks/bench_dagster.py [--windows 8] [--scopes 5000] [--only live tick]

Live: a real `dagster dev`, whose sensor asks for runs. Counted are the CPU seconds of all its
processes, the run workers that have ended included, less what the same processes spend idle in
the same time. The model is the tests' stub, which costs this machine nothing worth counting, so
what is left is Dagster's share and the store's own.
Tick: `memory_windows_due` with as many scopes due, on SQLite, and on Postgres where a server can
be started. CPU of this process; wall time beside it, as the database's work is not in the former.

Compare the lines of one run with each other, not the numbers of different machines.
"""

# ruff: noqa: E402 - the imports need the path set first

import argparse
import contextlib
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(_TESTS), str(_TESTS / "pipelines")]

import dagster as dg
from dagster_process import ROOT, DagsterProcess, cpu_seconds
from model_stub import ModelStub
from postgres_server import Databases, NoServerError, running_server

from pc_store.domain.source import new_source
from pc_store.ledger import scopes, sources
from pc_store.ledger.database import Database, open_database
from pc_store.services.administer import create_scope, scope_status
from pc_store.services.capture import capture_many
from pc_store.services.clock import now_us

LIMIT = 10
IDLE_S = 15.0
TICK_LIMIT_S = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--windows", type=int, default=8, help="single-window runs to measure")
    parser.add_argument("--scopes", type=int, default=5_000, help="scopes due at a tick")
    parser.add_argument("--only", nargs="*", choices=["live", "tick"], default=["live", "tick"])
    chosen = parser.parse_args()
    if "tick" in chosen.only:
        ticks(chosen.scopes)
    if "live" in chosen.only:
        live(chosen.windows)


# Live


def live(windows: int) -> None:
    """Print CPU seconds per window, alone and in a drain run."""
    home = Path(tempfile.mkdtemp(prefix="pc-bench-"))
    env = {"PC_SOURCE_WINDOW_LIMIT": str(LIMIT), "PC_MEMORY_SCHEDULE_SECONDS": "1"}
    db = open_database(f"sqlite:///{home / 'ledger.db'}")
    try:
        with ModelStub() as stub, DagsterProcess(home, env={**env, **stub.env()}) as dagster:
            dagster.wait_for(lambda: not dagster.unfinished(), "a quiet start")
            time.sleep(5)
            with cpu_seconds(dagster) as spent:
                time.sleep(IDLE_S)
                idle = spent() / IDLE_S
            single = [measured(dagster, db, f"single{n}", 1, idle) for n in range(windows)]
            drained = [measured(dagster, db, f"drain{n}", 20, idle) for n in range(3)]
            dagster.stop()
    finally:
        db.close()
        shutil.rmtree(home, ignore_errors=True)
    alone, start = statistics.median(single), statistics.median(drained)
    print(f"idle instance                      {100 * idle:8.1f} % of one CPU")
    print(f"a window in a run of its own       {alone:8.2f} CPU s  (median of {len(single)})")
    print(f"a window in a drain run of 20      {start:8.2f} CPU s  (median of {len(drained)} runs)")
    print(f"ratio                              {alone / start:8.1f}")


def measured(dagster: DagsterProcess, db: Database, scope: str, count: int, idle: float) -> float:
    """CPU seconds per window of a new scope with so many windows, above idling."""
    create_scope(db, scope, now_us=now_us())
    offered = [new_source(f"s{n}", f"Fact {n} of {scope} holds.") for n in range(count * LIMIT)]
    began = time.monotonic()
    with cpu_seconds(dagster) as spent:
        capture_many(db, scope, offered, now_us=now_us())
        dagster.wait_for(
            lambda: scope_status(db, scope).memory_lag == 0 and not dagster.unfinished(),
            "the windows",
            within_s=240,
            every_s=0.25,
        )
        time.sleep(1.5)  # until the worker is gone, and its parent has its times
        return (spent() - idle * (time.monotonic() - began)) / count


# Ticks


def ticks(count: int) -> None:
    """Print what a tick costs with so many scopes due, on each database there is."""
    for name, ledger, history in stores():
        home = Path(tempfile.mkdtemp(prefix="pc-bench-"))
        try:
            os.environ.update(PC_DATABASE_URL=ledger, PC_HOME=str(home), DAGSTER_HOME=str(home))
            os.environ["PC_SOURCE_WINDOW_LIMIT"] = "1"  # four sources are a backlog
            os.environ.pop("PC_DAGSTER_POSTGRES_URL", None)
            if history:
                os.environ["PC_DAGSTER_POSTGRES_URL"] = history
            shutil.copyfile(ROOT / "dagster.yaml", home / "dagster.yaml")
            for kind, size in (("small lags, swept", 1), ("backlogs, drained", 4)):
                fill(ledger, count, size, tag=kind.partition(" ")[0])
                report(f"{name}, {count} {kind}", home)
        finally:
            shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def postgres() -> Iterator[Databases | None]:
    try:
        with running_server() as url:
            databases = Databases(url)
            yield databases
            databases.close()
    except NoServerError as error:
        print(f"no Postgres: {error}")
        yield None


def stores() -> Iterator[tuple[str, str, str | None]]:
    """Yield (name, ledger URL, URL of Dagster's history or None for SQLite)."""
    home = Path(tempfile.mkdtemp(prefix="pc-bench-"))
    try:
        yield "SQLite", f"sqlite:///{home / 'ledger.db'}", None
    finally:
        shutil.rmtree(home, ignore_errors=True)
    with postgres() as databases:
        if databases is not None:
            yield "Postgres", databases.create(), databases.create()


def fill(url: str, count: int, lag: int, *, tag: str) -> None:
    """Make every scope due with this lag; the scopes of earlier calls are done with."""
    db = open_database(url)
    offered = [new_source(str(n), "One fact.") for n in range(lag)]
    with db.write() as conn:
        conn.exec_driver_sql(
            "UPDATE cursors SET position = (SELECT position FROM source_heads AS head"
            " WHERE head.scope_id = cursors.scope_id)"
        )
        for n in range(count):
            name = f"{tag}{n:05}"
            scopes.create(conn, name, title=name, summary=name, now_us=now_us())
            sources.append(conn, name, offered, after=0, now_us=now_us())
    db.close()


def report(what: str, home: Path) -> None:
    """Print the median of five ticks; each is followed by a tick whose runs are unfinished."""
    from pc_pipelines import resources
    from pc_pipelines.definitions import defs

    repository = defs.get_repository_def()
    sensor = repository.get_sensor_def("memory_windows_due")
    cpu, wall, asked = [], [], 0
    with dg.DagsterInstance.from_config(str(home)) as instance:
        for turn in range(6):
            context = dg.build_sensor_context(
                instance_ref=instance.get_ref(),
                resources={"store": resources.StoreResource()},
                repository_def=repository,
            )
            with context:
                began, spent = time.perf_counter(), time.process_time()
                outcome = sensor.evaluate_tick(context)
                if turn:  # the first one opens connections
                    wall.append(time.perf_counter() - began)
                    cpu.append(time.process_time() - spent)
            asked = len(outcome.run_requests or [])
    resources.StoreResource().db.close()
    resources._database.cache_clear()
    slowest = max(wall)
    print(
        f"tick: {what:40} {statistics.median(cpu):6.2f} CPU s, {statistics.median(wall):6.2f} s "
        f"wall, {asked} runs; slowest {slowest:.2f} s, {TICK_LIMIT_S / slowest:.0f} times in 5 s",
        flush=True,
    )


if __name__ == "__main__":
    main()
