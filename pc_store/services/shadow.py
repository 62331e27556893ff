"""Keep what a replayed window proposes in a generation, beside the memory it would change."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from pc_store import limits
from pc_store.domain.entry import Draft
from pc_store.domain.generation import KeptDraft, checked_name
from pc_store.domain.text import digest
from pc_store.domain.window import Consumer, WindowKey
from pc_store.errors import CursorConflict, GenerationEnded, InvalidInput, WindowRefused
from pc_store.ledger import entries, generations
from pc_store.ledger.generations import GenerationRow
from pc_store.ledger.windows import WindowRow
from pc_store.services.consume import KeptAnswer
from pc_store.services.instruct import Prompt


def claim(
    conn: sa.Connection,
    scope_id: str,
    consumer: Consumer,
    key: WindowKey,
    name: str | None,
    *,
    now_us: int,
) -> str | None:
    """Make sure that a window may be replayed into a generation, which is made if there is none.

    Returns:
        The window in which the generation has replayed these positions already, if it has.

    Raises:
        InvalidInput: no name, or one that is none.
        GenerationEnded: it was promoted or discarded.
        WindowRefused: the consumer makes no memory, or the generation is full.
    """
    if name is None:
        raise InvalidInput("generation", "a shadow replay names where its results are kept")
    checked_name(name)
    if consumer != "memory":
        raise WindowRefused(f"{key}: only windows of memory can be replayed into a generation")
    refuse_ended(generations.ensure(conn, scope_id, name, now_us=now_us))
    known = generations.window_id(conn, scope_id, name, after=key.after, through=key.last)
    windows, _ = generations.counts(conn, scope_id, [name])[name]
    if known is None and windows >= limits.GENERATION_WINDOWS_MAX:
        raise WindowRefused(f"generation {name!r} has {windows} windows, which is the most")
    return known


def pin(
    conn: sa.Connection, window: WindowRow, prompt: Prompt, *, provider: str, model: str
) -> None:
    """Give a shadow's generation the prompt and the model of its first window; others keep to it.

    Raises:
        GenerationEnded: it was promoted or discarded.
        WindowRefused: the window is asked with another prompt or model than those before it.
    """
    if window.generation is None:
        return
    row = generations.get(conn, window.scope_id, window.generation, lock=True)
    refuse_ended(row)
    asked = {
        "provider": provider,
        "model": model,
        "prompt_key": prompt.key,
        "prompt_revision": prompt.label,
    }
    before = {name: getattr(row, name) for name in asked}
    if row.provider is None:
        own = prompt.ref.revision if prompt.ref else None
        generations.update(conn, row.scope_id, row.name, **asked, scope_prompt=own)
    elif before != asked:
        raise WindowRefused(
            f"generation {row.name!r} is of {_told(before)}; now it would be {_told(asked)}: "
            "replay into another generation"
        )


def keep(
    conn: sa.Connection, window: WindowRow, kept: KeptAnswer[Any], drafts: Sequence[Draft]
) -> int:
    """Keep a shadow's accepted drafts in its generation; the caller holds the memory's lock.

    What was purged while the model was asked is not kept again: drafts of an erased text, and
    revisions of an erased entry.

    Returns:
        How many drafts were kept.

    Raises:
        GenerationEnded: it was promoted or discarded meanwhile.
        CursorConflict: another run has replayed the same positions into it meanwhile.
    """
    assert window.generation is not None
    name = window.generation
    refuse_ended(generations.get(conn, window.scope_id, name, lock=True))
    if generations.window_id(
        conn, window.scope_id, name, after=window.after, through=window.through
    ):
        raise CursorConflict(
            f"another run has replayed ({window.after}, {window.through}] into generation {name!r}"
        )
    targets = entries.current(conn, window.scope_id, [d.entry_id for d in drafts if d.entry_id])
    alike = entries.alike(conn, window.scope_id, [digest(draft.text) for draft in drafts])
    erased = {
        text_digest
        for text_digest, some in alike.items()
        if all(one.state == "inactive" for one in some) and any(one.purged for one in some)
    }
    staying = [
        KeptDraft(draft, against=kept.shown.get(draft.entry_id) if draft.entry_id else None)
        for draft in drafts
        if digest(draft.text) not in erased
        and not (draft.entry_id and targets[draft.entry_id].version.purged)
    ]
    generations.add_window(conn, window, list(kept.evidence.values()))
    generations.put_drafts(conn, window, staying)
    return len(staying)


def refuse_ended(row: GenerationRow) -> None:
    """Raise GenerationEnded unless a generation is open."""
    if row.status != "open":
        raise GenerationEnded(
            f"generation {row.name!r} was {row.status} already",
            generation=row.name,
            status=row.status,
        )


def _told(identity: dict[str, str]) -> str:
    return (
        f"{identity['provider']} {identity['model']} and {identity['prompt_key']}, "
        f"{identity['prompt_revision']}"
    )
