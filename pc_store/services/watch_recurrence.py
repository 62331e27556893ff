"""Find the scopes where recurrence has something to do: outcomes, reviews, drafts of reviews."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from pc_store.ledger import cursors, judgements, scopes
from pc_store.ledger.database import Database
from pc_store.ledger.judgements import Behind
from pc_store.services import recur
from pc_store.services.draft_review import due_drafts
from pc_store.services.recurrence_review import due_reviews
from pc_store.settings import Settings

LOOKED_AT = 200
"""Most logs looked through for one answer."""
PAUSE_US = 60_000_000
"""Outcomes of a scope are judged together once in so long."""


@dataclass(frozen=True)
class Due:
    """A scope with something to do, and what."""

    scope_id: str
    scope_key: str
    outcomes: bool = False
    reviews: bool = False
    drafts: bool = False


def due_scopes(
    db: Database, settings: Settings, *, busy: Collection[str] = (), limit: int, now_us: int
) -> list[Due]:
    """At most `limit` scopes with something to do, and note them as served.

    That is outcomes to judge, reviews to open, or drafts to ask a model for. A log that grew by
    other things only is passed over on the spot, at most a window of it. Reviews come first:
    they are few.

    Args:
        busy: keys of scopes that have a run already.
    """
    found: dict[str, Due] = {}
    reviews = due_reviews(db, now_us=now_us, limit=limit)
    drafts = due_drafts(db, settings, now_us=now_us, limit=limit)
    with db.read() as conn:
        for scope_id in list(dict.fromkeys((*reviews, *drafts)))[:limit]:
            key = scopes.get(conn, scope_id).key
            if key not in busy:
                found[scope_id] = Due(
                    scope_id, key, reviews=scope_id in reviews, drafts=scope_id in drafts
                )
        logs = judgements.behind(conn, served_before_us=now_us - PAUSE_US, limit=LOOKED_AT)
    for log in logs:
        if log.scope_key in busy:
            continue
        known = found.get(log.scope_id)
        if known is None and len(found) >= limit:
            break
        if _has_outcomes(db, settings, log, now_us=now_us):
            found[log.scope_id] = replace(known or Due(log.scope_id, log.scope_key), outcomes=True)
    with db.write() as conn:
        cursors.served(conn, sorted(found), "recurrence", now_us=now_us)
    return list(found.values())


def _has_outcomes(db: Database, settings: Settings, log: Behind, *, now_us: int) -> bool:
    """Whether outcomes wait in a log; what comes before the first of them is passed over."""
    through = min(log.high_watermark, log.cursor + settings.source_window_limit)
    with db.read() as conn:
        if judgements.holds_outcome(conn, log.scope_id, after=log.cursor, through=through):
            return True
        if judgements.waiting(conn, log.scope_id, limit=1):
            return True  # what some outcome waits for may be among it
    recur.run(db, settings, log.scope_id, now_us=now_us, most_windows=1)
    return False
