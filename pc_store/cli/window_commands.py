"""`pc windows`: what was cut and what became of it; replay, and the quarantine."""

from typing import Annotated

import typer

from pc_store.cli import console, shapes
from pc_store.domain.window import Consumer, Status, parse_key
from pc_store.services import extract, recover, watch
from pc_store.services.clock import now_us

app = typer.Typer(no_args_is_help=True, help="Windows: how the log was read, piece by piece.")

Position = Annotated[int, typer.Argument(min=1, help="The source's position.")]
_CONSUMER: Consumer = "memory"


@app.command("list")
def list_(
    scope_id: Annotated[str | None, typer.Argument(metavar="[SCOPE]")] = None,
    status: Annotated[
        list[str] | None, typer.Option(help="Only these: planned, running, failed, processed, …")
    ] = None,
    limit: console.Limit = 50,
    as_json: console.Json = False,
) -> None:
    """List windows, newest first."""
    wanted: list[Status] = list(status or [])  # type: ignore[arg-type]
    with console.opened() as store:
        found = watch.list_windows(store.db, scope_id=scope_id, statuses=wanted, limit=limit)
    console.show(
        [shapes.window(key, row) for key, row in found],
        as_json=as_json,
        columns=("window", "status", "try", "sources", "added", "revised", "by", "error"),
        cells=lambda row: (
            row["window"],
            row["status"] if row["kind"] == "live" else f"{row['status']} (replay)",
            row["attempt"],
            *(str((row["counts"] or {}).get(name, "")) for name in ("sources", "added", "revised")),
            row["provider"],
            (row["error"] or {}).get("message"),
        ),
        empty="no windows",
    )


@app.command("replay")
def replay(
    window: Annotated[str, typer.Argument(help="SCOPE@FIRST-LAST, as `windows list` shows it.")],
    as_json: console.Json = False,
) -> None:
    """Run a window behind the cursor again, e.g. after a prompt change; the cursor stays."""
    with console.opened() as store:
        result = extract.replay(store.db, store.settings, store.proposer, parse_key(window))
    if as_json:
        console.json_line(shapes.processed(result))
    else:
        counts = (result.window.counts if result.window else None) or {}
        console.say(
            f"replayed {window}: {counts.get('added', 0)} added, {counts.get('revised', 0)} "
            f"revised, {counts.get('unchanged', 0)} known; the cursor stays at "
            f"{result.current_cursor}"
        )


@app.command("quarantined")
def quarantined(
    scope_id: Annotated[str | None, typer.Argument(metavar="[SCOPE]")] = None,
    include_released: Annotated[bool, typer.Option("--include-released")] = False,
    limit: console.Limit = 100,
    as_json: console.Json = False,
) -> None:
    """List sources that could not be processed and were set aside."""
    with console.opened() as store:
        found = recover.quarantined(
            store.db, scope_id=scope_id, include_released=include_released, limit=limit
        )
    console.show(
        [vars(item) for item in found],
        as_json=as_json,
        columns=("scope", "position", "source", "since", "reason"),
        cells=lambda row: (
            row["scope_id"],
            row["position"],
            row["source_id"],
            console.moment(row["quarantined_at"]),
            row["reason"],
        ),
        empty="nothing is in quarantine",
    )


@app.command("retry")
def retry(scope_id: console.ScopeId, position: Position, as_json: console.Json = False) -> None:
    """Process a source in quarantine again; it leaves quarantine if that works."""
    with console.opened() as store:
        key = recover.window_of(store.db, scope_id, position)
        result = extract.replay(store.db, store.settings, store.proposer, key)
    if as_json:
        console.json_line(shapes.processed(result))
    else:
        console.say(f"position {position} processed and released")


@app.command("release")
def release(scope_id: console.ScopeId, position: Position) -> None:
    """Take a source off the quarantine list without processing it."""
    with console.opened() as store:
        recover.release(store.db, scope_id, _CONSUMER, position, now_us=now_us())
    console.say(f"position {position} released")
