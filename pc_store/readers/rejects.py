"""The file that keeps what a run rejected: JSONL of file, line, reason and the raw text."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from pc_store.readers.reading import Reject


@dataclass
class RejectFile:
    """A reject file in the making, named by the UTC time; it exists once something is rejected.

    `clock` gives microseconds since the epoch. `path` is None while there is no file.
    """

    folder: Path
    clock: Callable[[], int]
    path: Path | None = None
    _stream: IO[str] | None = None

    def write(self, reject: Reject) -> None:
        """Add a reject as one line."""
        if self._stream is None:
            self._stream = self._open()
        record = {
            "file": reject.file,
            "line": reject.line,
            "reason": reject.reason,
            "raw": reject.raw,
        }
        self._stream.write(json.dumps(record, ensure_ascii=False) + "\n")

    def _open(self) -> IO[str]:
        self.folder.mkdir(parents=True, exist_ok=True)
        moment = datetime.fromtimestamp(self.clock() / 1_000_000, UTC)
        stem = moment.strftime("%Y%m%dT%H%M%S.%fZ")
        attempt = 0
        while True:
            name = f"{stem}.jsonl" if attempt == 0 else f"{stem}-{attempt}.jsonl"
            self.path = self.folder / name
            try:
                # A lone surrogate, which raw JSON may hold, becomes its JSON escape.
                return self.path.open("x", encoding="utf-8", errors="backslashreplace")
            except FileExistsError:
                attempt += 1

    def flush(self) -> None:
        """Hand what was written to the operating system."""
        if self._stream is not None:
            self._stream.flush()

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._stream is not None:
            self._stream.close()
