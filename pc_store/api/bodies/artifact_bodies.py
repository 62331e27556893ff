"""Artifacts and prompts, by exact revision."""

from datetime import datetime
from typing import Any, Literal, Self

from pydantic import Field

from pc_store import limits
from pc_store.api.bodies.wire import ArtifactRef, Citation, Reason, SourceTypeRef, Wire, example
from pc_store.services.read_artifacts import ArtifactContent, ArtifactFacts

Family = Literal["memory", "prompt", "experience"]
_DIGEST = "`sha256:` and the SHA-256 of the content's canonical JSON."


class _Facts(Wire):
    scope_id: str
    family: str
    artifact_id: str
    revision: int = Field(ge=1)
    sources: list[SourceTypeRef]
    artifacts: list[ArtifactRef]
    content_digest: str = Field(description=_DIGEST)


def _facts(facts: ArtifactFacts) -> dict[str, Any]:
    return {
        "scope_id": facts.scope_id,
        "family": facts.ref.family,
        "artifact_id": facts.ref.artifact_id,
        "revision": facts.ref.revision,
        "sources": [SourceTypeRef.of(ref) for ref in facts.sources],
        "artifacts": [ArtifactRef.of(ref) for ref in facts.artifacts],
        "content_digest": facts.content_digest,
    }


class ArtifactItem(_Facts):
    """A revision without its content."""

    title: str | None
    summary: str | None
    published_at: datetime | None
    source_count: int | None

    @classmethod
    def of(cls, facts: ArtifactFacts) -> Self:
        """From the service's."""
        unset = {"title": None, "summary": None, "published_at": None, "source_count": None}
        return cls.model_validate(_facts(facts) | unset)


class ArtifactPage(Wire):
    """A page of artifacts, or of one artifact's revisions."""

    items: list[ArtifactItem]
    next_cursor: str | None


class ArtifactRevision(_Facts):
    """One exact revision with its content."""

    content: dict[str, Any]
    memory_citations: list[Citation]

    @classmethod
    def of(cls, found: ArtifactContent) -> Self:
        """From the service's."""
        return cls.model_validate(
            _facts(found)
            | {
                "content": found.content,
                "memory_citations": [Citation.of(one) for one in found.citations],
            }
        )


PromptKey = Literal[
    "memory.extract",
    "memory.rerank",
    "experience.incubate",
    "experience.generate",
    "skill.generate",
    "handoff.generate",
    "topic_memory.probe",
    "topic_memory.global",
    "topic_memory.planner",
    "topic_memory.evolve",
    "topic_memory.temporary",
    "topic_memory.reduce",
    "topic_memory.reconcile",
    "profile.generate",
]
PromptStatus = Literal["supported", "disabled", "unsupported"]


class PromptInstructions(Wire):
    """What the model is told."""

    instructions: str
    demonstrations: list[dict[str, Any]]


class BuiltinInstructions(Wire):
    """The packaged instructions."""

    version: str
    profile: Literal["coding", "conversation"] | None
    instructions: str


class PromptConfiguration(Wire):
    """The prompt in force, where it comes from, and the packaged one."""

    scope_id: str
    prompt_key: PromptKey
    status: PromptStatus
    reason: str | None
    mode: Literal["auto", "custom"]
    artifact: ArtifactRef | None
    artifact_etag: str | None
    effective: PromptInstructions | None
    builtin: BuiltinInstructions | None


class SetPrompt(Wire):
    """Give the scope instructions of its own; null returns it to the packaged ones."""

    model_config = example({"instructions": "Keep decisions about money only."})

    instructions: str | None = Field(max_length=limits.PROMPT_TEXT_MAX_CHARS)
    reason: Reason = None
