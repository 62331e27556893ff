"""Turn the place where a list goes on into a page cursor, and back."""

import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from pc_store import limits
from pc_store.domain import page_cursor
from pc_store.errors import InvalidInput
from pc_store.ledger import facts
from pc_store.ledger.database import Database

_FACT = "cursor_secret"


@dataclass(frozen=True)
class PageCursors:
    """Seals and opens the page cursors of one store. Make one per process with `page_cursors`."""

    secret: bytes = field(repr=False)

    def seal(self, place: Any, *, bound_to: Any) -> str | None:
        """The cursor of the page that starts after `place`; None for None, the last page.

        `place` is the `next_after` of a service's page; `bound_to` is any JSON value that
        names endpoint, parameters and caller: `["sources", scope_id, limit, principal]`.
        """
        if place is None:
            return None
        return page_cursor.seal(self.secret, bound_to, place, now_s=int(time.time()))

    def unseal(self, cursor: str | None, *, bound_to: Any) -> Any:
        """The place to give as `after`; None for None, the first page.

        Raises:
            InvalidCursor, CursorExpired: as `domain.page_cursor.unseal`.
        """
        if cursor is None:
            return None
        return page_cursor.unseal(self.secret, bound_to, cursor, now_s=int(time.time()))


def page_cursors(db: Database, *, secret: str | None = None) -> PageCursors:
    """The store's page cursors, alike in every replica.

    Args:
        secret: `settings.cursor_secret`, at least 32 bytes; None for the ledger's own, made at
            first need.

    Raises:
        InvalidInput: the secret is too short.
    """
    if secret is not None:
        if len(secret.encode()) < limits.CURSOR_SECRET_MIN_BYTES:
            raise InvalidInput(
                "PC_CURSOR_SECRET",
                f"is too short, at least {limits.CURSOR_SECRET_MIN_BYTES} bytes are expected",
            )
        return PageCursors(secret.encode())
    with db.read() as conn:
        known = facts.get(conn, _FACT)
    if known is None:
        with db.write() as conn:
            known = facts.put_once(conn, _FACT, secrets.token_hex(32))
    return PageCursors(bytes.fromhex(known))
