"""`pc memory`: what a scope remembers, how it came to be, and changing it by hand."""

from typing import Annotated

import typer

from pc_store.cli import console, shapes
from pc_store.services import extract
from pc_store.services import remember as service
from pc_store.services.clock import now_us
from pc_store.services.remember import Written

app = typer.Typer(no_args_is_help=True, help="Memory: entries, their versions and citations.")

EntryId = Annotated[str, typer.Argument(help="The entry's id.")]
Kind = Annotated[str, typer.Option(help="fact, preference, decision, constraint, …")]
Revision = Annotated[
    int | None,
    typer.Option(help="The memory revision you saw; the newest unless given.", min=1),
]


@app.command("list")
def list_(
    scope_id: console.ScopeId,
    include_inactive: Annotated[
        bool, typer.Option("--include-inactive", help="Retired entries too.")
    ] = False,
    after: Annotated[str, typer.Option(help="Only entries after this id.")] = "",
    limit: console.Limit = 100,
    as_json: console.Json = False,
) -> None:
    """List entries by creation."""
    with console.opened() as store:
        memory, entries = service.list_entries(
            store.db, scope_id, include_inactive=include_inactive, after=after, limit=limit
        )
    console.show_texts(
        [shapes.entry(cited) for cited in entries],
        as_json=as_json,
        title=lambda row: row["kind"],
        text=lambda row: row["text"],
        notes=lambda row: (
            f"{row['citation']['entry_id']} v{row['version']} {row['state']}, {console.cited(row)}"
        ),
        empty="no entries" if memory else "the scope has no memory yet",
    )


@app.command("show")
def show(
    scope_id: console.ScopeId,
    entry_id: EntryId,
    revision: Revision = None,
    version_id: Annotated[
        str | None, typer.Option(help="The entry version; that revision's unless given.")
    ] = None,
    as_json: console.Json = False,
) -> None:
    """Show one entry, now or exactly as a citation names it."""
    with console.opened() as store:
        cited = service.cite(
            store.db, scope_id, entry_id, revision=revision, entry_version_id=version_id
        )
    if as_json:
        console.json_line(shapes.entry(cited))
        return
    entry = cited.entry
    console.say(f"{entry.kind}, version {entry.version}, {entry.state}, by {entry.origin}")
    console.say(entry.text)
    for ref in entry.source_refs:
        console.say(f"  from {ref.source_type} {ref.source_id}")
    memory = cited.citation.memory
    console.say(f"citation {memory.family}/{memory.artifact_id}@{memory.revision}")
    console.say(f"  {entry.entry_id} {entry.entry_version_id}")


@app.command("history")
def history(scope_id: console.ScopeId, entry_id: EntryId, as_json: console.Json = False) -> None:
    """List every version of an entry, oldest first."""
    with console.opened() as store:
        versions = service.entry_history(store.db, scope_id, entry_id)
    console.show_texts(
        [{"entry_version_id": item.entry_version_id, **shapes.version(item)} for item in versions],
        as_json=as_json,
        title=lambda row: f"v{row['version']} {row['kind']}",
        text=lambda row: row["text"],
        notes=lambda row: f"in revision {row['created_in_revision']}, {console.cited(row)}",
        empty="no versions",
    )


@app.command("changes")
def changes(
    scope_id: console.ScopeId,
    since: Annotated[
        int | None, typer.Option(min=0, help="After this revision; the last one only unless given.")
    ] = None,
    as_json: console.Json = False,
) -> None:
    """List what revisions of the memory changed."""
    with console.opened() as store:
        _, rows = service.list_changes(store.db, scope_id, since_revision=since)
    console.show(
        [vars(row) for row in rows],
        as_json=as_json,
        columns=("revision", "op", "entry", "reason"),
        cells=lambda row: (row["revision"], row["op"], row["entry_id"], row["reason"]),
        empty="no changes",
    )


@app.command("remember")
def remember(
    scope_id: console.ScopeId,
    text: Annotated[str, typer.Argument(help="One fact or rule.")],
    kind: Kind = "fact",
    reason: console.Reason = None,
    expected_revision: Revision = None,
    as_json: console.Json = False,
) -> None:
    """Add an entry by hand."""
    with console.opened() as store:
        result = service.remember(
            store.db,
            scope_id,
            kind=kind,
            text=text,
            reason=reason,
            expected_revision=expected_revision,
            refuse_secrets=store.settings.secret_detection,
            now_us=now_us(),
        )
    _tell(result, as_json, nothing="already known, nothing was added")


@app.command("revise")
def revise(
    scope_id: console.ScopeId,
    entry_id: EntryId,
    text: Annotated[str, typer.Argument(help="Its new text.")],
    kind: Annotated[str | None, typer.Option(help="Its new kind; as it was unless given.")] = None,
    reason: console.Reason = None,
    revision: Revision = None,
    as_json: console.Json = False,
) -> None:
    """Give an entry a new text; the old one stays readable."""
    with console.opened() as store:
        cited = service.cite(store.db, scope_id, entry_id, revision=revision)
        result = service.revise(
            store.db,
            scope_id,
            cited.citation,
            kind=kind or cited.entry.kind,
            text=text,
            reason=reason,
            refuse_secrets=store.settings.secret_detection,
            now_us=now_us(),
        )
    _tell(result, as_json)


@app.command("retire")
def retire(
    scope_id: console.ScopeId,
    entry_id: EntryId,
    reason: console.Reason = None,
    revision: Revision = None,
    as_json: console.Json = False,
) -> None:
    """Take an entry out of recall; its history stays."""
    with console.opened() as store:
        cited = service.cite(store.db, scope_id, entry_id, revision=revision)
        result = service.retire(store.db, scope_id, cited.citation, reason=reason, now_us=now_us())
    _tell(result, as_json)


@app.command("reactivate")
def reactivate(
    scope_id: console.ScopeId,
    entry_id: EntryId,
    reason: console.Reason = None,
    revision: Revision = None,
    as_json: console.Json = False,
) -> None:
    """Bring a retired entry back."""
    with console.opened() as store:
        cited = service.cite(store.db, scope_id, entry_id, revision=revision)
        result = service.reactivate(
            store.db, scope_id, cited.citation, reason=reason, now_us=now_us()
        )
    _tell(result, as_json)


@app.command("flush")
def flush(scope_id: console.ScopeId, as_json: console.Json = False) -> None:
    """Process the scope's next window now, without Dagster."""
    with console.opened() as store:
        result = extract.flush(store.db, store.settings, store.proposer, scope_id)
    _progress(result, as_json)


@app.command("drain")
def drain(
    scope_id: console.ScopeId,
    budget_s: Annotated[
        float | None, typer.Option(min=0, help="Begin no window after this many seconds.")
    ] = None,
    as_json: console.Json = False,
) -> None:
    """Process windows until the log's present end, without Dagster."""
    with console.opened() as store:
        done = extract.drain(
            store.db,
            store.settings,
            store.proposer,
            scope_id,
            budget_s=store.settings.drain_budget_s if budget_s is None else budget_s,
            on_window=lambda result: _progress(result, as_json),
        )
    if not done and not as_json:
        console.say("idle: nothing waits")


def _progress(result: extract.Processed, as_json: bool) -> None:
    if as_json:
        console.json_line(shapes.processed(result))
        return
    if result.window is None or not result.window.counts:
        console.say(f"{result.status}: cursor {result.current_cursor} of {result.high_watermark}")
        return
    counts = result.window.counts
    console.say(
        f"{result.status} ({result.previous_cursor}, {result.current_cursor}] of "
        f"{result.high_watermark}: {result.processed_source_count} sources, "
        f"{counts['added']} added, {counts['revised']} revised, {counts['unchanged']} known, "
        f"{counts['rejected']} rejected [provider={result.window.provider}]"
    )


def _tell(result: Written, as_json: bool, *, nothing: str = "nothing changed") -> None:
    if as_json:
        console.json_line(shapes.written(result))
    elif result.entry is None or result.memory is None:
        console.say(nothing)
    else:
        entry = result.entry.entry
        console.say(
            f"{entry.entry_id} version {entry.version}, {entry.state}, "
            f"in revision {result.memory.revision}"
        )
