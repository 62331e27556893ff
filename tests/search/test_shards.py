"""Shards as files: published whole or not at all, whatever happens around them."""

import gc
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pytest
from entries_by_hand import AMOUNT, Answer, ask, built, part_of, publish, row

from pc_store.errors import IndexUnwritable, SearchExtensionUnavailable
from pc_store.search import building, extensions, serving, shards
from pc_store.search.lexical import Words
from pc_store.search.shards import Covered


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.duckdb"))


def alter(path: Path, statement: str) -> None:
    """Change a published file, which nothing of ours ever does."""
    shards.close_all()
    gc.collect()
    with duckdb.connect(str(path)) as connection:
        connection.execute(statement)


def test_a_scopes_shard_is_the_same_for_ever_and_scopes_spread_evenly():
    names = ("orders", "Orders", "订单", "")
    assert [shards.shard_of(scope, 16) for scope in names] == [4, 0, 2, 4]
    counts = [0] * 16
    for number in range(16_000):
        counts[shards.shard_of(f"scope-{number}", 16)] += 1
    assert 850 < min(counts) <= max(counts) < 1_150


def test_a_newer_generation_replaces_the_older_and_readers_of_the_older_go_on(tmp_path):
    old = built(tmp_path, [row(1, "amount")])
    new = built(tmp_path, [row(1, "amount"), row(2, "amount too")], revision=2)
    assert len(ask(old, "amount")) == 1
    assert len(ask(new, "amount")) == 2
    assert files(tmp_path) == ["s00/000002.duckdb"]
    assert (tmp_path / "s00" / "CURRENT").read_text() == "000002.duckdb\n"


def test_a_shard_says_what_it_covers(tmp_path):
    done = publish(tmp_path, {"a": [row(1, "x"), row(2, "y")], "b": [row(1, "z")]}, revision=7)
    shard = shards.open_current(tmp_path, 0, 1)
    assert shard is not None
    assert shard.covered == {
        ("a", "memory"): Covered(1, "a", "memory", 7, "a", 0, 2, 0, False),
        ("b", "memory"): Covered(2, "b", "memory", 7, "a", 0, 1, 0, False),
    }
    assert done is not None
    assert (done.shard, done.generation, done.parts, done.docs) == (0, 1, 2, 3)
    assert done.bytes == done.path.stat().st_size


def test_a_term_that_was_read_is_not_read_again(tmp_path, monkeypatch):
    publish(tmp_path, {"a": [row(1, "docs amount"), row(2, "amount amount")]})
    shard = shards.open_current(tmp_path, 0, 1)
    assert shard is not None
    part = shard.part("a", "memory")
    assert part is not None

    def read(*terms):
        found = part.postings(terms)
        return {term: (one.docs.tolist(), one.counts.tolist()) for term, one in found.items()}

    both = {"amount": ([0, 1], [1, 2]), "docs": ([0], [1])}
    assert read("amount", "absent") == {"amount": both["amount"]}
    assert len(part.docs.lengths) == 2, "a term is not mistaken for what is kept beside it"
    asked = []
    columns = serving.Attached.columns
    monkeypatch.setattr(
        serving.Attached, "columns", lambda *given: asked.append(given[1]) or columns(*given)
    )
    assert read("absent", "docs", "amount") == both
    assert read("docs", "amount", "absent") == both
    [statement] = asked
    assert "'docs'" in statement


def test_one_builder_a_shard_at_a_time_and_the_loser_leaves_nothing(tmp_path):
    with building.claim(tmp_path, 0) as first:
        assert first is not None
        assert publish(tmp_path, {"s": [row(1, "amount")]}) is None
        assert publish(tmp_path, {"s": [row(1, "amount")]}, shard=1) is not None
    assert files(tmp_path) == ["s01/000001.duckdb"]
    assert publish(tmp_path, {"s": [row(1, "amount")]}) is not None


def test_scopes_that_differ_by_case_or_accent_are_parts_of_their_own(tmp_path):
    names = ["Alpha", "alpha", "álpha", "a\u0301lpha", "../../x", "CON", ".", "a'b", "a\nb"]
    publish(tmp_path, {name: [row(n, "amount")] for n, name in enumerate(names)})
    for number, name in enumerate(names):
        words = Words(part_of(tmp_path, name), (), ())
        assert [hit.ref for hit in ask(words, "amount")] == [f"e{number:06d}"]
    assert {path.name for path in tmp_path.iterdir()} == {"s00"}


def test_few_shards_are_kept_open_and_all_go_on_being_readable(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "OPEN_FILES_MAX", 2)
    shards.close_all()
    held = [built(tmp_path / str(n), [row(1, f"amount {n}")]) for n in range(6)]
    assert len(shards._opened) == 2
    for number, words in enumerate(held):
        assert len(ask(words, str(number))) == 1
        again = Words(part_of(tmp_path / str(number)), (), ())
        assert len(ask(again, str(number))) == 1


def test_closed_files_are_detached(tmp_path):
    shards.close_all()
    built(tmp_path, [row(1, "amount")])
    connection = serving._current()
    for number in range(2, 5):
        built(tmp_path, [row(1, "amount")], revision=number)
    gc.collect()
    names = connection.execute("SELECT count(*) FROM duckdb_databases() WHERE NOT internal")
    assert names.fetchone() == (2,), "memory and the generation in use"


TEAR = """
import pathlib, sys, duckdb
from pc_store.search import shards
from pc_store.search.lexical import Words
from pc_store.search.tokens import query_units
path, how, at = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
bytes_ = bytearray(path.read_bytes())
if how == "cut":
    bytes_ = bytes_[: len(bytes_) * at // 20]
elif how == "zero":
    place = len(bytes_) * at // 20
    bytes_[place : place + 4096] = bytes(len(bytes_[place : place + 4096]))
else:
    bytes_ = bytearray(b"not a database")
path.write_bytes(bytes_)
shard = shards.open_current(path.parents[1], 0, 1)
if shard is None:
    print("no shard")
else:
    try:
        part = shard.part("s", "memory")
        words = Words(part, [("e000001", "v000001.1")], ())
        print(len(words.search(query_units("amount 金额 word7")).top(9)))
    except duckdb.Error as error:
        shards.refuse(path, error)
        assert shards.open_current(path.parents[1], 0, 1) is None
        print("torn")
"""


@pytest.mark.parametrize(
    ("how", "at"),
    [("cut", n) for n in (0, 1, 10, 19)] + [("zero", n) for n in range(0, 20, 2)] + [("text", 0)],
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
    assert path.exists(), "another process may be able to read it"


@pytest.mark.parametrize(
    "change",
    ["format = 'another'", "tokeniser = 'another'", "shard = 1", "shards = 2"],
)
def test_a_shard_of_another_version_or_division_is_no_shard(tmp_path, change):
    built(tmp_path, [row(1, "amount")])
    alter(tmp_path / "s00" / "000001.duckdb", f"UPDATE facts SET {change}")
    assert shards.open_current(tmp_path, 0, 1) is None
    assert publish(tmp_path, {"s": [row(1, "amount")]}) is not None
    assert len(ask(Words(part_of(tmp_path), (), ()), "amount")) == 1


@pytest.mark.parametrize("pointer", ["", "\n", "../../x.duckdb", "000009.duckdb", "é", "1.txt"])
def test_a_pointer_to_nothing_is_no_shard_and_the_next_build_mends_it(tmp_path, pointer):
    built(tmp_path, [row(1, "amount")])
    (tmp_path / "s00" / "CURRENT").write_text(pointer)
    assert shards.open_current(tmp_path, 0, 1) is None
    built(tmp_path, [row(1, "amount")], revision=2)
    assert files(tmp_path) == ["s00/000002.duckdb"]


def test_a_refused_file_is_not_opened_again_until_it_changes(tmp_path):
    built(tmp_path, [row(1, "amount")])
    path = tmp_path / "s00" / "000001.duckdb"
    whole = path.read_bytes()
    shards.refuse(path, "it seemed to be torn")
    assert shards.open_current(tmp_path, 0, 1) is None
    path.write_bytes(whole)
    assert shards.open_current(tmp_path, 0, 1) is not None


def test_a_folder_that_cannot_be_written_is_said_and_means_no_shard(tmp_path):
    (tmp_path / "s00").write_text("a file where the folder should be")
    with pytest.raises(IndexUnwritable, match="cannot be written"):
        publish(tmp_path, {"s": [row(1, "amount")]})
    assert shards.open_current(tmp_path, 0, 1) is None


def test_what_dead_builders_left_is_removed_by_the_next(tmp_path):
    built(tmp_path, [row(1, "amount")])
    folder = tmp_path / "s00"
    (folder / ".build-dead").mkdir()
    (folder / ".build-dead" / "shard.duckdb").write_text("half")
    (folder / ".build-pointer").write_text("half")
    (folder / "000007.duckdb").write_text("renamed, and then its builder died")
    built(tmp_path, [row(1, "amount")], revision=2)
    assert sorted(path.name for path in folder.iterdir()) == ["000008.duckdb", "CURRENT", "LOCK"]


def test_a_builder_that_fails_leaves_the_generation_in_use_and_the_place_free(tmp_path):
    built(tmp_path, [row(1, "amount")])

    class StopError(Exception):
        pass

    def fail() -> None:
        with building.claim(tmp_path, 0) as work:
            assert work is not None
            work.begin("s", "memory", revision=2, anchor="a", purges=0)
            work.add([row(1, "price")], {})
            raise StopError

    with pytest.raises(StopError):
        fail()
    assert len(ask(Words(part_of(tmp_path), (), ()), "amount")) == 1
    assert sorted(path.name for path in (tmp_path / "s00").iterdir()) == [
        *("000001.duckdb", "CURRENT", "LOCK"),
    ]
    built(tmp_path, [row(1, "amount")], revision=2)


def _build_often(folder: str, number: int) -> None:
    for revision in range(1, 5):
        rows = [row(n, f"amount {n}") for n in range(revision * 10)]
        publish(Path(folder), {"s": rows}, revision=revision)
        words = Words(part_of(Path(folder)), (), ())
        assert len(ask(words, "amount", 1000)) == words.entries
        assert words.entries in {10, 20, 30, 40}


def test_builders_in_several_processes_do_not_disturb_each_other(tmp_path):
    publish(tmp_path, {"s": [row(n, f"amount {n}") for n in range(10)]})
    context = multiprocessing.get_context("spawn")
    builders = [context.Process(target=_build_often, args=(str(tmp_path), n)) for n in range(3)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join(60)
    assert [builder.exitcode for builder in builders] == [0, 0, 0]
    [path] = tmp_path.rglob("*.duckdb")
    assert (tmp_path / "s00" / "CURRENT").read_text().strip() == path.name


def test_threads_share_a_shard_while_it_is_replaced(tmp_path):
    rows = [row(n, f"{AMOUNT} word{n % 7}") for n in range(50)]
    expected = ask(built(tmp_path, rows), "amount 金额 word3")
    seen: list[list[Answer]] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(10):
                seen.append(ask(Words(part_of(tmp_path), (), ()), "amount 金额 word3"))
        except BaseException as error:  # noqa: BLE001 - judged by the thread that started this one
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for revision in range(2, 5):
        publish(tmp_path, {"s": rows}, revision=revision)
    for thread in threads:
        thread.join()
    assert errors == []
    assert seen == [expected] * 40


def _ask_in_child(folder: str) -> None:
    os._exit(0 if len(ask(Words(part_of(Path(folder)), (), ()), "amount")) == 1 else 1)


def test_a_forked_child_reads_what_its_parent_has_open(tmp_path):
    words = built(tmp_path, [row(1, "amount")])
    child = os.fork()
    if not child:
        try:
            _ask_in_child(str(tmp_path))
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert len(ask(words, "amount")) == 1


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


def test_without_a_wheel_and_without_a_network_the_build_says_what_is_missing(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(extensions, "_in_wheel", lambda _: None)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    monkeypatch.setattr(
        extensions,
        "SETTINGS",
        {
            **extensions.SETTINGS,
            "custom_extension_repository": "http://127.0.0.1:9",
            "extension_directory": str(tmp_path / "none"),
        },
    )
    with pytest.raises(SearchExtensionUnavailable) as caught:
        publish(tmp_path, {"s": [row(1, "amount")]})
    assert caught.value.details == {"extension": "fts"}
    assert files(tmp_path) == []
