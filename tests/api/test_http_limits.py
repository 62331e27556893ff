"""Slow and greedy clients: each is given up after a while, and the others do not notice."""

import contextlib
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from calls import REQUEST_ID, capture, new_scope, ok, refused
from model_stub import MODEL, hold

from pc_store.api import server as serving

HEAD = b"POST /v1/memory/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture
def impatient(serve):
    return serve(http_client_timeout_s=0.6)


def connected(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=15)


def read_all(client):
    return client.makefile("rb").read()


def test_a_head_that_does_not_end_closes_the_connection(impatient):
    for begin in (b"", b"GET /health", HEAD):
        with connected(impatient) as client:
            began = time.monotonic()
            client.sendall(begin)
            assert read_all(client) == b""
            assert 0.4 < time.monotonic() - began < 8


def test_a_head_that_drips_is_given_no_longer(impatient):
    with connected(impatient) as client:
        began = time.monotonic()
        with contextlib.suppress(OSError):
            for byte in (HEAD * 100)[:300]:
                client.sendall(bytes([byte]))
                time.sleep(0.05)
        assert time.monotonic() - began < 8


def test_a_second_request_on_a_connection_is_watched_as_well(impatient):
    with connected(impatient) as client:
        client.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(0.2)
        client.sendall(b"GET /health/live HTT")
        answer = read_all(client)
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert answer.count(b"HTTP/1.1") == 1


def test_a_body_that_does_not_come_is_a_408(impatient):
    with connected(impatient) as client:
        client.sendall(HEAD + b'Content-Length: 1000\r\n\r\n{"scope_id"')
        answer = read_all(client)
    head, _, content = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert REQUEST_ID.lower().encode() in head.lower()
    assert json.loads(content)["error"]["code"] == "request_timeout"


def test_a_client_that_goes_away_is_no_failure(serve, caplog):
    caplog.set_level("INFO", logger="pc_store")
    server = serve()
    with connected(server) as client:
        client.sendall(HEAD + b'Content-Length: 1000\r\n\r\n{"scope_id"')
        time.sleep(0.2)
    deadline = time.monotonic() + 10
    while not caplog.records:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    (record,) = caplog.records
    assert (record.levelname, record.fields["status"]) == ("INFO", 499)


def test_a_head_without_end_is_refused(impatient):
    with connected(impatient) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 70_000)
        answer = read_all(client)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "invalid_request"


def test_a_client_that_does_not_take_its_answer_is_given_up(serve):
    server = serve(http_client_timeout_s=0.6)
    with server.client() as api:
        scope = ok(api.get("/v1/scopes/default"))["scope_id"]
        for number in range(40):
            body = {"scope_id": scope, "source_id": f"s{number}", "content": "x" * 100_000}
            ok(api.post("/v1/sources/content", json=body), 202)
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", server.port))
            path = f"/v1/scopes/{scope}/sources?limit=100"
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            time.sleep(0.3)
            connections = server.server.server_state.connections
            deadline = time.monotonic() + 20
            while len(connections) > 1:
                assert time.monotonic() < deadline
                time.sleep(0.05)


def test_idle_connections_do_not_keep_others_out(impatient):
    idle = [connected(impatient) for _ in range(100)]
    with impatient.client() as api:
        ok(api.get("/health/live"))
    for client in idle:
        client.close()


def test_more_connections_than_allowed_are_closed_at_once(impatient, monkeypatch):
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 5)
    open_ones = [connected(impatient) for _ in range(5)]
    time.sleep(0.2)
    with connected(impatient) as one_more:
        one_more.settimeout(5)
        with contextlib.suppress(ConnectionResetError):
            assert one_more.recv(1) == b""
    for client in open_ones:
        client.close()


def test_more_requests_than_the_server_takes_on_are_a_503(serve, model_stub):
    server = serve(
        http_max_requests=2,
        llm_provider="openai",
        llm_base_url=model_stub.base_url,
        llm_model=MODEL,
    )
    with server.client() as api, ThreadPoolExecutor(2) as pool:
        scopes = [new_scope(api) for _ in range(2)]
        for scope in scopes:
            capture(api, scope, "We decided.")
        model_stub.answer(hold(), hold())

        def flush(scope):
            with server.client() as client:
                return client.post("/v1/memory/flush", json={"scope_id": scope})

        waiting = [pool.submit(flush, scope) for scope in scopes]
        model_stub.wait_until_held(2)
        response = api.get("/health/live")
        refused(response, 503, "server_busy")
        assert response.headers["Retry-After"] == "1"
        model_stub.release()
        for one in waiting:
            ok(one.result())
        ok(api.get("/health/live"))
