"""Search by words and by meaning, and make one ranking of both.

| mode asked for | what is used |
|---|---|
| `fts` | words |
| `vector`, `hybrid` | as asked; `NotSupported` when there is no embedder or it fails |
| `auto` | `hybrid` where the scope has vectors and it suits the embedder, else `fts` |

A query without content-bearing terms asks for nothing, in every mode. Where only some documents
have vectors, the others are found by their words.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from pc_store.errors import ModelError, NotSupported
from pc_store.ledger.database import Database
from pc_store.search import nearest
from pc_store.search.fusion import DEPTH, fuse
from pc_store.search.lexical import Results
from pc_store.search.nearest import Vector, Vectors
from pc_store.search.tokens import Unit, is_east_asian, query_units
from pc_store.services import embed
from pc_store.services.embed import LedgerEmbedder
from pc_store.services.gather import Reading, consult
from pc_store.settings import Settings

Mode = Literal["auto", "fts", "vector", "hybrid"]
Channel = Literal["fts", "vector"]
Used = Literal["fts", "vector", "hybrid"]

EAST_ASIAN_WEIGHTS: Mapping[str, float] = {"builtin:usem3:512:unit": 0.05}
"""By profile, embedders that find more with Chinese, Japanese and Korean queries but less with
others, and the vector weight that suits them. Any other embedder is used for every query, with
weight 1. Measured by benchmarks/retrieval.py; docs/decisions/0010."""

_UNITS = {"fts": "bm25", "vector": "cosine"}
"""In what each channel scores."""

T = TypeVar("T")


@dataclass(frozen=True)
class Question:
    """A query, understood.

    Attributes:
        text: as it was asked.
        units: what it asks for by words; empty when nothing in it bears content.
        vector: what it means, float32[dims] of unit length, if that is known and wanted.
        made: vectors of documents' texts that the ledger has none of, by text digest.
    """

    text: str
    mode: Mode
    units: tuple[Unit, ...]
    embedder: LedgerEmbedder | None = None
    vector: Vector | None = None
    made: Mapping[str, Vector] = field(default_factory=dict)


@dataclass(frozen=True)
class Coverage:
    """How many documents could be searched, by words and by meaning."""

    entries: int
    vectors: int


NOTHING = Coverage(0, 0)


@dataclass(frozen=True)
class Blended:
    """One hit, before the ledger is asked for its text.

    Attributes:
        ranks: by channel, `fts` and `vector`, those that found it.
        channels: its score in each: `bm25` and `cosine`.
    """

    ref: str
    version: str
    score: float
    ranks: Mapping[str, int]
    channels: Mapping[str, float]
    matched_terms: tuple[str, ...]

    @property
    def matched_by(self) -> tuple[Channel, ...]:
        """The channels that found it."""
        channels: tuple[Channel, ...] = ("fts", "vector")
        return tuple(name for name in channels if name in self.ranks)


@dataclass(frozen=True)
class Blend:
    """What a question found, before anything is known of the texts.

    Attributes:
        words, vectors: what each channel has to rank; None where the mode does not ask it.
    """

    used: Used
    coverage: Coverage
    reading: Reading
    words: Results | None
    vectors: Vectors | None
    meaning: Vector | None
    weights: Mapping[str, float]

    def top(self, limit: int, *, without: Collection[tuple[str, str]] = ()) -> list[Blended]:
        """At most `limit` hits, best first, ties in order of their refs.

        Args:
            without: (ref, version) of documents that do not count, not even in ranks.

        Raises:
            shards.Torn: the shard turned out to be torn.
        """
        alone = self.words is None or self.vectors is None or self.meaning is None
        depth = limit if alone else max(DEPTH, limit)
        scores: dict[str, dict[int, float]] = {}
        if self.words is not None:
            found = self.words.top(depth + len(without))
            scores["fts"] = {one.doc: one.bm25 for one in found}
        if self.vectors is not None and self.meaning is not None:
            near = self.vectors.nearest(self.meaning, limit=depth + len(without))
            scores["vector"] = {one.doc: one.cosine for one in near}
        ids = {doc: self.reading.words.id_of(doc) for of in scores.values() for doc in of}
        rankings = {
            channel: sorted(
                (doc for doc in of if ids[doc] not in without),
                key=lambda doc, of=of: (-of[doc], ids[doc]),  # type: ignore[misc]
            )[:depth]
            for channel, of in scores.items()
        }
        fused = fuse(rankings, self.weights, key=lambda doc: ids[doc][0])[:limit]
        return [
            Blended(
                *ids[one.doc],
                score=one.score,
                ranks=one.ranks,
                channels={_UNITS[name]: scores[name][one.doc] for name in one.ranks},
                matched_terms=self.words.matched(one.doc)
                if self.words is not None and "fts" in one.ranks
                else (),
            )
            for one in fused
        ]


def answer(
    db: Database,
    settings: Settings,
    scope_id: str,
    family: str,
    question: Question,
    finish: Callable[[Reading, Callable[[], Blend]], T],
) -> T | None:
    """Ask a question of a scope's documents; None while its memory is empty.

    Texts that no one has embedded yet are embedded for this answer, if they are few; nothing
    is written.

    Args:
        finish: makes the answer, within the read of the ledger, of what `Blend` it asks for.

    Raises:
        ScopeNotFound: no such scope.
        NotSupported: the mode needs an embedder, and there is none that works.
    """
    for attempt in range(2):
        wanted: dict[str, str] = {}

        def ask(reading: Reading, asked: Question = question, wanted: dict[str, str] = wanted) -> T:
            return finish(reading, lambda: _blend(settings, asked, reading, wanted))

        result = consult(db, settings, scope_id, family, ask)
        if attempt or not wanted or question.embedder is None:
            break
        made = _made(question.embedder, wanted)
        if not made:
            break
        question = replace(question, made=made)
    return result


def modes(settings: Settings) -> tuple[Mode, ...]:
    """The modes that can be asked for."""
    if settings.embedding_provider == "none":
        return ("auto", "fts")
    return ("auto", "fts", "vector", "hybrid")


def by_words(settings: Settings, reading: Reading, units: Sequence[Unit]) -> Blend:
    """What shares terms with some units."""
    return _blend(settings, Question("", "fts", tuple(units)), reading, {})


def _blend(
    settings: Settings, question: Question, reading: Reading, wanted: dict[str, str]
) -> Blend:
    """What the question finds; texts that would have to be embedded are added to `wanted`."""
    mode, embedder = question.mode, question.embedder
    if mode in ("vector", "hybrid") and embedder is None:
        raise NotSupported(mode, f"{mode} search needs an embedder, and there is none that works")
    vectors: Vectors | None = None
    compared = 0
    if embedder is not None:
        late = reading.late(
            embedder.profile, embedder.dims, question.made, unless_none=mode == "auto"
        )
        vectors = Vectors(reading.part, reading.words.gone, late.vectors, profile=embedder.profile)
        compared = vectors.documents
        if mode != "auto" or compared:
            wanted.update(late.missing)
    used: Used = "fts" if mode == "fts" else "hybrid" if mode in ("auto", "hybrid") else "vector"
    if mode == "auto" and not compared:
        used, vectors = "fts", None
    results = reading.words.search(question.units) if used != "vector" else None
    return Blend(
        used,
        Coverage(reading.words.entries, compared),
        reading,
        results,
        vectors,
        question.vector,
        {"fts": settings.search_fts_weight, "vector": _vector_weight(settings, embedder)},
    )


def _made(embedder: LedgerEmbedder, wanted: Mapping[str, str]) -> dict[str, Vector]:
    """Vectors of texts, by SHA-256, as far as they can be had; the rest only costs coverage."""
    names = list(wanted)
    done = embedder.attempt(list(wanted.values()))
    return {
        names[place]: vector
        for place, vector in done.made.items()
        if nearest.usable(vector, embedder.dims)
    }


def understand(db: Database, settings: Settings, query: str, mode: Mode) -> Question:
    """Prepare a query: what its words are and, where the mode may need it, what it means.

    No transaction is open while the embedder works; one that fails leaves no vector.
    """
    question = Question(query, mode, query_units(query))
    if mode == "fts" or (mode == "auto" and settings.search_auto == "fts"):
        return question
    embedder = embed.embedder(db, settings)
    if embedder is None:
        return question
    if mode == "auto" and (settings.search_auto or auto_of(embedder.profile, query)) == "fts":
        return question
    question = replace(question, embedder=embedder)
    if not question.units:
        return question
    try:
        vector = embedder.embed([query.strip()])[0]
    except ModelError:
        return replace(question, embedder=None)
    if not nearest.usable(vector, embedder.dims):
        return replace(question, embedder=None)
    return replace(question, vector=vector)


def auto_of(profile: str, query: str) -> Literal["fts", "hybrid"]:
    """What `auto` uses with an embedder for a query, unless the settings say."""
    return "fts" if profile in EAST_ASIAN_WEIGHTS and not is_east_asian(query) else "hybrid"


def _vector_weight(settings: Settings, embedder: LedgerEmbedder | None) -> float:
    if settings.search_vector_weight is not None or embedder is None:
        return settings.search_vector_weight or 1.0
    return EAST_ASIAN_WEIGHTS.get(embedder.profile, 1.0)
