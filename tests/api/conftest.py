"""Real servers on real sockets, and clients of them.

`api` is a client of a server that lives as long as the session, one on SQLite and one on Postgres:
a test keeps to itself by working in a scope of its own, `scope`. `serve` starts servers with
settings of a test's own.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from calls import declared, new_scope
from model_stub import MODEL, ModelStub
from proposals import with_source

from pc_store.api.access import Access
from pc_store.api.server import Server, listen, make_server
from pc_store.ledger.database import Database
from pc_store.settings import Settings


@dataclass
class Running:
    """A server at work in a thread of this process."""

    settings: Settings
    server: Server = field(init=False)
    url: str = field(init=False)
    port: int = field(init=False)

    def __post_init__(self) -> None:
        access = Access.of(self.settings)
        self.server = make_server(self.settings, access=access)
        listening = listen("127.0.0.1", 0)
        self.port = listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listening]})
        self._thread.start()
        while not self.server.started:
            assert self._thread.is_alive(), "the server did not start"
            time.sleep(0.005)

    @property
    def app(self) -> Any:
        return self.server.config.app

    @cached_property
    def document(self) -> dict[str, Any]:
        return self.app.openapi()

    @property
    def db(self) -> Database:
        """The server's own ledger."""
        return self.app.state.edge.db

    def client(self, token: str | None = None, **options: Any) -> httpx.Client:
        """A client whose every answer must be one that the OpenAPI document declares."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        hooks = {"response": [partial(declared, self.document)]}
        return httpx.Client(
            base_url=self.url,
            headers=headers,
            timeout=60,
            event_hooks=hooks,
            verify=False,  # spares reading the certificates of the world, for plain HTTP
            **options,
        )

    def stop(self) -> None:
        self.server.should_exit = True
        self._thread.join(40)
        assert not self._thread.is_alive()


class _Where(logging.Handler):
    """Shows where a server failed beside the test that met its 500."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == "failure":
            fields = record.fields  # type: ignore[attr-defined]
            own = [place for place in fields["at"] if "/pc_store/" in place]
            sys.stderr.write("\n  ".join([fields["error"], *own[-3:]]) + "\n")


@pytest.fixture(scope="session", autouse=True)
def _where() -> None:
    logging.getLogger("pc_store.api").addHandler(_Where())


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def running(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    _model_stub_process: ModelStub,
) -> Iterator[Running]:
    """A server on an empty ledger of either kind, its model the stub."""
    databases = request.getfixturevalue(f"{request.param}_databases")
    url = databases.create()
    server = Running(
        Settings(
            home=tmp_path_factory.mktemp("served"),
            database_url=url,
            llm_provider="openai",
            llm_base_url=_model_stub_process.base_url,
            llm_model=MODEL,
            llm_transport_retries=0,
            source_window_limit=3,
            retry_base_s=0,
            embed_provider="none",
        )
    )
    yield server
    server.stop()
    databases.drop(url)


@pytest.fixture(scope="session")
def start_server() -> type[Running]:
    """Start a server; whoever does stops it."""
    return Running


@pytest.fixture
def api(running: Running, model_stub: ModelStub) -> Iterator[httpx.Client]:
    """A client of the session's server; the stub has no scripts."""
    with running.client() as client:
        yield client


@pytest.fixture
def scope(api: httpx.Client) -> str:
    """A scope that only this test knows."""
    return new_scope(api)


@pytest.fixture
def here(api: httpx.Client, scope: str) -> str:
    """The test's own scope, whose log has the source s1."""
    return with_source(api, scope)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start servers with settings of one's own, on SQLite."""
    started: list[Running] = []

    def start(**settings: Any) -> Running:
        values = {"home": tmp_path / f"home{len(started)}", **settings}
        started.append(Running(Settings(**values)))
        return started[-1]

    yield start
    for server in started:
        server.stop()
