"""`pc source`: add, list, show."""

from typing import Annotated, Any

import typer

from pc_store.cli import console
from pc_store.client import Client, SourceRecord
from pc_store.domain import strict_json
from pc_store.domain.source import CONTENT_TYPE
from pc_store.errors import InvalidInput

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
    more = strict_json.loads(metadata, field="metadata")
    if not isinstance(more, dict):
        raise InvalidInput("metadata", "must be a JSON object")
    with console.connected() as client:
        result = client.capture_content_source(scope_id, source_id, text, metadata=more)
    if as_json:
        console.json_line(console.row(result))
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
    with console.connected() as client:
        rows = console.rows_of(
            lambda most, cursor: _page(client, scope_id, after, most, cursor), most=limit
        )
    console.show(
        rows,
        as_json=as_json,
        columns=("position", "id", "kind", "content"),
        cells=lambda row: (
            row["position"],
            row["source_id"],
            row["metadata"].get("kind"),
            console.short(_text(row["content"])),
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
    with console.connected() as client:
        source = client.get_source(
            scope_id, source_id, source_type=source_type, include=["metadata", "times"]
        )
    row = console.row(source)
    if as_json:
        console.json_line(row)
    else:
        console.say(f"position {row['position']}, received {console.moment(row['received_at'])}")
        console.say(f"metadata {strict_json.dumps(row['metadata'])}")
        console.say(_text(row["content"]))


def _page(
    client: Client, scope_id: str, after: int, most: int, cursor: str | None
) -> tuple[list[SourceRecord], str | None]:
    """A page without the positions that come before."""
    page = client.list_sources(scope_id, limit=most, cursor=cursor, include=["metadata"])
    return [item for item in page.items if item.position > after], page.next_cursor


def _text(content: Any) -> str:
    return content if isinstance(content, str) else strict_json.dumps(content)
