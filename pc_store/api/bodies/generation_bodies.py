"""Generations: windows replayed beside the memory, what they would change, and their end."""

from datetime import datetime
from typing import Annotated, Self

from pydantic import Field

from pc_store import limits
from pc_store.api.bodies.entry_bodies import EntryAt
from pc_store.api.bodies.wire import ArtifactRef, Reason, SourceRef, Wire, example, moment
from pc_store.domain import generation as rules
from pc_store.domain.refs import MEMORY_FAMILY, MEMORY_ID
from pc_store.services import promote

GenerationName = Annotated[
    str,
    Field(min_length=1, max_length=limits.GENERATION_NAME_MAX_CHARS, examples=["prompt-2"]),
]


class ReplayWindow(Wire):
    """Run a window behind the cursor again."""

    model_config = example({}, {"generation": "prompt-2"})

    generation: GenerationName | None = Field(
        default=None,
        description="Keep the results in this generation, which is made if there is none, and "
        "the memory as it is. A window that the generation has already is `idle`.",
    )


class LeftOut(Wire):
    """A proposal that the promotion left out."""

    entry_id: str | None
    kind: str
    why: rules.Why


class Outcome(Wire):
    """What a promotion changed, and what it left out."""

    added: int = Field(ge=0)
    revised: int = Field(ge=0)
    seen_again: int = Field(ge=0)
    left_out: list[LeftOut]


class Generation(Wire):
    """Windows replayed into one place, of one prompt and one model; null before the first."""

    scope_id: str
    name: GenerationName
    status: rules.Status
    windows: int = Field(ge=0, description="Windows replayed.")
    proposals: int = Field(ge=0, description="Accepted proposals that wait; 0 once it has ended.")
    provider: str | None
    model: str | None
    prompt_key: str | None
    prompt_revision: str | None
    created_at: datetime
    ended_at: datetime | None
    memory: ArtifactRef | None = Field(description="The memory after the promotion.")
    outcome: Outcome | None = Field(description="Of a promotion.")

    @classmethod
    def of(cls, one: promote.Generation) -> Self:
        """From the service's."""
        row = one.row
        head = row.memory_revision
        return cls(
            scope_id=row.scope_id,
            name=row.name,
            status=row.status,
            windows=one.windows,
            proposals=one.drafts,
            provider=row.provider,
            model=row.model,
            prompt_key=row.prompt_key,
            prompt_revision=row.prompt_revision,
            created_at=moment(row.created_at),
            ended_at=None if row.ended_at is None else moment(row.ended_at),
            memory=ArtifactRef(family=MEMORY_FAMILY, artifact_id=MEMORY_ID, revision=head)
            if head
            else None,
            outcome=None if row.outcome is None else Outcome.model_validate(row.outcome),
        )


class GenerationPage(Wire):
    """A page of generations, by name."""

    items: list[Generation]
    next_cursor: str | None


class GenerationDifference(Wire):
    """One thing that a promotion would change or leave out, or that is no longer proposed."""

    what: promote.What
    entry_id: str | None = Field(description="The entry it is about; null for a new one.")
    kind: str
    text: str = Field(description="What it would say; no longer proposed: what it says.")
    source_refs: list[SourceRef] = Field(
        description="The evidence it would have; left out: that of the proposal."
    )
    before: EntryAt | None = Field(description="The entry as it is now.")
    why: rules.Why | None = Field(description="Why it is left out.")
    reason: str | None = Field(description="The model's.")

    @classmethod
    def of(cls, item: promote.Difference) -> Self:
        """From the service's."""
        return cls(
            what=item.what,
            entry_id=item.entry_id,
            kind=item.kind,
            text=item.text,
            source_refs=[SourceRef.of(ref) for ref in item.sources],
            before=EntryAt.of_any(item.before),
            why=item.why,
            reason=item.reason,
        )


class GenerationCounts(Wire):
    """How many differences there are of each sort, over all pages."""

    revised: int
    seen_again: int
    added: int
    left_out: int
    no_longer_proposed: int
    unchanged: int = Field(description="Proposals of what the memory says already.")


class GenerationDiff(Wire):
    """A page of what a generation would make of the memory at one revision, 0 for none."""

    generation: Generation
    memory_revision: int = Field(ge=0)
    counts: GenerationCounts
    items: list[GenerationDifference]
    next_cursor: str | None

    @classmethod
    def of(cls, found: promote.Diff, *, start: int, limit: int, next_cursor: str | None) -> Self:
        """From the service's, `limit` items from the one numbered `start`, from 0."""
        counts = {what.replace(" ", "_"): count for what, count in found.counts.items()}
        return cls(
            generation=Generation.of(found.generation),
            memory_revision=found.head,
            counts=GenerationCounts(**counts, unchanged=found.unchanged),
            items=[GenerationDifference.of(item) for item in found.items[start : start + limit]],
            next_cursor=next_cursor,
        )


class PromoteGeneration(Wire):
    """Make a generation part of the memory."""

    model_config = example({"expected_revision": 12, "reason": "read by two of us"})

    expected_revision: int | None = Field(
        default=None,
        ge=0,
        description="Refuse with 409 unless the memory is at this revision, that of the diff; "
        "0 for none.",
    )
    reason: Reason = None
