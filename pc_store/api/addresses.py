"""How a value is written into the address of a request."""

from urllib.parse import quote


def segment(value: object) -> str:
    """A value as one segment of an address; `.` and `..` are no segments until they are encoded."""
    text = str(value)
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe="")
