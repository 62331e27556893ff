"""Terminal output as the text a person saw."""

import re

_NEEDS_WORK = re.compile("[\x00-\x08\x0b-\x1f\x7f\x9b\ud800-\udfff]")
_ESCAPES = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor moves, erasing
    "|\x1b[\\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\\\)?"  # OSC and other strings: titles, links
    "|\x1b[ -/]*[0-~]?"  # the short ones
)
_LINE_ENDS = re.compile("(?<!\r)\r+\n")  # tried once a run, or long runs take quadratic time
_PAGE_BREAKS = re.compile("[\x0b\x0c]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f]")
_SURROGATES = re.compile("[\ud800-\udfff]")


def plain(text: str) -> str:
    """Return what remains visible of terminal output, in linear time.

    Escape sequences (complete or cut off) and control characters except tab and newline go;
    of a line rewritten after carriage returns, as progress bars do, the last state stays;
    backspaces take back what they stood behind; lone surrogates, which a program leaves when
    it cuts a text between two UTF-16 units, become U+FFFD.
    """
    if not _NEEDS_WORK.search(text):
        return text
    text = _LINE_ENDS.sub("\n", _ESCAPES.sub("", text))
    if "\r" in text:
        text = "\n".join(_last_state(line) for line in text.split("\n"))
    if "\b" in text:
        text = _backspaced(text)
    text = _CONTROLS.sub("", _PAGE_BREAKS.sub("\n", text))
    return _SURROGATES.sub("\ufffd", text)


def _last_state(line: str) -> str:
    return next((state for state in reversed(line.split("\r")) if state.strip()), "")


def _backspaced(text: str) -> str:
    shown: list[str] = []
    for character in text:
        if character != "\b":
            shown.append(character)
        elif shown and shown[-1] != "\n":
            shown.pop()
    return "".join(shown)
