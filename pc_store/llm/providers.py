"""Which proposer the settings ask for."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pc_store.domain.proposal import Proposer
from pc_store.settings import Settings

if TYPE_CHECKING:
    from pc_store.llm.embeddings import Embedder


def proposer(
    settings: Settings, *, wrap: Callable[["Embedder"], "Embedder"] = lambda embedder: embedder
) -> Proposer:
    """The proposer in force; only the chosen one is imported.

    Args:
        wrap: put around the encoder of the builtin provider, to remember its vectors.

    Raises:
        ModelMisconfigured: the settings of the OpenAI-compatible endpoint are incomplete.
    """
    if settings.provider == "openai":
        from pc_store.llm.client import OpenAIProposer

        return OpenAIProposer.from_settings(settings)
    from pc_store.llm.builtin import BuiltinProposer
    from pc_store.llm.embeddings import PackagedEncoder

    return BuiltinProposer(wrap(PackagedEncoder()))
