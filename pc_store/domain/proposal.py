"""What a proposer is shown and what it may propose; the program decides what becomes of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

KINDS = ("fact", "preference", "decision", "constraint", "working_note")
"""The closed set of kinds an extraction may use. Explicit writes may use any string."""


@dataclass(frozen=True)
class Evidence:
    """One piece of evidence as shown. Several may share an id: chunks of one large source."""

    evidence_id: str
    source_type: str
    source_id: str
    content: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ShownEntry:
    """An active entry shown beside the evidence, so that it can be revised, not repeated."""

    entry_id: str
    kind: str
    text: str


@dataclass(frozen=True)
class Proposal:
    """One change a proposer wants: `add` names no entry, `revise` names a shown one."""

    intent: Literal["add", "revise"]
    kind: str
    text: str
    evidence_ids: tuple[str, ...]
    entry_id: str | None = None
    reason: str | None = None


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
class Answer:
    """A proposer's whole answer; an empty one says nothing was worth keeping."""

    proposals: tuple[Proposal, ...]
    usage: Usage = Usage()
    rejected: tuple[Rejected, ...] = ()


class Proposer(Protocol):
    """Something that reads evidence and proposes changes; it writes nothing."""

    @property
    def provider(self) -> str:
        """Short name of the kind of provider: `builtin` or `openai`."""

    @property
    def model(self) -> str:
        """The model's name or version, as recorded with every window."""

    def propose(
        self, evidence: Sequence[Evidence], entries: Sequence[ShownEntry], *, policy: str
    ) -> Answer:
        """Propose changes for the evidence.

        Args:
            evidence: in log order; several items may share one evidence id.
            entries: the active entries a proposal may revise.
            policy: the prompt's text; a provider without prompts ignores it.

        Raises:
            ModelError: nothing usable came back.
        """
