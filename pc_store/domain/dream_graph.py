"""The evidence of a dream as a graph: what was selected, and what that was made from.

Its manifest holds digests and no text, and from it follows which evidence a proposal may cite.
How it is read, and how large it may be, is `dream_walk`.
"""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from pc_store import limits
from pc_store.domain import strict_json
from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.evidence_graph import EntryNode, Node, evidence_id
from pc_store.domain.refs import ArtifactRef, Citation, SourceRef
from pc_store.errors import EvidenceLimitExceeded, InvalidProposal

TRANSFORM_VERSION = "pc.dream.evidence.v1"
Kind = Literal["source", "experience", "memory", "unresolved"]
Role = Literal["root", "derived", "lineage_only", "unresolved"]
NOTHING = EvidenceRefs()


@dataclass(frozen=True)
class Material:
    """What the ledger says of one node.

    Attributes:
        text: what a model is shown of it; None: nothing.
        below: what it was made from.
        historical: it is no longer what is current.
        current_entry_version_id: of a memory entry, its version now.
        cues: of a task outcome, the normalised texts of the failures it verifies.
    """

    kind: Kind
    role: Role
    text: str | None = None
    below: EvidenceRefs = NOTHING
    historical: bool = False
    current_entry_version_id: str | None = None
    cues: tuple[str, ...] = ()


@dataclass(frozen=True)
class GraphNode:
    """A node with its place in the graph's order, and the citations that name it."""

    node: Node
    evidence_id: str
    material: Material
    citations: tuple[Citation, ...] = ()

    @property
    def digest(self) -> str:
        """`sha256:` and the SHA-256 of its text, or of its reference if it shows none."""
        shown = self.material.text
        raw = strict_json.canonical(vars(self.node)) if shown is None else shown.encode()
        return f"sha256:{hashlib.sha256(raw).hexdigest()}"


@dataclass(frozen=True)
class RootGroup:
    """Root sources that are one observation as far as can be told: their texts are equal."""

    group_id: str
    sources: tuple[SourceRef, ...]


@dataclass(frozen=True)
class ShownItem:
    """A node as a model is shown it.

    `cues`, which is not sent, are those of all the root sources below it.
    """

    evidence_id: str
    kind: Kind
    text: str
    historical: bool
    root_group_ids: tuple[str, ...]
    cues: tuple[str, ...] = ()


@dataclass(frozen=True)
class Projection:
    """Everything of a graph that a model is shown."""

    items: tuple[ShownItem, ...]
    root_groups: tuple[RootGroup, ...]
    incomplete: bool

    def to_json(self) -> dict[str, Any]:
        """As it is sent."""
        return {
            "evidence": [
                {
                    "evidence_id": one.evidence_id,
                    "kind": one.kind,
                    "text": one.text,
                    "historical": one.historical,
                    "root_group_ids": list(one.root_group_ids),
                }
                for one in self.items
            ],
            "root_groups": [_group_json(group) for group in self.root_groups],
            "incomplete": self.incomplete,
        }

    @cached_property
    def text(self) -> str:
        """The JSON text whose size is limited."""
        return strict_json.dumps(self.to_json())


@dataclass(frozen=True)
class Graph:
    """The evidence of a dream: its nodes in depth-first order, what was selected first."""

    selected: EvidenceRefs
    nodes: tuple[GraphNode, ...]
    _below: dict[Node, frozenset[Node]] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def by_id(self) -> dict[str, GraphNode]:
        """The nodes by evidence id."""
        return {one.evidence_id: one for one in self.nodes}

    @cached_property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """(what was made, what of), each once."""
        return tuple(
            (one.evidence_id, evidence_id(child))
            for one in self.nodes
            for child in children(one.material.below)
        )

    @cached_property
    def roots(self) -> dict[Node, GraphNode]:
        """The sources that may be cited."""
        return {one.node: one for one in self.nodes if one.material.role == "root"}

    @cached_property
    def root_groups(self) -> tuple[RootGroup, ...]:
        """The root sources, those with equal texts together, in the order of the first."""
        alike: dict[str, list[SourceRef]] = {}
        for one in self.roots.values():
            assert isinstance(one.node, SourceRef)
            alike.setdefault(one.digest, []).append(one.node)
        groups = []
        for refs in alike.values():
            name = strict_json.digest([dict(vars(ref)) for ref in sorted(refs)])[:24]
            groups.append(RootGroup(f"root_{name}", tuple(refs)))
        return tuple(groups)

    @property
    def incomplete(self) -> bool:
        """Whether something it rests on cannot be resolved."""
        return any(one.material.role == "unresolved" for one in self.nodes)

    def below(self, node: Node) -> frozenset[Node]:
        """A node and everything that can be reached from it."""
        if node not in self._below:
            made_of = {one.node: children(one.material.below) for one in self.nodes}
            waiting, seen = [node], {node}
            while waiting:
                new = [one for one in made_of.get(waiting.pop(), ()) if one not in seen]
                seen.update(new)
                waiting += new
            self._below[node] = frozenset(seen)
        return self._below[node]

    @cached_property
    def projection(self) -> Projection:
        """What a model is shown: every node with a text."""
        group_of = {ref: group.group_id for group in self.root_groups for ref in group.sources}
        items = []
        for one in self.nodes:
            if one.material.text is None:
                continue
            below = self.below(one.node)
            roots = [root for node, root in self.roots.items() if node in below]
            groups = dict.fromkeys(
                group_of[root.node] for root in roots if isinstance(root.node, SourceRef)
            )
            cues = dict.fromkeys(cue for root in roots for cue in root.material.cues)
            items.append(
                ShownItem(
                    one.evidence_id,
                    one.material.kind,
                    one.material.text,
                    one.material.historical,
                    tuple(groups),
                    tuple(cues),
                )
            )
        return Projection(tuple(items), self.root_groups, self.incomplete)

    def manifest(self) -> dict[str, Any]:
        """The graph without any text: references, digests, edges, and the projection's digest."""
        shown = self.projection.text.encode()
        return {
            "transform_version": TRANSFORM_VERSION,
            "artifacts": [dict(vars(ref)) for ref in self.selected.artifacts],
            "memory_citations": [citation_json(one) for one in self.selected.citations],
            "sources": [dict(vars(ref)) for ref in self.selected.sources],
            "nodes": [_node_json(one) for one in self.nodes],
            "edges": [{"derived_id": one, "upstream_id": other} for one, other in self.edges],
            "root_groups": [
                _group_json(group) | {"independence": "unknown"} for group in self.root_groups
            ],
            "projection_digest": f"sha256:{hashlib.sha256(shown).hexdigest()}",
            "projection_bytes": len(shown),
            "incomplete": self.incomplete,
        }

    def marked_as(self, manifest: Mapping[str, Any]) -> "Graph":
        """The same with the historical marks of an earlier manifest, for a later attempt."""
        marks = {one["evidence_id"]: one for one in manifest["nodes"]}
        nodes = []
        for one in self.nodes:
            mark = marks.get(one.evidence_id)
            if mark is not None:
                material = replace(
                    one.material,
                    historical=mark["historical"],
                    current_entry_version_id=mark["current_entry_version_id"],
                )
                one = replace(one, material=material)
            nodes.append(one)
        return Graph(self.selected, tuple(nodes))

    def cited(
        self, evidence_ids: Collection[str], target: ArtifactRef | None
    ) -> EvidenceRefs | None:
        """What a candidate cites that rests on some of the evidence shown.

        Besides what is used, what was selected and leads to it, so that its path is kept; all
        root sources below these; and the target. What was selected and not used is left out.

        Returns:
            None if it rests on memory, and no source that may be cited supports what is used.

        Raises:
            InvalidProposal: an id is none of those shown.
            EvidenceLimitExceeded: it is over 32 references.
        """
        used = [self._usable(one) for one in evidence_ids]
        chosen = dict.fromkeys(used)
        for ref in children(self.selected):
            if not isinstance(ref, SourceRef) and self.below(ref) & set(used):
                chosen[ref] = None
        reached = frozenset[Node]().union(*(self.below(node) for node in chosen))
        supporting = frozenset[Node]().union(*(self.below(node) for node in used))
        if any(isinstance(node, EntryNode) for node in reached) and not (
            supporting & self.roots.keys()
        ):
            return None
        placed = [one for one in self.nodes if one.node in chosen]
        artifacts = [one.node for one in placed if isinstance(one.node, ArtifactRef)]
        refs = EvidenceRefs(
            tuple(n for n in self.roots if n in reached and isinstance(n, SourceRef)),
            tuple(artifacts + ([target] if target else [])),
            tuple(cite for one in placed for cite in one.citations),
        )
        if len(refs) > limits.EVIDENCE_MAX:
            raise too_much("references", limits.EVIDENCE_MAX, len(refs))
        return refs

    def _usable(self, evidence: str) -> Node:
        found = self.by_id.get(evidence)
        if found is None or found.material.text is None:
            raise InvalidProposal("evidence_ids", "holds an id that was not shown")
        return found.node


def entry_node(citation: Citation) -> EntryNode:
    """The graph's node of a cited entry version."""
    return EntryNode(citation.memory.artifact_id, citation.entry_id, citation.entry_version_id)


def too_much(of: str, limit: int, observed: int) -> EvidenceLimitExceeded:
    """The refusal of evidence that is more than a dream may use."""
    reason = f"amounts to {observed} {of}, the most is {limit}"
    return EvidenceLimitExceeded("evidence", reason, limit=limit, observed=observed)


def citation_json(citation: Citation) -> dict[str, Any]:
    """A citation in the words of the wire."""
    return {
        "memory_ref": dict(vars(citation.memory)),
        "entry_id": citation.entry_id,
        "entry_version_id": citation.entry_version_id,
    }


def children(below: EvidenceRefs) -> list[Node]:
    """The nodes that references name, each once, in their order."""
    found: list[Node] = [*below.sources, *below.artifacts, *map(entry_node, below.citations)]
    return list(dict.fromkeys(found))


def _group_json(group: RootGroup) -> dict[str, Any]:
    return {"group_id": group.group_id, "sources": [dict(vars(ref)) for ref in group.sources]}


def _node_json(one: GraphNode) -> dict[str, Any]:
    node, material = one.node, one.material
    return {
        "evidence_id": one.evidence_id,
        "kind": material.kind,
        "digest": one.digest,
        "source": dict(vars(node)) if isinstance(node, SourceRef) else None,
        "artifact": dict(vars(node)) if isinstance(node, ArtifactRef) else None,
        "memory_citations": [citation_json(cite) for cite in one.citations],
        "role": material.role,
        "historical": material.historical,
        "current_entry_version_id": material.current_entry_version_id,
    }
