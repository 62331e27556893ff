"""Who may call what: tokens, scopes, verbs, and where a server without tokens listens."""

import hashlib
import json
import os

import pytest
from calls import REQUEST_ID, new_scope, ok, refused

from pc_store.api.access import Access, refuse_open_bind
from pc_store.errors import InvalidInput
from pc_store.settings import Settings

TOKENS = [
    {"token": "admin-token", "name": "root", "scopes": ["*"], "verbs": ["admin"]},
    {"token": "reader-token", "name": "reader", "scopes": ["mine"], "verbs": ["read"]},
    {"token": "writer-token", "name": "writer", "scopes": ["mine"], "verbs": ["contribute"]},
    {"token": "review-token", "name": "reviewer", "scopes": ["*"], "verbs": ["review"]},
    {
        "token_sha256": hashlib.sha256(b"hashed-token").hexdigest(),
        "name": "hashed",
        "scopes": ["*"],
        "verbs": ["read", "contribute"],
    },
]


@pytest.fixture(scope="module")
def guarded(start_server, tmp_path_factory):
    settings = Settings(home=tmp_path_factory.mktemp("guarded"), api_tokens=json.dumps(TOKENS))
    server = start_server(settings)
    with server.client("admin-token") as admin:
        for scope in ("mine", "other"):
            new_scope(admin, scope)
    yield server
    server.stop()


def test_without_a_known_token_only_public_paths_answer(guarded):
    with guarded.client() as nobody:
        for path in ("/", "/docs", "/openapi.json", "/health/live", "/health/ready"):
            assert nobody.get(path).status_code == 200
        for path in ("/v1/scopes", "/metrics", "/nothing", "/v1/memory/remember"):
            response = nobody.get(path)
            assert refused(response, 401, "unauthorized") is None
            assert response.headers["WWW-Authenticate"] == "Bearer"
        for wrong in (
            "Bearer",
            "Bearer wrong-token",
            "Basic admin-token",
            "admin-token",
            "Bearer admin-token x",
            "Bearer \u00e9",
        ):
            headers = {"Authorization": wrong.encode()}
            refused(nobody.get("/v1/scopes", headers=headers), 401, "unauthorized")
        twice = [("Authorization", "Bearer admin-token")] * 2
        refused(nobody.get("/v1/scopes", headers=twice), 401, "unauthorized")
        for scheme in ("Bearer", "bearer", "BEARER"):
            ok(nobody.get("/v1/scopes", headers={"Authorization": f"{scheme} admin-token"}))


READS = (
    ("GET", "/v1/scopes/{scope}", None),
    ("GET", "/v1/scopes/{scope}/sources", None),
    ("GET", "/v1/scopes/{scope}/artifacts/memory", None),
    ("GET", "/v1/scopes/{scope}/prompts/memory.extract", None),
    ("GET", "/v1/scopes/{scope}/windows", None),
    ("GET", "/v1/scopes/{scope}/quarantine", None),
    ("POST", "/v1/memory/entries/list", {}),
    ("POST", "/v1/memory/search", {"query": "a"}),
    ("POST", "/v1/memory/changes", {}),
)
WRITES = (
    ("POST", "/v1/memory/remember", {"kind": "fact", "text": "a"}),
    ("POST", "/v1/memory/flush", {}),
    ("POST", "/v1/sources/content", {"source_id": "s1", "content": "c"}),
    ("POST", "/v1/scopes/{scope}/sources", {"content": 1}),
)
ADMINISTERS = (
    ("POST", "/v1/memory/entries/purge", {"entry_id": "mem_ent_1"}),
    ("PUT", "/v1/scopes/{scope}/prompts/memory.extract", {"instructions": "x"}),
    ("GET", "/v1/scopes/{scope}/generations", None),
    ("POST", "/v1/scopes/{scope}/generations/none/promote", {}),
)


def call(client, scope, method, path, body):
    if body is not None and "{scope}" not in path:
        body = {"scope_id": scope, **body}
    return client.request(method, path.format(scope=scope), json=body)


@pytest.mark.parametrize(
    ("token", "allowed"),
    [
        ("reader-token", {"mine": READS}),
        ("writer-token", {"mine": WRITES}),
        ("review-token", {}),
        ("hashed-token", {"mine": READS + WRITES, "other": READS + WRITES}),
        ("admin-token", dict.fromkeys(("mine", "other"), READS + WRITES + ADMINISTERS)),
    ],
)
def test_tokens_allow_their_verbs_on_their_scopes_and_nothing_else(guarded, token, allowed):
    with guarded.client(token) as client:
        for scope in ("mine", "other"):
            for case in READS + WRITES + ADMINISTERS:
                response = call(client, scope, *case)
                if case in allowed.get(scope, ()):
                    assert response.status_code not in (401, 403), (case, response.text)
                else:
                    refused(response, 403, "forbidden")


def test_a_forbidden_scope_is_not_told_from_an_unknown_one(guarded):
    with guarded.client("reader-token") as reader:
        known = reader.get("/v1/scopes/other")
        unknown = reader.get("/v1/scopes/nowhere")
        assert refused(known, 403, "forbidden") == refused(unknown, 403, "forbidden")
        assert known.json() == unknown.json()
        listed = ok(reader.get("/v1/scopes?limit=10"))
        assert [item["scope_id"] for item in listed["items"]] == ["mine"]
        assert listed["next_cursor"] is None
        assert len(ok(reader.get("/v1/scopes"))["items"]) == 1
        everything = {"selection": {"mode": "all"}}
        refused(reader.post("/v1/stats", json=everything), 403, "forbidden")
        refused(reader.post("/v1/scopes/selection/resolve", json=everything), 403, "forbidden")
        refused(reader.get("/v1/scopes/default"), 403, "forbidden")
        named = {"explicit_scope_id": "other"}
        refused(reader.post("/v1/scope-bindings/resolve", json=named), 403, "forbidden")


def test_a_limited_token_creates_only_its_own_scopes(guarded):
    wanted = {"title": "t", "summary": "s", "idempotency_key": "k1"}
    with guarded.client("writer-token") as writer:
        refused(writer.post("/v1/scopes", json=wanted), 403, "forbidden")
        chosen = {**wanted, "scope_id": "third"}
        refused(writer.post("/v1/scopes", json=chosen), 403, "forbidden")
        key = {"integration": "git", "kind": "remote", "external_id": "x"}
        refused(writer.post("/v1/scope-bindings/clear", json={"key": key}), 403, "forbidden")
        ok(writer.put("/v1/scope-bindings", json={"key": key, "scope_id": "mine"}))
        refused(
            writer.put("/v1/scope-bindings", json={"key": key, "scope_id": "x"}), 403, "forbidden"
        )


def test_page_cursors_of_one_caller_are_not_good_for_another(guarded):
    with guarded.client("admin-token") as admin, guarded.client("hashed-token") as other:
        for number in range(3):
            body = {"scope_id": "mine", "source_id": f"s{number}", "content": "c"}
            ok(admin.post("/v1/sources/content", json=body), 202)
        path = "/v1/scopes/mine/sources?limit=1"
        cursor = ok(admin.get(path))["next_cursor"]
        ok(admin.get(path, params={"limit": 1, "cursor": cursor}))
        refused(other.get(path, params={"limit": 1, "cursor": cursor}), 400, "invalid_cursor")


def test_the_token_file_is_read_again_when_it_changes(serve, tmp_path, monkeypatch):
    monkeypatch.setattr("pc_store.api.access._LOOK_AGAIN_S", 0)
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps(TOKENS[:1]))
    server = serve(api_tokens=str(file))
    with server.client("admin-token") as admin, server.client("reader-token") as reader:
        ok(admin.get("/v1/capabilities"))
        refused(reader.get("/v1/capabilities"), 401, "unauthorized")
        file.write_text(json.dumps(TOKENS[1:2]))
        ok(reader.get("/v1/capabilities"))
        refused(admin.get("/v1/capabilities"), 401, "unauthorized")
        file.write_text("not JSON")
        ok(reader.get("/v1/capabilities"))
        replaced = tmp_path / "new.json"
        replaced.write_text(json.dumps(TOKENS[:1]))
        os.replace(replaced, file)  # noqa: PTH105 - what deployments do
        ok(admin.get("/v1/capabilities"))


GOOD = TOKENS[0]


@pytest.mark.parametrize(
    ("tokens", "says"),
    [
        ("[]", "at least 1"),
        ("[", "is not JSON"),
        ("/no/such/file", "neither a JSON list nor a readable file"),
        ([GOOD, GOOD], "same name or the same value"),
        ([GOOD | {"scopes": []}], "scopes"),
        ([GOOD | {"verbs": []}], "verbs"),
        ([GOOD | {"verbs": ["own"]}], "verbs"),
        ([GOOD | {"other": 1}], "other"),
        ([GOOD | {"token_sha256": "0" * 64}], "exactly one of"),
        ([{key: value for key, value in GOOD.items() if key != "token"}], "exactly one of"),
        ([GOOD | {"token": "short"}], "token"),
        ([GOOD | {"token": "with space in it"}], "token"),
        ([GOOD | {"name": ""}], "name"),
        ([GOOD | {"name": "runtime"}], "runtime is who calls without a token"),
    ],
)
def test_tokens_that_are_not_valid_stop_the_start_and_are_not_repeated(tokens, says):
    given = tokens if isinstance(tokens, str) else json.dumps(tokens)

    with pytest.raises(InvalidInput) as caught:
        Access.of(Settings(api_tokens=given))

    assert caught.value.field == "PC_API_TOKENS"
    assert says in caught.value.message
    assert "admin-token" not in str(caught.value)


def test_beyond_loopback_tokens_are_needed():
    tokens = Access.of(Settings(api_tokens=json.dumps(TOKENS)))
    for host in ("127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"):
        refuse_open_bind(host, None)
    for host in ("0.0.0.0", "::", "", "192.168.1.5", "example.org", "localhost.example.org"):
        refuse_open_bind(host, tokens)
        with pytest.raises(InvalidInput, match="PC_API_TOKENS: is not set"):
            refuse_open_bind(host, None)


def test_without_tokens_a_foreign_host_name_is_refused(api):
    for host in ("localhost", "127.0.0.1:80", "[::1]:8000", "api", "x.localhost", "192.168.1.5"):
        ok(api.get("/health/live", headers={"Host": host}))
    for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", "a.b."):
        response = api.get("/health/live", headers={"Host": host})
        refused(response, 403, "forbidden")
        assert response.headers[REQUEST_ID]
