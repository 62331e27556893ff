"""Names of things: ids, references and citations. Positions and revisions count from 1."""

import secrets
from dataclasses import dataclass

MEMORY_FAMILY = "memory"
MEMORY_ID = "memory"
"""Every scope's own memory has this artifact id."""
PROMPT_FAMILY = "prompt"
EXPERIENCE_FAMILY = "experience"


@dataclass(frozen=True, order=True)
class SourceRef:
    """A source within its scope."""

    source_type: str
    source_id: str


@dataclass(frozen=True, order=True)
class ArtifactRef:
    """One exact revision of an artifact within its scope."""

    family: str
    artifact_id: str
    revision: int


@dataclass(frozen=True)
class Citation:
    """One exact entry version, as it stood in one exact revision of a memory."""

    memory: ArtifactRef
    entry_id: str
    entry_version_id: str


def new_id(prefix: str, *, at_us: int, ordinal: int = 0) -> str:
    """Make an id: the prefix and 32 hex digits that sort by time, then by ordinal.

    Args:
        prefix: such as `mem_ent_`.
        at_us: microseconds since the epoch.
        ordinal: 0 to 65,535, keeps the order of ids made in one go.
    """
    return f"{prefix}{at_us:014x}{ordinal:04x}{secrets.token_hex(7)}"
