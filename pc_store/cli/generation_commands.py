"""`pc generation`: what replays beside the memory would change; promote or discard them."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from pc_store.cli import console
from pc_store.client import Client, Generation, GenerationDiff

app = typer.Typer(
    no_args_is_help=True,
    help="Generations: windows replayed beside the memory (`pc windows replay --generation`).",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The generation's name.")]
_MARKS = {
    "revised": "~",
    "seen again": "=",
    "added": "+",
    "left out": "!",
    "no longer proposed": "-",
}


@app.command("list")
def list_(
    scope_id: console.ScopeId, limit: console.Limit = 50, as_json: console.Json = False
) -> None:
    """List a scope's generations, by name."""
    with console.connected() as client:

        def page(most: int, cursor: str | None) -> tuple[Any, str | None]:
            answer = client.list_generations(scope_id, limit=most, cursor=cursor)
            return answer.items, answer.next_cursor

        rows = console.rows_of(page, most=limit)
    console.show(
        rows,
        as_json=as_json,
        columns=("generation", "status", "windows", "proposals", "of", "made"),
        cells=lambda row: (
            row["name"],
            row["status"],
            row["windows"],
            row["proposals"],
            _of(row),
            console.moment(row["created_at"]),
        ),
        empty="the scope has no generations",
    )


@app.command("show")
def show(scope_id: console.ScopeId, name: Name, as_json: console.Json = False) -> None:
    """Show a generation: what it is of, how far it is, and how it ended."""
    with console.connected() as client:
        row = console.row(client.get_generation(scope_id, name))
    if as_json:
        console.json_line(row)
        return
    console.say(
        f"{row['name']} {row['status']}: {row['windows']} windows, {row['proposals']} proposals"
    )
    console.say(f"  {_of(row)}")
    console.say(f"  made {console.moment(row['created_at'])} UTC")
    if row["ended_at"]:
        console.say(f"  {row['status']} {console.moment(row['ended_at'])} UTC{_outcome(row)}")


@app.command("diff")
def diff(
    scope_id: console.ScopeId,
    name: Name,
    limit: console.Limit = 100,
    as_json: console.Json = False,
) -> None:
    """Compare a generation with the memory as it is now.

    ~ revised, = seen again in further sources, + added, ! left out, and - no longer proposed:
    active entries whose evidence was all shown again and which a promotion leaves alone.
    """
    answers: list[GenerationDiff] = []
    with console.connected() as client:

        def page(most: int, cursor: str | None) -> tuple[Any, str | None]:
            answers.append(client.compare_generation(scope_id, name, limit=most, cursor=cursor))
            return answers[-1].items, answers[-1].next_cursor

        rows = console.rows_of(page, most=limit)
    last = answers[-1]
    if as_json:
        console.json_line(console.row(last) | {"items": rows})
        return
    for row in rows:
        _tell(row)
    counts = last.counts
    console.say(
        f"{counts.revised} revised, {counts.seen_again} seen again, {counts.added} added, "
        f"{counts.left_out} left out, {counts.no_longer_proposed} no longer proposed, "
        f"{counts.unchanged} known; against memory revision {last.memory_revision}"
    )
    total = sum(counts.model_dump(exclude={"unchanged"}).values())
    if len(rows) < total:
        console.say(f"{total - len(rows)} more: --limit")


@app.command("promote")
def promote(
    scope_id: console.ScopeId,
    name: Name,
    expected_revision: Annotated[
        int | None,
        typer.Option(min=0, help="Refuse unless the memory is at this revision, as `diff` said."),
    ] = None,
    reason: console.Reason = None,
    as_json: console.Json = False,
) -> None:
    """Make a generation part of the memory, as one revision; again changes nothing."""
    _end(
        lambda client: client.promote_generation(
            scope_id, name, expected_revision=expected_revision, reason=reason
        ),
        as_json=as_json,
    )


@app.command("discard")
def discard(scope_id: console.ScopeId, name: Name, as_json: console.Json = False) -> None:
    """End a generation and erase what it proposes; the memory stays as it is."""
    _end(lambda client: client.discard_generation(scope_id, name), as_json=as_json)


def _end(act: Callable[[Client], Generation], *, as_json: bool) -> None:
    with console.connected() as client:
        done = act(client)
    row = console.row(done)
    console.tell(done, f"{row['name']} {row['status']}{_outcome(row)}", as_json=as_json)


def _of(row: Mapping[str, Any]) -> str:
    if row["provider"] is None:
        return "nothing asked yet"
    return f"{row['provider']} {row['model']}, {row['prompt_key']} {row['prompt_revision']}"


def _outcome(row: Mapping[str, Any]) -> str:
    outcome = row["outcome"]
    if outcome is None:
        return ""
    memory = f"; memory revision {row['memory']['revision']}" if row["memory"] else ""
    return (
        f": {outcome['added']} added, {outcome['revised']} revised, "
        f"{outcome['seen_again']} seen again, {len(outcome['left_out'])} left out{memory}"
    )


def _tell(row: Mapping[str, Any]) -> None:
    before = row["before"]
    why = f" ({row['why']})" if row["why"] else ""
    entry = f" {row['entry_id']}" if row["entry_id"] else ""
    console.say(f"{_MARKS[row['what']]} {row['what']}{why}{entry} [{row['kind']}]")
    if before and before["text"] != row["text"]:
        console.say(f"    was: {before['text']}")
    console.say(f"    {row['text']}")
    console.say(f"    {console.cited(row)}")
