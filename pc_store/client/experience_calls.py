"""Calls about experiences and the candidates that may become some.

A proposal is {situation, action, outcome, lesson, failure?}. Every change takes an
`idempotency_key`: with one, the call is sent again after a broken connection, and is done once.
`include` asks for fields that are left out otherwise.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pc_store.api.addresses import segment
from pc_store.api.bodies.candidate_bodies import (
    ArtifactCandidate,
    CandidateDiff,
    CandidateExtra,
    CandidateFamily,
    CandidateHistory,
    CandidatePage,
    CandidateStatus,
)
from pc_store.api.bodies.experience_bodies import (
    ExperienceArtifact,
    ExperienceExtra,
    ExperienceHitExtra,
    ExperiencePage,
    ExperienceSearchAnswer,
    Generated,
    Incubated,
    Lifecycle,
    LifecycleState,
)
from pc_store.api.bodies.memory_bodies import SearchMode
from pc_store.api.bodies.wire import ArtifactRef, Citation, SourceRef
from pc_store.client.connection import Connection
from pc_store.client.memory_calls import MODEL_S

_EXPERIENCE = "/v1/experience"
_CANDIDATES = "/v1/artifact-candidates"


class ExperienceCalls(Connection):
    """The calls about experiences and candidates."""

    def propose_experience(
        self,
        scope_id: str,
        proposal: Mapping[str, Any],
        *,
        source_refs: Sequence[SourceRef] = (),
        artifact_refs: Sequence[ArtifactRef] = (),
        memory_citations: Sequence[Citation] = (),
        target: ArtifactRef | None = None,
        reason: str | None = None,
        include: Sequence[CandidateExtra] = (),
        idempotency_key: str | None = None,
    ) -> ArtifactCandidate:
        """Propose a new experience, or with a target its next revision; people decide on it.

        Raises:
            ArtifactConflict: the target is no longer the head.
        """
        return self._ask(
            ArtifactCandidate,
            "POST",
            f"{_EXPERIENCE}/propose",
            json={
                "scope_id": scope_id,
                "proposal": dict(proposal),
                "source_refs": _sent(source_refs),
                "artifact_refs": _sent(artifact_refs),
                "memory_citations": _sent(memory_citations),
                "target": target and target.model_dump(),
                "reason": reason,
                "include": list(include),
            },
            idempotency_key=idempotency_key,
        )

    def generate_experience(
        self,
        scope_id: str,
        *,
        source_refs: Sequence[SourceRef] = (),
        artifact_refs: Sequence[ArtifactRef] = (),
        target: ArtifactRef | None = None,
        reason: str | None = None,
        include: Sequence[CandidateExtra] = (),
        idempotency_key: str | None = None,
    ) -> Generated:
        """Let the model write a proposal from evidence; `no_op` when it finds nothing in it."""
        return self._ask(
            Generated,
            "POST",
            f"{_EXPERIENCE}/generate",
            json={
                "scope_id": scope_id,
                "source_refs": _sent(source_refs),
                "artifact_refs": _sent(artifact_refs),
                "target": target and target.model_dump(),
                "reason": reason,
                "include": list(include),
            },
            idempotency_key=idempotency_key,
            timeout_s=MODEL_S,
        )

    def incubate_experience(
        self, scope_id: str, *, budget_s: float | None = None, idempotency_key: str | None = None
    ) -> Incubated:
        """Look for experiences in the log's next window; with a budget, in all of its windows."""
        return self._ask(
            Incubated,
            "POST",
            f"{_EXPERIENCE}/incubate",
            json={"scope_id": scope_id, "budget_s": budget_s and float(budget_s)},
            idempotency_key=idempotency_key,
            timeout_s=(budget_s or 0) + MODEL_S,
        )

    def get_experience(
        self, scope_id: str, artifact: ArtifactRef, *, include: Sequence[ExperienceExtra] = ()
    ) -> ExperienceArtifact:
        """One exact revision of an experience."""
        return self._ask(
            ExperienceArtifact,
            "POST",
            f"{_EXPERIENCE}/get",
            json={
                "scope_id": scope_id,
                "artifact": artifact.model_dump(),
                "include": list(include),
            },
            repeats=True,
        )

    def list_experiences(
        self,
        scope_id: str,
        *,
        include_inactive: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> ExperiencePage:
        """The newest revisions of a scope's active experiences, or of all, by creation."""
        query = {
            "include_inactive": include_inactive or None,
            "limit": limit,
            "cursor": cursor,
        }
        path = f"/v1/scopes/{segment(scope_id)}/experience"
        return self._ask(ExperiencePage, "GET", path, query=query, repeats=True)

    def search_experiences(
        self,
        scope_id: str,
        query: str,
        *,
        limit: int | None = None,
        mode: SearchMode | None = None,
        include: Sequence[ExperienceHitExtra] = (),
    ) -> ExperienceSearchAnswer:
        """Active experiences that fit a query, best first."""
        return self._ask(
            ExperienceSearchAnswer,
            "POST",
            f"{_EXPERIENCE}/search",
            json={
                "scope_id": scope_id,
                "query": query,
                "limit": limit,
                "mode": mode,
                "include": list(include),
            },
            repeats=True,
        )

    def set_experience_lifecycle(
        self,
        scope_id: str,
        artifact: ArtifactRef,
        state: LifecycleState,
        *,
        reason: str,
        idempotency_key: str | None = None,
    ) -> Lifecycle:
        """Take an experience out of recall, or bring a deprecated one back.

        Raises:
            ArtifactConflict: `artifact` is no longer the head.
        """
        return self._ask(
            Lifecycle,
            "POST",
            f"{_EXPERIENCE}/lifecycle",
            json={
                "scope_id": scope_id,
                "artifact": artifact.model_dump(),
                "state": state,
                "reason": reason,
            },
            idempotency_key=idempotency_key,
        )

    def list_artifact_candidates(
        self,
        scope_id: str,
        *,
        status: CandidateStatus = "pending",
        family: CandidateFamily | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        include: Sequence[CandidateExtra] = (),
    ) -> CandidatePage:
        """Candidates of one status, by creation."""
        return self._ask(
            CandidatePage,
            "POST",
            f"{_CANDIDATES}/list",
            json={
                "scope_id": scope_id,
                "status": status,
                "family": family,
                "limit": limit,
                "cursor": cursor,
                "include": list(include),
            },
            repeats=True,
        )

    def get_artifact_candidate(
        self, scope_id: str, candidate_id: str, *, include: Sequence[CandidateExtra] = ()
    ) -> ArtifactCandidate:
        """A candidate with its newest version."""
        body = {"scope_id": scope_id, "candidate_id": candidate_id, "include": list(include)}
        return self._ask(ArtifactCandidate, "POST", f"{_CANDIDATES}/get", json=body, repeats=True)

    def list_artifact_candidate_history(self, scope_id: str, candidate_id: str) -> CandidateHistory:
        """Every version of a candidate, oldest first, and what was decided."""
        body = {"scope_id": scope_id, "candidate_id": candidate_id}
        return self._ask(
            CandidateHistory, "POST", f"{_CANDIDATES}/history", json=body, repeats=True
        )

    def compare_artifact_candidate(self, scope_id: str, candidate_id: str) -> CandidateDiff:
        """A candidate beside the experience it would replace, field by field."""
        body = {"scope_id": scope_id, "candidate_id": candidate_id}
        return self._ask(CandidateDiff, "POST", f"{_CANDIDATES}/diff", json=body, repeats=True)

    def revise_artifact_candidate(
        self,
        scope_id: str,
        candidate_id: str,
        proposal: Mapping[str, Any],
        *,
        expected_version: int,
        source_refs: Sequence[SourceRef] = (),
        artifact_refs: Sequence[ArtifactRef] = (),
        memory_citations: Sequence[Citation] | None = None,
        target: ArtifactRef | None = None,
        reason: str | None = None,
        include: Sequence[CandidateExtra] = (),
        idempotency_key: str | None = None,
    ) -> ArtifactCandidate:
        """Replace all that a pending candidate says; it stays pending, one version on.

        Args:
            memory_citations: None keeps those it has.
            target: the one it has; None if it has none.

        Raises:
            CandidateConflict, CandidateTerminal: somebody revised it or decided on it first.
            ArtifactConflict: its target is no longer the head.
        """
        return self._ask(
            ArtifactCandidate,
            "POST",
            f"{_CANDIDATES}/revise",
            json={
                "scope_id": scope_id,
                "candidate_id": candidate_id,
                "expected_version": expected_version,
                "proposal": dict(proposal),
                "source_refs": _sent(source_refs),
                "artifact_refs": _sent(artifact_refs),
                "memory_citations": None if memory_citations is None else _sent(memory_citations),
                "target": target and target.model_dump(),
                "reason": reason,
                "include": list(include),
            },
            idempotency_key=idempotency_key,
        )

    def approve_artifact_candidate(
        self,
        scope_id: str,
        candidate_id: str,
        *,
        expected_version: int,
        include: Sequence[CandidateExtra] = (),
    ) -> ArtifactCandidate:
        """Make a candidate the experience it proposes; again with the same version, the same.

        Raises:
            CandidateConflict, CandidateTerminal, ArtifactConflict: as revise.
        """
        return self._ask(
            ArtifactCandidate,
            "POST",
            f"{_CANDIDATES}/approve",
            json={
                "scope_id": scope_id,
                "candidate_id": candidate_id,
                "expected_version": expected_version,
                "include": list(include),
            },
            repeats=True,
        )

    def reject_artifact_candidate(
        self,
        scope_id: str,
        candidate_id: str,
        *,
        expected_version: int,
        reason: str,
        include: Sequence[CandidateExtra] = (),
        idempotency_key: str | None = None,
    ) -> ArtifactCandidate:
        """Decide against a candidate, for good.

        Raises:
            CandidateConflict, CandidateTerminal: as revise.
        """
        return self._ask(
            ArtifactCandidate,
            "POST",
            f"{_CANDIDATES}/reject",
            json={
                "scope_id": scope_id,
                "candidate_id": candidate_id,
                "expected_version": expected_version,
                "reason": reason,
                "include": list(include),
            },
            idempotency_key=idempotency_key,
        )


def _sent(refs: Sequence[SourceRef] | Sequence[ArtifactRef] | Sequence[Citation]) -> list[Any]:
    return [ref.model_dump() for ref in refs]
