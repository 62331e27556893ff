"""The search index as an operator sees it: how far each shard is behind, and building those due.

What is behind is found all the same, from the ledger; a shard that is far behind only costs time.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Self

import sqlalchemy as sa

from pc_store.domain.refs import EXPERIENCE_FAMILY
from pc_store.errors import InvalidInput
from pc_store.ledger import facts, index_tails, terms
from pc_store.ledger.database import Database
from pc_store.search import leftovers, shards
from pc_store.search.lexical import outgrown
from pc_store.services import embed, index_build
from pc_store.services.backfill import Backfilled, backfill
from pc_store.services.clock import now_us
from pc_store.services.index_build import Built
from pc_store.services.index_names import shard_name, stored_shards
from pc_store.services.index_tail import (
    IndexFile,
    Tail,
    experience_tail,
    filed_revision,
    memory_tail,
    open_file,
)
from pc_store.settings import Settings

MASKED_SHARE = 0.1
"""A shard is worth a rebuild for its own sake when more of its documents are not current."""


@dataclass(frozen=True)
class ShardStatus:
    """A shard's file and its tail.

    Attributes:
        generation: None without a file that can be used.
        built_at: when the file was published.
        profile: the space its vectors are of; None without any.
        scopes, documents, vectors: what is in the file.
        hnsw_scopes: scopes whose vectors have an HNSW index.
        ledger_scopes: scopes of the shard with something to find.
        unembedded: texts that had no vector after its last build.
        embed_at: when to try again to embed them; None when nothing is left to try.
    """

    shard: int
    generation: int | None
    bytes: int
    built_at: int | None
    profile: str | None
    scopes: int
    documents: int
    vectors: int
    hnsw_scopes: int
    ledger_scopes: int
    tail: Tail
    unembedded: int
    embed_at: int | None

    @property
    def name(self) -> str:
        """`s00`, `s01` …: how folders, partitions and people call it."""
        return shard_name(self.shard)

    def due(self, settings: Settings, *, now_us: int) -> str | None:
        """Why it should be built now; None when it need not."""
        tail = self.tail
        if tail.wrong is not None:
            return tail.wrong
        if outgrown(self.documents, tail.rows):
            return f"{tail.rows} changes are not in it"
        if tail.rows and tail.since is not None:
            waited_s = (now_us - tail.since) / 1_000_000
            if waited_s >= settings.index_max_age_s:
                return f"{tail.rows} changes are not in it, the oldest for {waited_s:.0f} s"
        if self.embed_at is not None and self.embed_at <= now_us:
            return f"{self.unembedded} of its texts have no vector yet"
        return None

    def worth_building(self, settings: Settings, *, now_us: int) -> str | None:
        """Why somebody who asks for builds wants this one: any change counts; None without one."""
        if why := self.due(settings, now_us=now_us) or self.wasteful:
            return why
        if self.tail.rows:
            return f"{self.tail.rows} changes are not in it"
        if self.unembedded and self.embed_at is not None:
            return f"{self.unembedded} of its texts have no vector yet"
        return None

    @property
    def wasteful(self) -> str | None:
        """Why it is worth a nightly rebuild; None when it is not."""
        if self.tail.masked > MASKED_SHARE * self.documents:
            return f"{self.tail.masked} of its {self.documents} documents are not current"
        return None


def shard_count(db: Database, settings: Settings) -> int:
    """How many shards the index has: what the ledger says, or what its first build will fix."""
    with db.read() as conn:
        return stored_shards(conn) or settings.index_shards


def status(db: Database, settings: Settings) -> list[ShardStatus]:
    """Every shard, in one read of the ledger: a few statements, however many scopes there are."""
    count = shard_count(db, settings)
    # opened before the ledger is read, so that no shard of this ledger is ahead of it
    files = [open_file(settings, number, count) for number in range(count)]
    with db.read() as conn:
        memories = index_tails.memories(conn)
        documents = index_tails.documents(conn)
        filed = {
            scope_id: filed_revision(files[shards.shard_of(scope_id, count)], scope_id, memory)
            for scope_id, memory in memories.items()
        }
        ahead = {
            scope_id: revision
            for scope_id, revision in filed.items()
            if revision < memories[scope_id].head
        }
        behind = index_tails.behind(conn, ahead)
        backlogs = [_Backlog.read(conn, number) for number in range(count)]
    profile = embed.known_profile(db, settings)
    members: list[set[str]] = [set() for _ in range(count)]
    for scope_id in memories.keys() | documents.keys():
        members[shards.shard_of(scope_id, count)].add(scope_id)
    found = []
    for number, file in enumerate(files):
        tail = Tail(wrong=file.wrong(members[number], memories, profile))
        for scope_id in members[number]:
            if scope_id in memories:
                tail = tail.with_more(
                    *memory_tail(file, scope_id, memories[scope_id], behind.get(scope_id))
                )
        for scope_id in file.scopes(EXPERIENCE_FAMILY) | (members[number] & documents.keys()):
            tail = tail.with_more(*experience_tail(file, scope_id, documents.get(scope_id, [])))
        backlog = backlogs[number] if backlogs[number].profile == profile else _NO_BACKLOG
        found.append(_status(number, file, len(members[number]), tail, backlog))
    return found


def chosen(db: Database, settings: Settings, only: Collection[int] | None) -> list[ShardStatus]:
    """Some shards, or all if none is named.

    Raises:
        InvalidInput: there is no such shard.
    """
    found = status(db, settings)
    for number in only or ():
        if not 0 <= number < len(found):
            raise InvalidInput("shard", f"is {number}, expected 0 to {len(found) - 1}")
    return [one for one in found if not only or one.shard in only]


@dataclass(frozen=True)
class Rebuilt:
    """What a build did.

    Attributes:
        built: the new file; None when another builder was at work on the shard.
        tail_before: changes that the file before it did not have.
        vectors: what was embedded first; None when nothing was to be.
        after: the shard as it is now.
    """

    built: Built | None
    tail_before: int
    vectors: Backfilled | None
    after: ShardStatus


def build(
    db: Database,
    settings: Settings,
    shard: int,
    *,
    with_vectors: bool = True,
    budget_s: float | None = None,
) -> Rebuilt:
    """Build a shard's file anew, after embedding the texts that have no vector yet.

    An embedder that fails costs the file some vectors and nothing else: those texts are found
    by their words, and are tried again an hour later. No transaction is open while it works.

    Args:
        shard: from 0.
        with_vectors: whether to embed anything.
        budget_s: begin no batch of texts after this many seconds; the rest is embedded by the
            next builds.

    Raises:
        InvalidInput: there is no such shard.
        SearchExtensionUnavailable, IndexUnwritable: the file cannot be built.
    """
    [before] = chosen(db, settings, [shard])
    count = shard_count(db, settings)
    vectors = None
    if with_vectors:
        with db.read() as conn:
            scope_ids = [
                scope_id
                for scope_id in terms.scopes_with_documents(conn)
                if shards.shard_of(scope_id, count) == shard
            ]
        vectors = backfill(db, settings, scope_ids, budget_s=budget_s)
        _Backlog.of(vectors, now_us()).write(db, shard)
    built = index_build.build(db, settings, shard, force=True)
    [after] = chosen(db, settings, [shard])
    return Rebuilt(built, before.tail.rows, vectors, after)


def remove_leftovers(db: Database, settings: Settings) -> int:
    """Remove index files that no shard uses; how many files and folders went.

    Raises:
        IndexUnwritable: a shard's folder cannot be written.
    """
    return leftovers.remove(settings.index_path, shard_count(db, settings))


@dataclass(frozen=True)
class _Backlog:
    """Texts of a shard that a back-fill left, and when the next one should try."""

    profile: str | None = None
    left: int = 0
    at: int | None = None

    @classmethod
    def of(cls, done: Backfilled, now: int) -> Self:
        untried = done.left > done.failed
        again = now if done.error is None else now + _EMBED_AGAIN_US
        return cls(done.profile, done.left, again if untried or done.error else None)

    @classmethod
    def read(cls, conn: sa.Connection, shard: int) -> Self:
        kept = facts.get(conn, _BACKLOG_FACT.format(shard_name(shard)))
        return cls(*json.loads(kept)) if kept else cls()

    def write(self, db: Database, shard: int) -> None:
        with db.write() as conn:
            told = json.dumps([self.profile, self.left, self.at])
            facts.put(conn, _BACKLOG_FACT.format(shard_name(shard)), told)


_NO_BACKLOG = _Backlog()
_BACKLOG_FACT = "unembedded {}"
_EMBED_AGAIN_US = 3_600_000_000


def _status(
    number: int, file: IndexFile, ledger_scopes: int, tail: Tail, backlog: _Backlog
) -> ShardStatus:
    parts = file.covered.values()
    return ShardStatus(
        number,
        file.shard.generation if file.shard else None,
        file.bytes,
        file.built_at,
        file.shard.profile if file.shard else None,
        len({part.scope_id for part in parts}),
        sum(part.docs for part in parts),
        sum(part.vectors for part in parts),
        len({part.scope_id for part in parts if part.hnsw}),
        ledger_scopes,
        tail,
        backlog.left,
        backlog.at,
    )
