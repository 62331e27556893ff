"""`pc source`: add, list, show."""

from typing import Annotated

import typer

from pc_store.cli import console, shapes
from pc_store.domain import strict_json
from pc_store.domain.source import CONTENT_TYPE, new_source
from pc_store.services import capture
from pc_store.services.clock import now_us

app = typer.Typer(no_args_is_help=True, help="Sources: the append-only log of captured material.")


@app.command("add")
def add(
    scope_id: console.ScopeId,
    source_id: Annotated[str, typer.Argument(help="Its id, unique in the scope.")],
    content: Annotated[str, typer.Argument(help="The text; - reads standard input.")],
    metadata: Annotated[str, typer.Option(help="A JSON object.")] = "{}",
    as_json: console.Json = False,
) -> None:
    """Append one source; the same one again changes nothing."""
    text = typer.get_text_stream("stdin").read() if content == "-" else content
    source = new_source(source_id, text, strict_json.loads(metadata, field="metadata"))
    with console.opened() as store:
        result = capture.capture(store.db, scope_id, source, now_us=now_us())
    if as_json:
        console.json_line(
            {
                "status": "accepted",
                "source": {"name": CONTENT_TYPE, "source_id": source_id},
                "position": result.position,
            }
        )
    else:
        console.say(f"{result.status}, at position {result.position}")


@app.command("list")
def list_(
    scope_id: console.ScopeId,
    after: Annotated[int, typer.Option(min=0, help="Only positions after this.")] = 0,
    limit: console.Limit = 50,
    as_json: console.Json = False,
) -> None:
    """List sources by position."""
    with console.opened() as store:
        rows = [
            shapes.source(source)
            for source in capture.list_sources(store.db, scope_id, after=after, limit=limit)
        ]
    console.show(
        rows,
        as_json=as_json,
        columns=("position", "id", "kind", "content"),
        cells=lambda row: (
            row["position"],
            row["source_id"],
            row["metadata"].get("kind"),
            console.short(row["content"]),
        ),
        empty="no sources there",
    )


@app.command("show")
def show(
    scope_id: console.ScopeId,
    source_id: Annotated[str, typer.Argument(help="Its id.")],
    source_type: Annotated[str, typer.Option("--type", help="Its type.")] = CONTENT_TYPE,
    as_json: console.Json = False,
) -> None:
    """Show one source whole."""
    with console.opened() as store:
        source = capture.read_source(store.db, scope_id, source_type, source_id)
    if as_json:
        console.json_line(shapes.source(source))
    else:
        console.say(f"position {source.position}, received {console.moment(source.received_at)}")
        console.say(f"metadata {strict_json.dumps(dict(source.metadata))}")
        console.say(source.content)
