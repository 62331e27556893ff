"""`pc search`: find active entries."""

from typing import Annotated, Any

import typer

from pc_store import limits
from pc_store.cli import console, shapes
from pc_store.services import find


def search(
    scope_id: console.ScopeId,
    query: Annotated[str, typer.Argument(help="What to look for, in any language.")],
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=limits.SEARCH_LIMIT_MAX)
    ] = limits.SEARCH_LIMIT_DEFAULT,
    as_json: console.Json = False,
) -> None:
    """Find the active entries of a scope's memory that answer a query, best first."""
    with console.opened() as store:
        result = find.search(store.db, store.settings.index_path, scope_id, query, limit=limit)
    rows: list[dict[str, Any]] = [
        {
            "citation": shapes.citation(hit.citation),
            "kind": hit.kind,
            "text": hit.text,
            "score": hit.score,
            "bm25": round(hit.bm25, 4),
            "matched_terms": list(hit.matched_terms),
            "source_refs": [shapes.source_ref(ref) for ref in hit.sources],
            "version": hit.version,
        }
        for hit in result.hits
    ]
    console.show_texts(
        rows,
        as_json=as_json,
        title=lambda row: f"{row['bm25']:5.2f} {row['kind']}",
        text=lambda row: row["text"],
        notes=lambda row: f"{row['citation']['entry_id']} v{row['version']}, {console.cited(row)}",
        empty="nothing found" if result.memory else "the scope has no memory yet",
    )
