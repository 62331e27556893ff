"""Memory as a whole: remember, flush, drain, search, changes, capacity, processing."""

from datetime import datetime
from typing import Any, Literal, Self

from pydantic import Field

from pc_store import limits
from pc_store.api.bodies.entry_bodies import MemoryEntry, TagFilter
from pc_store.api.bodies.wire import (
    ArtifactRef,
    Citation,
    EntryText,
    Identifier,
    Kind,
    Reason,
    ScopeBody,
    SourceRef,
    Wire,
    example,
    moment,
)
from pc_store.services.diagnose import ProcessingStatus
from pc_store.services.extract import Processed
from pc_store.services.read_memory import Capacity, RevisionChanges


class Remember(ScopeBody):
    """Add an entry by hand."""

    model_config = example(
        {
            "scope_id": "orders",
            "kind": "decision",
            "text": "amount: 订单金额以整数分存储；100 表示 1 元。",
        }
    )

    kind: Kind
    text: EntryText
    reason: Reason = None
    expected_revision: int | None = Field(
        default=None, ge=1, description="Refuse with 409 unless the memory is at this revision."
    )


class Mutation(Wire):
    """The memory afterwards, and the entry; no entry when nothing was new."""

    memory: ArtifactRef | None
    entry: MemoryEntry | None


class NewEntry(Wire):
    """One entry of a batch."""

    kind: Kind
    text: EntryText
    reason: Reason = None


class RememberBatch(ScopeBody):
    """Add entries by hand, all in one revision."""

    model_config = example(
        {
            "scope_id": "orders",
            "entries": [
                {"kind": "fact", "text": "The service is written in Go."},
                {"kind": "constraint", "text": "Amounts are integer cents."},
            ],
        }
    )

    entries: list[NewEntry] = Field(min_length=1, max_length=limits.PAGE_MAX)
    expected_revision: int | None = Field(default=None, ge=1)


class BatchMutation(Wire):
    """The memory afterwards; for each entry, in order, what was added, null when not new."""

    memory: ArtifactRef | None
    entries: list[MemoryEntry | None]


class Flush(ScopeBody):
    """Process the next window, now."""

    model_config = example({"scope_id": "orders"})


class Flushed(Wire):
    """What became of the window."""

    status: Literal["idle", "processed"]
    previous_cursor: int = Field(ge=0)
    current_cursor: int = Field(ge=0)
    high_watermark: int = Field(ge=0)
    processed_source_count: int = Field(ge=0)
    memory: ArtifactRef | None
    held_count: int = Field(ge=0)
    hold_codes: list[str]

    @classmethod
    def of(cls, result: Processed) -> Self:
        """From the service's."""
        return cls(
            status="processed" if result.status == "processed" else "idle",
            previous_cursor=result.previous_cursor,
            current_cursor=result.current_cursor,
            high_watermark=result.high_watermark,
            processed_source_count=result.processed_source_count,
            memory=ArtifactRef.of_any(result.memory),
            held_count=0,
            hold_codes=[],
        )


class Drain(ScopeBody):
    """Process windows until the log's present end."""

    model_config = example({"scope_id": "orders", "budget_s": 30.0})

    budget_s: float = Field(
        default=30.0, gt=0, le=600, description="Begin no window after this many seconds."
    )


class Drained(Wire):
    """What became of the windows. `remaining` positions were not reached in time."""

    status: Literal["idle", "processed"]
    previous_cursor: int = Field(ge=0)
    current_cursor: int = Field(ge=0)
    high_watermark: int = Field(ge=0, description="The log's end when the drain began.")
    processed_source_count: int = Field(ge=0)
    windows: int = Field(ge=0)
    remaining: int = Field(ge=0)
    memory: ArtifactRef | None


SearchMode = Literal["auto", "fts", "vector", "hybrid"]
HitExtra = Literal["kind", "version", "sources", "matched_terms", "channels", "coverage"]


class Search(ScopeBody):
    """Find active entries."""

    model_config = example(
        {"scope_id": "orders", "query": "amount 字段应该怎么处理？", "include": ["kind"]}
    )

    query: str = Field(min_length=1, max_length=limits.QUERY_MAX_CHARS)
    limit: int = Field(default=limits.SEARCH_LIMIT_DEFAULT, ge=1, le=limits.SEARCH_LIMIT_MAX)
    mode: SearchMode = "auto"
    tag_filter: TagFilter | None = None
    include: list[HitExtra] = Field(
        default=[], max_length=6, description="What to add to each hit, or to the answer."
    )


class ChannelScore(Wire):
    """How one channel ranked a hit, in its own unit."""

    channel: Literal["fts", "vector"]
    rank: int = Field(ge=1)
    score: float


class SearchHit(Wire):
    """An entry found. `score` orders the hits of one answer and means nothing beyond it."""

    citation: Citation
    text: str
    score: float = Field(ge=0, le=1)
    matched_by: list[Literal["fts", "vector"]]
    kind: str | None = None
    version: int | None = None
    source_refs: list[SourceRef] | None = None
    matched_terms: list[str] | None = None
    channels: list[ChannelScore] | None = None


class Coverage(Wire):
    """How much of the memory each channel could search."""

    active_entries: int = Field(ge=0)
    fts: int = Field(ge=0)
    vector: int = Field(ge=0)


class SearchAnswer(Wire):
    """Hits, best first; `memory` and `mode` are null before the first entry."""

    memory: ArtifactRef | None
    mode: Literal["fts", "vector", "hybrid"] | None
    hits: list[SearchHit]
    coverage: Coverage | None = None


class ListChanges(ScopeBody):
    """What revisions of the memory changed."""

    model_config = example({"scope_id": "orders", "since_revision": 0})

    since_revision: int | None = Field(
        default=None, ge=0, description="After this revision; of the newest alone unless given."
    )


class EntryChange(Wire):
    """One entry's change."""

    op: Literal["add", "revise", "deactivate", "reactivate"]
    entry_id: Identifier
    from_entry_version_id: Identifier | None
    to_entry_version_id: Identifier | None
    reason: str | None


class MemoryRevisionChanges(Wire):
    """What one revision changed."""

    memory_ref: ArtifactRef
    changes: list[EntryChange]

    @classmethod
    def of(cls, revision: RevisionChanges) -> Self:
        """From the service's."""
        return cls(
            memory_ref=ArtifactRef.of(revision.memory),
            changes=[
                EntryChange(
                    op=change.op,
                    entry_id=change.entry_id,
                    from_entry_version_id=change.from_entry_version_id,
                    to_entry_version_id=change.to_entry_version_id,
                    reason=change.reason,
                )
                for change in revision.changes
            ],
        )


class Changes(Wire):
    """Changes by revision, oldest first."""

    memory: ArtifactRef | None
    revisions: list[MemoryRevisionChanges]


class GetCapacity(ScopeBody):
    """How large the memory is."""

    model_config = example({"scope_id": "orders"})


class CapacityBudget(Wire):
    """The most a memory may hold."""

    max_active_entries: int = Field(ge=1)
    max_manifest_entries: int = Field(ge=1)
    max_manifest_bytes: int = Field(ge=1024)


Dimension = Literal["active_entries", "manifest_entries", "manifest_bytes"]


class MemoryCapacity(Wire):
    """A memory's size against its budget."""

    memory_ref: ArtifactRef
    active_entry_count: int = Field(ge=0)
    manifest_entry_count: int = Field(ge=0)
    manifest_bytes: int = Field(ge=0)
    compactable_entry_count: int = Field(ge=0)
    budget: CapacityBudget
    exceeded: list[Dimension]

    @classmethod
    def of(cls, capacity: Capacity) -> Self:
        """From the service's."""
        exceeded: Any = list(capacity.exceeded)
        return cls(
            memory_ref=ArtifactRef.of(capacity.memory),
            active_entry_count=capacity.active_entry_count,
            manifest_entry_count=capacity.manifest_entry_count,
            manifest_bytes=capacity.manifest_bytes,
            compactable_entry_count=capacity.compactable_entry_count,
            budget=CapacityBudget(
                max_active_entries=capacity.budget.max_active_entries,
                max_manifest_entries=capacity.budget.max_manifest_entries,
                max_manifest_bytes=capacity.budget.max_manifest_bytes,
            ),
            exceeded=exceeded,
        )


class Processing(Wire):
    """How far the extraction is with a scope's log, and what keeps it."""

    scope_id: str
    consumer: str
    cursor: int = Field(ge=0)
    high_watermark: int = Field(ge=0)
    pending: int = Field(ge=0)
    oldest_pending_at: datetime | None
    window_status: str | None
    attempt: int = Field(ge=0)
    next_attempt_at: datetime | None
    last_error: dict[str, Any] | None
    quarantined: int = Field(ge=0)
    last_processed_at: datetime | None

    @classmethod
    def of(cls, status: ProcessingStatus) -> Self:
        """From the service's."""

        def at(time_us: int | None) -> datetime | None:
            return None if time_us is None else moment(time_us)

        return cls(
            scope_id=status.scope_id,
            consumer=status.consumer,
            cursor=status.cursor,
            high_watermark=status.high_watermark,
            pending=status.pending,
            oldest_pending_at=at(status.oldest_pending_at),
            window_status=status.window_status,
            attempt=status.attempt,
            next_attempt_at=at(status.next_attempt_at),
            last_error=dict(status.last_error) if status.last_error is not None else None,
            quarantined=status.quarantined,
            last_processed_at=at(status.last_processed_at),
        )
