"""`pc serve`: the HTTP server, alone or beside another program."""

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from pc_store.cli import console
from pc_store.errors import InvalidInput
from pc_store.settings import Settings

if TYPE_CHECKING:
    from pc_store.api.server import Server

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_STOP_WAIT_S = 20


def serve(
    beside: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- COMMAND...]",
            help="A program to run beside the server; when either ends, so does the other.",
        ),
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="The address to listen on; PC_HTTP_HOST unless given.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="The port; PC_HTTP_PORT unless given, 0: any free."),
    ] = None,
) -> None:
    """Serve the store over HTTP until interrupted; logs are JSON lines on the error stream.

    Beyond loopback it needs PC_API_TOKENS.
    """
    from pc_store.api.server import prepare

    if beside and shutil.which(beside[0]) is None:
        raise InvalidInput("COMMAND", f"there is no program {beside[0]}")
    given = {"http_host": host, "http_port": port}
    settings = Settings.load().model_copy(
        update={name: value for name, value in given.items() if value is not None}
    )
    server, listening = prepare(settings)
    bound_host, bound_port = listening.getsockname()[:2]
    shown = f"[{bound_host}]" if ":" in bound_host else bound_host
    who = "tokens are needed" if settings.api_tokens else "no tokens, this machine only"
    console.err.print(f"pc: serving http://{shown}:{bound_port} ({who})", markup=False)
    if not beside:
        server.run(sockets=[listening])
        return
    with _running(beside, server) as child:
        server.run(sockets=[listening])
    if child.returncode not in (0, -signal.SIGINT):
        raise typer.Exit(1)


@contextmanager
def _running(command: list[str], server: "Server") -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that ends with the server, and the server with it.

    It has a session of its own, so that Ctrl-C reaches it once, through us.
    """
    child = subprocess.Popen(command, start_new_session=True)

    def follow() -> None:
        child.wait()
        server.should_exit = True

    threading.Thread(target=follow, daemon=True).start()
    try:
        yield child
    finally:
        for name in _STOP_SIGNALS:
            if child.poll() is not None:
                break
            os.killpg(child.pid, name)
            try:
                child.wait(_STOP_WAIT_S)
            except subprocess.TimeoutExpired:
                continue
