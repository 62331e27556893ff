"""What a search and a prepared context cost over HTTP, beside the published server.

    python benchmarks/bench_recall.py [--sizes 1000 10000] [--rounds 5] [--calls 10]

Both servers run at once, on SQLite with authentication off, and hold the same entries in one scope.
They are asked the same questions in turn, a few calls each, first the one and then the other, so
that whatever else the machine does falls on both. CPU is the server's own. `PC_PEER_PYTHON` as in
`bench_http.py`; without it only our columns are measured. Our index is built before each size is
measured, embeddings included, so a Chinese question is searched by words and meaning in `auto`; the
peer has no embedder and searches by words.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from bench_http import HAN, Cost, Peer, Server, at_work, measured, text

CALLS = {
    "search, fts, three words": ("/v1/memory/search", "words", {"mode": "fts"}),
    "search, fts, a question": ("/v1/memory/search", "question", {"mode": "fts"}),
    "search, auto, Chinese": ("/v1/memory/search", "chinese", {}),
    "prepare_context, a question": ("/v1/context/prepare", "question", {}),
    "prepare_context, Chinese": ("/v1/context/prepare", "chinese", {}),
}
"""Path, kind of query, and what else is asked."""


def query(kind: str, number: int) -> str:
    """A query whose words the entry of that number has."""
    words = text(number).split()
    if kind == "words":
        return " ".join(words[1:4])
    if kind == "question":
        return f"how is the {' '.join(words[1:5])} handled in {words[0].rstrip(':')}?"
    return f"{HAN[number % len(HAN)]}{HAN[number // 7 % len(HAN)]}{number}应该怎么处理？"


def build_index(server: Server) -> None:
    program = "from pc_store.cli.app import main; main()"
    subprocess.run(
        [sys.executable, "-c", program, "index", "build", "--json"],
        env=server.environment(),
        stdout=subprocess.DEVNULL,
        check=True,
    )


class Asked:
    """One server's scope, and what its calls cost so far."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.http = httpx.Client(base_url=server.url, timeout=600)
        new = {"title": "Bench", "summary": "Bench", "idempotency_key": "recall"}
        self.scope: str = self.http.post("/v1/scopes", json=new).json()["scope_id"]
        self._held = 0

    def grow(self, size: int) -> None:
        if not self._held:
            body = {"scope_id": self.scope, "kind": "fact", "text": text(0)}
            self.http.post("/v1/memory/remember", json=body).raise_for_status()
            self._held = 1
        self.server.fill(self.http, self.scope, self._held, size)
        self._held = size
        if not isinstance(self.server, Peer):
            build_index(self.server)

    def calls(self, name: str, numbers: range) -> list[tuple[str, str, Any]]:
        path, kind, more = CALLS[name]
        fields = {"scope_id": self.scope, **more}
        return [
            ("POST", path, {**fields, "query": query(kind, number % self._held)})
            for number in numbers
        ]


def compare(name: str, every: list[Asked], rounds: int, calls: int) -> list[list[Cost]]:
    """The costs of each round, by server; the first round only warms up."""
    found: list[list[Cost]] = [[] for _ in every]
    for turn in range(rounds + 1):
        start = 1 + list(CALLS).index(name) * 1_000_003 + turn * calls  # no question comes twice
        numbers = range(start, start + calls)
        order = range(len(every)) if turn % 2 else reversed(range(len(every)))
        for place in order:
            cost = measured(every[place].server, every[place].calls(name, numbers))
            if turn:
                found[place].append(cost)
    return found


def show(name: str, size: int, found: list[list[Cost]]) -> None:
    cells = [f"{middle(costs, field):.1f}" for field in ("cpu_ms", "p50_ms") for costs in found]
    if len(found) == 2:
        for field in ("cpu_ms", "p50_ms"):
            each = [getattr(b, field) / getattr(a, field) for a, b in zip(*found, strict=True)]
            cells.append(f"{statistics.median(each):.1f}")
    print(f"| {name} | {size:,} | " + " | ".join(cells) + " |", flush=True)


def middle(costs: list[Cost], field: str) -> float:
    return statistics.median(getattr(cost, field) for cost in costs)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=10, help="of each server in each round")
    arguments = parser.parse_args()
    kinds = [Server, Peer] if os.environ.get("PC_PEER_PYTHON") else [Server]
    home = Path(tempfile.mkdtemp())
    try:
        with ExitStack() as stack:
            every = []
            for kind in kinds:
                (home / kind.name).mkdir()
                every.append(Asked(stack.enter_context(at_work(kind, home / kind.name))))
            names = [kind.name for kind in kinds]
            head = [f"{what}, {name}" for what in ("CPU ms", "p50 ms") for name in names]
            head += ["CPU, peer ÷ ours", "p50, peer ÷ ours"] if len(kinds) == 2 else []
            print(f"| call | entries | {' | '.join(head)} |")
            print("| --- " * (len(head) + 2) + "|")
            for size in arguments.sizes:
                for one in every:
                    one.grow(size)
                for name in CALLS:
                    show(name, size, compare(name, every, arguments.rounds, arguments.calls))
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
