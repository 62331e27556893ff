"""Calls at the same moment, for tests of what then wins."""

import threading


class Together:
    """Calls that start at the same moment, each in a thread; what they returned or raised."""

    def __init__(self, *calls) -> None:
        self.results: list = [None] * len(calls)
        self._barrier = threading.Barrier(len(calls))
        self._threads = [
            threading.Thread(target=self._call, args=(place, call))
            for place, call in enumerate(calls)
        ]
        for thread in self._threads:
            thread.start()

    def _call(self, place, call) -> None:
        self._barrier.wait(20)
        try:
            self.results[place] = call()
        except Exception as error:  # noqa: BLE001 - what was raised is the result
            self.results[place] = error

    def join(self) -> list:
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()
        return self.results
