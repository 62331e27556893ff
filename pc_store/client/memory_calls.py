"""Calls about memory: remember, flush, search, entries, revisions."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pc_store.api.bodies.entry_bodies import (
    Comparison,
    EntryExtra,
    EntryList,
    History,
    MemoryEntry,
    NewEntry,
    Purged,
)
from pc_store.api.bodies.memory_bodies import (
    BatchMutation,
    Changes,
    Drained,
    Flushed,
    HitExtra,
    MemoryCapacity,
    Mutation,
    Processing,
    SearchAnswer,
    SearchMode,
)
from pc_store.api.bodies.wire import Citation
from pc_store.client.connection import Connection, segment

MODEL_S = 900.0
"""How long a call may take that waits for a model."""
