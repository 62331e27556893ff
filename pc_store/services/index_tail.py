"""How far a shard's file is from the ledger: counted, without reading what changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pc_store.domain.refs import EXPERIENCE_FAMILY, MEMORY_FAMILY
from pc_store.ledger import terms
from pc_store.ledger.index_tails import Behind, Document, Memory
from pc_store.search import shards
from pc_store.search.shards import Covered, Shard
from pc_store.settings import Settings

_SLACK_US = 600_000_000
"""How far the clocks of a builder and of a writer may be apart."""


@dataclass(frozen=True)
class Tail:
    """What a shard does not hold, or holds and should not.

    Attributes:
        rows: changes since it was built.
        masked: documents in it that are not current.
        since: when the oldest of the changes was made; None without one.
        wrong: why it has to be built anew whatever its size; None when it need not.
    """

    rows: int = 0
    masked: int = 0
    since: int | None = None
    wrong: str | None = None

    def with_more(self, rows: int, masked: int, since: int | None) -> "Tail":
        """The same with another scope's share."""
        known = [moment for moment in (self.since, since) if moment is not None]
        return Tail(
            self.rows + rows, self.masked + masked, min(known) if known else None, self.wrong
        )


@dataclass(frozen=True)
class IndexFile:
    """A shard's generation in use, if there is one that can be read, and what it covers."""

    shard: Shard | None
    covered: Mapping[tuple[str, str], Covered]
    bytes: int
    built_at: int | None
    broken: bool

    def part(self, scope_id: str, family: str) -> Covered | None:
        """What the file has of a scope."""
        return self.covered.get((scope_id, family))

    def scopes(self, family: str) -> set[str]:
        """The scopes of which the file has something."""
        return {scope_id for scope_id, of in self.covered if of == family}

    def wrong(
        self, members: set[str], memories: Mapping[str, Memory], profile: str | None
    ) -> str | None:
        """Why the file has to be built anew, whatever changed since."""
        if self.broken:
            return "its file cannot be read"
        for scope_id in self.scopes(MEMORY_FAMILY):
            memory, part = memories.get(scope_id), self.covered[scope_id, MEMORY_FAMILY]
            if memory is None or part.revision > memory.head:
                return "it was built from another ledger"
            if part.purges < memory.purges:
                return "it holds words of text that was erased"
        if self.shard is not None and members and profile not in (None, self.shard.profile):
            return "its vectors are not of the embedder in force"
        return None


def open_file(settings: Settings, number: int, count: int) -> IndexFile:
    """A shard's file, whatever is the matter with it; `count` is how many shards there are."""
    path = shards.current_path(settings.index_path, number)
    for _ in range(3):
        shard = shards.open_current(settings.index_path, number, count)
        if shard is None:
            break
        try:
            seen = shard.path.stat()
            return IndexFile(shard, shard.covered, seen.st_size, seen.st_mtime_ns // 1_000, False)
        except shards.Torn as error:
            shards.refuse(shard.path, error)
        except OSError:
            continue  # replaced since it was opened, or taken away
    return IndexFile(None, {}, 0, None, path is not None)


def filed_revision(file: IndexFile, scope_id: str, memory: Memory) -> int:
    """The revision of a memory that a file has; 0 when it has none of this ledger's."""
    part = file.part(scope_id, MEMORY_FAMILY)
    return part.revision if part is not None and part.revision <= memory.head else 0


def memory_tail(
    file: IndexFile, scope_id: str, memory: Memory, behind: Behind | None
) -> tuple[int, int, int | None]:
    """(rows, masked, since) of a memory."""
    part = file.part(scope_id, MEMORY_FAMILY)
    if part is not None and part.revision > memory.head:
        return memory.active, part.docs, None
    if behind is None:
        return 0, 0, None
    if part is not None:
        return behind.changes, behind.gone, behind.since
    # Every entry was retired: a memory without documents has no part.
    return (memory.active, 0, behind.since) if memory.active else (0, 0, None)


def experience_tail(
    file: IndexFile, scope_id: str, documents: Sequence[Document]
) -> tuple[int, int, int | None]:
    """(rows, masked, since) of a scope's experiences."""
    part = file.part(scope_id, EXPERIENCE_FAMILY)
    latest = max((one.updated_at for one in documents), default=0)
    if part is None:
        return len(documents), 0, min((one.updated_at for one in documents), default=None)
    assert file.shard is not None
    assert file.built_at is not None
    if part.docs == len(documents) and latest < file.built_at - _SLACK_US:
        return 0, 0, None
    opened = file.shard.part(scope_id, EXPERIENCE_FAMILY)
    assert opened is not None
    filed = map(opened.docs.id_of, range(part.docs))
    held = {(ref, terms.revision_of(version)) for ref, version in filed}
    wanted = {(one.artifact_id, one.revision): one.updated_at for one in documents}
    gone, come = held - wanted.keys(), wanted.keys() - held
    if not gone and not come:
        return 0, 0, None
    since = min((wanted[one] for one in come), default=file.built_at)
    return len(gone) + len(come), len(gone), since
