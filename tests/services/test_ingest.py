"""Reading logs into a scope."""

import json
import os
from pathlib import Path

import pytest

from pc_store.errors import InvalidInput, NotFound
from pc_store.ledger.database import open_database
from pc_store.readers.reading import Reject
from pc_store.services import ingest as service
from pc_store.services.administer import create_scope, list_scopes
from pc_store.services.capture import list_sources
from pc_store.services.ingest import LandingFile, ingest, ingest_landing, pending_files

NOW_US = 1_788_000_000_000_000
EXAMPLES = Path(__file__).parents[2] / "examples" / "orders"


def clock() -> int:
    return NOW_US


def migrate(url: str) -> None:
    db = open_database(url)
    create_scope(db, "orders", now_us=NOW_US)
    db.close()


@pytest.fixture
def db(new_database):
    db = open_database(new_database(migrate))
    yield db
    db.close()


@pytest.fixture
def logs(tmp_path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


@pytest.fixture
def run(db, tmp_path):
    def runner(*paths, **more):
        more.setdefault("rejects_dir", tmp_path / "rejects")
        return ingest(db, "orders", paths, clock=clock, **more)

    return runner


@pytest.fixture
def land(db, tmp_path):
    (scope,) = list_scopes(db, limit=10)

    def lander(**more):
        return ingest_landing(
            db,
            scope,
            tmp_path / "landing",
            rejects_dir=tmp_path / "rejects",
            clock=clock,
            **more,
        )

    return lander


def line(source_id: str, content: str) -> str:
    return json.dumps({"source_id": source_id, "content": content}) + "\n"


def rejected(path: Path) -> list[dict]:
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]


def ids(db) -> list[str]:
    return [source.source_id for source in list_sources(db, "orders", limit=1_000)]


def drop(folder: Path, name: str, content: str, *, age_s: float = 60) -> Path:
    """Put a file into a landing folder, last modified so long before the tests' clock."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    modified_ns = NOW_US * 1_000 - int(age_s * 1e9)
    os.utime(path, ns=(modified_ns, modified_ns))
    return path


def test_files_are_read_by_name_and_inside_a_file_in_log_order(db, logs, run):
    (logs / "b.jsonl").write_text(line("3", "c") + line("1", "d"))
    (logs / "a").mkdir()
    (logs / "a" / "z.jsonl").write_text(line("9", "a") + line("2", "b"))
    report = run(logs)
    assert ids(db) == ["9", "2", "3", "1"]
    assert (report.files, report.read, report.new, report.known) == (2, 4, 4, 0)
    assert (report.first_position, report.last_position) == (1, 4)
    assert (report.rejected, report.rejected_count, report.reject_file) == ((), 0, None)


def test_reading_again_adds_nothing(db, run):
    first, second = run(EXAMPLES), run(EXAMPLES)
    assert (first.new, first.known, first.rejected_count) == (71, 0, 0)
    assert (second.new, second.known, second.rejected_count) == (0, 71, 0)
    assert (second.first_position, second.last_position) == (None, None)
    assert len(ids(db)) == 71


def test_files_of_all_formats_are_read_in_one_run(db, logs, run):
    (logs / "a.md").write_text("# Notes")
    (logs / "b.jsonl").write_text(line("1", "a"))
    session = {"type": "user", "uuid": "u", "sessionId": "s", "message": {"content": "hello"}}
    (logs / "c.jsonl").write_text('{"type": "progress", "uuid": "p"}\n' + json.dumps(session))
    step = {"thought": "t", "action": "a", "observation": "o"}
    (logs / "d.traj").write_text(json.dumps({"trajectory": [step]}))
    report = run(logs)
    assert report.new == 4
    assert report.dropped == {"progress": 1}
    assert ids(db)[1:3] == ["1", "s:u"]


def test_a_bad_line_is_kept_with_its_reason_and_stops_nothing(db, logs, run, tmp_path):
    bad = '{"content": "b", "colour": "red"}'
    (logs / "a.jsonl").write_text(line("1", "a") + bad + "\n" + line("2", "c"))
    (logs / "b.bin").write_bytes(b"\x00\x01")
    (logs / "c.md").write_text("text")
    report = run(logs)
    assert report.new == 3
    assert [(reject.file, reject.line) for reject in report.rejected] == [
        ("a.jsonl", 2),
        ("b.bin", None),
    ]
    assert report.reject_file == tmp_path / "rejects" / "orders" / "20260829T104000.000000Z.jsonl"
    first, second = rejected(report.reject_file)
    assert first == {
        "file": "a.jsonl",
        "line": 2,
        "reason": "colour: is not a key of this format, which has source_id, content, metadata",
        "raw": bad,
    }
    assert second["reason"] == "file: is a binary file: a zero byte at offset 0"


def test_a_conflict_is_rejected_in_a_form_that_can_be_read_again(db, logs, run):
    (logs / "a.jsonl").write_text(line("1", "first") + line("1", "second") + line("2", "third"))
    report = run(logs)
    assert ids(db) == ["1", "2"]
    assert (report.read, report.new, report.known, report.rejected_count) == (3, 2, 0, 1)
    (reject,) = report.rejected
    assert (reject.file, reject.line) == ("a.jsonl", 2)
    assert reject.reason == (
        "source_conflict: source '1' is at position 1 with other content or metadata"
    )
    assert json.loads(reject.raw) == {"source_id": "1", "content": "second", "metadata": {}}


def test_batches_do_not_show(db, logs, run, monkeypatch):
    monkeypatch.setattr(service, "BATCH_SOURCES", 7)
    monkeypatch.setattr(service, "BATCH_CHARS", 60)
    lines = [line(str(n), "x" * (n % 30 + 1)) for n in range(100)]
    lines[50] = "broken\n"
    (logs / "a.jsonl").write_text("".join(lines))
    report = run(logs)
    assert (report.new, report.rejected_count) == (99, 1)
    assert (report.first_position, report.last_position) == (1, 99)
    assert ids(db) == [str(n) for n in range(100) if n != 50]


def test_a_report_holds_some_rejects_and_the_file_all(db, logs, run, monkeypatch):
    monkeypatch.setattr(service, "REJECTS_HELD", 3)
    long = "x" * 2_000
    (logs / "a.jsonl").write_text(f"{long}\n" * 10)
    report = run(logs)
    assert (len(report.rejected), report.rejected_count) == (3, 10)
    assert len(report.rejected[0].raw) == 500
    assert [reject["raw"] for reject in rejected(report.reject_file)] == [long] * 10


def test_two_runs_at_the_same_time_keep_two_reject_files(db, logs, run):
    (logs / "a.jsonl").write_text("broken\n")
    assert run(logs).reject_file != run(logs).reject_file


def test_what_broke_off_is_finished_by_the_same_call(db, logs, run, monkeypatch):
    monkeypatch.setattr(service, "BATCH_SOURCES", 10)
    (logs / "a.jsonl").write_text("".join(line(str(n), "x") for n in range(35)))

    monkeypatch.setattr(service, "_PROGRESS_EVERY", 25)

    def stop_midway(progress):
        if progress.sources == 25:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(logs, on_progress=stop_midway)
    assert len(ids(db)) == 20
    report = run(logs)
    assert (report.new, report.known) == (15, 20)


def test_progress_ends_at_the_total(db, logs, run):
    (logs / "a.jsonl").write_text("".join(line(str(n), "x" * 100) for n in range(1_000)))
    (logs / "b.md").write_text("text")
    seen = []
    run(logs, on_progress=seen.append)
    done = [progress.bytes_done for progress in seen]
    assert done == sorted(done)
    last = seen[-1]
    assert last.bytes_done == last.bytes_total == sum(p.stat().st_size for p in logs.iterdir())
    assert (last.files_done, last.files_total, last.sources, last.file) == (2, 2, 1_001, "")


def test_an_unknown_scope_or_format_is_refused_before_anything_is_read(db, logs, run, tmp_path):
    (logs / "a.md").write_text("text")
    with pytest.raises(NotFound):
        ingest(db, "nowhere", [logs], rejects_dir=tmp_path)
    with pytest.raises(InvalidInput, match="format: is 'csv'"):
        run(logs, format="csv")
    assert ids(db) == []


def test_a_path_that_does_not_exist_is_rejected_beside_the_others(db, logs, run):
    (logs / "a.md").write_text("text")
    report = run(logs / "no.md", logs / "a.md")
    assert report.new == 1
    assert report.rejected == (
        Reject("no.md", None, "cannot be read: no such file or directory", ""),
    )


def test_pending_files_are_new_or_changed_and_quiet(tmp_path):
    folder = tmp_path / "orders"
    for name, age_s in (("a.md", 10), ("sub/b.md", 10), ("busy.md", 1), ("ahead.md", -500)):
        drop(folder, name, "text", age_s=age_s)
    drop(folder, "half.part", "text")

    def pending(known):
        return pending_files(
            tmp_path, "orders", known, now_ns=NOW_US * 1_000, quiet_ns=2_000_000_000
        )

    assert [file.path for file in pending({})] == ["a.md", "ahead.md", "sub/b.md"]
    first = pending({})[0]
    modified_ns = NOW_US * 1_000 - 10_000_000_000
    assert first == LandingFile("a.md", 4, modified_ns, folder / "a.md")
    known = {file.path: (file.size_bytes, file.modified_ns) for file in pending({})}
    assert pending(known) == []
    drop(folder, "a.md", "changed", age_s=10)
    assert [file.path for file in pending(known)] == ["a.md"]
    assert pending_files(tmp_path, "no such scope", {}, now_ns=0, quiet_ns=0) == []


def test_landing_files_are_read_once_and_again_when_they_change(db, land, tmp_path):
    folder = tmp_path / "landing" / "orders"
    drop(folder, "a.jsonl", line("1", "a") + "broken\n")
    first = land()
    assert (first.files, first.new, first.rejected_count) == (1, 1, 1)
    assert land().files == 0
    drop(folder, "a.jsonl", line("1", "a") + line("2", "b"), age_s=30)
    second = land()
    assert (second.files, second.new, second.known, second.rejected_count) == (1, 1, 1, 0)
    assert ids(db) == ["1", "2"]


def test_a_half_copied_landing_file_waits(db, land, tmp_path):
    folder = tmp_path / "landing" / "orders"
    drop(folder, "a.jsonl", line("1", "a")[:-5], age_s=0.5)
    assert land().files == 0
    drop(folder, "a.jsonl", line("1", "a"), age_s=3)
    assert (land().new, ids(db)) == (1, ["1"])


def test_landing_ids_are_relative_to_the_scopes_folder(db, land, tmp_path):
    drop(tmp_path / "landing" / "orders", "sub/a.md", "text")
    assert land().new == 1
    assert ids(db)[0].startswith("sub/a.md@")


def test_a_landing_folder_that_is_not_there_holds_nothing(land):
    report = land()
    assert (report.files, report.read) == (0, 0)


def test_a_landing_file_whose_name_is_not_utf8_is_read_once(db, land, tmp_path):
    folder = tmp_path / "landing" / "orders"
    folder.mkdir(parents=True)
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.md")).write_text("text")
    assert land(quiet_s=0).new == 1
    assert land(quiet_s=0).files == 0
