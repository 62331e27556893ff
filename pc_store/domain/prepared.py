"""A prepared context: what was recalled for a question, cut and fitted into a budget of bytes."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from pc_store import limits
from pc_store.domain.refs import ArtifactRef, SourceRef

Family = Literal["memory", "experience"]
Reason = Literal["blank", "duplicate", "cap", "too_small", "budget"]
"""Why something found is not delivered.

    blank      it holds no text
    duplicate  it was there already
    cap        as many as a context may hold were delivered
    too_small  it does not fit, and is too short to be cut
    budget     not even 64 bytes of it fit
"""

ELLIPSIS = "…"
ROOMY_BYTES = 512
"""Room for this much of an item makes a layout good enough; with less a terser one is tried."""
_ZWJ = "\u200d"
_JOINING = "\u200c\u200d"

T = TypeVar("T")


@dataclass(frozen=True)
class Recalled:
    """One thing that was found for a question.

    Attributes:
        own: whether the scope that asked has it, and not one that it references.
        entry_id, entry_version_id: of a memory's entry; empty for an experience.
        sources: what it was made from, as far as it says so itself.
    """

    family: Family
    scope_id: str
    own: bool
    ref: ArtifactRef
    text: str
    entry_id: str = ""
    entry_version_id: str = ""
    sources: tuple[SourceRef, ...] = ()

    @property
    def identity(self) -> tuple[object, ...]:
        """What makes two findings the same one."""
        if self.family == "memory":
            return self.family, self.scope_id, self.entry_id, self.entry_version_id
        return self.family, self.scope_id, self.ref


@dataclass(frozen=True)
class Item:
    """One thing as it is delivered: whole, or cut with an ellipsis at its end.

    `rank` counts what was found of its family, from 1.
    """

    found: Recalled
    rank: int
    content: str
    truncated: bool


@dataclass(frozen=True)
class Dropped:
    """One thing that was found and is not delivered."""

    found: Recalled
    reason: Reason


class Layout(Protocol):
    """How a document is written: a piece for each item, and everything around the pieces."""

    def piece(self, item: Item, ordinal: int) -> str:
        """An item; `ordinal` counts those of its family in the document, from 1."""

    def document(self, pieces: Sequence[tuple[Family, str]]) -> str:
        """The whole, of at least one piece."""


@dataclass(frozen=True)
class Fitted:
    """A document within its budget; None when nothing fits or nothing was found."""

    content: str | None
    items: tuple[Item, ...]
    dropped: tuple[Dropped, ...]


def round_robin(lists: Sequence[Sequence[T]], *, most: int) -> tuple[list[T], list[T]]:
    """The first of each list, the second of each, and so on: at most `most`, and the rest."""
    longest = max(map(len, lists), default=0)
    dealt = [each[place] for place in range(longest) for each in lists if place < len(each)]
    return dealt[:most], dealt[most:]


def distinct(found: Iterable[Recalled]) -> tuple[list[Item], list[Dropped]]:
    """The findings with text, each once, as long as an item may be; and those left out."""
    items: list[Item] = []
    dropped: list[Dropped] = []
    seen: set[tuple[object, ...]] = set()
    ranks: Counter[Family] = Counter()
    for one in found:
        if not one.text.strip():
            dropped.append(Dropped(one, "blank"))
        elif one.identity in seen:
            dropped.append(Dropped(one, "duplicate"))
        else:
            seen.add(one.identity)
            ranks[one.family] += 1
            items.append(_longest(one, ranks[one.family]))
    return items, dropped


def fit(
    candidates: Sequence[Item],
    layouts: Sequence[Layout],
    *,
    caps: Mapping[Family, int],
    max_bytes: int,
) -> Fitted:
    """Deliver as many candidates, in order, as caps and budget allow.

    Of the layouts, from the fullest to the tersest, the first is used under which some candidate
    alone fits, or 512 bytes of it do; the last if there is none. Each candidate is taken as it is
    if the document then fits, or else cut, to no less than 64 bytes, or else left out; one that
    is left out does not end it, later ones may still fit.

    Args:
        candidates: as `distinct` returns them.
        caps: most items by family; beside it, 8 in all.
        max_bytes: UTF-8 bytes of the whole document, never exceeded.
    """
    tried = [one for one in candidates if caps.get(one.found.family)]
    layout = next((each for each in layouts if _roomy(each, tried, max_bytes)), layouts[-1])
    items: list[Item] = []
    pieces: list[tuple[Family, str]] = []
    counts: Counter[Family] = Counter()
    dropped: list[Dropped] = []
    for candidate in candidates:
        family = candidate.found.family
        if counts[family] >= caps.get(family, 0) or len(items) >= limits.CONTEXT_ITEMS_MAX:
            dropped.append(Dropped(candidate.found, "cap"))
            continue

        def fits(item: Item, family: Family = family) -> bool:
            piece = layout.piece(item, counts[family] + 1)
            return _size(layout.document([*pieces, (family, piece)])) <= max_bytes

        item = _largest(candidate, fits)
        if item is None:
            small = _size(candidate.found.text) < limits.CONTEXT_ITEM_MIN_BYTES
            dropped.append(Dropped(candidate.found, "too_small" if small else "budget"))
            continue
        counts[family] += 1
        items.append(item)
        pieces.append((family, layout.piece(item, counts[family])))
    return Fitted(layout.document(pieces) if pieces else None, tuple(items), tuple(dropped))


def cut_ends(text: str, *, least_bytes: int = limits.CONTEXT_ITEM_MIN_BYTES) -> Iterator[int]:
    """How many characters of a text may be left, ascending, when an ellipsis follows them.

    Each leaves from `least_bytes` to 2,000 bytes, the ellipsis included, and fewer than the text
    has. Characters that belong together, such as a letter and its accents or the parts of an
    emoji, stay together, unless the text has nowhere else to be cut.
    """
    most_bytes = min(limits.CONTEXT_ITEM_MAX_BYTES, _size(text) - 1) - _size(ELLIPSIS)
    torn = []
    seams = 0
    size = 0
    for end, char in enumerate(text[:most_bytes], start=1):
        size += 1 + (char > "\x7f") + (char > "\u07ff") + (char > "\uffff")
        if size > most_bytes:
            break
        if size + _size(ELLIPSIS) < least_bytes:
            continue
        if _joined(char, text[end]):
            torn.append(end)
        else:
            seams += 1
            yield end
    if not seams:
        yield from torn


def _longest(found: Recalled, rank: int) -> Item:
    """A finding as long as an item may be."""
    if _size(found.text) <= limits.CONTEXT_ITEM_MAX_BYTES:
        return Item(found, rank, found.text, truncated=False)
    whole = Item(found, rank, found.text, truncated=True)
    return _cut(whole, max(cut_ends(found.text)))


def _roomy(layout: Layout, candidates: Sequence[Item], max_bytes: int) -> bool:
    def fits(item: Item) -> bool:
        return _size(layout.document([(item.found.family, layout.piece(item, 1))])) <= max_bytes

    for candidate in candidates:
        end = next(cut_ends(candidate.found.text, least_bytes=ROOMY_BYTES), None)
        if fits(candidate if end is None else _cut(candidate, end)):
            return True
    return False


def _largest(candidate: Item, fits: Callable[[Item], bool]) -> Item | None:
    """The longest form of a candidate that fits; None when none does."""
    if fits(candidate):
        return candidate
    shortest = next(cut_ends(candidate.found.text), None)
    if shortest is None or not fits(_cut(candidate, shortest)):
        return None
    ends = list(cut_ends(candidate.found.text))
    good, bad = 0, len(ends)
    while bad - good > 1:
        middle = (good + bad) // 2
        if fits(_cut(candidate, ends[middle])):
            good = middle
        else:
            bad = middle
    return _cut(candidate, ends[good])


def _cut(item: Item, end: int) -> Item:
    return Item(item.found, item.rank, item.found.text[:end] + ELLIPSIS, truncated=True)


def _joined(before: str, after: str) -> bool:
    """Whether two neighbouring characters are one to the eye."""
    if after < "\u0300":  # where the accents begin
        return (before == "\r" and after == "\n") or before == _ZWJ
    return (
        unicodedata.category(after) in ("Mn", "Me", "Mc")
        or before == _ZWJ
        or after in _JOINING
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= after <= "\U000e007f"  # tags, as in some flags
        or ("\U0001f1e6" <= before <= "\U0001f1ff" and "\U0001f1e6" <= after <= "\U0001f1ff")
    )


def _size(text: str) -> int:
    return len(text.encode())
