"""Search: what an index costs to build and a query to answer.

    python benchmarks/bench_search.py [--entries 1000 10000] [--scopes 1] [--vectors] [--repeat 50]

Synthetic bilingual entries of some 150 characters in a SQLite ledger, written as rows; with
`--vectors`, random unit vectors of 512 dimensions for all of them. A search is the service's,
ledger included. CPU times; compare the columns of one run with each other, not the numbers of
different machines.
"""

import argparse
import itertools
import random
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from pc_store.domain.text import digest
from pc_store.ledger import schema
from pc_store.ledger.database import Database, open_database
from pc_store.llm import providers
from pc_store.llm.embeddings import Embedded
from pc_store.search import shards
from pc_store.search.tokens import TOKENISER, terms_of, tokens
from pc_store.services import administer, find, index_build
from pc_store.settings import Settings

NOW = 1_700_000_000_000_000
DIMS = 512
QUESTIONS = ("one rare word", "a question", "a long question", "中文问题")
AT_ONCE = 2_000


class Language:
    """A made-up vocabulary with Zipf frequencies, half English-like, half Chinese."""

    def __init__(self, seed: int = 7) -> None:
        self.random = random.Random(seed)
        letters, han = "etaoinshrdlucmfwypvbgk", [chr(0x4E00 + 7 * n) for n in range(2_500)]
        words = [self._word(letters, 4, 10) for _ in range(15_000)]
        words += [self._word(han, 2, 3) for _ in range(15_000)]
        self.random.shuffle(words)
        self.words = words
        self.weights = list(itertools.accumulate(1 / (rank + 3) for rank in range(len(words))))

    def _word(self, letters: Any, least: int, most: int) -> str:
        return "".join(self.random.choices(letters, k=self.random.randint(least, most)))

    def text(self, words: int) -> str:
        return " ".join(self.random.choices(self.words, cum_weights=self.weights, k=words))

    def question(self, kind: str) -> str:
        if kind == "one rare word":
            return self.random.choice(self.words[5_000:])
        if kind == "a long question":
            return self.text(40)
        if kind == "中文问题":
            han = [word for word in self.text(40).split() if not word.isascii()]
            return "".join(han[:4]) + "应该怎么处理？"
        return f"how is the {self.text(5)} handled"


class Random:
    """An embedder whose vectors say nothing: what is measured is not what is found."""

    profile = f"bench:random:{DIMS}:unit"
    dims = DIMS

    def embed(self, texts: Sequence[str]) -> Any:
        return np.stack([self.vector(text) for text in texts])

    def attempt(self, texts: Sequence[str]) -> Embedded:
        return Embedded(dict(enumerate(self.embed(texts))), {})

    @staticmethod
    def vector(text: str) -> Any:
        made = np.random.default_rng(len(text)).standard_normal(DIMS, dtype=np.float32)
        return made / np.linalg.norm(made)


def vectors_of(count: int, seed: int) -> Any:
    """Unit vectors around a few hundred centres, as embeddings are."""
    chance = np.random.default_rng(seed)
    centres = np.random.default_rng(1).standard_normal((300, DIMS), dtype=np.float32)
    made = centres[chance.integers(0, 300, count)]
    made += 0.9 * chance.standard_normal((count, DIMS), dtype=np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def fill(
    db: Database, scope: str, texts: Iterable[str], *, revision: int, with_vectors: bool
) -> None:
    """Write a revision that adds entries, as rows: proper commits take ten times longer."""
    at = NOW + revision * 1_000_000
    first = True
    todo = iter(texts)
    while some := list(itertools.islice(todo, AT_ONCE)):
        base = random.getrandbits(48)
        entries = [f"mem_ent_{at:014x}{base:012x}{n:08x}" for n in range(len(some))]
        versions = [name.replace("ent", "ver") for name in entries]
        with db.write() as conn:
            if first:
                where = (
                    schema.artifacts.c.scope_id == scope,
                    schema.artifacts.c.family == "memory",
                )
                conn.execute(sa.update(schema.artifacts).where(*where).values(head=revision))
                conn.execute(
                    sa.insert(schema.artifact_revisions).values(
                        scope_id=scope,
                        family="memory",
                        artifact_id="memory",
                        revision=revision,
                        origin="explicit",
                        created_at=at,
                    )
                )
                first = False
            conn.execute(sa.insert(schema.entry_versions), [
                {
                    "scope_id": scope,
                    "entry_version_id": version,
                    "entry_id": entry,
                    "version": 1,
                    "kind": "fact",
                    "text": text,
                    "text_digest": digest(text),
                    "content_hash": "",
                    "terms": terms_of(text),
                    "terms_version": TOKENISER,
                    "source_refs": [],
                    "artifact_refs": [],
                    "origin": "explicit",
                    "created_in_revision": revision,
                    "created_at": at,
                }
                for entry, version, text in zip(entries, versions, some, strict=True)
            ])  # fmt: skip
            spans = [
                {"scope_id": scope, "entry_id": entry, "from_revision": revision,
                 "entry_version_id": version, "state": "active"}
                for entry, version in zip(entries, versions, strict=True)
            ]  # fmt: skip
            conn.execute(sa.insert(schema.manifest_spans), spans)
            changes = [
                {"scope_id": scope, "entry_id": entry, "revision": revision, "op": "add",
                 "to_version_id": version}
                for entry, version in zip(entries, versions, strict=True)
            ]  # fmt: skip
            conn.execute(sa.insert(schema.memory_changes), changes)
            if with_vectors:
                made = vectors_of(len(some), base % 2**32)
                rows = [
                    {"text_digest": digest(text), "profile": Random.profile,
                     "vector": made[n].tobytes()}
                    for n, text in enumerate(some)
                ]  # fmt: skip
                conn.execute(sa.insert(schema.vectors).prefix_with("OR IGNORE"), rows)


def cpu_ms(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1_000


def spread(took: list[float]) -> str:
    return f"{statistics.median(took):7.1f} {sorted(took)[int(len(took) * 0.95)]:7.1f}"


def rss_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(
    folder: Path, language: Language, count: int, scopes: int, repeat: int, with_vectors: bool
) -> None:
    db = open_database(f"sqlite:///{folder / 'ledger.db'}")
    settings = Settings(index_dir=folder / "index", search_auto="hybrid" if with_vectors else "fts")
    names = [f"scope {n}" for n in range(scopes)]
    started = time.monotonic()
    for name in names:
        administer.create_scope(db, name, now_us=NOW)
        some = (language.text(22) for _ in range(count // scopes))
        fill(db, name, some, revision=1, with_vectors=with_vectors)
    print(f"\n{count:,} entries in {scopes} scopes; written in {time.monotonic() - started:.0f} s")
    modes = ["fts"] + (["hybrid", "vector"] if with_vectors else [])
    table: dict[str, dict[str, list[float]]] = {}
    if count // scopes <= 10_000:
        table["fts, no index"] = timed(db, settings, language, names, min(repeat, 20), "fts")
    took: list[float] = []
    used: list[float] = []
    size = docs = 0
    for shard in sorted({shards.shard_of(name, settings.index_shards) for name in names}):
        wall, cpu = time.monotonic(), time.process_time()
        built = index_build.build(db, settings, shard, force=True)
        assert built is not None
        took.append(time.monotonic() - wall)
        used.append(time.process_time() - cpu)
        size, docs = size + built.bytes, docs + built.docs
    print(
        f"  build {len(took)} shards: {sum(used):.1f} CPU s,"
        f" {docs / sum(used):,.0f} entries a CPU s, slowest {max(took):.1f} s,"
        f" {size / docs:,.0f} bytes an entry, peak RSS {rss_mb():.0f} MB"
    )
    shards.close_all()
    for mode in modes:
        shards.close_all()
        ask = language.question("a question")
        first = cpu_ms(
            lambda ask=ask, mode=mode: find.search(db, settings, names[0], ask, mode=mode)
        )
        print(f"  first {mode} search of a process' scope {first:.1f} ms")
    for mode in modes:
        table[f"{mode}, index"] = timed(db, settings, language, names, repeat, mode)
    for name in names[:50]:
        some = (language.text(22) for _ in range(400))
        fill(db, name, some, revision=2, with_vectors=with_vectors)
    for mode in modes:
        chosen = names[:50]
        table[f"{mode}, index + 400 late"] = timed(db, settings, language, chosen, repeat, mode)
    print(f"  {'CPU ms, median and p95':24}" + "".join(f"{kind:>17}" for kind in QUESTIONS))
    for label, line in table.items():
        print(f"  {label:24}" + "".join(f"  {spread(line[kind])}" for kind in QUESTIONS))
    kept = shards.kept.bytes / 1024 / 1024
    print(f"  kept in memory {kept:.0f} MB, peak RSS {rss_mb():.0f} MB")
    db.close()


def timed(
    db: Database,
    settings: Settings,
    language: Language,
    names: Sequence[str],
    repeat: int,
    mode: Any,
) -> dict[str, list[float]]:
    """CPU ms of each search, over the scopes in turn, after one of each kind to warm up."""
    turn = itertools.cycle(names)
    found: dict[str, list[float]] = {}
    for kind in QUESTIONS:
        asked = [language.question(kind) for _ in range(repeat + 1)]
        took = [
            cpu_ms(lambda q=query: find.search(db, settings, next(turn), q, mode=mode))
            for query in asked
        ]
        found[kind] = took[1:]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--scopes", type=int, default=1)
    parser.add_argument("--vectors", action="store_true")
    parser.add_argument("--repeat", type=int, default=50)
    options = parser.parse_args()
    if options.vectors:
        providers.embedder = lambda *_, **__: Random()  # type: ignore[assignment]
    language = Language()
    texts = [language.text(22) for _ in range(1_000)]
    tokens(texts[0])
    took = cpu_ms(lambda: [tokens(text) for text in texts])
    size = sum(map(len, texts))
    print(f"tokenise {size / took / 1_000:.2f} million characters/s, {took:.0f} us an entry")
    for count in options.entries:
        folder = Path(tempfile.mkdtemp(prefix="pc-bench-"))
        try:
            measure(folder, language, count, options.scopes, options.repeat, options.vectors)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
