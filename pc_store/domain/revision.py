"""A memory revision as it is read, digested and measured: manifest and changes, as JSON."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pc_store.domain import strict_json
from pc_store.domain.entry import Op

MEMORY_SCHEMA = "powercontext.memory.v1"
MANIFEST_FORMAT = "flat-v1"


@dataclass(frozen=True)
class Size:
    """Entries of a revision's manifest by state."""

    active: int
    inactive: int

    @property
    def entries(self) -> int:
        """All of them."""
        return self.active + self.inactive


@dataclass(frozen=True)
class EntryChange:
    """One entry's change: a deactivation and a reactivation go from its version to None."""

    op: Op
    entry_id: str
    from_entry_version_id: str | None
    to_entry_version_id: str | None
    reason: str | None


def manifest_entry(
    entry_id: str, entry_version_id: str, content_hash: str, state: str
) -> dict[str, str]:
    """An entry as a manifest lists it."""
    return {
        "entry_id": entry_id,
        "entry_version_id": entry_version_id,
        "entry_content_hash": content_hash,
        "state": state,
    }


def memory_content(entries: Iterable[Any], changes: Iterable[EntryChange]) -> dict[str, Any]:
    """A revision's content; entries and changes come by entry id."""
    return {
        "schema": MEMORY_SCHEMA,
        "manifest": {"format": MANIFEST_FORMAT, "entries": list(entries)},
        "changes": [vars(change) for change in changes],
    }


def content_digest(content: Any) -> str:
    """`sha256:` and the SHA-256 of the canonical JSON."""
    return f"sha256:{strict_json.digest(content)}"


def entry_bytes(entry_id: str, entry_version_id: str, content_hash: str, state: str) -> bytes:
    """The canonical JSON of `manifest_entry`, for `fragments_digest`."""
    return strict_json.canonical(manifest_entry(entry_id, entry_version_id, content_hash, state))


def fragments_digest(fragments: Iterable[bytes], changes: Sequence[EntryChange]) -> str:
    """`content_digest` of a memory's content whose entries are canonical JSON already."""
    listed = strict_json.canonical([vars(change) for change in changes])
    return (
        "sha256:"
        + hashlib.sha256(
            b'{"changes":%b,"manifest":{"entries":[%b],"format":"%b"},"schema":"%b"}'
            % (listed, b",".join(fragments), MANIFEST_FORMAT.encode(), MEMORY_SCHEMA.encode())
        ).hexdigest()
    )


_EMPTY_BYTES = len(strict_json.canonical(memory_content([], [])))
_ENTRY_BYTES: Mapping[str, int] = {
    state: len(strict_json.canonical(manifest_entry("e" * 40, "v" * 40, "h" * 64, state))) + 1
    for state in ("active", "inactive")
}
"""Ids and hashes have one length, so an entry's bytes depend on its state alone; with a comma."""


def content_bytes(size: Size, changes: Sequence[EntryChange]) -> int:
    """Bytes of the canonical JSON of a revision's content."""
    manifest = (
        size.active * _ENTRY_BYTES["active"]
        + size.inactive * _ENTRY_BYTES["inactive"]
        - bool(size.entries)
    )
    listed = strict_json.canonical([vars(change) for change in changes])
    return _EMPTY_BYTES + manifest + len(listed) - len("[]")
