import itertools
import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pc_store.domain.proposal import Evidence, ShownEntry
from pc_store.domain.source import estimated_tokens
from pc_store.errors import InvalidInput
from pc_store.llm.evidence import MIN_BUDGET_TOKENS, batches, request_text

PARTS = (
    *("a", "b", " ", "\n", "\n\n", ". ", "。", '"', "\\", "\t", "\x01", "金额", "e\u0301", "\r\n"),
    *("\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd"),
    *("\u1112\u1161\u11ab", "The amounts are cents. ", "word "),
)
CHARACTERS = st.one_of(
    st.sampled_from(PARTS), st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
)


@st.composite
def contents(draw):
    """Text from a handful of characters to several times the smallest budget."""
    block = "".join(draw(st.lists(CHARACTERS, min_size=1, max_size=30)))
    times = draw(st.integers(1, 12_000 // len(block) + 1))
    return "".join(f"{block}{number}" for number in range(times))


def evidence(content, number=1, **metadata):
    return Evidence(f"e{number}", "content", f"log/{number}", content, metadata)


def within(batch, budget):
    return estimated_tokens(request_text(batch, ())) <= budget


@settings(max_examples=150, deadline=None)
@given(st.lists(contents(), max_size=6), st.integers(MIN_BUDGET_TOKENS, 3_000))
def test_batches_stay_within_the_budget_keep_the_order_and_lose_nothing(texts, budget):
    given_ = [evidence(text, number, kind="note") for number, text in enumerate(texts)]
    packed = batches(given_, budget_tokens=budget)
    assert all(batch and within(batch, budget) for batch in packed)
    flat = [piece for batch in packed for piece in batch]
    by_id = {
        one.evidence_id: [p for p in flat if p.evidence_id == one.evidence_id] for one in given_
    }
    assert [piece for pieces in by_id.values() for piece in pieces] == flat
    for one in given_:
        pieces = by_id[one.evidence_id]
        if len(pieces) == 1:
            assert pieces == [one]
            continue
        assert [p.metadata for p in pieces] == [
            {"chunk": f"{number}/{len(pieces)}", "kind": "note"}
            for number in range(1, len(pieces) + 1)
        ]
        assert joined([p.content for p in pieces], one.content)


def joined(chunks, content):
    """Whether the chunks cover the content: each begins at or before where the last one ended."""
    covered = start = 0
    for chunk in chunks:
        found = content.rfind(chunk, start, covered + len(chunk))
        if found < 0:
            return False
        start, covered = found, found + len(chunk)
    return covered == len(content)


def test_small_evidence_goes_in_one_call_as_it_came():
    given_ = [evidence(f"note {number}", number) for number in range(5)]
    assert batches(given_, budget_tokens=4_000) == [given_]


def test_no_evidence_needs_no_call():
    assert batches([], budget_tokens=4_000) == []


def test_a_large_source_is_cut_at_sentences_and_its_chunks_overlap():
    sentences = [
        f"Sentence number {number} says that rule {number} holds." for number in range(400)
    ]
    content = " ".join(sentences)
    chunks = [
        p.content for batch in batches([evidence(content)], budget_tokens=1_100) for p in batch
    ]
    assert len(chunks) > 4
    for before, after in itertools.pairwise(chunks):
        assert before.endswith("holds. ")
        assert after.startswith("Sentence")
        shared = next(n for n in range(len(before), 0, -1) if after.startswith(before[-n:]))
        assert 100 <= estimated_tokens(before[-shared:]) <= 200


def test_a_large_chinese_source_is_cut_after_a_full_stop():
    content = "订单金额以整数分存储，不得使用浮点数。" * 200
    chunks = [
        p.content for batch in batches([evidence(content)], budget_tokens=1_100) for p in batch
    ]
    assert len(chunks) > 3
    assert all(chunk.endswith("。") and chunk.startswith("订单") for chunk in chunks)


@pytest.mark.parametrize(
    "cluster",
    [
        "e\u0301\u0323",
        "\U0001f469\u200d\U0001f469\u200d\U0001f467",
        "\U0001f44d\U0001f3fd",
        "\U0001f1e9\U0001f1ea",
        "\u1112\u1161\u11ab",
        "\u2764\ufe0f",
    ],
)
def test_no_chunk_begins_or_ends_inside_what_reads_as_one_character(cluster):
    content = (cluster * 9 + "x") * 400
    chunks = [
        p.content for batch in batches([evidence(content)], budget_tokens=1_100) for p in batch
    ]
    assert len(chunks) > 1
    for chunk in chunks:
        assert chunk.replace(cluster, "").strip("x") == ""


def test_text_that_is_one_endless_combining_sequence_is_cut_all_the_same():
    content = "a" + "\u0301" * 6_000
    packed = batches([evidence(content)], budget_tokens=1_100)
    assert all(within(batch, 1_100) for batch in packed)
    assert joined([p.content for batch in packed for p in batch], content)
    assert unicodedata.combining(content[1])


def test_metadata_of_every_chunk_is_the_sources_own_beside_the_mark():
    pieces = [
        p
        for b in batches([evidence("word " * 3_000, chunk="mine")], budget_tokens=1_100)
        for p in b
    ]
    assert {p.evidence_id for p in pieces} == {"e1"}
    assert pieces[0].metadata == {"pc_chunk": f"1/{len(pieces)}", "chunk": "mine"}


def test_metadata_too_large_for_the_call_is_cut_and_says_so_and_the_text_is_whole():
    one = evidence("The amount is in cents.", kind="note", blob="x" * 50_000, author="kim")
    [[piece]] = batches([one], budget_tokens=1_100)
    assert piece.content == one.content
    assert piece.metadata == {"kind": "note", "author": "kim", "metadata_left_out": 1}
    assert within([piece], 1_100)


def test_the_longest_ids_fit_the_smallest_budget():
    one = Evidence("e1000", "\x01" * 128, "\x02" * 256, "字" * 5_000, {"\x03" * 99: "\x04" * 99})
    packed = batches([one], budget_tokens=MIN_BUDGET_TOKENS)
    assert all(within(batch, MIN_BUDGET_TOKENS) for batch in packed)
    assert joined([p.content for batch in packed for p in batch], one.content)


def test_a_smaller_budget_is_refused():
    with pytest.raises(InvalidInput):
        batches([], budget_tokens=MIN_BUDGET_TOKENS - 1)


def test_the_largest_source_is_cut_in_reasonable_time():
    content = ("Log line with 数字 and words, ends here.\n" * 6_000)[:200_000]
    pieces = [p for b in batches([evidence(content)], budget_tokens=8_000) for p in b]
    assert joined([p.content for p in pieces], content)


def test_the_request_is_compact_json_of_evidence_and_entries_in_order():
    text = request_text(
        [evidence("金额\n", 1, kind="note"), evidence("b", 2)],
        [ShownEntry("m1", "fact", "Amounts are cents.")],
    )
    assert json.loads(text) == {
        "evidence": [
            {
                "evidence_id": "e1",
                "evidence_type": "source",
                "content": {
                    "source_type": "content",
                    "source_id": "log/1",
                    "content": "金额\n",
                    "metadata": {"kind": "note"},
                },
            },
            {
                "evidence_id": "e2",
                "evidence_type": "source",
                "content": {
                    "source_type": "content",
                    "source_id": "log/2",
                    "content": "b",
                    "metadata": {},
                },
            },
        ],
        "current_entries": [{"entry_id": "m1", "kind": "fact", "text": "Amounts are cents."}],
    }
    assert '": ' not in text
    assert "金额" in text
