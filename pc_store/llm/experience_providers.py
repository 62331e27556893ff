"""Which author of experiences the settings ask for."""

from functools import lru_cache
from typing import Protocol

from pc_store.domain.experience_proposal import (
    ExperienceGenerator,
    ExperienceProposal,
    ReviewDrafter,
)
from pc_store.domain.proposal import ProposerOf
from pc_store.domain.source import estimated_tokens
from pc_store.llm.policy import reply_format
from pc_store.settings import Settings

_REDRAFT_POLICY = "recurrence.draft"
_REDRAFT_REPLY = "recurrence.reply"
"""The prompts of drafts for reviews. No scope replaces them."""
_SCHEMA_TOKENS = 900
"""What the reply's schema takes, and the frame around the evidence."""


class ExperienceAuthor(ProposerOf[ExperienceProposal], ExperienceGenerator, Protocol):
    """Something that proposes experiences from task outcomes, and writes one when asked to."""


@lru_cache(maxsize=8)
def experience_author(settings: Settings) -> ExperienceAuthor:
    """The author in force, one for each configuration; it may be shared between threads.

    Raises:
        ModelMisconfigured: the settings of the OpenAI-compatible endpoint are incomplete.
    """
    if settings.provider == "openai":
        from pc_store.llm.experience_client import OpenAIExperienceModel

        return OpenAIExperienceModel.from_settings(settings)
    from pc_store.llm.builtin_experience import BuiltinExperienceAuthor

    return BuiltinExperienceAuthor()


def review_drafter(settings: Settings) -> ReviewDrafter | None:
    """Who drafts changes for reviews of failures that keep coming back; None where nobody does.

    Raises:
        ModelMisconfigured: the settings of the OpenAI-compatible endpoint are incomplete.
    """
    if not settings.drafts_reviews:
        return None
    from pc_store.llm.experience_client import OpenAIExperienceModel

    author = experience_author(settings)
    assert isinstance(author, OpenAIExperienceModel)
    return author


def redraft_prompt() -> str:
    """What every request for such a draft begins with."""
    return f"{reply_format(_REDRAFT_POLICY).text}\n\n{reply_format(_REDRAFT_REPLY).text}"


def redraft_room_tokens(settings: Settings) -> int:
    """Estimated tokens that one such request has for evidence."""
    return settings.prompt_token_budget - estimated_tokens(redraft_prompt()) - _SCHEMA_TOKENS
