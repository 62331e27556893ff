"""Take a verdict of the recurrence ledger back: by an event that says so, never by deleting."""

from dataclasses import replace

from pc_store.domain import strict_json
from pc_store.domain.candidate import reason as checked_reason
from pc_store.errors import InvalidInput, NotFound
from pc_store.ledger import judgements, recurrences, streaks
from pc_store.ledger.database import Database
from pc_store.ledger.recurrences import EventRow
from pc_store.settings import Settings


def void(
    db: Database,
    settings: Settings,
    scope_id: str,
    event_id: str,
    *,
    reason: str,
    author: str = "",
    now_us: int,
) -> tuple[EventRow, int]:
    """Take a verdict back and count again; taking it back twice changes nothing more.

    The verdict stays in the ledger, marked, and its outcome gives no other on this failure.
    A review that is open stays open: people decide it.

    Returns:
        The verdict as it is now, and the streak of its failure.

    Raises:
        ScopeNotFound: no such scope.
        NotFound: no recurrence or avoidance has this id.
        InvalidInput: the reason is blank or over 2,000 characters.
    """
    said = checked_reason(reason)
    if said is None:
        raise InvalidInput("reason", "is missing")
    with db.write() as conn:
        cursor = judgements.lock(conn, scope_id)
        verdict = recurrences.event(conn, scope_id, event_id)
        if verdict is None or verdict.event not in recurrences.TERMINAL:
            raise NotFound(f"the scope has no verdict {event_id!r}", event_id=event_id)
        if not verdict.voided:
            recurrences.void(conn, scope_id, event_id)
            verdict = replace(verdict, voided=True)
            told = {"event_id": event_id, "reason": said, "author": author}
            taken_back = replace(
                verdict,
                event_id=strict_json.digest_prefixed("pc:event:v1", [scope_id, "voided", event_id]),
                event="voided",
                evidence=told,
                voided=False,
                recorded_at=now_us,
            )
            recurrences.put_event(conn, scope_id, taken_back, verdict_key=None)
            streaks.recount(conn, scope_id, verdict.ref, verdict.cue_key, now_us=now_us)
            streaks.walk(
                conn,
                scope_id,
                verdict.ref,
                verdict.cue_key,
                through=cursor,
                threshold=settings.recurrence_threshold,
                now_us=now_us,
            )
        row = streaks.get(conn, scope_id, verdict.ref, verdict.cue_key)
        assert row is not None, "a verdict has counts"
        return verdict, row.streak
