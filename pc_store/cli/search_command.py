"""`pc search`: find active entries."""

from typing import Annotated, Literal

import typer

from pc_store import limits
from pc_store.cli import console


def search(
    scope_id: console.ScopeId,
    query: Annotated[str, typer.Argument(help="What to look for, in any language.")],
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=limits.SEARCH_LIMIT_MAX)
    ] = limits.SEARCH_LIMIT_DEFAULT,
    mode: Annotated[
        Literal["auto", "fts", "vector", "hybrid"],
        typer.Option("--mode", help="By words, by meaning, or by both; auto: what suits."),
    ] = "auto",
    as_json: console.Json = False,
) -> None:
    """Find the active entries of a scope's memory that answer a query, best first."""
    with console.connected() as client:
        answer = client.search_memory(
            scope_id,
            query,
            limit=limit,
            mode=mode,
            include=["kind", "version", "sources", "matched_terms", "channels"],
        )
    console.show_texts(
        [console.row(hit) for hit in answer.hits],
        as_json=as_json,
        title=lambda row: f"{console.scores(row)} {row['kind']}",
        text=lambda row: row["text"],
        notes=lambda row: f"{row['citation']['entry_id']} v{row['version']}, {console.cited(row)}",
        empty="nothing found" if answer.memory else "the scope has no memory yet",
    )
