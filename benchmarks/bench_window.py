"""Own cost of a memory window of 100 sources, and how it grows with the entries there already.

The model is a stub process that answers at once, so what is left is ours: reading the window,
choosing entries to show, building and checking the request, judging, committing. CPU seconds of
this process, median of several windows; the first one, which imports openai and instructor, apart.

    python benchmarks/bench_window.py [--windows 7]
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from model_stub import MODEL, ModelStub

from pc_store.domain.entry import Draft
from pc_store.domain.source import new_source
from pc_store.ledger.database import Database, open_database
from pc_store.services import administer, capture, extract
from pc_store.services.clock import now_us
from pc_store.services.commit import commit_drafts
from pc_store.services.provide import proposer
from pc_store.settings import Settings

SOURCES = 100
WORDS = ("amount", "invoice", "supplier", "column", "retry", "ledger", "encoding", "batch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=7)
    windows = parser.parse_args().windows
    print(
        f"{'provider':<10} {'entries before':>14} {'first CPU s':>12} {'median CPU s':>13} "
        f"{'added':>6}"
    )
    with ModelStub() as stub:
        for provider in ("openai", "builtin"):
            for existing in (0, 1_000, 10_000):
                measure(provider, stub.base_url, existing, windows)


def measure(provider: str, base_url: str, existing: int, windows: int) -> None:
    """One row: a fresh ledger with some entries, then windows one after another."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            home=Path(folder),
            llm_provider=provider,
            llm_base_url=base_url,
            llm_model=MODEL,
            prompt_token_budget=100_000,
        )
        db = open_database(settings.ledger_url)
        administer.create_scope(db, "bench", now_us=now_us())
        fill(db, existing)
        asked = proposer(db, settings)
        spent, added = [], 0
        for window in range(windows + 1):
            capture.capture_many(
                db,
                "bench",
                [new_source(f"{window}-{n}", note(window * SOURCES + n)) for n in range(SOURCES)],
                now_us=now_us(),
            )
            started = time.process_time()
            done = extract.flush(db, settings, asked, "bench")
            spent.append(time.process_time() - started)
            added += (done.window.counts or {})["added"] if done.window else 0
        db.close()
    median = statistics.median(spent[1:])
    print(
        f"{provider:<10} {existing:>14} {spent[0]:>12.3f} {median:>13.3f} "
        f"{added // (windows + 1):>6}"
    )


def note(number: int) -> str:
    """A short work note with a subject of its own."""
    subject = f"{WORDS[number % len(WORDS)]} {number}"
    return f"We decided that {subject} must be checked before import {number * 7919 % 1009}. Ok."


def fill(db: Database, count: int) -> None:
    """Entries that are there before the first window."""
    for start in range(0, count, 1_000):
        drafts = [
            Draft("add", "fact", f"Known rule: {note(n)}") for n in range(start, start + 1_000)
        ]
        with db.write() as conn:
            commit_drafts(conn, "bench", drafts, origin="explicit", now_us=now_us())


if __name__ == "__main__":
    main()
