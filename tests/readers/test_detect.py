"""Which format a file is in."""

import gzip
import json

import pytest

from pc_store.errors import InvalidInput
from pc_store.readers.detect import FORMATS, READERS, detect, read
from pc_store.readers.reading import Reject

SESSION = '{"type": "progress", "uuid": "1"}\n{"type": "user", "uuid": "2", "message": {}}\n'


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.jsonl", '{"content": "a"}\n', "jsonl"),
        ("a.jsonl", "", "jsonl"),
        ("a.jsonl", SESSION, "claude-code"),
        ("a.jsonl", '{"type":"summary","summary":"x","leafUuid":"1"}\n', "claude-code"),
        ("a.jsonl", '{"parentUuid":null,"type":"user","message":"' + "x" * 300_000, "claude-code"),
        ("a.jsonl", '{"type": "user", "uuid": "1", "content": "a"}\n', "jsonl"),
        ("a.log", '\ufeff{"content": "a"}\n{"content": "b"}\n', "jsonl"),
        ("a", SESSION, "claude-code"),
        ("a.traj", "", "swe-agent"),
        ("a.json", json.dumps({"history": [{"role": "user"}]}), "swe-agent"),
        ("a.json", json.dumps({"environment": "x", "trajectory": []}), "swe-agent"),
        ("a.json", json.dumps([{"task_id": 0, "reward": 1.0, "traj": []}]), "tau-bench"),
        ("a.md", "{not json}", "text"),
        ("a.md", '{"content": "a"}', "text"),
        ("README", "[a link](b)", "text"),
        ("a.txt", "", "text"),
    ],
)
def test_formats_are_told_apart(tmp_path, name, content, expected):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    assert detect(path) == expected
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(content.encode()))
    assert detect(packed) == expected


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.json", b'{"a": 1}', "file: is JSON of no known format"),
        ("a.json", b"hello", "file: is named as JSON and is not"),
        ("a.png", b"\x89PNG\r\n\x1a\n\x00\x00", "file: is a binary file: a zero byte at offset 8"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path, name, content, reason):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=reason):
        detect(path)
    (only,) = read(path, root=tmp_path)
    assert isinstance(only, Reject)
    assert only.reason.startswith(reason)


def test_a_missing_file_is_a_reject(tmp_path):
    (only,) = read(tmp_path / "no", root=tmp_path)
    assert only == Reject("no", None, "cannot be read: no such file or directory", "")


def test_every_format_has_a_reader_and_others_are_refused(tmp_path):
    assert FORMATS == ("jsonl", "text", "claude-code", "swe-agent", "tau-bench", "auto")
    assert set(READERS) == set(FORMATS) - {"auto"}
    with pytest.raises(InvalidInput, match="format: is 'csv', which is none of"):
        read(tmp_path / "a", root=tmp_path, format="csv")


def test_a_format_given_by_name_is_taken_at_its_word(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"a": 1}')
    (only,) = read(path, root=tmp_path, format="text")
    assert only.source.content == '{"a": 1}'
