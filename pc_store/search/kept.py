"""What a process keeps of index files in memory: the latest used, up to a number of bytes."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar, cast

T = TypeVar("T")


class Kept:
    """Values by key, the longest unused ones forgotten first. Safe to share between threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._values: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._lock = threading.Lock()

    def allow(self, max_bytes: int) -> None:
        """Keep at most this much from now on."""
        with self._lock:
            self._max_bytes = max_bytes
            self._shrink()

    @property
    def max_bytes(self) -> int:
        """The most that is kept."""
        return self._max_bytes

    @property
    def bytes(self) -> int:
        """What is kept now."""
        return self._bytes

    def get(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """The value of a key, made unless it is kept. Two threads may make it at the same time.

        A value larger than all that may be kept is returned and not kept.
        """
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
                return cast(T, found[0])
        value = make()
        taken = size(value)
        with self._lock:
            if key not in self._values and taken <= self._max_bytes:
                self._values[key] = (value, taken)
                self._bytes += taken
                self._shrink()
        return value

    def find(self, keys: Iterable[Hashable]) -> dict[Any, Any]:
        """The values that are kept under some keys."""
        found: dict[Hashable, object] = {}
        with self._lock:
            for key in keys:
                if key in self._values:
                    self._values.move_to_end(key)
                    found[key] = self._values[key][0]
        return found

    def put(self, key: Hashable, value: object, size: int) -> None:
        """Keep a value, if there is none under the key and it is not too large."""
        self.get(key, lambda: value, lambda _: size)

    def forget(self, unwanted: Callable[[Hashable], bool]) -> None:
        """Forget the values of the keys that a condition picks."""
        with self._lock:
            for key in [key for key in self._values if unwanted(key)]:
                self._bytes -= self._values.pop(key)[1]

    def clear(self) -> None:
        """Forget everything."""
        self.forget(lambda _: True)

    def begin_anew(self) -> None:
        """Forget everything in a forked child, where another thread may have held the lock."""
        self._lock = threading.Lock()
        self.clear()

    def _shrink(self) -> None:
        while self._bytes > self._max_bytes:
            _, (_, size) = self._values.popitem(last=False)
            self._bytes -= size
