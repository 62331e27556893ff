"""Experiences: propose, generate, incubate; read, list, search; lifecycle."""

from collections.abc import Collection
from typing import Annotated

from fastapi import Query

from pc_store import limits
from pc_store.api.bodies.candidate_bodies import ArtifactCandidate
from pc_store.api.bodies.evidence_bodies import evidence, shown
from pc_store.api.bodies.experience_bodies import (
    ExperienceArtifact,
    ExperienceHit,
    ExperienceHitExtra,
    ExperienceItem,
    ExperiencePage,
    ExperienceSearchAnswer,
    Generated,
    GenerateExperience,
    GetExperience,
    Incubate,
    Incubated,
    Lifecycle,
    ProposeExperience,
    SearchExperiences,
    SetLifecycle,
)
from pc_store.api.bodies.wire import ArtifactRef, Limit, PageCursor
from pc_store.api.paths import SCOPE, ScopePath
from pc_store.api.responses import declared
from pc_store.api.routes.candidate_routes import shown_candidate
from pc_store.api.routes.memory_routes import channel_scores
from pc_store.api.routing import Reader, Writer, extracts, reads, router, writes
from pc_store.services import experiences, find, generate, incubate, propose, recalls
from pc_store.services.clock import now_us

routes = router()

_EXPERIENCE = "/v1/experience"


@routes.post(
    f"{_EXPERIENCE}/propose",
    operation_id="propose_experience",
    tags=["experience"],
    summary="Propose an experience",
    status_code=201,
    response_model=ArtifactCandidate,
    responses=declared(404, 408, 409, 413, 422),
)
@writes(status=201)
def propose_experience(call: Writer, body: ProposeExperience) -> ArtifactCandidate:
    """As a candidate, which waits for review. Twice the same makes two."""
    made = propose.propose(
        call.db,
        body.scope_id,
        body.proposal,
        evidence(body.source_refs, body.artifact_refs, body.memory_citations),
        target=body.target.ref() if body.target else None,
        reason=body.reason,
        author=call.principal.name,
        refuse_secrets=call.settings.secret_detection,
        now_us=now_us(),
    )
    return shown_candidate(call, made, body.include)


@routes.post(
    f"{_EXPERIENCE}/generate",
    operation_id="generate_experience",
    tags=["experience"],
    summary="Let the model propose an experience from evidence",
    response_model=Generated,
    responses=declared(404, 408, 409, 413, 422, 502),
)
@extracts()
def generate_experience(call: Writer, body: GenerateExperience) -> Generated:
    """It waits for review, as every candidate. `no_op` when there is nothing to learn."""
    candidate = generate.generate(
        call.db,
        call.settings,
        body.scope_id,
        evidence(body.source_refs, body.artifact_refs),
        target=body.target.ref() if body.target else None,
        reason=body.reason,
        author=call.principal.name,
        now_us=now_us(),
    ).candidate
    if candidate is None:
        return Generated(status="no_op", candidate=None)
    return Generated(status="pending", candidate=shown_candidate(call, candidate, body.include))


@routes.post(
    f"{_EXPERIENCE}/incubate",
    operation_id="incubate_experience",
    tags=["experience"],
    summary="Look for experiences in what happened since",
    response_model=Incubated,
    responses=declared(404, 408, 409, 413, 422, 502),
)
@extracts()
def incubate_experience(call: Writer, body: Incubate) -> Incubated:
    """In the next window of the log, or in all; what is found waits for review."""
    author = incubate.experience_author(call.settings)
    done = []
    if body.budget_s is not None:
        done = incubate.drain_experience(
            call.db, call.settings, author, body.scope_id, budget_s=body.budget_s
        )
    done = done or [incubate.incubate(call.db, call.settings, author, body.scope_id)]
    return Incubated.of(done, until=done[0].high_watermark)


@routes.post(
    f"{_EXPERIENCE}/get",
    operation_id="get_experience",
    tags=["experience"],
    summary="Read one exact revision of an experience",
    response_model=ExperienceArtifact,
    responses=declared(404, 408, 413, 422),
)
@reads()
def get_experience(call: Reader, body: GetExperience) -> ExperienceArtifact:
    """Current or not, recalled or not; it never changes."""
    ref = body.artifact.ref()
    found = experiences.read_experience(call.db, body.scope_id, ref)
    changes = (
        experiences.lifecycle_changes(call.db, body.scope_id, ref.artifact_id)
        if "lifecycle" in body.include
        else ()
    )
    return ExperienceArtifact.of(found, changes, body.include)


@routes.get(
    f"/v1/scopes/{SCOPE}/experience",
    operation_id="list_experiences",
    tags=["experience"],
    summary="List experiences",
    response_model=ExperiencePage,
    responses=declared(400, 404, 410, 422),
)
@reads()
def list_experiences(
    call: Reader,
    scope_id: ScopePath,
    include_inactive: Annotated[
        bool, Query(description="Deprecated and retired ones too.")
    ] = False,
    limit: Annotated[Limit, Query()] = limits.PAGE_DEFAULT,
    cursor: Annotated[PageCursor, Query()] = None,
) -> ExperiencePage:
    """Their newest revisions, by creation."""
    cursors = call.edge.cursors
    bound_to = ["experience", scope_id, include_inactive, limit, call.principal.name]
    page = experiences.experience_heads(
        call.db,
        scope_id,
        cursors.unseal(cursor, bound_to=bound_to),
        limit,
        include_inactive=include_inactive,
    )
    return ExperiencePage(
        items=[ExperienceItem.of(item) for item in page.items],
        next_cursor=cursors.seal(page.next_after, bound_to=bound_to),
    )


@routes.post(
    f"{_EXPERIENCE}/search",
    operation_id="search_experiences",
    tags=["experience"],
    summary="Find active experiences",
    response_model=ExperienceSearchAnswer,
    responses=declared(404, 408, 413, 422),
)
@reads()
def search_experiences(call: Reader, body: SearchExperiences) -> ExperienceSearchAnswer:
    """Sees every approval before. `mode` in the answer says what `auto` used."""
    started_us = now_us()
    found = find.search_experiences(
        call.db, call.settings, body.scope_id, body.query, mode=body.mode, limit=body.limit
    )
    note = recalls.searched_experiences(body.scope_id, body.query, found, started_us=started_us)
    call.edge.recalls.note(note)
    answer: dict[str, object] = {
        "mode": found.mode,
        "hits": [_hit(hit, body.include) for hit in found.hits],
    }
    if "coverage" in body.include:
        counted = found.coverage
        answer["coverage"] = {
            "active_experiences": counted.entries,
            "fts": counted.entries,
            "vector": counted.vectors,
        }
    return ExperienceSearchAnswer.model_validate(answer)


def _hit(hit: find.ExperienceHit, include: Collection[ExperienceHitExtra]) -> ExperienceHit:
    extras: dict[str, object] = {}
    if "matched_terms" in include:
        extras["matched_terms"] = list(hit.matched_terms)
    if "channels" in include:
        extras["channels"] = channel_scores(hit)
    return ExperienceHit.model_validate(
        {
            "artifact": ArtifactRef.of(hit.ref),
            "content": shown(hit.content),
            "score": hit.score,
            "matched_by": list(hit.matched_by),
        }
        | extras
    )


@routes.post(
    f"{_EXPERIENCE}/lifecycle",
    operation_id="set_experience_lifecycle",
    tags=["experience"],
    summary="Withdraw an experience, or bring it back",
    response_model=Lifecycle,
    responses=declared(404, 408, 409, 413, 422),
)
@writes("review")
def set_experience_lifecycle(call: Writer, body: SetLifecycle) -> Lifecycle:
    """It stays readable; recall, recurrence and revisions know active ones only."""
    found = experiences.set_lifecycle(
        call.db,
        body.scope_id,
        body.artifact.ref(),
        state=body.state,
        reason=body.reason,
        author=call.principal.name,
        refuse_secrets=call.settings.secret_detection,
        now_us=now_us(),
    )
    return Lifecycle(artifact=ArtifactRef.of(found.ref), state=found.lifecycle)
