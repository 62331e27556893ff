"""The main job on a small real log, in one terminal: sources in, memory and experience out.

It uses the code location that `make dev` serves, on the Dagster instance in $DAGSTER_HOME, so
what it does can be looked at in the UI afterwards. Run it with `make demo`.
"""

import os
import shutil
import sys
import time
from pathlib import Path

os.environ.setdefault("PC_SOURCE_WINDOW_LIMIT", "24")

import dagster as dg
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pc_pipelines.definitions import defs
from pc_pipelines.partitions import scopes
from pc_pipelines.resources import StoreResource
from pc_store.errors import StoreError
from pc_store.ledger.database import Database, open_database
from pc_store.services import administer, find, remember, review, watch
from pc_store.services.clock import now_us
from pc_store.settings import Settings

LOG = Path(__file__).parent / "orders"
SCOPE = "orders"
QUESTION = "amount 字段应该怎么处理？"
QUIET = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}

out = Console(highlight=False, soft_wrap=True)


def main() -> int:
    """Run the demo; 0 when every run succeeded."""
    started = time.monotonic()
    settings = Settings.load()
    db = open_database(settings.ledger_url)
    instance = dg.DagsterInstance.get()
    administer.ensure_scope(db, SCOPE, now_us=now_us())

    head("1. Sources in", "the files of the landing folder become the scope's log")
    landing = settings.landing_path / SCOPE
    shutil.copytree(LOG, landing, dirs_exist_ok=True)
    old = time.time() - 60  # files that were just copied would wait, they might be half there
    for file in landing.iterdir():
        os.utime(file, (old, old))
    instance.add_dynamic_partitions(str(scopes.name), [SCOPE])
    run("source_ingestion", instance, SCOPE)
    status = administer.scope_status(db, SCOPE)
    out.print(
        f"{len(list(LOG.iterdir()))} files of an order importer's work log, English and Chinese: "
        f"{status.high_watermark} sources"
    )

    head("2. Windows", "the sensor asks for runs until the cursor is at the end")
    run_due("memory_windows_due", instance)
    show_windows(db)

    head("3. Memory out", "entries with versions, and the sources each of them cites")
    show_memory(db)

    head("4. A question", QUESTION)
    for hit in find.search(db, settings, SCOPE, QUESTION, limit=3).hits:
        cited = ", ".join(ref.source_id for ref in hit.sources)
        out.print(Text(f"   {hit.text}"))
        out.print(Text(f"      {hit.kind}, from {cited}", style="dim"))
    citation_of_first(db, settings)

    head("5. Experience", "the log's task outcomes become candidates; people approve, nothing else")
    run_due("experience_windows_due", instance)
    show_candidates(db)

    head("Next", f"{time.monotonic() - started:.0f} s so far")
    for command, what in (
        ("make dev", "the Dagster UI with these runs, at http://127.0.0.1:3000"),
        (f'.venv/bin/pc search {SCOPE} "import errors"', "ask something else"),
        (f".venv/bin/pc review {SCOPE}", "look at the candidates: approve, revise or reject each"),
        (f'.venv/bin/pc prepare {SCOPE} "amounts"', "what an agent would be given"),
        ("PC_LLM_BASE_URL=… PC_LLM_MODEL=… make dev", "with a model; see README, Models"),
    ):
        out.print(Text(f"   {command}", style="bold"))
        out.print(Text(f"      {what}", style="dim"))
    db.close()
    return 0


def run_due(sensor_name: str, instance: dg.DagsterInstance) -> None:
    """Run what a sensor asks for until it asks for nothing."""
    while runs := due(sensor_name, instance):
        for job, partition in runs:
            run(job, instance, partition)
            out.print(f"   {partition} done")


def due(sensor_name: str, instance: dg.DagsterInstance) -> list[tuple[str, str]]:
    """What the sensor asks for in one tick, its partitions added, as the daemon would."""
    sensor = defs.resolve_sensor_def(sensor_name)
    with dg.build_sensor_context(
        instance_ref=instance.get_ref(), resources={"store": StoreResource()}, definitions=defs
    ) as context:
        tick = sensor.evaluate_tick(context)
    for request in tick.dynamic_partitions_requests or []:
        instance.add_dynamic_partitions(request.partitions_def_name, request.partition_keys)
    return [
        (request.job_name or "", request.partition_key or "") for request in tick.run_requests or []
    ]


def run(job: str, instance: dg.DagsterInstance, partition: str) -> None:
    """Run a job on one partition; a failure ends the demo."""
    result = defs.resolve_job_def(job).execute_in_process(
        partition_key=partition, instance=instance, run_config=QUIET, raise_on_error=False
    )
    if not result.success:
        for event in result.get_step_failure_events():
            out.print(Text(str(event.message), style="red"))
        sys.exit(f"the run {result.run_id} of {job} failed")


def show_windows(db: Database) -> None:
    """What each window did."""
    table = Table("", "window", "sources", "added", "revised", "known", "seconds", box=None)
    provider = ""
    for key, row in reversed(watch.list_windows(db, scope_id=SCOPE, consumer="memory", limit=20)):
        counts, usage = row.counts or {}, row.usage or {}
        provider = f"provider={row.provider}, {row.model}"
        table.add_row(
            " ",
            str(key),
            *(str(counts.get(name, "")) for name in ("sources", "added", "revised", "unchanged")),
            f"{usage.get('seconds', 0):.2f}",
        )
    out.print(table)
    status = administer.scope_status(db, SCOPE)
    out.print(f"cursor {status.cursors['memory']} of {status.high_watermark}, {provider}")


def show_memory(db: Database) -> None:
    """Some entries by kind, and the history of one that changed."""
    memory, entries = remember.list_entries(db, SCOPE, limit=1_000)
    assert memory is not None
    for kind in ("decision", "constraint", "preference", "working_note", "fact"):
        for cited in [item for item in entries if item.entry.kind == kind][:3]:
            names = ", ".join(ref.source_id for ref in cited.entry.source_refs)
            out.print(Text(f"   {kind:<12} ", style="cyan").append(cited.entry.text, "default"))
            out.print(Text(f"{'':<16}from {names}", style="dim"))
    out.print(f"{len(entries)} active entries in {memory.family} revision {memory.revision}")
    changed = [item for item in entries if item.entry.version > 1]
    if changed:
        out.print("One of them changed; its old words stay readable:")
        for version in remember.entry_history(db, SCOPE, changed[0].entry.entry_id):
            names = ", ".join(ref.source_id for ref in version.source_refs)
            out.print(Text(f"   v{version.version} ", style="cyan").append(version.text, "default"))
            out.print(Text(f"      from {names}", style="dim"))


def show_candidates(db: Database) -> None:
    """What waits for review, and the outcome each rests on."""
    waiting = review.list_candidates(db, SCOPE, limit=100).items
    for candidate in waiting:
        names = ", ".join(ref.source_id for ref in candidate.evidence.sources)
        out.print(Text("   when    ", style="cyan").append(candidate.proposal.situation, "default"))
        out.print(Text("   lesson  ", style="cyan").append(candidate.proposal.lesson, "default"))
        out.print(Text(f"           {candidate.status}, from {names}", style="dim"))
    out.print(f"{len(waiting)} candidates wait for review")


def citation_of_first(db: Database, settings: Settings) -> None:
    """The exact citation behind the first answer."""
    hits = find.search(db, settings, SCOPE, QUESTION, limit=1).hits
    if hits:
        citation = hits[0].citation
        ref = citation.memory
        out.print(
            Text(
                f"   citation {ref.family}/{ref.artifact_id}@{ref.revision} "
                f"{citation.entry_id} {citation.entry_version_id}",
                style="dim",
            )
        )


def head(title: str, what: str) -> None:
    """A heading."""
    out.print()
    out.print(Text(title, style="bold").append(f"  {what}", style="dim"))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except StoreError as error:
        sys.exit(f"demo: {error.message}")
