"""Candidates: list, read, history, comparison; revise, approve, reject."""

import base64
import re
from collections.abc import Collection, Sequence

from pc_store.api.bodies.candidate_bodies import (
    ApproveCandidate,
    ArtifactCandidate,
    CandidateDiff,
    CandidateExtra,
    CandidateHistory,
    CandidatePage,
    CompareCandidate,
    GetCandidate,
    GetCandidateHistory,
    ListCandidates,
    Permissions,
    RejectCandidate,
    ReviseCandidate,
)
from pc_store.api.lanes import Call
from pc_store.api.responses import declared
from pc_store.api.routing import Reader, Writer, reads, router, writes
from pc_store.domain.candidate import Candidate
from pc_store.errors import InvalidCursor
from pc_store.services import review
from pc_store.services.clock import now_us

routes = router()

_CANDIDATES = "/v1/artifact-candidates"
_ID = re.compile(r"cand_(?P<kind>[a-z_]{0,16})(?P<hex>[0-9a-f]{32})")


@routes.post(
    f"{_CANDIDATES}/list",
    operation_id="list_artifact_candidates",
    tags=["candidates"],
    summary="List candidates of one status, by creation",
    response_model=CandidatePage,
    responses=declared(400, 404, 408, 410, 413, 422),
)
@reads()
def list_artifact_candidates(call: Reader, body: ListCandidates) -> CandidatePage:
    """Pending ones unless another status is asked for; each with its newest version."""
    cursors = call.edge.cursors
    bound_to = [
        "candidates",
        body.scope_id,
        body.status,
        body.family,
        body.limit,
        call.principal.name,
    ]
    page = review.list_candidates(
        call.db,
        body.scope_id,
        status=body.status,
        family=body.family,
        after=_unpacked(cursors.unseal(body.cursor, bound_to=bound_to)),
        limit=body.limit,
    )
    return CandidatePage(
        candidates=shown_candidates(call, body.scope_id, page.items, body.include),
        next_cursor=cursors.seal(_packed(page.next_after), bound_to=bound_to),
    )


@routes.post(
    f"{_CANDIDATES}/get",
    operation_id="get_artifact_candidate",
    tags=["candidates"],
    summary="Read a candidate",
    response_model=ArtifactCandidate,
    responses=declared(404, 408, 413, 422),
)
@reads()
def get_artifact_candidate(call: Reader, body: GetCandidate) -> ArtifactCandidate:
    """With its newest version."""
    found = review.get_candidate(call.db, body.scope_id, body.candidate_id)
    return shown_candidate(call, found, body.include)


@routes.post(
    f"{_CANDIDATES}/history",
    operation_id="list_artifact_candidate_history",
    tags=["candidates"],
    summary="List every version of a candidate, and the decision",
    response_model=CandidateHistory,
    responses=declared(404, 408, 413, 422),
)
@reads()
def list_artifact_candidate_history(call: Reader, body: GetCandidateHistory) -> CandidateHistory:
    """Oldest first."""
    versions = review.history(call.db, body.scope_id, body.candidate_id)
    return CandidateHistory.of(
        review.get_candidate(call.db, body.scope_id, body.candidate_id), versions
    )


@routes.post(
    f"{_CANDIDATES}/diff",
    operation_id="compare_artifact_candidate",
    tags=["candidates"],
    summary="Compare a candidate with what it would replace",
    response_model=CandidateDiff,
    responses=declared(404, 408, 413, 422),
)
@reads()
def compare_artifact_candidate(call: Reader, body: CompareCandidate) -> CandidateDiff:
    """Field by field, and whether its target still stands."""
    return CandidateDiff.of(review.diff(call.db, body.scope_id, body.candidate_id))


@routes.post(
    f"{_CANDIDATES}/revise",
    operation_id="revise_artifact_candidate",
    tags=["candidates"],
    summary="Replace all that a pending candidate says",
    response_model=ArtifactCandidate,
    responses=declared(404, 408, 409, 413, 422),
)
@writes("review")
def revise_artifact_candidate(call: Writer, body: ReviseCandidate) -> ArtifactCandidate:
    """As its next version; it still waits for review. A reason left out is gone."""
    citations = body.memory_citations
    revised = review.revise(
        call.db,
        body.scope_id,
        body.candidate_id,
        expected_version=body.expected_version,
        proposal=body.proposal,
        sources=[ref.ref() for ref in body.source_refs],
        artifacts=[ref.ref() for ref in body.artifact_refs],
        citations=None if citations is None else [one.citation() for one in citations],
        target=body.target.ref() if body.target else None,
        reason=body.reason,
        author=call.principal.name,
        refuse_secrets=call.settings.secret_detection,
        now_us=now_us(),
    )
    return shown_candidate(call, revised, body.include)


@routes.post(
    f"{_CANDIDATES}/approve",
    operation_id="approve_artifact_candidate",
    tags=["candidates"],
    summary="Make a candidate the experience it proposes",
    response_model=ArtifactCandidate,
    responses=declared(404, 408, 409, 413, 422),
)
@writes("review")
def approve_artifact_candidate(call: Writer, body: ApproveCandidate) -> ArtifactCandidate:
    """A new one, or its target's next revision. Again with the same version: the same answer."""
    approved = review.approve(
        call.db,
        body.scope_id,
        body.candidate_id,
        expected_version=body.expected_version,
        author=call.principal.name,
        now_us=now_us(),
    )
    return shown_candidate(call, approved, body.include)


@routes.post(
    f"{_CANDIDATES}/reject",
    operation_id="reject_artifact_candidate",
    tags=["candidates"],
    summary="Decide against a candidate",
    response_model=ArtifactCandidate,
    responses=declared(404, 408, 409, 413, 422),
)
@writes("review")
def reject_artifact_candidate(call: Writer, body: RejectCandidate) -> ArtifactCandidate:
    """For good. Evidence and target are not looked at."""
    rejected = review.reject(
        call.db,
        body.scope_id,
        body.candidate_id,
        expected_version=body.expected_version,
        reason=body.reason,
        author=call.principal.name,
        refuse_secrets=call.settings.secret_detection,
        now_us=now_us(),
    )
    return shown_candidate(call, rejected, body.include)


def shown_candidate(
    call: Call, candidate: Candidate, include: Collection[CandidateExtra]
) -> ArtifactCandidate:
    """A candidate as this caller sees it."""
    (shown,) = shown_candidates(call, candidate.scope_id, [candidate], include)
    return shown


def shown_candidates(
    call: Call,
    scope_id: str,
    candidates: Sequence[Candidate],
    include: Collection[CandidateExtra],
) -> list[ArtifactCandidate]:
    """Candidates as this caller sees them."""
    advice = {}
    if {"warnings", "stale_target"} & set(include):
        advice = review.advise(call.db, scope_id, candidates)
    return [
        ArtifactCandidate.of(one, advice.get(one.candidate_id), _permissions(call, one), include)
        for one in candidates
    ]


def _permissions(call: Call, candidate: Candidate) -> Permissions | None:
    """Null where everybody may do everything, as the contract has it."""
    if call.edge.access is None:
        return None
    may = candidate.status == "pending" and call.principal.may("review")
    return Permissions(can_revise=may, can_approve=may, can_reject=may)


def _packed(candidate_id: str | None) -> str | None:
    """A candidate's id, shorter: published clients send cursors of at most 128 characters."""
    if candidate_id is None:
        return None
    found = _ID.fullmatch(candidate_id)
    if found is None:
        return f"={candidate_id}"
    digits = base64.urlsafe_b64encode(bytes.fromhex(found["hex"])).decode().rstrip("=")
    return f"{found['kind']}.{digits}"


def _unpacked(place: str | None) -> str | None:
    """The id that was packed."""
    if place is None:
        return None
    if place.startswith("="):
        return place[1:]
    kind, _, digits = place.partition(".")
    try:
        packed = base64.urlsafe_b64decode(f"{digits}==")
    except ValueError:
        raise InvalidCursor from None
    return f"cand_{kind}{packed.hex()}"
