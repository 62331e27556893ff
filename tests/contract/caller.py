"""How a scenario calls a server: by the operation names of the published Python client.

A scenario does not know who carries its calls. `PlainCaller` (here) sends them with httpx;
`foreign_driver.py` sends them through the published client, in that client's own Python. So this
module and the scenarios use the standard library alone, httpx aside.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

EMPTY_ITEMS = {"items": [], "next_cursor": None}


@dataclass(frozen=True)
class Answer:
    """A status, and the body of a success or the error of a refusal."""

    status: int
    body: Any = None
    code: str | None = None
    details: Any = None


class Refused(AssertionError):
    """A call that had to succeed did not."""


class Caller:
    """What scenarios see. Each scenario has one, with a scope of its own as `scope`."""

    scope = ""

    def call(self, operation: str, request: Any = None, **arguments: Any) -> Answer:
        """Make a call, whatever comes of it."""
        raise NotImplementedError

    def ok(self, operation: str, request: Any = None, **arguments: Any) -> Any:
        """Make a call and return the body of its success."""
        answer = self.call(operation, request, **arguments)
        if answer.code is not None or answer.status >= 400:
            raise Refused(f"{operation}: {answer}")
        return answer.body

    def refused(
        self, status: int, code: str, operation: str, request: Any = None, **arguments: Any
    ) -> Any:
        """Make a call that must be refused so, and return the details."""
        answer = self.call(operation, request, **arguments)
        assert (answer.status, answer.code) == (status, code), f"{operation}: {answer}"
        return answer.details

    def put(self, path: str, body: Any) -> int:
        """Put what no operation of the client puts; return the status."""
        raise NotImplementedError

    # What most scenarios begin with.

    def new_scope(self, **fields: Any) -> Any:
        raise NotImplementedError

    def memory(self, operation: str, **fields: Any) -> Any:
        """A call on the scenario's scope that must succeed."""
        return self.ok(operation, {"scope_id": self.scope, **fields})

    def memory_refused(self, status: int, code: str, operation: str, **fields: Any) -> Any:
        """A call on the scenario's scope that must be refused."""
        return self.refused(status, code, operation, {"scope_id": self.scope, **fields})

    def remember(self, text: str, kind: str = "fact", **fields: Any) -> Any:
        return self.memory("remember_memory", kind=kind, text=text, **fields)

    def entry(self, text: str, kind: str = "fact", **fields: Any) -> Any:
        """Remember what is new; return the entry."""
        return self.remember(text, kind, **fields)["entry"]

    def capture(self, source_id: str, content: str, **fields: Any) -> Any:
        return self.memory("capture_content_source", source_id=source_id, content=content, **fields)

    def texts(self, *, include_inactive: bool = False) -> list[str]:
        """The texts listed, sorted."""
        listed = self.memory("list_memory_entries", include_inactive=include_inactive)
        return sorted(entry["text"] for entry in listed["entries"])


def ref(revision: int) -> dict[str, Any]:
    """The scope's memory at a revision."""
    return {"family": "memory", "artifact_id": "memory", "revision": revision}


# Operation: method, path, status of a success. Arguments that the path does not name are a query.
OPERATIONS = {
    "get_liveness": ("GET", "/health/live", 200),
    "get_readiness": ("GET", "/health/ready", 200),
    "get_capabilities": ("GET", "/v1/capabilities", 200),
    "get_stats": ("POST", "/v1/stats", 200),
    "create_scope": ("POST", "/v1/scopes", 201),
    "list_scopes": ("GET", "/v1/scopes", 200),
    "get_scope": ("GET", "/v1/scopes/{scope_id}", 200),
    "update_scope": ("PUT", "/v1/scopes/{scope_id}", 200),
    "get_default_scope": ("GET", "/v1/scopes/default", 200),
    "set_default_scope": ("PUT", "/v1/scopes/default", 200),
    "resolve_scope_selection": ("POST", "/v1/scopes/selection/resolve", 200),
    "resolve_scope_binding": ("POST", "/v1/scope-bindings/resolve", 200),
    "set_scope_binding": ("PUT", "/v1/scope-bindings", 200),
    "clear_scope_binding": ("POST", "/v1/scope-bindings/clear", 200),
    "capture_content_source": ("POST", "/v1/sources/content", 202),
    "record_task_outcome": ("POST", "/v1/work/outcomes/record", 202),
    "create_source": ("POST", "/v1/scopes/{scope_id}/sources", 201),
    "list_sources": ("GET", "/v1/scopes/{scope_id}/sources", 200),
    "get_source": ("GET", "/v1/scopes/{scope_id}/sources/{source_type}/{source_id}", 200),
    "remember_memory": ("POST", "/v1/memory/remember", 200),
    "flush_memory": ("POST", "/v1/memory/flush", 200),
    "search_memory": ("POST", "/v1/memory/search", 200),
    "prepare_context": ("POST", "/v1/context/prepare", 200),
    "list_memory_entries": ("POST", "/v1/memory/entries/list", 200),
    "get_memory_entry": ("POST", "/v1/memory/entries/get", 200),
    "revise_memory_entry": ("POST", "/v1/memory/entries/revise", 200),
    "retire_memory_entry": ("POST", "/v1/memory/entries/retire", 200),
    "list_memory_changes": ("POST", "/v1/memory/changes", 200),
    "get_memory_capacity": ("POST", "/v1/memory/capacity", 200),
    "list_artifacts": ("GET", "/v1/scopes/{scope_id}/artifacts/{family}", 200),
    "get_artifact": ("GET", "/v1/scopes/{scope_id}/artifacts/{family}/{artifact_id}", 200),
    "list_artifact_revisions": (
        "GET",
        "/v1/scopes/{scope_id}/artifacts/{family}/{artifact_id}/revisions",
        200,
    ),
    "get_artifact_revision": (
        "GET",
        "/v1/scopes/{scope_id}/artifacts/{family}/{artifact_id}/revisions/{revision}",
        200,
    ),
    "propose_experience": ("POST", "/v1/experience/propose", 201),
    "generate_experience": ("POST", "/v1/experience/generate", 200),
    "get_experience": ("POST", "/v1/experience/get", 200),
    "list_artifact_candidates": ("POST", "/v1/artifact-candidates/list", 200),
    "get_artifact_candidate": ("POST", "/v1/artifact-candidates/get", 200),
    "revise_artifact_candidate": ("POST", "/v1/artifact-candidates/revise", 200),
    "approve_artifact_candidate": ("POST", "/v1/artifact-candidates/approve", 200),
    "reject_artifact_candidate": ("POST", "/v1/artifact-candidates/reject", 200),
    "create_dream_run": ("POST", "/v1/scopes/{scope_id}/dream", 202),
    "list_dream_runs": ("GET", "/v1/scopes/{scope_id}/dream", 200),
    "get_dream_run": ("GET", "/v1/scopes/{scope_id}/dream/{run_id}", 200),
    "get_prompt_configuration": ("GET", "/v1/scopes/{scope_id}/prompts/{prompt_key}", 200),
}


class PlainCaller(Caller):
    """Sends calls with an httpx client."""

    def __init__(self, http: Any, name: str) -> None:
        self._http = http
        self._name = name
        self._scopes = 0
        self.scope = self.new_scope()["scope_id"]

    def new_scope(self, **fields: Any) -> Any:
        self._scopes += 1
        key = f"{self._name}-{self._scopes}"
        asked = {"title": "A title", "summary": "A summary", "idempotency_key": key}
        return self.ok("create_scope", asked | fields)

    def put(self, path: str, body: Any) -> int:
        status: int = self._http.put(path, json=body).status_code
        return status

    def call(self, operation: str, request: Any = None, **arguments: Any) -> Answer:
        method, template, succeeds = OPERATIONS[operation]
        quoted = {name: quote(str(value), safe="") for name, value in arguments.items()}
        path = template.format(**quoted)
        query = {k: v for k, v in arguments.items() if "{" + k + "}" not in template}
        headers = {}
        if "if_none_match" in query:
            headers["If-None-Match"] = query.pop("if_none_match")
        options: dict[str, Any] = {"json": request} if method != "GET" else {}
        if method == "GET":
            query |= request or {}
        response = self._http.request(method, path, params=query, headers=headers, **options)
        assert response.headers["X-PowerContext-Request-ID"]
        if response.status_code == 304:
            return Answer(304)
        body = response.json()
        if response.status_code >= 400:
            assert body.keys() == {"error"}, body
            error = body["error"]
            assert error.keys() == {"code", "message", "details"}, body
            assert error["message"], body
            return Answer(response.status_code, None, error["code"], error["details"])
        expected = {succeeds, 200} if operation == "create_dream_run" else {succeeds}
        assert response.status_code in expected, response
        return Answer(response.status_code, body)
