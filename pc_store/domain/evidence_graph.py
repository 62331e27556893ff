"""What stands below a piece of evidence: entries, artifacts, and at the bottom sources."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pc_store.domain import strict_json
from pc_store.domain.refs import ArtifactRef, SourceRef


@dataclass(frozen=True, order=True)
class EntryNode:
    """A memory entry's exact version; through which revision it is cited does not matter."""

    memory_id: str
    entry_id: str
    entry_version_id: str


Node = SourceRef | ArtifactRef | EntryNode


def evidence_id(node: Node) -> str:
    """`e_` and the first 32 hex digits of the SHA-256 of the node's canonical JSON."""
    return f"e_{hashlib.sha256(strict_json.canonical(vars(node))).hexdigest()[:32]}"


def sources_below(
    children: Mapping[Node, Iterable[Node]], starts: Iterable[Node]
) -> set[SourceRef]:
    """Every source that is one of the nodes or can be reached from one; cycles end.

    Args:
        children: of each node what it was made from; a node without any may be left out.
    """
    waiting = list(starts)
    seen = set(waiting)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in seen:
                seen.add(child)
                waiting.append(child)
    return {node for node in seen if isinstance(node, SourceRef)}
