"""Artifacts: heads, immutable revisions, and what each was made from."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.refs import EXPERIENCE_FAMILY, ArtifactRef, Citation, SourceRef
from pc_store.errors import ArtifactNotFound, RevisionConflict
from pc_store.ledger.schema import artifact_revisions, artifacts, lineage

Lifecycle = Literal["active", "deprecated", "retired"]
_TOGETHER = 50
"""Most artifacts one statement asks about."""


@dataclass(frozen=True)
class Revision:
    """One immutable revision of an artifact."""

    ref: ArtifactRef
    content: Any
    reason: str | None
    origin: str
    window_id: str | None
    created_at: int
    log_position: int | None = None
    """Where the log ended when it was approved; None for what nobody approves."""


@dataclass(frozen=True)
class Head:
    """An artifact's current revision and its lifecycle."""

    ref: ArtifactRef
    lifecycle: Lifecycle


def head(conn: sa.Connection, scope_id: str, family: str, artifact_id: str) -> int:
    """The current revision; 0 when the artifact has none or does not exist."""
    query = sa.select(artifacts.c.head).where(*_key(scope_id, family, artifact_id))
    return int(conn.execute(query).scalar_one_or_none() or 0)


def lock_head(conn: sa.Connection, scope_id: str, family: str, artifact_id: str) -> int | None:
    """Lock the head until the transaction ends and return it; None without such an artifact."""
    query = sa.select(artifacts.c.head).where(*_key(scope_id, family, artifact_id))
    value = conn.execute(query.with_for_update()).scalar_one_or_none()
    return None if value is None else int(value)


def ensure(
    conn: sa.Connection, scope_id: str, family: str, artifact_id: str, *, now_us: int
) -> int:
    """Like `lock_head`, for an artifact that is made, with head 0, if it does not exist."""
    try:
        with conn.begin_nested():
            if lock_head(conn, scope_id, family, artifact_id) is None:
                conn.execute(
                    sa.insert(artifacts).values(
                        scope_id=scope_id,
                        family=family,
                        artifact_id=artifact_id,
                        head=0,
                        lifecycle="active",
                        created_at=now_us,
                    )
                )
    except IntegrityError:
        pass  # another writer made it in the meantime
    value = lock_head(conn, scope_id, family, artifact_id)
    assert value is not None
    return value


def commit(
    conn: sa.Connection,
    scope_id: str,
    family: str,
    artifact_id: str,
    *,
    expected: int,
    content: Any,
    reason: str | None,
    origin: str,
    window_id: str | None,
    now_us: int,
    sources: Sequence[SourceRef] = (),
    used: Sequence[ArtifactRef] = (),
    citations: Sequence[Citation] = (),
    log_position: int | None = None,
) -> int:
    """Add revision `expected` + 1, make it the head, and record its lineage.

    Raises:
        RevisionConflict: the head is not `expected`.
    """
    moved = conn.execute(
        sa.update(artifacts)
        .where(*_key(scope_id, family, artifact_id), artifacts.c.head == expected)
        .values(head=expected + 1)
    )
    if moved.rowcount != 1:
        current = head(conn, scope_id, family, artifact_id)
        raise RevisionConflict(
            f"{family}/{artifact_id} is at revision {current}, {expected} was expected",
            expected=expected,
            current=current,
        )
    name = {"scope_id": scope_id, "family": family, "artifact_id": artifact_id}
    conn.execute(
        sa.insert(artifact_revisions).values(
            **name,
            revision=expected + 1,
            content=content,
            reason=reason,
            origin=origin,
            window_id=window_id,
            created_at=now_us,
            log_position=log_position,
        )
    )
    rows: list[dict[str, Any]] = [
        *({"kind": "source", "ref": vars(ref)} for ref in sources),
        *({"kind": "artifact", "ref": vars(ref)} for ref in used),
        *({"kind": "citation", "ref": citation_json(cited)} for cited in citations),
    ]
    if rows:
        conn.execute(
            sa.insert(lineage),
            [
                {**name, "revision": expected + 1, "ordinal": ordinal, **row}
                for ordinal, row in enumerate(rows, start=1)
            ],
        )
    return expected + 1


def revision(
    conn: sa.Connection, scope_id: str, family: str, artifact_id: str, number: int
) -> Revision:
    """Return one revision. Raises ArtifactNotFound."""
    table = artifact_revisions
    query = sa.select(table).where(
        table.c.scope_id == scope_id,
        table.c.family == family,
        table.c.artifact_id == artifact_id,
        table.c.revision == number,
    )
    row = conn.execute(query).one_or_none()
    if row is None:
        raise ArtifactNotFound(
            f"{family}/{artifact_id} has no revision {number}"
            if number
            else f"there is no {family}/{artifact_id}",
            family=family,
            artifact_id=artifact_id,
            revision=number,
        )
    return _revision(row)


def revisions(
    conn: sa.Connection, scope_id: str, family: str, artifact_id: str, *, limit: int
) -> list[Revision]:
    """Revisions of an artifact, newest first."""
    table = artifact_revisions
    query = (
        sa.select(table)
        .where(
            table.c.scope_id == scope_id,
            table.c.family == family,
            table.c.artifact_id == artifact_id,
        )
        .order_by(table.c.revision.desc())
        .limit(limit)
    )
    return [_revision(row) for row in conn.execute(query)]


def heads(
    conn: sa.Connection,
    scope_id: str,
    family: str,
    *,
    after: str = "",
    limit: int,
    active_only: bool = False,
) -> list[ArtifactRef]:
    """The heads of a family's artifacts that have a revision, by id, after the given one."""
    query = (
        sa.select(artifacts.c.artifact_id, artifacts.c.head)
        .where(
            artifacts.c.scope_id == scope_id,
            artifacts.c.family == family,
            artifacts.c.head > 0,
            artifacts.c.artifact_id > after,
        )
        .order_by(artifacts.c.artifact_id)
        .limit(limit)
    )
    if active_only:
        query = query.where(artifacts.c.lifecycle == "active")
    return [ArtifactRef(family, row.artifact_id, row.head) for row in conn.execute(query)]


def lineage_of(
    conn: sa.Connection, scope_id: str, ref: ArtifactRef
) -> list[tuple[str, dict[str, Any]]]:
    """(kind, reference) of everything a revision was made from, in order."""
    query = (
        sa.select(lineage.c.kind, lineage.c.ref)
        .where(
            lineage.c.scope_id == scope_id,
            lineage.c.family == ref.family,
            lineage.c.artifact_id == ref.artifact_id,
            lineage.c.revision == ref.revision,
        )
        .order_by(lineage.c.ordinal)
    )
    return [(row.kind, row.ref) for row in conn.execute(query)]


def lineages(
    conn: sa.Connection,
    scope_id: str,
    refs: Collection[ArtifactRef],
    *,
    earlier: bool = True,
    with_sources: bool = True,
) -> dict[ArtifactRef, EvidenceRefs]:
    """What each of the revisions was made from; one that does not exist has none.

    Args:
        earlier: of experiences the earlier revisions come along, since each cites the one
            before it.
        with_sources: False leaves the sources out, which are most of a lineage.
    """
    wanted: dict[tuple[str, str], list[int]] = {}
    for ref in refs:
        wanted.setdefault((ref.family, ref.artifact_id), []).append(ref.revision)
    rows: dict[ArtifactRef, list[tuple[str, dict[str, Any]]]] = {ref: [] for ref in refs}
    for fitting in _fitting(lineage, wanted, earlier=earlier):
        query = (
            sa.select(lineage)
            .where(lineage.c.scope_id == scope_id, fitting)
            .order_by(
                lineage.c.family, lineage.c.artifact_id, lineage.c.revision, lineage.c.ordinal
            )
        )
        if not with_sources:
            query = query.where(lineage.c.kind != "source")
        for row in conn.execute(query):
            ref = ArtifactRef(row.family, row.artifact_id, row.revision)
            rows.setdefault(ref, []).append((row.kind, row.ref))
    return {ref: evidence_refs(some) for ref, some in rows.items()}


def existing(conn: sa.Connection, scope_id: str, refs: Collection[ArtifactRef]) -> set[ArtifactRef]:
    """Those of the revisions that exist."""
    table = artifact_revisions
    wanted: dict[tuple[str, str], list[int]] = {}
    for ref in refs:
        wanted.setdefault((ref.family, ref.artifact_id), []).append(ref.revision)
    found: set[ArtifactRef] = set()
    for fitting in _fitting(table, wanted, earlier=False):
        query = sa.select(table.c.family, table.c.artifact_id, table.c.revision).where(
            table.c.scope_id == scope_id, fitting
        )
        found |= {ArtifactRef(*row) for row in conn.execute(query)}
    return found


def states(
    conn: sa.Connection, scope_id: str, family: str, artifact_ids: Collection[str]
) -> dict[str, Head]:
    """The heads of some artifacts of a family, by id; those without a revision are left out."""
    wanted = sorted(set(artifact_ids))
    found: dict[str, Head] = {}
    for start in range(0, len(wanted), 500):
        query = sa.select(artifacts.c.artifact_id, artifacts.c.head, artifacts.c.lifecycle).where(
            artifacts.c.scope_id == scope_id,
            artifacts.c.family == family,
            artifacts.c.artifact_id.in_(wanted[start : start + 500]),
            artifacts.c.head > 0,
        )
        for row in conn.execute(query):
            ref = ArtifactRef(family, row.artifact_id, row.head)
            found[row.artifact_id] = Head(ref, row.lifecycle)
    return found


def set_lifecycle(
    conn: sa.Connection, scope_id: str, ref: ArtifactRef, *, expected: Lifecycle, state: Lifecycle
) -> bool:
    """Change a head's lifecycle; False when it is no longer that head in that state."""
    changed = conn.execute(
        sa.update(artifacts)
        .where(
            *_key(scope_id, ref.family, ref.artifact_id),
            artifacts.c.head == ref.revision,
            artifacts.c.lifecycle == expected,
        )
        .values(lifecycle=state)
    )
    return changed.rowcount == 1


def evidence_refs(rows: Iterable[tuple[str, Mapping[str, Any]]]) -> EvidenceRefs:
    """Lineage rows, as `lineage_of` gives them, as references."""
    sources: list[SourceRef] = []
    used: list[ArtifactRef] = []
    citations: list[Citation] = []
    for kind, ref in rows:
        if kind == "source":
            sources.append(SourceRef(**ref))
        elif kind == "artifact":
            used.append(ArtifactRef(**ref))
        else:
            citations.append(citation_of(ref))
    return EvidenceRefs(tuple(sources), tuple(used), tuple(citations))


def citation_json(citation: Citation) -> dict[str, Any]:
    """A citation as the ledger's JSON columns hold it."""
    return {
        "memory_ref": vars(citation.memory),
        "entry_id": citation.entry_id,
        "entry_version_id": citation.entry_version_id,
    }


def citation_of(ref: Mapping[str, Any]) -> Citation:
    """The citation that `citation_json` wrote."""
    return Citation(ArtifactRef(**ref["memory_ref"]), ref["entry_id"], ref["entry_version_id"])


def _fitting(
    table: sa.Table, wanted: Mapping[tuple[str, str], Sequence[int]], *, earlier: bool
) -> Iterable[sa.ColumnElement[bool]]:
    """Conditions that together select the revisions, each of few artifacts."""
    terms = []
    for (family, artifact_id), revisions_wanted in sorted(wanted.items()):
        named = sa.and_(table.c.family == family, table.c.artifact_id == artifact_id)
        if earlier and family == EXPERIENCE_FAMILY:
            terms.append(sa.and_(named, table.c.revision <= max(revisions_wanted)))
        else:
            numbers = sorted(set(revisions_wanted))
            terms += [
                sa.and_(named, table.c.revision.in_(numbers[start : start + 500]))
                for start in range(0, len(numbers), 500)
            ]
    for start in range(0, len(terms), _TOGETHER):
        yield sa.or_(*terms[start : start + _TOGETHER])


def _key(scope_id: str, family: str, artifact_id: str) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        artifacts.c.scope_id == scope_id,
        artifacts.c.family == family,
        artifacts.c.artifact_id == artifact_id,
    )


def _revision(row: sa.Row) -> Revision:  # type: ignore[type-arg]
    return Revision(
        ref=ArtifactRef(row.family, row.artifact_id, row.revision),
        content=row.content,
        reason=row.reason,
        origin=row.origin,
        window_id=row.window_id,
        created_at=row.created_at,
        log_position=row.log_position,
    )
