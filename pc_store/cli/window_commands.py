"""`pc windows`: what was cut and what became of it; replay, and the quarantine."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from pc_store import limits
from pc_store.cli import console
from pc_store.cli.extract_commands import tell_window
from pc_store.client import Client
from pc_store.domain.scope import partition_key
from pc_store.domain.window import parse_key
from pc_store.errors import InvalidInput, NotFound, ScopeNotFound, WindowRefused

app = typer.Typer(no_args_is_help=True, help="Windows: how the log was read, piece by piece.")

Position = Annotated[int, typer.Argument(min=1, help="The source's position.")]
MaybeScope = Annotated[
    str | None, typer.Argument(metavar="[SCOPE]", help="One scope; all unless given.")
]
Name = Annotated[
    str, typer.Argument(metavar="WINDOW", help="SCOPE@FIRST-LAST, as `windows list` shows it.")
]


@app.command("list")
def list_(
    scope_id: MaybeScope = None,
    status: Annotated[
        list[str] | None, typer.Option(help="Only these: planned, running, failed, processed, …")
    ] = None,
    limit: console.Limit = 50,
    as_json: console.Json = False,
) -> None:
    """List windows, newest first."""
    with console.connected() as client:
        rows = [
            row
            for one in _scopes(client, scope_id)
            for row in windows(client, one, list(status or []), most=limit)
        ]
    rows.sort(key=lambda row: row["window_id"], reverse=True)
    _show(rows[:limit], as_json)


@app.command("show")
def show(window: Name, as_json: console.Json = False) -> None:
    """Show every run of a window: what it read, made, cost, and why it failed."""
    with console.connected() as client:
        scope_id = _scope_of(client, window)
        rows = [
            row for row in windows(client, scope_id, [], most=10_000) if row["window"] == window
        ]
    if not rows:
        raise NotFound(f"there is no window {window!r}")
    if as_json:
        _show(rows, as_json)
        return
    for row in rows:
        console.say(f"{row['window']} {_became(row)}, attempt {row['attempt']}")
        model = f", model {row['model']}" if row["model"] else ""
        if row["provider"]:
            console.say(f"  provider {row['provider']}{model}, prompt {row['prompt_revision']}")
        for name, values in (("counts", row["counts"]), ("usage", row["usage"])):
            if values:
                console.say(f"  {name} " + ", ".join(f"{k} {v}" for k, v in values.items()))
        if row["memory_revision"]:
            console.say(f"  memory revision {row['memory_revision']}")
        if row["error"]:
            console.say(f"  {row['error'].get('code')}: {row['error'].get('message')}")
        for name in ("next_attempt_at", "finished_at"):
            if row[name]:
                console.say(f"  {name[:-3].replace('_', ' ')} {console.moment(row[name])} UTC")


@app.command("replay")
def replay(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="WINDOW", help="SCOPE@FIRST-LAST, as `windows list` shows it."),
    ] = None,
    generation: Annotated[
        str | None,
        typer.Option(help="Keep the results there, and the memory as it is: `pc generation`."),
    ] = None,
    all_of: Annotated[
        str | None, typer.Option("--all", metavar="SCOPE", help="Every window of the scope.")
    ] = None,
    first: Annotated[int, typer.Option(min=1, help="With --all: from this position on.")] = 1,
    last: Annotated[
        int, typer.Option(min=1, help="With --all: up to this position.")
    ] = limits.POSITION_MAX,
    as_json: console.Json = False,
) -> None:
    """Run windows behind the cursor again, e.g. after a prompt change; the cursor stays.

    Into a generation they run one after another, up to the first that fails. The same command
    goes on from there: windows that the generation has already are passed over.
    """
    if bool(names) == bool(all_of):
        raise InvalidInput("WINDOW", "name windows, or all of a scope with --all SCOPE")
    with console.connected() as client:
        if generation is None:
            if all_of or len(names or ()) > 1:
                raise InvalidInput("--generation", "more than one window is replayed into one")
            window = (names or [""])[0]
            scope_id = _scope_of(client, window)
            tell_window(client, scope_id, client.replay_window(scope_id, window), as_json=as_json)
            return
        wanted = [(_scope_of(client, name), name) for name in names or ()]
        if all_of:
            wanted = [(all_of, name) for name in _processed(client, all_of, first, last)]
        for scope_id, name in wanted:
            done = client.replay_window(scope_id, name, generation=generation)
            if as_json:
                console.json_line({"window": name, "generation": generation} | console.row(done))
            elif done.status == "processed":
                console.say(f"{name}: {done.processed_source_count} sources shown")
            else:
                console.say(f"{name}: {generation} has it already")
        for scope_id in sorted({scope_id for scope_id, _ in wanted} if not as_json else ()):
            now = client.get_generation(scope_id, generation)
            console.say(
                f"{scope_id}: {now.windows} windows and {now.proposals} proposals in {generation}; "
                f"next: pc generation diff {scope_id} {generation}"
            )


def _processed(client: Client, scope_id: str, first: int, last: int) -> list[str]:
    """Names of the memory's windows that were processed between two positions, in log order."""
    rows = [
        row
        for row in windows(client, scope_id, ["processed"], most=limits.POSITION_MAX)
        if (row["consumer"], row["kind"]) == ("memory", "live")
        and first <= row["after"] + 1
        and row["through"] <= last
    ]
    return [row["window"] for row in sorted(rows, key=lambda row: int(row["after"]))]


@app.command("quarantined")
def quarantined(
    scope_id: MaybeScope = None,
    include_released: Annotated[bool, typer.Option("--include-released")] = False,
    limit: console.Limit = 100,
    as_json: console.Json = False,
) -> None:
    """List sources that could not be processed and were set aside."""
    with console.connected() as client:
        rows = [
            {"scope_id": one, **console.row(item)}
            for one in _scopes(client, scope_id)
            for item in client.list_quarantined_sources(
                one, include_released=include_released, limit=limit
            ).items
        ]
    console.show(
        rows[:limit],
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
    with console.connected() as client:
        result = client.retry_quarantined_source(scope_id, position)
    console.tell(result, f"position {position} processed and released", as_json=as_json)


@app.command("release")
def release(scope_id: console.ScopeId, position: Position, as_json: console.Json = False) -> None:
    """Take a source off the quarantine list without processing it."""
    with console.connected() as client:
        result = client.release_quarantined_source(scope_id, position)
    console.tell(result, f"position {position} released", as_json=as_json)


def windows(
    client: Client, scope_id: str, statuses: list[Any], *, most: int
) -> list[dict[str, Any]]:
    """Windows of a scope, newest first."""

    def page(limit: int, cursor: str | None) -> tuple[Any, str | None]:
        answer = client.list_windows(scope_id, status=statuses, limit=limit, cursor=cursor)
        return answer.items, answer.next_cursor

    return console.rows_of(page, most=most)


def _show(rows: list[dict[str, Any]], as_json: bool) -> None:
    console.show(
        rows,
        as_json=as_json,
        columns=("window", "status", "try", "sources", "added", "revised", "by", "error"),
        cells=lambda row: (
            row["window"],
            _became(row),
            row["attempt"],
            *(str((row["counts"] or {}).get(name, "")) for name in ("sources", "added", "revised")),
            row["provider"],
            (row["error"] or {}).get("message"),
        ),
        empty="no windows",
    )


def _became(row: Mapping[str, Any]) -> str:
    """A window's status, and where it is not live, what kind of run it was."""
    into = f" into {row['generation']}" if row["generation"] else ""
    return row["status"] if row["kind"] == "live" else f"{row['status']} ({row['kind']}{into})"


def _scopes(client: Client, scope_id: str | None) -> list[str]:
    if scope_id is not None:
        return [scope_id]
    return [scope.scope_id for scope in client.list_scopes().items]


def _scope_of(client: Client, window: str) -> str:
    """The id of the scope that a window's name starts with."""
    try:
        key = parse_key(window).scope_key
    except WindowRefused as error:
        raise InvalidInput("window", error.message) from None
    for scope_id in _scopes(client, None):
        if partition_key(scope_id) == key:
            return scope_id
    raise ScopeNotFound(f"there is no scope whose windows are called {key!r}")
