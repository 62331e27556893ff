"""What a model may propose as an experience: its whole content, and the evidence it rests on."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

from pc_store.domain import outcome, strict_json
from pc_store.domain.experience import Experience
from pc_store.domain.failure import failure_items
from pc_store.domain.proposal import Answered, ProposerOf, Usage
from pc_store.errors import InvalidInput


@dataclass(frozen=True)
class ExperienceProposal:
    """A new experience and the shown evidence it rests on; it never replaces another."""

    content: Experience
    evidence_ids: tuple[str, ...]

    @property
    def entry_id(self) -> None:
        """Always None: incubation revises nothing."""

    @property
    def subject(self) -> Hashable:
        """The content and the set of its evidence, whatever their order."""
        return strict_json.dumps(self.content.to_json()), frozenset(self.evidence_ids)

    def citing(self, evidence_ids: Sequence[str]) -> Self:
        """The same content, resting on other evidence."""
        return replace(self, evidence_ids=tuple(evidence_ids))

    def to_json(self) -> dict[str, Any]:
        """The form the ledger keeps."""
        return {"content": self.content.to_json(), "evidence_ids": list(self.evidence_ids)}


ExperienceAnswer = Answered[ExperienceProposal]
ExperienceProposer = ProposerOf[ExperienceProposal]


@dataclass(frozen=True)
class Exhibit:
    """A whole source or artifact as shown to a generator.

    Attributes:
        evidence_id: `source:TYPE/ID` or `artifact:FAMILY/ID@REVISION`.
        kind: `source` or `artifact`.
        content: its JSON, at most 64,000 characters; `truncated` when that is not all of it.
        text: what a source says, whole; empty for an artifact. Not sent, but read by a provider
            that drafts from task outcomes itself.
        cues: as of `proposal.Evidence`.
    """

    evidence_id: str
    kind: str
    content: str
    truncated: bool
    text: str = ""
    cues: tuple[str, ...] = ()


@dataclass(frozen=True)
class Draft:
    """What a generator made; None says the evidence supports nothing worth keeping."""

    content: Experience | None
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True)
class Redraft:
    """What a model makes of an experience whose failure keeps coming back.

    Attributes:
        content: the changed experience; None says the records do not show what to change.
        reason: what is changed and why, or why nothing is, in the model's words.
        evidence_ids: of the records that show it.
    """

    content: Experience | None
    reason: str
    evidence_ids: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)


class ExperienceGenerator(Protocol):
    """Something that writes one experience from evidence that people chose."""

    def generate(
        self, exhibits: Sequence[Exhibit], *, target_evidence_id: str | None, policy: str
    ) -> Draft:
        """Write an experience, or the complete replacement of the target.

        Raises:
            GenerationUnavailable: this provider cannot write from such evidence.
            ModelError: nothing usable came back.
        """


class ReviewDrafter(Protocol):
    """Something that rewrites an experience whose failure keeps coming back."""

    @property
    def provider(self) -> str:
        """Who is asked."""

    @property
    def model(self) -> str:
        """The model's name."""

    def redraft(self, exhibits: Sequence[Exhibit], *, target: Experience) -> Redraft:
        """Ask once for a changed experience, or for why there is nothing to change.

        Args:
            exhibits: the experience, the one artifact among them, and the outcomes.
            target: what that experience says.

        Raises:
            ModelError: nothing usable came back.
        """


def cues_of(content: str) -> tuple[str, ...]:
    """The normalised texts of the failures that a task outcome verifies; none of other texts.

    An experience may track a failure only under one of these.
    """
    try:
        found = failure_items(outcome.loads(content))
    except InvalidInput:
        return ()
    return tuple(dict.fromkeys(item.cue_key for item in found if item.cue_key))
