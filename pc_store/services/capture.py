"""Append sources to a scope's log: once each, however often they are offered."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from pc_store import limits
from pc_store.domain.refs import new_id
from pc_store.domain.source import (
    CONTENT_TYPE,
    NewSource,
    Source,
    new_source,
    new_value,
    refuse_reserved,
)
from pc_store.errors import InvalidInput, SourceConflict
from pc_store.ledger import scopes, sources
from pc_store.ledger.database import Database

_LOADED_AT_ONCE = 20


@dataclass(frozen=True)
class Captured:
    """What became of one offered source."""

    status: Literal["new", "known", "conflict"]
    position: int
    """Where it stands in the log; for a conflict, where its namesake stands."""


@dataclass(frozen=True)
class SourcePage:
    """A page of sources, and the `after` of the next; None when there is none."""

    sources: tuple[Source, ...]
    next_after: tuple[int, int] | None
    """(the last position, the log's end when the first page was read)"""


def capture_content(
    db: Database,
    scope_id: str,
    source_id: str,
    content: str,
    metadata: Mapping[str, Any] | None = None,
    *,
    now_us: int,
) -> Captured:
    """Append a text under an id of the caller's; again changes nothing.

    Raises:
        InvalidInput: a value breaks a rule of `new_source`, or it claims to be a receipt.
        ScopeNotFound, SourceConflict: as `capture`.
    """
    source = new_source(source_id, content, metadata)
    refuse_reserved(content)
    return capture(db, scope_id, source, now_us=now_us)


def create_source(
    db: Database,
    scope_id: str,
    value: Any,
    metadata: Mapping[str, Any] | None = None,
    *,
    now_us: int,
) -> Source:
    """Append any JSON value under an id made here, `src_` and 32 hex digits; never idempotent.

    Raises:
        InvalidInput: the value is no JSON, its text is over 200,000 characters, or it claims
            to be a receipt.
        ScopeNotFound: no such scope.
    """
    refuse_reserved(value)
    source = new_value(new_id("src_", at_us=now_us), value, metadata)
    capture(db, scope_id, source, now_us=now_us)
    return read_source(db, scope_id, source.source_type, source.source_id)


def page_sources(
    db: Database,
    scope_id: str,
    *,
    source_type: str = CONTENT_TYPE,
    after: tuple[int, int] | None = None,
    limit: int,
) -> SourcePage:
    """Sources of a type in the order of the log, up to its end when the first page was read.

    A page ends early where it would pass 4 MiB of content.

    Args:
        after: `next_after` of the page before.
        limit: 1 to 100.

    Raises:
        ScopeNotFound: no such scope.
        InvalidInput: the limit is out of range.
    """
    if not 1 <= limit <= limits.PAGE_MAX:
        raise InvalidInput("limit", f"is {limit}, expected 1 to {limits.PAGE_MAX}")
    with db.read() as conn:
        scopes.get(conn, scope_id)
        start, end = after or (0, sources.high_watermark(conn, scope_id))
        items: list[Source] = []
        size = 0
        for source in _each(conn, scope_id, source_type, after=start, through=end):
            size += len(source.content.encode())
            if len(items) == limit or (items and size > limits.SOURCE_PAGE_MAX_BYTES):
                return SourcePage(tuple(items), (items[-1].position, end))
            items.append(source)
    return SourcePage(tuple(items), None)


def _each(
    conn: sa.Connection, scope_id: str, source_type: str, *, after: int, through: int
) -> Iterator[Source]:
    """The sources, a few loaded at a time: one may be large."""
    while some := sources.page(
        conn, scope_id, source_type, after=after, through=through, limit=_LOADED_AT_ONCE
    ):
        yield from some
        after = some[-1].position


def capture(db: Database, scope_id: str, source: NewSource, *, now_us: int) -> Captured:
    """Append one source; offering it again changes nothing and answers its position.

    Raises:
        ScopeNotFound: no such scope.
        SourceConflict: its (type, id) is taken by other content or metadata.
    """
    (result,) = capture_many(db, scope_id, [source], now_us=now_us)
    if result.status == "conflict":
        raise SourceConflict(
            f"source {source.source_id!r} of type {source.source_type!r} is at position "
            f"{result.position} with other content or metadata",
            source_type=source.source_type,
            source_id=source.source_id,
            position=result.position,
        )
    return result


def capture_many(
    db: Database, scope_id: str, offered: Sequence[NewSource], *, now_us: int
) -> list[Captured]:
    """Append the new ones of some sources, in order, in one transaction.

    Conflicts are reported, not raised: they leave the others unharmed. Positions are given
    out under the log's lock, so they are dense and no reader sees n + 1 before n.

    Raises:
        ScopeNotFound: no such scope.
    """
    if not offered:
        with db.read() as conn:
            scopes.get(conn, scope_id)
        return []
    with db.write() as conn:
        head = sources.lock_head(conn, scope_id)
        seen = sources.known(conn, scope_id, offered)
        results: list[Captured] = []
        new: list[NewSource] = []
        for source in offered:
            key = source.source_type, source.source_id
            known = seen.get(key)
            if known is None:
                new.append(source)
                seen[key] = sources.Known(head + len(new), source.digest)
                results.append(Captured("new", head + len(new)))
            elif known.digest == source.digest:
                results.append(Captured("known", known.position))
            else:
                results.append(Captured("conflict", known.position))
        if new:
            sources.append(conn, scope_id, new, after=head, now_us=now_us)
    return results


def read_source(db: Database, scope_id: str, source_type: str, source_id: str) -> Source:
    """Return one source. Raises NotFound."""
    with db.read() as conn:
        return sources.get(conn, scope_id, source_type, source_id)


def list_sources(db: Database, scope_id: str, *, after: int = 0, limit: int) -> list[Source]:
    """Sources at positions after the given one, in order. Raises NotFound: no such scope."""
    with db.read() as conn:
        scopes.get(conn, scope_id)
        return sources.between(conn, scope_id, after=after, through=after + limit)


def logs_changed_since(db: Database, moment_us: int, *, limit: int) -> list[tuple[str, int, int]]:
    """(scope, high watermark, changed at) of logs that grew at or after a moment, oldest first."""
    with db.read() as conn:
        return sources.heads_changed_since(conn, moment_us, limit=limit)
