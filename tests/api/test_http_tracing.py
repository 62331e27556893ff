"""Traces: sent when an endpoint is configured, with templates and statuses and nothing of users."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from calls import new_scope, ok, remember

from pc_store.api import tracing

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def collector(monkeypatch):
    """An OTLP endpoint that keeps what it is sent."""
    received = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv(tracing.ENDPOINT, f"http://127.0.0.1:{server.server_port}")
    yield received
    server.shutdown()
    server.server_close()


def test_requests_are_traced_with_the_caller_s_trace_and_without_texts(serve, collector):
    server = serve()
    with server.client() as api:
        scope = new_scope(api, "SENTINEL")
        remember(api, scope, "SENTINEL text")
        sent = {"traceparent": f"00-{TRACE_ID}-00f067aa0ba902b7-01"}
        ok(api.get("/v1/scopes/SENTINEL?", headers=sent))
    server.app.state.telemetry.close()

    spans = b"".join(collector)

    assert b"POST /v1/memory/remember" in spans
    assert b"GET /v1/scopes/{scope_id}" in spans
    assert bytes.fromhex(TRACE_ID) in spans
    assert b"SENTINEL" not in spans


def test_without_an_endpoint_nothing_of_it_is_there(monkeypatch):
    monkeypatch.delenv(tracing.ENDPOINT, raising=False)

    assert tracing.tracer() is None
