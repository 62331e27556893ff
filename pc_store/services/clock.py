"""The time, as the ledger counts it."""

import time


def now_us() -> int:
    """Microseconds since the epoch, UTC."""
    return time.time_ns() // 1_000
