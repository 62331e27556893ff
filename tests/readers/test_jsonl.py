"""Generic JSONL."""

import gzip

import pytest

from pc_store.readers import jsonl
from pc_store.readers.reading import Read, Reject


@pytest.fixture
def read(tmp_path):
    def reader(content: str, name: str = "notes.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        return list(jsonl.read(path, root=tmp_path))

    return reader


def test_id_content_and_metadata_are_taken_as_they_are(read):
    (only,) = read('{"source_id": "s1", "content": "  两 spaces  ", "metadata": {"a": [1, null]}}')
    assert only.line == 1
    assert only.source.source_id == "s1"
    assert only.source.content == "  两 spaces  "
    assert dict(only.source.metadata) == {"a": [1, None]}


def test_lines_without_id_get_ids_that_stay_and_equal_lines_are_two_sources(read):
    content = '{"content": "same"}\n{"content": "same"}\n'
    first = [item.source.source_id for item in read(content)]
    assert len(set(first)) == 2
    assert first[0].startswith("notes.jsonl:1:")
    grown = [item.source.source_id for item in read(content + '{"content": "more"}\n')]
    assert grown[:2] == first


def test_a_changed_line_is_another_source(read):
    before, after = read('{"content": "a"}'), read('{"content": "b"}')
    assert before[0].source.source_id != after[0].source.source_id
    with_metadata = read('{"content": "a", "metadata": {"k": 1}}')
    assert with_metadata[0].source.source_id != before[0].source.source_id


def test_ids_name_the_folder_and_not_the_compression(tmp_path):
    line = b'{"content": "a"}\n'
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.jsonl").write_bytes(line)
    (tmp_path / "sub" / "a.jsonl.gz").write_bytes(gzip.compress(line))
    (plain,) = jsonl.read(tmp_path / "sub" / "a.jsonl", root=tmp_path)
    (packed,) = jsonl.read(tmp_path / "sub" / "a.jsonl.gz", root=tmp_path)
    assert plain.source == packed.source
    assert plain.source.source_id.startswith("sub/a.jsonl:1:")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"content": "a", "role": "user"}', "role: is not a key of this format, which has"),
        ('{"source_id": "a"}', "content: is missing"),
        ('{"content": "  "}', "content: is blank"),
        ('{"content": 3}', "content: is a int, a string is expected"),
        ('{"content": "a", "source_id": 3}', "source_id: is a int, a string is expected"),
        ('{"content": "a", "source_id": " a"}', "source_id: has white space around it"),
        ('{"content": "a", "metadata": []}', "metadata: is a list, an object is expected"),
        ('{"content": "a", "content": "b"}', "line: has the key 'content' more than once"),
        ('{"content": "a", "metadata": {"x": NaN}}', "line: holds NaN, which is not JSON"),
        ('{"content": "\\ud800"}', "line.content: holds a lone surrogate"),
        ('["a"]', "line: is a list, an object is expected"),
        ("not json", "line: is not JSON: expecting value at line 1 column 1"),
        ("[" * 100_000, "line: nests deeper than 64"),
    ],
)
def test_a_bad_line_is_rejected_with_its_reason_and_the_others_are_read(read, line, reason):
    first, bad, last = read(f'{{"content": "one"}}\n{line}\n{{"content": "three"}}\n')
    assert (first.source.content, last.source.content) == ("one", "three")
    assert isinstance(bad, Reject)
    assert (bad.file, bad.line, bad.raw) == ("notes.jsonl", 2, line)
    assert bad.reason.startswith(reason)


def test_a_last_line_that_was_cut_off_says_so(read):
    good, cut = read('{"content": "one"}\n{"content": "tw')
    assert isinstance(good, Read)
    assert isinstance(cut, Reject)
    assert cut.reason.endswith("; the line has no end, so it may be cut off")


def test_content_over_the_limit_is_rejected_because_the_id_is_the_writers(read):
    (only,) = read(f'{{"source_id": "a", "content": "{"x" * 200_001}"}}')
    assert only.reason == "content: has 200001 characters, the most is 200000"
