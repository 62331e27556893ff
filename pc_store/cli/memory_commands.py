"""`pc memory`: what a scope remembers, and how it came to be."""

from typing import Annotated, Any

import typer

from pc_store.cli import console
from pc_store.client import Client
from pc_store.client.citing import cite

app = typer.Typer(no_args_is_help=True, help="Memory: entries, their versions and citations.")

EntryId = Annotated[str, typer.Argument(help="The entry's id.")]
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
    kind: Annotated[str | None, typer.Option(help="Only entries of this kind.")] = None,
    limit: console.Limit = 100,
    as_json: console.Json = False,
) -> None:
    """List entries by creation."""
    memory: list[Any] = []

    def page(client: Client, most: int, cursor: str | None) -> tuple[Any, str | None]:
        answer = client.list_memory_entries(
            scope_id, include_inactive=include_inactive, kind=kind, limit=most, cursor=cursor
        )
        memory.append(answer.memory)
        return answer.entries, answer.next_cursor

    with console.connected() as client:
        rows = console.rows_of(lambda most, cursor: page(client, most, cursor), most=limit)
    console.show_texts(
        rows,
        as_json=as_json,
        title=lambda row: row["kind"],
        text=lambda row: row["text"],
        notes=lambda row: (
            f"{row['citation']['entry_id']} v{row['version']} {row['state']}, {console.cited(row)}"
        ),
        empty="no entries" if memory[0] else "the scope has no memory yet",
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
    with console.connected() as client:
        cited = cite(client, scope_id, entry_id, revision=revision, entry_version_id=version_id)
        row = console.row(
            client.get_memory_entry(scope_id, cited.citation, include=["origin", "reason", "times"])
        )
    if as_json:
        console.json_line(row)
        return
    console.say(f"{row['kind']}, version {row['version']}, {row['state']}, by {row['origin']}")
    console.say(row["text"])
    for ref in row["source_refs"]:
        console.say(f"  from {ref['name']} {ref['source_id']}")
    why = f": {row['reason']}" if row["reason"] else ""
    console.say(f"changed {console.moment(row['updated_at'])}{why}")
    memory = row["citation"]["memory_ref"]
    console.say(f"citation {memory['family']}/{memory['artifact_id']}@{memory['revision']}")
    console.say(f"  {row['citation']['entry_id']} {row['citation']['entry_version_id']}")


@app.command("history")
def history(scope_id: console.ScopeId, entry_id: EntryId, as_json: console.Json = False) -> None:
    """List every change of an entry, oldest first."""
    with console.connected() as client:
        found = client.list_memory_entry_history(scope_id, entry_id)
    console.show_texts(
        [console.row(change) for change in found.changes],
        as_json=as_json,
        title=lambda row: f"{row['op']} v{row['version']} {row['kind']}",
        text=lambda row: row["text"] or "(erased)",
        notes=lambda row: (
            f"{console.moment(row['created_at'])}, revision {row['memory_ref']['revision']}, "
            f"by {row['origin']}, {console.cited(row)}"
            f"{': ' + row['reason'] if row['reason'] else ''}"
        ),
        empty="no changes",
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
    with console.connected() as client:
        found = client.list_memory_changes(scope_id, since_revision=since)
    console.show(
        [
            {"revision": revision.memory_ref.revision, **console.row(change)}
            for revision in found.revisions
            for change in revision.changes
        ],
        as_json=as_json,
        columns=("revision", "op", "entry", "reason"),
        cells=lambda row: (row["revision"], row["op"], row["entry_id"], row["reason"]),
        empty="no changes",
    )


@app.command("diff")
def diff(
    scope_id: console.ScopeId,
    before: Annotated[int, typer.Argument(min=0, help="A revision; 0 is the empty memory.")],
    after: Annotated[int, typer.Argument(min=1, help="A later one.")],
    as_json: console.Json = False,
) -> None:
    """Compare two revisions of the memory."""
    with console.connected() as client:
        found = client.compare_memory_revisions(scope_id, before, after)
    rows = [console.row(one) for one in found.entries]
    if as_json or not rows:
        console.show(rows, as_json=as_json, columns=(), cells=lambda _: (), empty="no difference")
        return
    for row in rows:
        console.say(row["entry_id"])
        for sign, side in (("-", row["before"]), ("+", row["after"])):
            if side is not None:
                text = side["text"] or "(erased)"
                console.say(f"  {sign} {side['kind']} v{side['version']} {side['state']}: {text}")


@app.command("capacity")
def capacity(scope_id: console.ScopeId, as_json: console.Json = False) -> None:
    """Show how large the memory is against its budget."""
    with console.connected() as client:
        found = console.row(client.get_memory_capacity(scope_id))
    if as_json:
        console.json_line(found)
        return
    budget = found["budget"]
    console.show(
        [
            {
                "what": "active entries",
                "now": found["active_entry_count"],
                "most": "active_entries",
            },
            {"what": "entries", "now": found["manifest_entry_count"], "most": "manifest_entries"},
            {"what": "bytes", "now": found["manifest_bytes"], "most": "manifest_bytes"},
        ],
        as_json=False,
        columns=("", "now", "at most", ""),
        cells=lambda row: (
            row["what"],
            f"{row['now']:,}",
            f"{budget['max_' + row['most']]:,}",
            "exceeded" if row["most"] in found["exceeded"] else "",
        ),
        empty="",
    )
