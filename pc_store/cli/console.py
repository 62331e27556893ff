"""How the command reaches a store, prints tables and JSON lines, and complains."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pc_store import limits
from pc_store.client import Client
from pc_store.domain.text import shortened
from pc_store.errors import InvalidInput, StoreError
from pc_store.ledger.database import Database, open_database
from pc_store.settings import Settings

Json = Annotated[bool, typer.Option("--json", help="Print JSON lines instead of a table.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000, help="Most rows to print.")]
ScopeId = Annotated[str, typer.Argument(metavar="SCOPE", help="The scope's id.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Why; kept with the change.")]

chosen_server: ContextVar[str | None] = ContextVar("chosen_server", default=None)
"""What `--server` said; set once, before the verb."""

_PICTURES: dict[int, int | str] = {
    **{code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"},
    **dict.fromkeys(range(0x7F, 0xA0), "\ufffd"),
}

out = Console(highlight=False)
err = Console(stderr=True, highlight=False, soft_wrap=True)


@dataclass
class Store:
    """The opened store and its settings."""

    settings: Settings
    db: Database


@contextmanager
def opened(verb: str) -> Iterator[Store]:
    """Open the store that the environment names, for a verb that no server has.

    Raises:
        InvalidInput: a server was named.
    """
    if server() is not None:
        raise InvalidInput(
            "--server, PC_API_URL", f"{verb} works on the store of this machine only"
        )
    settings = Settings.load()
    db = open_database(settings.ledger_url, wait_s=settings.database_wait_s)
    try:
        yield Store(settings, db)
    finally:
        db.close()


def server() -> str | None:
    """The address that `--server` or `PC_API_URL` gives; None for the store of this machine."""
    return chosen_server.get() or None


@contextmanager
def connected() -> Iterator[Client]:
    """A client of the server that was named, or else of the store that the environment names."""
    url = server()
    if url is not None:
        client = Client(url)
    else:
        from pc_store.client.in_process import LocalClient

        client = LocalClient(Settings.load())
    with client:
        yield client


def row(body: BaseModel) -> dict[str, Any]:
    """A body as the wire has it."""
    return body.model_dump(mode="json", exclude_unset=True)


def rows_of(
    ask: Callable[[int, str | None], tuple[Sequence[BaseModel], str | None]], *, most: int
) -> list[dict[str, Any]]:
    """The first `most` rows of a list that comes in pages; `ask` takes a limit and a cursor."""
    rows: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        items, cursor = ask(min(most, limits.PAGE_MAX), cursor)
        rows += map(row, items)
        if cursor is None or len(rows) >= most:
            return rows[:most]


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
        table.add_row(*(Text("" if cell is None else visible(str(cell))) for cell in cells(row)))
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
            told = Text(f"{visible(title(row))}  ", style="cyan")
            out.print(told.append(visible(text(row)), style="default"), soft_wrap=True)
            out.print(Text(f"    {visible(notes(row))}", style="dim"), soft_wrap=True)
    if not rows and not as_json:
        out.print(Text(empty))


def cited(row: Mapping[str, Any]) -> str:
    """The sources a row cites, by id, the first few."""
    names = [ref["source_id"] for ref in row["source_refs"]]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"from {', '.join(names[:3])}{more}" if names else "by hand"


def scores(row: Mapping[str, Any]) -> str:
    """BM25 and cosine of a hit, as far as it has them."""
    return " ".join(f"{one['score']:5.2f}" for one in row["channels"])


def tell(body: BaseModel, sentence: str, *, as_json: bool) -> None:
    """Print one answer: whole as a JSON line, or a sentence about it."""
    if as_json:
        json_line(row(body))
    else:
        say(sentence)


def json_line(value: Mapping[str, Any]) -> None:
    """Print one value as one line of JSON."""
    typer.echo(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))


def say(text: str) -> None:
    """Print a sentence; brackets in it are not markup."""
    out.print(Text(visible(text)), soft_wrap=True)


def visible(text: str) -> str:
    """A text that a terminal shows and does not obey: control characters as their pictures.

    What is printed was written by others; an escape sequence in it could hide or forge lines.
    """
    return text.replace("\r\n", "\n").translate(_PICTURES)


def complain(error: StoreError) -> None:
    """Print an error as one line on the error stream."""
    err.print(Text(f"pc: {error.message}"), style="red")


def note(text: str) -> None:
    """Print what somebody who waits may want to know, on the error stream."""
    err.print(Text(visible(text)))


def moment(time: str | None) -> str | None:
    """A time of the wire as people write it, UTC, to the second."""
    return None if time is None else time[:19].replace("T", " ")


def ago(time: str) -> str:
    """How long ago a time of the wire was, in its largest unit; its date after 60 days."""
    then = datetime.fromisoformat(time)
    minutes = int((datetime.now(UTC) - then).total_seconds() // 60)
    if minutes < 1:
        return "just now"
    if minutes < 120:
        return f"{minutes} min ago"
    if minutes < 48 * 60:
        return f"{minutes // 60} h ago"
    days = minutes // (24 * 60)
    return f"{days} days ago" if days <= 60 else f"on {time[:10]}"


def width() -> int:
    """Characters on a line: those of the terminal, and 100 of a narrower one or of none."""
    return max(out.width, 100)


def line(text: str, *, beside: int = 0) -> str:
    """The beginning of a text on one line, of which something else takes `beside` columns."""
    told = Text(" ".join(text.split()))
    told.truncate(width() - beside, overflow="ellipsis")
    return told.plain


def short(text: str, most: int = 120) -> str:
    """One line of at most `most` characters."""
    return shortened(" ".join(text.split()), most)
