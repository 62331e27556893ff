"""Turn drafts into a memory revision; the one place where memory is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from pc_store.domain.capacity import DEFAULT_BUDGET, Budget, refuse_growth
from pc_store.domain.entry import (
    Change,
    ChangePlan,
    Draft,
    Dropped,
    EntryVersion,
    Origin,
    plan_changes,
)
from pc_store.domain.refs import MEMORY_FAMILY, MEMORY_ID, ArtifactRef, SourceRef, new_id
from pc_store.domain.revision import EntryChange, content_bytes
from pc_store.domain.text import digest
from pc_store.errors import EntryInactive, EntryNotFound, RevisionConflict, ScopeNotFound
from pc_store.ledger import artifacts, entries, manifests, memory_sizes
from pc_store.ledger.entries import NewVersion
from pc_store.search.tokens import TOKENISER, terms_of


@dataclass(frozen=True)
class Committed:
    """What a commit did. Without changes `revision` is the head it found, 0 for none."""

    revision: int
    changed: tuple[NewVersion, ...] = ()
    dropped: tuple[Dropped, ...] = ()

    @property
    def memory(self) -> ArtifactRef | None:
        """The memory's exact revision, if it has one."""
        return ArtifactRef(MEMORY_FAMILY, MEMORY_ID, self.revision) if self.revision else None

    def count(self, op: str) -> int:
        """Changes of one kind."""
        return sum(item.change.op == op for item in self.changed)


def lock_memory(conn: sa.Connection, scope_id: str) -> int:
    """Lock the scope's memory until the transaction ends and return its head.

    Raises:
        ScopeNotFound: no such scope.
    """
    head = artifacts.lock_head(conn, scope_id, MEMORY_FAMILY, MEMORY_ID)
    if head is None:
        raise ScopeNotFound(f"there is no scope {scope_id!r}", scope_id=scope_id)
    return head


def commit_drafts(
    conn: sa.Connection,
    scope_id: str,
    drafts: Sequence[Draft],
    *,
    origin: Origin,
    now_us: int,
    shown: Mapping[str, str] | None = None,
    window_id: str | None = None,
    lineage_sources: Sequence[SourceRef] = (),
    lineage_artifacts: Sequence[ArtifactRef] = (),
    budget: Budget = DEFAULT_BUDGET,
) -> Committed:
    """Deduplicate drafts against the memory as it is now, and write what changes.

    Args:
        shown: for proposals of a program, the version id of every entry as it was shown.
            A target that has moved since is a conflict: the proposal answered an older text.

    Raises:
        ScopeNotFound, EntryNotFound: no such scope or entry.
        EntryInactive: a target is retired.
        RevisionConflict: a target is not at the version that was shown.
        CapacityExceeded: the memory would outgrow its budget.
    """
    head = lock_memory(conn, scope_id)
    plan = plan_drafts(conn, scope_id, drafts, origin=origin, shown=shown)
    if not plan.changes:
        return Committed(head, dropped=tuple(plan.dropped))
    return commit_changes(
        conn,
        scope_id,
        plan.changes,
        head=head,
        origin=origin,
        now_us=now_us,
        window_id=window_id,
        lineage_sources=lineage_sources,
        lineage_artifacts=lineage_artifacts,
        dropped=plan.dropped,
        budget=budget,
    )


def plan_drafts(
    conn: sa.Connection,
    scope_id: str,
    drafts: Sequence[Draft],
    *,
    origin: Origin,
    shown: Mapping[str, str] | None = None,
) -> ChangePlan:
    """What `commit_drafts` would write to the memory as it is now. Raises as it does."""
    digests = [digest(draft.text) for draft in drafts]
    alike = entries.alike(conn, scope_id, digests)
    outdated: list[Dropped] = []
    if origin == "replay":  # an old log must not bring back words that were revised since
        earlier = entries.ever_held(conn, scope_id, digests) - set(alike)
        outdated = [Dropped(d, "revised since") for d in drafts if digest(d.text) in earlier]
        drafts = [draft for draft in drafts if digest(draft.text) not in earlier]
    targets = _targets(conn, scope_id, drafts, shown)
    plan = plan_changes(drafts, targets=targets, alike=alike, extracted=origin != "explicit")
    plan.dropped += outdated
    return plan


def commit_changes(
    conn: sa.Connection,
    scope_id: str,
    changes: Sequence[Change],
    *,
    head: int,
    origin: Origin,
    now_us: int,
    window_id: str | None = None,
    lineage_sources: Sequence[SourceRef] = (),
    lineage_artifacts: Sequence[ArtifactRef] = (),
    dropped: Sequence[Dropped] = (),
    budget: Budget = DEFAULT_BUDGET,
    reason: str | None = None,
) -> Committed:
    """Write changes as revision `head` + 1. The caller holds the memory's lock.

    Raises:
        RevisionConflict: the head is not `head`.
        CapacityExceeded: the memory would outgrow its budget.
    """
    revision = artifacts.commit(
        conn,
        scope_id,
        MEMORY_FAMILY,
        MEMORY_ID,
        expected=head,
        content=None,
        reason=reason,
        origin=origin,
        window_id=window_id,
        now_us=now_us,
        sources=lineage_sources,
        used=lineage_artifacts,
    )
    changed = [_with_ids(change, ordinal, now_us) for ordinal, change in enumerate(changes)]
    before = memory_sizes.get(conn, scope_id)
    entries.apply(conn, scope_id, revision, changed, origin=origin, now_us=now_us)
    after = memory_sizes.get(conn, scope_id)
    if any(change.op != "deactivate" for change in changes):
        after_bytes = content_bytes(after, [_change_of(item) for item in changed])
        before_bytes = 0
        if after_bytes > budget.max_manifest_bytes:  # only then does it matter what it was
            last = manifests.made_between(conn, scope_id, after=head - 1, through=head)
            before_bytes = content_bytes(before, [made.change for made in last])
        refuse_growth(
            budget,
            before=before,
            after=after,
            bytes_before=before_bytes,
            bytes_after=after_bytes,
        )
    return Committed(revision, tuple(changed), tuple(dropped))


def _change_of(item: NewVersion) -> EntryChange:
    change = item.change
    before = change.before.entry_version_id if change.before else None
    after = item.entry_version_id if change.op in ("add", "revise") else None
    return EntryChange(change.op, item.entry_id, before, after, change.reason)


def _targets(
    conn: sa.Connection,
    scope_id: str,
    drafts: Sequence[Draft],
    shown: Mapping[str, str] | None,
) -> dict[str, EntryVersion]:
    wanted = [draft.entry_id for draft in drafts if draft.entry_id is not None]
    rows = entries.current(conn, scope_id, wanted)
    for entry_id in wanted:
        if entry_id not in rows:
            raise EntryNotFound(f"the memory has no entry {entry_id!r}", entry_id=entry_id)
        now = rows[entry_id].version
        if now.state != "active":
            raise EntryInactive(f"the entry {entry_id} was retired", entry_id=entry_id)
        if shown is not None and shown.get(entry_id) != now.entry_version_id:
            raise RevisionConflict(
                f"the entry {entry_id} was changed after it was shown", entry_id=entry_id
            )
    return {entry_id: rows[entry_id].version for entry_id in wanted}


def _with_ids(change: Change, ordinal: int, now_us: int) -> NewVersion:
    before = change.before
    entry_id = before.entry_id if before else new_id("mem_ent_", at_us=now_us, ordinal=ordinal)
    if change.op in ("deactivate", "reactivate"):
        assert before is not None
        return NewVersion(change, entry_id, before.entry_version_id, "", TOKENISER)
    version_id = new_id("mem_ver_", at_us=now_us, ordinal=ordinal)
    return NewVersion(change, entry_id, version_id, terms_of(change.text), TOKENISER)
