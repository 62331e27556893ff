"""Find entries: for a question, and for the sources of a window."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa

from pc_store import limits
from pc_store.domain.entry import EntryVersion
from pc_store.domain.refs import MEMORY_FAMILY, MEMORY_ID, ArtifactRef, Citation, SourceRef
from pc_store.domain.text import digest, within
from pc_store.errors import InvalidInput
from pc_store.ledger import entries, scopes, terms
from pc_store.ledger.database import Database
from pc_store.ledger.entries import EntryRow
from pc_store.ledger.terms import TermsRow
from pc_store.search import shards
from pc_store.search.lexical import SMALL_SCOPE, Found, Results, Words, outgrown
from pc_store.search.shards import Shard
from pc_store.search.tokens import TOKENISER, Unit, query_units

RANK_CONSTANT = 60
"""Reciprocal-rank fusion: score = 1 / (60 + rank). Cormack, Clarke & Büttcher, SIGIR 2009."""

RELEVANT_TEXTS_MAX = 100
RELEVANT_CHARS_MAX = 12_000
RELEVANT_TERMS_MAX = 256
"""How much of a window's texts is looked at to choose the entries shown beside it."""

T = TypeVar("T")


@dataclass(frozen=True)
class Hit:
    """One entry found. `score` only orders the hits of one answer; `bm25` says how well it fits."""

    citation: Citation
    kind: str
    text: str
    score: float
    bm25: float
    matched_terms: tuple[str, ...]
    sources: tuple[SourceRef, ...]
    version: int


@dataclass(frozen=True)
class SearchResult:
    """The memory that was searched, None before its first entry; and the hits, best first."""

    memory: ArtifactRef | None
    hits: tuple[Hit, ...] = ()


def search(
    db: Database,
    index_dir: Path,
    scope_id: str,
    query: str,
    *,
    limit: int = limits.SEARCH_LIMIT_DEFAULT,
) -> SearchResult:
    """Find the active entries that share content-bearing terms with the query.

    Sees every write committed before the call. Best first by BM25 over the scope's own
    entries, ties by entry id. A query without content-bearing terms finds nothing. Appending
    words to a query only adds entries to those it finds; `limit` then keeps the best of them.

    Args:
        query: at most 8,192 characters.
        limit: 1 to 50.

    Raises:
        NotFound: no such scope.
        InvalidInput: a limit is broken; or the query is blank and there is a memory to search.
    """
    if not 1 <= limit <= limits.SEARCH_LIMIT_MAX:
        raise InvalidInput("limit", f"is {limit}, expected 1 to {limits.SEARCH_LIMIT_MAX}")
    within("query", query, limits.QUERY_MAX_CHARS)

    def ask(conn: sa.Connection, head: int, words: Words) -> SearchResult:
        memory = ArtifactRef(MEMORY_FAMILY, MEMORY_ID, head)
        if not query.strip():
            raise InvalidInput("query", "is blank", code="string-empty")
        units = query_units(query)
        if not units:
            return SearchResult(memory)
        results = words.search(units)
        return SearchResult(
            memory,
            tuple(
                Hit(
                    citation=Citation(memory, entry.entry_id, entry.entry_version_id),
                    kind=entry.kind,
                    text=entry.text,
                    score=1 / (RANK_CONSTANT + place),
                    bm25=found.bm25,
                    matched_terms=results.matched(found),
                    sources=entry.source_refs,
                    version=entry.version,
                )
                for place, (found, entry) in enumerate(
                    _sound(conn, scope_id, results, limit), start=1
                )
            ),
        )

    return _asking(db, index_dir, scope_id, ask) or SearchResult(None)


def relevant(
    db: Database, index_dir: Path, scope_id: str, texts: Sequence[str], *, limit: int
) -> list[EntryVersion]:
    """The active entries most related to some texts.

    All of them by entry id if there are at most `limit`; otherwise at most `limit` that share
    a term with the texts, best first. Of the texts, the first 12,000 characters count, shared
    out evenly, and of those the 256 terms that most texts have.

    Raises:
        NotFound: no such scope.
    """
    if limit < 1:
        return []

    def ask(conn: sa.Connection, _head: int, words: Words) -> list[EntryVersion]:
        if words.entries <= limit:
            return [row.version for row in entries.active(conn, scope_id) if _is_sound(row)]
        units = _gist(texts)
        found = _sound(conn, scope_id, words.search(units), limit) if units else []
        return [entry for _, entry in found]

    return _asking(db, index_dir, scope_id, ask) or []


def _asking(
    db: Database,
    index_dir: Path,
    scope_id: str,
    ask: Callable[[sa.Connection, int, Words], T],
) -> T | None:
    """Ask the scope's words in one read of the ledger; None while the memory is empty.

    Builds the index afterwards if it is missing or outgrown. A shard that turns out to be torn
    is removed and the question is asked again.
    """
    for attempt in range(3):
        # opened before the ledger is read, so that a shard of this ledger is never ahead of it
        shard = shards.open_newest(index_dir, scope_id) if attempt < 2 else None
        try:
            with db.read() as conn:
                scopes.get(conn, scope_id)
                head = entries.head(conn, scope_id)
                if not head:
                    return None
                words, due = _words(conn, scope_id, head, shard)
                answer = ask(conn, head, words)
                anchor = terms.fingerprint(conn, scope_id, head) if due else ""
        except shards.Torn as error:
            if shard is None:
                raise
            shards.discard(shard.path, error)
            continue
        if due:
            shards.build(index_dir, scope_id, revision=head, anchor=anchor, rows=due)
        return answer
    raise AssertionError("the last attempt uses no shard and either answers or raises")


def _words(
    conn: sa.Connection, scope_id: str, head: int, shard: Shard | None
) -> tuple[Words, list[TermsRow]]:
    """The scope's words, and the rows to build a shard of, if one is due."""
    if shard is not None and not _belongs(conn, scope_id, head, shard):
        shards.discard(shard.path, "it was built from another ledger")
        shard = None
    if shard is not None:
        gone: set[str] = set()
        come: list[TermsRow] = []
        if shard.revision < head:
            gone, come = terms.changed(conn, scope_id, shard.revision, TOKENISER)
        if not outgrown(shard, len(gone) + len(come)):
            return Words(shard, gone, come), []
    rows = terms.active(conn, scope_id, TOKENISER)
    return Words(None, (), rows), rows if len(rows) >= SMALL_SCOPE else []


def _belongs(conn: sa.Connection, scope_id: str, head: int, shard: Shard) -> bool:
    """Whether a shard was built from this ledger, and not from one since replaced or restored."""
    return shard.revision <= head and shard.anchor == terms.fingerprint(
        conn, scope_id, shard.revision
    )


def _sound(
    conn: sa.Connection, scope_id: str, results: Results, limit: int
) -> list[tuple[Found, EntryVersion]]:
    """The best hits whose entry the ledger has exactly as it was written."""
    wanted = limit
    while True:
        top = results.top(wanted)
        rows = entries.current(conn, scope_id, (found.entry_id for found in top))
        sound = [
            (found, row.version)
            for found in top
            if (row := rows.get(found.entry_id)) is not None
            and row.version.entry_version_id == found.entry_version_id
            and row.version.state == "active"
            and _is_sound(row)
        ]
        if len(sound) >= limit or len(top) < wanted:
            return sound[:limit]
        wanted *= 2


def _is_sound(row: EntryRow) -> bool:
    return digest(row.version.text) == row.text_digest


def _gist(texts: Sequence[str]) -> list[Unit]:
    """The terms that say most about some texts, as one unit."""
    step = -(-len(texts) // RELEVANT_TEXTS_MAX)
    chosen = texts[::step] if step else texts
    counts: dict[str, int] = {}
    for text in chosen:
        head = text[: RELEVANT_CHARS_MAX // len(chosen)]
        for term in _strong(query_units(head)):
            counts[term] = counts.get(term, 0) + 1
    terms = sorted(counts, key=lambda term: -counts[term])[:RELEVANT_TERMS_MAX]
    return [Unit(tuple(terms))] if terms else []


def _strong(units: Iterable[Unit]) -> Iterable[str]:
    return dict.fromkeys(term for unit in units for term in unit.strong)
