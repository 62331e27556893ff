"""What a call of the HTTP service costs, beside the published server it answers like.

Both serve SQLite with authentication off, on the same machine in the same run. Fed with the same
entries: the first hundred one by one, the others in batches of a hundred. CPU and bytes written are
the server's own, with its children, from /proc; they barely move with the machine's load.

    python benchmarks/bench_http.py [--sizes 100 1000 2000 10000] [--start 100000]

`PC_PEER_PYTHON` names the python of a virtual environment that holds the published server (`pip
install 'powercontext[cli,server]==1.2.0'`); without it only our columns are measured. The peer
stops at `--peer-most` entries: its writes cost ever more.
"""

import argparse
import itertools
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from pc_store.domain.entry import Draft
from pc_store.ledger.database import open_database
from pc_store.services.commit import commit_drafts

BATCH = 100
SEARCHED_AT = 1_000
START_AT = 2_000
MANY = str(10_000_000)
_RANDOM = random.Random(7)
_SYLLABLES = ["ba", "de", "fi", "go", "ku", "la", "me", "ni", "po", "ru", "sa", "te", "vi", "zo"]
WORDS = ["".join(_RANDOM.choices(_SYLLABLES, k=3)) for _ in range(2_000)]
_HAN = "订单金额整数存储转换精度导入错误行号项目规则版本修订停用检索证据"
HAN = [_HAN[start : start + 2] for start in range(0, len(_HAN), 2)]
KINDS = ("fact", "decision", "constraint", "preference", "working_note")


def text(number: int) -> str:
    """About 150 bytes, always the same for a number."""
    chance = random.Random(number)
    words, han = chance.choices(WORDS, k=12), chance.choices(HAN, k=6)
    return f"topic{number}: {' '.join(words)}。{''.join(han)}。"


def entry(number: int) -> dict[str, str]:
    return {"kind": KINDS[number % len(KINDS)], "text": text(number)}


@dataclass(frozen=True)
class Cost:
    """Of one call: CPU of the server, bytes it wrote, and how long the client waited."""

    cpu_ms: float
    written_kb: float
    p50_ms: float


class Server:
    """A server process on a folder of its own."""

    name = "ours"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        begun = time.perf_counter()
        with (folder / "log").open("a") as log:
            self._process = subprocess.Popen(
                self.command(),
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                start_new_session=True,
            )
        self.url = f"http://127.0.0.1:{self.port}"
        self._wait()
        self.start_s = time.perf_counter() - begun

    def command(self) -> list[str]:
        program = "from pc_store.cli.app import main; main()"
        return [sys.executable, "-c", program, "serve", "--port", str(self.port)]

    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if name[:3] != "PC_"}
        most = {f"PC_MEMORY_MAX_{what}": MANY for what in ("ACTIVE_ENTRIES", "MANIFEST_ENTRIES")}
        more = {"PC_HOME": str(self.folder), "PC_MEMORY_MAX_MANIFEST_BYTES": "4000000000"}
        return {**inherited, **most, **more}

    def fill(self, http: httpx.Client, scope: str, start: int, end: int) -> None:
        """Add entries in batches."""
        for first in range(start, end, BATCH):
            batch = [entry(number) for number in range(first, min(end, first + BATCH))]
            body = {"scope_id": scope, "entries": batch}
            http.post("/v1/memory/remember-batch", json=body).raise_for_status()

    def usage(self) -> tuple[float, float]:
        """CPU seconds and bytes written so far, of the process and its children."""
        cpu, written, todo = 0.0, 0, [self._process.pid]
        while todo:
            process = Path("/proc") / str(todo.pop())
            times = (process / "stat").read_text().rsplit(")", 1)[1].split()[11:15]
            cpu += sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
            for line in (process / "io").read_text().splitlines():
                if line.startswith("write_bytes"):
                    written += int(line.split()[1])
            for task in (process / "task").iterdir():
                todo += map(int, (task / "children").read_text().split())
        return cpu, written

    def disk_bytes(self) -> int:
        files = [path for path in self.folder.rglob("*") if path.is_file() and path.name != "log"]
        return sum(path.stat().st_blocks * 512 for path in files)

    def stop(self) -> None:
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(60)

    def _wait(self) -> None:
        for _ in range(60_000):
            try:
                if httpx.get(f"{self.url}/health/ready", timeout=30).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            if self._process.poll() is not None:
                raise SystemExit((self.folder / "log").read_text()[-2_000:])
            time.sleep(0.01)
        raise SystemExit(f"{self.name} did not start")


class Peer(Server):
    """The published server."""

    name = "peer"

    def command(self) -> list[str]:
        program = Path(os.environ["PC_PEER_PYTHON"]).with_name("powercontext")
        return [str(program), "server", "run", "--no-env-file", "--port", str(self.port)]

    def environment(self) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("POWERCONTEXT")}
        most = {"ACTIVE_ENTRIES": "100000", "MANIFEST_ENTRIES": "200000"}
        most["MANIFEST_BYTES"] = "67108864"  # each the most it can be told
        runtime = "POWERCONTEXT_SERVER_RUNTIME_MEMORY_MAX_"
        more = {f"{runtime}{what}": value for what, value in most.items()}
        return {**inherited, **more, "POWERCONTEXT_HOME": str(self.folder)}

    def fill(self, http: httpx.Client, scope: str, start: int, end: int) -> None:
        path = f"/v1/scopes/{scope}/artifacts/memory/memory"
        for first in range(start, end, BATCH):
            etag = http.get(path).raise_for_status().headers["ETag"]
            batch = [entry(number) for number in range(first, min(end, first + BATCH))]
            body = {"content": {"entries": batch}}
            http.put(path, json=body, headers={"If-Match": etag}).raise_for_status()


@contextmanager
def at_work(kind: type[Server], folder: Path) -> Iterator[Server]:
    server = kind(folder)
    try:
        yield server
    finally:
        server.stop()


def measured(server: Server, calls: list[tuple[str, str, Any]], *, clients: int = 1) -> Cost:
    """Send the calls, method, path and body, from so many clients; 409 is sent again."""
    waiting, took, lock = iter(calls), [], threading.Lock()

    def work() -> None:
        with httpx.Client(base_url=server.url, timeout=600, verify=False) as http:
            while True:
                with lock:
                    call = next(waiting, None)
                if call is None:
                    return
                begun = time.perf_counter()
                while True:
                    response = http.request(call[0], call[1], json=call[2])
                    if response.status_code != 409:
                        break
                response.raise_for_status()
                took.append((time.perf_counter() - begun) * 1_000)

    cpu, written = server.usage()
    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(took) == len(calls), "a call failed"
    now_cpu, now_written = server.usage()
    return Cost(
        (now_cpu - cpu) * 1_000 / len(calls),
        (now_written - written) / 1_024 / len(calls),
        statistics.median(took),
    )


class Bench:
    """One server through all sizes."""

    def __init__(self, name: str, repeat: int) -> None:
        self.name = name
        self.repeat = repeat
        self.costs: dict[tuple[str, int], Cost] = {}
        self.scope = ""
        self._held = 0
        self._numbers = itertools.count(10_000_000)

    def through(self, server: Server, sizes: list[int]) -> None:
        """Grow the scope to each size and measure there; a new server on the folder goes on."""
        self.server = server
        self.http = httpx.Client(base_url=server.url, timeout=600, verify=False)
        if not self.scope:
            self._warm_up()
            self.scope = self._new_scope("measured")
            calls = [self._post("remember", entry(number)) for number in range(BATCH)]
            self.costs["remember", 0] = measured(server, calls)
            self._held = BATCH
        for size in sizes:
            server.fill(self.http, self.scope, self._held, size)
            self._held = max(self._held, size)
            self._at(size)
            print(f"{server.name}: {size} entries measured", file=sys.stderr)
        self.http.close()

    def _new_scope(self, name: str) -> str:
        asked = {"title": "Bench", "summary": "Bench", "idempotency_key": name}
        scope_id: str = self.http.post("/v1/scopes", json=asked).json()["scope_id"]
        return scope_id

    def _warm_up(self) -> None:
        """The first calls of a process load what it needs."""
        self.scope = self._new_scope("warm")
        for calls in (self._remembers(20), self._captures(5), [self._post("entries/list", {})]):
            measured(self.server, calls)

    def _at(self, size: int) -> None:
        if size == SEARCHED_AT:
            asked = [self._words(number) for number in range(self.repeat)]
            searches = [self._post("search", {"query": q, "mode": "fts"}) for q in asked]
            self._measure("search, fts", size, searches)
            return
        listed = self.http.post("/v1/memory/entries/list", json={"scope_id": self.scope}).json()
        picked = random.Random(1).choices(listed["entries"], k=self.repeat)
        gets = [self._post("entries/get", {"citation": one["citation"]}) for one in picked]
        few = max(5, self.repeat // 10)
        self._measure("list, all entries", size, [self._post("entries/list", {})] * few)
        self._measure("get", size, gets)
        self._measure("source capture, 1 KB", size, self._captures(self.repeat))
        self._measure("remember", size, self._remembers(self.repeat))
        self._measure("remember, 8 clients", size, self._remembers(self.repeat * 2), clients=8)
        self._held += self.repeat * 3
        listed = self.http.post("/v1/memory/changes", json={"scope_id": self.scope}).json()
        since = {"since_revision": listed["memory"]["revision"] - 10}
        self._measure("changes, ten revisions", size, [self._post("changes", since)] * self.repeat)

    def _measure(self, what: str, size: int, calls: list[Any], *, clients: int = 1) -> None:
        self.costs[what, size] = measured(self.server, calls, clients=clients)

    def _post(self, name: str, fields: Any) -> tuple[str, str, Any]:
        return "POST", f"/v1/memory/{name}", {"scope_id": self.scope, **fields}

    def _remembers(self, count: int) -> list[Any]:
        return [self._post("remember", entry(next(self._numbers))) for _ in range(count)]

    def _captures(self, count: int) -> list[Any]:
        numbers = [next(self._numbers) for _ in range(count)]
        bodies = [
            {"scope_id": self.scope, "source_id": f"s{number}", "content": text(number) * 6}
            for number in numbers
        ]
        return [("POST", "/v1/sources/content", body) for body in bodies]

    def _words(self, number: int) -> str:
        return " ".join(text(number).split()[1:4])


def show(benches: list[Bench]) -> None:
    names = [bench.name for bench in benches]
    head = [f"{what}, {name}" for what in ("CPU ms", "KB written", "p50 ms") for name in names]
    print("| call | entries | " + " | ".join(head) + " | CPU, peer ÷ ours |")
    print("| --- " * (len(head) + 3) + "|")
    for key in benches[0].costs:
        found = [bench.costs.get(key) for bench in benches]
        cells = [
            "" if cost is None else f"{getattr(cost, field):.1f}"
            for field in ("cpu_ms", "written_kb", "p50_ms")
            for cost in found
        ]
        ratio = ""
        if len(found) == 2 and found[0] and found[1] and found[0].cpu_ms:
            ratio = f"{found[1].cpu_ms / found[0].cpu_ms:.0f}"
        print(f"| {key[0]} | {key[1]:,} | " + " | ".join(cells) + f" | {ratio} |")


def bytes_an_entry(kind: type[Server], folder: Path) -> float:
    """On disk, once a server with `START_AT` entries has stopped."""
    with at_work(kind, folder) as server:
        pass
    before = server.disk_bytes()
    with at_work(kind, folder) as server, httpx.Client(base_url=server.url, timeout=600) as http:
        asked = {"title": "Bench", "summary": "Bench", "idempotency_key": "disk"}
        scope = http.post("/v1/scopes", json=asked).json()["scope_id"]
        body = {"scope_id": scope, **entry(START_AT)}
        http.post("/v1/memory/remember", json=body).raise_for_status()
        server.fill(http, scope, 0, START_AT)
    return (server.disk_bytes() - before) / (START_AT + 1)


def start_times(kind: type[Server], folder: Path, runs: int = 3) -> float:
    """Median seconds until a server on this folder says it is ready."""
    took = []
    for _ in range(runs):
        with at_work(kind, folder) as server:
            took.append(server.start_s)
    return statistics.median(took)


def fill_ledger(folder: Path, scope: str, entries: int) -> None:
    db = open_database(f"sqlite:///{folder / 'ledger.db'}")
    for first in range(20_000_000, 20_000_000 + entries, 500):
        drafts = [Draft("add", "fact", text(number)) for number in range(first, first + 500)]
        with db.write() as conn:
            commit_drafts(conn, scope, drafts, origin="explicit", now_us=time.time_ns() // 1_000)
    db.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1_000, 2_000, 10_000])
    parser.add_argument("--repeat", type=int, default=200)
    parser.add_argument("--peer-repeat", type=int, default=20)
    parser.add_argument("--peer-most", type=int, default=2_000)
    parser.add_argument("--start", type=int, default=100_000)
    arguments = parser.parse_args()
    kinds: list[type[Server]] = [Server]
    if os.environ.get("PC_PEER_PYTHON"):
        kinds.append(Peer)
    benches, levels = [], []
    home = Path(tempfile.mkdtemp())
    try:
        for kind in kinds:
            repeat = arguments.repeat if kind is Server else arguments.peer_repeat
            most = arguments.peer_most if kind is Peer else max(arguments.sizes)
            resting, working = home / f"{kind.name}-resting", home / kind.name
            resting.mkdir()
            working.mkdir()
            size = bytes_an_entry(kind, resting)
            seconds = start_times(kind, resting)
            levels.append(f"{kind.name}: {size:,.0f} bytes on disk an entry, {START_AT:,} entries")
            levels.append(f"{kind.name}: ready after {seconds:.2f} s with {START_AT:,} entries")
            bench = Bench(kind.name, repeat)
            with at_work(kind, working) as server:
                bench.through(server, [size for size in arguments.sizes if size <= most])
            benches.append(bench)
        fill_ledger(home / "ours", benches[0].scope, arguments.start)
        seconds = start_times(Server, home / "ours")
        levels.append(f"ours: ready after {seconds:.2f} s with over {arguments.start:,} entries")
    finally:
        shutil.rmtree(home, ignore_errors=True)
    show(benches)
    print("\n".join(levels))


if __name__ == "__main__":
    main()
