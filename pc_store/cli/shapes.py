"""The JSON shapes of what the command prints: the wire names of the published contract."""

from typing import Any

from pc_store.domain.entry import EntryVersion
from pc_store.domain.refs import ArtifactRef, Citation, SourceRef
from pc_store.domain.scope import Scope
from pc_store.domain.source import Source
from pc_store.domain.window import WindowKey
from pc_store.ledger.windows import WindowRow
from pc_store.services.administer import ScopeStatus
from pc_store.services.extract import Processed
from pc_store.services.remember import Cited, Written


def artifact_ref(ref: ArtifactRef | None) -> dict[str, Any] | None:
    """{family, artifact_id, revision}, or null."""
    return vars(ref) if ref is not None else None


def source_ref(ref: SourceRef) -> dict[str, str]:
    """{name, source_id}; the contract calls the type `name` here."""
    return {"name": ref.source_type, "source_id": ref.source_id}


def citation(cited: Citation) -> dict[str, Any]:
    """{memory_ref, entry_id, entry_version_id}."""
    return {
        "memory_ref": artifact_ref(cited.memory),
        "entry_id": cited.entry_id,
        "entry_version_id": cited.entry_version_id,
    }


def entry(cited: Cited) -> dict[str, Any]:
    """An entry with its citation."""
    return {"citation": citation(cited.citation), **version(cited.entry)}


def version(item: EntryVersion) -> dict[str, Any]:
    """One version of an entry."""
    return {
        "version": item.version,
        "kind": item.kind,
        "text": item.text,
        "state": item.state,
        "origin": item.origin,
        "created_in_revision": item.created_in_revision,
        "source_refs": [source_ref(ref) for ref in item.source_refs],
        "artifact_refs": [artifact_ref(ref) for ref in item.artifact_refs],
    }


def written(result: Written) -> dict[str, Any]:
    """{memory, entry}."""
    return {
        "memory": artifact_ref(result.memory),
        "entry": entry(result.entry) if result.entry is not None else None,
    }


def scope(item: Scope) -> dict[str, Any]:
    """A scope."""
    return {
        "scope_id": item.scope_id,
        "key": item.key,
        "title": item.title,
        "summary": item.summary,
        "version": item.version,
    }


def scope_status(status: ScopeStatus) -> dict[str, Any]:
    """A scope and where it stands."""
    window = status.open_window
    return {
        **scope(status.scope),
        "high_watermark": status.high_watermark,
        "cursors": status.cursors,
        "memory_lag": status.memory_lag,
        "memory_revision": status.memory_revision,
        "active_entries": status.active_entries,
        "inactive_entries": status.inactive_entries,
        "quarantined": status.quarantined,
        "open_window": None
        if window is None
        else {
            "after": window.after,
            "through": window.through,
            "status": window.status,
            "attempt": window.attempt,
            "next_attempt_at": window.next_attempt_at or None,
            "error": window.error,
        },
    }


def source(item: Source) -> dict[str, Any]:
    """A source as stored."""
    return {
        "position": item.position,
        "source_type": item.source_type,
        "source_id": item.source_id,
        "content": item.content,
        "metadata": dict(item.metadata),
        "digest": item.digest,
    }


def window(key: WindowKey, row: WindowRow) -> dict[str, Any]:
    """A window and what became of it."""
    return {"window": str(key), **vars(row)}


def processed(result: Processed) -> dict[str, Any]:
    """The contract's answer to a flush."""
    row = result.window
    return {
        "status": result.status,
        "previous_cursor": result.previous_cursor,
        "current_cursor": result.current_cursor,
        "high_watermark": result.high_watermark,
        "processed_source_count": result.processed_source_count,
        "memory": artifact_ref(result.memory),
        "provider": row.provider if row is not None else None,
        "counts": row.counts if row is not None else None,
    }
