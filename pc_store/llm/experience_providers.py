"""Which author of experiences the settings ask for."""

from functools import lru_cache
from typing import Protocol

from pc_store.domain.experience_proposal import (
    ExperienceGenerator,
    ExperienceProposal,
)
from pc_store.domain.proposal import ProposerOf
from pc_store.settings import Settings


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
