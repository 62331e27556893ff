"""Calls about memory: remember, flush, search, entries, revisions.

Every change takes an `idempotency_key`: with one, the call is sent again after a broken
connection, and is done once. `include` asks for fields that are left out otherwise.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pc_store.api.addresses import segment
from pc_store.api.bodies.entry_bodies import (
    Comparison,
    EntryExtra,
    EntryList,
    History,
    MemoryEntry,
    Purged,
)
from pc_store.api.bodies.memory_bodies import (
    BatchMutation,
    Changes,
    Drained,
    Flushed,
    HitExtra,
    MemoryCapacity,
    Mutation,
    Processing,
    SearchAnswer,
    SearchMode,
)
from pc_store.api.bodies.wire import Citation
from pc_store.client.connection import Connection

MODEL_S = 900.0
"""How long a call may take that waits for a model."""

_MEMORY = "/v1/memory"
_ENTRIES = f"{_MEMORY}/entries"


class MemoryCalls(Connection):
    """The calls about memory."""

    def remember_memory(
        self,
        scope_id: str,
        text: str,
        *,
        kind: str,
        reason: str | None = None,
        expected_revision: int | None = None,
        idempotency_key: str | None = None,
    ) -> Mutation:
        """Add an entry; `entry` is None when its text and kind are active already.

        Raises:
            RevisionConflict: the memory is not at the expected revision.
        """
        return self._ask(
            Mutation,
            "POST",
            f"{_MEMORY}/remember",
            json={
                "scope_id": scope_id,
                "kind": kind,
                "text": text,
                "reason": reason,
                "expected_revision": expected_revision,
            },
            idempotency_key=idempotency_key,
        )

    def remember_memory_batch(
        self,
        scope_id: str,
        entries: Sequence[Mapping[str, Any]],
        *,
        expected_revision: int | None = None,
        idempotency_key: str | None = None,
    ) -> BatchMutation:
        """Add 1 to 100 entries, each {kind, text, reason?}, all or none, in one revision."""
        return self._ask(
            BatchMutation,
            "POST",
            f"{_MEMORY}/remember-batch",
            json={
                "scope_id": scope_id,
                "entries": [dict(entry) for entry in entries],
                "expected_revision": expected_revision,
            },
            idempotency_key=idempotency_key,
        )

    def flush_memory(self, scope_id: str, *, idempotency_key: str | None = None) -> Flushed:
        """Process the next window of the scope's log."""
        return self._ask(
            Flushed,
            "POST",
            f"{_MEMORY}/flush",
            json={"scope_id": scope_id},
            idempotency_key=idempotency_key,
            timeout_s=MODEL_S,
        )

    def drain_memory(
        self, scope_id: str, *, budget_s: float = 30.0, idempotency_key: str | None = None
    ) -> Drained:
        """Process windows up to the log's present end; begin none after `budget_s` seconds."""
        return self._ask(
            Drained,
            "POST",
            f"{_MEMORY}/drain",
            json={"scope_id": scope_id, "budget_s": float(budget_s)},
            idempotency_key=idempotency_key,
            timeout_s=budget_s + MODEL_S,
        )

    def get_processing_status(self, scope_id: str) -> Processing:
        """How far the extraction is, and what keeps it."""
        path = f"/v1/scopes/{segment(scope_id)}/processing"
        return self._ask(Processing, "GET", path, repeats=True)

    def search_memory(
        self,
        scope_id: str,
        query: str,
        *,
        limit: int | None = None,
        mode: SearchMode | None = None,
        include: Sequence[HitExtra] = (),
    ) -> SearchAnswer:
        """Find active entries, best first."""
        return self._ask(
            SearchAnswer,
            "POST",
            f"{_MEMORY}/search",
            json={
                "scope_id": scope_id,
                "query": query,
                "limit": limit,
                "mode": mode,
                "include": list(include) or None,
            },
            repeats=True,
        )

    def list_memory_changes(self, scope_id: str, *, since_revision: int | None = None) -> Changes:
        """What the revisions after one changed; None: what the newest did."""
        return self._ask(
            Changes,
            "POST",
            f"{_MEMORY}/changes",
            json={"scope_id": scope_id, "since_revision": since_revision},
            repeats=True,
        )

    def get_memory_capacity(self, scope_id: str) -> MemoryCapacity:
        """The memory's size against its budget. Raises ArtifactNotFound: there is none yet."""
        return self._ask(
            MemoryCapacity,
            "POST",
            f"{_MEMORY}/capacity",
            json={"scope_id": scope_id},
            repeats=True,
        )

    def list_memory_entries(
        self,
        scope_id: str,
        *,
        include_inactive: bool = False,
        kind: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        include: Sequence[EntryExtra] = (),
    ) -> EntryList:
        """Entries by creation: all of them, or pages when `limit` is given."""
        return self._ask(
            EntryList,
            "POST",
            f"{_ENTRIES}/list",
            json={
                "scope_id": scope_id,
                "include_inactive": include_inactive,
                "kind": kind,
                "limit": limit,
                "cursor": cursor,
                "include": list(include) or None,
            },
            repeats=True,
        )

    def get_memory_entry(
        self, scope_id: str, citation: Citation, *, include: Sequence[EntryExtra] = ()
    ) -> MemoryEntry:
        """Exactly what a citation names.

        Raises:
            EntryNotFound, ArtifactNotFound: it names nothing.
            EntryPurged: its text was erased.
        """
        return self._ask(
            MemoryEntry,
            "POST",
            f"{_ENTRIES}/get",
            json={
                "scope_id": scope_id,
                "citation": citation.model_dump(),
                "include": list(include) or None,
            },
            repeats=True,
        )

    def revise_memory_entry(
        self,
        scope_id: str,
        citation: Citation,
        text: str,
        *,
        kind: str,
        reason: str | None = None,
        idempotency_key: str | None = None,
    ) -> Mutation:
        """Give the cited entry a new text or kind.

        Raises:
            RevisionConflict: the memory moved since the citation; `details` has a fresh one.
            EntryInactive: the entry is retired.
        """
        return self._ask(
            Mutation,
            "POST",
            f"{_ENTRIES}/revise",
            json={
                "scope_id": scope_id,
                "citation": citation.model_dump(),
                "kind": kind,
                "text": text,
                "reason": reason,
            },
            idempotency_key=idempotency_key,
        )

    def retire_memory_entry(
        self,
        scope_id: str,
        citation: Citation,
        *,
        reason: str | None = None,
        idempotency_key: str | None = None,
    ) -> Mutation:
        """Take the cited entry out of recall; its history stays. Raises RevisionConflict."""
        return self._change_state("retire", scope_id, citation, reason, idempotency_key)

    def reactivate_memory_entry(
        self,
        scope_id: str,
        citation: Citation,
        *,
        reason: str | None = None,
        idempotency_key: str | None = None,
    ) -> Mutation:
        """Bring a retired entry back as it was. Raises RevisionConflict."""
        return self._change_state("reactivate", scope_id, citation, reason, idempotency_key)

    def _change_state(
        self,
        verb: str,
        scope_id: str,
        citation: Citation,
        reason: str | None,
        idempotency_key: str | None,
    ) -> Mutation:
        return self._ask(
            Mutation,
            "POST",
            f"{_ENTRIES}/{verb}",
            json={"scope_id": scope_id, "citation": citation.model_dump(), "reason": reason},
            idempotency_key=idempotency_key,
        )

    def list_memory_entry_history(self, scope_id: str, entry_id: str) -> History:
        """Every change of an entry, oldest first."""
        return self._ask(
            History,
            "POST",
            f"{_ENTRIES}/history",
            json={"scope_id": scope_id, "entry_id": entry_id},
            repeats=True,
        )

    def compare_memory_revisions(self, scope_id: str, before: int, after: int) -> Comparison:
        """The entries that two revisions hold differently; 0 is the empty memory."""
        return self._ask(
            Comparison,
            "POST",
            f"{_MEMORY}/revisions/diff",
            json={"scope_id": scope_id, "before": before, "after": after},
            repeats=True,
        )

    def purge_memory_entry(
        self,
        scope_id: str,
        entry_id: str,
        *,
        reason: str | None = None,
        idempotency_key: str | None = None,
    ) -> Purged:
        """Erase an entry's text everywhere and for good; a second time changes nothing."""
        return self._ask(
            Purged,
            "POST",
            f"{_ENTRIES}/purge",
            json={"scope_id": scope_id, "entry_id": entry_id, "reason": reason},
            idempotency_key=idempotency_key,
            repeats=True,
        )
