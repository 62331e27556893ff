"""Text and Markdown files."""

import gzip

from pc_store.readers import plain_text
from pc_store.readers.reading import Reject, Tally


def _read(path, root):
    return list(plain_text.read(path, root=root))


def test_a_file_is_one_source_with_line_ends_unified(tmp_path):
    path = tmp_path / "docs" / "a.md"
    path.parent.mkdir()
    path.write_bytes(b"\xef\xbb\xbf# Title\r\n\r\nText\n")
    (only,) = _read(path, tmp_path)
    assert only.source.content == "# Title\n\nText\n"
    assert only.source.source_id.startswith("docs/a.md@")
    assert dict(only.source.metadata) == {"kind": "document", "file": "docs/a.md"}


def test_a_changed_file_is_another_source_and_an_unchanged_one_the_same(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one")
    first = _read(path, tmp_path)
    assert _read(path, tmp_path) == first
    path.write_text("two")
    assert _read(path, tmp_path)[0].source.source_id != first[0].source.source_id


def test_a_long_file_is_cut_between_paragraphs_and_nothing_is_lost(tmp_path):
    text = "".join(f"Paragraph {n}. " + "词 " * 200 + "\n\n" for n in range(1_200))
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(text.encode()))
    parts = _read(path, tmp_path)
    assert len(parts) == 3
    assert "".join(part.source.content for part in parts) == text
    assert parts[0].source.source_id.endswith("#part1/3")
    assert all(part.source.content.endswith("\n\n") for part in parts)


def test_a_blank_file_is_dropped_and_counted(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(" \n")
    tally = Tally()
    assert list(plain_text.read(path, root=tmp_path, tally=tally)) == []
    assert tally.dropped == {"blank file": 1}


def test_a_file_that_is_not_utf8_is_rejected_with_the_offset(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("caf\xe9 au lait".encode("latin-1"))
    assert _read(path, tmp_path) == [
        Reject("a.txt", None, "is not UTF-8: byte 0xe9 at offset 3 of the file", "caf\\xe9 au lait")
    ]
