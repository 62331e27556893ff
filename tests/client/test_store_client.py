"""The client against a real server: every route has its method, every refusal its error."""

import inspect
import time

import httpx
import pytest
from model_stub import MODEL, status
from served import served

from pc_store import errors
from pc_store.api import refusals
from pc_store.client import Client, ScopeBindingKey
from pc_store.client.citing import cite
from pc_store.client.in_process import LocalClient
from pc_store.client.raised import ServerUnreachable
from pc_store.settings import Settings


def make(client, scope_id):
    client.create_scope("T", "S", idempotency_key=scope_id, scope_id=scope_id)
    return scope_id


def test_every_operation_of_the_server_has_a_method_of_its_name(server):
    document = httpx.get(f"{server.url}/openapi.json").json()
    operations = {
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
    }
    methods = {
        name
        for name, _ in inspect.getmembers(Client, inspect.isfunction)
        if not name.startswith("_") and name != "close"
    }
    assert methods == operations


@pytest.mark.parametrize("scope_id", ["shop", "a/b", "..", "50% 商店", "a?b#c"])
def test_any_scope_id_can_be_addressed(client, scope_id):
    assert client.get_scope(make(client, scope_id)).scope_id == scope_id
    assert client.list_sources(scope_id).items == []


def test_a_memory_from_capture_to_purge(client):
    scope = make(client, "life")
    captured = client.capture_content_source(
        scope, "s1", "We must store amounts as cents.", metadata={"kind": "worklog"}
    )
    assert (captured.position, captured.status) == (1, "accepted")
    assert client.get_processing_status(scope).pending == 1
    assert client.flush_memory(scope).processed_source_count == 1
    assert client.drain_memory(scope).status == "idle"
    (learnt,) = client.list_memory_entries(scope).entries
    assert learnt.source_refs[0].source_id == "s1"

    told = client.remember_memory(scope, "Names are UTF-8.", kind="fact").entry
    batch = client.remember_memory_batch(
        scope, [{"kind": "fact", "text": "Names are UTF-8."}, {"kind": "fact", "text": "New."}]
    )
    assert [entry is not None for entry in batch.entries] == [False, True]
    hits = client.search_memory(scope, "utf-8 names", include=["kind", "matched_terms"]).hits
    assert [(hit.kind, hit.citation.entry_id) for hit in hits] == [("fact", told.citation.entry_id)]

    with pytest.raises(errors.RevisionConflict) as caught:
        client.retire_memory_entry(scope, told.citation)
    assert caught.value.details["current"] == 3
    now = cite(client, scope, told.citation.entry_id)
    assert now.citation.model_dump() == caught.value.details["citation"]
    revised = client.revise_memory_entry(scope, now.citation, "Names are NFC.", kind="fact").entry
    retired = client.retire_memory_entry(scope, revised.citation, reason="old").entry
    active = client.reactivate_memory_entry(scope, retired.citation).entry
    assert (revised.version, retired.state, active.state) == (2, "inactive", "active")
    assert client.get_memory_entry(scope, told.citation).text == "Names are UTF-8."
    history = client.list_memory_entry_history(scope, told.citation.entry_id).changes
    assert [change.op for change in history] == ["add", "revise", "deactivate", "reactivate"]
    assert [change.op for change in client.list_memory_changes(scope).revisions[0].changes] == [
        "reactivate"
    ]
    assert len(client.compare_memory_revisions(scope, 2, 4).entries) == 2
    assert client.get_memory_capacity(scope).active_entry_count == 3

    client.purge_memory_entry(scope, told.citation.entry_id)
    with pytest.raises(errors.EntryPurged):
        client.get_memory_entry(scope, told.citation)


def test_artifacts_prompts_windows_and_the_service(client):
    scope = make(client, "rest")
    source = client.create_source(scope, None)
    assert client.get_source(scope, source.source_id).content is None
    client.capture_content_source(scope, "s1", "We must keep cents.")
    client.flush_memory(scope)
    head = client.get_artifact(scope, "memory", "memory")
    assert head is not None
    assert client.get_artifact(scope, "memory", "memory", unless_revision=head.revision) is None
    assert client.get_artifact_revision(scope, "memory", "memory", 1) == head
    assert client.list_artifact_revisions(scope, "memory", "memory").items[0].revision == 1
    assert client.list_artifacts(scope, "memory").items[0].artifact_id == "memory"

    mine = client.set_prompt_instructions(scope, "memory.extract", "Only cents.", reason="why")
    assert (mine.mode, mine.artifact.revision) == ("custom", 1)
    assert client.set_prompt_instructions(scope, "memory.extract", None).mode == "auto"
    assert client.get_prompt_configuration(scope, "memory.extract").effective is not None

    (window,) = client.list_windows(scope, status=["processed"]).items
    assert client.replay_window(scope, window.window).status == "processed"
    assert client.replay_window(scope, window.window, generation="g").status == "processed"
    assert [one.name for one in client.list_generations(scope).items] == ["g"]
    assert client.compare_generation(scope, "g").memory_revision == 1
    ended = client.promote_generation(scope, "g", expected_revision=1)
    assert client.get_generation(scope, "g") == ended
    with pytest.raises(errors.GenerationEnded):
        client.discard_generation(scope, "g")
    assert client.list_quarantined_sources(scope).items == []
    with pytest.raises(errors.NotFound):
        client.release_quarantined_source(scope, 1)

    assert client.get_liveness().status == "ok"
    assert client.get_readiness().status == "ready"
    assert client.get_capabilities().memory_extraction
    assert client.get_stats({"mode": "exact", "scope_ids": [scope]}).inventory["sources"] == {
        "total": 2,
        "memory_processed": 2,
        "memory_pending": 0,
    }
    assert "pc_http_requests_total" in client.get_metrics()


def test_a_context_and_the_log_of_recalls(client):
    scope = make(client, "context")
    client.remember_memory(scope, "Amounts are integer cents.", kind="fact")
    plain = client.prepare_context(scope, "amounts")
    assert (plain.status, plain.content_bytes) == ("ready", len(plain.content.encode()))
    assert plain.model_dump(exclude_unset=True).keys() == {
        *("schema", "status", "content", "content_bytes")
    }
    arranged = client.prepare_context(
        scope,
        "amounts",
        max_bytes=512,
        assembly={"sections": [{"family": "memory", "limit": 1}]},
        include=["omitted", "truncated", "recall_id", "mode"],
    )
    assert "## Memory" in arranged.content
    assert (arranged.omitted, arranged.truncated) == ({}, 0)
    with pytest.raises(errors.InvalidInput) as caught:
        client.prepare_context(scope, "amounts", max_bytes=64)
    assert caught.value.field == "max_bytes"
    until = time.monotonic() + 20
    while len(client.list_recalls(scope).items) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    newest = client.list_recalls(scope, limit=1)
    assert newest.items[0].recall_id == arranged.recall_id
    (older,) = client.list_recalls(scope, limit=1, cursor=newest.next_cursor).items
    assert older.content_bytes == plain.content_bytes


def test_scopes_bindings_and_pages(client):
    names = [make(client, f"page-{number}") for number in range(3)]
    key = ScopeBindingKey(integration="git", kind="remote", external_id="x")
    client.set_scope_binding(key, names[0])
    assert client.resolve_scope_binding([key]).scope_id == names[0]
    assert client.clear_scope_binding(key).cleared
    scope = client.get_scope(names[0])
    renamed = client.update_scope(names[0], expected_version=1, title="New", summary="S")
    assert (scope.version, renamed.version, renamed.title) == (1, 2, "New")
    with pytest.raises(errors.ScopeVersionConflict):
        client.update_scope(names[0], expected_version=1, title="New", summary="S")
    first = client.list_scopes(query="page-", query_field="scope_id", limit=2)
    second = client.list_scopes(
        query="page-", query_field="scope_id", limit=2, cursor=first.next_cursor
    )
    assert [scope.scope_id for scope in (*first.items, *second.items)] == names
    assert client.set_default_scope(names[1]) == client.get_default_scope()
    exact = {"mode": "exact", "scope_ids": names}
    assert len(client.resolve_scope_selection(exact).items) == 3


def test_a_refusal_is_the_error_that_has_its_code(client, model_stub):
    scope = make(client, "errors")
    with pytest.raises(errors.ScopeNotFound) as caught:
        client.get_scope("nowhere")
    assert caught.value.details == {"scope_id": "nowhere"}
    with pytest.raises(errors.InvalidInput) as caught:
        client.remember_memory(scope, "x" * 8193, kind="fact")
    assert (caught.value.code, caught.value.field) == ("invalid_request", "text")
    with pytest.raises(errors.SecretDetected):
        client.remember_memory(scope, "key AKIAIOSFODNN7EXAMPLE", kind="fact")
    with pytest.raises(errors.InvalidCursor):
        client.list_sources(scope, cursor="forged")
    with pytest.raises(errors.ArtifactNotFound):
        client.get_memory_capacity(scope)
    client.remember_memory(scope, "One.", kind="fact")
    client.capture_content_source(scope, "s1", "Text.")
    with pytest.raises(errors.SourceConflict):
        client.capture_content_source(scope, "s1", "Other text.")
    model_stub.answer(status(401))
    with pytest.raises(errors.ModelMisconfigured):
        client.flush_memory(scope)
    with pytest.raises(errors.InvalidInput, match="cannot be sent"):
        client.remember_memory(scope, "\ud800", kind="fact")


def test_a_search_that_the_server_cannot_do_is_told(tmp_path):
    with served(home=tmp_path, embed_provider="none") as server, Client(server.url) as client:
        client.remember_memory(make(client, "words"), "One.", kind="fact")
        with pytest.raises(errors.NotSupported):
            client.search_memory("words", "one", mode="vector")


def test_an_idempotency_key_makes_a_call_once(client):
    scope = make(client, "once")
    first = client.create_source(scope, {"a": 1}, idempotency_key="k")
    assert client.create_source(scope, {"a": 1}, idempotency_key="k") == first
    with pytest.raises(errors.IdempotencyConflict):
        client.create_source(scope, {"a": 2}, idempotency_key="k")


def test_the_address_and_the_token_come_from_the_environment(tmp_path, monkeypatch):
    tokens = '[{"name":"a","token":"some-token","scopes":["*"],"verbs":["read"]}]'
    with served(home=tmp_path, api_tokens=tokens) as server:
        monkeypatch.setenv("PC_API_URL", server.url + "/")
        with Client() as client, pytest.raises(refusals.Unauthorized):
            client.list_scopes()
        monkeypatch.setenv("PC_API_TOKEN", "some-token")
        with Client() as client:
            assert client.url == server.url
            assert len(client.list_scopes().items) == 1
            with pytest.raises(refusals.Forbidden):
                client.create_scope("T", "S", idempotency_key="k")
        with Client(token="other-token") as client, pytest.raises(refusals.Unauthorized):
            client.list_scopes()


def test_a_client_in_the_same_process_answers_alike(client, tmp_path, model_stub):
    settings = Settings(
        home=tmp_path,
        llm_provider="openai",
        llm_base_url=model_stub.base_url,
        llm_model=MODEL,
        api_tokens='[{"name":"a","token":"some-token","scopes":["*"],"verbs":["read"]}]',
    )
    told = []
    with LocalClient(settings) as local:
        for one in (client, local):
            make(one, "twin")
            one.capture_content_source("twin", "s1", "We must keep cents.")
            one.flush_memory("twin")
            with pytest.raises(errors.ScopeNotFound) as caught:
                one.get_scope("nowhere")
            (entry,) = one.list_memory_entries("twin").entries
            told.append((entry.kind, entry.text, entry.source_refs, caught.value.details))
    assert told[0] == told[1]


def test_nothing_listens():
    with Client("http://127.0.0.1:9") as client, pytest.raises(ServerUnreachable):
        client.get_liveness()
