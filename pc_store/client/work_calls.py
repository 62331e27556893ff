"""Calls about work: outcomes of tasks, receipts, and failures that come back.

Every change takes an `idempotency_key`: with one, the call is sent again after a broken
connection, and is done once.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pc_store.api.addresses import segment
from pc_store.api.bodies.recurrence_bodies import (
    RecurrenceExplained,
    RecurrenceReviews,
    RecurrenceRun,
    VoidedVerdict,
)
from pc_store.api.bodies.wire import ArtifactRef
from pc_store.api.bodies.work_bodies import RecordedOutcome, RecordedReceipt
from pc_store.client.connection import Connection
from pc_store.client.memory_calls import MODEL_S

_WORK = "/v1/work"
_RECURRENCE = "/v1/experience/recurrence"


class WorkCalls(Connection):
    """The calls about work and recurrence."""

    def record_task_outcome(
        self,
        scope_id: str,
        source_id: str,
        outcome: Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
    ) -> RecordedOutcome:
        """Record what came of a task, as a source; the same one again changes nothing.

        Raises:
            InvalidInput: a rule is broken, or evidence or the receipt is not there.
            SourceConflict: the id is taken by something else.
        """
        return self._ask(
            RecordedOutcome,
            "POST",
            f"{_WORK}/outcomes/record",
            whole={"scope_id": scope_id, "source_id": source_id, "outcome": dict(outcome)},
            idempotency_key=idempotency_key,
            repeats=True,
        )

    def record_task_receipt(
        self,
        scope_id: str,
        receipt_id: str,
        experiences: Sequence[ArtifactRef],
        *,
        note: str | None = None,
        idempotency_key: str | None = None,
    ) -> RecordedReceipt:
        """Record which exact experience revisions a task was given.

        Raises:
            InvalidInput: a revision does not exist.
            SourceConflict: the id is taken by something else.
        """
        return self._ask(
            RecordedReceipt,
            "POST",
            f"{_WORK}/receipts",
            json={
                "scope_id": scope_id,
                "receipt_id": receipt_id,
                "experiences": [ref.model_dump() for ref in experiences],
                "note": note,
            },
            idempotency_key=idempotency_key,
            repeats=True,
        )

    def run_recurrence(self, scope_id: str, *, idempotency_key: str | None = None) -> RecurrenceRun:
        """Judge the task outcomes that wait, and open the reviews that are due."""
        return self._ask(
            RecurrenceRun,
            "POST",
            f"{_RECURRENCE}/run",
            json={"scope_id": scope_id},
            idempotency_key=idempotency_key,
        )

    def review_recurrence(
        self, scope_id: str, *, idempotency_key: str | None = None
    ) -> RecurrenceReviews:
        """Open the reviews that are due, those that were blocked before too; have them drafted."""
        return self._ask(
            RecurrenceReviews,
            "POST",
            f"{_RECURRENCE}/review",
            json={"scope_id": scope_id},
            idempotency_key=idempotency_key,
            timeout_s=MODEL_S,
        )

    def void_recurrence_verdict(
        self, scope_id: str, event_id: str, *, reason: str, idempotency_key: str | None = None
    ) -> VoidedVerdict:
        """Take a verdict back; a second time changes nothing more.

        Raises:
            NotFound: no recurrence or avoidance has this id.
        """
        return self._ask(
            VoidedVerdict,
            "POST",
            f"{_RECURRENCE}/void",
            json={"scope_id": scope_id, "event_id": event_id, "reason": reason},
            idempotency_key=idempotency_key,
            repeats=True,
        )

    def explain_recurrence(
        self,
        scope_id: str,
        artifact_id: str,
        *,
        revision: int | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> RecurrenceExplained:
        """Why outcomes did or did not count for an experience, a page by position.

        Raises:
            ArtifactNotFound: no such experience or revision.
        """
        return self._ask(
            RecurrenceExplained,
            "GET",
            f"/v1/scopes/{segment(scope_id)}/experience/{segment(artifact_id)}/recurrence",
            query={"revision": revision, "limit": limit, "cursor": cursor},
            repeats=True,
        )
