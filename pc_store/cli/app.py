"""The `pc` command: groups of verbs, and what every one of them shares.

Exit codes: 0 done, 1 the store or the model could not do it, 2 the call itself is wrong.
"""

import logging
import sys
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from pc_store import __version__
from pc_store.cli import (
    audit_command,
    context_commands,
    doctor_command,
    dream_commands,
    experience_commands,
    extract_commands,
    generation_commands,
    index_commands,
    ingest_command,
    mcp_command,
    memory_commands,
    prompt_commands,
    recurrence_commands,
    remember_commands,
    review_commands,
    scope_commands,
    search_command,
    serve_command,
    source_commands,
    stats_command,
    window_commands,
)
from pc_store.cli.console import chosen_server, complain, err
from pc_store.client.connection import URL_VARIABLE
from pc_store.errors import InvalidInput, StoreError

_MEMORY = (memory_commands, remember_commands, extract_commands)
"""One group in three modules; each adds its verbs when it is imported."""


class _Verbs(TyperGroup):
    """The verbs; the store's errors become one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run a verb."""
        try:
            return super().invoke(ctx)
        except StoreError as error:
            complain(error)
            raise typer.Exit(2 if isinstance(error, InvalidInput) else 1) from None


app = typer.Typer(
    name="pc",
    cls=_Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Durable memory for AI agents: ingest logs, extract memory, find it again.",
)
app.command("ingest")(ingest_command.ingest)
app.command("search")(search_command.search)
app.command("prepare")(context_commands.prepare)
app.command("recall")(context_commands.recall)
app.add_typer(scope_commands.app, name="scope")
app.add_typer(source_commands.app, name="source")
app.add_typer(_MEMORY[0].app, name="memory")
app.add_typer(experience_commands.app, name="experience")
app.add_typer(review_commands.app, name="review")
app.add_typer(dream_commands.app, name="dream")
app.add_typer(recurrence_commands.app, name="recurrence")
app.add_typer(recurrence_commands.outcomes, name="outcome")
app.add_typer(recurrence_commands.receipts, name="receipt")
app.add_typer(window_commands.app, name="windows")
app.add_typer(generation_commands.app, name="generation")
app.add_typer(prompt_commands.app, name="prompt")
app.add_typer(index_commands.app, name="index")
app.command("stats")(stats_command.stats)
app.command("audit")(audit_command.audit)
app.command("doctor")(doctor_command.doctor)
app.command("serve")(serve_command.serve)
app.command("mcp")(mcp_command.mcp)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"pc {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            envvar=URL_VARIABLE,
            metavar="URL",
            help="Work on this server, with the token in PC_API_TOKEN; "
            "on the store of this machine unless given.",
        ),
    ] = None,
    version: Annotated[  # noqa: ARG001 - its callback acts on it
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print and exit.")
    ] = False,
) -> None:
    """What comes before the verb."""
    chosen_server.set(server)


class _Failures(logging.Handler):
    """Tells of faults of the program's own: where, and never what it was working on."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a failure that the store logged."""
        fields = getattr(record, "fields", {})
        if "error" in fields:
            err.print(
                f"pc: {fields['error']}", *fields.get("at", ())[-5:], sep="\n  ", markup=False
            )


def main() -> NoReturn:
    """Run the command."""
    logging.getLogger("pc_store").addHandler(_Failures(logging.ERROR))
    try:
        app()
    except BrokenPipeError:
        sys.stderr.close()  # the reader went away; Python would complain at exit otherwise
        sys.exit(1)
    sys.exit(0)
