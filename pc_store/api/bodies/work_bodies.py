"""What came of tasks, and receipts of the experiences they were given."""

from typing import Any, Literal, Self

from pydantic import Field, JsonValue

from pc_store import limits
from pc_store.api.bodies.wire import ArtifactRef, Identifier, ScopeBody, SourceRef, Wire, example
from pc_store.services.outcomes import Taken

OUTCOME_EXAMPLE: dict[str, Any] = {
    "schema": "powercontext.task-outcome.v1",
    "objective": "Import the order CSV",
    "status": "failed",
    "summary": "One amount was off by a cent.",
    "observations": [{"text": "1,250 rows were imported"}],
    "checks": [
        {
            "name": "Amounts off by one cent",
            "status": "failed",
            "basis": "verified",
            "evidence": [
                {"kind": "source", "source_ref": {"name": "content", "source_id": "worklog-17"}}
            ],
        }
    ],
}


class RecordOutcome(ScopeBody):
    """Append what came of a task; the same one again changes nothing."""

    model_config = example(
        {"scope_id": "orders", "source_id": "outcome-42", "outcome": OUTCOME_EXAMPLE}
    )

    source_id: str = Field(min_length=1, max_length=limits.SOURCE_ID_MAX_CHARS)
    outcome: dict[str, JsonValue] = Field(
        description="A `powercontext.task-outcome.v1`. Sources may be spelled with `name` or with "
        "`source_type`; `schema`, `trust`, `checks`, `produced_artifacts` and `remaining_work` "
        "may be left out."
    )


class RecordedOutcome(Wire):
    """Where the outcome stands in the log."""

    kind: Literal["task-outcome"] = "task-outcome"
    source: SourceRef
    position: int = Field(ge=1)
    content_digest: str

    @classmethod
    def of(cls, taken: Taken) -> Self:
        """From the service's."""
        return cls(
            kind="task-outcome",
            source=SourceRef.of(taken.ref),
            position=taken.position,
            content_digest=taken.content_digest,
        )


class CitedExperience(Wire):
    """One exact revision of an experience."""

    family: Literal["experience"] = "experience"
    artifact_id: Identifier
    revision: int = Field(ge=1)


class RecordReceipt(ScopeBody):
    """Note that a task was given these experiences; the same one again changes nothing."""

    model_config = example(
        {
            "scope_id": "orders",
            "receipt_id": "receipt-42",
            "experiences": [
                {
                    "family": "experience",
                    "artifact_id": "exp_019e2a5d4c10000007c1f3a9e2b45d60",
                    "revision": 1,
                }
            ],
            "note": "given to the import agent",
        }
    )

    receipt_id: str = Field(
        min_length=1,
        max_length=limits.SOURCE_ID_MAX_CHARS,
        description="The id of the source it becomes; outcomes name it as "
        "`handoff_receipt_ref: {name: content, source_id}`.",
    )
    experiences: list[CitedExperience] = Field(min_length=1, max_length=limits.EVIDENCE_MAX)
    note: str | None = Field(default=None, max_length=limits.RECEIPT_NOTE_MAX_CHARS)


class RecordedReceipt(Wire):
    """Where the receipt stands in the log; outcomes after it may name it."""

    kind: Literal["receipt"] = "receipt"
    source: SourceRef
    position: int = Field(ge=1)
    content_digest: str
    experiences: list[ArtifactRef]
