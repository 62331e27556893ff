"""The OpenAPI document is complete and true.

That it is true is checked all the time: every answer that a test gets through a client of
`conftest.py` has a status that the document declares for its route, see `calls.declared`.
"""

import json
import re

import pytest
from calls import ok
from fastapi.routing import APIRoute

from pc_store.api.app import SUBJECTS
from pc_store.api.gate import PUBLIC

EVERY = {"401", "403", "500", "503"}
WITH_BODY = {"408", "413", "422"}


@pytest.fixture(scope="module")
def document(running):
    with running.client() as api:
        return ok(api.get("/openapi.json"))


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def resolved(document, node):
    """A node with its first reference followed."""
    if "$ref" in node:
        for name in node["$ref"].removeprefix("#/").split("/"):
            document = document[name]
        return document
    return node


def test_every_route_is_described(document):
    served = {
        f"{method} {route.path_format}"
        for subject in SUBJECTS
        for route in subject.routes.routes
        if isinstance(route, APIRoute)
        for method in route.methods
    }

    assert served - {name for name, _ in operations(document)} == {"GET /"}


def test_every_operation_has_a_name_of_its_own_a_summary_and_a_tag(document):
    names = [operation["operationId"] for _, operation in operations(document)]
    assert len(set(names)) == len(names)
    for _, operation in operations(document):
        assert re.fullmatch(r"[a-z_]+", operation["operationId"])
        assert operation["summary"]
        assert operation["tags"]


def test_refusals_are_declared_with_the_one_error_body(document):
    for name, operation in operations(document):
        statuses = set(operation["responses"])
        assert statuses >= EVERY, name
        if "requestBody" in operation:
            assert statuses >= WITH_BODY, name
        for status, answer in operation["responses"].items():
            assert answer["description"]
            assert answer["headers"]["X-PowerContext-Request-ID"], (name, status)
            if int(status) >= 400 and (name, status) != ("GET /health/ready", "503"):
                schema = answer["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/ErrorResponse"}, (name, status)
        successes = 2 if name == "POST /v1/scopes/{scope_id}/dream" else 1  # queued, or replayed
        assert sum(int(status) < 300 for status in statuses) == successes, name


def test_request_bodies_are_closed_and_have_an_example_that_is_valid(document, running):
    models = {
        model.__name__: model
        for subject in SUBJECTS
        for route in subject.routes.routes
        if isinstance(route, APIRoute) and route.body_field is not None
        for model in [route.body_field.field_info.annotation]
    }
    seen = set()
    for name, operation in operations(document):
        if "requestBody" not in operation:
            continue
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        body = resolved(document, schema)
        assert body["additionalProperties"] is False, name
        title = schema["$ref"].rpartition("/")[2]
        seen.add(title)
        if title != "ScopeBinding" and title != "ClearBinding":
            assert body["examples"], name
        for example in body.get("examples", ()):
            models[title].model_validate(example)
    assert seen == set(models)


def test_public_paths_ask_for_no_token_and_all_others_take_one(document):
    assert document["components"]["securitySchemes"] == {
        "token": {"type": "http", "scheme": "bearer"}
    }
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert operation["security"] == ([] if path in PUBLIC else [{}, {"token": []}])


def test_the_document_refers_to_nothing_that_is_not_there_and_back(document):
    text = json.dumps(document)
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', text))
    assert named == set(document["components"]["schemas"])
    for schema in document["components"]["schemas"].values():
        assert schema.get("additionalProperties") in (False, None), schema["title"]


def test_the_published_operations_have_their_published_names(document):
    found = {operation["operationId"]: name for name, operation in operations(document)}
    published = {
        "get_liveness": "GET /health/live",
        "get_readiness": "GET /health/ready",
        "get_capabilities": "GET /v1/capabilities",
        "list_scopes": "GET /v1/scopes",
        "create_scope": "POST /v1/scopes",
        "get_scope": "GET /v1/scopes/{scope_id}",
        "update_scope": "PUT /v1/scopes/{scope_id}",
        "get_default_scope": "GET /v1/scopes/default",
        "set_default_scope": "PUT /v1/scopes/default",
        "resolve_scope_selection": "POST /v1/scopes/selection/resolve",
        "resolve_scope_binding": "POST /v1/scope-bindings/resolve",
        "set_scope_binding": "PUT /v1/scope-bindings",
        "clear_scope_binding": "POST /v1/scope-bindings/clear",
        "capture_content_source": "POST /v1/sources/content",
        "create_source": "POST /v1/scopes/{scope_id}/sources",
        "list_sources": "GET /v1/scopes/{scope_id}/sources",
        "get_source": "GET /v1/scopes/{scope_id}/sources/{source_type}/{source_id}",
        "remember_memory": "POST /v1/memory/remember",
        "flush_memory": "POST /v1/memory/flush",
        "search_memory": "POST /v1/memory/search",
        "list_memory_entries": "POST /v1/memory/entries/list",
        "get_memory_entry": "POST /v1/memory/entries/get",
        "revise_memory_entry": "POST /v1/memory/entries/revise",
        "retire_memory_entry": "POST /v1/memory/entries/retire",
        "list_memory_changes": "POST /v1/memory/changes",
        "get_memory_capacity": "POST /v1/memory/capacity",
        "list_artifacts": "GET /v1/scopes/{scope_id}/artifacts/{family}",
        "get_artifact": "GET /v1/scopes/{scope_id}/artifacts/{family}/{artifact_id}",
        "get_artifact_revision": (
            "GET /v1/scopes/{scope_id}/artifacts/{family}/{artifact_id}/revisions/{revision}"
        ),
        "list_artifact_revisions": (
            "GET /v1/scopes/{scope_id}/artifacts/{family}/{artifact_id}/revisions"
        ),
        "get_prompt_configuration": "GET /v1/scopes/{scope_id}/prompts/{prompt_key}",
        "propose_experience": "POST /v1/experience/propose",
        "get_experience": "POST /v1/experience/get",
        "list_artifact_candidates": "POST /v1/artifact-candidates/list",
        "get_artifact_candidate": "POST /v1/artifact-candidates/get",
        "revise_artifact_candidate": "POST /v1/artifact-candidates/revise",
        "approve_artifact_candidate": "POST /v1/artifact-candidates/approve",
        "reject_artifact_candidate": "POST /v1/artifact-candidates/reject",
        "get_stats": "POST /v1/stats",
    }
    assert {name: found.get(name) for name in published} == published
