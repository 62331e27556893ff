"""`pc ingest`: read logs into a scope, with a progress bar."""

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from pc_store.cli import console
from pc_store.readers.detect import FORMATS
from pc_store.services import ingest as service
from pc_store.services.administer import ensure_scope, get_scope
from pc_store.services.clock import now_us

REJECTS_SHOWN = 10


def ingest(
    scope_id: console.ScopeId,
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", exists=True, help="Files or folders.")
    ],
    format: Annotated[str, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")] = "auto",
    create_scope: Annotated[
        bool, typer.Option("--create-scope", help="Create the scope if there is none.")
    ] = False,
    as_json: console.Json = False,
) -> None:
    """Append what logs hold to a scope's log, each source once.

    Lines that cannot become a source are listed, kept in a reject file, and stop nothing else.
    """
    with console.opened("ingest") as store:
        if create_scope:
            ensure_scope(store.db, scope_id, now_us=now_us())
        else:
            get_scope(store.db, scope_id)
        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TextColumn("{task.fields[sources]} sources"),
            TimeRemainingColumn(),
            console=console.err,
            transient=True,
            disable=not console.err.is_terminal,
        )
        with bar:
            task = bar.add_task("reading", sources=0)

            def advance(progress: service.Progress) -> None:
                bar.update(
                    task,
                    total=progress.bytes_total,
                    completed=progress.bytes_done,
                    sources=progress.sources,
                    description=console.short(progress.file, 40) or "done",
                )

            report = service.ingest(
                store.db,
                scope_id,
                paths,
                format=format,
                rejects_dir=store.settings.rejects_path,
                on_progress=advance,
            )
    if as_json:
        console.json_line(
            {
                "scope_id": scope_id,
                "files": report.files,
                "read": report.read,
                "new": report.new,
                "known": report.known,
                "dropped": dict(report.dropped),
                "rejected": report.rejected_count,
                "reject_file": report.reject_file,
                "first_position": report.first_position,
                "last_position": report.last_position,
            }
        )
        return
    where = f", positions {report.first_position} to {report.last_position}" if report.new else ""
    console.say(
        f"{report.files} files, {report.read} sources: {report.new} new{where}, "
        f"{report.known} already known"
    )
    if report.dropped:
        noise = ", ".join(f"{count} {kind}" for kind, count in sorted(report.dropped.items()))
        console.say(f"left out as noise: {noise}")
    if report.rejected_count:
        console.say(f"rejected: {report.rejected_count}, kept in {report.reject_file}")
        for reject in report.rejected[:REJECTS_SHOWN]:
            line = "" if reject.line is None else f":{reject.line}"
            console.say(f"  {reject.file}{line}  {reject.reason}")
        if report.rejected_count > REJECTS_SHOWN:
            console.say(f"  … and {report.rejected_count - REJECTS_SHOWN} more")
