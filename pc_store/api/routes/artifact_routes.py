"""Artifacts by exact revision, and the prompts among them."""

from typing import Annotated

from fastapi import Header, Query
from starlette.responses import Response

from pc_store import limits
from pc_store.api.bodies.artifact_bodies import (
    ArtifactItem,
    ArtifactPage,
    ArtifactRevision,
    BuiltinInstructions,
    PromptConfiguration,
    PromptInstructions,
    PromptKey,
    SetPrompt,
)
from pc_store.api.bodies.wire import ArtifactRef, Limit, PageCursor
from pc_store.api.paths import SCOPE, ArtifactPath, RevisionPath, ScopePath
from pc_store.api.responses import declared
from pc_store.api.routing import Reader, Writer, reads, router, writes
from pc_store.services import administer, instruct, read_artifacts
from pc_store.services.clock import now_us
from pc_store.services.instruct import PROMPTS, Prompt, packaged

routes = router()

_ARTIFACTS = f"/v1/scopes/{SCOPE}/artifacts"
_ETAG = {"ETag": {"description": "The head's revision.", "schema": {"type": "string"}}}


@routes.get(
    f"{_ARTIFACTS}/{{family}}",
    operation_id="list_artifacts",
    tags=["artifacts"],
    summary="List the artifacts of a family",
    response_model=ArtifactPage,
    responses=declared(400, 404, 410, 422),
)
@reads()
def list_artifacts(
    call: Reader,
    scope_id: ScopePath,
    family: str,
    limit: Annotated[Limit, Query()] = limits.PAGE_DEFAULT,
    cursor: Annotated[PageCursor, Query()] = None,
) -> ArtifactPage:
    """Their heads, by id."""
    cursors = call.edge.cursors
    bound_to = ["artifacts", scope_id, family, limit, call.principal.name]
    page = read_artifacts.list_artifacts(
        call.db,
        scope_id,
        family,
        after=cursors.unseal(cursor, bound_to=bound_to),
        limit=limit,
    )
    return ArtifactPage(
        items=[ArtifactItem.of(item) for item in page.items],
        next_cursor=cursors.seal(page.next_after, bound_to=bound_to),
    )


@routes.get(
    f"{_ARTIFACTS}/{{family}}/{{artifact_id}}",
    operation_id="get_artifact",
    tags=["artifacts"],
    summary="Get the newest revision of an artifact",
    response_model=ArtifactRevision,
    responses=declared(304, 404, 422) | {200: {"headers": _ETAG}},
)
@reads()
def get_artifact(
    call: Reader,
    scope_id: ScopePath,
    family: str,
    artifact_id: ArtifactPath,
    if_none_match: Annotated[
        str | None, Header(description="ETags the caller has; 304 when one is current.")
    ] = None,
) -> Response:
    """Its ETag is `"revision:N"`."""
    found = read_artifacts.read_artifact(call.db, scope_id, family, artifact_id)
    etag = _etag(found.ref.revision)
    if if_none_match is not None and _matches(if_none_match, etag):
        return Response(status_code=304, headers={"ETag": etag})
    body = ArtifactRevision.of(found).model_dump_json()
    return Response(body, media_type="application/json", headers={"ETag": etag})


@routes.get(
    f"{_ARTIFACTS}/{{family}}/{{artifact_id}}/revisions",
    operation_id="list_artifact_revisions",
    tags=["artifacts"],
    summary="List the revisions of an artifact",
    response_model=ArtifactPage,
    responses=declared(400, 404, 410, 422),
)
@reads()
def list_artifact_revisions(
    call: Reader,
    scope_id: ScopePath,
    family: str,
    artifact_id: ArtifactPath,
    limit: Annotated[Limit, Query()] = limits.PAGE_DEFAULT,
    cursor: Annotated[PageCursor, Query()] = None,
) -> ArtifactPage:
    """Newest first."""
    cursors = call.edge.cursors
    bound_to = ["revisions", scope_id, family, artifact_id, limit, call.principal.name]
    page = read_artifacts.list_revisions(
        call.db,
        scope_id,
        family,
        artifact_id,
        after=cursors.unseal(cursor, bound_to=bound_to),
        limit=limit,
    )
    return ArtifactPage(
        items=[ArtifactItem.of(item) for item in page.items],
        next_cursor=cursors.seal(page.next_after, bound_to=bound_to),
    )


@routes.get(
    f"{_ARTIFACTS}/{{family}}/{{artifact_id}}/revisions/{{revision}}",
    operation_id="get_artifact_revision",
    tags=["artifacts"],
    summary="Get one exact revision of an artifact",
    response_model=ArtifactRevision,
    responses=declared(404, 422),
)
@reads()
def get_artifact_revision(
    call: Reader,
    scope_id: ScopePath,
    family: str,
    artifact_id: ArtifactPath,
    revision: RevisionPath,
) -> ArtifactRevision:
    """It never changes."""
    return ArtifactRevision.of(
        read_artifacts.read_artifact(call.db, scope_id, family, artifact_id, revision=revision)
    )


@routes.get(
    f"/v1/scopes/{SCOPE}/prompts/{{prompt_key}}",
    operation_id="get_prompt_configuration",
    tags=["prompts"],
    summary="Get the prompt in force",
    response_model=PromptConfiguration,
    responses=declared(404, 422),
)
@reads()
def get_prompt_configuration(
    call: Reader, scope_id: ScopePath, prompt_key: PromptKey
) -> PromptConfiguration:
    """The scope's own, or else the packaged one."""
    if prompt_key not in PROMPTS:
        administer.get_scope(call.db, scope_id)
        return _unsupported(scope_id, prompt_key)
    prompt = instruct.read_prompt(call.db, scope_id, prompt_key)
    return _configuration(scope_id, prompt_key, prompt)


@routes.put(
    f"/v1/scopes/{SCOPE}/prompts/{{prompt_key}}",
    operation_id="set_prompt_instructions",
    tags=["prompts"],
    summary="Give a scope instructions of its own",
    response_model=PromptConfiguration,
    responses=declared(404, 408, 409, 413, 422),
)
@writes("admin")
def set_prompt_instructions(
    call: Writer, scope_id: ScopePath, prompt_key: PromptKey, body: SetPrompt
) -> PromptConfiguration:
    """As a new revision; null returns to the packaged ones."""
    prompt = instruct.set_prompt(
        call.db, scope_id, prompt_key, body.instructions, reason=body.reason, now_us=now_us()
    )
    return _configuration(scope_id, prompt_key, prompt)


def _etag(revision: int) -> str:
    return f'"revision:{revision}"'


def _matches(if_none_match: str, etag: str) -> bool:
    """Whether the header names the ETag; compared weakly, as RFC 9110 13.1.2 says for GET."""
    named = [part.strip().removeprefix("W/") for part in if_none_match.split(",")]
    return etag in named or named == ["*"]


def _configuration(scope_id: str, prompt_key: PromptKey, prompt: Prompt) -> PromptConfiguration:
    policy = packaged(prompt.key)
    return PromptConfiguration(
        scope_id=scope_id,
        prompt_key=prompt_key,
        status="supported",
        reason=None,
        mode="auto" if prompt.ref is None else "custom",
        artifact=ArtifactRef.of_any(prompt.ref),
        artifact_etag=None if prompt.ref is None else _etag(prompt.ref.revision),
        effective=PromptInstructions(instructions=prompt.text, demonstrations=[]),
        builtin=BuiltinInstructions(version=policy.version, profile=None, instructions=policy.text),
    )


def _unsupported(scope_id: str, prompt_key: PromptKey) -> PromptConfiguration:
    return PromptConfiguration(
        scope_id=scope_id,
        prompt_key=prompt_key,
        status="unsupported",
        reason=None,
        mode="auto",
        artifact=None,
        artifact_etag=None,
        effective=None,
        builtin=None,
    )
