"""Assemble a dream's evidence: follow what was selected down to its sources, within limits.

Everything that is reached has to stand: an entry that was retired, here or below, refuses the
whole rather than shrinking it. A later attempt has to find exactly what the first one found.
"""

from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa

from pc_store.domain import strict_json
from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.dream_graph import Graph, Material, entry_node, too_much
from pc_store.domain.dream_run import DreamBudget
from pc_store.domain.dream_walk import Walk
from pc_store.domain.evidence_graph import Node
from pc_store.domain.experience_proposal import cues_of
from pc_store.domain.outcome import KIND as TASK_OUTCOME
from pc_store.domain.refs import EXPERIENCE_FAMILY, PROMPT_FAMILY, ArtifactRef, Citation, SourceRef
from pc_store.domain.source import CONTENT_TYPE, Source, estimated_tokens
from pc_store.dream_refusals import ReferenceNotFound
from pc_store.errors import EvidenceUnavailable, SourceNotEligible
from pc_store.ledger import artifacts, entries, experiences, sources
from pc_store.services.trace_evidence import read_cited, shown


def assemble(
    conn: sa.Connection,
    scope_id: str,
    selected: EvidenceRefs,
    budget: DreamBudget,
    *,
    prompt_room_tokens: int,
    pin: Mapping[str, Any] | None = None,
) -> Graph:
    """Follow what was selected to its sources.

    Args:
        prompt_room_tokens: most estimated tokens of what a model is shown.
        pin: the manifest of an earlier attempt; all but the historical marks, which are taken
            from it, has to be the same.

    Raises:
        ReferenceNotFound: something selected does not exist.
        SourceNotEligible, InvalidCitation, CitedEntryInactive, EvidenceUnavailable: see there.
        EvidenceLimitExceeded: it is more than the budget allows, or than fits a prompt.
    """
    if len(selected) > budget.max_items:
        raise too_much("references", budget.max_items, len(selected))
    _refuse_absent(conn, scope_id, selected)
    walk = Walk(selected, budget.graph)
    while walk.level:
        walk.go_down(_looked_up(conn, scope_id, walk.level, frozenset(selected.citations)))
    graph = walk.graph()
    if pin is not None:
        graph = graph.marked_as(pin)
    text = graph.projection.text
    if (size := len(text.encode())) > budget.max_bytes:
        raise too_much("bytes", budget.max_bytes, size)
    if (tokens := estimated_tokens(text)) > prompt_room_tokens:
        raise too_much("estimated tokens beside PC_PROMPT_TOKEN_BUDGET", prompt_room_tokens, tokens)
    if pin is not None and graph.manifest() != pin:
        raise EvidenceUnavailable("evidence", "is no longer what the first attempt was shown")
    return graph


def _refuse_absent(conn: sa.Connection, scope_id: str, selected: EvidenceRefs) -> None:
    """Raise ReferenceNotFound for a selected source or experience that does not exist."""
    held = artifacts.existing(conn, scope_id, selected.artifacts)
    for ref in selected.artifacts:
        if ref not in held:
            raise ReferenceNotFound(f"artifacts: there is no {shown(ref)}", artifact_ref=vars(ref))
    known = sources.eligible(conn, scope_id, selected.sources)
    for source in selected.sources:
        named = f"source {source.source_id!r} of type {source.source_type!r}"
        if source not in known:
            raise ReferenceNotFound(f"sources: there is no {named}", source_ref=vars(source))
        if not known[source]:
            raise SourceNotEligible(
                "sources", f"the {named} is the store's own record", source_ref=vars(source)
            )


def _looked_up(
    conn: sa.Connection, scope_id: str, level: EvidenceRefs, direct: Collection[Citation]
) -> dict[Node, Material]:
    found: dict[Node, Material] = {}
    found |= _sources(conn, scope_id, level.sources)
    found |= _artifacts(conn, scope_id, level.artifacts)
    found |= _entries(conn, scope_id, level.citations, direct)
    return found


def _sources(
    conn: sa.Connection, scope_id: str, refs: Collection[SourceRef]
) -> dict[Node, Material]:
    held = sources.some(conn, scope_id, refs)
    for ref in refs:
        if ref not in held:
            raise EvidenceUnavailable("evidence", f"the source {ref.source_id!r} is gone")
    return {ref: _source(held[ref]) for ref in refs}


def _source(source: Source) -> Material:
    if source.internal:
        return Material("source", "lineage_only")
    outcome = source.source_type == CONTENT_TYPE and source.metadata.get("kind") == TASK_OUTCOME
    cues = cues_of(source.content) if outcome else ()
    return Material("source", "root", source.content, cues=cues)


def _artifacts(
    conn: sa.Connection, scope_id: str, refs: Collection[ArtifactRef]
) -> dict[Node, Material]:
    ours = [ref for ref in refs if ref.family == EXPERIENCE_FAMILY]
    heads = artifacts.states(conn, scope_id, EXPERIENCE_FAMILY, {ref.artifact_id for ref in ours})
    below = artifacts.lineages(conn, scope_id, ours, earlier=False)
    found: dict[Node, Material] = {}
    for ref in refs:
        if ref.family == PROMPT_FAMILY:
            found[ref] = Material("unresolved", "lineage_only")
        elif ref.family != EXPERIENCE_FAMILY:
            found[ref] = Material("unresolved", "unresolved")
        else:
            head = heads[ref.artifact_id]
            content = experiences.content(conn, scope_id, ref)
            found[ref] = Material(
                "experience",
                "derived",
                strict_json.dumps(content.to_json()),
                below[ref],
                historical=head.ref != ref or head.lifecycle != "active",
            )
    return found


def _entries(
    conn: sa.Connection,
    scope_id: str,
    citations: Collection[Citation],
    direct: Collection[Citation],
) -> dict[Node, Material]:
    """The entries that citations name, each exactly as cited and active, then and now."""
    read = read_cited(conn, scope_id, list(citations), direct=direct)
    now = entries.current(conn, scope_id, {one.entry_id for one in citations})
    found: dict[Node, Material] = {}
    for one, entry in read.items():
        current = now[one.entry_id].version.entry_version_id
        found[entry_node(one)] = Material(
            "memory",
            "derived",
            strict_json.dumps({"kind": entry.kind, "text": entry.text}),
            EvidenceRefs(entry.source_refs, entry.artifact_refs),
            historical=current != one.entry_version_id,
            current_entry_version_id=current,
        )
    return found
