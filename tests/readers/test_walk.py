"""Which files a set of paths means."""

import os

from pc_store.readers.reading import Reject
from pc_store.readers.walk import Found, files_in


def _names(found):
    return [item.name if isinstance(item, Found) else item for item in found]


def test_a_folder_is_its_files_in_a_total_order_without_hidden_and_unfinished_ones(tmp_path):
    names = ("b.md", "a/z.md", "a/b/c.md", "a.md", ".hid", ".git/x", "c.part", "d.tmp")
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    assert _names(files_in([tmp_path])) == ["a/b/c.md", "a/z.md", "a.md", "b.md"]
    assert {item.root for item in files_in([tmp_path])} == {tmp_path}


def test_a_path_given_by_the_caller_is_taken_as_it_is(tmp_path):
    hidden = tmp_path / ".notes.tmp"
    hidden.write_text("x")
    assert files_in([hidden]) == [Found(hidden, tmp_path, ".notes.tmp")]


def test_each_file_comes_once(tmp_path):
    (tmp_path / "a.md").write_text("x")
    (tmp_path / "link.md").symlink_to(tmp_path / "a.md")
    assert _names(files_in([tmp_path, tmp_path / "a.md", tmp_path])) == ["a.md"]


def test_loops_of_links_end(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.md").write_text("x")
    (tmp_path / "sub" / "up").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to(tmp_path / "self")
    (tmp_path / "z").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    assert _names(files_in([tmp_path])) == [
        Reject("self", None, "cannot be read: too many levels of symbolic links", ""),
        "sub/a.md",
        Reject("z", None, "cannot be read: no such file or directory", ""),
    ]


def test_a_missing_path_is_a_reject_beside_the_others(tmp_path):
    (tmp_path / "a.md").write_text("x")
    assert _names(files_in([tmp_path / "no.md", tmp_path / "a.md"])) == [
        "a.md",
        Reject("no.md", None, "cannot be read: no such file or directory", ""),
    ]


def test_a_name_that_is_not_utf8_can_be_stored(tmp_path):
    raw = os.fsencode(tmp_path) + b"/caf\xe9.md"
    with open(raw, "w") as file:  # noqa: PTH123 - pathlib has no names of bytes
        file.write("x")
    (only,) = files_in([tmp_path])
    assert only.name == "caf\\udce9.md"
    assert only.path.read_text() == "x"
