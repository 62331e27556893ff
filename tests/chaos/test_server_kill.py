"""kill -9 of `pc serve` under write load: what was acknowledged is there, nothing is half there.

Each writer sends one request after the other. The one that a kill leaves unanswered it sends again
to the next server, under the same idempotency key, so that at the end every write has to be there
exactly once.
"""

import itertools
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from server_process import ServerProcess

from pc_store.ledger.database import open_database
from pc_store.services.audit import audit
from pc_store.settings import Settings

SCOPE = "shop"
WRITERS = 4
BATCH = 3
ALIVE_S = (0.05, 0.4)
"""How long a server takes writes before it is killed; a write takes some 10 ms."""


@dataclass
class Request:
    """One write, and what has to be there once it was acknowledged."""

    path: str
    body: dict[str, Any]
    key: str
    texts: list[str] = field(default_factory=list)


class Writer:
    """Remembers, batches, captures, revises and retires, one after the other."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.active: set[str] = set()
        self.inactive: set[str] = set()
        self.positions: dict[str, int] = {}
        self.commits = 0
        self.unanswered: Request | None = None
        self.resent = 0
        self.failure: BaseException | None = None
        self._count = itertools.count()
        self._own: dict[str, Any] | None = None

    def work(self, url: str, until: threading.Event) -> None:
        """Write until the server is gone, or told to end."""
        try:
            with httpx.Client(base_url=url, timeout=30, verify=False) as http:
                while not until.is_set():
                    request = self.unanswered or self._next()
                    self.resent += request is self.unanswered
                    self.unanswered = request
                    response = self._sent(http, request)
                    self._acknowledged(request, response)
                    self.unanswered = None
        except httpx.TransportError:
            pass
        except BaseException as error:  # noqa: BLE001  # told by the test
            self.failure = error

    def _sent(self, http: httpx.Client, request: Request) -> httpx.Response:
        headers = {"Idempotency-Key": request.key}
        return http.post(request.path, json=request.body, headers=headers)

    def _next(self) -> Request:
        number = next(self._count)
        name = f"writer {self.number} says {number}"
        entry = {"kind": "fact", "text": name}
        body: dict[str, Any] = {"scope_id": SCOPE}
        cited = {"citation": self._own["citation"]} if self._own else {}
        step = number % 5
        if step == 1:
            texts = [f"{name}, part {part}" for part in range(BATCH)]
            body["entries"] = [{"kind": "fact", "text": text} for text in texts]
            return Request("/v1/memory/remember-batch", body, name, texts)
        if step == 2:
            body |= {"source_id": name, "content": name}
            return Request("/v1/sources/content", body, name)
        if step == 3 and self._own:
            return Request("/v1/memory/entries/revise", body | entry | cited, name, [name])
        if step == 4 and self._own:
            return Request("/v1/memory/entries/retire", body | cited, name)
        return Request("/v1/memory/remember", body | entry, name, [name])

    def _acknowledged(self, request: Request, response: httpx.Response) -> None:
        answer = response.json()
        if response.status_code == 409:  # another writer moved the head: cite it anew
            assert answer["error"]["code"] == "revision_conflict", answer
            assert self._own is not None
            self._own["citation"] = answer["error"]["details"]["citation"]
            return
        assert response.status_code in (200, 202), answer
        if request.path.endswith("/content"):
            self.positions[request.key] = answer["position"]
            return
        self.commits += 1
        if request.path.endswith(("/revise", "/retire")):
            assert self._own is not None
            self.active.discard(self._own["text"])
        if request.path.endswith("/retire"):
            assert self._own is not None
            self.inactive.add(self._own["text"])
            self._own = None
            return
        self.active |= set(request.texts)
        if not request.path.endswith("-batch"):
            self._own = answer["entry"]


def killed(home: Any, url: str, writers: list[Writer], *, kills: int, seed: int) -> None:
    """Kill one server after the other; let a last one answer what was left unanswered."""
    chance = random.Random(seed)
    for life in range(kills + 1):
        with ServerProcess(home / str(life), PC_DATABASE_URL=url, PC_LLM_PROVIDER="builtin") as one:
            if life == 0:
                named = {"scope_id": SCOPE, "title": "T", "summary": "S", "idempotency_key": "k"}
                with one.client() as http:
                    assert http.post("/v1/scopes", json=named).status_code == 201
            last = life == kills
            end = threading.Event()
            threads = [threading.Thread(target=w.work, args=(one.url, end)) for w in writers]
            for thread in threads:
                thread.start()
            time.sleep(0.2 if last else chance.uniform(*ALIVE_S))
            if last:
                end.set()
            else:
                one.kill()
            for thread in threads:
                thread.join(60)
            for writer in writers:
                assert writer.failure is None, one.log.read_text()[-2_000:]
            if last:
                assert_all_there(one, writers)
                one.kill()  # quicker than to stop it


def assert_all_there(server: ServerProcess, writers: list[Writer]) -> None:
    with server.client() as http:

        def asked(path: str, **fields: Any) -> Any:
            response = http.post(path, json={"scope_id": SCOPE, **fields})
            assert response.status_code == 200, response.text
            return response.json()

        listed = asked("/v1/memory/entries/list", include_inactive=True)
        by_state: dict[str, list[str]] = {"active": [], "inactive": []}
        for entry in listed["entries"]:
            by_state[entry["state"]].append(entry["text"])
            assert asked("/v1/memory/entries/get", citation=entry["citation"]) == entry
        for state, texts in by_state.items():
            expected = sorted(text for writer in writers for text in getattr(writer, state))
            assert sorted(texts) == expected
        revisions = asked("/v1/memory/changes", since_revision=0)["revisions"]
        commits = sum(writer.commits for writer in writers)
        assert [one["memory_ref"]["revision"] for one in revisions] == list(range(1, commits + 1))
        assert listed["memory"]["revision"] == commits
        assert {len(one["changes"]) for one in revisions} == {1, BATCH}
        positions = {name: at for writer in writers for name, at in writer.positions.items()}
        assert sorted(positions.values()) == list(range(1, len(positions) + 1))
        for name, position in positions.items():
            found = http.get(f"/v1/scopes/{SCOPE}/sources/content/{name}").json()
            assert (found["position"], found["content"]) == (position, name)


def assert_audited(url: str, home: Any) -> None:
    db = open_database(url)
    try:
        findings = audit(db, Settings(home=home, lag_target=1_000_000))
        assert [one.check for one in findings if not one.passed] == []
    finally:
        db.close()


@pytest.mark.slow
def test_every_write_survives_three_kills_of_the_server(tmp_path, database_url):
    writers = [Writer(number) for number in range(WRITERS)]
    killed(tmp_path, database_url, writers, kills=3, seed=3)
    assert_audited(database_url, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_write_survives_fifty_kills_of_the_server(tmp_path, database_url):
    writers = [Writer(number) for number in range(WRITERS)]
    killed(tmp_path, database_url, writers, kills=50, seed=50)
    assert_audited(database_url, tmp_path)
    assert sum(writer.resent for writer in writers) >= 50  # kills fell into writes
