"""How tests call the HTTP server, and what every answer of it has."""

import itertools
import re
import time
from typing import Any

import httpx

REQUEST_ID = "X-PowerContext-Request-ID"
_numbers = itertools.count(1)


def declared(document: dict[str, Any], response: httpx.Response) -> None:
    """Fail unless the OpenAPI document declares the status for the route that answered."""
    path = response.request.url.raw_path.decode().partition("?")[0]
    method = response.request.method.lower()
    fitting = [
        operations[method]
        for template, operations in document["paths"].items()
        if method in operations and re.fullmatch(re.sub(r"{\w+}", "[^/]+", template), path)
    ]
    if fitting:  # the first is the more exact, as in routing
        assert str(response.status_code) in fitting[0]["responses"], (method, path, response)


def new_scope(api: httpx.Client, scope_id: str | None = None, **fields: Any) -> str:
    """Create a scope and return its id."""
    number = next(_numbers)
    wanted = {
        "scope_id": scope_id or f"scope-{number}",
        "title": "A title",
        "summary": "A summary",
        "idempotency_key": f"test-{number}",
        **fields,
    }
    return ok(api.post("/v1/scopes", json=wanted), 201)["scope_id"]


def ok(response: httpx.Response, status: int = 200) -> Any:
    """The body of a success."""
    assert response.status_code == status, response.text
    assert response.headers[REQUEST_ID]
    return response.json()


def refused(response: httpx.Response, status: int, code: str) -> Any:
    """The details of a refusal, whose body has the one form."""
    assert response.status_code == status, response.text
    assert response.headers[REQUEST_ID]
    body = response.json()
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"code", "message", "details"}
    assert body["error"]["code"] == code, body
    assert body["error"]["message"]
    return body["error"]["details"]


def remember(api: httpx.Client, scope: str, text: str, **fields: Any) -> Any:
    """Add an entry and return the answer."""
    body = {"scope_id": scope, "kind": "fact", "text": text, **fields}
    return ok(api.post("/v1/memory/remember", json=body))


def capture(api: httpx.Client, scope: str, *contents: str) -> None:
    """Append sources s1, s2, …"""
    for number, content in enumerate(contents, start=1):
        body = {"scope_id": scope, "source_id": f"s{number}", "content": content}
        assert ok(api.post("/v1/sources/content", json=body), 202)["position"] == number


def recalls(api: httpx.Client, scope: str, count: int, **query: Any) -> Any:
    """The recalls of a scope, once there are so many: they are logged after the answer."""
    until = time.monotonic() + 20
    while True:
        page = ok(api.get(f"/v1/scopes/{scope}/recalls", params=query))
        if len(page["items"]) >= count or time.monotonic() > until:
            return page
        time.sleep(0.02)


def ref(revision: int) -> dict[str, Any]:
    """The memory at a revision."""
    return {"family": "memory", "artifact_id": "memory", "revision": revision}
