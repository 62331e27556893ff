"""Opening, decoding and cutting, which all readers share."""

import gzip
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pc_store.readers import reading
from pc_store.readers.parts import cut
from pc_store.readers.reading import Line, Reject, Tally, document, file_key, lines, offer


def _lines(path: Path) -> list[Line | Reject]:
    return list(lines(path, file=path.name, tally=Tally()))


def test_an_empty_file_has_no_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    path.touch()
    assert _lines(path) == []


def test_a_byte_order_mark_crlf_and_blank_lines_are_taken_off(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\r\n   \ntwo\nthree")
    assert _lines(path) == [Line(1, "one", True), Line(4, "two", True), Line(5, "three", False)]


def test_a_gzip_file_is_known_by_its_bytes_and_counted_as_it_lies_on_disk(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(gzip.compress(b"one\ntwo\n" * 1_000))
    tally = Tally()
    assert len(list(lines(path, file="a", tally=tally))) == 2_000
    assert tally.bytes_done == path.stat().st_size


def test_a_cut_off_gzip_stream_gives_the_lines_before_the_cut_and_a_reject(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    content = b"".join(b"line %d %d\n" % (n, n * n) for n in range(50_000))
    packed = gzip.compress(content)
    path.write_bytes(packed[: len(packed) // 2])
    *good, last = _lines(path)
    assert len(good) > 1_000
    assert isinstance(last, Reject)
    assert last.reason == "gzip stream is cut off"


def test_a_damaged_gzip_stream_is_a_reject(tmp_path):
    path = tmp_path / "a.gz"
    packed = bytearray(gzip.compress(b"hello\n" * 10))
    packed[-8] ^= 0xFF
    path.write_bytes(packed)
    last = _lines(path)[-1]
    assert isinstance(last, Reject)
    assert last.reason.startswith("gzip stream is damaged: crc check failed")


def test_a_line_that_is_not_utf8_is_rejected_with_its_offset_and_the_rest_is_read(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"good\nb\xffd\ngood\n")
    assert _lines(path) == [
        Line(1, "good", True),
        Reject("a.jsonl", 2, "is not UTF-8: byte 0xff at offset 6 of the file", "b\\xffd"),
        Line(3, "good", True),
    ]


def test_a_line_over_the_limit_is_rejected_and_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MAX_LINE_BYTES", 10)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"0123456789\n" + b"x" * 3_000_000 + b"\nlast\n")
    first, second, third = _lines(path)
    assert isinstance(first, Reject)  # the newline counts
    assert isinstance(second, Reject)
    assert second.reason == "line has 3000001 bytes, the most is 10"
    assert third == Line(3, "last", True)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x7fELF\x01\x00\x02", "is a binary file: a zero byte at offset 5"),
        ("text".encode("utf-16"), "is UTF-16 text; UTF-8 is expected"),
    ],
)
def test_a_binary_file_is_one_reject(tmp_path, content, reason):
    path = tmp_path / "a"
    path.write_bytes(content + b"\n\x00\n")
    assert _lines(path) == [Reject("a", None, reason, "")]
    assert document(path, file="a", tally=Tally()) == Reject("a", None, reason, "")


def test_what_cannot_be_opened_is_a_reject(tmp_path):
    missing = tmp_path / "missing"
    reason = "cannot be read: no such file or directory"
    assert _lines(missing) == [Reject("missing", None, reason, "")]
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert _lines(pipe) == [Reject("pipe", None, "cannot be read: not a regular file", "")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_a_reject(tmp_path):
    path = tmp_path / "a"
    path.write_text("secret")
    path.chmod(0)
    assert _lines(path) == [Reject("a", None, "cannot be read: permission denied", "")]


def test_an_undecodable_document_says_where_counting_its_mark(tmp_path):
    path = tmp_path / "a.md"
    path.write_bytes(b"\xef\xbb\xbfab\xfe")
    found = document(path, file="a.md", tally=Tally())
    assert isinstance(found, Reject)
    assert found.reason == "is not UTF-8: byte 0xfe at offset 5 of the file"


def test_a_document_over_the_limit_is_a_reject(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MAX_DOCUMENT_BYTES", 10)
    path = tmp_path / "a.md"
    path.write_text("0123456789x")
    found = document(path, file="a.md", tally=Tally())
    assert isinstance(found, Reject)
    assert found.reason.startswith("file has more than 10 bytes")


def test_file_keys_leave_off_gz_and_stay_short_and_different():
    assert file_key("logs/a.jsonl.gz") == "logs/a.jsonl"
    first, second = file_key("x" * 300 + "1"), file_key("x" * 300 + "2")
    assert first != second
    assert len(first) == 160
    assert file_key(" a") != file_key("a")
    assert file_key(" a").strip() == file_key(" a")


@given(st.text(alphabet="ab \n", max_size=400), st.integers(1, 50))
def test_parts_joined_are_the_text_but_for_blank_parts(text, most):
    parts = cut(text, most)
    assert all(len(part) <= most for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())
    if text.strip():
        assert all(part.strip() for part in parts)


def test_cuts_fall_between_paragraphs_if_they_can():
    paragraphs = [f"paragraph {n} " * 5 + "\n\n" for n in range(40)]
    parts = cut("".join(paragraphs), 500)
    assert "".join(parts) == "".join(paragraphs)
    assert all(part.endswith("\n\n") for part in parts)


def test_too_long_content_becomes_numbered_parts():
    text = ("word " * 30_000 + "\n\n") * 3
    parts = list(offer("id", text, {"kind": "k"}, file="f", line=3, raw=""))
    assert [part.source.source_id for part in parts] == [
        "id#part1/3",
        "id#part2/3",
        "id#part3/3",
    ]
    assert [part.line for part in parts] == [3, 3, 3]
    assert dict(parts[1].source.metadata) == {"kind": "k", "part": 2, "parts": 3}
    assert "".join(part.source.content for part in parts) == text
