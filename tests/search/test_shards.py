"""Shards as files: published whole or not at all, whatever happens around them."""

import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pytest
from entries_by_hand import AMOUNT, Answer, ask, built, row

from pc_store.search import shards
from pc_store.search.lexical import Words


def test_a_newer_shard_replaces_the_older_and_readers_of_the_older_go_on(tmp_path):
    old = built(tmp_path, [row(1, "amount")])
    new = built(tmp_path, [row(1, "amount"), row(2, "amount too")], revision=2)
    assert len(ask(old, "amount")) == 1
    assert len(ask(new, "amount")) == 2
    assert len(list(tmp_path.rglob("*.duckdb"))) == 1


def test_a_late_builder_does_not_replace_a_newer_shard(tmp_path):
    built(tmp_path, [row(1, "new")], revision=9)
    assert shards.build(tmp_path, "s", revision=4, anchor="a", rows=[row(1, "old")])
    shard = shards.open_newest(tmp_path, "s")
    assert shard is not None
    assert shard.revision == 9


def test_scopes_that_differ_by_case_or_accent_have_shards_of_their_own(tmp_path):
    names = ["Alpha", "alpha", "álpha", "a\u0301lpha", "../../x", "CON", "."]
    for number, name in enumerate(names):
        built(tmp_path, [row(number, "amount")], scope=name)
    for number, name in enumerate(names):
        shard = shards.open_newest(tmp_path, name)
        assert [hit.entry_id for hit in ask(Words(shard, (), ()), "amount")] == [f"e{number:06d}"]
    assert len(list(tmp_path.rglob("*.duckdb"))) == len(names)
    assert {path.name for path in tmp_path.iterdir()} == {"words"}


def test_few_shards_are_kept_open(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "OPEN_FILES_MAX", 2)
    for number in range(shards.OPEN_FILES_MAX + 4):
        built(tmp_path, [row(1, "amount")], scope=f"scope {number}")
    assert len(shards._opened) == shards.OPEN_FILES_MAX


TEAR = """
import pathlib, sys, duckdb
from pc_store.search import shards
from pc_store.search.lexical import Words
from pc_store.search.tokens import query_units
path, how, at = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
bytes_ = bytearray(path.read_bytes())
if how == "cut":
    bytes_ = bytes_[: len(bytes_) * at // 10]
elif how == "zero":
    place = len(bytes_) * at // 10
    bytes_[place : place + 4096] = bytes(len(bytes_[place : place + 4096]))
else:
    bytes_ = bytearray(b"not a database")
path.write_bytes(bytes_)
shard = shards.open_newest(path.parents[2], "s")
if shard is None:
    print("no shard")
else:
    try:
        found = Words(shard, ["v000001.1"], ()).search(query_units("amount 金额 word7")).top(9)
        print(len(found))
    except duckdb.Error:
        print("torn")
"""


@pytest.mark.parametrize(
    ("how", "at"),
    [("cut", n) for n in (0, 1, 5, 9)] + [("zero", n) for n in range(10)] + [("text", 0)],
)
def test_a_torn_shard_is_no_shard_or_a_duckdb_error_and_never_a_wrong_answer(tmp_path, how, at):
    rows = [row(n, f"{AMOUNT} word{n} word{n * 7}") for n in range(300)]
    expected = len(ask(built(tmp_path, rows), "amount 金额 word7", 9))
    [path] = tmp_path.rglob("*.duckdb")
    done = subprocess.run(
        [sys.executable, "-c", TEAR, str(path), how, str(at)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in {"no shard", "torn", str(expected)}
    if done.stdout.strip() == "no shard":
        assert not path.exists(), "the next builder should find the place free"


@pytest.mark.parametrize("fact", ["format", "tokeniser", "scope_id"])
def test_a_shard_of_another_version_is_no_shard(tmp_path, fact):
    built(tmp_path, [row(1, "amount")])
    shards._opened.clear()
    [path] = tmp_path.rglob("*.duckdb")
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"UPDATE facts SET {fact} = 'another'")
    assert shards.open_newest(tmp_path, "s") is None
    assert not path.exists()


def test_a_folder_that_cannot_be_written_means_no_shard(tmp_path):
    (tmp_path / "words").write_text("a file where the folder should be")
    assert not shards.build(tmp_path, "s", revision=1, anchor="a", rows=[row(1, "amount")])
    assert shards.open_newest(tmp_path, "s") is None


def test_what_dead_builders_left_is_removed_when_it_is_old(tmp_path):
    built(tmp_path, [row(1, "amount")])
    [folder] = (tmp_path / "words").iterdir()
    for name in (".build-old", ".build-new"):
        (folder / name).mkdir()
        (folder / name / "words.duckdb").write_text("half")
    os.utime(folder / ".build-old", (0, 0))
    built(tmp_path, [row(1, "amount")], revision=2)
    assert sorted(path.name[:10] for path in folder.iterdir()) == [".build-new", "0000000000"]


def _build_often(folder: str, first: int) -> None:
    for revision in range(first, first + 4):
        rows = [row(number, f"amount {number}") for number in range(revision * 10)]
        assert shards.build(Path(folder), "s", revision=revision, anchor="a", rows=rows)
        shard = shards.open_newest(Path(folder), "s")
        assert shard is not None
        assert shard.revision >= revision
        assert len(ask(Words(shard, (), ()), "amount", 1000)) == shard.revision * 10


def test_builders_in_several_processes_do_not_disturb_each_other(tmp_path):
    context = multiprocessing.get_context("spawn")
    builders = [
        context.Process(target=_build_often, args=(str(tmp_path), first)) for first in (1, 3, 3)
    ]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join(60)
    assert [builder.exitcode for builder in builders] == [0, 0, 0]
    [path] = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert path.name.startswith("000000000006-")


def test_threads_share_a_shard(tmp_path):
    words = built(tmp_path, [row(n, f"{AMOUNT} word{n % 7}") for n in range(50)])
    expected = ask(words, "amount 金额 word3")
    seen: list[list[Answer]] = []

    def work() -> None:
        seen.extend(ask(words, "amount 金额 word3") for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [expected] * 40


OFFLINE = """
import pathlib, socket, sys
from pc_store.search import shards
def refuse(*_, **__): raise AssertionError("the network was used")
socket.socket.connect = refuse
sys.path.insert(0, "tests/search")
from entries_by_hand import row, ask, built
print(len(ask(built(pathlib.Path(sys.argv[1]), [row(1, "amount")]), "amount")))
"""


def test_neither_the_home_folder_nor_the_network_is_used(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    blocked = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE, str(tmp_path / "index")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **blocked, "HOME": str(home)},
    )
    assert done.stdout.strip() == "1", done.stderr
    assert list(home.iterdir()) == []
