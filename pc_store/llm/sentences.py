"""Sentences of a work log: the prose in it, each piece a verbatim substring of the content.

Belongs here: telling prose from code, diffs, traces, tables and tool output, and finding where a
sentence begins and ends. What a sentence is worth is not judged here.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

SENTENCE_MAX_CHARS = 400
"""A longer stretch without a full stop is not a sentence one can remember."""

PROSE_KEYS = frozenset(
    {"summary", "text", "content", "message", "details", "note", "notes", "lesson", "lessons"}
    | {"observation", "observations", "decision", "decisions", "remaining_work", "rationale"}
    | {"reason", "conclusion", "description"}
)
"""Keys of JSON objects whose strings are read as prose, those of a Task Outcome among them."""

JSON_MAX_DEPTH = 32

LINE_JUDGED_MAX_CHARS = 1_000
"""A longer line is not one of a trace, a table or a shell; only its sentences are looked at."""


@dataclass(frozen=True)
class Sentence:
    """A verbatim piece of the content, and where it begins there."""

    text: str
    start: int


_FENCE = re.compile(r"^\s{0,3}(?:>\s*)?(`{3,}|~{3,})")
_DIFF_START = re.compile(r"^(?:diff --git |@@ -\d|--- (?:a/|/dev/null)|Index: )")
_DIFF_LINE = re.compile(
    r"^(?:[+\- @\\]|index [0-9a-f]|\+\+\+ |--- |new file|deleted file|rename |$)"
)
_TRACE_START = re.compile(r"^\s*Traceback \(most recent call last\)")
_NOT_PROSE_LINE = re.compile(
    r"""^\s*(?:
        \|.*|\+[-=+]{3,}.*|[-=_*\#~\s]{3,}$          # tables and rules
      | \$\s.*|>>>\s.*|\.\.\.\s.*|[\w.-]+@[\w.-]+[:~].*[$\#]\s.*   # shells
      | at\s[^(]{1,200}\(\S*:\d+\)|File\s".*",\sline\s\d+.*   # stack frames
      | [0-9a-f]{7,40}\s.*                            # commit lists
      | \d+\s*[→|\t:].*                               # numbered listings
      | \S*[/\\]\S*:\d+(?::\d+)?:?\s.*                # file:line: messages
      | (?:\[?\d{4}-\d\d-\d\d[T\s][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\]?\s*)?
        \[?(?:DEBUG|INFO|WARN|WARNING|ERROR|FATAL|TRACE|CRITICAL|NOTICE)\]?[\s:|-].*
      | (?:import|from|def|class|return|const|let|var|public|private|func|fn|async\sdef|package
          |\#include|use|SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER)\s.*[({;=:*]\s*$
      | </?\w[^>]*>.*</?\w+>\s*|</?[\w-]+(?:\s[^>]*)?>\s*   # mark-up
      | [\w.]*(?:Error|Exception|Warning):\s.*
    )$""",
    re.VERBOSE,
)
_LIST_MARK = re.compile(
    r"(?:\s*(?:>|[-*+•·▪◦‣–]|\#{1,6}|\(?\d{1,3}[.)、](?!\d)|[（(]\d{1,3}[)）]|[①-⑳]|"
    r"[一二三四五六七八九十]{1,3}、|\[[ xX]\]|[☐☑✅✔❌⚠️]+)"
    r"(?:\s+|(?<=[、）①-⑳])|(?=[\u4e00-\u9fff])))+"
)
_NUMBER_MARK = re.compile(r"\s*(?:[（(]?\d{1,2}[.)、）](?!\d)|[①-⑳])\s*")
_CLOCK = re.compile(
    r"\s*[\[(（]?(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}[T\s]?)?(?:\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?)"
    r"(?:\s?[AaPp][Mm]|Z|[+-]\d\d:?\d\d)?[\])）]?\s*[-–|]?\s*"
)
_SPEAKER = re.compile(
    r"\s*(?:\*\*|\[|<)?([\w\u4e00-\u9fff][\w .'·-]{0,23}?)(?:\*\*|\]|>)?\s*[:：](?:\*\*)?\s*"
)
_NAME = re.compile(r"(?m)^[ \t]*(?:\*\*)?([A-Z][\w'-]{1,15}|[\u4e00-\u9fff]{2,4})\s*[:：]")
_ROLES = frozenset(
    {"user", "human", "assistant", "ai", "agent", "bot", "system", "tool", "developer", "customer"}
    | {"claude", "gpt", "用户", "助手", "助理", "客服", "客户", "系统", "智能体", "机器人", "我"}
    | {"ユーザー", "アシスタント"}
)
_LABELS = frozenset(
    {"decision", "decisions", "note", "notes", "todo", "fact", "facts", "constraint", "rule"}
    | {"constraints", "preference", "policy", "warning", "important", "summary", "cause", "lesson"}
    | {"gotcha", "agreed", "next", "open", "remaining", "amount", "docs", "feat", "fix"}
    | {"决定", "结论", "约束", "偏好", "规则", "规范", "约定", "待办", "遗留", "原因", "根因"}
    | {"教训", "备注", "注意", "坑", "事实"}
)
_END = re.compile(r"[。！？!?…]+[”’」』）)\]\"']*|(?<![.\s])\.+[\"')\]”’]*(?=\s|$)|\n")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|mr|mrs|ms|dr|prof|st|no|approx|fig|inc|ltd|a\.m|p\.m|resp)|\b[A-Z]|(?:^|\s)\d{1,2})$",
    re.IGNORECASE,
)
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_WORD = re.compile(r"[^\W\d_]{2,}")
_SYMBOL = re.compile(r"[{}()\[\]<>=;|\\/_$#@^&*~`+%\"]")
_CODE_START = re.compile(
    r"^(?:[+\[:@]|https?://|[d-][rwx-]{9}|def(?:module|p)?\s|class\s\w+[:(]|[\w.]+\(|\w+:\s[\"'])"
)
_CODE = re.compile(r"`[^`\n]{1,80}`")


def split_sentences(content: str) -> Iterator[Sentence]:
    """Yield the prose sentences of the content in order, each `content[start:][:len(text)]`.

    JSON content, or JSON on a line of its own, is searched for prose under `PROSE_KEYS`; strings
    whose spelling in the JSON differs from their value (escapes) are left out.
    """
    for start, end in _prose_blocks(content):
        yield from _split_block(content, start, end)


def _prose_blocks(content: str) -> Iterator[tuple[int, int]]:
    """Spans of consecutive prose: one line, or several that an author wrapped."""
    whole = _json_value(content)
    if whole is not None:
        yield from _json_spans(content, 0, whole)
        return
    names = _repeated_speakers(content)
    open_start = open_end = -1
    for start, end in _prose_lines(content):
        line = content[start:end]
        value = _json_value(line)
        if value is not None:
            if open_end >= 0:
                yield open_start, open_end
                open_end = -1
            yield from _json_spans(content, start, value)
            continue
        begin = start + _lead_chars(line, names)
        plain = begin == start + _indent(line)
        if open_end >= 0 and plain and _wraps(content, open_end, start, end):
            open_end = end
            continue
        if open_end >= 0:
            yield open_start, open_end
        open_start, open_end = begin, end
    if open_end >= 0:
        yield open_start, open_end


def _prose_lines(content: str) -> Iterator[tuple[int, int]]:
    """Spans of the lines that are not inside a fence, diff or trace, and do not look like code."""
    fence = ""
    in_diff = in_trace = False
    start = 0
    for raw in content.splitlines(keepends=True):
        line = raw.rstrip("\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029")
        span = start, start + len(line)
        start += len(raw)
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
                fence = ""
            continue
        if mark:
            fence = mark[1][:3]
            continue
        if in_trace:
            # A frame is indented; the exception's own line ends the trace.
            in_trace = line[:1].isspace() or not line.strip()
            continue
        if _TRACE_START.match(line):
            in_trace = True
            continue
        if in_diff and line.strip():
            in_diff = bool(_DIFF_LINE.match(line))
        elif in_diff:
            in_diff = False
        if _DIFF_START.match(line):
            in_diff = True
        if in_diff or not line.strip():
            continue
        if len(line) <= LINE_JUDGED_MAX_CHARS and _NOT_PROSE_LINE.match(line):
            continue
        yield span


def _lead_chars(line: str, names: frozenset[str]) -> int:
    """Length of what stands before the sentence: indent, list mark, quote, clock, speaker."""
    at = 0
    for pattern in (_LIST_MARK, _CLOCK):
        found = pattern.match(line, at)
        if found:
            at = found.end()
    timed = bool(_CLOCK.match(line))
    found = _SPEAKER.match(line, at)
    if found and _is_speaker(found[1], names, timed=timed):
        at = found.end()
    found = _LIST_MARK.match(line, at)
    return found.end() if found else at + _indent(line[at:])


def _is_speaker(name: str, names: frozenset[str], *, timed: bool) -> bool:
    word = name.strip().lower()
    return word not in _LABELS and (word in _ROLES or word in names or timed)


def _repeated_speakers(content: str) -> frozenset[str]:
    """Capitalised or Chinese names that open two or more lines, as in a chat."""
    seen = Counter(found[1].lower() for found in _NAME.finditer(content))
    return frozenset(name for name, count in seen.items() if count > 1)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _wraps(content: str, previous_end: int, start: int, end: int) -> bool:
    """Whether a line continues the one that ended at `previous_end`: hard-wrapped Latin prose."""
    between = content[previous_end:start]
    if between not in ("\n", "\r\n"):
        return False
    line_start = content.rfind("\n", 0, previous_end) + 1
    before, after = content[line_start:previous_end].rstrip(), content[start:end].lstrip()
    return len(before) >= 50 and before[-1] not in ".!?:;。！？：；" and after[:1].islower()


def _split_block(content: str, start: int, end: int) -> Iterator[Sentence]:
    """Cut a span at sentence ends; a newline inside a wrapped block is not one."""
    begin = start
    for found in _END.finditer(content, start, end):
        if found[0] == "\n":
            continue
        if found[0][0] == "." and _ABBREVIATION.search(content[begin : found.start()][-12:]):
            continue
        yield from _one(content, begin, found.end())
        begin = found.end()
    yield from _one(content, begin, end)


def _one(content: str, start: int, end: int) -> Iterator[Sentence]:
    marked = _NUMBER_MARK.match(content, start, end)
    text = content[marked.end() if marked else start : end]
    start = end - len(text) + _indent(text)
    text = text.strip()
    if is_prose(text):
        yield Sentence(text, start)


def is_prose(text: str) -> bool:
    """Whether a piece can be a sentence: long enough, short enough, and mostly words."""
    if len(text) > SENTENCE_MAX_CHARS or "\x00" in text or _CODE_START.match(text):
        return False
    bare = _CODE.sub(" code ", text)
    cjk = len(_CJK.findall(bare))
    words = len(_WORD.findall(_CJK.sub(" ", bare)))
    if cjk + 2 * words < 5 or (cjk == 0 and words < 3):
        return False
    dense = "".join(bare.split())
    letters = sum(character.isalpha() for character in dense)
    return letters >= 0.6 * len(dense) and len(_SYMBOL.findall(dense)) <= 0.12 * len(dense)


def _json_value(text: str) -> Any | None:
    """The JSON object or array that the text is, or None."""
    stripped = text.strip().lstrip("\ufeff")
    if stripped[:1] not in "{[" or stripped[-1:] not in "}]" or not stripped:
        return None
    try:
        value = json.loads(stripped)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, (dict, list)) else None


def _json_spans(content: str, start: int, value: Any) -> Iterator[tuple[int, int]]:
    """Spans of the prose strings of a JSON value that stands in the content from `start` on."""
    at = start
    for text in _json_prose(value, inside=False, depth=0):
        for line in text.splitlines():
            found = content.find(line, at) if line.strip() else -1
            if found >= 0:
                at = found + len(line)
                yield found + _lead_chars(line, frozenset()), at


def _json_prose(value: Any, *, inside: bool, depth: int) -> Iterator[str]:
    if depth > JSON_MAX_DEPTH:
        return
    if isinstance(value, str):
        if inside:
            yield value
    elif isinstance(value, list):
        for item in value:
            yield from _json_prose(item, inside=inside, depth=depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            prose = key in PROSE_KEYS
            if prose or isinstance(item, (dict, list)):
                yield from _json_prose(item, inside=prose, depth=depth + 1)
