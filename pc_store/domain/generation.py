"""A generation: what replayed windows would make of a memory, kept beside it under a name.

Each window of a generation was shown the memory as it was, not what the generation's other
windows propose. So two of them may revise the same entry; here is what becomes of that.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pc_store import limits
from pc_store.domain.entry import Draft, EntryVersion
from pc_store.errors import InvalidInput

Status = Literal["open", "promoted", "discarded"]
Why = Literal[
    "changed since it was shown",
    "retired since it was shown",
    "revised by a later window",
    "equal to a retired entry",
    "revised since",
]

_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{limits.GENERATION_NAME_MAX_CHARS - 1}}}")


@dataclass(frozen=True)
class KeptDraft:
    """An accepted proposal of a replayed window.

    Attributes:
        against: for a revision, the version of the entry that was shown.
    """

    draft: Draft
    against: str | None = None


@dataclass(frozen=True)
class LeftOut:
    """A kept draft that cannot be applied to the memory as it is now, and why."""

    draft: Draft
    why: Why


def checked_name(name: str) -> str:
    """Return the name of a generation.

    Raises:
        InvalidInput: not 1 to 64 ASCII letters, digits, dots, hyphens and underscores, the
            first a letter or a digit.
    """
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            "generation",
            f"must have 1 to {limits.GENERATION_NAME_MAX_CHARS} letters, digits, dots, hyphens "
            "and underscores, and start with a letter or a digit",
        )
    return name


def applicable(
    kept: Sequence[KeptDraft], targets: Mapping[str, EntryVersion]
) -> tuple[list[Draft], list[LeftOut]]:
    """Tell the drafts that can still be applied from those that cannot.

    Args:
        kept: in log order.
        targets: the entries that are revised, as they are now.

    Returns:
        The drafts in log order, with at most one revision an entry: of those that change its
        text or kind the last, since it was drawn from the newest evidence, and where none does,
        one that cites the evidence of all. And what is left out: revisions of an entry that was
        changed or retired since it was shown, and all but the last of those that change one.
    """
    left_out: list[LeftOut] = []
    chosen: dict[str, tuple[int, Draft]] = {}
    applied: dict[int, Draft] = {}
    for place, item in enumerate(kept):
        draft = item.draft
        if draft.entry_id is None:
            applied[place] = draft
            continue
        now = targets[draft.entry_id]
        if now.state != "active" or now.purged:
            left_out.append(LeftOut(draft, "retired since it was shown"))
            continue
        if now.entry_version_id != item.against:
            left_out.append(LeftOut(draft, "changed since it was shown"))
            continue
        if draft.entry_id in chosen:
            before, earlier = chosen[draft.entry_id]
            if not _changes(draft, now):
                if not _changes(earlier, now):
                    both = tuple(dict.fromkeys((*earlier.sources, *draft.sources)))
                    earlier = replace(earlier, sources=both)
                    chosen[draft.entry_id] = before, earlier
                    applied[before] = earlier
                continue
            del applied[before]
            if _changes(earlier, now):
                left_out.append(LeftOut(earlier, "revised by a later window"))
        chosen[draft.entry_id] = place, draft
        applied[place] = draft
    return [applied[place] for place in sorted(applied)], left_out


def _changes(draft: Draft, now: EntryVersion) -> bool:
    """Whether a revision changes more than the evidence."""
    return (draft.kind, draft.text) != (now.kind, now.text)
