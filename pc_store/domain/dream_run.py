"""A dream: which memory and experience it refines, its budget, and what may come of it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, Self

from pc_store import limits
from pc_store.domain import strict_json
from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.dream_graph import Projection, citation_json
from pc_store.domain.dream_walk import Limits
from pc_store.domain.experience import Experience
from pc_store.domain.proposal import Usage
from pc_store.domain.refs import (
    EXPERIENCE_FAMILY,
    MEMORY_FAMILY,
    ArtifactRef,
    Citation,
    SourceRef,
)
from pc_store.domain.text import identifier
from pc_store.errors import InvalidInput

Operation = Literal["refine_experience", "derive_skill"]
Status = Literal["queued", "running", "succeeded", "failed"]
Outcome = Literal["proposed", "no_change", "needs_evidence"]
Intent = Literal["create", "corroborate", "refine", "correct"]
PENDING: tuple[Status, ...] = ("queued", "running")

CANCELLED = "cancelled"
"""The error of a dream that somebody cancelled; published clients know no such status."""
SELECTED_MAX = 20
"""Most experiences and entries that one dream refines."""
KEY_MAX_CHARS = 128


@dataclass(frozen=True)
class DreamBudget:
    """What one dream may use, frozen when it is accepted.

    Attributes:
        max_items: references that are selected.
        max_bytes: of the evidence as JSON, as the model is shown it.
        max_nodes, max_edges, max_depth: of the evidence graph; depth counts the steps from what
            is selected.
        max_output_tokens: of one answer.
        max_model_calls: attempts, one request to the model each.
        timeout_seconds: from the first attempt's start, whatever comes between.
    """

    max_items: int = limits.EVIDENCE_MAX
    max_bytes: int = 65_536
    max_nodes: int = 128
    max_edges: int = 256
    max_depth: int = 8
    max_output_tokens: int = 4_096
    max_model_calls: int = 2
    timeout_seconds: float = 120.0

    @property
    def graph(self) -> Limits:
        """How large the evidence graph may be."""
        return Limits(self.max_nodes, self.max_edges, self.max_depth)

    def to_json(self) -> dict[str, Any]:
        """The form the ledger keeps."""
        return asdict(self)


@dataclass(frozen=True)
class DreamRequest:
    """What was asked for, normalised: every reference once, in the order of its canonical JSON."""

    operation: Operation
    evidence: EvidenceRefs
    target: ArtifactRef | None = None

    @property
    def digest(self) -> str:
        """SHA-256; the same for the same references in any order and number."""
        return strict_json.digest_prefixed("pc:dream:v1", self.to_json())

    def to_json(self) -> dict[str, Any]:
        """The form the ledger keeps, in the words of the wire."""
        return {
            "operation": self.operation,
            **references_json(self.evidence),
            "target": self.target and vars(self.target),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """What `to_json` wrote."""
        evidence = EvidenceRefs(
            tuple(SourceRef(**ref) for ref in value["sources"]),
            tuple(ArtifactRef(**ref) for ref in value["artifacts"]),
            tuple(
                Citation(ArtifactRef(**ref["memory_ref"]), ref["entry_id"], ref["entry_version_id"])
                for ref in value["memory_citations"]
            ),
        )
        target = value["target"]
        return cls(value["operation"], evidence, ArtifactRef(**target) if target else None)


def references_json(evidence: EvidenceRefs) -> dict[str, list[dict[str, Any]]]:
    """References in the words of the wire."""
    return {
        "artifacts": [dict(vars(ref)) for ref in evidence.artifacts],
        "memory_citations": [citation_json(one) for one in evidence.citations],
        "sources": [dict(vars(ref)) for ref in evidence.sources],
    }


def dream_request(
    operation: Operation,
    evidence: EvidenceRefs,
    *,
    target: ArtifactRef | None = None,
) -> DreamRequest:
    """Check what a dream is to refine, and normalise it.

    Args:
        evidence: 1 to 20 experiences and memory entries, and sources beside them; 32 in all.
        target: the experience to be replaced, also among the artifacts.

    Raises:
        InvalidInput: a rule is broken; details.rule names it as the published contract does.
    """
    wanted = EvidenceRefs(
        tuple(sorted(evidence.sources, key=lambda ref: strict_json.canonical(vars(ref)))),
        tuple(sorted(evidence.artifacts, key=lambda ref: strict_json.canonical(vars(ref)))),
        tuple(
            sorted(evidence.citations, key=lambda one: strict_json.canonical(citation_json(one)))
        ),
    )
    selected = len(wanted.artifacts) + len(wanted.citations)
    if not 1 <= selected <= SELECTED_MAX:
        raise InvalidInput(
            "artifacts",
            f"together with memory_citations has {selected} references, expected 1 to "
            f"{SELECTED_MAX}",
            rule="evidence_limit_exceeded",
        )
    if len(wanted) > limits.EVIDENCE_MAX:
        raise InvalidInput(
            "sources",
            f"together with artifacts and memory_citations has {len(wanted)} references, the most "
            f"is {limits.EVIDENCE_MAX}",
            rule="evidence_limit_exceeded",
        )
    for ref in wanted.artifacts:
        if ref.family != EXPERIENCE_FAMILY:
            raise InvalidInput(
                "artifacts",
                f"names one of the family {ref.family!r}, only experiences can be selected",
                rule="invalid_artifact_family",
            )
    for one in wanted.citations:
        if one.memory.family != MEMORY_FAMILY:
            raise InvalidInput(
                "memory_citations",
                f"names one of the family {one.memory.family!r}, which is not memory",
                rule="invalid_memory_citation",
            )
    if target is not None and target not in wanted.artifacts:
        raise InvalidInput("target", "is not among the artifacts", rule="invalid_target")
    if operation == "derive_skill" and (
        not wanted.artifacts or wanted.citations or target is not None
    ):
        raise InvalidInput(
            "operation",
            "derive_skill takes experiences, no memory_citations and no target",
            rule="invalid_dream_operation",
        )
    return DreamRequest(operation, wanted, target)


def idempotency_key(value: str) -> str:
    """Return a key unchanged. Raises InvalidInput: blank, spaced around, or over 128 characters."""
    return identifier("idempotency_key", value, KEY_MAX_CHARS)


@dataclass(frozen=True)
class DreamUsage:
    """Requests to the model, counted before each is sent, and tokens; None: nobody said."""

    model_calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None

    def and_tokens(self, usage: Usage) -> "DreamUsage":
        """With the tokens of an answer; its calls are counted already."""
        return DreamUsage(
            self.model_calls,
            _sum(self.input_tokens, usage.tokens_in),
            _sum(self.output_tokens, usage.tokens_out),
        )


def _sum(known: int | None, more: int) -> int | None:
    return known if not more else (known or 0) + more


@dataclass(frozen=True)
class DreamRun:
    """A dream as the ledger keeps it.

    Attributes:
        principal: who submitted it; `runtime` without authentication.
        candidate_id: of the candidate that was proposed, which was its version 1 then.
        error: why it failed, as a code; `cancelled` when somebody cancelled it.
        message: the same for people, or who cancelled it and why.
        feedback: the rule that the last answer broke, for the next attempt.
        attempts: claims that started.
        claim: who holds it now; a new one with every claim.
        manifest: the evidence graph without any text, from the first attempt on.
        model: provider and model, pinned by the first claim.
        next_attempt_at: queued: not before; running: when others may take it over.
    """

    scope_id: str
    run_id: str
    principal: str
    idempotency_key: str
    digest: str
    request: DreamRequest
    budget: DreamBudget
    prompt_version: str | None
    accepted_at: int
    status: Status = "queued"
    outcome: Outcome | None = None
    candidate_id: str | None = None
    intent: Intent | None = None
    reason: str | None = None
    error: str | None = None
    message: str | None = None
    feedback: str | None = None
    attempts: int = 0
    claim: str | None = None
    manifest: Mapping[str, Any] | None = None
    usage: DreamUsage | None = None
    model: str | None = None
    started_at: int | None = None
    next_attempt_at: int = 0
    completed_at: int | None = None
    dagster_run_id: str | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.status not in PENDING

    @property
    def deadline_us(self) -> int | None:
        """When it has to have ended; None before its first claim."""
        if self.started_at is None:
            return None
        return self.started_at + int(self.budget.timeout_seconds * 1_000_000)


@dataclass(frozen=True)
class Plan:
    """What a model makes of a dream's evidence.

    Attributes:
        intent: with a proposal only: `create` without a target, or what it does to the target.
        evidence_ids: what the proposal rests on, as shown; none without a proposal.
    """

    outcome: Outcome
    reason: str
    intent: Intent | None = None
    proposal: Experience | None = None
    evidence_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dreamt:
    """A plan and what it cost."""

    plan: Plan
    usage: Usage = field(default_factory=Usage)


class Dreamer(Protocol):
    """Something that makes a plan of chosen evidence; it writes nothing."""

    @property
    def provider(self) -> str:
        """Short name of the kind of provider: `builtin` or `openai`."""

    @property
    def model(self) -> str:
        """The model's name or version."""

    def prepare(self) -> None:
        """Load what asking takes, so that no request's time is spent on it."""

    def dream(
        self,
        projection: Projection,
        *,
        target_evidence_id: str | None,
        feedback: str | None,
        within_s: float,
        max_tokens: int,
    ) -> Dreamt:
        """Ask once.

        Args:
            target_evidence_id: of the experience to be replaced; None for a new one.
            feedback: the rule that the answer before broke.
            within_s: when the request is given up.
            max_tokens: most tokens of the answer.

        Raises:
            ModelError: nothing usable came back.
        """
