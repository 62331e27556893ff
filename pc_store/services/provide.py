"""Build the proposer in force, with the ledger's vectors at hand."""

from collections.abc import Sequence

import numpy as np

from pc_store.domain.proposal import Answer, Evidence, Proposer, ShownEntry
from pc_store.domain.text import digest, normalise
from pc_store.ledger import vectors
from pc_store.ledger.database import Database
from pc_store.llm.embeddings import Embedder, Vectors
from pc_store.llm.providers import proposer as configured
from pc_store.settings import Settings


class LedgerEmbedder:
    """An embedder that looks texts up in the ledger before it computes them."""

    def __init__(self, db: Database, inner: Embedder) -> None:
        self._db = db
        self._inner = inner
        self.profile = inner.profile
        self.dims = inner.dims

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, float32 (len(texts), dims), in the order of the texts."""
        digests = [digest(text) for text in texts]
        with self._db.read() as conn:
            known = vectors.get(conn, self.profile, digests)
        missing = [place for place, name in enumerate(digests) if name not in known]
        result = np.empty((len(texts), self.dims), dtype=np.float32)
        for place, name in enumerate(digests):
            if name in known:
                result[place] = known[name]
        if missing:
            result[missing] = self._inner.embed([texts[place] for place in missing])
        return result

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


class KeepingProposer:
    """A proposer whose proposals' vectors are stored: as entries they will be compared again."""

    def __init__(self, inner: Proposer, embedder: LedgerEmbedder) -> None:
        self._inner = inner
        self._embedder = embedder
        self.provider = inner.provider
        self.model = inner.model

    def propose(
        self, evidence: Sequence[Evidence], entries: Sequence[ShownEntry], *, policy: str
    ) -> Answer:
        """As the proposer inside."""
        answer = self._inner.propose(evidence, entries, policy=policy)
        self._embedder.keep([normalise(proposal.text) for proposal in answer.proposals])
        return answer


def proposer(db: Database, settings: Settings) -> Proposer:
    """The proposer the settings ask for.

    Raises:
        ModelMisconfigured: the endpoint's settings are incomplete.
    """
    wrapped: list[LedgerEmbedder] = []

    def remembering(embedder: Embedder) -> Embedder:
        wrapped.append(LedgerEmbedder(db, embedder))
        return wrapped[-1]

    inner = configured(settings, wrap=remembering)
    return KeepingProposer(inner, wrapped[0]) if wrapped else inner
