"""Scopes: create, read, update, default, bindings, selection."""

from typing import Any

from caller import Caller


def _key(pc: Caller, name: str) -> dict[str, str]:
    return {"integration": "git", "kind": "remote", "external_id": f"{pc.scope}/{name}"}


def create_answers_the_descriptor(pc: Caller) -> None:
    reference = {"kind": "repository", "value": "https://example.org/orders.git"}
    scope = pc.new_scope(
        title="Orders",
        summary="The order service",
        parent_scope_id=pc.scope,
        context_references=[pc.scope],
        external_references=[reference],
    )
    scope_id = scope["scope_id"]
    assert scope_id.startswith("scp_")
    assert len(scope_id) == 30
    assert scope == {
        "scope_id": scope_id,
        "title": "Orders",
        "summary": "The order service",
        "parent_scope_id": pc.scope,
        "context_references": [pc.scope],
        "external_references": [reference],
        "version": 1,
    }
    assert pc.ok("get_scope", scope_id=scope_id) == scope


def the_same_key_makes_no_second_scope(pc: Caller) -> None:
    asked = {"title": "T", "summary": "S", "idempotency_key": f"key of {pc.scope}"}
    first = pc.ok("create_scope", asked)
    assert pc.ok("create_scope", asked) == first
    other = asked | {"title": "Other"}
    pc.refused(409, "scope_idempotency_conflict", "create_scope", other)


def what_breaks_a_rule_is_422(pc: Caller) -> None:
    good = {"title": "T", "summary": "S", "idempotency_key": f"refused {pc.scope}"}
    for fields in (
        {"title": ""},
        {"title": " "},
        {"title": "t" * 257},
        {"summary": " "},
        {"summary": "s" * 2001},
        {"idempotency_key": " padded"},
        {"idempotency_key": ""},
        {"idempotency_key": "k" * 257},
    ):
        pc.refused(422, "invalid_request", "create_scope", good | fields)


def relations_must_hold(pc: Caller) -> None:
    child = pc.new_scope(parent_scope_id=pc.scope)
    good = {"title": "T", "summary": "S", "idempotency_key": f"unrelated {pc.scope}"}
    missing = good | {"parent_scope_id": "nowhere"}
    answer = pc.call("create_scope", missing)
    assert (answer.status, answer.code) in {
        (404, "scope_not_found"),
        (422, "invalid_scope_relationship"),
    }, answer
    update = {"expected_version": 1, "title": "T", "summary": "S"}
    for fields in (
        {"parent_scope_id": child["scope_id"]},
        {"parent_scope_id": pc.scope},
        {"context_references": [pc.scope]},
    ):
        asked = update | fields
        pc.refused(422, "invalid_scope_relationship", "update_scope", asked, scope_id=pc.scope)


def an_unknown_scope_is_404(pc: Caller) -> None:
    pc.refused(404, "scope_not_found", "get_scope", scope_id="nowhere")
    update = {"expected_version": 1, "title": "T", "summary": "S"}
    pc.refused(404, "scope_not_found", "update_scope", update, scope_id="nowhere")


def update_replaces_and_compares_the_version(pc: Caller) -> None:
    update = {"expected_version": 1, "title": "New", "summary": "Newer"}
    updated = pc.ok("update_scope", update, scope_id=pc.scope)
    assert (updated["title"], updated["summary"], updated["version"]) == ("New", "Newer", 2)
    assert pc.ok("get_scope", scope_id=pc.scope) == updated
    details = pc.refused(409, "scope_version_conflict", "update_scope", update, scope_id=pc.scope)
    assert details == {"expected_version": 1, "current_version": 2}


def list_finds_filters_and_pages(pc: Caller) -> None:
    mark = f"mark of {pc.scope}"
    made = [pc.new_scope(title=f"{mark} {n}", parent_scope_id=pc.scope) for n in range(5)]
    wanted = {one["scope_id"] for one in made}
    everything = pc.ok("list_scopes")
    assert everything["next_cursor"] is None
    assert wanted <= {one["scope_id"] for one in everything["items"]}
    for arguments in ({"query": mark, "query_field": "title"}, {"parent_scope_id": pc.scope}):
        found = pc.ok("list_scopes", **arguments)
        assert {one["scope_id"] for one in found["items"]} == wanted
    seen, cursor = [], None
    while True:
        more = {} if cursor is None else {"cursor": cursor}
        page = pc.ok("list_scopes", parent_scope_id=pc.scope, limit=2, **more)
        seen += [one["scope_id"] for one in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert len(seen) == 5
    assert set(seen) == wanted


def list_finds_by_reference_and_binding(pc: Caller) -> None:
    kind = f"kind of {pc.scope}"
    reference = {"kind": kind, "value": f"value of {pc.scope}"}
    made = pc.new_scope(external_references=[reference])
    assert pc.ok("list_scopes", external_reference_kind=kind)["items"] == [made]
    field = "external_reference_value"
    assert pc.ok("list_scopes", query=reference["value"], query_field=field)["items"] == [made]
    key = {"integration": f"i of {pc.scope}", "kind": "remote", "external_id": f"e {pc.scope}"}
    pc.ok("set_scope_binding", {"key": key, "scope_id": made["scope_id"]})
    assert pc.ok("list_scopes", binding_integration=key["integration"])["items"] == [made]
    field = "binding_external_id"
    assert pc.ok("list_scopes", query=key["external_id"], query_field=field)["items"] == [made]


def there_is_a_default_and_it_can_be_set(pc: Caller) -> None:
    before = pc.ok("get_default_scope")
    try:
        assert pc.ok("set_default_scope", {"scope_id": pc.scope})["scope_id"] == pc.scope
        assert pc.ok("get_default_scope")["scope_id"] == pc.scope
        assert pc.ok("resolve_scope_binding", {})["scope_id"] == pc.scope
    finally:
        pc.ok("set_default_scope", {"scope_id": before["scope_id"]})
    pc.refused(404, "scope_not_found", "set_default_scope", {"scope_id": "nowhere"})


def a_binding_leads_to_its_scope(pc: Caller) -> None:
    key, unbound = _key(pc, "one"), _key(pc, "unbound")
    binding = {"key": key, "scope_id": pc.scope}
    assert pc.ok("set_scope_binding", binding) == binding

    def resolved(**fields: Any) -> Any:
        return pc.ok("resolve_scope_binding", fields)["scope_id"]

    other = pc.new_scope()["scope_id"]
    assert resolved(binding_keys=[unbound, key], allow_default=False) == pc.scope
    assert resolved(binding_keys=[key], explicit_scope_id=other) == other
    default = pc.ok("get_default_scope")["scope_id"]
    assert resolved(binding_keys=[unbound]) == default
    nothing = {"binding_keys": [unbound], "allow_default": False}
    pc.refused(404, "scope_not_found", "resolve_scope_binding", nothing)
    pc.ok("set_scope_binding", {"key": key, "scope_id": other})
    assert resolved(binding_keys=[key]) == other
    assert pc.ok("clear_scope_binding", {"key": key}) == {"cleared": True}
    assert pc.ok("clear_scope_binding", {"key": key}) == {"cleared": False}
    missing = {"key": key, "scope_id": "nowhere"}
    pc.refused(404, "scope_not_found", "set_scope_binding", missing)


def a_selection_is_all_exact_or_a_subtree(pc: Caller) -> None:
    child = pc.new_scope(parent_scope_id=pc.scope)["scope_id"]
    grandchild = pc.new_scope(parent_scope_id=child)["scope_id"]

    def resolved(**selection: Any) -> set[str]:
        page = pc.ok("resolve_scope_selection", {"selection": selection})
        return {one["scope_id"] for one in page["items"]}

    assert resolved(mode="exact", scope_ids=[child]) == {child}
    assert resolved(mode="subtree", root_scope_id=pc.scope) == {pc.scope, child, grandchild}
    assert resolved(mode="subtree", root_scope_id=child) == {child, grandchild}
    assert resolved(mode="all") >= {pc.scope, child, grandchild}
    missing = {"selection": {"mode": "exact", "scope_ids": [child, "nowhere"]}}
    pc.refused(404, "scope_not_found", "resolve_scope_selection", missing)
    missing = {"selection": {"mode": "subtree", "root_scope_id": "nowhere"}}
    pc.refused(404, "scope_not_found", "resolve_scope_selection", missing)
