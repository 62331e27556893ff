"""The append-only log of sources, and its head, whose lock gives positions out."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from pc_store.domain import outcome, strict_json
from pc_store.domain.refs import SourceRef
from pc_store.domain.source import CONTENT_TYPE, NewSource, Role, Source, estimated_tokens
from pc_store.errors import ScopeNotFound, SourceNotFound
from pc_store.ledger.schema import source_heads, sources


@dataclass(frozen=True)
class Known:
    """What the log already holds under a source's id."""

    position: int
    digest: str


def lock_head(conn: sa.Connection, scope_id: str) -> int:
    """Lock the scope's log until the transaction ends and return its last position.

    Raises:
        ScopeNotFound: no such scope.
    """
    query = sa.select(source_heads.c.position).where(source_heads.c.scope_id == scope_id)
    position = conn.execute(query.with_for_update()).scalar_one_or_none()
    if position is None:
        raise ScopeNotFound(f"there is no scope {scope_id!r}", scope_id=scope_id)
    return int(position)


def known(
    conn: sa.Connection, scope_id: str, offered: Sequence[NewSource]
) -> dict[tuple[str, str], Known]:
    """Those of the offered (type, id) pairs that the log holds."""
    found: dict[tuple[str, str], Known] = {}
    by_type: dict[str, list[str]] = {}
    for source in offered:
        by_type.setdefault(source.source_type, []).append(source.source_id)
    for source_type, ids in by_type.items():
        for start in range(0, len(ids), 500):
            query = sa.select(sources.c.source_id, sources.c.position, sources.c.digest).where(
                sources.c.scope_id == scope_id,
                sources.c.source_type == source_type,
                sources.c.source_id.in_(ids[start : start + 500]),
            )
            for row in conn.execute(query):
                found[source_type, row.source_id] = Known(row.position, row.digest)
    return found


def append(
    conn: sa.Connection,
    scope_id: str,
    new: Sequence[NewSource],
    *,
    after: int,
    now_us: int,
    internal: bool = False,
    role: Role | None = None,
) -> None:
    """Append sources at positions after + 1, after + 2, … and move the head.

    The caller holds the head's lock (`lock_head`) and `after` is what it returned.
    """
    conn.execute(
        sa.insert(sources),
        [
            {
                "scope_id": scope_id,
                "position": after + ordinal,
                "source_type": source.source_type,
                "source_id": source.source_id,
                "content": source.content,
                "metadata": strict_json.dumps(dict(source.metadata)),
                "digest": source.digest,
                "tokens": estimated_tokens(source.content),
                "internal": internal,
                "received_at": now_us,
                "form": "json" if source.structured else None,
                "role": role,
                "kind": None if internal or role is not None else _kind(source),
            }
            for ordinal, source in enumerate(new, start=1)
        ],
    )
    conn.execute(
        sa.update(source_heads)
        .where(source_heads.c.scope_id == scope_id)
        .values(position=after + len(new), updated_at=now_us)
    )


def high_watermark(conn: sa.Connection, scope_id: str) -> int:
    """The log's last position. Raises ScopeNotFound."""
    query = sa.select(source_heads.c.position).where(source_heads.c.scope_id == scope_id)
    position = conn.execute(query).scalar_one_or_none()
    if position is None:
        raise ScopeNotFound(f"there is no scope {scope_id!r}", scope_id=scope_id)
    return int(position)


def between(conn: sa.Connection, scope_id: str, *, after: int, through: int) -> list[Source]:
    """The sources at positions (after, through], in order."""
    query = (
        sa.select(sources)
        .where(
            sources.c.scope_id == scope_id,
            sources.c.position > after,
            sources.c.position <= through,
        )
        .order_by(sources.c.position)
    )
    return [_source(row) for row in conn.execute(query)]


def page(
    conn: sa.Connection, scope_id: str, source_type: str, *, after: int, through: int, limit: int
) -> list[Source]:
    """Sources of a type at positions (after, through], in order, without the store's own."""
    query = (
        sa.select(sources)
        .where(
            sources.c.scope_id == scope_id,
            sources.c.position > after,
            sources.c.position <= through,
            sources.c.source_type == source_type,
            sources.c.internal.is_(False),
        )
        .order_by(sources.c.position)
        .limit(limit)
    )
    return [_source(row) for row in conn.execute(query)]


def sizes(conn: sa.Connection, scope_id: str, *, after: int, through: int) -> list[int]:
    """Estimated tokens of the sources at positions (after, through], in order."""
    query = (
        sa.select(sources.c.tokens)
        .where(
            sources.c.scope_id == scope_id,
            sources.c.position > after,
            sources.c.position <= through,
        )
        .order_by(sources.c.position)
    )
    return [int(size) for size in conn.execute(query).scalars()]


def get(conn: sa.Connection, scope_id: str, source_type: str, source_id: str) -> Source:
    """Return one source. Raises SourceNotFound."""
    query = sa.select(sources).where(
        sources.c.scope_id == scope_id,
        sources.c.source_type == source_type,
        sources.c.source_id == source_id,
    )
    row = conn.execute(query).one_or_none()
    if row is None:
        raise SourceNotFound(
            f"the scope has no source {source_id!r} of type {source_type!r}",
            source_type=source_type,
            source_id=source_id,
        )
    return _source(row)


def some(
    conn: sa.Connection, scope_id: str, refs: Collection[SourceRef]
) -> dict[SourceRef, Source]:
    """Those of the sources that the log holds."""
    found = {}
    for fitting in _fitting(refs):
        for row in conn.execute(sa.select(sources).where(sources.c.scope_id == scope_id, fitting)):
            found[SourceRef(row.source_type, row.source_id)] = _source(row)
    return found


def eligible(
    conn: sa.Connection, scope_id: str, refs: Collection[SourceRef]
) -> dict[SourceRef, bool]:
    """Those of the sources that the log holds; False for the store's own records."""
    table = sources
    found = {}
    for fitting in _fitting(refs):
        query = sa.select(table.c.source_type, table.c.source_id, table.c.internal)
        for row in conn.execute(query.where(table.c.scope_id == scope_id, fitting)):
            found[SourceRef(row.source_type, row.source_id)] = not row.internal
    return found


def _fitting(refs: Collection[SourceRef]) -> Iterator[sa.ColumnElement[bool]]:
    by_type: dict[str, list[str]] = {}
    for ref in sorted(set(refs)):
        by_type.setdefault(ref.source_type, []).append(ref.source_id)
    for source_type, ids in by_type.items():
        for start in range(0, len(ids), 500):
            yield sa.and_(
                sources.c.source_type == source_type,
                sources.c.source_id.in_(ids[start : start + 500]),
            )


def heads_changed_since(
    conn: sa.Connection, moment_us: int, *, limit: int
) -> list[tuple[str, int, int]]:
    """(scope, position, changed at) of logs that grew at or after a moment, oldest change first."""
    query = (
        sa.select(source_heads.c.scope_id, source_heads.c.position, source_heads.c.updated_at)
        .where(source_heads.c.updated_at >= moment_us, source_heads.c.position > 0)
        .order_by(source_heads.c.updated_at, source_heads.c.scope_id)
        .limit(limit)
    )
    return [(row.scope_id, row.position, row.updated_at) for row in conn.execute(query)]


def _kind(source: NewSource) -> str | None:
    told = source.metadata.get("kind") == outcome.KIND
    return outcome.KIND if told and source.source_type == CONTENT_TYPE else None


def _source(row: sa.Row) -> Source:  # type: ignore[type-arg]
    return Source(
        position=row.position,
        source_type=row.source_type,
        source_id=row.source_id,
        content=row.content,
        metadata=json.loads(row.metadata),
        digest=row.digest,
        internal=row.internal,
        received_at=row.received_at,
        structured=row.form == "json",
        role=row.role,
    )
