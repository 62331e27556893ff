"""Read artifacts revision by revision: collections, heads, exact revisions, lineage, digests."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from pc_store import limits
from pc_store.domain.refs import (
    EXPERIENCE_FAMILY,
    MEMORY_FAMILY,
    PROMPT_FAMILY,
    ArtifactRef,
    Citation,
    SourceRef,
)
from pc_store.domain.revision import (
    EntryChange,
    content_digest,
    entry_bytes,
    fragments_digest,
    manifest_entry,
    memory_content,
)
from pc_store.errors import ArtifactNotFound, InvalidInput
from pc_store.ledger import artifacts, manifests, scopes
from pc_store.ledger.artifacts import Revision
from pc_store.ledger.database import Database

FAMILIES = (MEMORY_FAMILY, PROMPT_FAMILY, EXPERIENCE_FAMILY)


@dataclass(frozen=True)
class ArtifactFacts:
    """A revision without its content, as lists show it."""

    scope_id: str
    ref: ArtifactRef
    sources: tuple[SourceRef, ...]
    artifacts: tuple[ArtifactRef, ...]
    citations: tuple[Citation, ...]
    content_digest: str
    """`sha256:` and the SHA-256 of the content's canonical JSON."""
    created_at: int
    origin: str


@dataclass(frozen=True)
class ArtifactContent(ArtifactFacts):
    """A revision with its content. The ETag of a head is `"revision:N"`."""

    content: dict[str, Any]


@dataclass(frozen=True)
class ArtifactPage:
    """A page of artifacts or revisions, and the `after` of the next; None when there is none."""

    items: tuple[ArtifactFacts, ...]
    next_after: str | int | None


def family(name: str) -> str:
    """Return the name of a family that can be read. Raises InvalidInput: it is none of ours."""
    if name not in FAMILIES:
        raise InvalidInput("family", f"is {name!r}, one of {', '.join(FAMILIES)} is expected")
    return name


def list_artifacts(
    db: Database, scope_id: str, family_name: str, *, after: str | None = None, limit: int
) -> ArtifactPage:
    """The heads of a family's artifacts by id; those without a revision are left out.

    Of the experiences only those that are active.

    Raises:
        ScopeNotFound, InvalidInput (the family, the limit).
    """
    family(family_name)
    _limit(limit)
    with db.read() as conn:
        scopes.get(conn, scope_id)
        heads = artifacts.heads(
            conn,
            scope_id,
            family_name,
            after=after or "",
            limit=limit + 1,
            active_only=family_name == EXPERIENCE_FAMILY,
        )
        items = [_content(conn, scope_id, ref) for ref in heads[:limit]]
    more = len(heads) > limit
    return ArtifactPage(
        tuple(_without_content(item) for item in items),
        items[-1].ref.artifact_id if more else None,
    )


def read_artifact(
    db: Database,
    scope_id: str,
    family_name: str,
    artifact_id: str,
    *,
    revision: int | None = None,
) -> ArtifactContent:
    """One exact revision; the head when None.

    Raises:
        ScopeNotFound, ArtifactNotFound, InvalidInput (the family).
    """
    family(family_name)
    with db.read() as conn:
        scopes.get(conn, scope_id)
        number = revision
        if number is None:
            number = artifacts.head(conn, scope_id, family_name, artifact_id)
        return _content(conn, scope_id, ArtifactRef(family_name, artifact_id, number))


def list_revisions(
    db: Database,
    scope_id: str,
    family_name: str,
    artifact_id: str,
    *,
    after: int | None = None,
    limit: int,
) -> ArtifactPage:
    """An artifact's revisions, newest first, those before revision `after`.

    Raises:
        ScopeNotFound, ArtifactNotFound, InvalidInput (the family, the limit).
    """
    family(family_name)
    _limit(limit)
    with db.read() as conn:
        scopes.get(conn, scope_id)
        head = artifacts.head(conn, scope_id, family_name, artifact_id)
        if not head:
            raise ArtifactNotFound(
                f"there is no {family_name}/{artifact_id}",
                family=family_name,
                artifact_id=artifact_id,
            )
        newest = head if after is None else min(after - 1, head)
        oldest = max(newest - limit + 1, 1)
        rows = [
            artifacts.revision(conn, scope_id, family_name, artifact_id, number)
            for number in range(newest, oldest - 1, -1)
        ]
        digests = (
            _memory_digests(conn, scope_id, newest=newest, oldest=oldest)
            if family_name == MEMORY_FAMILY
            else {row.ref.revision: content_digest(row.content) for row in rows}
        )
        items = [_facts(conn, scope_id, row, digests[row.ref.revision]) for row in rows]
    return ArtifactPage(tuple(items), oldest if oldest > 1 and rows else None)


def _content(conn: sa.Connection, scope_id: str, ref: ArtifactRef) -> ArtifactContent:
    row = artifacts.revision(conn, scope_id, ref.family, ref.artifact_id, ref.revision)
    content = row.content
    if ref.family == MEMORY_FAMILY:
        made = manifests.made_between(conn, scope_id, after=ref.revision - 1, through=ref.revision)
        listed = [
            manifest_entry(one.entry_id, one.entry_version_id, one.content_hash, one.state)
            for one in manifests.at(conn, scope_id, ref.revision)
        ]
        content = memory_content(listed, [one.change for one in made])
    facts = _facts(conn, scope_id, row, content_digest(content))
    return ArtifactContent(**vars(facts), content=content)


def _facts(conn: sa.Connection, scope_id: str, row: Revision, digest: str) -> ArtifactFacts:
    lineage = artifacts.lineage_of(conn, scope_id, row.ref)
    return ArtifactFacts(
        scope_id,
        row.ref,
        tuple(SourceRef(**ref) for kind, ref in lineage if kind == "source"),
        tuple(ArtifactRef(**ref) for kind, ref in lineage if kind == "artifact"),
        tuple(artifacts.citation_of(ref) for kind, ref in lineage if kind == "citation"),
        digest,
        row.created_at,
        row.origin,
    )


def _without_content(item: ArtifactContent) -> ArtifactFacts:
    return ArtifactFacts(**{name: value for name, value in vars(item).items() if name != "content"})


def _memory_digests(
    conn: sa.Connection, scope_id: str, *, newest: int, oldest: int
) -> dict[int, str]:
    """The content digests of consecutive revisions, at the price of one manifest.

    The newest manifest is made first; each older one differs by what the next revision changed.
    """
    spans = manifests.spans_through(conn, scope_id, first=oldest, last=newest)
    shown: dict[str, bytes] = {}
    replaced: dict[int, list[tuple[str, bytes | None]]] = {}
    before: dict[str, bytes | None] = {}
    for span in spans:  # by entry, oldest first
        fragment = entry_bytes(span.entry_id, span.entry_version_id, span.content_hash, span.state)
        if span.from_revision > oldest:
            undone = span.entry_id, before.get(span.entry_id)
            replaced.setdefault(span.from_revision, []).append(undone)
        shown[span.entry_id] = before[span.entry_id] = fragment
    changes: dict[int, list[EntryChange]] = {}
    for one in manifests.made_between(conn, scope_id, after=oldest - 1, through=newest):
        changes.setdefault(one.revision, []).append(one.change)
    found: dict[int, str] = {}
    for number in range(newest, oldest - 1, -1):
        fragments = [fragment for fragment in shown.values() if fragment]
        found[number] = fragments_digest(fragments, changes.get(number, []))
        for entry_id, earlier in replaced.get(number, []):
            shown[entry_id] = earlier or b""  # kept in its place: the order is by entry id
    return found


def _limit(limit: int) -> None:
    if not 1 <= limit <= limits.PAGE_MAX:
        raise InvalidInput("limit", f"is {limit}, expected 1 to {limits.PAGE_MAX}")
