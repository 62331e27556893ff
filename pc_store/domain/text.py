"""How text is normalised and what it may hold."""

import hashlib
import re
import unicodedata

from pc_store import limits
from pc_store.errors import InvalidInput

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(field: str, value: str) -> str:
    """Return `value` unchanged.

    Raises:
        InvalidInput: it holds a NUL or a lone surrogate, which no database keeps faithfully.
    """
    found = _UNSTORABLE.search(value)
    if found:
        what = "a NUL character" if found[0] == "\x00" else "a lone surrogate"
        raise InvalidInput(field, f"holds {what} at character {found.start()}, which is refused")
    return value


def normalise(value: str) -> str:
    """Unicode NFC, then Unicode white space stripped at both ends; nothing inside changes."""
    return unicodedata.normalize("NFC", value).strip()


def shortened(value: str, most: int) -> str:
    """A text of at most `most` characters; one that was cut ends in an ellipsis."""
    return value if len(value) <= most else value[: most - 1] + "…"


def entry_text(value: str) -> str:
    """Normalise an entry's text.

    Raises:
        InvalidInput: blank, unstorable, or over 8,192 UTF-8 bytes after normalisation.
    """
    text = normalise(storable("text", value))
    if not text:
        raise InvalidInput("text", "is blank", code="string-empty")
    size = len(text.encode())
    if size > limits.ENTRY_TEXT_MAX_BYTES:
        raise InvalidInput(
            "text",
            f"is {size} UTF-8 bytes, the most is {limits.ENTRY_TEXT_MAX_BYTES}",
            code="text-too-long",
            limit=limits.ENTRY_TEXT_MAX_BYTES,
            observed=size,
        )
    return text


def entry_kind(value: str) -> str:
    """Normalise an entry's kind.

    Raises:
        InvalidInput: blank, unstorable, or over 128 characters.
    """
    kind = normalise(storable("kind", value))
    if not kind:
        raise InvalidInput("kind", "is blank", code="string-empty")
    return within("kind", kind, limits.ENTRY_KIND_MAX_CHARS)


def reason(value: str | None) -> str | None:
    """Normalise a reason; a blank one is none.

    Raises:
        InvalidInput: unstorable, or over 512 code points.
    """
    if value is None:
        return None
    text = normalise(storable("reason", value))
    if len(text) > limits.REASON_MAX_CHARS:
        raise InvalidInput(
            "reason",
            f"has {len(text)} characters, the most is {limits.REASON_MAX_CHARS}",
            code="reason-too-long",
        )
    return text or None


def within(field: str, value: str, most: int) -> str:
    """Return `value` unchanged.

    Raises:
        InvalidInput: it has more than `most` characters.
    """
    if len(value) > most:
        raise InvalidInput(field, f"has {len(value)} characters, the most is {most}")
    return value


def identifier(field: str, value: str, most: int) -> str:
    """Return an id unchanged: it is compared byte by byte and never normalised.

    Raises:
        InvalidInput: blank, unstorable, over `most` characters, or with white space around it.
    """
    storable(field, value)
    if not value.strip():
        raise InvalidInput(field, "is blank")
    if value != value.strip():
        raise InvalidInput(field, "has white space around it")
    return within(field, value, most)


def digest(value: str) -> str:
    """SHA-256 of the UTF-8 bytes, lower-case hex."""
    return hashlib.sha256(value.encode()).hexdigest()
