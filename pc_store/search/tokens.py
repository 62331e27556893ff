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
_WORD = re.compile(r"\w+")
_POSSESSIVE = re.compile(r"'s\b")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200d\u2060\ufeff]")
_QUOTED = re.compile(
    "`([^`]+)`|\"([^\"]+)\"|“([^”]+)”|「([^」]+)」|『([^』]+)』|‘([^']+)'|(?<!\\w)'([^']+)'(?!\\w)"
)
_local = threading.local()


@dataclass(frozen=True, slots=True)
class Unit:
    """One word or run of a text.

    Attributes:
        strong: terms that each make an entry a hit: words, stems, compounds, pairs.
        weak: terms that say little alone: a Han run's single characters, a compound's
            numbers and letters. They count only for an entry with no strong term of this
            unit, and only if it has `need` of them.
    """

    strong: tuple[str, ...]
    weak: tuple[str, ...] = ()

    @property
    def need(self) -> int:
        """How many distinct weak terms an entry must have: half, at least two where there are."""
        terms = len(set(self.weak))
        return min(terms, max(2, (terms + 1) // 2))


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

    Function and question words, English and Chinese, are left out unless they are quoted: a
    query made only of them asks for nothing. (Falling back to them would make `the` find what
    `the amount` does not.) Quoted text is taken verbatim.

    Units are in the order of the text, so the units of a text are also the first ones of that
    text with words appended; together they have at most `QUERY_TERMS_MAX` distinct terms.
    """
    folded = _fold(text)
    units: list[Unit] = []
    seen: set[str] = set()
    at = 0
    spans = [(match.start(), match.end(), True) for match in _QUOTED.finditer(folded)]
    for start, end, quoted in [*spans, (len(folded), len(folded), False)]:
        found = list(_asked(folded[at:start]))
        if quoted:
            found += _units(folded[start:end])
        for unit in found:
            strong, weak = _first(unit.strong, seen), _first(unit.weak, seen)
            if strong or weak:
                units.append(Unit(strong, weak))
        at = end
    return tuple(units)


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
            yield _han(match[0])
        else:
            yield Unit(_pairs(match[0]) or (match[0],))


def _pairs(run: str) -> tuple[str, ...]:
    return tuple(run[at : at + 2] for at in range(len(run) - 1))


def _han(run: str) -> Unit:
    return Unit(_pairs(run), tuple(run)) if len(run) > 1 else Unit((run,))


@lru_cache(maxsize=8_192)
def _word(compound: str) -> Unit:
    """A word, or words joined by marks, without what stands around them."""
    whole = _POSSESSIVE.sub("", compound)
    words = [word for word in _WORD.findall(whole) if word.strip("_")]
    if not words:
        return Unit(())
    strong: list[str] = []
    weak: list[str] = []
    if whole != words[0] and len(whole) <= TOKEN_MAX_CHARS:
        strong.append(whole)
    if "/" in whole:
        strong += [
            part
            for part in whole.split("/")
            if part not in words and part.strip("_") and len(part) <= TOKEN_MAX_CHARS
        ]
    alone = len(words) == 1
    for word in words:
        parts = [part for part in word.split("_") if part]
        simple = parts == [word]
        _place(word, strong, weak, alone or not simple)
        for part in () if simple else parts:
            _place(part, strong, weak, len(parts) == 1)
    return Unit(tuple(strong), tuple(weak))


def _place(word: str, strong: list[str], weak: list[str], telling: bool) -> None:
    """Add a word and its stem; a number or single letter of a compound tells little alone."""
    word = word[:TOKEN_MAX_CHARS]
    (strong if telling or (len(word) > 1 and not word.isdigit()) else weak).append(word)
    if word.isascii() and word.isalpha() and (stem := _stem(word)) != word:
        strong.append(stem)


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
    kept = tuple(term for term in unit.strong if term not in function_words.ENGLISH)
    return Unit(kept, unit.weak)


def _asked_han(run: str) -> Iterator[Unit]:
    """A Han run without its function phrases; the rest of it as separate units.

    Nothing in Chinese marks where a phrase ends, so a pair across its border stays a term: if
    the cut was wrong (许可 in 许可以后) the right pair is still asked for.
    """
    if function_words.CHINESE.isdisjoint(run) and not function_words.CHINESE_PHRASE.search(run):
        yield _han(run)
        return
    spans = [match.span() for match in function_words.CHINESE_PHRASE.finditer(run)]
    inside = {at for start, end in spans for at in range(start, end)}
    across: list[str] = []
    for at in range(len(run) - 1):
        outside = [place for place in (at, at + 1) if place not in inside]
        if len(outside) == 1 and run[outside[0]] not in function_words.CHINESE:
            across.append(run[at : at + 2])
    at = 0
    for start, end in [*spans, (len(run), len(run))]:
        piece = run[at:start]
        at = end
        singles = tuple(c for c in piece if c not in function_words.CHINESE)
        if not singles:
            continue
        if len(piece) == 1:
            yield Unit(singles)
        else:
            pairs = _pairs(piece)
            yield Unit(
                tuple(pair for pair in pairs if not function_words.CHINESE.issuperset(pair)),
                singles,
            )
    if across:
        yield Unit(tuple(across))
