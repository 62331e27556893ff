"""The `pc` command: groups of verbs, and what every one of them shares.

Exit codes: 0 done, 1 the store or the model could not do it, 2 the call itself is wrong.
"""

import sys
from typing import Annotated, NoReturn

import typer

from pc_store import __version__
from pc_store.cli import (
    audit_command,
    ingest_command,
    memory_commands,
    prompt_commands,
    scope_commands,
    search_command,
    serve_command,
    source_commands,
    window_commands,
)
from pc_store.cli.console import complain
from pc_store.errors import InvalidInput, StoreError

app = typer.Typer(
    name="pc",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Durable memory for AI agents: ingest logs, extract memory, find it again.",
)
app.command("ingest")(ingest_command.ingest)
app.command("search")(search_command.search)
app.command("serve")(serve_command.serve)
app.add_typer(scope_commands.app, name="scope")
app.add_typer(source_commands.app, name="source")
app.add_typer(memory_commands.app, name="memory")
app.add_typer(window_commands.app, name="windows")
app.add_typer(prompt_commands.app, name="prompt")
app.command("audit")(audit_command.audit)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"pc {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print and exit.")
    ] = False,
) -> None:
    """What comes before the verb."""


def main() -> NoReturn:
    """Run the command and turn the store's errors into one line and an exit code."""
    try:
        app()
    except StoreError as error:
        complain(error)
        sys.exit(2 if isinstance(error, InvalidInput) else 1)
    except BrokenPipeError:
        sys.stderr.close()  # the reader went away; Python would complain at exit otherwise
        sys.exit(1)
    sys.exit(0)
