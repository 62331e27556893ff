"""`pc scope`: create, list, show, update; the default one; bindings of outside ids."""

import secrets
from typing import Annotated, Any

import typer

from pc_store.cli import console
from pc_store.client import Client, ScopeBindingKey
from pc_store.domain.scope import partition_key

app = typer.Typer(no_args_is_help=True, help="Scopes: the isolation boundary of logs and memory.")

Integration = Annotated[str, typer.Argument(help="Who calls it that, such as git.")]
Kind = Annotated[str, typer.Argument(help="What sort of thing it is, such as remote.")]
ExternalId = Annotated[str, typer.Argument(help="What it is called there.")]


@app.command("create")
def create(
    scope_id: console.ScopeId,
    title: Annotated[str | None, typer.Option(help="Its title; the id unless given.")] = None,
    summary: Annotated[str | None, typer.Option(help="What it is about.")] = None,
    parent: Annotated[str | None, typer.Option(help="The scope it is part of.")] = None,
    as_json: console.Json = False,
) -> None:
    """Create a scope under an id of your choice."""
    with console.connected() as client:
        scope = client.create_scope(
            title or scope_id,
            summary or title or scope_id,
            scope_id=scope_id,
            parent_scope_id=parent,
            idempotency_key=f"pc-{secrets.token_hex(16)}",
        )
    console.tell(scope, f"created {scope.scope_id}", as_json=as_json)


@app.command("list")
def list_(limit: console.Limit = 100, as_json: console.Json = False) -> None:
    """List scopes by id, with what their logs and memories hold."""
    with console.connected() as client:
        rows = console.rows_of(
            lambda most, cursor: _page(client, most, cursor),
            most=limit,
        )
        held = _held(client, [row["scope_id"] for row in rows])
    console.show(
        [row | held[row["scope_id"]] for row in rows],
        as_json=as_json,
        columns=("scope", "title", "sources", "waiting", "entries", "retired"),
        cells=lambda row: (
            row["scope_id"],
            row["title"],
            row["sources"]["total"],
            row["sources"]["memory_pending"],
            row["entries"]["active"],
            row["entries"]["inactive"],
        ),
        empty="there are no scopes yet: pc scope create SCOPE, or pc ingest … --create-scope",
    )


@app.command("show")
def show(scope_id: console.ScopeId, as_json: console.Json = False) -> None:
    """Show where a scope stands: log, cursor, memory, and what its open window waits for."""
    with console.connected() as client:
        scope = console.row(client.get_scope(scope_id))
        at = console.row(client.get_processing_status(scope_id))
        memory = client.list_memory_changes(scope_id).memory
        held = _held(client, [scope_id])[scope_id]
    revision = 0 if memory is None else memory.revision
    if as_json:
        console.json_line(
            scope | held | {"key": partition_key(scope_id), "revision": revision, "processing": at}
        )
        return
    console.say(f"{scope_id}: {scope['title']}")
    if scope["summary"] != scope["title"]:
        console.say(scope["summary"])
    console.say(f"partition  {partition_key(scope_id)}")
    console.say(f"log        {at['high_watermark']} sources")
    console.say(f"memory     cursor {at['cursor']}, {at['pending']} behind")
    console.say(
        f"entries    {held['entries']['active']} active, {held['entries']['inactive']} retired, "
        f"revision {revision}"
    )
    console.say(f"quarantine {at['quarantined']} sources")
    if at["window_status"]:
        failed = f": {at['last_error']['message']}" if at["last_error"] else ""
        console.say(f"window     {at['window_status']}, attempt {at['attempt']}{failed}")
    if at["next_attempt_at"]:
        console.say(f"next try   {console.moment(at['next_attempt_at'])} UTC")


@app.command("update")
def update(
    scope_id: console.ScopeId,
    title: Annotated[str | None, typer.Option(help="Its new title.")] = None,
    summary: Annotated[str | None, typer.Option(help="What it is about.")] = None,
    parent: Annotated[
        str | None, typer.Option(help="The scope it is part of; an empty one for none.")
    ] = None,
    reference: Annotated[
        list[str] | None,
        typer.Option(help="A scope whose knowledge is read as well; replaces the ones it has."),
    ] = None,
    version: Annotated[
        int | None, typer.Option(min=1, help="The version you saw; the newest unless given.")
    ] = None,
    as_json: console.Json = False,
) -> None:
    """Change what a scope says of itself; what is not given stays."""
    with console.connected() as client:
        now = client.get_scope(scope_id)
        scope = client.update_scope(
            scope_id,
            expected_version=version or now.version,
            title=now.title if title is None else title,
            summary=now.summary if summary is None else summary,
            parent_scope_id=now.parent_scope_id if parent is None else parent or None,
            context_references=now.context_references if reference is None else reference,
            external_references=[one.model_dump() for one in now.external_references],
        )
    console.tell(scope, f"{scope_id} is at version {scope.version}", as_json=as_json)


@app.command("default")
def default(
    scope_id: Annotated[
        str | None, typer.Argument(metavar="[SCOPE]", help="The new one; shows it unless given.")
    ] = None,
    as_json: console.Json = False,
) -> None:
    """Show or choose the default scope."""
    with console.connected() as client:
        if scope_id is None:
            scope = client.get_default_scope()
        else:
            scope = client.set_default_scope(scope_id)
    console.tell(scope, f"the default scope is {scope.scope_id}: {scope.title}", as_json=as_json)


@app.command("bind")
def bind(
    scope_id: console.ScopeId,
    integration: Integration,
    kind: Kind,
    external_id: ExternalId,
    as_json: console.Json = False,
) -> None:
    """Bind an outside id to a scope, in place of an earlier binding."""
    with console.connected() as client:
        binding = client.set_scope_binding(_key(integration, kind, external_id), scope_id)
    console.tell(binding, f"{integration} {kind} {external_id} means {scope_id}", as_json=as_json)


@app.command("unbind")
def unbind(
    integration: Integration, kind: Kind, external_id: ExternalId, as_json: console.Json = False
) -> None:
    """Forget what an outside id means."""
    with console.connected() as client:
        done = client.clear_scope_binding(_key(integration, kind, external_id))
    console.tell(done, "unbound" if done.cleared else "it was not bound", as_json=as_json)


@app.command("resolve")
def resolve(
    integration: Integration,
    kind: Kind,
    external_id: ExternalId,
    default: Annotated[
        bool, typer.Option("--default", help="Answer the default scope if it is not bound.")
    ] = False,
    as_json: console.Json = False,
) -> None:
    """Say which scope an outside id means."""
    with console.connected() as client:
        scope = client.resolve_scope_binding(
            [_key(integration, kind, external_id)], allow_default=default
        )
    console.tell(scope, f"{scope.scope_id}: {scope.title}", as_json=as_json)


def _key(integration: str, kind: str, external_id: str) -> ScopeBindingKey:
    return ScopeBindingKey.model_construct(
        integration=integration, kind=kind, external_id=external_id
    )


def _page(client: Client, most: int, cursor: str | None) -> tuple[Any, str | None]:
    page = client.list_scopes(limit=most, cursor=cursor)
    return page.items, page.next_cursor


def _held(client: Client, scope_ids: list[str]) -> dict[str, dict[str, Any]]:
    """Counts of sources and entries, by scope."""
    if not scope_ids:
        return {}
    stats = client.get_stats({"mode": "exact", "scope_ids": scope_ids}, period="today")
    return {
        one["scope_id"]: {
            "sources": one["inventory"]["sources"],
            "entries": {
                state: one["inventory"]["memory"]["entries"][state]
                for state in ("total", "active", "inactive")
            },
        }
        for one in stats.by_scope
    }
