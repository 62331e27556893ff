"""How much of what answers a question the search finds, on public sets, beside plain BM25.

    python benchmarks/retrieval.py [--sets locomo madial] [--no-vectors] [--peer PYTHON]

Sets, their loaders and the plain baselines are the evaluation data's own, in `../shared/data`
beside this repository; they are not part of it. Without them this says so and ends.

    words     our ranking by words (mode `fts`)
    vectors   cosine of the embedder, from 0.30 on (mode `vector`)
    hybrid    reciprocal ranks of both, `--vector-weight` for the second (mode `hybrid`)
    bm25-…    the data's baselines: words without stop words; the same and pairs of Han characters
    peer      the published server in its mode `fts`, on a sample; `--peer` names the python of a
              virtual environment with `pip install 'powercontext[cli,server]==1.2.0'`

The embedder is what `PC_EMBED_*` says, by default the packaged encoder. Parameters were chosen on
the parts called `tuning` alone: LoCoMo's first five conversations and MemDaily's `simple` files.
Recall counts every right entry; figures are means over questions. The packaged encoder needs two
minutes of CPU for all sets, the peer some seconds per scope.
"""

import argparse
import ast
import importlib.util
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import numpy as np
from bench_http import Peer

from pc_store.llm.embeddings import Embedder, Vectors
from pc_store.llm.providers import embedder
from pc_store.search.ranking import postings_of, rank
from pc_store.search.tokens import query_units, tokens
from pc_store.settings import Settings

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
DEPTH = 50
"""Results asked for; the contract's largest limit."""
COSINE_MIN = 0.30
FUSION = 60
PEER_TEXT_MAX_BYTES = 8_192
PEER_BATCH = 100
METRICS = ("r@1", "r@5", "r@10", "r@30", "mrr", "ndcg@10")

Scopes = Mapping[str, Mapping[str, Any]]
Search = Callable[[str], list[int]]
System = Callable[[Sequence[str]], Search]
"""Takes a scope's texts; its searches return places of texts, best first."""


def loaded(path: Path, *, without_main: bool = False) -> ModuleType:
    """Import a module by its path; without the call of `main` that ends it, if so wanted."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    tree = ast.parse(path.read_text("utf-8"))
    if without_main and isinstance(tree.body[-1], ast.Expr):
        tree.body.pop()
    exec(compile(tree, str(path), "exec"), module.__dict__)
    return module


def parts(name: str, scopes: Scopes) -> dict[str, list[str]]:
    """The scopes by what they may be used for."""
    ids = list(scopes)
    if name.startswith("locomo"):
        tuning = set(ids[:5])
    elif name.startswith("memdaily"):
        tuning = {scope for scope in ids if scope.startswith("01_simple")}
    else:
        return {"report": ids}
    return {
        "tuning": [scope for scope in ids if scope in tuning],
        "report": [scope for scope in ids if scope not in tuning],
    }


def words(texts: Sequence[str]) -> Search:
    made = [tokens(text) for text in texts]
    lengths, postings = postings_of(made, {term for terms in made for term in terms})
    nothing = np.zeros(0, np.int64)

    def search(query: str) -> list[int]:
        ranking = rank(query_units(query), postings, lengths, nothing)
        docs = ranking.best(DEPTH)
        return sorted(docs, key=lambda doc: (-ranking.scores[doc], doc))[:DEPTH]

    return search


class Meaning:
    """Search by vectors, alone and with words; texts are embedded once."""

    def __init__(self, embedder: Embedder, weight: float) -> None:
        self._embedder = embedder
        self._weight = weight
        self._known: dict[str, Vectors] = {}

    def _embedded(self, texts: Sequence[str]) -> Vectors:
        fresh = list(dict.fromkeys(text for text in texts if text not in self._known))
        for first in range(0, len(fresh), 256):
            batch = fresh[first : first + 256]
            self._known.update(zip(batch, self._embedder.embed(batch), strict=True))
        return np.array([self._known[text] for text in texts])

    def vectors(self, texts: Sequence[str]) -> Search:
        matrix = self._embedded(texts)

        def search(query: str) -> list[int]:
            cosines = matrix @ self._embedded([query])[0]
            order = np.argsort(-cosines, kind="stable")[:DEPTH]
            return [int(doc) for doc in order if cosines[doc] >= COSINE_MIN]

        return search

    def hybrid(self, texts: Sequence[str]) -> Search:
        channels = [(1.0, words(texts)), (self._weight, self.vectors(texts))]

        def search(query: str) -> list[int]:
            scores: dict[int, float] = defaultdict(float)
            for weight, channel in channels:
                for place, doc in enumerate(channel(query), start=1):
                    scores[doc] += weight / (FUSION + place)
            return sorted(scores, key=lambda doc: (-scores[doc], doc))[:DEPTH]

        return search


def plain(baseline: ModuleType, terms: Callable[[str], list[str]]) -> System:
    def system(texts: Sequence[str]) -> Search:
        index = baseline.BM25([terms(text) for text in texts])
        return lambda query: [int(doc) for doc in index.rank(terms(query), DEPTH)]

    return system


class PeerSearch:
    """The published server: one scope for each index, filled through its own routes."""

    def __init__(self, server: Peer) -> None:
        self._http = httpx.Client(base_url=server.url, timeout=600)
        self._scopes = 0

    def _sent(self, method: str, path: str, body: Any, headers: Any = None) -> Any:
        return self._http.request(method, path, json=body, headers=headers).raise_for_status()

    def words(self, texts: Sequence[str]) -> Search:
        self._scopes += 1
        new = {"title": "t", "summary": "s", "idempotency_key": f"scope {self._scopes}"}
        scope = self._sent("POST", "/v1/scopes", new).json()["scope_id"]
        places: dict[str, list[int]] = defaultdict(list)
        for place, text in enumerate(texts):
            places[_cut(text)].append(place)
        entries = [{"kind": "fact", "text": text} for text in places if text]
        path = f"/v1/scopes/{scope}/artifacts/memory/memory"
        self._sent("POST", "/v1/memory/remember", {"scope_id": scope, **entries[0]})
        for first in range(1, len(entries), PEER_BATCH):
            etag = self._http.get(path).raise_for_status().headers["ETag"]
            body = {"content": {"entries": entries[first : first + PEER_BATCH]}}
            self._sent("PUT", path, body, {"If-Match": etag})

        def search(query: str) -> list[int]:
            asked = {"scope_id": scope, "query": query, "mode": "fts", "limit": DEPTH}
            hits = self._sent("POST", "/v1/memory/search", asked).json()["hits"]
            return [place for hit in hits for place in places[hit["text"]]]

        return search


def _cut(text: str) -> str:
    return text.encode()[:PEER_TEXT_MAX_BYTES].decode("utf-8", "ignore").strip()


def measure(
    scopes: Scopes, chosen: Iterable[str], systems: Mapping[str, System], metrics: Any
) -> dict[str, dict[str, float]]:
    """Mean metrics by system; `n` is the number of questions."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in systems}
    for scope in chosen:
        ids = [doc[0] for doc in scopes[scope]["docs"]]
        texts = [doc[1] for doc in scopes[scope]["docs"]]
        for name, system in systems.items():
            search = system(texts)
            for _, query, gold, _ in scopes[scope]["queries"]:
                found[name].append(metrics([ids[place] for place in search(query)], gold))
    return {
        name: {metric: float(np.mean([row[metric] for row in rows])) for metric in METRICS}
        | {"n": len(rows)}
        for name, rows in found.items()
    }


def report(name: str, part: str, rows: Mapping[str, Mapping[str, float]]) -> None:
    """Print lines of a table."""
    for system, row in rows.items():
        figures = " | ".join(
            f"{row[metric]:.3f}"[1:] if row[metric] < 1 else "1" for metric in METRICS
        )
        print(f"| {name} | {part} | {int(row['n'])} | {system} | {figures} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--sets", nargs="*", default=[""], help="beginnings of names")
    parser.add_argument("--no-vectors", action="store_true")
    parser.add_argument("--vector-weight", type=float, default=0.05)
    parser.add_argument("--peer", help="python that has the published package")
    parser.add_argument("--sample", type=int, default=100, help="scopes a part, beside the peer")
    options = parser.parse_args()
    tools = options.data / "tools"
    if not (tools / "load_sets.py").exists():
        print(f"no evaluation data in {options.data}: nothing to measure")
        return
    baseline_path = tools / "baseline.py"
    sys.path.insert(0, str(tools))
    sets = {
        name: load
        for name, load in loaded(tools / "load_sets.py").SETS.items()
        if any(name.startswith(beginning) for beginning in options.sets)
    }
    baseline = loaded(baseline_path, without_main=True)
    plains = {
        "bm25-word": plain(baseline, baseline.word),
        "bm25-bigram": plain(baseline, baseline.bigram),
    }
    systems: dict[str, System] = {"words": words}
    model = None if options.no_vectors else embedder(Settings.load())
    if model is not None:
        print(f"embedder {model.profile}, weight {options.vector_weight}", flush=True)
        meaning = Meaning(model, options.vector_weight)
        systems |= {"vectors": meaning.vectors, "hybrid": meaning.hybrid}

    print(f"\n| set | part | questions | system | {' | '.join(METRICS)} |")
    print("| --- " * (4 + len(METRICS)) + "|")
    with ExitStack() as stack:
        peer: PeerSearch | None = None
        if options.peer:
            os.environ["PC_PEER_PYTHON"] = options.peer
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            server = Peer(Path(folder))
            stack.callback(server.stop)
            peer = PeerSearch(server)
        for name, load in sets.items():
            scopes = load()
            for part, chosen in parts(name, scopes).items():
                report(name, part, measure(scopes, chosen, systems | plains, baseline.metrics))
                if peer is not None:
                    every = -(-len(chosen) // options.sample)
                    beside = {"words": words, "peer": peer.words}
                    rows = measure(scopes, chosen[::every], beside, baseline.metrics)
                    report(name, f"{part}, every {every}." if every > 1 else part, rows)


if __name__ == "__main__":
    main()
