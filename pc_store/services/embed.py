"""Vectors of texts: looked up in the ledger, computed where there are none.

Which embedder is in force, and what its dimensions are, is settled here too: an endpoint tells
its dimensions only with a vector, so they are asked for once and then kept in the ledger.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from pc_store.domain.text import digest
from pc_store.errors import ModelError, ModelUnavailable, StoreError
from pc_store.ledger import facts, vectors
from pc_store.ledger.database import Database
from pc_store.llm import providers
from pc_store.llm.embeddings import Embedded, Embedder, Vectors
from pc_store.services.recent_vectors import Recent
from pc_store.settings import Settings

REST_S = 15.0
"""How long an embedder that kept a caller waiting in vain is not asked again."""
_LONG_S = 1.0

_DIMS_FACT = "embedding_dims {}"
_CONFIRMING = "dimensions"
_log = logging.getLogger(__name__)


class LedgerEmbedder:
    """An embedder that looks texts up in the ledger before it computes them.

    Args:
        recent: shared by all of a process that embed alike.
        on_other_size: told the dimensions of vectors that are not of this profile's.

    Raises:
        ModelError: the dimensions are not known and the model cannot be asked for them.
    """

    def __init__(
        self,
        db: Database,
        inner: Embedder,
        recent: Recent | None = None,
        *,
        on_other_size: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._db = db
        self._inner = inner
        self._on_other_size = on_other_size
        self.profile = inner.profile
        self.dims = inner.dims
        self.recent = Recent() if recent is None else recent

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, float32 (len(texts), dims), in the order of the texts.

        Raises:
            ModelError: a text has no vector, or the embedder cannot answer; see `attempt`.
        """
        done = self.attempt(texts)
        failure = done.stopped or next(iter(done.failed.values()), None)
        if failure is not None:
            raise failure
        result = np.empty((len(texts), self.dims), dtype=np.float32)
        for place, vector in done.made.items():
            result[place] = vector
        return result

    def attempt(self, texts: Sequence[str]) -> Embedded:
        """Vectors of as many of the texts as can be had. Raises no ModelError.

        A text that cannot be embedded is not tried again for a while, and nothing is asked of an
        embedder that has just kept another caller waiting in vain.
        """
        names = [digest(_storable(text)) for text in texts]
        known = self.recent.find(names)
        failed = self.recent.failures(names)
        unknown = [name for name in dict.fromkeys(names) if name not in known | failed]
        stopped = None
        if unknown:
            with self._db.read() as conn:
                filed = vectors.get(conn, self.profile, unknown)
            text_of = dict(zip(names, texts, strict=True))
            missing = [name for name in unknown if name not in filed]
            made: dict[str, Vectors] = {}
            refused: dict[str, ModelError] = {}
            if missing:
                done = self._patiently([text_of[name] for name in missing])
                made = {missing[place]: vector for place, vector in done.made.items()}
                refused = {missing[place]: error for place, error in done.failed.items()}
                stopped = done.stopped
            known |= filed | made
            failed |= refused
            self.recent.add(filed | made, refused)
        return Embedded(
            {place: known[name] for place, name in enumerate(names) if name in known},
            {place: failed[name] for place, name in enumerate(names) if name in failed},
            stopped,
        )

    def compute(self, texts: Sequence[str]) -> Embedded:
        """As the embedder inside, without a look at what is known."""
        return self._inner.attempt(texts)

    def keep(self, texts: Sequence[str]) -> None:
        """Store the texts' vectors, so that no later run computes them again."""
        if texts:
            made = self.embed(texts)
            with self._db.write() as conn:
                vectors.put(
                    conn,
                    self.profile,
                    {digest(text): made[place] for place, text in enumerate(texts)},
                )

    def _patiently(self, texts: list[str]) -> Embedded:
        started = time.monotonic()
        if started < self.recent.rests_until:
            resting = ModelUnavailable("the embedding endpoint did not answer a moment ago")
            return Embedded({}, {}, resting)
        done = self._inner.attempt(texts)
        if done.stopped is not None:
            if "dims" in done.stopped.details:
                self._on_other_size(done.stopped.details["dims"])
            if (now := time.monotonic()) - started > _LONG_S:
                self.recent.rests_until = now + REST_S
        return done


@dataclass
class _Settled:
    """The embedder of one configuration, its dimensions known; None if it cannot be used yet.

    It holds no ledger: what is kept by ledger must not keep the ledger.
    """

    inner: Embedder | None
    recent: Recent
    unusable_until: float = 0.0


_settled: WeakKeyDictionary[Database, dict[Embedder, _Settled]] = WeakKeyDictionary()
_settling = threading.Lock()


def embedder(db: Database, settings: Settings) -> LedgerEmbedder | None:
    """The embedder in force; None when there is none, or none that can be used now.

    The latter is logged, and tried again after a while: whoever searches does so by words.
    """
    try:
        base = providers.embedder(settings)
        if base is None:
            return None
        with _settling:
            known = _settled.setdefault(db, {}).get(base)
        if known is not None and known.inner is not None:
            return _of(db, settings, known.inner, known.recent)
        if known is not None and time.monotonic() < known.unusable_until:
            return None
        return settle(db, settings)
    except ModelError as error:
        _log.warning("texts cannot be embedded: %s", error.message)
        return None


def settle(db: Database, settings: Settings) -> LedgerEmbedder | None:
    """The embedder in force, its dimensions known; None when the settings ask for none.

    Raises:
        ModelError: the settings are incomplete, or the endpoint has to be asked for its
            dimensions and does not tell them.
    """
    base = providers.embedder(settings)
    if base is None:
        return None
    dims = _kept_dims(db, settings)
    try:
        inner = providers.embedder(settings, dims=dims)
        assert inner is not None
        made = _of(db, settings, inner, Recent())
    except ModelError:
        with _settling:
            unusable_until = time.monotonic() + REST_S
            _settled.setdefault(db, {})[base] = _Settled(None, Recent(), unusable_until)
        raise
    if settings.embedding_provider == "openai" and settings.embed_dims is None and dims is None:
        _keep_dims(db, settings, made.dims)
    with _settling:
        _settled.setdefault(db, {})[base] = _Settled(inner, made.recent)
    return made


def _of(db: Database, settings: Settings, inner: Embedder, recent: Recent) -> LedgerEmbedder:
    return LedgerEmbedder(
        db, inner, recent, on_other_size=lambda dims: begin_anew(db, settings, dims)
    )


def begin_anew(db: Database, settings: Settings, dims: int) -> None:
    """Take it that a model was replaced by one of another size under the same name.

    A second vector of that size has to confirm it. From then on there is another profile, without
    vectors; back-fills fill it. Dimensions that the settings ask for are never given up.
    """
    if settings.embed_dims is not None:
        return
    try:
        other = providers.embedder(settings, dims=dims)
        assert other is not None
        other.embed([_CONFIRMING])
    except ModelError:
        return
    with suppress(StoreError):  # whoever meets it next tries again
        _keep_dims(db, settings, dims)
        _forget(db)


def known_profile(db: Database, settings: Settings) -> str | None:
    """The profile of the embedder in force, as far as it is known without asking an endpoint."""
    try:
        dims = _kept_dims(db, settings)
        if settings.embedding_provider == "openai" and dims is None and not settings.embed_dims:
            return None
        inner = providers.embedder(settings, dims=dims)
        return inner.profile if inner is not None else None
    except ModelError:
        return None


def _kept_dims(db: Database, settings: Settings) -> int | None:
    """The dimensions an endpoint once told; None when it did not, or when they are asked for."""
    if settings.embedding_provider != "openai" or settings.embed_dims is not None:
        return None
    with db.read() as conn:
        kept = facts.get(conn, _DIMS_FACT.format(settings.embed_model))
    return int(kept) if kept else None


def _keep_dims(db: Database, settings: Settings, dims: int) -> None:
    with db.write() as conn:
        facts.put(conn, _DIMS_FACT.format(settings.embed_model), str(dims))


def _forget(db: Database) -> None:
    """Settle the embedder anew at the next need."""
    with _settling:
        _settled.pop(db, None)


def _storable(text: str) -> str:
    """A query may hold what no entry can: a lone surrogate has no digest."""
    return text.encode("utf-8", "replace").decode()
