"""Scopes, the default one, bindings and selections, over HTTP."""

from calls import new_scope, ok, refused

UNKNOWN = "no-such-scope"


def described(scope_id, version=1, **fields):
    return {
        "scope_id": scope_id,
        "title": "A title",
        "summary": "A summary",
        "parent_scope_id": None,
        "context_references": [],
        "external_references": [],
        "version": version,
        **fields,
    }


def test_a_created_scope_is_described_whole_and_read_back(api, scope):
    child = new_scope(
        api,
        parent_scope_id=scope,
        context_references=[scope],
        external_references=[{"kind": "repository", "value": "https://example.org/a.git"}],
    )

    assert ok(api.get(f"/v1/scopes/{child}")) == described(
        child,
        parent_scope_id=scope,
        context_references=[scope],
        external_references=[{"kind": "repository", "value": "https://example.org/a.git"}],
    )


def test_the_server_makes_an_id_unless_one_is_given(api):
    made = ok(
        api.post("/v1/scopes", json={"title": "t", "summary": "s", "idempotency_key": "made-1"}),
        201,
    )

    assert made["scope_id"].startswith("scp_")
    assert len(made["scope_id"]) == 30


def test_the_same_creation_key_makes_one_scope_and_refuses_other_values(api):
    wanted = {"title": "t", "summary": "s", "idempotency_key": "made-2"}
    first = ok(api.post("/v1/scopes", json=wanted), 201)

    assert ok(api.post("/v1/scopes", json=wanted), 201) == first
    other = api.post("/v1/scopes", json={**wanted, "title": "other"})
    refused(other, 409, "scope_idempotency_conflict")


def test_an_update_replaces_everything_and_counts_versions(api, scope):
    wanted = {"expected_version": 1, "title": "New", "summary": "Newer"}
    now = described(scope, version=2, title="New", summary="Newer")

    assert ok(api.put(f"/v1/scopes/{scope}", json=wanted)) == now
    details = refused(api.put(f"/v1/scopes/{scope}", json=wanted), 409, "scope_version_conflict")
    assert details == {"expected_version": 1, "current_version": 2}
    assert ok(api.get(f"/v1/scopes/{scope}")) == now


def test_a_scope_cannot_become_its_own_ancestor(api, scope):
    child = new_scope(api, parent_scope_id=scope)
    wanted = {"expected_version": 1, "title": "t", "summary": "s", "parent_scope_id": child}

    details = refused(
        api.put(f"/v1/scopes/{scope}", json=wanted), 422, "invalid_scope_relationship"
    )
    assert details.keys() == {"relationship", "issue"}


def test_what_does_not_exist_is_not_found(api, scope):
    refused(api.get(f"/v1/scopes/{UNKNOWN}"), 404, "scope_not_found")
    wanted = {"expected_version": 1, "title": "t", "summary": "s"}
    refused(api.put(f"/v1/scopes/{UNKNOWN}", json=wanted), 404, "scope_not_found")
    refused(api.put("/v1/scopes/default", json={"scope_id": UNKNOWN}), 404, "scope_not_found")
    orphan = {**wanted, "parent_scope_id": UNKNOWN}
    refused(api.put(f"/v1/scopes/{scope}", json=orphan), 404, "scope_not_found")


def test_lists_go_on_page_by_page_and_end(api):
    parent = new_scope(api)
    children = sorted(new_scope(api, parent_scope_id=parent) for _ in range(5))
    found, cursor = [], None
    while True:
        wanted = {"parent_scope_id": parent, "limit": 2} | ({"cursor": cursor} if cursor else {})
        page = ok(api.get("/v1/scopes", params=wanted))
        found += [item["scope_id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break

    assert found == children


def test_without_parameters_every_scope_is_on_one_page(api):
    made = {new_scope(api) for _ in range(3)}

    page = ok(api.get("/v1/scopes"))

    assert made <= {item["scope_id"] for item in page["items"]}
    assert page["next_cursor"] is None


def test_scopes_are_found_by_a_part_of_a_field(api):
    scope = new_scope(api, title="Zebrafish orders")

    page = ok(api.get("/v1/scopes", params={"query": "Zebrafish", "query_field": "title"}))

    assert [item["scope_id"] for item in page["items"]] == [scope]


def test_a_parameter_of_this_list_that_breaks_a_rule_is_a_422(api):
    for wrong in ("limit=0", "limit=x", "query_field=other", "query=x", "cusor=x"):
        refused(api.get(f"/v1/scopes?{wrong}"), 422, "invalid_request")


def test_a_cursor_works_for_its_own_list_only(api):
    parent = new_scope(api)
    for _ in range(3):
        new_scope(api, parent_scope_id=parent)
    wanted = {"parent_scope_id": parent, "limit": 2}
    cursor = ok(api.get("/v1/scopes", params=wanted))["next_cursor"]

    for other in ({"limit": 3}, {"parent_scope_id": "x"}, {"cursor": cursor[:-2]}):
        response = api.get("/v1/scopes", params=wanted | {"cursor": cursor} | other)
        assert refused(response, 400, "invalid_cursor") == {
            "field": "cursor",
            "reason": "is invalid",
        }


def test_the_default_scope_is_there_and_can_be_chosen(api, scope):
    before = ok(api.get("/v1/scopes/default"))
    try:
        assert ok(api.put("/v1/scopes/default", json={"scope_id": scope})) == described(scope)
        assert ok(api.get("/v1/scopes/default")) == described(scope)
    finally:
        ok(api.put("/v1/scopes/default", json={"scope_id": before["scope_id"]}))


def test_a_binding_is_set_resolved_and_cleared(api, scope):
    key = {"integration": "git", "kind": "remote", "external_id": f"git@example.org:{scope}"}
    resolve = {"binding_keys": [key], "allow_default": False}

    refused(api.post("/v1/scope-bindings/resolve", json=resolve), 404, "scope_not_found")
    bound = {"key": key, "scope_id": scope}
    assert ok(api.put("/v1/scope-bindings", json=bound)) == bound
    assert ok(api.post("/v1/scope-bindings/resolve", json=resolve)) == described(scope)
    assert ok(api.post("/v1/scope-bindings/clear", json={"key": key})) == {"cleared": True}
    assert ok(api.post("/v1/scope-bindings/clear", json={"key": key})) == {"cleared": False}
    default = ok(api.get("/v1/scopes/default"))
    assert ok(api.post("/v1/scope-bindings/resolve", json={"binding_keys": [key]})) == default
    named = {"explicit_scope_id": scope, "binding_keys": [key]}
    assert ok(api.post("/v1/scope-bindings/resolve", json=named)) == described(scope)


def test_selections_name_scopes(api):
    root = new_scope(api)
    child = new_scope(api, parent_scope_id=root)

    def resolved(selection):
        page = ok(api.post("/v1/scopes/selection/resolve", json={"selection": selection}))
        assert page["next_cursor"] is None
        return [item["scope_id"] for item in page["items"]]

    assert resolved({"mode": "subtree", "root_scope_id": root}) == [root, child]
    assert resolved({"mode": "exact", "scope_ids": [child, root]}) == [child, root]
    assert {root, child} <= set(resolved({"mode": "all"}))
    for wrong in (
        {"mode": "other"},
        {"mode": "exact", "scope_ids": []},
        {"mode": "exact", "scope_ids": [root, root]},
        {"mode": "subtree"},
    ):
        response = api.post("/v1/scopes/selection/resolve", json={"selection": wrong})
        refused(response, 422, "invalid_request")


def test_ids_with_slashes_dots_and_any_script_are_addressed_by_encoding(api):
    for scope_id in ("a/b", "../../etc/x", "..%2F", "CON", "订单/金额", "\\", "a b?c#d", "100%"):
        made = new_scope(api, scope_id)
        assert made == scope_id
        encoded = "".join(f"%{byte:02X}" for byte in scope_id.encode())
        assert ok(api.get(f"/v1/scopes/{encoded}"))["scope_id"] == scope_id
        assert ok(api.get(f"/v1/scopes/{encoded}/sources")) == {"items": [], "next_cursor": None}


def test_ids_that_only_look_alike_are_distinct(api):
    names = ["Alpha", "alpha", "ALPHA", "\u00e1lpha", "a\u0301lpha"]
    for name in names:
        new_scope(api, name, title=name)

    for name in names:
        assert ok(api.get(f"/v1/scopes/{name}"))["title"] == name
