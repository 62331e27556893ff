"""How the evidence of a dream is read: level by level, within limits, drawn depth first."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.dream_graph import (
    NOTHING,
    Graph,
    GraphNode,
    Material,
    children,
    entry_node,
    too_much,
)
from pc_store.domain.evidence_graph import EntryNode, Node, evidence_id
from pc_store.domain.refs import ArtifactRef, Citation, SourceRef


@dataclass(frozen=True)
class Limits:
    """How large a graph may be; depth counts the steps from what is selected."""

    nodes: int
    edges: int
    depth: int


class Walk:
    """Reads a graph level by level; `level` is what has not been looked up yet.

    An entry version that is reached through several revisions is one node, and each of its
    citations is looked up.
    """

    def __init__(self, selected: EvidenceRefs, most: Limits) -> None:
        self.selected = selected
        self.level = NOTHING
        self._limits = most
        self._depth = 0
        self._found: dict[Node, Material] = {}
        self._seen: set[Node | Citation] = set()
        self._citations: dict[EntryNode, list[Citation]] = {}
        self._edges = 0
        self._take([selected])

    def go_down(self, found: Mapping[Node, Material]) -> None:
        """Take what was looked up of the level; `level` is the next one then.

        Raises:
            EvidenceLimitExceeded: the graph is larger than it may be.
        """
        fresh = {node: one for node, one in found.items() if node not in self._found}
        self._found |= fresh
        self._edges += sum(len(children(one.below)) for one in fresh.values())
        if self._edges > self._limits.edges:
            raise too_much("edges", self._limits.edges, self._edges)
        self._depth += 1
        self._take([one.below for one in fresh.values()])
        if self.level and self._depth > self._limits.depth:
            raise too_much("steps of depth", self._limits.depth, self._depth)

    def graph(self) -> "Graph":
        """The graph, once `level` is empty."""
        placed: dict[Node, GraphNode] = {}
        waiting = children(self.selected)[::-1]
        while waiting:
            node = waiting.pop()
            if node not in placed:
                material = self._found[node]
                named = self._citations.get(node, []) if isinstance(node, EntryNode) else []
                placed[node] = GraphNode(node, evidence_id(node), material, tuple(named))
                waiting += children(material.below)[::-1]
        return Graph(self.selected, tuple(placed.values()))

    def _take(self, levels: Iterable[EvidenceRefs]) -> None:
        """Make what is new among some references the next level."""
        sources: list[SourceRef] = []
        artifacts: list[ArtifactRef] = []
        citations: list[Citation] = []
        for refs in levels:
            sources += [one for one in refs.sources if self._is_new(one)]
            artifacts += [one for one in refs.artifacts if self._is_new(one)]
            for one in refs.citations:
                if self._is_new(one):
                    citations.append(one)
                    self._is_new(node := entry_node(one))
                    self._citations.setdefault(node, []).append(one)
        nodes = sum(not isinstance(one, Citation) for one in self._seen)
        if nodes > self._limits.nodes:
            raise too_much("nodes", self._limits.nodes, nodes)
        self.level = EvidenceRefs(tuple(sources), tuple(artifacts), tuple(citations))

    def _is_new(self, one: Node | Citation) -> bool:
        if one in self._seen:
            return False
        self._seen.add(one)
        return True
