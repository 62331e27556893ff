"""The tools agents get over MCP: routes of the HTTP edge under the published names.

A tool takes the fields of its route's body as arguments and answers with the route's body, and
calling it sends that request. So a tool can do nothing that the route would not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi.routing import APIRoute
from pydantic import BaseModel, Field

from pc_store import limits
from pc_store.api.addresses import segment
from pc_store.api.bodies.dream_bodies import (
    DreamCancellation,
    DreamExtra,
    DreamOperation,
    DreamRequest,
    DreamStatus,
    RunId,
)
from pc_store.api.bodies.scope_bodies import QueryField
from pc_store.api.bodies.wire import Identifier, Limit, PageCursor, ScopeBody, Wire
from pc_store.api.routes import (
    artifact_routes,
    candidate_routes,
    context_routes,
    dream_routes,
    entry_routes,
    experience_routes,
    memory_routes,
    recurrence_routes,
    scope_routes,
    source_routes,
    work_routes,
)

_SUBJECTS = (
    source_routes,
    memory_routes,
    entry_routes,
    scope_routes,
    context_routes,
    work_routes,
    experience_routes,
    recurrence_routes,
    candidate_routes,
    dream_routes,
    artifact_routes,
)


class ListScopes(Wire):
    """List scopes by id; with no argument at all, every scope on one page."""

    query: Annotated[str | None, Field(max_length=limits.SCOPE_QUERY_MAX_CHARS)] = None
    query_field: QueryField | None = None
    parent_scope_id: Annotated[str | None, Field(min_length=1, max_length=256)] = None
    external_reference_kind: Annotated[str | None, Field(min_length=1, max_length=128)] = None
    binding_integration: Annotated[str | None, Field(min_length=1, max_length=128)] = None
    binding_kind: Annotated[str | None, Field(min_length=1, max_length=64)] = None
    limit: Limit | None = None
    cursor: PageCursor = None


class GetScope(ScopeBody):
    """Get a scope."""


class ListExperiences(ScopeBody):
    """List the newest revisions of experiences."""

    include_inactive: bool = Field(default=False, description="Deprecated and retired ones too.")
    limit: Limit | None = None
    cursor: PageCursor = None


class ListArtifactRevisions(ScopeBody):
    """List the revisions of an experience or another artifact."""

    family: Literal["experience", "memory", "prompt"] = "experience"
    artifact_id: Identifier
    limit: Limit | None = None
    cursor: PageCursor = None


class ExplainRecurrence(ScopeBody):
    """Say why outcomes did or did not count for an experience."""

    artifact_id: Identifier
    revision: Annotated[int | None, Field(ge=1, description="The head's unless given.")] = None
    limit: Limit | None = None
    cursor: PageCursor = None


class CreateDreamRun(ScopeBody, DreamRequest):
    """Refine chosen memory and experience in the background."""


class GetDreamRun(ScopeBody):
    """Look at one dream."""

    run_id: RunId
    include: Annotated[list[DreamExtra], Field(default=[])]


class CancelDreamRun(ScopeBody, DreamCancellation):
    """End a dream that waits or runs."""

    run_id: RunId


class ListDreamRuns(ScopeBody):
    """List a scope's dreams, newest first."""

    status: DreamStatus | None = None
    operation: DreamOperation | None = None
    limit: Limit | None = None
    cursor: PageCursor = None
    summary: bool = Field(default=False, description="Leave the manifests out.")


@dataclass(frozen=True)
class Tool:
    """One tool and the route behind it.

    Attributes:
        reads: changes nothing.
        destroys: takes something out of sight that was there before.
        repeats: a second call with the same arguments changes nothing more.
    """

    route: APIRoute
    arguments: type[BaseModel]
    answer: type[BaseModel]
    reads: bool
    destroys: bool
    repeats: bool

    @property
    def name(self) -> str:
        """Its published name."""
        return self.route.operation_id or self.route.name

    @property
    def title(self) -> str:
        """What it does, for people."""
        return self.route.summary or self.name

    @property
    def description(self) -> str:
        """What it does and what to expect, for models."""
        return f"{self.title}. {self.route.description}".strip()

    def request(self, arguments: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
        """The method, the address, and the query or body (`params` or `json`) of a call.

        Raises:
            ValidationError: the arguments do not fit, as far as an address cannot show.
        """
        method = min(self.route.methods or ())
        rest = dict(arguments)
        named = [field.alias for field in self.route.dependant.path_params]
        if method == "GET" or named:
            checked = self.arguments.model_validate(rest).model_dump(mode="json", exclude_none=True)
            rest = checked if method == "GET" else rest
        path = self.route.path
        for name in named:
            path = path.replace(f"{{{name}}}", segment(rest.pop(name)))
        return method, path, {"params" if method == "GET" else "json": rest}


def _tools() -> dict[str, Tool]:
    routes = {
        route.operation_id: route
        for subject in _SUBJECTS
        for route in subject.routes.routes
        if isinstance(route, APIRoute)
    }
    of_query: dict[str, type[BaseModel]] = {
        "list_scopes": ListScopes,
        "get_scope": GetScope,
        "list_experiences": ListExperiences,
        "list_artifact_revisions": ListArtifactRevisions,
        "explain_recurrence": ExplainRecurrence,
        "create_dream_run": CreateDreamRun,
        "get_dream_run": GetDreamRun,
        "list_dream_runs": ListDreamRuns,
        "cancel_dream_run": CancelDreamRun,
    }
    made = {}
    for name, hints in _HINTS.items():
        route = routes[name]
        of_body = route.body_field.field_info.annotation if route.body_field else None
        body: Any = of_query.get(name, of_body)
        answer: Any = route.response_model
        made[name] = Tool(route, body, answer, *hints)
    return made


_READS = (True, False, True)
_ADDS = (False, False, False)
_ADDS_ONCE = (False, False, True)
_REPLACES = (False, True, False)
_REPLACES_ONCE = (False, True, True)
_HINTS = {
    "capture_content_source": _ADDS_ONCE,
    "record_task_outcome": _ADDS_ONCE,
    "record_task_receipt": _ADDS_ONCE,
    "search_memory": _READS,
    "prepare_context": _READS,
    "propose_experience": _ADDS,
    "generate_experience": _ADDS,
    "incubate_experience": _ADDS,
    "list_experiences": _READS,
    "get_experience": _READS,
    "list_artifact_revisions": _READS,
    "set_experience_lifecycle": _REPLACES_ONCE,
    "explain_recurrence": _READS,
    "search_experiences": _READS,
    "list_artifact_candidates": _READS,
    "get_artifact_candidate": _READS,
    "list_artifact_candidate_history": _READS,
    "compare_artifact_candidate": _READS,
    "revise_artifact_candidate": _REPLACES,
    "approve_artifact_candidate": _REPLACES_ONCE,
    "reject_artifact_candidate": _REPLACES,
    "create_dream_run": _ADDS_ONCE,
    "get_dream_run": _READS,
    "list_dream_runs": _READS,
    "cancel_dream_run": _REPLACES_ONCE,
    "list_memory_entries": _READS,
    "get_memory_entry": _READS,
    "get_memory_capacity": _READS,
    "list_memory_changes": _READS,
    "remember_memory": _ADDS_ONCE,
    "revise_memory_entry": _REPLACES,
    "retire_memory_entry": _REPLACES,
    "flush_memory": _REPLACES,
    "create_scope": _ADDS_ONCE,
    "list_scopes": _READS,
    "get_scope": _READS,
    "resolve_scope_binding": _READS,
    "set_scope_binding": _REPLACES_ONCE,
    "clear_scope_binding": _REPLACES_ONCE,
}
"""(reads, destroys, repeats) of each. Flush may revise entries. Revise and retire cite a revision
that their success makes stale, so a second call is refused instead of changing nothing; so do
revise and reject of a candidate. Approving one puts the revision before it out of recall.
"""

TOOLS = _tools()
