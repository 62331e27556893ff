"""The sets of windows: one for each consumer that asks a model, and how Dagster shows it.

What is made of a window is decided by its family, in `pc_store.services`; here is only what
differs in assets, jobs, sensors and reports, which are the same code for all sets.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg

from pc_pipelines import partitions
from pc_pipelines.assets import memory
from pc_pipelines.resources import StoreResource
from pc_store.domain.proposal import ProposerOf
from pc_store.domain.window import Consumer
from pc_store.services.administer import ScopeStatus
from pc_store.services.consume import Family
from pc_store.services.extract import MEMORY
from pc_store.services.incubate import EXPERIENCE


@dataclass(frozen=True)
class WindowSet:
    """The windows of one consumer.

    Attributes:
        family: what is made of a window.
        partitions: the keys of its windows.
        author: what is asked about a window.
        window_job: the name of the job that runs one window.
        drain_job: the name of the job that runs one window after another.
        counts: how a window's counts are called, by their names in the ledger, in order.
        unchanged: what stands after a replay that failed, as the end of a sentence.
        shadows: whether a window can be replayed into a generation.
        figures: what a window reports of its scope besides cursor and lag.
        standing: the event that says where a scope stands after a commit; None where a window
            only makes candidates, so that nothing stands otherwise before people decide.
    """

    family: Family[Any, Any]
    partitions: dg.DynamicPartitionsDefinition
    author: Callable[[StoreResource], ProposerOf[Any]]
    window_job: str
    drain_job: str
    counts: Mapping[str, str]
    unchanged: str
    shadows: bool = False
    figures: Callable[[ScopeStatus], Mapping[str, int]] = lambda _: {}
    standing: Callable[[ScopeStatus], dg.AssetMaterialization] | None = None

    @property
    def consumer(self) -> Consumer:
        """Whose cursor its windows move; also the group of its assets, and of its lanes."""
        return self.family.consumer

    @property
    def asset(self) -> str:
        """The name of its asset."""
        return f"{self.consumer}_windows"

    @property
    def asset_key(self) -> dg.AssetKey:
        """The key of its asset."""
        return dg.AssetKey(self.asset)

    @property
    def set_name(self) -> str:
        """The name under which the instance keeps its keys."""
        return partitions.set_name(self.partitions)

    def lane(self, scope_key: str) -> str:
        """The tag `pc/lane` of a run that may move the cursor of one scope."""
        return f"{self.consumer}/{scope_key}"


_SEEN = {"positions": "positions", "sources": "sources shown", "filtered": "sources filtered"}
_JUDGED = {
    "proposals": "proposals",
    "accepted": "proposals accepted",
    "rejected": "proposals rejected",
}

MEMORY_WINDOWS = WindowSet(
    family=MEMORY,
    partitions=partitions.memory_windows,
    author=lambda store: store.proposer,
    window_job="memory_extraction",
    drain_job="memory_drain",
    counts={
        **_SEEN,
        "shown": "entries shown",
        **_JUDGED,
        "added": "entries added",
        "revised": "entries revised",
        "unchanged": "entries known already",
    },
    unchanged="the memory is as it was",
    shadows=True,
    figures=lambda status: {"active entries after": status.active_entries},
    standing=memory.materialization,
)

EXPERIENCE_WINDOWS = WindowSet(
    family=EXPERIENCE,
    partitions=partitions.experience_windows,
    author=lambda store: store.experience_author,
    window_job="experience_incubation",
    drain_job="experience_drain",
    counts={
        **_SEEN,
        **_JUDGED,
        "created": "candidates made",
        "known": "candidates known already",
        "recurred": "failures recurred",
        "avoided": "failures avoided",
    },
    unchanged="the candidates are as they were",
)

ALL = (MEMORY_WINDOWS, EXPERIENCE_WINDOWS)
