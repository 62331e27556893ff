"""What a consumer of the log decides for itself: what it shows, what it keeps, what it writes.

Everything else about a window is the same for all of them: `begin`, `ask`, `settle`, `recover`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import sqlalchemy as sa

from pc_store.domain.proposal import Evidence, Proposed, Rejected, ShownEntry, Usage
from pc_store.domain.refs import ArtifactRef, SourceRef
from pc_store.domain.source import Source
from pc_store.domain.verdict import Verdict
from pc_store.domain.window import Consumer
from pc_store.ledger.database import Database
from pc_store.ledger.windows import WindowRow
from pc_store.settings import Settings

P = TypeVar("P", bound=Proposed)
"""What is proposed."""
K = TypeVar("K")
"""What becomes of a proposal that is kept."""


@dataclass(frozen=True)
class KeptAnswer(Generic[P]):
    """An answer between asking and committing.

    Attributes:
        evidence: the sources behind the evidence ids that were shown.
        shown: the entries that were shown, and the version of each.
        rejected: proposals that the provider's edge could not accept.
        fault: why nothing could be read from the answer; None when it could.
        faulty: the answer broke a rule. One that did not may still have rejected proposals:
            of two calls that revise the same entry, the second's.
        filtered: positions passed over, by reason.
        prompt_revision: of the scope's own prompt that was sent; None for the packaged one.
        cues: by evidence id, the normalised texts of the failures its source verifies.
    """

    proposals: tuple[P, ...]
    rejected: tuple[Rejected, ...]
    evidence: Mapping[str, SourceRef]
    shown: Mapping[str, str]
    usage: Usage
    fault: str | None
    filtered: Mapping[str, int]
    asked: bool
    faulty: bool = False
    prompt_revision: int | None = None
    reused: bool = False
    cues: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Written:
    """What a commit made of the kept proposals.

    Attributes:
        counts: by name, for the window's row.
        rejected: kept proposals that broke a rule which only the ledger knows.
        memory_revision: the memory's head afterwards, if a memory is what is written.
    """

    counts: Mapping[str, int]
    rejected: tuple[Rejected, ...] = ()
    memory_revision: int | None = None


@dataclass(frozen=True)
class Made:
    """What a processed window led to: the memory as it is now, or the candidates it made."""

    memory: ArtifactRef | None = None
    candidate_ids: tuple[str, ...] = ()


class Family(ABC, Generic[P, K]):
    """One consumer of the log, and what it makes of a window."""

    consumer: ClassVar[Consumer]
    prompt_key: ClassVar[str]
    checks: ClassVar[Mapping[str, str]]
    """What is asserted of every answer, by the check's name."""
    evidence_most: ClassVar[int | None] = None
    """Most pieces of evidence in one model call; None for as many as fit its budget."""

    @abstractmethod
    def passed_over(self, source: Source, *, now_us: int) -> str | None:
        """Why a source of a window is not shown to the model, or None if it is."""

    def evidence(self, evidence_id: str, source: Source) -> Evidence:
        """A source as it is shown."""
        return Evidence(
            evidence_id, source.source_type, source.source_id, source.content, source.metadata
        )

    def related(
        self, db: Database, settings: Settings, scope_id: str, shown: Sequence[Source]
    ) -> list[tuple[ShownEntry, str]]:
        """The entries to show beside the sources, each with its version id; none by default."""
        del db, settings, scope_id, shown
        return []

    @abstractmethod
    def dump(self, proposal: P) -> dict[str, Any]:
        """A proposal as the ledger keeps it between asking and committing."""

    @abstractmethod
    def load(self, kept: Mapping[str, Any]) -> P:
        """Read what `dump` wrote."""

    @abstractmethod
    def judge(self, settings: Settings, kept: KeptAnswer[P]) -> Verdict[K]:
        """Judge each proposal of an answer."""

    @abstractmethod
    def check_of(self, rule: str) -> str:
        """The check under which a rule of the provider's edge shows."""

    @abstractmethod
    def lock(self, conn: sa.Connection, scope_id: str) -> None:
        """Lock, until the transaction ends, what two commits of one scope would both write."""

    @abstractmethod
    def write(
        self,
        conn: sa.Connection,
        settings: Settings,
        window: WindowRow,
        kept: KeptAnswer[P],
        verdict: Verdict[K],
        *,
        now_us: int,
    ) -> Written:
        """Write what was kept, in the transaction that ends the window.

        Raises:
            Conflict: what it builds on has moved since it was shown; nothing may be written.
        """

    @abstractmethod
    def made(self, conn: sa.Connection, window: WindowRow) -> Made:
        """What a processed window led to."""

    def to_json(self, kept: KeptAnswer[P]) -> dict[str, Any]:
        """An answer as the ledger keeps it."""
        return {
            "proposals": [self.dump(item) for item in kept.proposals],
            "rejected": [asdict(item) for item in kept.rejected],
            "evidence": {
                name: [ref.source_type, ref.source_id] for name, ref in kept.evidence.items()
            },
            "shown": dict(kept.shown),
            "usage": asdict(kept.usage),
            "fault": kept.fault,
            "filtered": dict(kept.filtered),
            "asked": kept.asked,
            "faulty": kept.faulty,
            "prompt_revision": kept.prompt_revision,
            "cues": {name: list(cues) for name, cues in kept.cues.items() if cues},
        }

    def from_json(self, kept: Mapping[str, Any], *, reused: bool = False) -> KeptAnswer[P]:
        """Read what `to_json` wrote."""
        return KeptAnswer(
            proposals=tuple(self.load(item) for item in kept["proposals"]),
            rejected=tuple(Rejected(**item) for item in kept["rejected"]),
            evidence={name: SourceRef(*pair) for name, pair in kept["evidence"].items()},
            shown=kept["shown"],
            usage=Usage(**kept["usage"]),
            fault=kept["fault"],
            filtered=kept["filtered"],
            asked=kept["asked"],
            faulty=kept["faulty"],
            prompt_revision=kept["prompt_revision"],
            reused=reused,
            cues=kept.get("cues", {}),
        )
