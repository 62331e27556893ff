"""Find entries and experiences: for a question, and for the sources of a window."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pc_store import limits
from pc_store.domain.entry import EntryVersion
from pc_store.domain.experience import Experience
from pc_store.domain.refs import (
    EXPERIENCE_FAMILY,
    MEMORY_FAMILY,
    MEMORY_ID,
    ArtifactRef,
    Citation,
    SourceRef,
)
from pc_store.domain.text import digest, within
from pc_store.errors import InvalidInput
from pc_store.ledger import entries, experiences, terms
from pc_store.ledger.database import Database
from pc_store.ledger.entries import EntryRow
from pc_store.search.fusion import RANK_CONSTANT as RANK_CONSTANT
from pc_store.search.tokens import Unit, query_units
from pc_store.services import blend
from pc_store.services.blend import NOTHING, Blend, Blended, Channel, Coverage, Used
from pc_store.services.blend import Mode as Mode
from pc_store.services.blend import Question as Question
from pc_store.services.blend import understand as understand
from pc_store.services.gather import Reading, consult
from pc_store.settings import Settings

RELEVANT_TEXTS_MAX = 100
RELEVANT_CHARS_MAX = 12_000
RELEVANT_TERMS_MAX = 256
"""How much of a window's texts is looked at to choose the entries shown beside it."""


@dataclass(frozen=True)
class Hit:
    """One entry found. `score` only orders the hits of one answer.

    Attributes:
        matched_terms: words of the query that it has; none when only its meaning fits.
        ranks: from 1, by the channels that found it.
        channels: how well it fits, in each channel's own unit: `bm25`, `cosine`.
    """

    citation: Citation
    kind: str
    text: str
    score: float
    version: int
    sources: tuple[SourceRef, ...]
    matched_terms: tuple[str, ...]
    matched_by: tuple[Channel, ...]
    ranks: Mapping[str, int]
    channels: Mapping[str, float]


@dataclass(frozen=True)
class SearchResult:
    """What a search of a memory found, best first.

    Attributes:
        memory: as it was searched; None before its first entry, and so is the mode.
        mode: what was used.
    """

    memory: ArtifactRef | None
    mode: Used | None = None
    hits: tuple[Hit, ...] = ()
    coverage: Coverage = NOTHING


@dataclass(frozen=True)
class ExperienceHit:
    """One experience found; the attributes are those of `Hit`."""

    ref: ArtifactRef
    content: Experience
    score: float
    matched_terms: tuple[str, ...]
    matched_by: tuple[Channel, ...]
    ranks: Mapping[str, int]
    channels: Mapping[str, float]


@dataclass(frozen=True)
class ExperienceResult:
    """What a search of experiences found, best first. No mode: there is no active experience."""

    mode: Used | None
    hits: tuple[ExperienceHit, ...] = ()
    coverage: Coverage = NOTHING


def search(
    db: Database,
    settings: Settings,
    scope_id: str,
    query: str | Question,
    *,
    mode: Mode = "auto",
    limit: int = limits.SEARCH_LIMIT_DEFAULT,
) -> SearchResult:
    """Find the active entries that a query asks for, by words, by meaning or by both.

    Sees every write committed before the call. By words, an entry is a hit when it shares a
    content-bearing term with the query, best first by BM25 over the scope's own entries; by
    meaning, when the cosine is at least 0.30. Ties are in order of entry ids. A query without
    content-bearing terms finds nothing in any mode. Appending words to a query only adds to
    what is found by words; `limit` then keeps the best.

    Args:
        query: at most 8,192 characters; or what `understand` made of one and its mode, for who
            asks several scopes.
        limit: 1 to 50.

    Raises:
        ScopeNotFound: no such scope.
        InvalidInput: a limit is broken; or the query is blank and there is a memory to search.
        NotSupported: there is a memory, and no working embedder for the mode.
    """
    question = _question(db, settings, query, mode, limit)

    def finish(reading: Reading, find: Callable[[], Blend]) -> SearchResult:
        memory = ArtifactRef(MEMORY_FAMILY, MEMORY_ID, reading.head)
        _refuse_blank(question.text)
        found = find()
        hits = tuple(
            Hit(
                citation=Citation(memory, entry.entry_id, entry.entry_version_id),
                kind=entry.kind,
                text=entry.text,
                score=one.score,
                version=entry.version,
                sources=entry.source_refs,
                matched_terms=one.matched_terms,
                matched_by=one.matched_by,
                ranks=one.ranks,
                channels=one.channels,
            )
            for one, entry in (_sound(reading, found, limit) if question.units else ())
        )
        return SearchResult(memory, found.used, hits, found.coverage)

    result = blend.answer(db, settings, scope_id, MEMORY_FAMILY, question, finish)
    return result or SearchResult(None)


def search_experiences(
    db: Database,
    settings: Settings,
    scope_id: str,
    query: str | Question,
    *,
    mode: Mode = "auto",
    limit: int = limits.SEARCH_LIMIT_DEFAULT,
) -> ExperienceResult:
    """Find the active experiences that a query asks for, as `search` finds entries.

    Raises:
        ScopeNotFound, InvalidInput, NotSupported: as `search`.
    """
    question = _question(db, settings, query, mode, limit)

    def finish(reading: Reading, find: Callable[[], Blend]) -> ExperienceResult:
        if not reading.words.entries:
            return ExperienceResult(None)
        _refuse_blank(question.text)
        found = find()
        hits = []
        for one in found.top(limit) if question.units else ():
            revision = terms.revision_of(one.version)
            ref = ArtifactRef(EXPERIENCE_FAMILY, one.ref, revision)
            hits.append(
                ExperienceHit(
                    ref=ref,
                    content=experiences.content(reading.conn, scope_id, ref),
                    score=one.score,
                    matched_terms=one.matched_terms,
                    matched_by=one.matched_by,
                    ranks=one.ranks,
                    channels=one.channels,
                )
            )
        return ExperienceResult(found.used, tuple(hits), found.coverage)

    result = blend.answer(db, settings, scope_id, EXPERIENCE_FAMILY, question, finish)
    return result or ExperienceResult(None)


def relevant(
    db: Database, settings: Settings, scope_id: str, texts: Sequence[str], *, limit: int
) -> list[EntryVersion]:
    """The active entries most related to some texts, by words.

    All of them by entry id if there are at most `limit`; otherwise at most `limit` that share
    a term with the texts, best first. Of the texts, the first 12,000 characters count, shared
    out evenly, and of those the 256 terms that most texts have.

    Raises:
        ScopeNotFound: no such scope.
    """
    if limit < 1:
        return []

    def ask(reading: Reading) -> list[EntryVersion]:
        if reading.words.entries <= limit:
            rows = entries.active(reading.conn, scope_id)
            return [row.version for row in rows if _is_sound(row)]
        units = _gist(texts)
        if not units:
            return []
        found = blend.by_words(settings, reading, units)
        return [entry for _, entry in _sound(reading, found, limit)]

    return consult(db, settings, scope_id, MEMORY_FAMILY, ask) or []


def _question(
    db: Database, settings: Settings, query: str | Question, mode: Mode, limit: int
) -> Question:
    if not 1 <= limit <= limits.SEARCH_LIMIT_MAX:
        raise InvalidInput("limit", f"is {limit}, expected 1 to {limits.SEARCH_LIMIT_MAX}")
    if isinstance(query, Question):
        return query
    within("query", query, limits.QUERY_MAX_CHARS)
    return understand(db, settings, query, mode)


def _refuse_blank(query: str) -> None:
    if not query.strip():
        raise InvalidInput("query", "is blank", code="string-empty")


def _sound(reading: Reading, found: Blend, limit: int) -> list[tuple[Blended, EntryVersion]]:
    """The best hits whose entry the ledger has exactly as it was written; the others count
    nowhere."""
    altered: set[tuple[str, str]] = set()
    while True:
        top = found.top(limit, without=altered)
        rows = entries.current(reading.conn, reading.scope_id, (one.ref for one in top))
        sound = [
            (one, row.version)
            for one in top
            if (row := rows.get(one.ref)) is not None
            and row.version.entry_version_id == one.version
            and row.version.state == "active"
            and _is_sound(row)
        ]
        if len(sound) == len(top):
            return sound
        altered |= {(one.ref, one.version) for one in top} - {
            (one.ref, one.version) for one, _ in sound
        }


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
    best = sorted(counts, key=lambda term: -counts[term])[:RELEVANT_TERMS_MAX]
    return [Unit(tuple(best))] if best else []


def _strong(units: Iterable[Unit]) -> Iterable[str]:
    return dict.fromkeys(term for unit in units for term in unit.strong)
