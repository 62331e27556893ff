"""What one more recurrence costs, and that it does not grow with those there already.

A ledger with some past verdicts on one failure; then outcomes one by one, each judged and its
review grown in transactions of their own, as a live system does. Milliseconds, median of several;
`late` is an outcome whose verdict comes 1,000 positions behind the last. SQLite unless a URL of
an empty PostgreSQL database is given.

    python benchmarks/bench_recurrence.py [--past 1000 100000] [--url URL]
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import sqlalchemy as sa
from recurrence_rig import CUE, SCOPE, Ledger, check, make_ledger, told

from pc_store.domain.outcome import parse
from pc_store.domain.recurrence import verdict_key
from pc_store.domain.refs import ArtifactRef
from pc_store.domain.source import new_source
from pc_store.ledger import cursors, judgements, streaks
from pc_store.ledger.database import open_database
from pc_store.ledger.schema import recurrence_events, recurrence_outcomes
from pc_store.services import capture

REPEATS = 30
AT_ONCE = 5_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--past", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--url")
    chosen = parser.parse_args()
    print(f"{'past':>8} {'judge ms':>9} {'review ms':>10} {'late ms':>8} {'replay ms':>10}")
    for past in chosen.past:
        with tempfile.TemporaryDirectory() as folder:
            db = open_database(chosen.url or f"sqlite:///{folder}/ledger.db")
            measure(make_ledger(db), past)
            db.close()


def measure(ledger: Ledger, past: int) -> None:
    """One row: fill the ledger, then time single outcomes."""
    ref = ledger.experience()
    ledger.fails()
    ledger.settle()
    fill(ledger, ref, past)
    ledger.fails()
    ledger.settle()
    judged, reviewed = [], []
    for _ in range(REPEATS):
        end = ledger.fails()
        judged.append(timed(lambda end=end: ledger.record(end - 1, end)))
        reviewed.append(timed(ledger.review))
    late = [ledger.fails() for _ in range(REPEATS)]
    fill(ledger, ref, 1_000)
    spent = [timed(lambda at=at: ledger.record(at - 1, at)) for at in late]
    ledger.run()
    end = ledger.end()
    again = [timed(lambda: ledger.record(end - 100, end)) for _ in range(REPEATS)]
    row = (judged, reviewed, spent, again)
    median = [statistics.median(some) * 1_000 for some in row]
    print(f"{past:>8} {median[0]:>9.2f} {median[1]:>10.2f} {median[2]:>8.2f} {median[3]:>10.2f}")


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def fill(ledger: Ledger, ref: ArtifactRef, count: int) -> None:
    """Outcomes that were judged, each a recurrence; written as rows, which is all that matters."""
    content = parse(told(checks=[check(CUE)])).dumps()
    metadata = {"kind": "task-outcome", "schema": "powercontext.task-outcome.v1"}
    for start in range(0, count, AT_ONCE):
        some = range(start, min(start + AT_ONCE, count))
        first = ledger.end() + 1
        offered = [new_source(f"past-{first}-{n}", content, metadata) for n in some]
        capture.capture_many(ledger.db, SCOPE, offered, now_us=ledger.tick())
        positions = range(first, first + len(offered))
        with ledger.db.write() as conn:
            conn.execute(
                sa.insert(recurrence_outcomes),
                [
                    {
                        "scope_id": SCOPE,
                        "outcome_position": position,
                        "result": "judged",
                        "mode": "scope_heads",
                        "receipt_position": None,
                        "problem": None,
                        "decided_at": 1,
                    }
                    for position in positions
                ],
            )
            conn.execute(
                sa.insert(recurrence_events),
                [
                    {
                        "scope_id": SCOPE,
                        "event_id": f"past-{position}",
                        "verdict_key": verdict_key(SCOPE, ref, CUE.casefold(), position),
                        "event": "recurred",
                        "artifact_id": ref.artifact_id,
                        "revision": 1,
                        "cue_key": CUE.casefold(),
                        "outcome_position": position,
                        "evidence": {},
                        "voided": False,
                        "recorded_at": 1,
                    }
                    for position in positions
                ],
            )
    with ledger.db.write() as conn:
        cursor = judgements.lock(conn, SCOPE)
        end = positions[-1]
        cursors.advance(conn, SCOPE, "recurrence", after=cursor, through=end, now_us=ledger.tick())
        streaks.recount(conn, SCOPE, ref, CUE.casefold(), now_us=ledger.tick())


if __name__ == "__main__":
    main()
