"""How evidence is cut and packed into calls of a bounded size, and how a call presents it.

Sizes are estimated tokens (`domain.source.estimated_tokens`) of the JSON that is sent. Inside
this module they are counted in quarters of a token, which add up without rounding.
"""

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from pc_store.domain import strict_json
from pc_store.domain.proposal import Evidence, ShownEntry
from pc_store.errors import InvalidInput

OVERLAP_TOKENS = 200
"""How much of a chunk's end the next chunk repeats, at most."""
MIN_BUDGET_TOKENS = 1_024
"""The smallest budget: the longest ids a source can have, escaped, and text beside them."""

_INDENT = 32
"""What surrounds an id in a schema: it may be sent pretty-printed, one id a line."""
_FRAME = '{"evidence":[],"current_entries":[]}'
_LONGEST_LABEL = "99999/99999"
_SENTENCE_ENDS = "。！？；…"
_CLOSING = "\"'”’»）)」』】]"


def request_text(evidence: Sequence[Evidence], entries: Sequence[ShownEntry]) -> str:
    """The user message of a call: compact JSON, evidence and entries in the order given."""
    return strict_json.dumps(
        {
            "evidence": [_shown(one) for one in evidence],
            "current_entries": [
                {"entry_id": entry.entry_id, "kind": entry.kind, "text": entry.text}
                for entry in entries
            ],
        }
    )


def records_text(evidence: Sequence[Evidence]) -> str:
    """As `request_text`, for calls that show no entries."""
    return strict_json.dumps({"evidence": [_shown(one) for one in evidence]})


def batches(
    evidence: Sequence[Evidence], *, budget_tokens: int, most: int | None = None
) -> list[list[Evidence]]:
    """Pack evidence into calls, in log order, each within the budget when no entry is shown.

    What counts is the request's text and, for each piece, its id in the schema of the reply.

    A source too large for a call of its own is cut into chunks, at paragraphs or sentences where
    possible and never between a character and what combines with it. Consecutive chunks overlap
    by up to 200 tokens. Every chunk keeps the source's evidence id and metadata and is marked
    `"chunk": "2/5"`. Metadata that would crowd out the text is cut to the members that fit.

    Args:
        budget_tokens: at least `MIN_BUDGET_TOKENS`.
        most: pieces in one call; None for as many as fit.

    Raises:
        InvalidInput: the budget is smaller than that.
    """
    if budget_tokens < MIN_BUDGET_TOKENS:
        raise InvalidInput("budget_tokens", f"is {budget_tokens}, the least is {MIN_BUDGET_TOKENS}")
    # estimated_tokens adds one token for rounding, which is why one is taken off here.
    room = 4 * (budget_tokens - 1) - _quarters(_FRAME)
    packed: list[list[Evidence]] = []
    left = 0
    for one in evidence:
        for piece in _pieces(one, room):
            size = _size(piece)
            if not packed or size > left or len(packed[-1]) == most:
                packed.append([])
                left = room
            packed[-1].append(piece)
            left -= size
    return packed


def _shown(one: Evidence) -> dict[str, Any]:
    return {
        "evidence_id": one.evidence_id,
        "evidence_type": "source",
        "content": {
            "source_type": one.source_type,
            "source_id": one.source_id,
            "content": one.content,
            "metadata": dict(one.metadata),
        },
    }


def _size(one: Evidence) -> int:
    """Quarter tokens of one piece in a request, and of its id in the schema of the reply."""
    in_schema = _quarters(one.evidence_id) + _INDENT
    return _quarters(strict_json.dumps(_shown(one))) + 1 + in_schema


def _quarters(text: str) -> int:
    if text.isascii():
        return len(text)
    return 4 * len(text) - 3 * sum(map(str.isascii, text))


def _pieces(one: Evidence, room: int) -> list[Evidence]:
    """The evidence itself if it fits the room, else its chunks, each of which does."""
    if _size(one) <= room:
        return [one]
    bare = replace(one, content="", metadata={})
    spare = room - _size(bare)
    one = replace(one, metadata=_fitting(one.metadata, spare // 4))
    if _size(one) <= room:
        return [one]
    # A source may use the key itself; the mark then takes another, and nothing is overwritten.
    mark = "chunk"
    while mark in one.metadata:
        mark = "pc_" + mark
    labelled = {mark: _LONGEST_LABEL, **one.metadata}
    spans = list(_spans(one.content, room - _size(replace(bare, metadata=labelled))))
    return [
        replace(
            one,
            content=one.content[start:end],
            metadata={mark: f"{number}/{len(spans)}", **one.metadata},
        )
        for number, (start, end) in enumerate(spans, start=1)
    ]


def _fitting(metadata: Mapping[str, Any], most: int) -> dict[str, Any]:
    """The members that fit `most` quarter tokens, in order; how many were left out is told."""
    if _quarters(strict_json.dumps(dict(metadata))) <= most:
        return dict(metadata)
    kept: dict[str, Any] = {}
    left = most - _quarters(strict_json.dumps({"metadata_left_out": 99_999}))
    for key, value in metadata.items():
        size = _quarters(strict_json.dumps({key: value}))
        if size <= left:
            kept[key] = value
            left -= size
    return {**kept, "metadata_left_out": len(metadata) - len(kept)}


def _spans(content: str, room: int) -> Iterator[tuple[int, int]]:
    """Cut positions covering the content, each span at most `room` quarter tokens as JSON."""
    costs = [0, *accumulate(map(_cost, content))]
    overlap = min(4 * OVERLAP_TOKENS, room // 4)
    start = 0
    while True:
        farthest = bisect_right(costs, costs[start] + room) - 1
        if farthest >= len(content):
            yield start, len(content)
            return
        nearest = bisect_left(costs, costs[start] + room // 2)
        end = _best_cut(content, max(nearest, start + 1), farthest)
        yield start, end
        earliest = max(bisect_left(costs, costs[end] - overlap), start + 1)
        start = _best_start(content, earliest, end)


def _cost(character: str) -> int:
    """Quarter tokens of one character inside a JSON string."""
    if character >= " " and character not in '"\\\x7f':
        return 1 if character.isascii() else 4
    return len(strict_json.dumps(character)) - 2


def _best_cut(content: str, nearest: int, farthest: int) -> int:
    """The last paragraph, line, sentence or word border in (nearest, farthest], best kind first."""
    for is_border in (_ends_paragraph, _ends_line, _ends_sentence, _ends_word, _divides):
        for position in range(farthest, nearest, -1):
            if is_border(content, position):
                return position
    return farthest


def _best_start(content: str, earliest: int, end: int) -> int:
    """The first line, sentence or word border in [earliest, end); `end` if there is none."""
    for is_border in (_ends_line, _ends_sentence, _ends_word, _divides):
        for position in range(earliest, end):
            if is_border(content, position):
                return position
    return end


def _ends_paragraph(content: str, position: int) -> bool:
    return content[position - 2 : position] == "\n\n" and content[position] != "\n"


def _ends_line(content: str, position: int) -> bool:
    return content[position - 1] == "\n" and content[position] != "\n"


def _ends_sentence(content: str, position: int) -> bool:
    before = content[max(0, position - 8) : position].rstrip(_CLOSING)
    if before.endswith(tuple(_SENTENCE_ENDS)):
        return content[position] not in _CLOSING + _SENTENCE_ENDS and _divides(content, position)
    spaced = content[position - 1].isspace() and not content[position].isspace()
    return spaced and before.rstrip().rstrip(_CLOSING).endswith((".", "!", "?"))


def _ends_word(content: str, position: int) -> bool:
    spaced = content[position - 1].isspace() and not content[position].isspace()
    return spaced and _divides(content, position)


def _divides(content: str, position: int) -> bool:
    """Whether a reader sees a border between two characters here, not one character's inside."""
    before, after = content[position - 1], content[position]
    if unicodedata.category(after).startswith("M") or "\u200d" in (before, after):
        return False  # combining marks, variation selectors, joined emoji
    if "\U0001f3fb" <= after <= "\U0001f3ff" or "\u1160" <= after <= "\u11ff":
        return False  # skin tones; Hangul vowels and finals
    if _is_flag_half(after) and _flag_halves_before(content, position) % 2:
        return False
    return (before, after) != ("\r", "\n")


def _flag_halves_before(content: str, position: int) -> int:
    """How many regional indicators stand directly before; two make a flag."""
    count = 0
    while count < min(position, 64) and _is_flag_half(content[position - 1 - count]):
        count += 1
    return count


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
