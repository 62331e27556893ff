"""`pc memory`, the verbs that change it by hand."""

import re
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from pc_store import limits
from pc_store.cli import console
from pc_store.cli.memory_commands import EntryId, Revision, app
from pc_store.client import BatchMutation, Client, Mutation
from pc_store.client.citing import cite
from pc_store.domain import strict_json
from pc_store.errors import InvalidInput

Kind = Annotated[str, typer.Option(help="fact, preference, decision, constraint, …")]
_ITEM = re.compile(r"entries[.\[]([0-9]+)\]?\.?")


@app.command("remember")
def remember(
    scope_id: console.ScopeId,
    text: Annotated[str, typer.Argument(help="One fact or rule.")],
    kind: Kind = "fact",
    reason: console.Reason = None,
    expected_revision: Revision = None,
    as_json: console.Json = False,
) -> None:
    """Add an entry by hand."""
    with console.connected() as client:
        result = client.remember_memory(
            scope_id, text, kind=kind, reason=reason, expected_revision=expected_revision
        )
    _tell(result, as_json, nothing="already known, nothing was added")


@app.command("remember-batch")
def remember_batch(
    scope_id: console.ScopeId,
    file: Annotated[
        typer.FileText, typer.Argument(help="JSON lines of kind, text, reason; - reads stdin.")
    ],
    as_json: console.Json = False,
) -> None:
    """Add many entries: a hundred lines to a revision, each hundred all or none."""
    items = _items(file)
    done: list[BatchMutation] = []
    with console.connected() as client:
        for start in range(0, len(items), limits.REMEMBER_BATCH_MAX):
            batch = items[start : start + limits.REMEMBER_BATCH_MAX]
            done.append(_remembered(client, scope_id, batch))
            if as_json:
                console.json_line(console.row(done[-1]))
    if not as_json:
        entries = [entry for batch in done for entry in batch.entries]
        added = sum(entry is not None for entry in entries)
        memory = done[-1].memory if done else None
        at = f", the memory is at revision {memory.revision}" if memory else ""
        console.say(f"{added} added, {len(entries) - added} already known{at}")


@app.command("revise")
def revise(
    scope_id: console.ScopeId,
    entry_id: EntryId,
    text: Annotated[str, typer.Argument(help="Its new text.")],
    kind: Annotated[str | None, typer.Option(help="Its new kind; as it was unless given.")] = None,
    reason: console.Reason = None,
    revision: Revision = None,
    as_json: console.Json = False,
) -> None:
    """Give an entry a new text; the old one stays readable."""
    with console.connected() as client:
        found = cite(client, scope_id, entry_id, revision=revision)
        result = client.revise_memory_entry(
            scope_id, found.citation, text, kind=kind or found.change.kind, reason=reason
        )
    _tell(result, as_json)


@app.command("retire")
def retire(
    scope_id: console.ScopeId,
    entry_id: EntryId,
    reason: console.Reason = None,
    revision: Revision = None,
    as_json: console.Json = False,
) -> None:
    """Take an entry out of recall; its history stays."""
    with console.connected() as client:
        found = cite(client, scope_id, entry_id, revision=revision)
        result = client.retire_memory_entry(scope_id, found.citation, reason=reason)
    _tell(result, as_json)


@app.command("reactivate")
def reactivate(
    scope_id: console.ScopeId,
    entry_id: EntryId,
    reason: console.Reason = None,
    revision: Revision = None,
    as_json: console.Json = False,
) -> None:
    """Bring a retired entry back."""
    with console.connected() as client:
        found = cite(client, scope_id, entry_id, revision=revision)
        result = client.reactivate_memory_entry(scope_id, found.citation, reason=reason)
    _tell(result, as_json)


@app.command("purge")
def purge(
    scope_id: console.ScopeId,
    entry_id: EntryId,
    reason: console.Reason = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: console.Json = False,
) -> None:
    """Erase an entry's text everywhere and for good; ids and hashes stay."""
    if not yes:
        typer.confirm(f"Erase every version of {entry_id} for good?", abort=True, err=True)
    with console.connected() as client:
        gone = client.purge_memory_entry(scope_id, entry_id, reason=reason)
    versions = len(gone.versions)
    console.tell(
        gone,
        f"erased {versions} version{'s' if versions != 1 else ''} of {entry_id}",
        as_json=as_json,
    )


def _items(lines: Iterable[str]) -> list[tuple[int, dict[str, Any]]]:
    """The entries of a file, each with the number of its line."""
    items = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            item = strict_json.loads(line, field=f"line {number}")
            if not isinstance(item, dict):
                raise InvalidInput(f"line {number}", "must be an object of kind and text")
            items.append((number, item))
    return items


def _remembered(
    client: Client, scope_id: str, batch: list[tuple[int, dict[str, Any]]]
) -> BatchMutation:
    """Add a batch; what is wrong with an entry is told with its line."""
    try:
        return client.remember_memory_batch(scope_id, [item for _, item in batch])
    except InvalidInput as error:
        where = _ITEM.match(error.field)
        if where is None or int(where[1]) >= len(batch):
            raise
        number = batch[int(where[1])][0]
        field = error.field[where.end() :]
        raise InvalidInput(f"line {number}{', ' + field if field else ''}", error.reason) from None


def _tell(result: Mutation, as_json: bool, *, nothing: str = "nothing changed") -> None:
    if result.entry is None or result.memory is None:
        console.tell(result, nothing, as_json=as_json)
        return
    entry = result.entry
    console.tell(
        result,
        f"{entry.citation.entry_id} version {entry.version}, {entry.state}, "
        f"in revision {result.memory.revision}",
        as_json=as_json,
    )
