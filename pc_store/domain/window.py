"""A window: the positions (after, through] of one scope's log, read for one consumer."""

import re
from dataclasses import dataclass
from typing import Literal

from pc_store import limits
from pc_store.errors import WindowRefused

Consumer = Literal["memory", "experience", "recurrence"]
CONSUMERS: tuple[Consumer, ...] = ("memory", "experience", "recurrence")
Kind = Literal["live", "replay", "shadow"]
"""A shadow is a replay into a generation: nothing of the memory changes."""
Status = Literal[
    "planned",  # cut, and waiting for a run
    "running",  # a run has it
    "failed",  # the last attempt failed; the next is due at next_attempt_at
    "processed",  # results and cursor are committed
    "split",  # could not be answered whole; cut again smaller
    "quarantined",  # one source that could not be answered; set aside, the cursor passed
    "superseded",  # another commit moved the cursor past its start; it wrote nothing
    "passed",  # windows that held nothing for their consumer; the cursor passed without a run
]
OPEN: tuple[Status, ...] = ("planned", "running", "failed")
"""A scope has at most one live window in these states per consumer."""

_KEY = re.compile(r"(?P<scope>[^@]+)@(?P<first>[0-9]{8})-(?P<last>[0-9]{8})")


@dataclass(frozen=True)
class WindowKey:
    """A window's name in partition lists: `orders@00000101-00000200`, both ends included."""

    scope_key: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.scope_key}@{self.first:08d}-{self.last:08d}"

    @property
    def after(self) -> int:
        """The cursor this window starts from."""
        return self.first - 1


def parse_key(key: str) -> WindowKey:
    """Read a window's name.

    Raises:
        WindowRefused: it is not one; anybody can type a partition key into the UI.
    """
    found = _KEY.fullmatch(key)
    if not found:
        raise WindowRefused(
            f"{key!r} is no window: SCOPE@FIRST-LAST with eight-digit positions is expected"
        )
    first, last = int(found["first"]), int(found["last"])
    if not 1 <= first <= last:
        raise WindowRefused(f"{key!r} is no window: positions count from 1 and do not run back")
    return WindowKey(found["scope"], first, last)


def end_of_window(cursor: int, high_watermark: int, limit: int) -> int:
    """Where the next window ends: min(high watermark, cursor + limit), both inclusive.

    `limit` counts positions, not eligible sources. With nothing after the cursor the answer
    is the cursor.
    """
    return min(high_watermark, cursor + limit, limits.POSITION_MAX)


def end_of_passed(cursor: int, first: int, limit: int) -> int:
    """Where the last whole window ends that lies before a position, in windows of `limit`.

    The cursor itself when the position is in the next window.
    """
    return cursor + (first - 1 - cursor) // limit * limit


def fitting_end(cursor: int, sizes: list[int], budget: int) -> int:
    """Where a window ends that also fits a token budget.

    Args:
        cursor: the position before the first source.
        sizes: estimated tokens of each following source, in order; not empty.
        budget: tokens one model call may spend on sources.

    Returns:
        The last position whose running total is within the budget; at least one source is
        taken, since a single one that is too large is sent in chunks.
    """
    total = 0
    for count, size in enumerate(sizes):
        total += size
        if total > budget and count:
            return cursor + count
    return cursor + len(sizes)


def retry_delay_s(attempt: int, *, base_s: float, cap_s: float, jitter: float) -> float:
    """Seconds until the next attempt: base · 2^(attempt - 1), capped, times 0.8 to 1.2.

    Args:
        attempt: failures so far, from 1.
        jitter: 0 to 1, spreads scopes that failed together.
    """
    return float(min(cap_s, base_s * 2.0 ** min(attempt - 1, 30)) * (0.8 + 0.4 * jitter))
