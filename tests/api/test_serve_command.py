"""`pc serve` as a program: it starts, says where, stops on signals, and keeps its company."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest
from calls import ok

from pc_store.cli.serve_command import serve
from pc_store.errors import InvalidInput, StoreUnavailable

PROGRAM = "from pc_store.cli.app import main; main()"


class Started:
    """A `pc serve` process; `url` once it serves."""

    def __init__(self, home, *arguments, **env):
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "serve", "--port", "0", *arguments],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PC_HOME": str(home), **env},
            start_new_session=True,
        )
        self.lines = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)

    @property
    def url(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for line in list(self.lines):
                if found := re.search(r"serving (http://\S+) ", line):
                    self._wait_for(found[1])
                    return found[1]
            assert self.process.poll() is None, self.lines
            time.sleep(0.02)
        raise AssertionError(self.lines)

    def _wait_for(self, url):
        for _ in range(500):
            try:
                httpx.get(f"{url}/health/live", timeout=5)
                return
            except httpx.TransportError:
                time.sleep(0.02)

    def ended(self, within_s=30):
        code = self.process.wait(within_s)
        self._reader.join(5)
        self.process.stderr.close()
        return code


@pytest.fixture
def pc_serve(tmp_path):
    started = []

    def start(*arguments, **env):
        started.append(Started(tmp_path / "home", *arguments, **env))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            os.killpg(one.process.pid, signal.SIGKILL)
        one.ended()


def test_it_serves_until_a_signal_and_ends_well(pc_serve):
    server = pc_serve()
    assert ok(httpx.get(f"{server.url}/health/ready"))["status"] == "ready"

    server.process.terminate()

    assert server.ended() == 0
    assert server.lines[0].endswith("(no tokens, this machine only)\n")
    for line in server.lines[1:]:
        assert json.loads(line)["level"] == "info"


def test_what_cannot_be_served_is_refused_before_anything_is_opened(monkeypatch, tmp_path):
    monkeypatch.setenv("PC_HOME", str(tmp_path / "home"))
    with pytest.raises(InvalidInput, match=r"PC_API_TOKENS: is not set, and 0\.0\.0\.0 can be"):
        serve(host="0.0.0.0")
    with pytest.raises(InvalidInput, match="COMMAND: there is no program /no/such/program"):
        serve(beside=["/no/such/program"])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StoreUnavailable, match=f"127.0.0.1 port {port}: Address already in"):
            serve(port=port)
    monkeypatch.setenv("PC_HTTP_PORT", "70000")
    with pytest.raises(InvalidInput, match="PC_HTTP_PORT: "):
        serve()
    assert not (tmp_path / "home").exists()


def test_beyond_loopback_it_starts_with_tokens(pc_serve):
    token = {"token": "some-long-token", "name": "me", "scopes": ["*"], "verbs": ["read"]}
    server = pc_serve("--host", "0.0.0.0", PC_API_TOKENS=json.dumps([token]))
    url = server.url.replace("0.0.0.0", "127.0.0.1")

    assert httpx.get(f"{url}/v1/scopes").status_code == 401
    ok(httpx.get(f"{url}/v1/scopes", headers={"Authorization": "Bearer some-long-token"}))
    server.process.send_signal(signal.SIGINT)
    assert server.ended() == 0
    assert "some-long-token" not in "".join(server.lines)


COMPANY = """
import os, signal, sys, time
signal.signal(signal.SIGINT, lambda *_: (open(sys.argv[1], "a").write("stopped"), sys.exit(0)))
open(sys.argv[1], "w").write(f"{os.getpid()} ")
time.sleep(60)
"""


def wait_for(path):
    deadline = time.monotonic() + 30
    while not (path.exists() and path.read_text().endswith(" ")):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_program_beside_it_is_stopped_with_it(pc_serve, tmp_path):
    mark = tmp_path / "mark"
    server = pc_serve("--", sys.executable, "-c", COMPANY, str(mark))
    assert server.url
    wait_for(mark)

    server.process.send_signal(signal.SIGINT)

    assert server.ended() == 0
    assert mark.read_text().endswith(" stopped")


def test_it_stops_when_the_program_beside_it_ends(pc_serve):
    failing = pc_serve("--", sys.executable, "-c", "raise SystemExit(3)")
    assert failing.ended(60) == 1
    assert failing.lines[0].startswith("pc: serving ")


@pytest.mark.slow
def test_an_acknowledged_write_survives_a_kill(pc_serve):
    server = pc_serve()
    api = httpx.Client(base_url=server.url)
    scope = ok(api.get("/v1/scopes/default"))["scope_id"]
    for number in range(5):
        body = {"scope_id": scope, "kind": "fact", "text": f"Text {number}."}
        ok(api.post("/v1/memory/remember", json=body))
    server.process.kill()
    server.ended()
    again = pc_serve()
    listed = ok(
        httpx.post(f"{again.url}/v1/memory/entries/list", json={"scope_id": scope}, timeout=30)
    )
    assert [entry["text"] for entry in listed["entries"]] == [f"Text {n}." for n in range(5)]
    api.close()
