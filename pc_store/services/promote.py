"""Compare a generation with the memory, and make it part of the memory or discard it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, cast

import sqlalchemy as sa

from pc_store.domain import text as rules
from pc_store.domain.entry import Change, ChangePlan, EntryVersion
from pc_store.domain.generation import KeptDraft, LeftOut, Why, applicable
from pc_store.domain.refs import PROMPT_FAMILY, ArtifactRef, SourceRef
from pc_store.errors import RevisionConflict
from pc_store.ledger import entries, generations, quarantines, scopes, windows
from pc_store.ledger.database import Database
from pc_store.ledger.generations import GenerationRow, Replayed
from pc_store.services.commit import commit_changes, lock_memory, plan_drafts
from pc_store.services.shadow import refuse_ended
from pc_store.settings import Settings

What = Literal["revised", "seen again", "added", "left out", "no longer proposed"]
WHATS: tuple[What, ...] = ("revised", "seen again", "added", "left out", "no longer proposed")
_TOLD: tuple[Why, ...] = ("equal to a retired entry", "revised since")
"""Why the memory takes no draft; the other reasons say that it has it already."""


@dataclass(frozen=True)
class Generation:
    """A generation, how many windows it has replayed, and how many of their drafts wait."""

    row: GenerationRow
    windows: int
    drafts: int


@dataclass(frozen=True)
class Difference:
    """One thing that a promotion would change or leave out, or that a generation lacks.

    Attributes:
        entry_id: the entry it is about; None for a new one.
        before: the entry as it is now.
        kind, text: what it would say; of an entry that is no longer proposed, what it says.
        sources: the evidence it would have, or has; of what is left out, the draft's.
        why: why it is left out.
        reason: the model's.
    """

    what: What
    kind: str
    text: str
    sources: tuple[SourceRef, ...]
    entry_id: str | None = None
    before: EntryVersion | None = None
    why: Why | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Diff:
    """What a generation would make of the memory at revision `head`, 0 for none.

    Attributes:
        items: in the order of `WHATS`.
        unchanged: drafts that say what the memory knows already, on evidence that it has.
    """

    generation: Generation
    head: int
    items: tuple[Difference, ...]
    unchanged: int

    @property
    def counts(self) -> dict[What, int]:
        """How many items there are of each sort."""
        return {what: sum(item.what == what for item in self.items) for what in WHATS}


def list_generations(
    db: Database, scope_id: str, *, after: str = "", limit: int
) -> list[Generation]:
    """A scope's generations by name, after the given one. Raises ScopeNotFound."""
    with db.read() as conn:
        scopes.get(conn, scope_id)
        rows = generations.page(conn, scope_id, after=after, limit=limit)
        found = generations.counts(conn, scope_id, [row.name for row in rows])
        return [Generation(row, *found[row.name]) for row in rows]


def read_generation(db: Database, scope_id: str, name: str) -> Generation:
    """One generation. Raises NotFound: no such scope, or it has no such generation."""
    with db.read() as conn:
        scopes.get(conn, scope_id)
        return _counted(conn, generations.get(conn, scope_id, name))


def diff(db: Database, scope_id: str, name: str) -> Diff:
    """What an open generation would make of the memory as it is now.

    Beside what a promotion would do, it names active entries that extraction made from sources
    which the generation's windows showed, every one, and which no window proposes any more.
    A promotion leaves them alone: retire what is wrong.

    Raises:
        NotFound: no such scope, or it has no such generation.
        GenerationEnded: it was promoted or discarded, and its texts are gone.
    """
    with db.read() as conn:
        scopes.get(conn, scope_id)
        row = generations.get(conn, scope_id, name)
        refuse_ended(row)
        outlook = _outlook(conn, row)
        return Diff(
            _counted(conn, row),
            entries.head(conn, scope_id),
            tuple(_differences(conn, row, outlook)),
            len(outlook.plan.dropped) - sum(item.why in _TOLD for item in outlook.left_out),
        )


def promote(
    db: Database,
    settings: Settings,
    scope_id: str,
    name: str,
    *,
    expected_revision: int | None = None,
    reason: str | None = None,
    now_us: int,
) -> Generation:
    """Make an open generation's drafts part of the memory, as one revision of origin `replay`.

    The memory is taken as it is now. Drafts that cannot be applied to it, as `diff` says, are
    left out and counted in the outcome. Without a change there is no revision. The drafts are
    erased, and sources in quarantine that the windows showed are released. Promoting it again
    changes nothing and answers the same.

    Args:
        expected_revision: refuse unless the memory is at this revision, that of a diff which
            was looked at; 0 for none.
        reason: kept with the revision, after the generation's name.

    Raises:
        NotFound: no such scope, or it has no such generation.
        GenerationEnded: it was discarded.
        RevisionConflict: the memory is not at the expected revision.
        CapacityExceeded: the memory would outgrow its budget.
        InvalidInput: the reason.
    """
    given = rules.reason(reason)
    told = f"generation {name}" + (f": {given}" if given else "")
    with db.write() as conn:
        head = lock_memory(conn, scope_id)
        row = generations.get(conn, scope_id, name)
        if row.status == "promoted":
            return _counted(conn, row)
        refuse_ended(row)
        if expected_revision is not None and expected_revision != head:
            raise RevisionConflict(
                f"the memory is at revision {head}, {expected_revision} was expected",
                expected=expected_revision,
                current=head,
            )
        outlook = _outlook(conn, row)
        if outlook.plan.changes:
            own = row.scope_prompt
            shown = [ref for window in outlook.windows for ref in window.sources]
            head = commit_changes(
                conn,
                scope_id,
                outlook.plan.changes,
                head=head,
                origin="replay",
                now_us=now_us,
                lineage_sources=list(dict.fromkeys(shown)),
                lineage_artifacts=(
                    [ArtifactRef(PROMPT_FAMILY, str(row.prompt_key), own)] if own else []
                ),
                budget=settings.memory_budget,
                reason=told,
            ).revision
        for window in outlook.windows:
            quarantines.release(
                conn,
                scope_id,
                "memory",
                after=window.after,
                through=window.through,
                now_us=now_us,
            )
        _end(
            conn,
            row,
            status="promoted",
            ended_at=now_us,
            memory_revision=head,
            outcome=_outcome(outlook),
        )
        done = _counted(conn, generations.get(conn, scope_id, name))
    db.overwrite_deleted()
    return done


def discard(db: Database, scope_id: str, name: str, *, now_us: int) -> Generation:
    """End an open generation and erase what it proposes; again changes nothing.

    Raises:
        NotFound: no such scope, or it has no such generation.
        GenerationEnded: it was promoted.
    """
    with db.write() as conn:
        lock_memory(conn, scope_id)
        row = generations.get(conn, scope_id, name)
        if row.status != "discarded":
            refuse_ended(row)
            _end(conn, row, status="discarded", ended_at=now_us)
        done = _counted(conn, generations.get(conn, scope_id, name))
    db.overwrite_deleted()
    return done


def _end(conn: sa.Connection, row: GenerationRow, *, ended_at: int, **values: object) -> None:
    """End a generation, with its open windows; the caller holds the memory's lock.

    Nothing but its end changes its status, and no window is kept in it, without that lock. Its
    own is taken after those of its windows, as by runs that begin to ask.
    """
    windows.supersede_shadows(conn, row.scope_id, row.name, now_us=ended_at)
    generations.get(conn, row.scope_id, row.name, lock=True)
    generations.erase_drafts(conn, row.scope_id, row.name)
    generations.update(conn, row.scope_id, row.name, ended_at=ended_at, **values)


@dataclass(frozen=True)
class _Outlook:
    """What a promotion would do now, and what it would leave out."""

    windows: list[Replayed]
    kept: list[KeptDraft]
    plan: ChangePlan
    left_out: list[LeftOut]


def _outlook(conn: sa.Connection, row: GenerationRow) -> _Outlook:
    kept = generations.drafts(conn, row.scope_id, row.name)
    revised = [item.draft.entry_id for item in kept if item.draft.entry_id is not None]
    targets = {
        entry_id: found.version
        for entry_id, found in entries.current(conn, row.scope_id, revised).items()
    }
    drafts, left_out = applicable(kept, targets)
    shown = {entry_id: target.entry_version_id for entry_id, target in targets.items()}
    plan = plan_drafts(conn, row.scope_id, drafts, origin="replay", shown=shown)
    left_out += [
        LeftOut(item.draft, cast("Why", item.why)) for item in plan.dropped if item.why in _TOLD
    ]
    return _Outlook(generations.replayed(conn, row.scope_id, row.name), kept, plan, left_out)


def _differences(
    conn: sa.Connection, row: GenerationRow, outlook: _Outlook
) -> Iterator[Difference]:
    made = [(_sort(change), change) for change in outlook.plan.changes]
    for wanted in ("revised", "seen again", "added"):
        for what, change in made:
            if what == wanted:
                entry_id = change.before.entry_id if change.before else None
                yield Difference(
                    what,
                    change.kind,
                    change.text,
                    change.sources,
                    entry_id=entry_id,
                    before=change.before,
                    reason=change.reason,
                )
    targets = entries.current(
        conn,
        row.scope_id,
        [item.draft.entry_id for item in outlook.left_out if item.draft.entry_id],
    )
    for item in outlook.left_out:
        draft = item.draft
        target = targets.get(draft.entry_id) if draft.entry_id else None
        yield Difference(
            "left out",
            draft.kind,
            draft.text,
            draft.sources,
            entry_id=draft.entry_id,
            before=target.version if target else None,
            why=item.why,
            reason=draft.reason,
        )
    for entry in _no_longer_proposed(conn, row.scope_id, outlook):
        yield Difference(
            "no longer proposed",
            entry.kind,
            entry.text,
            entry.source_refs,
            entry_id=entry.entry_id,
            before=entry,
        )


def _no_longer_proposed(
    conn: sa.Connection, scope_id: str, outlook: _Outlook
) -> Iterator[EntryVersion]:
    shown = {ref for window in outlook.windows for ref in window.sources}
    revised = {item.draft.entry_id for item in outlook.kept}
    said = {item.draft.same for item in outlook.kept}
    for found in entries.active(conn, scope_id):
        entry = found.version
        if (
            entry.origin != "explicit"
            and entry.source_refs
            and set(entry.source_refs) <= shown
            and entry.entry_id not in revised
            and (entry.kind, found.text_digest) not in said
        ):
            yield entry


def _sort(change: Change) -> What:
    if change.before is None:
        return "added"
    unchanged = (change.kind, change.text) == (change.before.kind, change.before.text)
    return "seen again" if unchanged else "revised"


def _outcome(outlook: _Outlook) -> dict[str, object]:
    sorts = [_sort(change) for change in outlook.plan.changes]
    return {
        "added": sorts.count("added"),
        "revised": sorts.count("revised"),
        "seen_again": sorts.count("seen again"),
        "left_out": [
            {"entry_id": item.draft.entry_id, "kind": item.draft.kind, "why": item.why}
            for item in outlook.left_out
        ],
    }


def _counted(conn: sa.Connection, row: GenerationRow) -> Generation:
    return Generation(row, *generations.counts(conn, row.scope_id, [row.name])[row.name])
