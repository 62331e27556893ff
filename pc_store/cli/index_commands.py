"""`pc index`: build the search index, look at it, check it.

DuckDB is imported by the verbs alone: no other part of the command needs it to start.
"""

from typing import Annotated, Any

import typer

from pc_store.cli import console
from pc_store.services.clock import now_us

app = typer.Typer(
    no_args_is_help=True,
    help="The search index: what is in it can be found in milliseconds, the rest a little later.",
)

Shards = Annotated[
    list[int] | None,
    typer.Option("--shard", min=0, metavar="N", help="A shard, from 0; all unless given."),
]


@app.command()
def build(
    shard: Shards = None,
    force: Annotated[
        bool, typer.Option("--force", help="Build shards too that need no new file.")
    ] = False,
    with_vectors: Annotated[
        bool, typer.Option("--embed/--no-embed", help="Embed what has no vector yet, first.")
    ] = True,
    as_json: console.Json = False,
) -> None:
    """Build the files that are due: exit code 1 if texts could not be embedded."""
    from pc_store.services import index

    rows: list[dict[str, Any]] = []
    problems: dict[str, str] = {}
    with console.opened("index") as store:
        for one in index.chosen(store.db, store.settings, shard):
            why = one.worth_building(store.settings, now_us=now_us())
            if why is None and not force:
                continue
            done = index.build(store.db, store.settings, one.shard, with_vectors=with_vectors)
            vectors, built = done.vectors, done.built
            rows.append(
                {
                    "shard": one.name,
                    "why": why or "--force",
                    "generation": built.generation if built else None,
                    "documents": built.docs if built else 0,
                    "vectors": built.vectors if built else 0,
                    "bytes": built.bytes if built else 0,
                    "seconds": round(built.took_s, 3) if built else 0.0,
                    "tail_before": done.tail_before,
                    "embedded": vectors.embedded if vectors else 0,
                    "not_embedded": vectors.left if vectors else 0,
                }
            )
            if vectors is not None and vectors.error is not None:
                problems[one.name] = vectors.error.message
    console.show(
        rows,
        as_json=as_json,
        columns=("shard", "generation", "documents", "vectors", "size", "seconds", "why"),
        cells=lambda row: (
            row["shard"],
            row["generation"] or "another builder is at work",
            row["documents"],
            row["vectors"],
            _size(row["bytes"]),
            row["seconds"],
            row["why"],
        ),
        empty="nothing is due",
    )
    for name, problem in problems.items():
        console.err.print(f"pc: {name}: not all texts were embedded: {problem}", markup=False)
    if problems:
        raise typer.Exit(1)


@app.command()
def status(as_json: console.Json = False) -> None:
    """Show every shard in use: its file, what is in it, and what the ledger has beyond it."""
    from pc_store.services import index

    now = now_us()
    with console.opened("index") as store:
        rows = [
            {
                "shard": one.name,
                "generation": one.generation,
                "bytes": one.bytes,
                "age_s": _age_s(one.built_at, now),
                "scopes": one.scopes,
                "ledger_scopes": one.ledger_scopes,
                "documents": one.documents,
                "vectors": one.vectors,
                "hnsw_scopes": one.hnsw_scopes,
                "profile": one.profile,
                "tail": one.tail.rows,
                "masked": one.tail.masked,
                "tail_age_s": _age_s(one.tail.since, now),
                "unembedded": one.unembedded,
                "due": one.due(store.settings, now_us=now),
            }
            for one in index.status(store.db, store.settings)
        ]
    console.show(
        [row for row in rows if as_json or row["generation"] or row["ledger_scopes"]],
        as_json=as_json,
        columns=("shard", "gen", "size", "built", "scopes", "docs", "vectors", "tail", "due"),
        cells=lambda row: (
            row["shard"],
            row["generation"] or "none",
            _size(row["bytes"]),
            _ago(row["age_s"]),
            f"{row['scopes']}/{row['ledger_scopes']}",
            row["documents"],
            row["vectors"],
            f"{row['tail']}, {_ago(row['tail_age_s'])}" if row["tail"] else "",
            row["due"] or "",
        ),
        empty=f"nothing can be found yet; {len(rows)} shards wait for it",
    )


@app.command()
def verify(
    shard: Shards = None,
    queries: Annotated[
        int, typer.Option("--queries", min=1, max=1_000, help="Documents sampled of each shard.")
    ] = 4,
    as_json: console.Json = False,
) -> None:
    """Check the files against the ledger: exit code 1 if anything is wrong."""
    from pc_store.services import index_check

    with console.opened("index") as store:
        findings = index_check.verify(
            store.db, store.settings, only=shard, queries=queries, now_us=now_us()
        )
    console.show(
        [{"passed": finding.passed, **vars(finding)} for finding in findings],
        as_json=as_json,
        columns=("", "check", "asserts", "offenders"),
        cells=lambda row: (
            "ok" if row["passed"] else "FAILED",
            row["check"],
            row["asserts"],
            row["count"] or "",
        ),
        empty="no checks",
    )
    if not as_json:
        for finding in findings:
            for row in finding.rows[:10]:
                console.say(f"  {finding.check}: {', '.join(f'{k}={v}' for k, v in row.items())}")
    if not all(finding.passed for finding in findings):
        raise typer.Exit(1)


@app.command("prune-vectors")
def prune_vectors(
    other_profiles: Annotated[
        bool,
        typer.Option(
            "--other-profiles",
            help="Also all vectors of embedders that neither these settings nor an index file use.",
        ),
    ] = False,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete them; without it they are only counted.")
    ] = False,
    as_json: console.Json = False,
) -> None:
    """Show or delete vectors of texts that nobody holds any more, as the nightly upkeep does."""
    from pc_store.services import prune

    with console.opened("index") as store:
        found = prune.survey(store.db, store.settings, other_profiles=other_profiles)
        deleted = 0
        if delete:
            deleted = prune.prune(store.db, store.settings, other_profiles=other_profiles)
    console.show(
        [vars(one) for one in found],
        as_json=as_json,
        columns=("profile", "in use", "vectors", "size", "surplus"),
        cells=lambda row: (
            row["profile"],
            "yes" if row["in_use"] else "no",
            row["vectors"],
            _size(row["bytes"]),
            row["surplus"],
        ),
        empty="there are no vectors",
    )
    if delete:
        console.err.print(f"{deleted} vectors deleted", markup=False)


def _age_s(moment: int | None, now: int) -> float | None:
    return None if moment is None else round((now - moment) / 1_000_000, 1)


def _ago(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for unit, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{max(seconds, 0):.0f} s"


def _size(number: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if number >= unit:
            return f"{number / unit:.1f} {name}"
    return f"{number} B" if number else ""
