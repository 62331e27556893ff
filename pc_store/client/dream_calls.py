"""Calls about dreams, which refine chosen memory and experience in the background."""

from collections.abc import Sequence
from typing import Literal

from pc_store.api.addresses import segment
from pc_store.api.bodies.dream_bodies import (
    DreamExtra,
    DreamOperation,
    DreamRun,
    DreamRunPage,
    DreamSourceRef,
    DreamStatus,
)
from pc_store.api.bodies.wire import ArtifactRef, Citation, SourceRef
from pc_store.client.connection import Connection


class DreamCalls(Connection):
    """The calls about dreams."""

    def create_dream_run(
        self,
        scope_id: str,
        *,
        idempotency_key: str,
        memory_citations: Sequence[Citation] = (),
        artifacts: Sequence[ArtifactRef] = (),
        sources: Sequence[SourceRef] = (),
        target: ArtifactRef | None = None,
        operation: DreamOperation = "refine_experience",
        include: Sequence[DreamExtra] = (),
    ) -> DreamRun:
        """Have entries and experiences refined into a candidate; ask again with `get_dream_run`.

        Args:
            idempotency_key: names the request for ever; the same one with the same input is the
                same dream, whatever became of it.
            target: the experience head to be replaced, also among `artifacts`.

        Raises:
            IdempotencyConflict: the key stands for other input.
            ArtifactConflict: the target is no longer the head.
            DreamQueueFull: too many dreams of the scope wait or run.
        """
        return self._ask(
            DreamRun,
            "POST",
            _path(scope_id),
            json={
                "operation": operation,
                "artifacts": [one.model_dump() for one in artifacts],
                "memory_citations": [one.model_dump() for one in memory_citations],
                "sources": [
                    DreamSourceRef(source_type=one.name, source_id=one.source_id).model_dump()
                    for one in sources
                ],
                "target": target and target.model_dump(),
                "idempotency_key": idempotency_key,
                "include": list(include),
            },
            repeats=True,
        )

    def get_dream_run(
        self, scope_id: str, run_id: str, *, include: Sequence[DreamExtra] = ()
    ) -> DreamRun:
        """One dream: how far it is, and what came of it."""
        return self._ask(
            DreamRun,
            "GET",
            f"{_path(scope_id)}/{segment(run_id)}",
            query={"include": list(include)},
            repeats=True,
        )

    def list_dream_runs(
        self,
        scope_id: str,
        *,
        status: DreamStatus | None = None,
        operation: DreamOperation | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        summary: bool = False,
        include: Sequence[DreamExtra] = (),
    ) -> DreamRunPage:
        """A scope's dreams, newest first; with `summary` without their manifests."""
        told: Literal["true"] | None = "true" if summary else None
        return self._ask(
            DreamRunPage,
            "GET",
            _path(scope_id),
            query={
                "status": status,
                "operation": operation,
                "limit": limit,
                "cursor": cursor,
                "summary": told,
                "include": list(include),
            },
            repeats=True,
        )

    def cancel_dream_run(
        self, scope_id: str, run_id: str, *, reason: str | None = None
    ) -> DreamRun:
        """End a dream that waits or runs; it fails with the error `cancelled`.

        Raises:
            DreamEnded: it has ended otherwise.
        """
        return self._ask(
            DreamRun,
            "POST",
            f"{_path(scope_id)}/{segment(run_id)}/cancel",
            json={"reason": reason},
            repeats=True,
        )


def _path(scope_id: str) -> str:
    return f"/v1/scopes/{segment(scope_id)}/dream"
