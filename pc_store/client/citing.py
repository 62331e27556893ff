"""Find the citation of an entry that is known by its id only."""

from dataclasses import dataclass

from pc_store.api.bodies.entry_bodies import HistoryChange
from pc_store.api.bodies.wire import Citation
from pc_store.client import Client
from pc_store.errors import EntryNotFound


@dataclass(frozen=True)
class Found:
    """An entry as one revision holds it: its citation, and the change that left it so."""

    citation: Citation
    change: HistoryChange


def cite(
    client: Client,
    scope_id: str,
    entry_id: str,
    *,
    revision: int | None = None,
    entry_version_id: str | None = None,
) -> Found:
    """The citation of an entry at a revision of the memory, the newest unless given.

    Raises:
        ScopeNotFound.
        EntryNotFound: no entry has the id, or it is younger than the revision.
    """
    changes = client.list_memory_entry_history(scope_id, entry_id).changes
    head = client.list_memory_changes(scope_id).memory
    wanted = revision or (head.revision if head else 1)
    held = [change for change in changes if change.memory_ref.revision <= wanted]
    if not held:
        raise EntryNotFound(f"revision {wanted} does not hold this entry", entry_id=entry_id)
    last = held[-1]
    memory = last.memory_ref.model_copy(update={"revision": wanted})
    return Found(
        Citation(
            memory_ref=memory,
            entry_id=entry_id,
            entry_version_id=entry_version_id or last.entry_version_id,
        ),
        last,
    )
