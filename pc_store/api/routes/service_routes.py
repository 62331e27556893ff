"""The service itself: health, capabilities, statistics, metrics."""

from fastapi import Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, Response

from pc_store import __version__
from pc_store.api.bodies.service_bodies import (
    Capabilities,
    GetStatistics,
    Health,
    PromptCapability,
    Readiness,
    Statistics,
)
from pc_store.api.lanes import Call
from pc_store.api.responses import declared
from pc_store.api.routing import Reader, reads, router
from pc_store.api.telemetry import Telemetry
from pc_store.errors import StoreError
from pc_store.services import (
    administer,
    bind,
    blend,
    diagnose,
    prepare,
    read_artifacts,
    summarise,
)
from pc_store.services.clock import now_us
from pc_store.services.instruct import PROMPTS, packaged

routes = router()


@routes.get("/", include_in_schema=False)
@reads(public=True)
def root(call: Reader) -> Response:  # noqa: ARG001 - the lane needs it
    """What is served here."""
    return JSONResponse(
        {"name": "pc-pipelines", "version": __version__, "openapi": "/openapi.json"}
    )


@routes.get(
    "/health/live",
    operation_id="get_liveness",
    tags=["health"],
    summary="Say that the process is alive",
    response_model=Health,
    responses=declared(422),
)
@reads(public=True)
def get_liveness(call: Reader) -> Health:  # noqa: ARG001 - the lane needs it
    """Needs no token and asks nothing else."""
    return Health(status="ok")


@routes.get(
    "/health/ready",
    operation_id="get_readiness",
    tags=["health"],
    summary="Say whether requests can be answered",
    response_model=Readiness,
    responses=declared(422) | {503: {"model": Readiness, "description": "Not ready."}},
)
@reads(public=True)
def get_readiness(call: Reader) -> Response:
    """Needs no token. The ledger is asked; models are not."""
    checks = {"runtime": "ready", "access_mode": "enforced" if call.edge.access else "disabled"}
    try:
        administer.list_scopes(call.db, limit=1)
        checks["database"] = "ready"
    except StoreError as error:
        checks["database"] = error.code
    checks["inference.generation"] = _generation(call)
    ready = checks["database"] == "ready"
    degraded = checks["inference.generation"] == "misconfigured"
    status = "not_ready" if not ready else "degraded" if degraded else "ready"
    return JSONResponse({"status": status, "checks": checks}, 200 if ready else 503)


@routes.get(
    "/v1/capabilities",
    operation_id="get_capabilities",
    tags=["capabilities"],
    summary="Say what this server does",
    response_model=Capabilities,
    responses=declared(422),
)
@reads()
def get_capabilities(call: Reader) -> Capabilities:
    """As it is configured."""
    return Capabilities(
        source_types=["content"],
        artifact_families=list(read_artifacts.FAMILIES),
        memory_extraction=_generation(call) != "misconfigured",
        search_modes=list(blend.modes(call.settings)),
        context_versions=[prepare.SCHEMA],
        experience_generation=_generation(call) != "misconfigured",
        managed_skill_generation=False,
        external_skill_registry=False,
        handoff_generation=False,
        artifact_dreaming=call.settings.dream_enabled and _generation(call) != "misconfigured",
        prompts={
            key: PromptCapability(
                status="supported",
                reason=None,
                definition_version="pc.prompt.v1",
                builtin_version=packaged(key).version,
                builtin_profile=None,
            )
            for key in PROMPTS
        },
    )


@routes.post(
    "/v1/stats",
    operation_id="get_stats",
    tags=["stats"],
    summary="Count what some scopes hold and cost",
    response_model=Statistics,
    responses=declared(404, 408, 413, 422),
)
@reads()
def get_stats(call: Reader, body: GetStatistics) -> Statistics:
    """All of it from one moment."""
    selection = body.selection.model_dump()
    if call.principal.limited:
        for scope in bind.resolve_selection(call.db, selection):
            call.principal.require_scope(scope.scope_id)
    return Statistics.model_validate(
        summarise.statistics(
            call.db,
            selection,
            period=body.period,
            threshold=call.edge.settings.recurrence_threshold,
            now_us=now_us(),
        )
    )


@routes.get(
    "/metrics",
    operation_id="get_metrics",
    tags=["health"],
    summary="Get metrics",
    response_class=Response,
    responses=declared(422) | {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
@reads()
def metrics(call: Reader, request: Request) -> Response:
    """Prometheus' text format."""
    telemetry: Telemetry = request.app.state.telemetry
    now = now_us()
    gauges = diagnose.gauges(diagnose.standing(call.db, now_us=now), now_us=now)
    exposition = telemetry.exposition(gauges)
    return Response(exposition, headers={"Content-Type": CONTENT_TYPE_LATEST})


def _generation(call: Call) -> str:
    """Whether a model is configured; the builtin provider needs nothing."""
    if call.settings.provider == "openai" and not call.settings.llm_model:
        return "misconfigured"
    return call.settings.provider
