"""Append sources to a scope's log: once each, however often they are offered."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pc_store.domain.source import NewSource, Source
from pc_store.errors import SourceConflict
from pc_store.ledger import scopes, sources
from pc_store.ledger.database import Database


@dataclass(frozen=True)
class Captured:
    """What became of one offered source."""

    status: Literal["new", "known", "conflict"]
    position: int
    """Where it stands in the log; for a conflict, where its namesake stands."""


def capture(db: Database, scope_id: str, source: NewSource, *, now_us: int) -> Captured:
    """Append one source; offering it again changes nothing and answers its position.

    Raises:
        NotFound: no such scope.
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
        NotFound: no such scope.
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
