"""How the command opens the store, prints tables and JSON lines, and complains."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pc_store.domain.proposal import Proposer
from pc_store.errors import StoreError
from pc_store.ledger.database import Database, open_database
from pc_store.settings import Settings

Json = Annotated[bool, typer.Option("--json", help="Print JSON lines instead of a table.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000, help="Most rows to print.")]
ScopeId = Annotated[str, typer.Argument(metavar="SCOPE", help="The scope's id.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Why; kept with the change.")]

out = Console(highlight=False)
err = Console(stderr=True, highlight=False, soft_wrap=True)


@dataclass
class Store:
    """The opened store and its settings."""

    settings: Settings
    db: Database

    @cached_property
    def proposer(self) -> Proposer:
        """The proposer in force; made at first use, since it is slow."""
        from pc_store.services.provide import proposer

        return proposer(self.db, self.settings)


@contextmanager
def opened() -> Iterator[Store]:
    """Open the store that the environment names, and close it afterwards."""
    settings = Settings.load()
    db = open_database(settings.ledger_url, wait_s=settings.database_wait_s)
    try:
        yield Store(settings, db)
    finally:
        db.close()


def show(
    rows: Iterable[Mapping[str, Any]],
    *,
    as_json: bool,
    columns: Sequence[str],
    cells: Callable[[Mapping[str, Any]], Sequence[object]],
    empty: str,
) -> None:
    """Print rows: whole as JSON lines, or chosen cells as a table, or a sentence when none."""
    rows = list(rows)
    if as_json:
        for row in rows:
            json_line(row)
        return
    if not rows:
        out.print(Text(empty))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in cells(row)))
    out.print(table)


def show_texts(
    rows: Iterable[Mapping[str, Any]],
    *,
    as_json: bool,
    title: Callable[[Mapping[str, Any]], str],
    text: Callable[[Mapping[str, Any]], str],
    notes: Callable[[Mapping[str, Any]], str],
    empty: str,
) -> None:
    """Print rows whose text matters most: a short title and the text, below it notes."""
    rows = list(rows)
    for row in rows:
        if as_json:
            json_line(row)
        else:
            out.print(Text(f"{title(row)}  ", style="cyan").append(text(row), style="default"))
            out.print(Text(f"    {notes(row)}", style="dim"))
    if not rows and not as_json:
        out.print(Text(empty))


def cited(row: Mapping[str, Any]) -> str:
    """The sources a row cites, by id, the first few."""
    names = [ref["source_id"] for ref in row["source_refs"]]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"from {', '.join(names[:3])}{more}" if names else "by hand"


def json_line(value: Mapping[str, Any]) -> None:
    """Print one value as one line of JSON."""
    typer.echo(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))


def say(text: str) -> None:
    """Print a sentence; brackets in it are not markup."""
    out.print(Text(text))


def complain(error: StoreError) -> None:
    """Print an error as one line on the error stream."""
    err.print(Text(f"pc: {error.message}"), style="red")


def moment(time_us: int | None) -> str | None:
    """A time as people write it, UTC, to the second."""
    if time_us is None:
        return None
    return datetime.fromtimestamp(time_us / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def short(text: str, most: int = 120) -> str:
    """One line of at most `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
