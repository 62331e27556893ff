"""How fast sources go into the ledger: generic JSONL through the whole ingest path, SQLite.

Wall and CPU seconds of this process, median of several runs, each into a new ledger.

    python benchmarks/bench_ingest.py [--sources 20000] [--runs 5]
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from pc_store.ledger.database import open_database
from pc_store.services import administer
from pc_store.services.clock import now_us
from pc_store.services.ingest import ingest

TEXT = "We agreed that import errors carry the original CSV row number and the column name. " * 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    rates: dict[str, list[float]] = {"wall": [], "CPU": [], "again, wall": []}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        with log.open("w", encoding="utf-8") as file:
            for number in range(arguments.sources):
                source = {
                    "source_id": f"note-{number}",
                    "content": f"{number}: {TEXT}",
                    "metadata": {"kind": "chat", "author": "mara", "turn": number},
                }
                file.write(json.dumps(source) + "\n")
        for run in range(arguments.runs):
            db = open_database(f"sqlite:///{folder}/{run}.db")
            administer.create_scope(db, "bench", now_us=now_us())
            for first in (True, False):
                wall, cpu = time.perf_counter(), time.process_time()
                report = ingest(db, "bench", [log], rejects_dir=Path(folder))
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
                assert (report.new if first else report.known) == arguments.sources
                if first:
                    rates["wall"].append(arguments.sources / wall)
                    rates["CPU"].append(arguments.sources / cpu)
                else:
                    rates["again, wall"].append(arguments.sources / wall)
            db.close()
    for name, values in rates.items():
        print(
            f"{name:<12} median {statistics.median(values):>8.0f} sources/s of {len(values)} runs"
        )


if __name__ == "__main__":
    main()
