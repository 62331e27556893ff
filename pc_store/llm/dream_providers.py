"""Which author of dreams the settings ask for, and under which prompt."""

from functools import lru_cache

from pc_store.domain.dream_run import Dreamer
from pc_store.domain.source import estimated_tokens
from pc_store.llm.policy import reply_format
from pc_store.settings import Settings

DREAM_POLICY = "dream.refine"
DREAM_PLAN = "dream.plan"
"""The prompts of dreams. No scope replaces them."""
_SCHEMA_TOKENS = 900
"""What the reply's schema takes, the evidence ids in it and what a second attempt is told."""


def system_prompt() -> str:
    """What every request for a dream begins with."""
    return f"{reply_format(DREAM_POLICY).text}\n\n{reply_format(DREAM_PLAN).text}"


PROMPT_VERSION = f"pc.dream.v{reply_format(DREAM_POLICY).version}"


def prompt_room_tokens(settings: Settings) -> int:
    """Estimated tokens that one request has for evidence."""
    return settings.prompt_token_budget - estimated_tokens(system_prompt()) - _SCHEMA_TOKENS


@lru_cache(maxsize=8)
def dreamer(settings: Settings) -> Dreamer:
    """The author in force, one for each configuration; it may be shared between threads.

    Raises:
        ModelMisconfigured: the settings of the OpenAI-compatible endpoint are incomplete.
    """
    if settings.provider == "openai":
        from pc_store.llm.dream_client import OpenAIDreamer

        # A run counts its requests itself, so none is repeated beneath it.
        return OpenAIDreamer.from_settings(settings.model_copy(update={"llm_transport_retries": 0}))
    from pc_store.llm.builtin_dream import BuiltinDreamer

    return BuiltinDreamer()


def model_id(author: Dreamer) -> str:
    """What names a provider and its model, for a run that is pinned to them."""
    return f"{author.provider}:{author.model}"
