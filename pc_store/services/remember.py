"""Explicit writes to a memory: remember, revise, retire, reactivate; and exact reads."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from pc_store.domain import text as rules
from pc_store.domain.entry import Change, Draft, EntryVersion, Op
from pc_store.domain.refs import MEMORY_FAMILY, MEMORY_ID, ArtifactRef, Citation
from pc_store.domain.secret import find_secret
from pc_store.errors import EntryInactive, InvalidInput, NotFound, RevisionConflict
from pc_store.ledger import entries, scopes
from pc_store.ledger.database import Database
from pc_store.ledger.entries import ChangeRow, EntryRow
from pc_store.services.commit import Committed, commit_changes, commit_drafts, lock_memory


@dataclass(frozen=True)
class Cited:
    """An entry and the citation by which it can be read again for ever."""

    citation: Citation
    entry: EntryVersion


@dataclass(frozen=True)
class Written:
    """A write's result: the memory afterwards, and the entry unless nothing was new."""

    memory: ArtifactRef | None
    entry: Cited | None


def remember(
    db: Database,
    scope_id: str,
    *,
    kind: str,
    text: str,
    reason: str | None = None,
    expected_revision: int | None = None,
    refuse_secrets: bool = True,
    now_us: int,
) -> Written:
    """Add an entry. A text and kind already active adds nothing, and the entry is None.

    Raises:
        InvalidInput: a value breaks a rule, or text or reason contain a credential.
        NotFound: no such scope; or a revision is expected of a memory that has none.
        RevisionConflict: the memory is not at the expected revision.
    """
    draft = Draft(
        "add", rules.entry_kind(kind), rules.entry_text(text), reason=rules.reason(reason)
    )
    _refuse_secret(draft, refuse_secrets)
    with db.write() as conn:
        head = lock_memory(conn, scope_id)
        if expected_revision is not None and expected_revision != head:
            if head == 0:
                raise NotFound(f"the scope {scope_id!r} has no memory yet", scope_id=scope_id)
            raise _moved(head, expected_revision)
        done = commit_drafts(conn, scope_id, [draft], origin="explicit", now_us=now_us)
        return _written(conn, scope_id, done)


def revise(
    db: Database,
    scope_id: str,
    citation: Citation,
    *,
    kind: str,
    text: str,
    reason: str | None = None,
    refuse_secrets: bool = True,
    now_us: int,
) -> Written:
    """Give the cited entry a new text or kind; an equal one changes nothing.

    Raises:
        NotFound: the citation names nothing.
        RevisionConflict: the memory moved since the citation, by this entry or another.
        EntryInactive: the entry is retired.
        InvalidInput: a value breaks a rule, or text or reason contain a credential.
    """
    with db.write() as conn:
        row = _cited(conn, scope_id, citation)
        if row.version.state != "active":
            raise EntryInactive(
                f"the entry {citation.entry_id} is retired", entry_id=citation.entry_id
            )
        draft = Draft(
            "revise",
            rules.entry_kind(kind),
            rules.entry_text(text),
            entry_id=citation.entry_id,
            reason=rules.reason(reason),
        )
        _refuse_secret(draft, refuse_secrets)
        done = commit_drafts(conn, scope_id, [draft], origin="explicit", now_us=now_us)
        return _written(conn, scope_id, done, citation.entry_id)


def retire(
    db: Database, scope_id: str, citation: Citation, *, reason: str | None = None, now_us: int
) -> Written:
    """Take the cited entry out of recall and keep its history; again changes nothing.

    Raises:
        NotFound, RevisionConflict: as `revise`.
    """
    return _set_state(db, scope_id, citation, "deactivate", reason=reason, now_us=now_us)


def reactivate(
    db: Database, scope_id: str, citation: Citation, *, reason: str | None = None, now_us: int
) -> Written:
    """Bring a retired entry back as it was; an active one stays as it is.

    Raises:
        NotFound, RevisionConflict: as `revise`.
    """
    return _set_state(db, scope_id, citation, "reactivate", reason=reason, now_us=now_us)


def read_entry(db: Database, scope_id: str, citation: Citation) -> Cited:
    """Return exactly what a citation names, in the state it had in that revision.

    Raises:
        NotFound: no such scope, memory revision, or entry version in that revision.
    """
    with db.read() as conn:
        scopes.get(conn, scope_id)
        _own_memory(citation, entries.head(conn, scope_id))
        rows = entries.at(conn, scope_id, citation.memory.revision, entry_id=citation.entry_id)
        return Cited(citation, _matching(rows, citation).version)


def cite(
    db: Database,
    scope_id: str,
    entry_id: str,
    *,
    revision: int | None = None,
    entry_version_id: str | None = None,
) -> Cited:
    """An entry with its citation, as a revision of the memory holds it; the newest if None.

    Raises:
        NotFound: no such scope, revision, or entry (or entry version) in that revision.
    """
    with db.read() as conn:
        scopes.get(conn, scope_id)
        head = entries.head(conn, scope_id)
        ref = ArtifactRef(MEMORY_FAMILY, MEMORY_ID, head if revision is None else revision)
        rows = entries.at(conn, scope_id, ref.revision, entry_id=entry_id)
        wanted = entry_version_id or (rows[0].version.entry_version_id if rows else "")
        citation = Citation(ref, entry_id, wanted)
        _own_memory(citation, head)
        return Cited(citation, _matching(rows, citation).version)


def list_entries(
    db: Database,
    scope_id: str,
    *,
    include_inactive: bool = False,
    after: str = "",
    limit: int,
) -> tuple[ArtifactRef | None, list[Cited]]:
    """The memory's head and its entries by creation, after the given entry id.

    Raises:
        NotFound: no such scope.
    """
    with db.read() as conn:
        scopes.get(conn, scope_id)
        head = entries.head(conn, scope_id)
        rows = entries.page(
            conn, scope_id, include_inactive=include_inactive, after=after, limit=limit
        )
    memory = ArtifactRef(MEMORY_FAMILY, MEMORY_ID, head) if head else None
    return memory, [Cited(_citation(head, row.version), row.version) for row in rows]


def list_changes(
    db: Database, scope_id: str, *, since_revision: int | None = None
) -> tuple[int, list[ChangeRow]]:
    """The head revision, and the changes since a revision; of the head alone when None.

    Raises:
        NotFound: no such scope.
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
    """Every version of an entry, oldest first. Raises NotFound."""
    with db.read() as conn:
        scopes.get(conn, scope_id)
        return [row.version for row in entries.history(conn, scope_id, entry_id)]


def _set_state(
    db: Database, scope_id: str, citation: Citation, op: Op, *, reason: str | None, now_us: int
) -> Written:
    told = rules.reason(reason)
    wanted = "inactive" if op == "deactivate" else "active"
    with db.write() as conn:
        row = _cited(conn, scope_id, citation)
        entry = row.version
        done = Committed(citation.memory.revision)
        if entry.state != wanted:
            change = Change(op, entry, entry.kind, entry.text, entry.source_refs, told)
            done = commit_changes(
                conn,
                scope_id,
                [change],
                head=citation.memory.revision,
                origin="explicit",
                now_us=now_us,
            )
        return _written(conn, scope_id, done, citation.entry_id)


def _cited(conn: sa.Connection, scope_id: str, citation: Citation) -> EntryRow:
    """The head's row that a citation names; it must cite the head itself."""
    head = lock_memory(conn, scope_id)
    _own_memory(citation, head, exists=True)
    if citation.memory.revision != head:
        raise _moved(head, citation.memory.revision, **_now(conn, scope_id, head, citation))
    rows = entries.current(conn, scope_id, [citation.entry_id])
    return _matching(list(rows.values()), citation)


def _own_memory(citation: Citation, head: int, *, exists: bool = False) -> None:
    ref = citation.memory
    named = (ref.family, ref.artifact_id) == (MEMORY_FAMILY, MEMORY_ID)
    if not named or head == 0 or (not exists and not 1 <= ref.revision <= head):
        raise NotFound(
            f"there is no {ref.family}/{ref.artifact_id} at revision {ref.revision}",
            family=ref.family,
            artifact_id=ref.artifact_id,
            revision=ref.revision,
        )


def _matching(rows: list[EntryRow], citation: Citation) -> EntryRow:
    for row in rows:
        if row.version.entry_version_id == citation.entry_version_id:
            return row
    raise NotFound(
        f"revision {citation.memory.revision} does not hold this entry version",
        entry_id=citation.entry_id,
        entry_version_id=citation.entry_version_id,
    )


def _now(conn: sa.Connection, scope_id: str, head: int, citation: Citation) -> dict[str, Any]:
    """What a caller with a stale citation needs to decide without another call."""
    row = entries.current(conn, scope_id, [citation.entry_id]).get(citation.entry_id)
    if row is None:
        return {}
    fresh = _citation(head, row.version)
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


def _citation(head: int, entry: EntryVersion) -> Citation:
    return Citation(
        ArtifactRef(MEMORY_FAMILY, MEMORY_ID, head), entry.entry_id, entry.entry_version_id
    )


def _written(
    conn: sa.Connection, scope_id: str, done: Committed, entry_id: str | None = None
) -> Written:
    if entry_id is None and done.changed:
        entry_id = done.changed[0].entry_id
    if entry_id is None:
        return Written(done.memory, None)
    entry = entries.current(conn, scope_id, [entry_id])[entry_id].version
    return Written(done.memory, Cited(_citation(done.revision, entry), entry))


def _refuse_secret(draft: Draft, refuse: bool) -> None:
    if refuse:
        for field, body in (("text", draft.text), ("reason", draft.reason or "")):
            if kind := find_secret(body):
                raise InvalidInput(field, f"contains a {kind}", code="secret_detected")
