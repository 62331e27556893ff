"""Text to tokens: one function for what is indexed and for what is asked.

Entry versions are stored with their tokens and `TOKENISER`. Raise it with any change to what
`tokens` returns: rows of another version are tokenised again when they are read, and index
files of another version are built again.
"""

import re
import threading
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from Stemmer import Stemmer

from pc_store.search import function_words

TOKENISER = "1"
"""The version stored with every entry's terms. Holds no blank and is safe in a file name."""

TOKEN_MAX_CHARS = 128
"""Longer words are cut here, longer compounds are only found by their parts: no text needs more."""

QUERY_TERMS_MAX = 1_024
"""A query's distinct terms beyond this many are not looked at."""

_HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_KANA = "\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
_HANGUL = "\u1100-\u11ff\u3130-\u318f\uac00-\ud7ff"
# Thai, Lao, Burmese and Khmer put no blanks between words either
_UNSPACED = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e80-\u0edf\u1000-\u109f\u1780-\u17d3"
_LETTER = rf"[^\W{_HAN}{_KANA}{_HANGUL}{_UNSPACED}]"
# Every mark is one character between letters, so that no input makes the pattern backtrack far.
_PIECE = rf"{_LETTER}+[+#]{{0,2}}"
_RUN = re.compile(
    rf"(?P<word>{_PIECE}(?:[-./+#']{_PIECE})*)"
    rf"|(?P<han>[{_HAN}]+)|(?P<other>[{_KANA}]+|[{_HANGUL}]+|[{_UNSPACED}]+)"
)
_EAST_ASIAN = re.compile(f"[{_HAN}{_KANA}{_HANGUL}]")
_WORD = re.compile(r"\w+")
_POSSESSIVE = re.compile(r"'s\b")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200d\u2060\ufeff]")
# No kind may open again inside itself, so that openings never closed do not make it slow.
_QUOTED = [
    re.compile(pattern)
    for pattern in (
        *("`[^`]+`", '"[^"]+"', "“[^“”]+”", "「[^「」]+」", "『[^『』]+』", "‘[^‘']+'"),
        r"(?<![\w+#])'[^']+'(?!\w)",
    )
]
_local = threading.local()


@dataclass(frozen=True, slots=True)
class Unit:
    """One word or run of a text; of a query, one word or one pair of neighbours of a Han run.

    Attributes:
        strong: terms that each make an entry a hit: words, stems, compounds, pairs.
        weak: terms that make an entry a hit only when it has `need` of them: a Han run's single
            characters, a compound's numbers and letters. They add to the score of any hit.
        light: those of both that weigh less, because what they say is said by another term as
            well: a word whose stem is there too, a compound's numbers and letters.
    """

    strong: tuple[str, ...]
    weak: tuple[str, ...] = ()
    light: tuple[str, ...] = ()

    @property
    def need(self) -> int:
        """How many distinct weak terms make a hit: half of them, at least two."""
        return max(2, (len(set(self.weak)) + 1) // 2)


def tokens(text: str) -> list[str]:
    """Return a text's tokens, in order, repeated as often as they occur.

    A token holds no white space. Case, width (NFKC), traditional and simplified Han are folded.

    * A word (letters, digits, `_`) is a token, and so is its English Snowball stem where that
      differs: the stem is added, not put in its place, so that an exact form still outranks
      another form of the same word.
    * Words joined by one of `. - / + # '` or by `_` are tokens whole and by part: `v1.4.1`,
      `foo.bar_baz`, `c++`. Marks before and after are dropped (`--dry-run` is `dry-run`).
    * A Han run gives every character and every pair of neighbours; other scripts without
      blanks give pairs, or the character when it stands alone.
    """
    return [token for unit in _units(_fold(text)) for token in (*unit.strong, *unit.weak)]


def terms_of(text: str) -> str:
    """The tokens joined by blanks: what is stored beside an entry's text."""
    return " ".join(tokens(text))


def query_units(text: str) -> tuple[Unit, ...]:
    """What a query asks for; empty when nothing in it bears content.

    Function and question words, English and Chinese, are left out: a query made only of them
    asks for nothing. (Falling back to them would make `the` find what `the amount` does not.)
    A quotation of nothing else is taken verbatim: `"to be"`.

    A Han run is asked for pair by pair, so that what a run asks for is also asked for by every
    run it is part of. A character with no neighbour that bears content stands alone.

    Units are in the order of the text, so the units of a text are also the first ones of that
    text with words appended; together they have at most `QUERY_TERMS_MAX` distinct terms.
    """
    folded = _fold(text)
    units: list[Unit] = []
    seen: set[str] = set()
    at = 0
    for start, end in [*_contentless_quotations(folded), (len(folded), len(folded))]:
        for unit in (*_asked(folded[at:start]), *_verbatim(folded[start:end])):
            strong, weak = _first(unit.strong, seen), _first(unit.weak, seen)
            if strong or weak:
                units.append(Unit(strong, weak, unit.light))
        at = end
    return tuple(units)


def is_east_asian(text: str) -> bool:
    """Whether a text holds Chinese, Japanese or Korean, be it beside something else."""
    return _EAST_ASIAN.search(_fold(text)) is not None


def _contentless_quotations(folded: str) -> list[tuple[int, int]]:
    """Where quotations of nothing but function words stand; overlapping ones as one.

    Each kind of mark is looked for by itself, so that a quotation in a text is also one in that
    text with words appended, whatever marks these hold.
    """
    found = sorted(
        match.span()
        for pattern in _QUOTED
        for match in pattern.finditer(folded)
        if not any(_asked(match[0]))
    )
    spans: list[tuple[int, int]] = []
    for start, end in found:
        if spans and start < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return spans


def _first(terms: Iterable[str], seen: set[str]) -> tuple[str, ...]:
    """Each term once, as far as it is among the first `QUERY_TERMS_MAX` of the query."""
    kept: dict[str, None] = {}
    for term in terms:
        if len(seen) < QUERY_TERMS_MAX:
            seen.add(term)
        if term in seen:
            kept[term] = None
    return tuple(kept)


def query_terms(text: str) -> list[str]:
    """The distinct terms of a query, those that count alone first."""
    units = query_units(text)
    terms = [term for unit in units for term in unit.strong]
    return list(dict.fromkeys(terms + [term for unit in units for term in unit.weak]))


def _fold(text: str) -> str:
    """NFKC, casefold, simplified Han; invisible characters gone, apostrophes straight."""
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    folded = _INVISIBLE.sub("", folded).replace("’", "'")
    pattern, simplified = _simplified()
    return pattern.sub(lambda match: simplified[match[0]], folded)


@lru_cache(maxsize=1)
def _simplified() -> tuple[re.Pattern[str], dict[str, str]]:
    """Traditional to simplified, one character for one, from OpenCC's `t2s` (3,800 pairs).

    Single characters, not phrases: a query must fold like the text it is part of, whatever
    stands around it. Loaded with the first text that is not ASCII (20 ms).
    """
    from opencc import OpenCC

    # Not beyond U+FFFF: those few rare forms would make the pattern a hundred times slower.
    ranges = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF))
    characters = [chr(code) for first, last in ranges for code in range(first, last + 1)]
    # a line feed between them keeps OpenCC from seeing a phrase
    folded = OpenCC("t2s").convert("\n".join(characters)).split("\n")
    pairs = {old: new for old, new in zip(characters, folded, strict=True) if old != new}
    pairs = {old: pairs.get(new, new) for old, new in pairs.items()}
    return re.compile(f"[{''.join(pairs)}]"), pairs


def _units(folded: str) -> Iterator[Unit]:
    for match in _RUN.finditer(folded):
        if match.lastgroup == "word":
            yield _word(match[0])
        elif match.lastgroup == "han":
            run = match[0]
            yield Unit(_pairs(run), tuple(run)) if len(run) > 1 else Unit((run,))
        else:
            yield Unit(_pairs(match[0]) or (match[0],))


def _verbatim(folded: str) -> Iterator[Unit]:
    """The units of a quotation that is all function words."""
    for match in _RUN.finditer(folded):
        if match.lastgroup == "han":
            yield from _han_pairs(match[0])
        else:
            yield from _units(match[0])


def _pairs(run: str) -> tuple[str, ...]:
    return tuple(run[at : at + 2] for at in range(len(run) - 1))


def _han_pairs(run: str) -> Iterator[Unit]:
    """A Han run all of whose characters bear content, as it is asked for."""
    if len(run) == 1:
        yield Unit((run,))
    for pair in _pairs(run):
        yield Unit((pair,), tuple(pair))


@lru_cache(maxsize=8_192)
def _word(compound: str) -> Unit:
    """A word, or words joined by marks, without what stands around them."""
    whole = _POSSESSIVE.sub("", compound)
    words = [word for word in _WORD.findall(whole) if word.strip("_")]
    if not words:
        return Unit(())
    strong: list[str] = []
    weak: list[str] = []
    light: list[str] = []
    if whole != words[0] and len(whole) <= TOKEN_MAX_CHARS:
        strong.append(whole)
    if "/" in whole:
        strong += [
            part
            for part in whole.split("/")
            if part not in words and part.strip("_") and len(part) <= TOKEN_MAX_CHARS
        ]

    def place(word: str, telling: bool) -> None:
        word = word[:TOKEN_MAX_CHARS]
        if telling or (len(word) > 1 and not word.isdigit()):
            strong.append(word)
        else:
            weak.append(word)
            light.append(word)
        if word.isascii() and word.isalpha() and (stem := _stem(word)) != word:
            strong.append(stem)
            light.append(word)

    alone = len(words) == 1
    for word in words:
        parts = [part for part in word.split("_") if part]
        simple = parts == [word]
        place(word, alone or not simple)
        for part in () if simple else parts:
            place(part, len(parts) == 1)
    return Unit(tuple(strong), tuple(weak), tuple(light))


def _stem(word: str) -> str:
    """The English Snowball stem. A stemmer must not be shared between threads."""
    try:
        stemmer = _local.stemmer
    except AttributeError:
        stemmer = _local.stemmer = Stemmer("english")
    return str(stemmer.stemWord(word))


def _asked(folded: str) -> Iterator[Unit]:
    """The units of unquoted query text, without function words."""
    for match in _RUN.finditer(folded):
        if match.lastgroup == "word":
            unit = _asked_word(match[0])
            if unit.strong or unit.weak:
                yield unit
        elif match.lastgroup == "han":
            yield from _asked_han(match[0])
        else:
            pairs = _pairs(match[0]) or (match[0],)
            kept = tuple(pair for pair in pairs if pair not in function_words.JAPANESE)
            if kept:
                yield Unit(kept)


@lru_cache(maxsize=8_192)
def _asked_word(compound: str) -> Unit:
    if function_words.is_one(compound):
        return Unit(())
    unit = _word(compound)
    strong = tuple(term for term in unit.strong if term not in function_words.ENGLISH)
    light = tuple(term for term in unit.light if term in unit.weak or _stem(term) in strong)
    return Unit(strong, unit.weak, light)


def _asked_han(run: str) -> Iterator[Unit]:
    """What a Han run asks for, without its function phrases and characters.

    Nothing in Chinese marks where a word ends. So a pair of which one character is outside a
    phrase, or no function character, stays a term: if the cut was wrong (许可 in 许可以后) the
    right pair is still asked for.
    """
    mute = [character in function_words.CHINESE for character in run]
    cut = [False] * len(run)
    for match in function_words.CHINESE_PHRASE.finditer(run):
        cut[match.start() : match.end()] = [True] * len(match[0])
    for at, character in enumerate(run):
        content = not mute[at] and not cut[at]
        before = at > 0 and not mute[at - 1] and not cut[at - 1]
        last = at + 1 == len(run)
        after = not last and not mute[at + 1] and not cut[at + 1]
        if content and not before and not after:
            yield Unit((character,))
        if last:
            continue
        pair = run[at : at + 2]
        if content and after:
            yield Unit((pair,), tuple(pair))
        elif (not cut[at] or not cut[at + 1]) and (content or after):
            yield Unit((pair,))
