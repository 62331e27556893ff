"""The process behind `model_stub.py`: it answers as OpenAI would, and as a test has told it.

Chat completions and embeddings only, standard library only. It is told what to answer, and asked
what it was sent, under `/__stub`. It prints its port and ends when its standard input does, unless
that is a terminal: `python tests/model_stub_server.py` runs one by hand.
"""

import base64
import contextlib
import hashlib
import json
import math
import os
import re
import struct
import sys
import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = dict[str, Any]
MODEL = "stub-1"
EMBEDDING_DIMS = 64
_USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
_KINDS = (
    ("decision", r"decid|chose|agreed|we will|决定|采用|改用|选定"),
    ("constraint", r"must|never|required|cannot|forbid|必须|不得|禁止"),
    ("preference", r"prefer|would rather|偏好|喜欢|倾向"),
    ("working_note", r"todo|next step|in progress|unfinished|待办|下一步|进行中"),
)


class _State:
    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.script: deque[Answer] = deque()
        self.rules: list[dict[str, Any]] = []
        self.requests: deque[dict[str, Any]] = deque(maxlen=2_000)
        self.embedding_script: deque[Answer] = deque()
        self.embedding_rules: list[dict[str, Any]] = []
        self.embedding_requests: deque[dict[str, Any]] = deque(maxlen=2_000)
        self.held = 0
        self.releases = 0

    def control(self, method: str, path: str, value: Any) -> Any:
        with self.changed:
            if (method, path) == ("GET", "/requests"):
                return list(self.requests)
            if (method, path) == ("GET", "/held"):
                return self.held
            if (method, path) == ("GET", "/embedding-requests"):
                return list(self.embedding_requests)
            if path == "/script":
                self.script.extend(value)
            elif path == "/rules":
                self.rules.append(value)
            elif path == "/embedding-script":
                self.embedding_script.extend(value)
            elif path == "/embedding-rules":
                self.embedding_rules.append(value)
            elif path == "/release":
                self._release()
            elif path == "/reset":
                self.script.clear()
                self.rules.clear()
                self.requests.clear()
                self.embedding_script.clear()
                self.embedding_rules.clear()
                self.embedding_requests.clear()
                self._release()
            else:
                return {"error": f"no control {path}"}
            return {}

    def take(self, request: dict[str, Any]) -> Answer:
        """The answer to a request, after whatever wait the answer asks for."""
        said = "\n".join(str(message.get("content")) for message in request["body"]["messages"])
        return self._take(request, said, self.requests, self.script, self.rules)

    def take_embedding(self, request: dict[str, Any]) -> Answer:
        """As `take`, of a request for embeddings."""
        said = "\n".join(_texts(request["body"]))
        return self._take(
            request, said, self.embedding_requests, self.embedding_script, self.embedding_rules
        )

    def _take(
        self,
        request: dict[str, Any],
        said: str,
        requests: deque[dict[str, Any]],
        script: deque[Answer],
        rules: list[dict[str, Any]],
    ) -> Answer:
        with self.changed:
            requests.append(request)
            if script:
                answer = script.popleft()
            else:
                matching = (rule["answer"] for rule in rules if rule["contains"] in said)
                answer = next(matching, {})
            if answer.get("hold"):
                waits_for = self.releases + 1
                self.held += 1
                self.changed.wait_for(lambda: self.releases >= waits_for)
                self.held -= 1
        time.sleep(answer.get("delay_s", 0))
        return answer

    def _release(self) -> None:
        self.releases += 1
        self.changed.notify_all()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    state: _State

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, *_: object) -> None:
        """Nothing is logged: the tests read `requests`."""

    def _serve(self) -> None:
        size = int(self.headers.get("content-length") or 0)
        raw = self.rfile.read(size).decode()
        with contextlib.suppress(ConnectionError):  # the client went away, as tests make it do
            if self.path.startswith("/__stub"):
                value = json.loads(raw or "null")
                found = self.state.control(self.command, self.path.removeprefix("/__stub"), value)
                self._write(200, {}, json.dumps(found))
            elif self.command == "POST" and self.path.endswith("/chat/completions"):
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = json.loads(raw)
                request = {"path": self.path, "headers": headers, "body": asked}
                self._answer(self.state.take(request), asked)
            elif self.command == "POST" and self.path.endswith("/embeddings"):
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = json.loads(raw)
                request = {"path": self.path, "headers": headers, "body": asked}
                self._answer(self.state.take_embedding(request), asked)
            else:
                self._write(404, {}, '{"error":{"message":"no such path","code":"not_found"}}')

    def _answer(self, answer: Answer, asked: dict[str, Any]) -> None:
        if answer.get("drop"):
            self.close_connection = True
            return
        if "body" in answer:
            self._write(answer["status"], answer["headers"], answer["body"])
            return
        whole = _embeddings if "input" in asked else _completion
        completion = json.dumps(whole(answer, asked), ensure_ascii=False)
        self._write(200, {}, completion, drip_s=answer.get("drip_s", 0))

    def _write(self, code: int, headers: dict[str, str], content: str, drip_s: float = 0) -> None:
        payload = content.encode("utf-8", "surrogatepass")
        self.send_response(code)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        if not drip_s:
            self.wfile.write(payload)
            return
        for byte in payload:
            self.wfile.write(bytes([byte]))
            time.sleep(drip_s)


def _completion(answer: Answer, asked: dict[str, Any]) -> dict[str, Any]:
    content = answer["text"] if "text" in answer else json.dumps(_default(asked))
    if answer.get("fenced"):
        content = f"```json\n{content}\n```"
    message: dict[str, Any] = {"role": "assistant", "content": content}
    tool = (asked.get("tools") or [None])[0]
    if "refusal" in answer:
        message.update(content=None, refusal=answer["refusal"])
    elif tool and not answer.get("as_content"):
        message["content"] = None
        message["tool_calls"] = [
            {
                "id": f"call_{number}",
                "type": "function",
                "function": {"name": tool["function"]["name"], "arguments": arguments},
            }
            for number, arguments in enumerate(answer.get("calls", [content]), start=1)
        ]
    called = "tool_calls" in message
    reason = answer.get("finish_reason", "tool_calls" if called else "stop")
    completion = {
        "id": "chatcmpl-stub",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": asked.get("model", MODEL),
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": answer.get("usage", _USAGE),
    }
    if completion["usage"] is None:
        del completion["usage"]
    return completion


def _texts(asked: dict[str, Any]) -> list[str]:
    given = asked["input"]
    return [given] if isinstance(given, str) else given


def _embeddings(answer: Answer, asked: dict[str, Any]) -> dict[str, Any]:
    dims = answer.get("dims") or asked.get("dimensions") or EMBEDDING_DIMS
    scale = answer.get("scale", 1.0)
    vectors: list[Any] = [[scale * x for x in _vector(text, dims)] for text in _texts(asked)]
    spoiled, at = answer.get("spoiled"), answer.get("at", 0)
    if spoiled in ("nan", "null", "none", "zero", "short", "words"):
        vectors[at] = {
            "nan": [float("nan"), *vectors[at][1:]],
            "null": [None, *vectors[at][1:]],
            "none": None,
            "zero": [0.0] * dims,
            "short": vectors[at][1:],
            "words": ["x"] * dims,
        }[spoiled]
    if answer.get("base64") or (asked.get("encoding_format") == "base64" and not spoiled):
        vectors = [base64.b64encode(struct.pack(f"<{dims}f", *one)).decode() for one in vectors]
    items = [
        {"object": "embedding", "index": index, "embedding": vector}
        for index, vector in enumerate(vectors)
    ]
    if spoiled == "empty":
        items = []
    elif spoiled == "missing":
        items.pop()
    elif spoiled == "extra":
        items.append({**items[0], "index": len(items)})
    elif spoiled == "duplicate":
        items[-1]["index"] = 0
    elif spoiled == "unindexed":
        items = [{"embedding": item["embedding"]} for item in items]
    elif spoiled == "reversed":
        items.reverse()
    tokens = sum(len(text) for text in _texts(asked))
    usage = answer.get("usage", {"prompt_tokens": tokens, "total_tokens": tokens})
    whole = {"object": "list", "data": items, "model": asked.get("model"), "usage": usage}
    if usage is None:
        del whole["usage"]
    return whole


def _vector(text: str, dims: int) -> list[float]:
    """Unit length; each word, and each pair of neighbouring other characters, is a direction."""
    vector = [0.0] * dims
    for word in re.findall(r"[a-z0-9_]+|[^\W_a-z0-9]+", text.lower()):
        for part in [word] if word.isascii() else [word[at : at + 2] for at in range(len(word))]:
            number = int.from_bytes(hashlib.sha256(part.encode("utf-8", "replace")).digest()[:8])
            vector[number % dims] += 1.0 if number >> 63 else -1.0
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector] if length else [1.0] + [0.0] * (dims - 1)


def _default(asked: dict[str, Any]) -> dict[str, Any]:
    """One `add` per piece of evidence: the first sentence of its content.

    Where no entries are shown, which is when experiences are asked for: one per task outcome.
    """
    said = [message["content"] for message in asked["messages"] if message["role"] == "user"]
    request = json.loads(said[0]) if said else {"evidence": [], "current_entries": []}
    if "current_entries" not in request:
        return _default_experiences(request)
    candidates = []
    for piece in request["evidence"]:
        sentence = _first_sentence(piece["content"]["content"])
        kind = next((k for k, cue in _KINDS if re.search(cue, sentence.lower())), "fact")
        cited = [piece["evidence_id"]]
        candidates.append({"intent": "add", "kind": kind, "text": sentence, "evidence_ids": cited})
    return {"candidates": candidates}


def _default_experiences(request: dict[str, Any]) -> dict[str, Any]:
    """One candidate for each task outcome shown; or the proposal of a generation."""
    if "operation" in request:
        return _default_dream(request)
    if "target_evidence_id" in request:
        shown = ", ".join(piece["evidence_id"] for piece in request["evidence"])
        return {"proposal": _experience(f"What {shown} says.", "It was done.")}
    candidates = []
    for piece in request["evidence"]:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            record = json.loads(piece["content"]["content"])
            made = _experience(record["objective"], record["summary"])
            candidates.append({"proposal": made, "evidence_ids": [piece["evidence_id"]]})
    return {"candidates": candidates}


def _default_dream(request: dict[str, Any]) -> dict[str, Any]:
    """A plan that rests on everything shown."""
    pieces = request["evidence"]["evidence"]
    return {
        "outcome": "proposed",
        "reason": f"All {len(pieces)} pieces say so.",
        "intent": "create" if request["target_evidence_id"] is None else "refine",
        "proposal": _experience(f"What {pieces[0]['text']} says.", "It was done."),
        "evidence_ids": [piece["evidence_id"] for piece in pieces][:32],
    }


def _experience(situation: str, action: str) -> dict[str, Any]:
    said = {"situation": situation[:500], "action": action[:500]}
    return {**said, "outcome": "It is recorded.", "lesson": "Look again.", "failure": None}


def _first_sentence(content: str) -> str:
    line = " ".join(content.split())
    found = re.match(r".+?(?:[.!?](?=\s|$)|[。！？])", line)
    return (found[0] if found else line)[:500] or "nothing"


def _serve_until_parent_is_gone(port: int) -> None:
    class Handler(_Handler):
        state = _State()

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that goes away is what tests do."""

    server = Server(("127.0.0.1", port), Handler)
    print(server.server_address[1], flush=True)  # noqa: T201  # how the parent learns the port

    def watch() -> None:
        sys.stdin.buffer.read()
        os._exit(0)

    if not sys.stdin.isatty():
        threading.Thread(target=watch, daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    _serve_until_parent_is_gone(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
