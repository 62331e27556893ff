"""Which files a set of paths means, in one total order."""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pc_store.readers.reading import Reject, name_of, unreadable

UNFINISHED_SUFFIXES = (".part", ".tmp")
"""Names that programs give to files they are still writing."""


@dataclass(frozen=True)
class Found:
    """A file to read. Its ids are relative to `root`, as `name` is, with `/` between folders."""

    path: Path
    root: Path
    name: str


def files_in(paths: Iterable[Path]) -> list[Found | Reject]:
    """Every file that the paths mean, each once, ordered by the parts of its relative name.

    A folder stands for the files in it and its subfolders; names in it are relative to it. A
    file is named by its last part. Inside a folder hidden files and folders, unfinished files
    (`.part`, `.tmp`), links to folders (so there are no loops) and what is no file are passed
    over; a path given by the caller is taken as it is. A path that cannot be followed is a
    Reject at its place in the order.
    """
    found: list[Found | Reject] = []
    for path in paths:
        try:
            is_folder = stat.S_ISDIR(path.stat().st_mode)
        except OSError as error:
            found.append(Reject(name_of(path, path.parent), None, unreadable(error), ""))
            continue
        if is_folder:
            found.extend(_below(path, path))
        else:
            found.append(Found(path, path.parent, name_of(path, path.parent)))
    found.sort(key=_place)
    return list(_once(found))


def _below(folder: Path, root: Path) -> Iterator[Found | Reject]:
    try:
        with os.scandir(folder) as entries:
            members = [(entry, _what(entry)) for entry in entries if _wanted(entry)]
    except OSError as error:
        yield Reject(f"{name_of(folder, root)}/", None, unreadable(error), "")
        return
    for entry, what in members:
        path = Path(entry.path)
        if what == "folder":
            yield from _below(path, root)
        elif what == "file":
            yield Found(path, root, name_of(path, root))
        elif what != "other":
            yield Reject(name_of(path, root), None, what, "")


def _wanted(entry: os.DirEntry[str]) -> bool:
    return not entry.name.startswith(".") and not entry.name.endswith(UNFINISHED_SUFFIXES)


def _what(entry: os.DirEntry[str]) -> str:
    """`file`, `folder`, `other`, or why it cannot be followed."""
    try:
        if entry.is_dir(follow_symlinks=False):
            return "folder"
        # stat, not is_file, which takes a broken or looping link for absent
        return "file" if stat.S_ISREG(entry.stat().st_mode) else "other"
    except OSError as error:
        return unreadable(error)


def _place(item: Found | Reject) -> tuple[list[str], str]:
    if isinstance(item, Found):
        return item.name.split("/"), str(item.root)
    return item.file.split("/"), ""


def _once(items: Iterable[Found | Reject]) -> Iterator[Found | Reject]:
    seen: set[str] = set()
    for item in items:
        if isinstance(item, Found):
            real = os.path.realpath(item.path)
            if real in seen:
                continue
            seen.add(real)
        yield item
