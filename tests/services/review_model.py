"""What a plain dictionary predicts of a scope's candidates and experiences."""

from dataclasses import dataclass, field

from pc_store.domain.refs import ArtifactRef
from pc_store.errors import (
    ArtifactConflict,
    ArtifactInactive,
    CandidateConflict,
    CandidateTerminal,
    CitedEntryInactive,
    InvalidInput,
)


@dataclass
class Said:
    """A candidate as the model has it."""

    candidate: object
    content: object
    sources: tuple[str, ...]
    used: tuple[ArtifactRef, ...]
    cited: tuple[str, ...]
    target: ArtifactRef | None
    version: int = 1
    status: str = "pending"
    result: ArtifactRef | None = None


@dataclass
class Made:
    """An experience: by revision its content, artifacts and cited entries."""

    lifecycle: str = "active"
    revisions: list[Said] = field(default_factory=list)


@dataclass
class Model:
    """Entries by id and whether they are active, their citations, candidates and experiences."""

    entries: dict[str, bool] = field(default_factory=dict)
    citations: dict[str, object] = field(default_factory=dict)
    candidates: list[Said] = field(default_factory=list)
    made: dict[str, Made] = field(default_factory=dict)

    @property
    def revisions(self):
        return [
            ArtifactRef("experience", artifact_id, number)
            for artifact_id, made in self.made.items()
            for number in range(1, len(made.revisions) + 1)
        ]

    @property
    def waiting(self):
        return [said for said in self.candidates if said.status == "pending"]

    def below(self, used, cited):
        """Every entry that artifacts and citations lead to."""
        found, waiting, seen = set(cited), list(used), set(used)
        while waiting:
            ref = waiting.pop()
            said = self.made[ref.artifact_id].revisions[ref.revision - 1]
            found |= set(said.cited)
            waiting += [one for one in said.used if one not in seen]
            seen |= set(said.used)
        return found

    def fault(self, content, names, used, cited, target):
        """Which refusal a proposal meets, or None."""
        if not (names or used or cited):
            return InvalidInput
        if not all(self.entries[entry_id] for entry_id in self.below(used, cited)):
            return CitedEntryInactive
        if content.failure and "outcome" not in names:
            return InvalidInput
        if target is None:
            return None
        made = self.made[target.artifact_id]
        if target.revision != len(made.revisions):
            return ArtifactConflict
        return None if made.lifecycle == "active" else ArtifactInactive

    def stale(self, said, version):
        if said.status != "pending":
            return CandidateTerminal
        return None if said.version == version else CandidateConflict
