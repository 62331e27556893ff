"""Index files that no shard uses: replaced generations, half-made ones, those of older formats.

A builder removes what it replaces. What is left is of builders that died, of shards that are no
more, or of a format that kept its files elsewhere.
"""

import contextlib
import shutil
import time
from pathlib import Path

from pc_store.search import building, shards

OLD_FOLDER = "words"
"""Where an earlier format kept a file for each scope."""

_ABANDONED_S = 3_600.0


def remove(index_dir: Path, shard_count: int) -> int:
    """Remove them; how many files and folders went. Shards that are being built are passed over.

    Raises:
        IndexUnwritable: a shard's folder cannot be written.
    """
    try:
        folders = sorted(path for path in index_dir.iterdir() if path.is_dir())
    except FileNotFoundError:
        return 0
    removed = 0
    for folder in folders:
        number = folder.name.removeprefix("s")
        if folder.name == OLD_FOLDER:
            removed += _removed(folder)
        elif folder.name.startswith("s") and number.isdecimal():
            if int(number) >= shard_count:
                removed += _removed(folder)
            else:
                removed += _of_shard(index_dir, int(number), folder)
    return removed


def _of_shard(index_dir: Path, shard: int, folder: Path) -> int:
    current = shards.current_path(index_dir, shard)
    before = time.time() - _ABANDONED_S
    with building.claim(index_dir, shard) as work:
        if work is None:
            return 0
        unused = [path for path in folder.glob("*.duckdb") if path != current]
        unused += [path for path in folder.glob(".build-*") if path.stat().st_mtime < before]
        return sum(_removed(path) for path in unused)


def _removed(path: Path) -> bool:
    with contextlib.suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        return True
    return False
