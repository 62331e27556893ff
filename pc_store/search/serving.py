"""The process's one DuckDB instance for reading index files, each attached read-only.

Opening a file as an instance of its own costs 20 ms and threads; attaching it to this one costs
less than 1 ms. A forked child makes an instance of its own and never touches its parent's.
"""

import itertools
import logging
import os
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb

from pc_store.errors import SearchExtensionUnavailable
from pc_store.search import extensions

EF_SEARCH = 256
"""How many candidates an HNSW query keeps in view. Measured on 100,000 vectors: recall@10 is 0.91
at 64, 0.995 at 200."""

_SETTINGS = {**extensions.SETTINGS, "threads": 1, "memory_limit": "256MB"}

_lock = threading.Lock()
_instance: duckdb.DuckDBPyConnection | None = None
_has_vss = False
_inherited: list[duckdb.DuckDBPyConnection] = []
_names = itertools.count(1)
_log = logging.getLogger(__name__)


class Attached:
    """One index file, attached under a name of its own until the last user lets go of it."""

    def __init__(self, path: Path) -> None:
        """Attach a file.

        Raises:
            duckdb.Error: it cannot be read as a database.
        """
        self._connection = _current()
        self.name = f"s{next(_names)}"
        quoted = str(path).replace("'", "''")
        self._connection.cursor().execute(f"ATTACH '{quoted}' AS {self.name} (READ_ONLY)")
        self._end = weakref.finalize(self, _detach, self._connection, self.name, os.getpid())
        self._end.atexit = False

    def rows(self, statement: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """All rows of a query in which `{db}` stands for the file."""
        found = self._connection.cursor().execute(statement.format(db=self.name), values)
        return found.fetchall()

    def columns(self, statement: str, values: Mapping[str, object] | None = None) -> dict[str, Any]:
        """All columns of a query as numpy arrays, by name."""
        found = self._connection.cursor().execute(statement.format(db=self.name), values)
        return dict(found.fetchnumpy())


def with_vss() -> bool:
    """Make HNSW indexes usable in this process; False where the extension cannot be had."""
    global _has_vss
    connection = _current()
    with _lock:
        if _has_vss:
            return True
        try:
            extensions.load(connection.cursor(), "vss")
        except SearchExtensionUnavailable as error:
            _log.warning("HNSW indexes are not used: %s", error.message)
            return False
        connection.cursor().execute(f"SET GLOBAL hnsw_ef_search = {EF_SEARCH}")
        _has_vss = True
        return True


def renew() -> None:
    """Use a new instance from now on: DuckDB gives one up after an internal error."""
    global _instance, _has_vss
    with _lock:
        _instance = None
        _has_vss = False


def begin_anew() -> None:
    """Leave the parent's instance alone, in a forked child."""
    global _lock, _instance, _has_vss
    _lock = threading.Lock()
    if _instance is not None:
        _inherited.append(_instance)  # closing it would wait for threads that only the parent has
    _instance, _has_vss = None, False


def _current() -> duckdb.DuckDBPyConnection:
    global _instance
    with _lock:
        if _instance is None:
            _instance = duckdb.connect(config=_SETTINGS)
        return _instance


def _detach(connection: duckdb.DuckDBPyConnection, name: str, attached_by: int) -> None:
    if attached_by == os.getpid():
        try:
            connection.cursor().execute(f"DETACH {name}")
        except duckdb.Error as error:  # of an instance that DuckDB has given up
            _log.debug("index file %s was not detached: %s", name, error)
