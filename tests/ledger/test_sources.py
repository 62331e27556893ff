"""The log: dense positions under any number of writers, each source once, every text faithful."""

import itertools
import random
import secrets
import threading
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pc_store.domain.source import Source, new_source
from pc_store.errors import NotFound, SourceConflict
from pc_store.ledger import sources
from pc_store.services import administer
from pc_store.services.capture import (
    Captured,
    capture,
    capture_many,
    list_sources,
    logs_changed_since,
    read_source,
)

NOW = 1_700_000_000_000_000
WRITERS, EACH = 8, 25
STORABLE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
TEXTS = {
    "emoji": "👩‍👩‍👧‍👦 🏴‍☠️ 🇨🇳 \U0010ffff",
    "right to left": "שלום \u202eעולם\u202c مرحبا",
    "combining": "e\u0301 n\u0303 \u0301alone Z\u0351\u036f",
    "composed and decomposed": unicodedata.normalize("NFD", "ñé가") + "ñé가",
    "separators": "a\u2028b\u2029c\u0085d\x0be\x0cf",
    "line ends": "one\r\ntwo\rthree\nfour\r\n",
    "white space around": " \t\u3000text\ufeff\n",
    "quotes": "'\"\\ '' \\' %s %(x)s :name ? {} $1 -- /* */ ; DROP TABLE sources",
    "controls": "".join(map(chr, range(1, 32))) + "\x7f\x80\x9f",
    "escapes": r"\u0000 \ud800 \n \x00 &#0; %00",
    "han": "汉字漢字𠮷\U0002a6df",
    "invisible": "\u200b\u200d\u2060\ufeff\u00ad\ufffe\uffff",
    "long": "长" * 200_000,
}


@pytest.fixture
def scope(db):
    return administer.create_scope(db, "shop", now_us=NOW).scope_id


def test_positions_are_dense_and_no_reader_sees_one_before_those_below_it(db, scope):
    stop = threading.Event()
    seen, torn = [], []

    def read():
        while not stop.is_set():
            with db.read() as conn:
                high = sources.high_watermark(conn, scope)
                held = [row.position for row in sources.between(conn, scope, after=0, through=999)]
            seen.append(high)
            if held != list(range(1, high + 1)):
                torn.append((high, held))

    def write(writer):
        return [
            capture(db, scope, new_source(f"w{writer}-{number}", "text"), now_us=NOW).position
            for number in range(EACH)
        ]

    reader = threading.Thread(target=read)
    reader.start()
    with ThreadPoolExecutor(WRITERS) as pool:
        given_out = list(pool.map(write, range(WRITERS)))
    stop.set()
    reader.join()
    assert torn == []
    assert seen == sorted(seen)
    assert all(positions == sorted(positions) for positions in given_out)
    assert sorted(itertools.chain.from_iterable(given_out)) == list(range(1, WRITERS * EACH + 1))
    logged = list_sources(db, scope, limit=WRITERS * EACH + 1)
    assert [source.position for source in logged] == list(range(1, WRITERS * EACH + 1))


def test_writers_that_offer_the_same_sources_at_once_append_each_once(db, scope):
    offered = [new_source(f"s{number}", f"text {number}") for number in range(20)]

    def write(seed):
        mine = random.Random(seed).sample(offered, len(offered))
        return {
            source.source_id: capture(db, scope, source, now_us=NOW).position for source in mine
        }

    with ThreadPoolExecutor(WRITERS) as pool:
        answers = list(pool.map(write, range(WRITERS)))
    assert answers == [answers[0]] * WRITERS
    assert sorted(answers[0].values()) == list(range(1, 21))


def test_a_source_is_stored_as_it_was_offered(db, scope):
    offered = new_source("s1", " text\n", {"b": [1.0, 2, None, "é"], "a": {"deep": True}})
    assert capture(db, scope, offered, now_us=NOW + 5) == Captured("new", 1)
    assert read_source(db, scope, "content", "s1") == Source(
        position=1,
        source_type="content",
        source_id="s1",
        content=" text\n",
        metadata={"b": [1.0, 2, None, "é"], "a": {"deep": True}},
        digest=offered.digest,
        internal=False,
        received_at=NOW + 5,
    )


def test_offering_a_source_again_answers_its_position_and_changes_nothing(db, scope):
    capture(db, scope, new_source("s1", "text", {"a": 1, "b": 2}), now_us=NOW)
    capture(db, scope, new_source("s2", "text"), now_us=NOW)
    before = list_sources(db, scope, limit=10)
    again = new_source("s1", "text", {"b": 2.0, "a": 1})
    assert capture(db, scope, again, now_us=NOW + 9) == Captured("known", 1)
    assert list_sources(db, scope, limit=10) == before
    assert logs_changed_since(db, NOW, limit=10) == [(scope, 2, NOW)]


@pytest.mark.parametrize(
    ("content", "metadata"),
    [
        ("text ", {"a": 1}),
        ("Text", {"a": 1}),
        ("text", {"a": 2}),
        ("text", {"a": "1"}),
        ("text", {"a": True}),
        ("text", {}),
        ("text", {"a": 1, "b": None}),
    ],
)
def test_the_same_id_with_other_content_or_metadata_is_a_conflict(db, scope, content, metadata):
    capture(db, scope, new_source("s1", "text", {"a": 1}), now_us=NOW)
    with pytest.raises(SourceConflict) as caught:
        capture(db, scope, new_source("s1", content, metadata), now_us=NOW)
    assert caught.value.details == {"source_type": "content", "source_id": "s1", "position": 1}
    assert [source.content for source in list_sources(db, scope, limit=10)] == ["text"]


def test_a_batch_appends_the_new_in_order_and_reports_the_rest(db, scope):
    capture(db, scope, new_source("old", "text"), now_us=NOW)
    batch = [
        new_source("a", "1"),
        new_source("old", "text"),
        new_source("a", "1"),
        new_source("a", "2"),
        new_source("old", "other"),
        new_source("a", "1", source_type="note"),
        new_source("b", "1"),
    ]
    assert capture_many(db, scope, batch, now_us=NOW) == [
        Captured("new", 2),
        Captured("known", 1),
        Captured("known", 2),
        Captured("conflict", 2),
        Captured("conflict", 1),
        Captured("new", 3),
        Captured("new", 4),
    ]
    assert [
        (source.source_type, source.source_id, source.content)
        for source in list_sources(db, scope, limit=10)
    ] == [
        ("content", "old", "text"),
        ("content", "a", "1"),
        ("note", "a", "1"),
        ("content", "b", "1"),
    ]


def test_a_batch_larger_than_a_statement_holds_is_appended_whole(db, scope):
    batch = [new_source(f"s{number}", "text") for number in range(1_201)]
    capture_many(db, scope, batch[:700], now_us=NOW)
    assert capture_many(db, scope, batch, now_us=NOW) == [
        Captured("known" if position <= 700 else "new", position) for position in range(1, 1_202)
    ]


def test_scopes_have_logs_of_their_own(db, scope):
    other = administer.create_scope(db, "other", now_us=NOW).scope_id
    capture(db, scope, new_source("s1", "text"), now_us=NOW)
    assert capture(db, other, new_source("s1", "other text"), now_us=NOW) == Captured("new", 1)
    assert read_source(db, scope, "content", "s1").content == "text"
    assert read_source(db, other, "content", "s1").content == "other text"


def test_a_scope_or_source_that_is_not_there_is_not_found(db, scope):
    for call in (
        lambda: capture(db, "nowhere", new_source("s1", "text"), now_us=NOW),
        lambda: capture_many(db, "nowhere", [], now_us=NOW),
        lambda: list_sources(db, "nowhere", limit=1),
        lambda: read_source(db, scope, "content", "s1"),
        lambda: read_source(db, "nowhere", "content", "s1"),
    ):
        with pytest.raises(NotFound):
            call()
    assert list_sources(db, scope, limit=1) == []


def test_ids_are_compared_byte_by_byte(db, scope):
    ids = ["Alpha", "alpha", "ALPHA", "é", "e\u0301", "ａlpha", "a/b", "a|b", "a\nb", "ß", "ss"]
    for position, source_id in enumerate(ids, start=1):
        stored = capture(db, scope, new_source(source_id, "text"), now_us=NOW)
        assert stored == Captured("new", position)
    assert [source.source_id for source in list_sources(db, scope, limit=99)] == ids
    assert read_source(db, scope, "content", "e\u0301").position == 5
    with pytest.raises(NotFound):
        read_source(db, scope, "content", "aLPHA")


def test_the_longest_ids_of_four_byte_characters_fit(db):
    def ids(length, seed):
        letters = random.Random(seed)
        return "".join(chr(letters.randrange(0x20000, 0x2A6DF)) for _ in range(length))

    scope_id = administer.create_scope(db, ids(256, 1), now_us=NOW).scope_id
    longest = new_source(ids(256, 2), "text", source_type=ids(128, 3))
    assert capture(db, scope_id, longest, now_us=NOW) == Captured("new", 1)
    found = read_source(db, scope_id, longest.source_type, longest.source_id)
    assert (found.source_type, found.source_id) == (longest.source_type, longest.source_id)


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_comes_back_as_it_went_in(db, scope, name):
    text = TEXTS[name]
    metadata = {text[:100]: [text[:100]]}
    capture(db, scope, new_source("s1", text, metadata), now_us=NOW)
    found = read_source(db, scope, "content", "s1")
    assert (found.content, found.metadata) == (text, metadata)
    assert capture(db, scope, new_source("s1", text, metadata), now_us=NOW).status == "known"


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(STORABLE.filter(str.strip), STORABLE), min_size=1, max_size=20))
def test_any_text_that_is_accepted_comes_back_as_it_went_in(db, texts):
    scope = administer.ensure_scope(db, secrets.token_hex(), now_us=NOW).scope_id
    batch = [
        new_source(str(number), content, {extra: extra})
        for number, (content, extra) in enumerate(texts)
    ]
    capture_many(db, scope, batch, now_us=NOW)
    assert [(source.content, source.metadata) for source in list_sources(db, scope, limit=20)] == [
        (content, {extra: extra}) for content, extra in texts
    ]
