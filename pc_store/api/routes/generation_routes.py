"""Generations: look at what replays beside the memory would change; promote or discard them."""

from typing import Annotated

from fastapi import Query

from pc_store import limits
from pc_store.api.bodies.generation_bodies import (
    Generation,
    GenerationDiff,
    GenerationPage,
    PromoteGeneration,
)
from pc_store.api.bodies.wire import Limit, PageCursor
from pc_store.api.paths import SCOPE, GenerationPath, ScopePath
from pc_store.api.responses import declared
from pc_store.api.routing import Reader, Writer, reads, router, writes
from pc_store.services import promote
from pc_store.services.clock import now_us

routes = router()

_GENERATIONS = f"/v1/scopes/{SCOPE}/generations"
_GENERATION = f"{_GENERATIONS}/{{name}}"
_WHATEVER_MOVED = PromoteGeneration()


@routes.get(
    _GENERATIONS,
    operation_id="list_generations",
    tags=["windows"],
    summary="List the generations of a scope",
    response_model=GenerationPage,
    responses=declared(400, 404, 410, 422),
)
@reads("admin")
def list_generations(
    call: Reader,
    scope_id: ScopePath,
    limit: Annotated[Limit, Query()] = limits.PAGE_DEFAULT,
    cursor: Annotated[PageCursor, Query()] = None,
) -> GenerationPage:
    """By name."""
    cursors = call.edge.cursors
    bound_to = ["generations", scope_id, limit, call.principal.name]
    after = cursors.unseal(cursor, bound_to=bound_to) or ""
    found = promote.list_generations(call.db, scope_id, after=after, limit=limit + 1)
    page = found[:limit]
    following = page[-1].row.name if len(found) > limit else None
    return GenerationPage(
        items=[Generation.of(one) for one in page],
        next_cursor=cursors.seal(following, bound_to=bound_to),
    )


@routes.get(
    _GENERATION,
    operation_id="get_generation",
    tags=["windows"],
    summary="Look at one generation",
    response_model=Generation,
    responses=declared(400, 404, 422),
)
@reads("admin")
def get_generation(call: Reader, scope_id: ScopePath, name: GenerationPath) -> Generation:
    """What it is of, how far it is, and how it ended."""
    return Generation.of(promote.read_generation(call.db, scope_id, name))


@routes.get(
    f"{_GENERATION}/diff",
    operation_id="compare_generation",
    tags=["windows"],
    summary="Compare a generation with the memory as it is now",
    response_model=GenerationDiff,
    responses=declared(400, 404, 409, 410, 422),
)
@reads("admin")
def compare_generation(
    call: Reader,
    scope_id: ScopePath,
    name: GenerationPath,
    limit: Annotated[Limit, Query()] = limits.PAGE_DEFAULT,
    cursor: Annotated[PageCursor, Query()] = None,
) -> GenerationDiff:
    """What a promotion would revise, see again, add and leave out; and what is not proposed any
    more. A cursor is of no use once the memory or the generation has changed.
    """
    found = promote.diff(call.db, scope_id, name)
    state = [found.head, found.generation.windows, found.generation.drafts]
    bound_to = ["generation", scope_id, name, limit, call.principal.name, *state]
    start = call.edge.cursors.unseal(cursor, bound_to=bound_to) or 0
    following = start + limit if len(found.items) > start + limit else None
    return GenerationDiff.of(
        found,
        start=start,
        limit=limit,
        next_cursor=call.edge.cursors.seal(following, bound_to=bound_to),
    )


@routes.post(
    f"{_GENERATION}/promote",
    operation_id="promote_generation",
    tags=["windows"],
    summary="Make a generation part of the memory",
    response_model=Generation,
    responses=declared(404, 408, 409, 413, 422),
)
@writes("admin")
def promote_generation(
    call: Writer,
    scope_id: ScopePath,
    name: GenerationPath,
    body: PromoteGeneration = _WHATEVER_MOVED,
) -> Generation:
    """As one revision. What cannot be applied to the memory as it is now is left out."""
    return Generation.of(
        promote.promote(
            call.db,
            call.settings,
            scope_id,
            name,
            expected_revision=body.expected_revision,
            reason=body.reason,
            now_us=now_us(),
        )
    )


@routes.post(
    f"{_GENERATION}/discard",
    operation_id="discard_generation",
    tags=["windows"],
    summary="End a generation and erase what it proposes",
    response_model=Generation,
    responses=declared(404, 408, 409, 422),
)
@writes("admin")
def discard_generation(call: Writer, scope_id: ScopePath, name: GenerationPath) -> Generation:
    """The memory stays as it is."""
    return Generation.of(promote.discard(call.db, scope_id, name, now_us=now_us()))
