"""Search: what an index costs to build and a query to answer.

    python benchmarks/bench_search.py [--entries 1000 10000] [--repeat 30]

Synthetic bilingual entries of some 150 characters in a SQLite ledger. CPU medians; compare the
columns of one run with each other, not the numbers of different machines.
"""

import argparse
import itertools
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pc_store.domain.entry import Draft
from pc_store.ledger import entries, terms
from pc_store.ledger.database import Database, open_database
from pc_store.search import shards
from pc_store.search.lexical import Words
from pc_store.search.tokens import TOKENISER, query_units, tokens
from pc_store.services import administer, find
from pc_store.services.commit import commit_drafts

NOW = 1_700_000_000_000_000
QUESTIONS = ("one rare word", "a question", "a long question", "中文问题")


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


def cpu_ms(work: Callable[[], Any], repeat: int = 1) -> float:
    took = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        took.append((time.process_time() - start) * 1_000)
    return statistics.median(took)


def fill(db: Database, scope: str, texts: list[str]) -> None:
    for start in range(0, len(texts), 500):
        drafts = [Draft("add", "fact", text) for text in texts[start : start + 500]]
        with db.write() as conn:
            commit_drafts(conn, scope, drafts, origin="explicit", now_us=NOW + start * 1_000)


def measure(db: Database, index: Path, language: Language, count: int, repeat: int) -> None:
    scope = f"scope {count}"
    administer.create_scope(db, scope, now_us=NOW)
    fill(db, scope, [language.text(22) for _ in range(count)])
    with db.read() as conn:
        head, rows = entries.head(conn, scope), terms.active(conn, scope, TOKENISER)
        read = cpu_ms(lambda: terms.active(conn, scope, TOKENISER), 3)
        anchor = terms.fingerprint(conn, scope, head)
    print(
        f"\n{count} entries, {sum(len(row.terms.split()) for row in rows) / count:.0f} tokens each"
    )
    print(f"  read all rows from the ledger {read:8.1f} ms")

    def build() -> None:
        assert shards.build(index, scope, revision=head, anchor=anchor, rows=rows)

    took = cpu_ms(build, 3)
    [path] = (path for path in index.rglob("*.duckdb") if str(path) not in seen_files)
    seen_files.add(str(path))
    print(f"  build {took:8.0f} ms, {count / took * 1_000:,.0f} entries/s, "
          f"{path.stat().st_size / count:,.0f} bytes an entry")  # fmt: skip
    shards._opened.clear()
    print(f"  open  {cpu_ms(lambda: shards.open_newest(index, scope)):8.1f} ms, once a process")

    questions = {kind: [language.question(kind) for _ in range(repeat)] for kind in QUESTIONS}
    words = Words(None, (), rows)
    in_hand = {
        kind: cpu_ms(iterate(asked, lambda q: words.search(query_units(q)).top(10)), repeat)
        for kind, asked in questions.items()
    }
    table = {
        "rows": {kind: value + read for kind, value in in_hand.items()},
        "shard": timed(db, index, scope, questions, repeat),
    }
    for texts, each in ((10, 100), (100, 400)):
        window = [language.text(each) for _ in range(texts)]
        ask = partial(find.relevant, db, index, scope, window, limit=64)
        print(f"  relevant to {texts} texts of {each} words {cpu_ms(ask, repeat):8.1f} ms")
    fill(db, scope, [language.text(22) for _ in range(500)])
    table["shard + 500"] = timed(db, index, scope, questions, repeat)
    print(f"  {'search, CPU ms':18}" + "".join(f"{kind:>18}" for kind in QUESTIONS))
    for name, line in table.items():
        print(f"  {name:18}" + "".join(f"{line[kind]:18.1f}" for kind in QUESTIONS))
    ratios = (table["rows"][kind] / table["shard"][kind] for kind in QUESTIONS)
    print(f"  {'rows / shard':18}" + "".join(f"{ratio:17.1f}x" for ratio in ratios))


def timed(
    db: Database, index: Path, scope: str, questions: dict[str, list[str]], repeat: int
) -> dict[str, float]:
    return {
        kind: cpu_ms(iterate(asked, lambda q: find.search(db, index, scope, q)), repeat)
        for kind, asked in questions.items()
    }


def iterate(questions: list[str], ask: Callable[[str], Any]) -> Callable[[], Any]:
    turn = itertools.cycle(questions)
    return lambda: ask(next(turn))


seen_files: set[str] = set()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, nargs="+", default=[100, 200, 1_000, 10_000])
    parser.add_argument("--repeat", type=int, default=30)
    options = parser.parse_args()
    language = Language()
    texts = [language.text(22) for _ in range(1_000)]
    tokens(texts[0])
    took = cpu_ms(lambda: [tokens(text) for text in texts])
    size = sum(map(len, texts))
    print(f"tokenise {size / took / 1_000:.2f} million characters/s, {took:.0f} us an entry")
    with tempfile.TemporaryDirectory() as folder:
        db = open_database(f"sqlite:///{Path(folder) / 'ledger.db'}")
        for count in options.entries:
            measure(db, Path(folder) / "index", language, count, options.repeat)
        db.close()


if __name__ == "__main__":
    main()
