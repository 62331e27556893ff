"""Cutting a text that is too long for one source."""


def cut(text: str, most: int) -> list[str]:
    """Cut a text into parts of at most `most` characters; a short text is its only part.

    Cuts fall behind the last blank line that fits, else behind a line end, else behind a
    space, else anywhere. The parts joined are the text; parts of nothing but white space are
    left out when there are others.
    """
    if len(text) <= most:
        return [text]
    parts: list[str] = []
    at = 0
    while len(text) - at > most:
        end = _border(text, at, at + most)
        parts.append(text[at:end])
        at = end
    parts.append(text[at:])
    return [part for part in parts if part.strip()] or [text[:most]]


def _border(text: str, start: int, end: int) -> int:
    """The best place to cut in (start, end]."""
    # A border in the first tenth would make slivers of texts with few paragraphs.
    least = start + (end - start) // 10
    for border in ("\n\n", "\n", " "):
        found = text.rfind(border, least, end)
        if found >= 0:
            return found + len(border)
    return end
