"""DuckDB's extensions FTS and VSS: from their wheels, else from where DuckDB itself keeps them."""

import importlib.util
from pathlib import Path
from typing import Literal

import duckdb

from pc_store.errors import SearchExtensionUnavailable

Name = Literal["fts", "vss"]

SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
"""What every connection of ours is made with: nothing is fetched unless `load` asks for it."""


def load(connection: duckdb.DuckDBPyConnection, name: Name) -> None:
    """Make an extension known to a DuckDB instance.

    The wheel's file needs no network and nothing under the home folder. Where there is no wheel
    for the platform, DuckDB's own `INSTALL` is asked, which needs the network once.

    Raises:
        SearchExtensionUnavailable: neither has it.
    """
    wheel = _in_wheel(name)
    try:
        if wheel is not None:
            quoted = str(wheel).replace("'", "''")
            connection.execute(f"LOAD '{quoted}'")
        else:
            connection.execute(f"INSTALL {name}")
            connection.execute(f"LOAD {name}")
    except duckdb.Error as error:
        raise SearchExtensionUnavailable(name, str(error).splitlines()[0]) from error


def _in_wheel(name: Name) -> Path | None:
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "extensions" / f"v{duckdb.__version__}"
    path = folder / f"{name}.duckdb_extension"
    return path if path.is_file() else None
