"""Page cursors: opaque, signed, bound to one list, good for an hour.

`base64url(payload) "." base64url(HMAC-SHA256)`. The payload says where the next page starts and
until when it may be asked for; the signature also covers what the cursor is bound to, which the
payload does not repeat.
"""

import base64
import binascii
import hashlib
import hmac
import json
from typing import Any

from pc_store.domain import strict_json
from pc_store.errors import CursorExpired, InvalidCursor

LIFETIME_S = 3_600
_CHARS_MAX = 4_096


def seal(secret: bytes, bound_to: Any, place: Any, *, now_s: int) -> str:
    """Make the cursor of a next page.

    Args:
        secret: at least 32 bytes.
        bound_to: JSON value; the list, its parameters and its caller.
        place: JSON value; where the next page starts.
    """
    payload = strict_json.dumps({"place": place, "until": now_s + LIFETIME_S}).encode()
    return f"{_encode(payload)}.{_encode(_signature(secret, bound_to, payload))}"


def unseal(secret: bytes, bound_to: Any, cursor: str, *, now_s: int) -> Any:
    """Return the place that `seal` was given.

    Raises:
        InvalidCursor: not made with this secret for this list, or altered.
        CursorExpired: it was, more than an hour ago.
    """
    head, dot, tail = cursor.partition(".")
    if not dot or len(cursor) > _CHARS_MAX:
        raise InvalidCursor
    payload, given = _decode(head), _decode(tail)
    if not hmac.compare_digest(given, _signature(secret, bound_to, payload)):
        raise InvalidCursor
    content = json.loads(payload)
    if now_s > content["until"]:
        raise CursorExpired
    return content["place"]


def _signature(secret: bytes, bound_to: Any, payload: bytes) -> bytes:
    bound = hashlib.sha256(strict_json.canonical(bound_to)).digest()
    return hmac.digest(secret, bound + payload, "sha256")


def _encode(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    """Read what `_encode` wrote, in its one spelling."""
    try:
        value = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise InvalidCursor from None
    if _encode(value) != text:
        raise InvalidCursor
    return value
