"""Explicit writes to a memory: remember, one or many, revise, retire, reactivate."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from pc_store import limits
from pc_store.domain import text as rules
from pc_store.domain.capacity import DEFAULT_BUDGET, Budget
from pc_store.domain.entry import Change, Draft, EntryVersion, Op
from pc_store.domain.refs import MEMORY_FAMILY, MEMORY_ID, ArtifactRef, Citation
from pc_store.domain.secret import find_secret
from pc_store.errors import (
    ArtifactNotFound,
    EntryInactive,
    InvalidInput,
    RevisionConflict,
    SecretDetected,
)
from pc_store.ledger import entries, scopes
from pc_store.ledger.database import Database
from pc_store.ledger.entries import ChangeRow
from pc_store.services.commit import Committed, commit_changes, commit_drafts, lock_memory
from pc_store.services.read_memory import Cited as Cited
from pc_store.services.read_memory import citation_of, matching, refuse_absent
from pc_store.services.read_memory import cite as cite
from pc_store.services.read_memory import read_entry as read_entry


@dataclass(frozen=True)
class Written:
    """A write's result: the memory afterwards, and the entry unless nothing was new."""

    memory: ArtifactRef | None
    entry: Cited | None


@dataclass(frozen=True)
class NewEntry:
    """One entry of a batch, as the caller gave it."""

    kind: str
    text: str
    reason: str | None = None


@dataclass(frozen=True)
class BatchWritten:
    """A batch's result: the memory afterwards, and per item its entry unless it was known."""

    memory: ArtifactRef | None
    entries: tuple[Cited | None, ...]


def remember(
    db: Database,
    scope_id: str,
    *,
    kind: str,
    text: str,
    reason: str | None = None,
    expected_revision: int | None = None,
    refuse_secrets: bool = True,
    budget: Budget = DEFAULT_BUDGET,
    now_us: int,
) -> Written:
    """Add an entry. A text and kind already active adds nothing, and the entry is None.

    Args:
        budget: `settings.memory_budget`.

    Raises:
        InvalidInput: a value breaks a rule.
        SecretDetected: text or reason contain a credential.
        ScopeNotFound: no such scope.
        ArtifactNotFound: a revision is expected of a memory that has none.
        RevisionConflict: the memory is not at the expected revision.
        CapacityExceeded: the memory would outgrow its budget.
    """
    done = remember_batch(
        db,
        scope_id,
        [NewEntry(kind, text, reason)],
        expected_revision=expected_revision,
        refuse_secrets=refuse_secrets,
        budget=budget,
        now_us=now_us,
        name="",
    )
    return Written(done.memory, done.entries[0])


def remember_batch(
    db: Database,
    scope_id: str,
    items: Sequence[NewEntry],
    *,
    expected_revision: int | None = None,
    refuse_secrets: bool = True,
    budget: Budget = DEFAULT_BUDGET,
    now_us: int,
    name: str = "entries[{}].",
) -> BatchWritten:
    """Add entries, all of them or none, in one revision.

    An item whose text and kind are active already, or those of an earlier item, adds nothing;
    when none adds anything there is no revision.

    Args:
        items: 1 to 100.
        name: how errors call an item's fields, given its index.

    Raises:
        as `remember`; the field of an InvalidInput names the item: `entries[3].text`.
    """
    if not 1 <= len(items) <= limits.REMEMBER_BATCH_MAX:
        raise InvalidInput(
            "entries", f"has {len(items)} items, expected 1 to {limits.REMEMBER_BATCH_MAX}"
        )
    drafts = [_draft(item, name.format(place), refuse_secrets) for place, item in enumerate(items)]
    with db.write() as conn:
        head = lock_memory(conn, scope_id)
        if expected_revision is not None and expected_revision != head:
            if head == 0:
                raise ArtifactNotFound(
                    f"the scope {scope_id!r} has no memory yet", scope_id=scope_id
                )
            raise _moved(head, expected_revision)
        done = commit_drafts(
            conn, scope_id, drafts, origin="explicit", now_us=now_us, budget=budget
        )
        dropped = {id(one.draft) for one in done.dropped}
        added = iter(done.changed)
        ids = [None if id(draft) in dropped else next(added).entry_id for draft in drafts]
        rows = entries.current(conn, scope_id, [one for one in ids if one is not None])
    return BatchWritten(
        done.memory,
        tuple(
            None
            if one is None
            else Cited(citation_of(done.revision, rows[one].version), rows[one].version)
            for one in ids
        ),
    )


def revise(
    db: Database,
    scope_id: str,
    citation: Citation,
    *,
    kind: str,
    text: str,
    reason: str | None = None,
    refuse_secrets: bool = True,
    budget: Budget = DEFAULT_BUDGET,
    now_us: int,
) -> Written:
    """Give the cited entry a new text or kind; an equal one changes nothing.

    Raises:
        ScopeNotFound: no such scope.
        ArtifactNotFound, EntryNotFound: the citation names nothing.
        RevisionConflict: the memory moved since the citation, by this entry or another. Its
            details: `current` (the head), and if the entry exists `state`, `entry_changed` and
            a fresh `citation`.
        EntryInactive: the entry is retired.
        EntryPurged: its text was erased.
        InvalidInput: a value breaks a rule.
        SecretDetected: text or reason contain a credential.
        CapacityExceeded: the memory would outgrow its budget.
    """
    with db.write() as conn:
        entry = _cited(conn, scope_id, citation)
        if entry.state != "active":
            raise EntryInactive(
                f"the entry {citation.entry_id} is retired", entry_id=citation.entry_id
            )
        draft = _draft(NewEntry(kind, text, reason), "", refuse_secrets, of=citation.entry_id)
        done = commit_drafts(
            conn, scope_id, [draft], origin="explicit", now_us=now_us, budget=budget
        )
        return _written(conn, scope_id, done, citation.entry_id)


def retire(
    db: Database,
    scope_id: str,
    citation: Citation,
    *,
    reason: str | None = None,
    refuse_secrets: bool = True,
    now_us: int,
) -> Written:
    """Take the cited entry out of recall and keep its history; again changes nothing.

    Raises:
        as `revise`, but for EntryInactive and CapacityExceeded.
    """
    told = _told(reason, refuse_secrets)
    return _set_state(db, scope_id, citation, "deactivate", told, DEFAULT_BUDGET, now_us)


def reactivate(
    db: Database,
    scope_id: str,
    citation: Citation,
    *,
    reason: str | None = None,
    refuse_secrets: bool = True,
    budget: Budget = DEFAULT_BUDGET,
    now_us: int,
) -> Written:
    """Bring a retired entry back as it was; an active one stays as it is.

    Raises:
        as `revise`, but for EntryInactive.
    """
    told = _told(reason, refuse_secrets)
    return _set_state(db, scope_id, citation, "reactivate", told, budget, now_us)


def list_entries(
    db: Database, scope_id: str, *, include_inactive: bool = False, after: str = "", limit: int
) -> tuple[ArtifactRef | None, list[Cited]]:
    """The memory's head and entries by creation after an entry id. Raises ScopeNotFound."""
    with db.read() as conn:
        scopes.get(conn, scope_id)
        head = entries.head(conn, scope_id)
        rows = entries.page(
            conn, scope_id, include_inactive=include_inactive, after=after, limit=limit
        )
    memory = ArtifactRef(MEMORY_FAMILY, MEMORY_ID, head) if head else None
    return memory, [Cited(citation_of(head, row.version), row.version) for row in rows]


def list_changes(
    db: Database, scope_id: str, *, since_revision: int | None = None
) -> tuple[int, list[ChangeRow]]:
    """The head, and the changes since a revision (None: the head's own), as the ledger has them.

    Raises:
        ScopeNotFound: no such scope.
        InvalidInput: `since_revision` is negative or past the head.
    """
    with db.read() as conn:
        scopes.get(conn, scope_id)
        head = entries.head(conn, scope_id)
        after = max(head - 1, 0) if since_revision is None else since_revision
        if not 0 <= after <= head:
            raise InvalidInput("since_revision", f"is {after}, the memory is at {head}")
        return head, entries.changes(conn, scope_id, after=after, through=head)


def entry_history(db: Database, scope_id: str, entry_id: str) -> list[EntryVersion]:
    """Every version of an entry, oldest first. Raises ScopeNotFound, EntryNotFound."""
    with db.read() as conn:
        scopes.get(conn, scope_id)
        return [row.version for row in entries.history(conn, scope_id, entry_id)]


def _set_state(
    db: Database,
    scope_id: str,
    citation: Citation,
    op: Op,
    reason: str | None,
    budget: Budget,
    now_us: int,
) -> Written:
    wanted = "inactive" if op == "deactivate" else "active"
    with db.write() as conn:
        entry = _cited(conn, scope_id, citation)
        done = Committed(citation.memory.revision)
        if entry.state != wanted:
            done = commit_changes(
                conn,
                scope_id,
                [Change(op, entry, entry.kind, entry.text, entry.source_refs, reason)],
                head=citation.memory.revision,
                origin="explicit",
                now_us=now_us,
                budget=budget,
            )
        return _written(conn, scope_id, done, citation.entry_id)


def _cited(conn: sa.Connection, scope_id: str, citation: Citation) -> EntryVersion:
    """The head's entry that a citation names; it must cite the head itself."""
    head = lock_memory(conn, scope_id)
    refuse_absent(citation.memory, head, any_revision=True)
    if citation.memory.revision != head:
        raise _moved(head, citation.memory.revision, **_now(conn, scope_id, head, citation))
    rows = entries.current(conn, scope_id, [citation.entry_id])
    return matching(conn, scope_id, rows.values(), citation)


def _now(conn: sa.Connection, scope_id: str, head: int, citation: Citation) -> dict[str, Any]:
    """What a caller with a stale citation needs to decide without another call."""
    row = entries.current(conn, scope_id, [citation.entry_id]).get(citation.entry_id)
    if row is None:
        return {}
    fresh = citation_of(head, row.version)
    return {
        "state": row.version.state,
        "entry_changed": row.version.entry_version_id != citation.entry_version_id,
        "citation": {
            "memory_ref": vars(fresh.memory),
            "entry_id": fresh.entry_id,
            "entry_version_id": fresh.entry_version_id,
        },
    }


def _moved(head: int, expected: int, **more: Any) -> RevisionConflict:
    return RevisionConflict(
        f"the memory is at revision {head}, {expected} was cited", current=head, **more
    )


def _written(conn: sa.Connection, scope_id: str, done: Committed, entry_id: str) -> Written:
    entry = entries.current(conn, scope_id, [entry_id])[entry_id].version
    return Written(done.memory, Cited(citation_of(done.revision, entry), entry))


def _draft(item: NewEntry, name: str, refuse_secrets: bool, *, of: str | None = None) -> Draft:
    """The item checked and normalised; `name` precedes the fields that errors name."""
    try:
        draft = Draft(
            "revise" if of else "add",
            rules.entry_kind(item.kind),
            rules.entry_text(item.text),
            entry_id=of,
            reason=rules.reason(item.reason),
        )
        if refuse_secrets:
            _refuse_secret("text", draft.text)
            _refuse_secret("reason", draft.reason or "")
            _refuse_secret("kind", draft.kind)
    except InvalidInput as error:
        if not name:
            raise
        more = {key: value for key, value in error.details.items() if key not in _NAMED}
        raise type(error)(f"{name}{error.field}", error.reason, **more) from None
    return draft


_NAMED = ("field", "reason")


def _told(reason: str | None, refuse_secrets: bool) -> str | None:
    told = rules.reason(reason)
    if refuse_secrets:
        _refuse_secret("reason", told or "")
    return told


def _refuse_secret(field: str, body: str) -> None:
    if kind := find_secret(body):
        raise SecretDetected(field, f"contains a credential: {kind}", code="secret_detected")
