"""Entries: lists, exact reads, revisions, states, histories, erasure."""

from collections.abc import Collection
from datetime import datetime
from typing import Literal, Self

from pydantic import Field

from pc_store.api.bodies.wire import (
    ArtifactRef,
    Citation,
    EntryText,
    Identifier,
    Kind,
    Limit,
    PageCursor,
    Reason,
    ScopeBody,
    SourceRef,
    State,
    Wire,
    example,
    moment,
)
from pc_store.domain.entry import EntryVersion
from pc_store.services.purge import Tombstone
from pc_store.services.read_memory import Cited, EntryDifference, HistoryItem

EntryExtra = Literal["times", "origin", "reason"]
_CITATION = {
    "memory_ref": {"family": "memory", "artifact_id": "memory", "revision": 1},
    "entry_id": "mem_ent_019e2a5d4c10000007c1f3a9e2b45d60",
    "entry_version_id": "mem_ver_019e2a5d4c1000001b7de2c4f0a89311",
}


class _Content(Wire):
    version: int = Field(ge=1)
    kind: str
    text: str
    state: State
    source_refs: list[SourceRef]
    artifact_refs: list[ArtifactRef]


class MemoryEntry(_Content):
    """An entry with the citation by which it can be read again for ever."""

    citation: Citation
    origin: str | None = Field(default=None, description="Only with `include: [origin]`.")
    reason: str | None = Field(
        default=None, description="Of its last change; only with `include: [reason]`."
    )
    created_at: datetime | None = Field(
        default=None, description="Of this version; only with `include: [times]`."
    )
    updated_at: datetime | None = Field(
        default=None, description="Of its last change; only with `include: [times]`."
    )

    @classmethod
    def of(cls, cited: Cited, include: Collection[EntryExtra] = ()) -> Self:
        """From the service's, with the extras asked for."""
        extras: dict[str, object] = {}
        if "origin" in include:
            extras["origin"] = cited.entry.origin
        if "reason" in include:
            extras["reason"] = cited.reason
        if "times" in include:
            extras["created_at"] = moment(cited.entry.created_at)
            extras["updated_at"] = None if cited.updated_at is None else moment(cited.updated_at)
        return cls.model_validate(
            {"citation": Citation.of(cited.citation)} | content(cited.entry) | extras
        )

    @classmethod
    def of_any(cls, cited: Cited | None) -> "Self | None":
        """From the service's; None stays None."""
        return None if cited is None else cls.of(cited)


def content(entry: EntryVersion) -> dict[str, object]:
    """What an entry says, as fields of a body."""
    return {
        "version": entry.version,
        "kind": entry.kind,
        "text": entry.text,
        "state": entry.state,
        "source_refs": [SourceRef.of(ref) for ref in entry.source_refs],
        "artifact_refs": [ArtifactRef.of(ref) for ref in entry.artifact_refs],
    }


class TagFilter(Wire):
    """Not supported here: tags are not part of this server."""

    tags: list[str] = Field(min_length=1, max_length=16)
    match: Literal["all", "any"] = "all"


class ListEntries(ScopeBody):
    """List entries by creation: all of them, or page by page when `limit` is given."""

    model_config = example({"scope_id": "orders", "limit": 50, "include": ["times"]})

    include_inactive: bool = Field(default=False, description="Retired entries too.")
    tag_filter: TagFilter | None = None
    kind: Kind | None = Field(default=None, description="Only entries of this kind.")
    limit: Limit | None = None
    cursor: PageCursor = None
    include: list[EntryExtra] = Field(default=[], max_length=3)


class EntryList(Wire):
    """Entries by creation. `next_cursor` is there when a page was asked for."""

    memory: ArtifactRef | None
    entries: list[MemoryEntry]
    next_cursor: str | None = None


class GetEntry(ScopeBody):
    """Read exactly what a citation names."""

    model_config = example({"scope_id": "orders", "citation": _CITATION})

    citation: Citation
    include: list[EntryExtra] = Field(default=[], max_length=3)


class ReviseEntry(ScopeBody):
    """Give an entry a new text or kind; the old version stays readable."""

    model_config = example(
        {"scope_id": "orders", "citation": _CITATION, "kind": "decision", "text": "New text."}
    )

    citation: Citation
    kind: Kind
    text: EntryText
    reason: Reason = None


class ChangeState(ScopeBody):
    """Retire an entry, or bring it back."""

    model_config = example({"scope_id": "orders", "citation": _CITATION, "reason": "superseded"})

    citation: Citation
    reason: Reason = None


class GetHistory(ScopeBody):
    """Every change of one entry."""

    model_config = example({"scope_id": "orders", "entry_id": _CITATION["entry_id"]})

    entry_id: Identifier


class HistoryChange(_Content):
    """One change of an entry and the version it left; the text is empty if it was purged."""

    memory_ref: ArtifactRef
    entry_version_id: Identifier
    op: Literal["add", "revise", "deactivate", "reactivate"]
    reason: str | None
    origin: str
    created_at: datetime

    @classmethod
    def of(cls, item: HistoryItem) -> Self:
        """From the service's."""
        return cls.model_validate(
            {
                "memory_ref": ArtifactRef.of(item.memory),
                "entry_version_id": item.entry.entry_version_id,
                "op": item.op,
                "reason": item.reason,
                "origin": item.origin,
                "created_at": moment(item.created_at),
            }
            | content(item.entry)
        )


class History(Wire):
    """The changes of one entry, oldest first."""

    entry_id: Identifier
    changes: list[HistoryChange]


class CompareRevisions(ScopeBody):
    """What two revisions of the memory hold differently."""

    model_config = example({"scope_id": "orders", "before": 1, "after": 2})

    before: int = Field(ge=0, description="0: the empty memory before its first revision.")
    after: int = Field(ge=1)


class EntryAt(_Content):
    """An entry as one revision holds it."""

    entry_version_id: Identifier

    @classmethod
    def of_any(cls, entry: EntryVersion | None) -> "Self | None":
        """From the domain's; None stays None."""
        if entry is None:
            return None
        return cls.model_validate({"entry_version_id": entry.entry_version_id} | content(entry))


class Difference(Wire):
    """An entry at both revisions; null where a revision does not hold it."""

    entry_id: Identifier
    before: EntryAt | None
    after: EntryAt | None

    @classmethod
    def of(cls, difference: EntryDifference) -> Self:
        """From the service's."""
        return cls(
            entry_id=difference.entry_id,
            before=EntryAt.of_any(difference.before),
            after=EntryAt.of_any(difference.after),
        )


class Comparison(Wire):
    """The entries that differ, by entry id."""

    before: int
    after: int
    entries: list[Difference]


class PurgeEntry(ScopeBody):
    """Erase an entry's text everywhere and for good."""

    model_config = example({"scope_id": "orders", "entry_id": _CITATION["entry_id"]})

    entry_id: Identifier
    reason: Reason = None


class PurgedVersion(Wire):
    """What is left of a version."""

    entry_version_id: Identifier
    entry_content_hash: str


class Purged(Wire):
    """The tombstone: ids and hashes, no text."""

    entry_id: Identifier
    purged_at: datetime
    versions: list[PurgedVersion]
    memory: ArtifactRef

    @classmethod
    def of(cls, tombstone: Tombstone) -> Self:
        """From the service's."""
        return cls(
            entry_id=tombstone.entry_id,
            purged_at=moment(tombstone.purged_at),
            versions=[
                PurgedVersion(entry_version_id=version_id, entry_content_hash=content_hash)
                for version_id, content_hash in tombstone.versions
            ],
            memory=ArtifactRef.of(tombstone.memory),
        )
