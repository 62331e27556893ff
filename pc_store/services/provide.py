"""Build the proposer in force, with the ledger's vectors at hand."""

from collections.abc import Sequence

from pc_store.domain.proposal import Answer, Evidence, Proposer, ShownEntry
from pc_store.domain.text import normalise
from pc_store.ledger.database import Database
from pc_store.llm.embeddings import Embedder
from pc_store.llm.providers import proposer as configured
from pc_store.services.embed import LedgerEmbedder
from pc_store.settings import Settings


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
