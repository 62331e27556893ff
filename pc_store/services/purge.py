"""Erase an entry's text everywhere and for good; ids and hashes stay as its tombstone."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pc_store.domain import text as rules
from pc_store.domain.entry import Change
from pc_store.domain.refs import MEMORY_FAMILY, MEMORY_ID, ArtifactRef
from pc_store.errors import EntryPurged
from pc_store.ledger import entries, generations, idempotency, purges, windows
from pc_store.ledger.database import Database
from pc_store.services import index_build
from pc_store.services.commit import commit_changes, lock_memory

GONE = 410
"""The status of answers about what was purged."""


@dataclass(frozen=True)
class Tombstone:
    """What is left of a purged entry: every version id with its content hash, oldest first."""

    entry_id: str
    versions: tuple[tuple[str, str], ...]
    purged_at: int
    memory: ArtifactRef
    """The memory after the purge."""


def purge(
    db: Database,
    scope_id: str,
    entry_id: str,
    *,
    reason: str | None = None,
    now_us: int,
) -> Tombstone:
    """Erase every version of an entry; an active one is retired first, as a new revision.

    A later head is no obstacle: an erasure is not decided anew because something else moved.
    Again changes nothing and answers the same tombstone with the memory as it is.

    Erased are the texts and search terms of all its versions, the reasons of all its changes,
    embeddings of its texts, answers of models that wait and name it or one of its texts, what
    generations propose of either, answers kept for idempotency keys (a replay says
    `entry_purged`). From the search index the text is gone at once, since an entry that is not
    active is masked; its words leave the file of the scope's shard with the next build, which
    this makes due and a server begins at once. Sources are not touched. Extraction never proposes
    an erased text again, since its hash is kept.

    Args:
        reason: of the retirement, if there is one.

    Raises:
        ScopeNotFound, EntryNotFound (never in this memory), InvalidInput (the reason).
    """
    told = rules.reason(reason)
    with db.write() as conn:
        head = lock_memory(conn, scope_id)
        history = entries.history(conn, scope_id, entry_id)
        before = purges.get(conn, scope_id, entry_id)
        remains = purges.remains(conn, scope_id, entry_id)
        if before is None:
            digests = {one.text_digest for one in remains}
            for window_id, answer in windows.drafts_of(conn, scope_id).items():
                if _names(answer, entry_id, digests):
                    windows.drop_draft(conn, window_id)
            generations.purge(conn, scope_id, entry_id, digests)
            purges.erase(conn, scope_id, entry_id, digests)
            idempotency.replace_naming(conn, entry_id, status=GONE, text=_gone(entry_id))
            current = history[-1].version
            if current.state == "active":
                change = Change("deactivate", current, current.kind, "", (), told)
                head = commit_changes(
                    conn, scope_id, [change], head=head, origin="explicit", now_us=now_us
                ).revision
            purges.put(conn, scope_id, entry_id, revision=head, now_us=now_us)
    index_build.want(db, scope_id)
    db.overwrite_deleted()
    return Tombstone(
        entry_id,
        tuple((one.entry_version_id, one.content_hash) for one in remains),
        before.purged_at if before else now_us,
        ArtifactRef(MEMORY_FAMILY, MEMORY_ID, head),
    )


def _names(answer: Mapping[str, Any], entry_id: str, digests: Collection[str]) -> bool:
    """Whether a kept answer proposes something for the entry, or one of its texts."""
    return any(
        one["entry_id"] == entry_id or rules.digest(rules.normalise(one["text"])) in digests
        for one in answer["proposals"]
    )


def _gone(entry_id: str) -> str:
    """The answer that takes the place of those kept for idempotency keys."""
    error = EntryPurged(f"the text of entry {entry_id} was erased", entry_id=entry_id)
    body = {"code": error.code, "message": error.message, "details": dict(error.details)}
    return json.dumps({"error": body})
