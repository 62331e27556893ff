"""The HTTP application: puts the parts together and describes them as OpenAPI."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from pc_store import __version__
from pc_store.api import responses
from pc_store.api.access import Access
from pc_store.api.gate import PUBLIC, Gate
from pc_store.api.lanes import Edge
from pc_store.api.mcp_mount import mount
from pc_store.api.responses import REQUEST_ID_HEADER
from pc_store.api.routes import (
    artifact_routes,
    candidate_routes,
    context_routes,
    dream_routes,
    entry_routes,
    experience_routes,
    generation_routes,
    memory_routes,
    recurrence_routes,
    scope_routes,
    service_routes,
    source_routes,
    window_routes,
    work_routes,
)
from pc_store.api.telemetry import Telemetry
from pc_store.ledger.database import open_database
from pc_store.services.bind import default_scope
from pc_store.services.clock import now_us
from pc_store.services.dream_worker import in_background as dreams_in_background
from pc_store.services.index_build import in_background
from pc_store.services.paging import page_cursors
from pc_store.services.recalls import RecallLog
from pc_store.settings import Settings

SUBJECTS = (
    service_routes,
    scope_routes,
    source_routes,
    memory_routes,
    entry_routes,
    artifact_routes,
    experience_routes,
    candidate_routes,
    dream_routes,
    context_routes,
    work_routes,
    recurrence_routes,
    window_routes,
    generation_routes,
)
_ABOUT = (
    "Durable memory for AI agents. Errors have one body everywhere: "
    "`{error: {code, message, details}}`."
)


def create_app(settings: Settings, *, access: Access | None = None) -> FastAPI:
    """Open the ledger and return the application that serves it; it closes the ledger at its end.

    Opening costs the same however much the ledger holds.

    Args:
        access: who may call; None for the tokens that the settings name, or everybody.

    Raises:
        InvalidInput: a setting is not what it must be.
        StoreUnavailable: the ledger cannot be reached, or is newer than this code.
    """
    access = access or Access.of(settings)
    secret = settings.cursor_secret
    db = open_database(settings.ledger_url, wait_s=settings.database_wait_s)
    try:
        default_scope(db, now_us=now_us())
        cursors = page_cursors(db, secret=secret.get_secret_value() if secret else None)
    except BaseException:
        db.close()
        raise

    telemetry = Telemetry()

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        with in_background(db, settings), dreams_in_background(db, settings):
            yield
        telemetry.close()
        app.state.edge.close()

    app = FastAPI(
        title="PC Pipelines",
        version=__version__,
        description=_ABOUT,
        lifespan=lifespan,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.edge = Edge(settings, db, access, cursors, RecallLog(db, days=settings.recall_days))
    app.state.telemetry = telemetry
    served = [
        route
        for subject in SUBJECTS
        for route in subject.routes.routes
        if isinstance(route, APIRoute)
    ]
    responses.install(app, [*served, mount(app)])
    # The routes themselves, built when their modules were loaded. With `include_router` every
    # application builds all of them again at its first request, longer than a command takes.
    app.router.routes.extend(served)
    app.add_middleware(Gate, settings=settings, access=access, telemetry=telemetry)
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    return app


def _described(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document: tokens, and the request id on every answer."""
    if app.openapi_schema:
        return app.openapi_schema
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    components = document.setdefault("components", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        components.get("schemas", {}).pop(unused, None)
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    components["headers"] = {
        "RequestId": {
            "description": "Names the request in the server's log.",
            "schema": {"type": "string"},
        }
    }
    for path, operations in document["paths"].items():
        for operation in operations.values():
            operation["security"] = [] if path in PUBLIC else [{}, {"token": []}]
            for answer in operation["responses"].values():
                answer.setdefault("headers", {})[REQUEST_ID_HEADER] = {
                    "$ref": "#/components/headers/RequestId"
                }
    app.openapi_schema = document
    return document
