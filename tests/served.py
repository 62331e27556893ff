"""A server of the store at work in a thread of the test's process, and what it is asked over."""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx

from pc_store.api.access import Access
from pc_store.api.server import listen, make_server
from pc_store.settings import Settings


class Served:
    """The server: its address, its settings, and plain HTTP to it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._server = make_server(settings, access=Access.of(settings))
        listening = listen("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listening]})
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive(), "the server did not start"
            time.sleep(0.005)

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        return httpx.post(self.url + path, json=body, headers=headers, timeout=60)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(40)
        assert not self._thread.is_alive()


@contextlib.contextmanager
def served(**settings: Any) -> Iterator[Served]:
    server = Served(Settings(**settings))
    try:
        yield server
    finally:
        server.stop()
