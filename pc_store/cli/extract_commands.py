"""`pc memory flush` and `drain`: process what waits, now."""

import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from pc_store import limits
from pc_store.cli import console
from pc_store.cli.memory_commands import app
from pc_store.client import Client, Flushed

_SLICE_S = 10.0
"""A drain is asked for in pieces of about this long, so that there is something to see."""


@app.command("flush")
def flush(scope_id: console.ScopeId, as_json: console.Json = False) -> None:
    """Process the scope's next window now, without Dagster."""
    with console.connected() as client:
        tell_window(client, scope_id, client.flush_memory(scope_id), as_json=as_json)


@app.command("drain")
def drain(
    scope_id: console.ScopeId,
    budget_s: Annotated[
        float, typer.Option(min=0, help="Begin no window after this many seconds.")
    ] = 300.0,
    as_json: console.Json = False,
) -> None:
    """Process windows until the log's present end, without Dagster."""
    started = time.monotonic()
    until: int | None = None
    done = 0
    with console.connected() as client:
        while True:
            left_s = budget_s - (time.monotonic() - started)
            step = client.drain_memory(scope_id, budget_s=max(min(left_s, _SLICE_S), 0.001))
            until = step.high_watermark if until is None else until
            done += step.windows
            if as_json:
                console.json_line(console.row(step))
            elif step.windows:
                latest = client.list_windows(
                    scope_id, status=["processed"], limit=min(step.windows, limits.PAGE_MAX)
                )
                for window in reversed(latest.items):
                    console.say(
                        f"processed ({window.after}, {window.through}] of {until}: "
                        f"{_counted(window.counts, window.provider)}"
                    )
            if step.current_cursor >= until or time.monotonic() - started >= budget_s:
                break
            if not step.windows and client.get_processing_status(scope_id).window_status:
                break  # somebody else is at it, or its next attempt is not due
    if as_json:
        return
    if not done:
        console.say("idle: nothing waits" if step.current_cursor >= until else "nothing was done")
    if step.current_cursor < until:
        console.say(f"{until - step.current_cursor} positions are left")


def tell_window(client: Client, scope_id: str, result: Flushed, *, as_json: bool) -> None:
    """Print what became of a window, with what the ledger wrote of it."""
    row = console.row(result) | {"provider": None, "counts": None}
    if result.status == "processed":
        for window in client.list_windows(scope_id, status=["processed"], limit=1).items:
            if window.through == result.current_cursor or window.kind != "live":
                row |= {"provider": window.provider, "counts": window.counts}
    if as_json:
        console.json_line(row)
        return
    if not row["counts"]:
        console.say(f"{result.status}: cursor {result.current_cursor} of {result.high_watermark}")
        return
    console.say(
        f"{result.status} ({result.previous_cursor}, {result.current_cursor}] of "
        f"{result.high_watermark}: {_counted(row['counts'], row['provider'])}"
    )


def _counted(counts: Mapping[str, Any] | None, provider: str | None) -> str:
    """What a window did, and who proposed it."""
    found = counts or {}
    return (
        f"{found.get('sources', 0)} sources, {found.get('added', 0)} added, "
        f"{found.get('revised', 0)} revised, {found.get('unchanged', 0)} known, "
        f"{found.get('rejected', 0)} rejected [provider={provider}]"
    )
