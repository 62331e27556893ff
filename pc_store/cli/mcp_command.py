"""`pc mcp`: the MCP server of one agent, on standard input and output."""

import os

from pc_store.cli import console
from pc_store.client import Client
from pc_store.client.connection import TOKEN_VARIABLE
from pc_store.settings import Settings


def mcp() -> None:
    """Serve MCP on standard input and output until the input ends.

    An agent starts it. It works on the store of this machine, or passes calls on to a server.
    """
    from pc_store.api.mcp import local_edge, remote_edge, serve_stdio

    url = console.server()
    if url is not None:
        Client(url).close()  # complains of an address or a token that is none
        serve_stdio(remote_edge(url, token=os.environ.get(TOKEN_VARIABLE)))
    else:
        serve_stdio(local_edge(Settings.load()))
