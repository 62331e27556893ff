"""`pc serve` as a process of its own, as a user starts it."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

import httpx

PROGRAM = "from pc_store.cli.app import main; main()"
_SERVING = re.compile(r"serving (http://\S+) ")
_WITHIN_S = 60


class ServerProcess:
    """A server on a port of its own. `url` is where it answers; its stderr goes to `log`.

    `env` are further variables; those of the caller's environment that begin with `PC_` do not
    reach it.
    """

    def __init__(self, home: Path, **env: str) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.log = home / "server.log"
        inherited = {name: value for name, value in os.environ.items() if name[:3] != "PC_"}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, "serve", "--port", "0"],
                stdout=subprocess.DEVNULL,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**inherited, "PC_HOME": str(home), **env},
                start_new_session=True,
            )
        try:
            self.url = self._wait_for_address()
            self._wait_for_answer()
        except BaseException:
            self.kill()
            raise

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60, verify=False, **options)

    def kill(self) -> None:
        """End it, and whatever it started, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def stop(self) -> int:
        """End it as a user does; return its exit code."""
        self.process.terminate()
        try:
            return self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop()

    def _wait_for_address(self) -> str:
        ends = time.monotonic() + _WITHIN_S
        while time.monotonic() < ends:
            if found := _SERVING.search(self.log.read_text()):
                return found[1]
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"the server did not start: {self.log.read_text()}")

    def _wait_for_answer(self) -> None:
        ends = time.monotonic() + _WITHIN_S
        while time.monotonic() < ends and self.process.poll() is None:
            with contextlib.suppress(httpx.TransportError):
                httpx.get(f"{self.url}/health/live", timeout=5, trust_env=False)
                return
            time.sleep(0.01)
        raise AssertionError(f"the server does not answer: {self.log.read_text()}")
