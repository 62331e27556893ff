"""What a proposer is shown and what it may propose; the program decides what becomes of it."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, Protocol, Self, TypeVar

KINDS = ("fact", "preference", "decision", "constraint", "working_note")
"""The closed set of kinds an extraction may use. Explicit writes may use any string."""


@dataclass(frozen=True)
class Evidence:
    """One piece of evidence as shown. Several may share an id: chunks of one large source.

    `cues` are the normalised texts of the failures that the whole source verifies, if it is a
    task outcome; they are not sent, only what is proposed of a failure is held against them.
    """

    evidence_id: str
    source_type: str
    source_id: str
    content: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    cues: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShownEntry:
    """An active entry shown beside the evidence, so that it can be revised, not repeated."""

    entry_id: str
    kind: str
    text: str


class Proposed(Protocol):
    """What every proposal has, whatever it proposes."""

    @property
    def evidence_ids(self) -> tuple[str, ...]:
        """The shown evidence it rests on."""

    @property
    def entry_id(self) -> str | None:
        """The shown entry it revises, if that is what it does."""

    @property
    def subject(self) -> Hashable:
        """Equal for proposals that want the same, whatever they rest on."""

    def citing(self, evidence_ids: Sequence[str]) -> Self:
        """The same proposal, resting on other evidence."""


P_co = TypeVar("P_co", bound=Proposed, covariant=True)
"""The kind of proposal that a proposer makes."""


@dataclass(frozen=True)
class Proposal:
    """One change a proposer wants: `add` names no entry, `revise` names a shown one."""

    intent: Literal["add", "revise"]
    kind: str
    text: str
    evidence_ids: tuple[str, ...]
    entry_id: str | None = None
    reason: str | None = None

    @property
    def subject(self) -> Hashable:
        """The change itself; why, and on which evidence, does not count."""
        return self.intent, self.kind, self.text, self.entry_id

    def citing(self, evidence_ids: Sequence[str]) -> Self:
        """The same change, resting on other evidence."""
        return replace(self, evidence_ids=tuple(evidence_ids))


@dataclass(frozen=True)
class Rejected:
    """A proposal that was not kept, and the rule it breaks. The text is never repeated here."""

    ordinal: int
    rule: str
    reason: str


@dataclass(frozen=True)
class Usage:
    """What asking cost: requests answered, tokens as the endpoint counts them, seconds waited."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    reasks: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.calls + other.calls,
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.seconds + other.seconds,
            self.reasks + other.reasks,
        )


@dataclass(frozen=True)
class Answered(Generic[P_co]):
    """A proposer's whole answer; an empty one says nothing was worth keeping."""

    proposals: tuple[P_co, ...]
    usage: Usage = Usage()
    rejected: tuple[Rejected, ...] = ()


Answer = Answered[Proposal]
"""An answer that proposes changes of a memory."""


class ProposerOf(Protocol[P_co]):
    """Something that reads evidence and proposes; it writes nothing."""

    @property
    def provider(self) -> str:
        """Short name of the kind of provider: `builtin` or `openai`."""

    @property
    def model(self) -> str:
        """The model's name or version, as recorded with every window."""

    def propose(
        self, evidence: Sequence[Evidence], entries: Sequence[ShownEntry], *, policy: str
    ) -> Answered[P_co]:
        """Propose what the evidence supports.

        Args:
            evidence: in log order; several items may share one evidence id.
            entries: the active entries a proposal may revise; none where nothing is revised.
            policy: the prompt's text; a provider without prompts ignores it.

        Raises:
            ModelError: nothing usable came back.
        """


Proposer = ProposerOf[Proposal]
"""A proposer of changes of a memory."""
