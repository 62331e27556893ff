"""Say why task outcomes did or did not count for an experience that tracks a failure."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from pc_store import limits
from pc_store.domain import outcome, recurrence
from pc_store.domain.outcome import TaskOutcome
from pc_store.domain.recurrence import Tracked
from pc_store.domain.refs import EXPERIENCE_FAMILY, ArtifactRef, SourceRef
from pc_store.errors import ArtifactNotFound, CandidateNotFound, InvalidInput
from pc_store.ledger import (
    artifacts,
    candidates,
    cursors,
    experiences,
    judgements,
    recurrences,
    review_drafts,
    scopes,
    streaks,
)
from pc_store.ledger.artifacts import Lifecycle
from pc_store.ledger.database import Database
from pc_store.ledger.judgements import OutcomeRow, OutcomeSource
from pc_store.ledger.recurrences import EventRow, MatchRow
from pc_store.ledger.review_drafts import DraftRow
from pc_store.ledger.streaks import StreakRow
from pc_store.services.outcomes import cited_by_receipt
from pc_store.services.recur import tracked_revision

SCANNED = 100
"""Most outcomes that one page reads; those that speak of other things are left out of it."""
HEADS_COMPARED = 2_000
WAITS_SHOWN = 100


@dataclass(frozen=True)
class TimelineItem:
    """An outcome that speaks of the failure, and what it counted for.

    Attributes:
        verdict: what it counts as, if it does; with `event_id`, by which it can be voided.
        voided: why a verdict was taken back.
        streak: recurrences in a row up to and with this outcome.
        why: each a sentence: what counted, or what kept it from counting.
    """

    position: int
    source: SourceRef
    status: str | None
    verdict: str | None
    event_id: str | None
    voided: str | None
    streak: int
    selected: bool
    pending: bool
    why: tuple[str, ...]


@dataclass(frozen=True)
class Similar:
    """Another active head whose cue is alike: for people to look at; it never counts."""

    ref: ArtifactRef
    cue_key: str
    ratio: float


@dataclass(frozen=True)
class Explained:
    """How a failure stands, and a page of the outcomes that speak of it.

    Attributes:
        tracked: None when the revision tracks no failure.
        judged_through: outcomes up to here were judged.
        review_status: of the candidate of the last review.
        draft: what a model was asked to draft for that review.
        same_cue: other active heads with the same cue; unlinked failures are ambiguous then.
        waits: (position, what an outcome there waits for).
        next_after: a position for the next page; None when there is none.
    """

    ref: ArtifactRef
    head: ArtifactRef
    lifecycle: Lifecycle
    tracked: Tracked | None
    counts: StreakRow | None
    judged_through: int
    review_status: str | None
    draft: DraftRow | None
    same_cue: tuple[ArtifactRef, ...]
    similar: tuple[Similar, ...]
    waits: tuple[tuple[int, str], ...]
    items: tuple[TimelineItem, ...]
    next_after: int | None


def explain(
    db: Database,
    scope_id: str,
    artifact_id: str,
    *,
    revision: int | None = None,
    after: int = 0,
    limit: int = limits.PAGE_DEFAULT,
) -> Explained:
    """Explain a revision's recurrences, its outcomes by position; one consistent read.

    Args:
        revision: None for the head.
        after: `next_after` of the page before.
        limit: 1 to 100 outcomes; a page may hold fewer, even none, and not be the last.

    Raises:
        ScopeNotFound, ArtifactNotFound: no such scope, experience or revision.
        InvalidInput: the limit is out of range.
    """
    if not 1 <= limit <= limits.PAGE_MAX:
        raise InvalidInput("limit", f"is {limit}, expected 1 to {limits.PAGE_MAX}")
    with db.read() as conn:
        scopes.get(conn, scope_id)
        head = artifacts.states(conn, scope_id, EXPERIENCE_FAMILY, [artifact_id]).get(artifact_id)
        if head is None:
            raise ArtifactNotFound(
                f"there is no experience {artifact_id!r}",
                family=EXPERIENCE_FAMILY,
                artifact_id=artifact_id,
            )
        number = head.ref.revision if revision is None else revision
        ref = ArtifactRef(EXPERIENCE_FAMILY, artifact_id, number)
        artifacts.revision(conn, scope_id, EXPERIENCE_FAMILY, artifact_id, number)
        one = tracked_revision(conn, scope_id, ref)
        counts = streaks.get(conn, scope_id, ref, one.cue_key) if one else None
        items, next_after = _timeline(conn, scope_id, one, after, limit) if one else ((), None)
        return Explained(
            ref=ref,
            head=head.ref,
            lifecycle=head.lifecycle,
            tracked=one,
            counts=counts,
            judged_through=cursors.get(conn, scope_id, "recurrence").position,
            review_status=_review_status(conn, scope_id, counts),
            draft=review_drafts.get(conn, scope_id, counts.review_id)
            if counts and counts.review_id
            else None,
            same_cue=_same_cue(conn, scope_id, one) if one else (),
            similar=_similar(conn, scope_id, one) if one else (),
            waits=tuple(judgements.waiting(conn, scope_id, limit=WAITS_SHOWN)),
            items=items,
            next_after=next_after,
        )


def standing(db: Database, scope_id: str) -> list[StreakRow]:
    """The counts of the failures with the longest streaks of a scope, at most 20, none of 0."""
    with db.read() as conn:
        scopes.get(conn, scope_id)
        return streaks.longest(conn, scope_id, limit=20)


def _review_status(conn: sa.Connection, scope_id: str, counts: StreakRow | None) -> str | None:
    if counts is None or counts.review_id is None:
        return None
    try:
        return candidates.get(conn, scope_id, counts.review_id).status
    except CandidateNotFound:
        return None


def _same_cue(conn: sa.Connection, scope_id: str, one: Tracked) -> tuple[ArtifactRef, ...]:
    heads = experiences.with_cues(conn, scope_id, [one.cue_key]).get(one.cue_key, [])
    return tuple(ref for ref in heads if ref.artifact_id != one.ref.artifact_id)


def _similar(conn: sa.Connection, scope_id: str, one: Tracked) -> tuple[Similar, ...]:
    found = [
        Similar(ref, cue, round(ratio, 3))
        for ref, cue in recurrences.cues(conn, scope_id, limit=HEADS_COMPARED)
        if ref.artifact_id != one.ref.artifact_id and cue != one.cue_key
        if (ratio := recurrence.alike(cue, one.cue_key)) >= recurrence.ALIKE_RATIO
    ]
    return tuple(sorted(found, key=lambda item: (-item.ratio, item.ref)))


def _timeline(
    conn: sa.Connection, scope_id: str, one: Tracked, after: int, limit: int
) -> tuple[tuple[TimelineItem, ...], int | None]:
    page, more_after = judgements.outcomes_page(conn, scope_id, after=after, limit=SCANNED)
    places = [source.position for source in page]
    judged = judgements.judged(conn, scope_id, places)
    matches: dict[int, list[MatchRow]] = {}
    for row in recurrences.matches(conn, scope_id, places).values():
        matches.setdefault(row.position, []).append(row)
    events: dict[int, list[EventRow]] = {}
    for event in recurrences.events_on(conn, scope_id, one.ref, places):
        events.setdefault(event.position, []).append(event)
    streak = streaks.length(
        conn, scope_id, StreakRow(one.ref, one.cue_key, one.surface), through=after
    )
    items: list[TimelineItem] = []
    for source in page:
        here = events.get(source.position, [])
        item = _item(
            conn,
            scope_id,
            one,
            source,
            judged.get(source.position),
            matches.get(source.position, []),
            here,
            streak,
        )
        if item is None:
            continue
        streak = item.streak
        items.append(item)
        if len(items) == limit and source is not page[-1]:
            return tuple(items), source.position
    return tuple(items), more_after


def _item(
    conn: sa.Connection,
    scope_id: str,
    one: Tracked,
    source: OutcomeSource,
    judged: OutcomeRow | None,
    matches: list[MatchRow],
    events: list[EventRow],
    streak: int,
) -> TimelineItem | None:
    """What there is to say of an outcome; None when it speaks of other things."""
    try:
        told: TaskOutcome = outcome.loads(source.content)
    except InvalidInput:
        return None  # listed by the check on malformed outcomes
    ours = [row for row in matches if row.cue_key == one.cue_key]
    verdict = next((event for event in events if event.event in recurrences.TERMINAL), None)
    selected = any(event.event == "selected" for event in events)
    why = [_counted(verdict)] if verdict else []
    why += recurrence.remarks(told, one)
    if judged is None and (why or ours or recurrence.failing(told, one)):
        why.append("not judged yet")
    if verdict is None and judged is not None:
        why += [line for row in ours if (line := _unmatched(row, one))]
        if not ours and (selected or recurrence.speaks_of_avoiding(told, one)):
            why.append(_not_avoided(conn, scope_id, one, source, told, judged))
    if judged is not None and judged.problem and (why or ours):
        why.append(f"{judged.problem}; its failures were matched as those of a task without one")
    if not why:
        return None
    voided = next((event.evidence["reason"] for event in events if event.event == "voided"), None)
    if verdict is not None and not verdict.voided:
        streak = streak + 1 if verdict.event == "recurred" else 0
    return TimelineItem(
        position=source.position,
        source=source.ref,
        status=told.status,
        verdict=verdict.event if verdict and not verdict.voided else None,
        event_id=verdict.event_id if verdict else None,
        voided=voided,
        streak=streak,
        selected=selected,
        pending=any(row.result == "pending" for row in ours),
        why=tuple(why),
    )


def _counted(verdict: EventRow) -> str:
    evidence: dict[str, Any] = verdict.evidence
    if verdict.event == "recurred":
        kind, index, _ = evidence["item"]
        return f"{kind} {index} fails, verified, and equals the cue"
    return (
        f"observation {evidence['condition'][1]} shows the condition, "
        f"check {evidence['check'][1]} passed, "
        f"and the receipt at position {evidence['receipt']} cites this revision"
    )


def _unmatched(row: MatchRow, one: Tracked) -> str | None:
    name = f"{row.kind} {row.index} fails and equals the cue, but"
    if row.result == "pending":
        return f"{name} its evidence is not there yet: {row.note}"
    if row.result == "ambiguous":
        shown = ", ".join(f"{ref.artifact_id} revision {ref.revision}" for ref in row.eligible)
        return f"{name} it could be any of {shown}"
    if row.result == "matched" and row.matched is not None:
        return f"{name} it counted for {row.matched.artifact_id} revision {row.matched.revision}"
    if row.note and one.ref.artifact_id in row.note:
        return f"{name} did not count: {row.note}"
    if row.mode == "receipt":
        return f"{name} the outcome's receipt does not cite this revision"
    return f"{name} this revision was no active head when the outcome was judged"


def _not_avoided(
    conn: sa.Connection,
    scope_id: str,
    one: Tracked,
    source: OutcomeSource,
    told: TaskOutcome,
    judged: OutcomeRow,
) -> str:
    start = "no avoidance:"
    if told.handoff_receipt_ref is None:
        return f"{start} the outcome names no receipt"
    receipt = cited_by_receipt(conn, scope_id, told.handoff_receipt_ref.ref, before=source.position)
    if isinstance(receipt, str):
        return f"{start} {receipt}"
    if one.ref not in receipt.experiences:
        return f"{start} the outcome's receipt does not cite this revision"
    found = recurrence.avoidance(told, one)
    if isinstance(found, str):
        return f"{start} {found}"
    founding = one.founding(source.ref, judged.position)
    return f"{start} {founding or 'the evidence of the condition or the check is not there yet'}"
