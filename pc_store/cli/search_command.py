"""`pc search`: find active entries."""

from typing import Annotated

import typer

from pc_store import limits
from pc_store.cli import console


def search(
    scope_id: console.ScopeId,
    query: Annotated[str, typer.Argument(help="What to look for, in any language.")],
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=limits.SEARCH_LIMIT_MAX)
    ] = limits.SEARCH_LIMIT_DEFAULT,
    as_json: console.Json = False,
) -> None:
    """Find the active entries of a scope's memory that answer a query, best first."""
    with console.connected() as client:
        answer = client.search_memory(
            scope_id,
            query,
            limit=limit,
            include=["kind", "version", "sources", "matched_terms", "channels"],
        )
    console.show_texts(
        [console.row(hit) for hit in answer.hits],
        as_json=as_json,
        title=lambda row: f"{row['channels'][0]['score']:5.2f} {row['kind']}",
        text=lambda row: row["text"],
        notes=lambda row: f"{row['citation']['entry_id']} v{row['version']}, {console.cited(row)}",
        empty="nothing found" if answer.memory else "the scope has no memory yet",
    )
