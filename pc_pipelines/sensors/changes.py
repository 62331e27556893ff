"""What observers remember between ticks: how far they have looked, and what they saw beyond."""

import json
from collections.abc import Callable
from typing import TypeVar

from pc_pipelines.resources import StoreResource
from pc_store.services.clock import now_us

_SPARE_S = 5

Changed = TypeVar("Changed")


def unseen_changes(
    cursor: str | None,
    store: StoreResource,
    look: Callable[[int, int], list[tuple[str, str | int, int, Changed]]],
    *,
    most: int,
) -> tuple[list[Changed], str]:
    """The changes that were not seen before, oldest first, and the sensor's next cursor.

    A change is stamped before it waits for the ledger's lock, so one may appear behind another
    that was seen already. The cursor therefore stays a lock's wait behind, and names what it
    has seen since.

    Args:
        look: gives, for (moment, limit), what changed at or after the moment, oldest first: a
            scope's id, a mark that differs after every change, when it changed, and the change.
        most: changes to return.
    """
    since, seen = json.loads(cursor) if cursor else (0, {})
    changed = look(since, most + len(seen))
    new = [row for row in changed if seen.get(row[0]) != row[1]]
    left = {scope for scope, *_ in new[most:]}
    settled = now_us() - int((store.settings.database_wait_s + _SPARE_S) * 1_000_000)
    done = [row for row in changed if row[0] not in left]
    left_since = min((at for scope, _, at, _ in changed if scope in left), default=settled)
    since = max([since, *(at for _, _, at, _ in done if at <= min(settled, left_since))])
    seen = {scope: mark for scope, mark, at, _ in done if at >= since}
    return [change for *_, change in new[:most]], json.dumps([since, seen])
