"""`pc scope`: create, list, show."""

from typing import Annotated

import typer

from pc_store.cli import console, shapes
from pc_store.services import administer
from pc_store.services.clock import now_us

app = typer.Typer(no_args_is_help=True, help="Scopes: the isolation boundary of logs and memory.")


@app.command("create")
def create(
    scope_id: console.ScopeId,
    title: Annotated[str | None, typer.Option(help="Its title; the id unless given.")] = None,
    summary: Annotated[str | None, typer.Option(help="What it is about.")] = None,
    as_json: console.Json = False,
) -> None:
    """Create a scope under an id of your choice."""
    with console.opened() as store:
        scope = administer.create_scope(
            store.db, scope_id, title=title, summary=summary, now_us=now_us()
        )
    if as_json:
        console.json_line(shapes.scope(scope))
    else:
        console.say(f"created {scope.scope_id} (partition key {scope.key})")


@app.command("list")
def list_(limit: console.Limit = 100, as_json: console.Json = False) -> None:
    """List scopes by id, with their log's end, cursor and memory."""
    with console.opened() as store:
        rows = [
            shapes.scope_status(administer.scope_status(store.db, scope.scope_id))
            for scope in administer.list_scopes(store.db, limit=limit)
        ]
    console.show(
        rows,
        as_json=as_json,
        columns=("scope", "sources", "cursor", "lag", "entries", "revision", "quarantined"),
        cells=lambda row: (
            row["scope_id"],
            row["high_watermark"],
            row["cursors"]["memory"],
            row["memory_lag"],
            row["active_entries"],
            row["memory_revision"],
            row["quarantined"],
        ),
        empty="there are no scopes yet: pc scope create SCOPE, or pc ingest … --create-scope",
    )


@app.command("show")
def show(scope_id: console.ScopeId, as_json: console.Json = False) -> None:
    """Show where a scope stands: log, cursors, memory, and what its open window waits for."""
    with console.opened() as store:
        status = administer.scope_status(store.db, scope_id)
    if as_json:
        console.json_line(shapes.scope_status(status))
        return
    console.say(f"{status.scope.scope_id}: {status.scope.title}")
    console.say(f"log        {status.high_watermark} sources")
    console.say(f"memory     cursor {status.cursors['memory']}, {status.memory_lag} behind")
    console.say(
        f"entries    {status.active_entries} active, {status.inactive_entries} retired, "
        f"revision {status.memory_revision}"
    )
    console.say(f"quarantine {status.quarantined} sources")
    window = status.open_window
    if window is not None:
        failed = f": {window.error['message']}" if window.error else ""
        console.say(
            f"window     ({window.after}, {window.through}] {window.status}, "
            f"attempt {window.attempt}{failed}"
        )
        if window.next_attempt_at:
            console.say(f"next try   {console.moment(window.next_attempt_at)} UTC")
