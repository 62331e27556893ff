"""Generations: replays kept beside a memory, their windows, and the drafts that wait in them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from pc_store.domain.entry import Draft
from pc_store.domain.generation import KeptDraft, Status
from pc_store.domain.refs import SourceRef
from pc_store.domain.text import digest
from pc_store.errors import NotFound
from pc_store.ledger.schema import generation_drafts, generation_windows, generations
from pc_store.ledger.windows import WindowRow


@dataclass(frozen=True)
class GenerationRow:
    """One row of the generations table; see `schema.generations` for what the columns say."""

    scope_id: str
    name: str
    status: Status
    provider: str | None
    model: str | None
    prompt_key: str | None
    prompt_revision: str | None
    scope_prompt: int | None
    created_at: int
    ended_at: int | None
    memory_revision: int | None
    outcome: Mapping[str, Any] | None


@dataclass(frozen=True)
class Replayed:
    """A window that a generation has replayed, and the sources it showed."""

    window_id: str
    after: int
    through: int
    sources: tuple[SourceRef, ...]


_COLUMNS = [generations.c[field.name] for field in fields(GenerationRow)]


def get(conn: sa.Connection, scope_id: str, name: str, *, lock: bool = False) -> GenerationRow:
    """Return a generation, locked until the transaction ends if asked. Raises NotFound."""
    query = sa.select(*_COLUMNS).where(*_named(generations, scope_id, name, column="name"))
    row = conn.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise NotFound(f"the scope has no generation {name!r}", generation=name)
    return GenerationRow(**row._mapping)


def ensure(conn: sa.Connection, scope_id: str, name: str, *, now_us: int) -> GenerationRow:
    """Return a generation, made if there is none, locked until the transaction ends."""
    with suppress(NotFound):
        return get(conn, scope_id, name, lock=True)
    with suppress(IntegrityError), conn.begin_nested():  # another run may be first
        conn.execute(
            sa.insert(generations).values(
                scope_id=scope_id, name=name, status="open", created_at=now_us
            )
        )
    return get(conn, scope_id, name, lock=True)


def page(conn: sa.Connection, scope_id: str, *, after: str = "", limit: int) -> list[GenerationRow]:
    """Generations of a scope by name, after the given one."""
    query = (
        sa.select(*_COLUMNS)
        .where(generations.c.scope_id == scope_id, generations.c.name > after)
        .order_by(generations.c.name)
        .limit(limit)
    )
    return [GenerationRow(**row._mapping) for row in conn.execute(query)]


def update(conn: sa.Connection, scope_id: str, name: str, **values: Any) -> None:
    """Set columns of a generation."""
    where = _named(generations, scope_id, name, column="name")
    conn.execute(sa.update(generations).where(*where).values(values))


def add_window(conn: sa.Connection, window: WindowRow, shown: Sequence[SourceRef]) -> None:
    """Note that a window's generation has replayed it."""
    conn.execute(
        sa.insert(generation_windows).values(
            scope_id=window.scope_id,
            generation=window.generation,
            after=window.after,
            through=window.through,
            window_id=window.window_id,
            sources=[[ref.source_type, ref.source_id] for ref in shown],
        )
    )


def window_id(
    conn: sa.Connection, scope_id: str, name: str, *, after: int, through: int
) -> str | None:
    """The window in which a generation replayed exactly these positions."""
    query = sa.select(generation_windows.c.window_id).where(
        *_named(generation_windows, scope_id, name),
        generation_windows.c.after == after,
        generation_windows.c.through == through,
    )
    return conn.execute(query).scalar_one_or_none()


def replayed(conn: sa.Connection, scope_id: str, name: str) -> list[Replayed]:
    """The windows of a generation, in log order."""
    query = (
        sa.select(generation_windows)
        .where(*_named(generation_windows, scope_id, name))
        .order_by(generation_windows.c.after, generation_windows.c.through)
    )
    return [
        Replayed(
            row.window_id,
            row.after,
            row.through,
            tuple(SourceRef(*pair) for pair in row.sources),
        )
        for row in conn.execute(query)
    ]


def counts(
    conn: sa.Connection, scope_id: str, names: Collection[str]
) -> dict[str, tuple[int, int]]:
    """(windows replayed, drafts that wait) of each of the generations."""
    found: list[dict[str, int]] = []
    for table in (generation_windows, generation_drafts):
        query = (
            sa.select(table.c.generation, sa.func.count().label("rows"))
            .where(table.c.scope_id == scope_id, table.c.generation.in_(names))
            .group_by(table.c.generation)
        )
        found.append({row.generation: row.rows for row in conn.execute(query)})
    return {name: (found[0].get(name, 0), found[1].get(name, 0)) for name in names}


def put_drafts(conn: sa.Connection, window: WindowRow, kept: Iterable[KeptDraft]) -> None:
    """Keep what a window proposes, in order."""
    rows = [
        {
            "scope_id": window.scope_id,
            "generation": window.generation,
            "window_id": window.window_id,
            "ordinal": ordinal,
            "intent": item.draft.intent,
            "kind": item.draft.kind,
            "text": item.draft.text,
            "text_digest": digest(item.draft.text),
            "sources": [[ref.source_type, ref.source_id] for ref in item.draft.sources],
            "entry_id": item.draft.entry_id,
            "against": item.against,
            "reason": item.draft.reason,
        }
        for ordinal, item in enumerate(kept, start=1)
    ]
    if rows:
        conn.execute(sa.insert(generation_drafts), rows)


def drafts(conn: sa.Connection, scope_id: str, name: str) -> list[KeptDraft]:
    """What a generation's windows propose, in log order."""
    query = (
        sa.select(generation_drafts)
        .join(
            generation_windows,
            sa.and_(
                generation_windows.c.scope_id == generation_drafts.c.scope_id,
                generation_windows.c.generation == generation_drafts.c.generation,
                generation_windows.c.window_id == generation_drafts.c.window_id,
            ),
        )
        .where(*_named(generation_drafts, scope_id, name))
        .order_by(
            generation_windows.c.after, generation_windows.c.through, generation_drafts.c.ordinal
        )
    )
    return [
        KeptDraft(
            Draft(
                intent=row.intent,
                kind=row.kind,
                text=row.text,
                sources=tuple(SourceRef(*pair) for pair in row.sources),
                entry_id=row.entry_id,
                reason=row.reason,
            ),
            against=row.against,
        )
        for row in conn.execute(query)
    ]


def erase_drafts(conn: sa.Connection, scope_id: str, name: str) -> None:
    """Delete all that a generation proposes."""
    conn.execute(sa.delete(generation_drafts).where(*_named(generation_drafts, scope_id, name)))


def purge(conn: sa.Connection, scope_id: str, entry_id: str, text_digests: Collection[str]) -> None:
    """Delete, from all generations of the scope, revisions of an entry and drafts of its texts."""
    conn.execute(
        sa.delete(generation_drafts).where(
            generation_drafts.c.scope_id == scope_id, generation_drafts.c.entry_id == entry_id
        )
    )
    digests = sorted(text_digests)
    for start in range(0, len(digests), 500):
        conn.execute(
            sa.delete(generation_drafts).where(
                generation_drafts.c.scope_id == scope_id,
                generation_drafts.c.text_digest.in_(digests[start : start + 500]),
            )
        )


def _named(
    table: sa.Table, scope_id: str, name: str, *, column: str = "generation"
) -> tuple[sa.ColumnElement[bool], ...]:
    return table.c.scope_id == scope_id, table.c[column] == name
