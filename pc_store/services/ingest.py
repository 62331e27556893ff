"""Read logs into a scope: files and folders named by a caller, or the scope's landing folder.

Reading a log again changes nothing, so a run that was broken off is simply repeated. What
cannot become a source is kept in a reject file, with the reason, and stops nothing else.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from pc_store.domain import strict_json
from pc_store.domain.scope import Scope, partition_key
from pc_store.errors import InvalidInput
from pc_store.ledger import landings
from pc_store.ledger.database import Database
from pc_store.readers import detect
from pc_store.readers.reading import Read, Reject, Tally
from pc_store.readers.rejects import RejectFile
from pc_store.readers.walk import Found, files_in
from pc_store.services.capture import capture_many
from pc_store.services.clock import now_us as system_clock

BATCH_SOURCES = 500
"""Most sources captured in one transaction."""
BATCH_CHARS = 4_000_000
"""A batch is captured once its content reaches this, so that memory stays bounded."""
REJECTS_HELD = 1_000
"""Most rejects a report holds; the reject file has all."""
QUIET_S = 2.0
"""How long a landing file must have been left alone before it is read."""

_HELD_RAW_CHARS = 500
_PROGRESS_EVERY = 200


@dataclass(frozen=True)
class Progress:
    """How far a run is: bytes and files of those it will read, sources read so far."""

    bytes_done: int
    bytes_total: int
    files_done: int
    files_total: int
    sources: int
    file: str
    """The file being read; empty at the end."""


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True)
class IngestReport:
    """What a run did. `read` is `new` + `known` + the sources that were conflicts."""

    files: int
    read: int
    new: int
    known: int
    dropped: Mapping[str, int]
    """Records left out on purpose, by kind."""
    rejected: tuple[Reject, ...]
    """The first 1,000, with at most 500 characters of what was rejected."""
    rejected_count: int
    reject_file: Path | None
    first_position: int | None
    last_position: int | None
    """First and last position of the new sources; others may have written between them."""


@dataclass(frozen=True)
class LandingFile:
    """A file in a scope's landing folder, as it was when listed.

    `path` is its name relative to that folder, as the ledger keeps it; `location` opens it.
    """

    path: str
    size_bytes: int
    modified_ns: int
    location: Path


def ingest(
    db: Database,
    scope_id: str,
    paths: Iterable[Path],
    *,
    format: str = "auto",
    rejects_dir: Path,
    clock: Callable[[], int] = system_clock,
    on_progress: OnProgress | None = None,
) -> IngestReport:
    """Capture what the files hold, ordered by file name, inside a file as the log has it.

    Sources are captured in batches, one transaction each; an error of the ledger leaves the
    batches before it in place, and the same call again does the rest.

    Args:
        paths: files and folders; ids are relative to the folder, or to the file's own.
        format: one of `detect.FORMATS`.
        rejects_dir: gets `<scope key>/<UTC time>.jsonl` if anything is rejected.
        clock: microseconds since the epoch.

    Raises:
        NotFound: no such scope.
        InvalidInput: no such format.
        StoreBusy, StoreUnavailable: as the ledger says.
    """
    with _Run(db, scope_id, format, rejects_dir, clock, on_progress) as run:
        found = files_in(paths)
        run.expect([item for item in found if isinstance(item, Found)])
        for item in found:
            if isinstance(item, Reject):
                run.reject(item)
            else:
                run.file(item)
        run.flush()
        return run.report()


def pending_files(
    landing_dir: Path,
    scope_key: str,
    known: Mapping[str, tuple[int, int]],
    *,
    now_ns: int,
    quiet_ns: int,
) -> list[LandingFile]:
    """The landing files that are new or changed, ordered by name.

    Args:
        known: (size in bytes, modified in ns) of the files read before, by path.
        now_ns: nanoseconds since the epoch.
        quiet_ns: a file modified less than this before (or after) now is left for later,
            because it may be half copied; a clock far ahead does not keep a file waiting.
    """
    folder = landing_dir / scope_key
    if not folder.is_dir():
        return []
    pending: list[LandingFile] = []
    for item in files_in([folder]):
        if isinstance(item, Reject):
            continue
        try:
            status = item.path.stat()
        except OSError:  # it was taken away since it was listed
            continue
        state = status.st_size, status.st_mtime_ns
        if known.get(item.name) != state and abs(now_ns - status.st_mtime_ns) >= quiet_ns:
            pending.append(LandingFile(item.name, *state, item.path))
    return pending


def ingest_landing(
    db: Database,
    scope: Scope,
    landing_dir: Path,
    *,
    format: str = "auto",
    rejects_dir: Path,
    quiet_s: float = QUIET_S,
    clock: Callable[[], int] = system_clock,
    on_progress: OnProgress | None = None,
) -> IngestReport:
    """Capture the pending files of the scope's landing folder and note them as read.

    A file is noted after its last source is captured, in the state in which it was listed: one
    that changed while it was read, or whose run was broken off, is read again next time. One
    that could not be read is noted too, with its reject; it is tried again once it is modified.

    Raises:
        NotFound, InvalidInput, StoreBusy, StoreUnavailable: as `ingest`.
    """
    folder = landing_dir / scope.key
    with _Run(db, scope.scope_id, format, rejects_dir, clock, on_progress) as run:
        with db.read() as conn:
            known = landings.known(conn, scope.scope_id)
        pending = pending_files(
            landing_dir,
            scope.key,
            known,
            now_ns=clock() * 1_000,
            quiet_ns=int(quiet_s * 1_000_000_000),
        )
        found = [Found(file.location, folder, file.path) for file in pending]
        run.expect(found)
        for file, item in zip(pending, found, strict=True):
            accepted, rejected = run.accepted, run.rejected_count
            run.file(item)
            run.flush()
            with db.write() as conn:
                landings.record(
                    conn,
                    scope.scope_id,
                    file.path,
                    size_bytes=file.size_bytes,
                    modified_ns=file.modified_ns,
                    now_us=clock(),
                    accepted=run.accepted - accepted,
                    rejected=run.rejected_count - rejected,
                )
        return run.report()


@dataclass
class _Run:
    """One run: the batch being filled, and the counts so far."""

    db: Database
    scope_id: str
    format: str
    rejects_dir: Path
    clock: Callable[[], int]
    on_progress: OnProgress | None

    files: int = 0
    read: int = 0
    new: int = 0
    known: int = 0
    rejected_count: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    held: list[Reject] = field(default_factory=list)
    first_position: int | None = None
    last_position: int | None = None
    batch: list[tuple[str, Read]] = field(default_factory=list)
    batch_chars: int = 0
    bytes_before: int = 0
    bytes_total: int = 0
    files_total: int = 0

    def __enter__(self) -> Self:
        if self.format not in detect.FORMATS:
            known = ", ".join(detect.FORMATS)
            raise InvalidInput("format", f"is {self.format!r}, which is none of {known}")
        capture_many(self.db, self.scope_id, [], now_us=self.clock())  # the scope exists
        self.reject_file = RejectFile(self.rejects_dir / partition_key(self.scope_id), self.clock)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.reject_file.close()

    @property
    def accepted(self) -> int:
        """Sources that are in the log now."""
        return self.new + self.known

    def expect(self, found: list[Found]) -> None:
        """Learn how much there is to read."""
        self.files_total = len(found)
        self.bytes_total = sum(_size(item.path) for item in found)

    def file(self, item: Found) -> None:
        """Read one file into batches."""
        tally = Tally()
        self._tell(item.name, tally)
        items = detect.read(item.path, root=item.root, format=self.format, tally=tally)
        for count, record in enumerate(items, start=1):
            if isinstance(record, Reject):
                self.reject(record)
            else:
                self._add(item.name, record)
            if count % _PROGRESS_EVERY == 0:
                self._tell(item.name, tally)
        self.files += 1
        self.dropped += tally.dropped
        self.bytes_before += _size(item.path)

    def _add(self, name: str, record: Read) -> None:
        self.read += 1
        self.batch.append((name, record))
        self.batch_chars += len(record.source.content)
        if len(self.batch) >= BATCH_SOURCES or self.batch_chars >= BATCH_CHARS:
            self.flush()

    def flush(self) -> None:
        """Capture the batch in one transaction."""
        if self.batch:
            batch, self.batch, self.batch_chars = self.batch, [], 0
            offered = [record.source for _, record in batch]
            results = capture_many(self.db, self.scope_id, offered, now_us=self.clock())
            for (name, record), result in zip(batch, results, strict=True):
                if result.status == "new":
                    self.new += 1
                    if self.first_position is None:
                        self.first_position = result.position
                    self.last_position = result.position
                elif result.status == "known":
                    self.known += 1
                else:
                    self.reject(_conflict(name, record, result.position))
        self.reject_file.flush()

    def reject(self, reject: Reject) -> None:
        """Keep what was rejected."""
        self.rejected_count += 1
        self.reject_file.write(reject)
        if len(self.held) < REJECTS_HELD:
            raw = reject.raw[:_HELD_RAW_CHARS]
            self.held.append(Reject(reject.file, reject.line, reject.reason, raw))

    def report(self) -> IngestReport:
        """The counts at the end."""
        self._tell("", Tally())
        return IngestReport(
            files=self.files,
            read=self.read,
            new=self.new,
            known=self.known,
            dropped=dict(sorted(self.dropped.items())),
            rejected=tuple(self.held),
            rejected_count=self.rejected_count,
            reject_file=self.reject_file.path,
            first_position=self.first_position,
            last_position=self.last_position,
        )

    def _tell(self, file: str, tally: Tally) -> None:
        if self.on_progress is not None:
            done = min(self.bytes_before + tally.bytes_done, self.bytes_total)
            self.on_progress(
                Progress(done, self.bytes_total, self.files, self.files_total, self.read, file)
            )


def _conflict(name: str, record: Read, position: int) -> Reject:
    source = record.source
    reason = (
        f"source_conflict: source {source.source_id!r} is at position {position} "
        "with other content or metadata"
    )
    raw = {"source_id": source.source_id, "content": source.content}
    # Written as the generic format has it, so that it can be ingested under another id.
    return Reject(
        name, record.line, reason, strict_json.dumps({**raw, "metadata": dict(source.metadata)})
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
