"""Sources over the contract: what is kept, what is refused, how a log is paged."""

import json

import pytest

from pc_store import limits
from pc_store.domain.source import RECEIPT_SCHEMA, ineligible
from pc_store.errors import InvalidInput, ScopeNotFound, SourceConflict, SourceNotFound
from pc_store.services.capture import (
    capture_content,
    create_source,
    page_sources,
    read_source,
)

NOW = 1_700_000_000_000_000


def put(db, source_id, content="Hello.", metadata=None):
    return capture_content(db, "shop", source_id, content, metadata, now_us=NOW)


@pytest.mark.parametrize(
    "value",
    ["", "  ", "hello", None, True, 0, 1.0, 10**18, [], {}, {"b": 1.5, "a": [None, "é"]}, "null"],
)
def test_any_json_comes_back_exactly_as_it_was_given(shop_db, value):
    made = create_source(shop_db, "shop", value, now_us=NOW)
    read = read_source(shop_db, "shop", "content", made.source_id)
    assert json.dumps(read.value) == json.dumps(value)
    assert type(read.value) is type(value)
    assert (made.source_id[:4], len(made.source_id), made.position) == ("src_", 36, 1)
    assert page_sources(shop_db, "shop", limit=1).sources == (made,)


def test_a_digest_is_that_of_the_canonical_json(shop_db):
    digests = [
        create_source(shop_db, "shop", value, now_us=NOW).content_digest
        for value in ("hello", None, {"a": 1.0}, {"a": 1})
    ]
    assert digests[0] == "sha256:5aa762ae383fbb727af3c7a36d4940a5b8c40a989452d2304fc958ff3f354e7a"
    assert digests[1] == "sha256:74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b"
    assert digests[2] == digests[3]


def test_creating_is_not_idempotent_and_capturing_is(shop_db):
    first, second = (create_source(shop_db, "shop", "same", now_us=NOW) for _ in range(2))
    assert (first.position, second.position) == (1, 2)
    assert [put(shop_db, "s", metadata={"a": 1}).position for _ in range(2)] == [3, 3]
    assert put(shop_db, "s", metadata={"a": 1.0}).position == 3
    for other in ({"content": "Other."}, {"metadata": {"a": 2}}, {"metadata": None}):
        with pytest.raises(SourceConflict) as caught:
            put(shop_db, "s", **{"metadata": {"a": 1}, **other})
        assert caught.value.details["position"] == 3


def test_a_text_is_not_the_value_that_it_spells(shop_db):
    made = create_source(shop_db, "shop", {"a": 1}, now_us=NOW)
    with pytest.raises(SourceConflict):
        put(shop_db, made.source_id, '{"a":1}')


@pytest.mark.parametrize(
    ("source_id", "content"),
    [("", "x"), (" s", "x"), ("s" * 257, "x"), ("s", ""), ("s", " \u3000"), ("s", "x" * 200_001)],
)
def test_a_captured_text_that_breaks_a_rule_is_refused(shop_db, source_id, content):
    with pytest.raises(InvalidInput) as caught:
        put(shop_db, source_id, content)
    assert caught.value.field in ("source_id", "content")
    assert page_sources(shop_db, "shop", limit=1).sources == ()


@pytest.mark.parametrize(
    "value",
    [
        {"schema": RECEIPT_SCHEMA, "more": 1},
        json.dumps({"schema": RECEIPT_SCHEMA}),
        ' \n{"schema": "powercontext.handoff\\u002dreceipt.v1"}',
    ],
)
def test_only_the_server_writes_receipts(shop_db, value):
    with pytest.raises(InvalidInput) as caught:
        create_source(shop_db, "shop", value, now_us=NOW)
    assert caught.value.field == "content"
    if isinstance(value, str):
        with pytest.raises(InvalidInput):
            put(shop_db, "s", value)


def test_a_text_that_only_mentions_a_receipt_is_kept(shop_db):
    for number, text in enumerate((f"[{RECEIPT_SCHEMA}]", "{not json", "{" * 100_000)):
        assert put(shop_db, f"s{number}", text).position == number + 1


@pytest.mark.parametrize("value", [{"a": "\0"}, ["\ud800"], float("nan"), 2**64, {1: 2}, {2, 3}])
def test_what_is_no_storable_json_is_refused(shop_db, value):
    with pytest.raises(InvalidInput):
        create_source(shop_db, "shop", value, now_us=NOW)


def test_blank_sources_are_not_shown_to_a_model(shop_db):
    made = [create_source(shop_db, "shop", value, now_us=NOW) for value in ("", " ", None, "x")]
    assert [ineligible(one, now_us=NOW) for one in made] == ["blank", "blank", None, None]


def test_what_is_not_there_is_named(shop_db):
    with pytest.raises(SourceNotFound):
        read_source(shop_db, "shop", "content", "none")
    for act in (
        lambda: page_sources(shop_db, "none", limit=1),
        lambda: create_source(shop_db, "none", 1, now_us=NOW),
    ):
        with pytest.raises(ScopeNotFound):
            act()
    for limit in (0, 101):
        with pytest.raises(InvalidInput):
            page_sources(shop_db, "shop", limit=limit)


def test_pages_end_where_the_log_ended_when_the_first_was_read(shop_db):
    for number in range(1, 6):
        put(shop_db, f"s é{number}")
    first = page_sources(shop_db, "shop", limit=2)
    put(shop_db, "late")
    second = page_sources(shop_db, "shop", after=first.next_after, limit=2)
    third = page_sources(shop_db, "shop", after=second.next_after, limit=2)
    pages = [[source.position for source in page.sources] for page in (first, second, third)]
    assert (pages, third.next_after) == ([[1, 2], [3, 4], [5]], None)


def test_a_page_stays_within_its_bytes_but_is_never_empty(shop_db, monkeypatch):
    monkeypatch.setattr(limits, "SOURCE_PAGE_MAX_BYTES", 1_000)
    for number, size in enumerate((400, 400, 400, 3_000, 10)):
        put(shop_db, f"s{number}", "é" * (size // 2))
    positions, after = [], None
    while True:
        page = page_sources(shop_db, "shop", after=after, limit=100)
        positions.append([source.position for source in page.sources])
        after = page.next_after
        if after is None:
            break
    assert positions == [[1, 2], [3], [4], [5]]
