"""Which proposer and which embedder the settings ask for."""

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from pc_store.domain.proposal import Proposer
from pc_store.settings import Settings

if TYPE_CHECKING:
    from pc_store.llm.embeddings import Embedder, PackagedEncoder


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

    return BuiltinProposer(wrap(_packaged()))


def embedder(settings: Settings, *, dims: int | None = None) -> "Embedder | None":
    """The embedder in force, None when there is none; one a process for equal settings.

    No connection is made. The dimensions of an endpoint's vectors are those the settings ask
    for, else `dims`, else asked of the endpoint when they are first needed.

    Args:
        dims: what the model's vectors are known to have.

    Raises:
        ModelMisconfigured: the settings of the OpenAI-compatible endpoint are incomplete.
    """
    if settings.embedding_provider == "none":
        return None
    if settings.embedding_provider == "builtin":
        return _packaged()
    return _openai(_Endpoint(settings), dims)


@lru_cache(maxsize=1)
def _packaged() -> "PackagedEncoder":
    from pc_store.llm.embeddings import PackagedEncoder

    return PackagedEncoder()


class _Endpoint:
    """Settings that are equal when their embedding endpoint is."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        key = settings.embed_api_key
        self._told = (
            *(settings.embed_base_url, settings.embed_model, settings.embed_dims),
            *(settings.embed_batch, settings.embed_timeout_s, settings.embed_transport_retries),
            key.get_secret_value() if key else None,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Endpoint) and self._told == other._told

    def __hash__(self) -> int:
        return hash(self._told)


@lru_cache(maxsize=8)
def _openai(of: _Endpoint, dims: int | None) -> "Embedder":
    from pc_store.llm.embedding_client import OpenAIEmbedder

    return OpenAIEmbedder.from_settings(of.settings, dims=dims)
