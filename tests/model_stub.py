"""A small OpenAI-compatible endpoint for tests: a real HTTP server in a process of its own.

The process runs `model_stub_server.py`; this file is how tests use it. Without a script it answers
every piece of evidence with one `add` of its first sentence, or where experiences are asked for,
each task outcome with a candidate; always the same for the same request. A test scripts it:

    model_stub.answer(status(429, retry_after_ms=1), says({"candidates": []}))   # in this order
    model_stub.whenever("POISON", status(500))      # each request that holds the text
    model_stub.answer(hold()); …; model_stub.wait_until_held(); model_stub.release()

and reads back what was sent with `model_stub.requests()`. A scripted answer is used up before a
standing one is looked at.

It embeds as well: texts that share words are near each other, equal ones equal. Its embeddings
have a script, rules and requests of their own:

    model_stub.answer_embedding(embeds(spoiled="nan"), status(429, retry_after_ms=1))
    model_stub.whenever_embedding("POISON", status(400)); model_stub.embedding_requests()
"""

import contextlib
import http.client
import json
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, Self

import model_stub_server
import pytest

Answer = model_stub_server.Answer
MODEL = model_stub_server.MODEL
EMBEDDING_MODEL = "stub-embedding-1"
EMBEDDING_DIMS = model_stub_server.EMBEDDING_DIMS


# Answers


def says(reply: object, **options: Any) -> Answer:
    """A reply as JSON. Options are those of `text`."""
    return text(json.dumps(reply, ensure_ascii=False), **options)


def text(content: str | None, **options: Any) -> Answer:
    """A reply as the model's raw text: the content, or in tools mode the tool's arguments.

    Options: `fenced` puts it into a Markdown fence; `as_content` answers as text although a
    tool was asked for; `finish_reason`; `refusal`; `usage`, None to leave it out; `delay_s`
    before the answer; `drip_s` between its bytes; `calls`, several tool calls' arguments.
    """
    return {"text": content, **options}


def adding(*items: tuple[str, str], kind: str = "fact", **options: Any) -> Answer:
    """A reply of `add` candidates, each from (text, evidence id)."""
    candidates = [
        {"intent": "add", "kind": kind, "text": said, "evidence_ids": [evidence_id]}
        for said, evidence_id in items
    ]
    return says({"candidates": candidates}, **options)


def status(number: int, /, *, retry_after_ms: int | None = None, **error: Any) -> Answer:
    """An error status; `error` are the fields of OpenAI's error object."""
    headers = {} if retry_after_ms is None else {"retry-after-ms": str(retry_after_ms)}
    body = {"error": {"message": "stub", "type": "stub", "param": None, "code": None, **error}}
    return {"status": number, "headers": headers, "body": json.dumps(body)}


def body(raw: str, *, content_type: str = "application/json", code: int = 200) -> Answer:
    """A response with this body, whatever it is."""
    return {"status": code, "headers": {"content-type": content_type}, "body": raw}


def hold(then: Answer | None = None) -> Answer:
    """Answer (`then`, or the default) only after `release`."""
    return {**(then or {}), "hold": True}


def dropped() -> Answer:
    """The connection closed without a response."""
    return {"drop": True}


def embeds(**options: Any) -> Answer:
    """Embeddings as they would be without a script, but for these options.

    `dims`; `base64`, whatever was asked for; `usage`, None to leave it out; `scale` of the
    vectors; `delay_s`; and `spoiled`: `empty` (no item), `missing` (one item fewer), `extra`,
    `duplicate` (an index twice), `unindexed` (no index), `reversed` (last item first), or of the
    item `at` (0): `nan`, `null`, `none` (null in place of the list), `zero`, `short`, `words`.
    """
    return {"embeds": True, **options}


# The client's side


class ModelStub:
    """A running stub, as a test sees it. Also a context manager that starts and stops it."""

    def __init__(self) -> None:
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def base_url(self) -> str:
        """What to set `PC_LLM_BASE_URL` to."""
        return f"http://127.0.0.1:{self.port}/v1"

    def env(self) -> dict[str, str]:
        """The environment that makes the stub the model."""
        return {
            "PC_LLM_PROVIDER": "openai",
            "PC_LLM_BASE_URL": self.base_url,
            "PC_LLM_MODEL": MODEL,
            "PC_LLM_API_KEY": "stub-key",
        }

    def embedding_env(self) -> dict[str, str]:
        """The environment that makes the stub the embedder, with vectors of 64 dimensions."""
        return {
            "PC_EMBED_PROVIDER": "openai",
            "PC_EMBED_BASE_URL": self.base_url,
            "PC_EMBED_MODEL": EMBEDDING_MODEL,
            "PC_EMBED_API_KEY": "stub-key",
            "PC_EMBED_TRANSPORT_RETRIES": "0",
        }

    def answer(self, *answers: Answer) -> None:
        """Queue answers: each is given once, in order."""
        self._control("POST", "/script", list(answers))

    def whenever(self, contains: str, answer: Answer) -> None:
        """Give this answer to each request whose messages hold the text, until `reset`."""
        self._control("POST", "/rules", {"contains": contains, "answer": answer})

    def always(self, answer: Answer) -> None:
        """Give this answer to every request for which nothing is queued, until `reset`."""
        self.whenever("", answer)

    def requests(self) -> list[dict[str, Any]]:
        """Every chat completion asked for since `reset`: `path`, `headers`, `body`."""
        found: list[dict[str, Any]] = self._control("GET", "/requests")
        return found

    def answer_embedding(self, *answers: Answer) -> None:
        """Queue answers to embedding requests: each is given once, in order."""
        self._control("POST", "/embedding-script", list(answers))

    def whenever_embedding(self, contains: str, answer: Answer) -> None:
        """Give this answer to each embedding request with the text, until `reset`."""
        self._control("POST", "/embedding-rules", {"contains": contains, "answer": answer})

    def embedding_requests(self) -> list[dict[str, Any]]:
        """Every embedding request since `reset`: `path`, `headers`, `body`."""
        found: list[dict[str, Any]] = self._control("GET", "/embedding-requests")
        return found

    def wait_until_held(self, count: int = 1, *, within_s: float = 10.0) -> None:
        """Wait until this many requests are held back."""
        ends = time.monotonic() + within_s
        while self._control("GET", "/held") < count:
            if time.monotonic() > ends:
                raise TimeoutError(f"fewer than {count} requests are held")
            time.sleep(0.01)

    def release(self) -> None:
        """Answer every request that is held; later ones may be held again."""
        self._control("POST", "/release")

    def reset(self) -> None:
        """Forget scripts, rules and requests, and release what is held. Starts a killed stub."""
        if self._process is None or self._process.poll() is not None:
            self.start()
        self._control("POST", "/reset")

    def start(self) -> None:
        """Start the process, on the port it had before if there was one."""
        self.kill()
        command = [sys.executable, model_stub_server.__file__, str(self.port)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], 20)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            self.kill()
            raise RuntimeError("the model stub did not start")
        self.port = int(line)

    def kill(self) -> None:
        """End the process at once, as a crash would; connections are reset."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        process.wait(10)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _control(self, method: str, path: str, value: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, "/__stub" + path, json.dumps(value))
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


@pytest.fixture(scope="session")
def _model_stub_process() -> Iterator[ModelStub]:
    with ModelStub() as stub:
        yield stub


@pytest.fixture
def model_stub(_model_stub_process: ModelStub) -> Iterator[ModelStub]:
    """The session's stub, without scripts; whatever a test leaves held is released."""
    _model_stub_process.reset()
    yield _model_stub_process
    with contextlib.suppress(OSError):  # the test killed it
        _model_stub_process.release()
