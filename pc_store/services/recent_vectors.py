"""What a process remembers of an embedder, so that it is not asked the same again and again."""

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from pc_store.errors import ModelError
from pc_store.llm.embeddings import Vectors

RECENT_TEXTS_MAX = 1_024
"""Texts, such as queries, whose vectors are remembered: 6 KB each for 1,536 dimensions."""

FAILED_S = 600.0
"""How long a text that cannot be embedded is not tried again by searches."""


class Recent:
    """What a process remembers of an embedder: the latest texts, and that it rests."""

    def __init__(self) -> None:
        self.rests_until = 0.0
        self._vectors: OrderedDict[str, Vectors] = OrderedDict()
        self._failed: OrderedDict[str, tuple[ModelError, float]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._vectors)

    def find(self, digests: Sequence[str]) -> dict[str, Vectors]:
        """The vectors that are remembered, by text digest."""
        found: dict[str, Vectors] = {}
        with self._lock:
            for name in digests:
                if name in self._vectors:
                    self._vectors.move_to_end(name)
                    found[name] = self._vectors[name]
        return found

    def failures(self, digests: Sequence[str]) -> dict[str, ModelError]:
        """Why texts have no vector, as far as that was found out a short while ago."""
        now = time.monotonic()
        with self._lock:
            known = {name: self._failed[name] for name in digests if name in self._failed}
        return {name: error for name, (error, until) in known.items() if now < until}

    def add(self, made: Mapping[str, Vectors], failed: Mapping[str, ModelError]) -> None:
        """Remember vectors and failures, and forget the longest unused ones."""
        until = time.monotonic() + FAILED_S
        with self._lock:
            self._vectors.update(made)
            self._failed.update((name, (error, until)) for name, error in failed.items())
            for kept in (self._vectors, self._failed):
                while len(kept) > RECENT_TEXTS_MAX:
                    kept.popitem(last=False)
