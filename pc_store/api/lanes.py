"""What all requests of a server share, and the lanes in which they call services.

A service blocks, so it runs in a thread of one of three lanes. A lane that is full makes its own
requests wait and no others: a flush that waits for its model delays neither a write nor a read.
All lanes together stay below the connections that the ledger's pool gives out (15).
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from anyio import CapacityLimiter, to_thread

from pc_store.api.access import EVERYBODY, Access, Principal
from pc_store.domain.proposal import Proposer
from pc_store.ledger.database import Database
from pc_store.services.paging import PageCursors
from pc_store.services.recalls import RecallLog
from pc_store.settings import Settings

Lane = Literal["reads", "writes", "extractions"]
THREADS: dict[Lane, int] = {"reads": 6, "writes": 4, "extractions": 4}

T = TypeVar("T")


@dataclass
class Edge:
    """What all requests of a server share."""

    settings: Settings
    db: Database
    access: Access | None
    cursors: PageCursors
    recalls: RecallLog
    _lanes: dict[Lane, CapacityLimiter] = field(
        default_factory=lambda: {lane: CapacityLimiter(count) for lane, count in THREADS.items()}
    )
    _proposer: Proposer | None = None
    _making: threading.Lock = field(default_factory=threading.Lock)

    def close(self) -> None:
        """Write what the log of recalls still holds, and close the ledger."""
        self.recalls.close()
        self.db.close()

    async def run(self, lane: Lane, work: Callable[[], T]) -> T:
        """Run blocking work in a thread of a lane.

        A server that stops does not wait for an extraction: nothing of its window is written
        before the end, and the window's lease runs out.
        """
        return await to_thread.run_sync(
            work, limiter=self._lanes[lane], abandon_on_cancel=lane == "extractions"
        )

    def proposer(self) -> Proposer:
        """The proposer in force, made at first need: its libraries are slow to load.

        Raises:
            ModelMisconfigured: the endpoint's settings are incomplete.
        """
        with self._making:
            if self._proposer is None:
                from pc_store.services.provide import proposer

                self._proposer = proposer(self.db, self.settings)
            return self._proposer


@dataclass(frozen=True)
class Call:
    """One request, as routes see it.

    Attributes:
        db: the ledger; in a write with an idempotency key, the transaction that also keeps it.
        target: method and path, as they were sent.
        sent: the JSON body.
    """

    edge: Edge
    db: Database
    principal: Principal = EVERYBODY
    target: str = ""
    sent: object = None
    idempotency_key: str | None = None

    @property
    def settings(self) -> Settings:
        """The settings of the server."""
        return self.edge.settings
