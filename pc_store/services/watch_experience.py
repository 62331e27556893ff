"""Look at the experiences of scopes from outside: where they stand, and whose have changed."""

from collections.abc import Mapping
from dataclasses import dataclass

from pc_store.ledger import candidates, experiences, scopes
from pc_store.ledger.artifacts import Lifecycle
from pc_store.ledger.database import Database


@dataclass(frozen=True)
class ExperienceStanding:
    """Where a scope's experiences stand.

    Attributes:
        active, deprecated, retired: experiences by lifecycle.
        revisions: of all of them.
        pending: candidates that wait for review.
    """

    scope_id: str
    scope_key: str
    active: int
    deprecated: int
    retired: int
    revisions: int
    pending: int

    @property
    def version(self) -> str:
        """Another one once anything but `pending` differs."""
        return f"{self.active}-{self.deprecated}-{self.retired}-{self.revisions}"


def experiences_changed_since(
    db: Database, moment_us: int, *, limit: int
) -> list[tuple[ExperienceStanding, int]]:
    """(where a scope's experiences stand, last changed at), the oldest last change first.

    Of at most `limit` scopes with approvals or lifecycle changes at or after a moment, in one
    consistent read.
    """
    with db.read() as conn:
        changed = experiences.changed_since(conn, moment_us, limit=limit)
        keys = scopes.keys(conn, [scope_id for scope_id, _ in changed])
        heads = experiences.standings(conn, keys)
        waiting = {one.scope_id: one.pending for one in candidates.waiting(conn)} if keys else {}
    return [
        (_standing(scope_id, keys[scope_id], heads.get(scope_id, {}), waiting.get(scope_id, 0)), at)
        for scope_id, at in changed
    ]


def _standing(
    scope_id: str, scope_key: str, heads: Mapping[Lifecycle, tuple[int, int]], pending: int
) -> ExperienceStanding:
    held = {state: count for state, (count, _) in heads.items()}
    return ExperienceStanding(
        scope_id=scope_id,
        scope_key=scope_key,
        active=held.get("active", 0),
        deprecated=held.get("deprecated", 0),
        retired=held.get("retired", 0),
        revisions=sum(revisions for _, revisions in heads.values()),
        pending=pending,
    )
