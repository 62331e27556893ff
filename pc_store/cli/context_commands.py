"""`pc prepare`: what is known about a question, ready for an agent. `pc recall`: what was asked."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from pc_store import limits
from pc_store.cli import console
from pc_store.client import Client
from pc_store.errors import InvalidInput

_AGO = re.compile(r"(\d{1,6})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def prepare(
    scope_id: console.ScopeId,
    query: Annotated[str, typer.Argument(help="The question, in any language.")],
    max_bytes: Annotated[
        int,
        typer.Option(
            "--max-bytes",
            help=f"Most UTF-8 bytes, {limits.CONTEXT_BYTES_MIN} to {limits.CONTEXT_BYTES_MAX}.",
        ),
    ] = limits.CONTEXT_BYTES_DEFAULT,
    assembly: Annotated[
        str | None,
        typer.Option(
            "--assembly",
            metavar="FAMILY:LIMIT,…",
            help="As Markdown with these sections, such as memory:6,experience:2.",
        ),
    ] = None,
    show: Annotated[
        list[str] | None,
        typer.Option("--show", help="With --assembly, say this of each item: recall_rank, …"),
    ] = None,
    as_json: console.Json = False,
) -> None:
    """Print what a scope, and those it references, know about a question, to put before an agent.

    The text says that it is untrusted history, and fences it in.
    """
    arranged = None if assembly is None else {"sections": _sections(assembly), "show": show or []}
    if show and arranged is None:
        raise InvalidInput("--show", "needs --assembly")
    with console.connected() as client:
        answer = client.prepare_context(
            scope_id,
            query,
            max_bytes=max_bytes,
            assembly=arranged,
            include=["omitted", "truncated", "recall_id", "mode"],
        )
    if as_json:
        console.json_line(console.row(answer))
    elif answer.content is not None:
        typer.echo(answer.content)
    else:
        fits = "nothing that was found fits" if answer.omitted else "nothing was found"
        console.err.print(fits)


def recall(
    scope_id: Annotated[
        str | None, typer.Argument(metavar="[SCOPE]", help="One scope; all unless given.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", help="Not before this: 30m, 2h, 7d ago, or an ISO 8601 time."),
    ] = None,
    limit: console.Limit = 50,
    as_json: console.Json = False,
) -> None:
    """List what was recalled, newest first: how much was delivered, what was not, and why."""
    after = None if since is None else _moment(since)
    with console.connected() as client:
        scopes = (
            [scope_id]
            if scope_id is not None
            else [scope.scope_id for scope in client.list_scopes().items]
        )
        rows = [row for one in scopes for row in _recalls(client, one, after, most=limit)]
    rows.sort(key=lambda row: row["recall_id"], reverse=True)
    console.show(
        rows[:limit],
        as_json=as_json,
        columns=("time", "scope", "by", "mode", "given", "left out", "bytes", "ms"),
        cells=lambda row: (
            console.moment(row["recalled_at"]),
            row["scope_id"],
            row["surface"].removesuffix("_context").replace("_", " "),
            row["mode"],
            len(row["hits"]),
            ", ".join(f"{count} {reason}" for reason, count in row["omitted"].items()),
            _bytes(row),
            f"{row['took_us'] / 1_000:.1f}",
        ),
        empty="nothing was recalled",
    )


def _recalls(
    client: Client, scope_id: str, after: datetime | None, *, most: int
) -> list[dict[str, Any]]:
    """The recalls of a scope not before a moment, newest first."""

    def page(limit: int, cursor: str | None) -> tuple[Any, str | None]:
        answer = client.list_recalls(scope_id, limit=limit, cursor=cursor)
        young = [one for one in answer.items if after is None or one.recalled_at >= after]
        return young, answer.next_cursor if len(young) == len(answer.items) else None

    return console.rows_of(page, most=most)


def _bytes(row: Mapping[str, Any]) -> str:
    if row["content_bytes"] is None:
        return str(sum(hit["bytes"] for hit in row["hits"]))
    return f"{row['content_bytes']} of {row['max_bytes']}"


def _sections(text: str) -> list[dict[str, Any]]:
    sections = []
    for part in text.split(","):
        family, colon, most = part.strip().partition(":")
        if not colon or not most.isdecimal():
            raise InvalidInput("--assembly", f"{part!r} is not FAMILY:LIMIT, such as memory:6")
        sections.append({"family": family, "limit": int(most)})
    return sections


def _moment(text: str) -> datetime:
    ago = _AGO.fullmatch(text)
    if ago:
        return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput("--since", f"{text!r} is neither such as 2h nor a time") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
