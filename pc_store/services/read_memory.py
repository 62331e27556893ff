"""Read a memory: exact citations, lists, changes, an entry's history, two revisions compared."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import sqlalchemy as sa

from pc_store import limits
from pc_store.domain.capacity import Budget, exceeded
from pc_store.domain.entry import EntryVersion, Op
from pc_store.domain.refs import MEMORY_FAMILY, MEMORY_ID, ArtifactRef, Citation
from pc_store.domain.revision import EntryChange, content_bytes
from pc_store.errors import ArtifactNotFound, EntryNotFound, EntryPurged, InvalidInput
from pc_store.ledger import entries, manifests, memory_sizes, purges, scopes
from pc_store.ledger.database import Database
from pc_store.ledger.entries import EntryRow


@dataclass(frozen=True)
class Cited:
    """An entry and the citation by which it can be read again for ever."""

    citation: Citation
    entry: EntryVersion
    reason: str | None = None
    """Of the change that gave it this version or state; set only where it was asked for."""
    updated_at: int | None = None
    """When that change was made, microseconds; set only with the reason."""


@dataclass(frozen=True)
class EntryPage:
    """A page of entries, and the `after` of the next; None when there is none."""

    memory: ArtifactRef | None
    entries: tuple[Cited, ...]
    next_after: str | None


@dataclass(frozen=True)
class RevisionChanges:
    """What one revision of the memory changed, by entry id."""

    memory: ArtifactRef
    changes: tuple[EntryChange, ...]
    created_at: int
    origin: str


@dataclass(frozen=True)
class EntryDifference:
    """An entry at two revisions; None where a revision does not hold it.

    A purged entry is there with an empty text (`entry.purged`).
    """

    entry_id: str
    before: EntryVersion | None
    after: EntryVersion | None


@dataclass(frozen=True)
class Capacity:
    """A memory's size and budget; `exceeded` names the dimensions that are over."""

    memory: ArtifactRef
    active_entry_count: int
    manifest_entry_count: int
    manifest_bytes: int
    compactable_entry_count: int
    budget: Budget
    exceeded: tuple[str, ...]


@dataclass(frozen=True)
class HistoryItem:
    """One change of an entry: what, when, why, and the version and state it left.

    The text is empty if the entry was purged.
    """

    memory: ArtifactRef
    op: Op
    entry: EntryVersion
    reason: str | None
    origin: str
    created_at: int


def read_entry(db: Database, scope_id: str, citation: Citation, *, extras: bool = False) -> Cited:
    """Return exactly what a citation names, in the state it had in that revision.

    Args:
        extras: fill `reason` and `updated_at`.

    Raises:
        ScopeNotFound: no such scope.
        ArtifactNotFound: another family or artifact, or a revision the memory does not have.
        EntryNotFound: that revision does not hold this entry version.
        EntryPurged: it does, and the text was erased since.
    """
    with db.read() as conn:
        scopes.get(conn, scope_id)
        return _read(conn, scope_id, citation, extras=extras)


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
        ScopeNotFound, ArtifactNotFound, EntryNotFound, EntryPurged: as `read_entry`.
    """
    with db.read() as conn:
        scopes.get(conn, scope_id)
        head = entries.head(conn, scope_id)
        ref = _ref(head if revision is None else revision)
        rows = entries.at(conn, scope_id, ref.revision, entry_id=entry_id)
        wanted = entry_version_id or (rows[0].version.entry_version_id if rows else "")
        return _read(conn, scope_id, Citation(ref, entry_id, wanted), extras=False)


def page_entries(
    db: Database,
    scope_id: str,
    *,
    include_inactive: bool = False,
    kind: str | None = None,
    after: str | None = None,
    limit: int | None = None,
    extras: bool = False,
) -> EntryPage:
    """Entries of the head by creation; purged ones are left out.

    Args:
        after: `next_after` of the page before.
        limit: 1 to 100; None for all that is left.
        extras: fill `reason` and `updated_at`.

    Raises:
        ScopeNotFound: no such scope.
        InvalidInput: the limit is out of range.
    """
    if limit is not None and not 1 <= limit <= limits.PAGE_MAX:
        raise InvalidInput("limit", f"is {limit}, expected 1 to {limits.PAGE_MAX}")
    with db.read() as conn:
        scopes.get(conn, scope_id)
        head = entries.head(conn, scope_id)
        rows = entries.page(
            conn,
            scope_id,
            include_inactive=include_inactive,
            kind=kind,
            after=after or "",
            limit=None if limit is None else limit + 1,
        )
        more = limit is not None and len(rows) > limit
        cited = [
            Cited(citation_of(head, row.version), row.version)
            for row in (rows[:-1] if more else rows)
        ]
        if extras:
            cited = _explained(conn, scope_id, cited, head)
    return EntryPage(
        _ref(head) if head else None,
        tuple(cited),
        cited[-1].citation.entry_id if more else None,
    )


def changes_since(
    db: Database, scope_id: str, *, since_revision: int | None = None
) -> tuple[ArtifactRef | None, list[RevisionChanges]]:
    """The memory's head, and what each revision after one changed; the head's alone when None.

    (None, []) for a scope without a memory, whatever `since_revision` says.

    Raises:
        ScopeNotFound: no such scope.
        InvalidInput: `since_revision` is negative or past the head.
    """
    with db.read() as conn:
        scopes.get(conn, scope_id)
        head = entries.head(conn, scope_id)
        if not head:
            return None, []
        after = _since(since_revision, head)
        made = manifests.made_between(conn, scope_id, after=after, through=head)
    revisions: dict[int, list[manifests.Made]] = {}
    for one in made:
        revisions.setdefault(one.revision, []).append(one)
    return _ref(head), [
        RevisionChanges(
            _ref(number), tuple(one.change for one in ones), ones[0].created_at, ones[0].origin
        )
        for number, ones in revisions.items()
    ]


def trace_entry(db: Database, scope_id: str, entry_id: str) -> list[HistoryItem]:
    """Every change of an entry, oldest first; also of one that is retired or purged.

    Raises:
        ScopeNotFound, EntryNotFound.
    """
    with db.read() as conn:
        scopes.get(conn, scope_id)
        rows = entries.history(conn, scope_id, entry_id)
        versions = {row.version.entry_version_id: row.version for row in rows}
        made = manifests.made_to(conn, scope_id, entry_id)
    items = []
    for one in made:
        change = one.change
        version = versions[change.to_entry_version_id or change.from_entry_version_id or ""]
        items.append(
            HistoryItem(
                _ref(one.revision),
                change.op,
                replace(version, state="inactive" if change.op == "deactivate" else "active"),
                change.reason,
                one.origin,
                one.created_at,
            )
        )
    return items


def compare_revisions(
    db: Database, scope_id: str, *, before: int, after: int
) -> list[EntryDifference]:
    """The entries that two revisions hold differently (version or state), by entry id.

    Args:
        before: 0 is the empty memory before its first revision.

    Raises:
        ScopeNotFound: no such scope.
        ArtifactNotFound: the memory does not have these revisions.
        InvalidInput: `before` is negative or past `after`.
    """
    if not 0 <= before <= after:
        raise InvalidInput("before", f"is {before}, expected 0 to {after}")
    with db.read() as conn:
        scopes.get(conn, scope_id)
        refuse_absent(_ref(after), entries.head(conn, scope_id))
        changed = manifests.made_between(conn, scope_id, after=before, through=after)
        differing = []
        for entry_id in sorted({one.change.entry_id for one in changed}):
            old = entries.at(conn, scope_id, before, entry_id=entry_id)
            new = entries.at(conn, scope_id, after, entry_id=entry_id)
            was = old[0].version if old else None
            now = new[0].version if new else None
            if was != now:
                differing.append(EntryDifference(entry_id, was, now))
    return differing


def read_capacity(db: Database, scope_id: str, *, budget: Budget) -> Capacity:
    """The memory's size against its budget (`settings.memory_budget`).

    Nothing is compactable: a revision costs what it changes, so there is nothing to gain.

    Raises:
        ScopeNotFound: no such scope.
        ArtifactNotFound: it has no memory yet.
    """
    with db.read() as conn:
        scopes.get(conn, scope_id)
        head = entries.head(conn, scope_id)
        refuse_absent(_ref(head), head)
        size = memory_sizes.get(conn, scope_id)
        made = manifests.made_between(conn, scope_id, after=head - 1, through=head)
    size_bytes = content_bytes(size, [one.change for one in made])
    return Capacity(
        _ref(head),
        active_entry_count=size.active,
        manifest_entry_count=size.entries,
        manifest_bytes=size_bytes,
        compactable_entry_count=0,
        budget=budget,
        exceeded=exceeded(budget, size, size_bytes),
    )


def citation_of(head: int, entry: EntryVersion) -> Citation:
    """The citation of an entry as a revision holds it."""
    return Citation(_ref(head), entry.entry_id, entry.entry_version_id)


def refuse_absent(ref: ArtifactRef, head: int, *, any_revision: bool = False) -> None:
    """Raise ArtifactNotFound unless it is the scope's memory at a revision that exists."""
    named = (ref.family, ref.artifact_id) == (MEMORY_FAMILY, MEMORY_ID)
    if not named or head == 0 or (not any_revision and not 1 <= ref.revision <= head):
        raise ArtifactNotFound(
            f"there is no {ref.family}/{ref.artifact_id} at revision {ref.revision}",
            family=ref.family,
            artifact_id=ref.artifact_id,
            revision=ref.revision,
        )


def matching(
    conn: sa.Connection, scope_id: str, rows: Iterable[EntryRow], citation: Citation
) -> EntryVersion:
    """The row that a citation names. Raises EntryNotFound, EntryPurged."""
    for row in rows:
        if row.version.entry_version_id == citation.entry_version_id:
            if row.version.purged:
                purge = purges.get(conn, scope_id, citation.entry_id)
                raise EntryPurged(
                    f"the text of entry {citation.entry_id} was erased",
                    entry_id=citation.entry_id,
                    entry_version_id=citation.entry_version_id,
                    purged_at=purge.purged_at if purge else None,
                )
            return row.version
    raise EntryNotFound(
        f"revision {citation.memory.revision} does not hold this entry version",
        entry_id=citation.entry_id,
        entry_version_id=citation.entry_version_id,
    )


def _read(conn: sa.Connection, scope_id: str, citation: Citation, *, extras: bool) -> Cited:
    refuse_absent(citation.memory, entries.head(conn, scope_id))
    revision = citation.memory.revision
    rows = entries.at(conn, scope_id, revision, entry_id=citation.entry_id)
    cited = Cited(citation, matching(conn, scope_id, rows, citation))
    return _explained(conn, scope_id, [cited], revision)[0] if extras else cited


def _explained(
    conn: sa.Connection, scope_id: str, cited: list[Cited], revision: int
) -> list[Cited]:
    """The same with reason and time of the change that each stands by."""
    ids = [one.citation.entry_id for one in cited]
    made = manifests.last_made(conn, scope_id, ids, through=revision)
    return [
        replace(one, reason=cause.change.reason, updated_at=cause.created_at)
        for one in cited
        for cause in [made[one.citation.entry_id]]
    ]


def _since(since_revision: int | None, head: int) -> int:
    after = max(head - 1, 0) if since_revision is None else since_revision
    if not 0 <= after <= head:
        raise InvalidInput("since_revision", f"is {after}, the memory is at {head}")
    return after


def _ref(revision: int) -> ArtifactRef:
    return ArtifactRef(MEMORY_FAMILY, MEMORY_ID, revision)
