"""Follow evidence to its end: does all that is cited exist, and does all below it still stand."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from pc_store import limits
from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.entry import EntryVersion
from pc_store.domain.evidence_graph import EntryNode, Node, evidence_id, sources_below
from pc_store.domain.outcome import ArtifactEvidence, Evidence, SourceEvidence
from pc_store.domain.refs import MEMORY_FAMILY, MEMORY_ID, PROMPT_FAMILY, ArtifactRef, Citation
from pc_store.errors import (
    CitedEntryInactive,
    EvidenceLimitExceeded,
    EvidenceUnavailable,
    InvalidCitation,
    InvalidEvidence,
    InvalidInput,
    SourceNotEligible,
)
from pc_store.ledger import artifacts, entries, manifests, sources


def settle(conn: sa.Connection, scope_id: str, evidence: EvidenceRefs) -> EvidenceRefs:
    """Check evidence to its end, and add the root sources of the entries it cites directly.

    The memory stays locked until the transaction ends if any entry is reached, so that none
    can be retired before what relies on it is written.

    Returns:
        The same with the root sources after the given ones, by evidence id.

    Raises:
        InvalidInput: it is empty, over 32 references, or names what does not exist.
        SourceNotEligible, InvalidCitation, CitedEntryInactive, EvidenceUnavailable: see there.
        EvidenceLimitExceeded: with the root sources it is over 32.
    """
    evidence.refuse_wrong_size()
    _refuse_absent_sources(conn, scope_id, evidence)
    absent = set(evidence.artifacts) - artifacts.existing(conn, scope_id, evidence.artifacts)
    if absent:
        first = next(ref for ref in evidence.artifacts if ref in absent)
        raise InvalidInput("artifact_refs", f"there is no {shown(first)}", artifact_ref=vars(first))
    walk = _Walk(conn, scope_id, frozenset(evidence.citations))
    walk.follow(evidence.artifacts, evidence.citations)
    return _with_roots(conn, scope_id, evidence, walk)


def why_unavailable(
    conn: sa.Connection, scope_id: str, evidence: Iterable[Evidence]
) -> InvalidInput | None:
    """Why an outcome's item cannot rely on the evidence it names; None if it can.

    Looked at is what it names, not what that was made from. The memory is not locked.
    """
    refs = EvidenceRefs(
        tuple(one.source_ref.ref for one in evidence if isinstance(one, SourceEvidence)),
        tuple(one.artifact_ref.ref for one in evidence if isinstance(one, ArtifactEvidence)),
        tuple(one.memory_citation.ref for one in evidence if one.kind == "memory"),
    )
    try:
        _refuse_absent_sources(conn, scope_id, refs)
        absent = set(refs.artifacts) - artifacts.existing(conn, scope_id, refs.artifacts)
        if absent:
            return InvalidInput("artifact_refs", f"there is no {shown(min(absent))}")
        read_cited(conn, scope_id, refs.citations, direct=frozenset(refs.citations))
    except InvalidInput as error:
        return error
    return None


def read_cited(
    conn: sa.Connection,
    scope_id: str,
    citations: Sequence[Citation],
    *,
    direct: Collection[Citation],
) -> dict[Citation, EntryVersion]:
    """The entry versions that citations name, each active at its revision and now.

    Args:
        direct: those a person or model named; errors call the others inherited.

    Raises:
        InvalidCitation, CitedEntryInactive, EvidenceUnavailable (the text was erased).
    """
    if not citations:
        return {}
    head = entries.head(conn, scope_id)
    held = manifests.spans_of(conn, scope_id, {one.entry_id for one in citations})
    bodies = entries.versions(conn, scope_id, {one.entry_version_id for one in citations})
    found: dict[Citation, EntryVersion] = {}
    for one in citations:
        spans = held.get(one.entry_id, [])
        revision, version = one.memory.revision, one.entry_version_id
        named = (one.memory.family, one.memory.artifact_id) == (MEMORY_FAMILY, MEMORY_ID)
        then = next((span for span in spans if span.shown_at(revision)), None)
        if not named or revision > head or then is None or then.entry_version_id != version:
            raise _refused(InvalidCitation, one, direct, "is not in that revision")
        if bodies[version].purged:
            raise _refused(EvidenceUnavailable, one, direct, "was erased")
        if then.state != "active":
            raise _refused(CitedEntryInactive, one, direct, "was retired at that revision")
        if spans[-1].state != "active":
            raise _refused(CitedEntryInactive, one, direct, "is retired now")
        found[one] = bodies[version]
    return found


def shown(ref: ArtifactRef) -> str:
    """An artifact reference as messages print it."""
    return f"{ref.family}/{ref.artifact_id} revision {ref.revision}"


@dataclass
class _Walk:
    """The graph below some evidence, level by level; every artifact and entry is read once."""

    conn: sa.Connection
    scope_id: str
    direct: frozenset[Citation]
    children: dict[Node, tuple[Node, ...]] = field(default_factory=dict)
    _seen: set[ArtifactRef | Citation] = field(default_factory=set)
    _known: dict[ArtifactRef, EvidenceRefs] = field(default_factory=dict)
    _locked: bool = False

    def follow(self, refs: Iterable[ArtifactRef], citations: Iterable[Citation]) -> None:
        level: tuple[list[ArtifactRef], list[Citation]] = ([], [])
        self._add(level, refs, citations)
        while level[0] or level[1]:
            following: tuple[list[ArtifactRef], list[Citation]] = ([], [])
            for ref, below in self._lineages(level[0]).items():
                self.children[ref] = (
                    *below.sources,
                    *below.artifacts,
                    *map(node_of, below.citations),
                )
                self._add(following, below.artifacts, below.citations)
            for citation, entry in self._entries(level[1]).items():
                self.children[node_of(citation)] = (*entry.source_refs, *entry.artifact_refs)
                self._add(following, entry.artifact_refs, ())
            level = following

    def _add(
        self,
        level: tuple[list[ArtifactRef], list[Citation]],
        refs: Iterable[ArtifactRef],
        citations: Iterable[Citation],
    ) -> None:
        for ref in refs:
            if ref not in self._seen and ref.family != PROMPT_FAMILY:
                self._seen.add(ref)
                level[0].append(ref)
        for citation in citations:
            if citation not in self._seen:
                self._seen.add(citation)
                level[1].append(citation)

    def _lineages(self, refs: list[ArtifactRef]) -> dict[ArtifactRef, EvidenceRefs]:
        unknown = [ref for ref in refs if ref not in self._known]
        if unknown:
            self._known |= artifacts.lineages(
                self.conn,
                self.scope_id,
                unknown,
                with_sources=bool(self.direct),  # only they bring their root sources along
            )
        return {ref: self._known[ref] for ref in refs}

    def _entries(self, citations: list[Citation]) -> dict[Citation, EntryVersion]:
        if citations and not self._locked:
            artifacts.lock_head(self.conn, self.scope_id, MEMORY_FAMILY, MEMORY_ID)
            self._locked = True
        return read_cited(self.conn, self.scope_id, citations, direct=self.direct)


def node_of(citation: Citation) -> EntryNode:
    """The graph's node of a cited entry version."""
    return EntryNode(citation.memory.artifact_id, citation.entry_id, citation.entry_version_id)


def _with_roots(
    conn: sa.Connection, scope_id: str, evidence: EvidenceRefs, walk: _Walk
) -> EvidenceRefs:
    below = sources_below(walk.children, [node_of(one) for one in evidence.citations])
    held = sources.eligible(conn, scope_id, below)
    roots = sorted((ref for ref in below if held.get(ref)), key=evidence_id)
    settled = EvidenceRefs((*evidence.sources, *roots), evidence.artifacts, evidence.citations)
    if len(settled) > limits.EVIDENCE_MAX:
        raise EvidenceLimitExceeded(
            "memory_citations",
            f"with the sources of the cited entries there are {len(settled)} references, "
            f"the most is {limits.EVIDENCE_MAX}",
            limit=limits.EVIDENCE_MAX,
            observed=len(settled),
        )
    return settled


def _refuse_absent_sources(conn: sa.Connection, scope_id: str, evidence: EvidenceRefs) -> None:
    held = sources.eligible(conn, scope_id, evidence.sources)
    for ref in evidence.sources:
        wire = {"name": ref.source_type, "source_id": ref.source_id}
        named = f"source {ref.source_id!r} of type {ref.source_type!r}"
        if ref not in held:
            raise InvalidInput("source_refs", f"there is no {named}", source_ref=wire)
        if not held[ref]:
            raise SourceNotEligible(
                "source_refs", f"the {named} is the store's own record", source_ref=wire
            )


def _refused(
    kind: type[InvalidEvidence], citation: Citation, direct: Collection[Citation], what: str
) -> InvalidEvidence:
    """A refusal that says whether the entry was cited here, or comes with a cited artifact."""
    entry = f"the memory entry {citation.entry_id} of revision {citation.memory.revision}"
    told = artifacts.citation_json(citation)
    if citation in direct:
        return kind("memory_citations", f"{entry} {what}", memory_citation=told)
    reason = f"{entry}, which a cited artifact was made from, {what}"
    return kind("artifact_refs", reason, memory_citation=told)
