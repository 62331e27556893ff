"""`pc stats`: what scopes hold, what waits, what models cost."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer

from pc_store.cli import console


def stats(
    scope_ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SCOPE]...", help="Some scopes; all unless given."),
    ] = None,
    period: Annotated[
        Literal["today", "7d", "30d"], typer.Option(help="What model usage is counted over.")
    ] = "30d",
    as_json: console.Json = False,
) -> None:
    """Count what scopes hold, what waits, and what models cost."""
    selection: dict[str, Any] = (
        {"mode": "exact", "scope_ids": scope_ids} if scope_ids else {"mode": "all"}
    )
    with console.connected() as client:
        found = console.row(client.get_stats(selection, period=period))
    if as_json:
        console.json_line(found)
        return
    rows = found["by_scope"]
    if len(rows) > 1:
        rows = [*rows, {"scope_id": "(all)", **found}]
    console.show(
        rows,
        as_json=False,
        columns=("scope", "sources", "waiting", "entries", "retired", "requests", "tokens"),
        cells=_cells,
        empty="there are no scopes yet",
    )


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    held, entries = row["inventory"], row["inventory"]["memory"]["entries"]
    spent = row["usage"]["totals"]["generation"]
    return (
        row["scope_id"],
        held["sources"]["total"],
        held["sources"]["memory_pending"],
        entries["active"],
        entries["inactive"],
        spent["requests"],
        spent["input_tokens"] + spent["output_tokens"],
    )
