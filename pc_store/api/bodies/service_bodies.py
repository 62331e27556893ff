"""The service itself: health, capabilities, statistics; and the windows it works through."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from pc_store.api.bodies.artifact_bodies import PromptStatus
from pc_store.api.bodies.memory_bodies import SearchMode
from pc_store.api.bodies.scope_bodies import Selection
from pc_store.api.bodies.wire import Wire, example, moment
from pc_store.domain.window import Status as Status
from pc_store.domain.window import WindowKey
from pc_store.ledger.quarantines import Quarantined
from pc_store.ledger.windows import WindowRow


class Health(Wire):
    """The process is alive."""

    status: Literal["ok"]


class Readiness(Wire):
    """Whether requests can be answered, and what was looked at."""

    status: Literal["ready", "degraded", "not_ready"]
    checks: dict[str, str]


class PromptCapability(Wire):
    """What can be done with a prompt."""

    status: PromptStatus
    reason: Literal["operation_disabled", "provider_not_configured", "injected_component"] | None
    definition_version: str
    builtin_version: str
    builtin_profile: Literal["coding", "conversation"] | None


class Capabilities(Wire):
    """What this server does, as it is configured."""

    source_types: list[str]
    artifact_families: list[str]
    memory_extraction: bool
    search_modes: list[SearchMode]
    context_versions: list[str]
    experience_generation: bool
    managed_skill_generation: bool
    external_skill_registry: bool
    handoff_generation: bool
    artifact_dreaming: bool
    prompts: dict[str, PromptCapability]


class GetStatistics(Wire):
    """Count what some scopes hold."""

    model_config = example({"selection": {"mode": "all"}, "period": "30d"})

    selection: Selection
    period: Literal["today", "7d", "30d"] = "30d"


class Statistics(Wire):
    """Inventory, model usage and recall, in all and by scope."""

    selection: dict[str, Any]
    scope_ids: list[str]
    as_of: Annotated[str, Field(examples=["2026-11-30T22:13:27.537902Z"])]
    inventory: dict[str, Any]
    usage: dict[str, Any]
    recall: dict[str, Any]
    by_scope: list[dict[str, Any]]


class Window(Wire):
    """A window of a scope's log, and what became of it."""

    window: str = Field(description="Its name.", examples=["orders@00000001-00000100"])
    window_id: str
    scope_id: str
    consumer: str
    kind: Literal["live", "replay", "shadow"]
    generation: str | None = Field(description="Of a shadow: where its results are kept.")
    status: Status
    after: int = Field(ge=0)
    through: int = Field(ge=1)
    high_watermark: int = Field(ge=0)
    attempt: int = Field(ge=0)
    counts: dict[str, int] | None
    usage: dict[str, Any] | None
    provider: str | None
    model: str | None
    prompt_key: str | None
    prompt_revision: str | None
    error: dict[str, Any] | None
    memory_revision: int | None
    next_attempt_at: datetime | None
    finished_at: datetime | None

    @classmethod
    def of(cls, key: WindowKey, row: WindowRow) -> Self:
        """From the service's."""
        return cls(
            window=str(key),
            window_id=row.window_id,
            scope_id=row.scope_id,
            consumer=row.consumer,
            kind=row.kind,
            generation=row.generation,
            status=row.status,
            after=row.after,
            through=row.through,
            high_watermark=row.high_watermark,
            attempt=row.attempt,
            counts=dict(row.counts) if row.counts is not None else None,
            usage=dict(row.usage) if row.usage is not None else None,
            provider=row.provider,
            model=row.model,
            prompt_key=row.prompt_key,
            prompt_revision=row.prompt_revision,
            error=dict(row.error) if row.error is not None else None,
            memory_revision=row.memory_revision or None,
            next_attempt_at=moment(row.next_attempt_at) if row.next_attempt_at else None,
            finished_at=moment(row.finished_at) if row.finished_at else None,
        )


class WindowPage(Wire):
    """A page of windows, newest first."""

    items: list[Window]
    next_cursor: str | None


class QuarantinedSource(Wire):
    """A source that could not be processed and was set aside."""

    consumer: str
    position: int = Field(ge=1)
    source_type: str
    source_id: str
    reason: str
    window_id: str
    quarantined_at: datetime
    released_at: datetime | None

    @classmethod
    def of(cls, item: Quarantined) -> Self:
        """From the service's."""
        return cls(
            consumer=item.consumer,
            position=item.position,
            source_type=item.source_type,
            source_id=item.source_id,
            reason=item.reason,
            window_id=item.window_id,
            quarantined_at=moment(item.quarantined_at),
            released_at=moment(item.released_at) if item.released_at else None,
        )


class Quarantine(Wire):
    """Sources set aside, by position."""

    items: list[QuarantinedSource]


class Released(Wire):
    """The source is off the list."""

    position: int
    released: Literal[True]
