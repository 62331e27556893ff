"""Dreams: what one refines, how far it is, and what came of it."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, model_validator
from pydantic_core import PydanticCustomError

from pc_store import limits
from pc_store.api.bodies.wire import ArtifactRef, Citation, Wire, example, moment
from pc_store.domain import dream_run, refs
from pc_store.domain.candidate import Candidate, EvidenceRefs
from pc_store.errors import InvalidInput

DreamOperation = Literal["refine_experience", "derive_skill"]
DreamStatus = Literal["queued", "running", "succeeded", "failed"]
DreamOutcome = Literal["proposed", "no_change", "needs_evidence"]
DreamExtra = Literal["current_candidate", "message", "intent", "principal"]
RUN_EXAMPLE = "dr_019e2a5d4c10000007c1f3a9e2b45d60"
RunId = Annotated[str, Field(min_length=1, max_length=64, examples=[RUN_EXAMPLE])]
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class DreamSourceRef(Wire):
    """A source, as dreams name it."""

    source_type: str = Field(min_length=1, max_length=limits.SOURCE_TYPE_MAX_CHARS)
    source_id: str = Field(min_length=1, max_length=limits.SOURCE_ID_MAX_CHARS)

    def ref(self) -> refs.SourceRef:
        """As the domain has it."""
        return refs.SourceRef(self.source_type, self.source_id)


class DreamRequest(Wire):
    """What a dream is to refine: memory entries and experiences, and sources beside them."""

    model_config = example(
        {
            "operation": "refine_experience",
            "memory_citations": [
                {
                    "memory_ref": {"family": "memory", "artifact_id": "memory", "revision": 3},
                    "entry_id": "mem_ent_019e2a5d4c10000007c1f3a9e2b45d60",
                    "entry_version_id": "mem_ver_019e2a5d4c10000007c1f3a9e2b45d61",
                }
            ],
            "idempotency_key": "amount-experience-001",
        }
    )

    operation: DreamOperation
    artifacts: list[ArtifactRef] = Field(default=[], description="Exact experience revisions.")
    memory_citations: list[Citation] = Field(default=[])
    sources: list[DreamSourceRef] = Field(default=[])
    target: ArtifactRef | None = Field(
        default=None,
        description="The experience head to be replaced, also among `artifacts`; null for a new "
        "experience.",
    )
    idempotency_key: str = Field(
        min_length=1,
        max_length=dream_run.KEY_MAX_CHARS,
        json_schema_extra={"pattern": r"^\S(?:[\s\S]*\S)?$"},  # the check below says it in words
        description="Names this request for ever: the same key with the same input gets the same "
        "dream, whatever became of it.",
    )
    include: list[DreamExtra] = Field(default=[], description="Fields that are left out otherwise.")
    _request: dream_run.DreamRequest = PrivateAttr()

    @model_validator(mode="after")
    def _check(self) -> Self:
        evidence = EvidenceRefs(
            tuple(ref.ref() for ref in self.sources),
            tuple(ref.ref() for ref in self.artifacts),
            tuple(one.citation() for one in self.memory_citations),
        )
        target = self.target.ref() if self.target else None
        try:
            dream_run.idempotency_key(self.idempotency_key)
            self._request = dream_run.dream_request(self.operation, evidence, target=target)
        except InvalidInput as error:
            rule = error.details.get("rule", "value_error")
            told = {"told": error.reason, "field": error.field}
            raise PydanticCustomError(rule, "{told}", told) from None
        return self

    def request(self) -> dream_run.DreamRequest:
        """As the domain has it."""
        return self._request


class DreamCancellation(Wire):
    """End a dream that waits or runs."""

    model_config = example({"reason": "the wrong entries"})

    reason: str | None = Field(
        default=None,
        min_length=1,
        max_length=limits.CANDIDATE_REASON_MAX_CHARS,
        description="Why; kept in the run's `message`.",
        examples=["the wrong entries"],
    )


class DreamCandidate(Wire):
    """The candidate as it was made."""

    candidate_id: str
    version: int = Field(ge=1)


class CurrentCandidate(Wire):
    """The candidate as it is now."""

    candidate_id: str
    version: int = Field(ge=1)
    status: Literal["pending", "approved", "rejected"]
    result_artifact: ArtifactRef | None


class EvidenceNode(Wire):
    """One piece of evidence: what it is, and the digest of what was shown of it."""

    evidence_id: str
    kind: Literal["source", "experience", "memory", "unresolved"]
    digest: Digest
    source: DreamSourceRef | None
    artifact: ArtifactRef | None
    memory_citations: list[Citation]
    role: Literal["root", "derived", "lineage_only", "unresolved"]
    historical: bool
    current_entry_version_id: str | None


class EvidenceEdge(Wire):
    """Something, and what it was made from."""

    derived_id: str
    upstream_id: str


class EvidenceRootGroup(Wire):
    """Sources that are one observation."""

    group_id: str
    sources: list[DreamSourceRef]
    independence: Literal["attested", "unknown"]


class InputManifest(Wire):
    """The evidence as a graph, without any text."""

    transform_version: str
    artifacts: list[ArtifactRef]
    memory_citations: list[Citation]
    sources: list[DreamSourceRef]
    nodes: list[EvidenceNode]
    edges: list[EvidenceEdge]
    root_groups: list[EvidenceRootGroup]
    projection_digest: Digest
    projection_bytes: int = Field(ge=0)
    incomplete: bool


class DreamUsage(Wire):
    """What it cost; tokens are null where the model did not say."""

    model_calls: int = Field(ge=0)
    input_tokens: int | None = Field(ge=0)
    output_tokens: int | None = Field(ge=0)


class DreamBudget(Wire):
    """What it may use, as it was when it was accepted."""

    max_items: int = Field(ge=1)
    max_bytes: int = Field(ge=1)
    max_nodes: int = Field(ge=1)
    max_edges: int = Field(ge=1)
    max_depth: int = Field(ge=1)
    max_output_tokens: int = Field(ge=1)
    max_model_calls: int = Field(ge=1)
    timeout_seconds: float = Field(gt=0)


class DreamRun(Wire):
    """A dream: `status` says how far it is, and `outcome` what came of one that succeeded."""

    scope_id: str
    run_id: str
    operation: DreamOperation
    status: DreamStatus
    outcome: DreamOutcome | None
    target: ArtifactRef | None
    candidate: DreamCandidate | None
    reason: str | None
    error: str | None = Field(description="Why it failed; `cancelled` if somebody cancelled it.")
    accepted_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    attempt_count: int = Field(ge=0)
    input_manifest: InputManifest | None
    usage: DreamUsage | None
    budget: DreamBudget
    prompt_version: str
    model_config_id: str | None
    current_candidate: CurrentCandidate | None = None
    message: str | None = None
    intent: Literal["create", "corroborate", "refine", "correct"] | None = None
    principal: str | None = None

    @classmethod
    def of(
        cls,
        run: dream_run.DreamRun,
        candidates: Mapping[str, Candidate],
        include: Collection[DreamExtra],
        *,
        summary: bool = False,
    ) -> Self:
        """From the service's."""
        target = run.request.target
        made = run.candidate_id
        fields: dict[str, Any] = {
            "scope_id": run.scope_id,
            "run_id": run.run_id,
            "operation": run.request.operation,
            "status": run.status,
            "outcome": run.outcome,
            "target": ArtifactRef.of_any(target),
            "candidate": DreamCandidate(candidate_id=made, version=1) if made else None,
            "reason": run.reason,
            "error": run.error,
            "accepted_at": moment(run.accepted_at),
            "started_at": _moment(run.started_at),
            "completed_at": _moment(run.completed_at),
            "attempt_count": run.attempts,
            "input_manifest": None if summary else run.manifest,
            "usage": DreamUsage(**vars(run.usage)) if run.usage else None,
            "budget": run.budget.to_json(),
            "prompt_version": run.prompt_version,
            "model_config_id": run.model,
        }
        now = candidates.get(run.run_id)
        extras: dict[str, Any] = {
            "current_candidate": now and _current(now),
            "message": run.message,
            "intent": run.intent,
            "principal": run.principal,
        }
        return cls.model_validate(fields | {name: extras[name] for name in include})


class DreamRunPage(Wire):
    """A page of dreams, newest first."""

    runs: list[DreamRun]
    next_cursor: str | None


def _moment(time_us: int | None) -> datetime | None:
    return None if time_us is None else moment(time_us)


def _current(candidate: Candidate) -> CurrentCandidate:
    return CurrentCandidate(
        candidate_id=candidate.candidate_id,
        version=candidate.version,
        status=candidate.status,
        result_artifact=ArtifactRef.of_any(candidate.result),
    )
