"""Send experiences whose failures keep coming back to review: one open candidate per failure."""

from dataclasses import dataclass, replace
from typing import Literal

import sqlalchemy as sa

from pc_store import limits
from pc_store.domain.candidate import Candidate, EvidenceRefs
from pc_store.domain.recurrence import REVIEW_AUTHOR, review_reason
from pc_store.errors import StoreError
from pc_store.ledger import (
    candidates,
    experiences,
    judgements,
    review_drafts,
    scopes,
    sources,
    streaks,
)
from pc_store.ledger.database import Database
from pc_store.ledger.streaks import StreakRow
from pc_store.services.propose import propose_in
from pc_store.services.review import revise_in
from pc_store.settings import Settings

AT_ONCE = 100
"""Most failures looked at in one call."""
Done = Literal["opened", "grown", "unchanged", "waits", "blocked"]
_OUTCOMES_MAX = limits.EVIDENCE_MAX - 1
"""The experience itself is among the evidence, too."""
_BLOCKED_FOR_US = 3_600_000_000


@dataclass(frozen=True)
class Reviewed:
    """What became of a failure whose review was due.

    Attributes:
        done: a review was `opened`, or an open one has `grown` by a version; `unchanged`: it
            had all of it already; `waits`: the last one was rejected, and the failure has not
            come back often enough since; `blocked`: none can be opened, `why` says so.
    """

    artifact_id: str
    revision: int
    cue_key: str
    done: Done
    candidate_id: str | None = None
    why: str | None = None


def review(db: Database, settings: Settings, scope_id: str, *, now_us: int) -> list[Reviewed]:
    """Open or grow the reviews that are due in a scope, at most 100, each on its own.

    A review that cannot be opened is noted on its failure and holds up nothing else; it is
    tried again with the next call. Nothing is approved here, and no model is asked.

    Raises:
        ScopeNotFound: no such scope.
    """
    with db.read() as conn:
        scopes.get(conn, scope_id)
        waiting = [row for _, row in streaks.due(conn, scope_id, limit=AT_ONCE)]
    told: list[Reviewed] = []
    for row in waiting:
        made = _review_one(db, settings, scope_id, row, now_us=now_us)
        while made is not None:
            told.append(made)  # what came after the recurrence that made it due is added
            again = made.done in ("opened", "grown")
            made = _review_one(db, settings, scope_id, row, now_us=now_us) if again else None
    return told


def due_reviews(db: Database, *, now_us: int, limit: int) -> list[str]:
    """Scopes with a review that is due, by id; blocked ones come up again after an hour."""
    with db.read() as conn:
        waiting = streaks.due(
            conn, None, untouched_since_us=now_us - _BLOCKED_FOR_US, limit=limit * AT_ONCE
        )
    return list(dict.fromkeys(scope_id for scope_id, _ in waiting))[:limit]


def _review_one(
    db: Database, settings: Settings, scope_id: str, seen: StreakRow, *, now_us: int
) -> Reviewed | None:
    """What was done; None when nothing is due any more."""
    with db.write() as conn:
        judgements.lock(conn, scope_id)
        row = streaks.get(conn, scope_id, seen.ref, seen.cue_key)
        if row is None or not row.due_position:
            return None
        last = candidates.lock(conn, scope_id, row.review_id) if row.review_id else None
        if last is not None and last.status != "pending":
            row = _rewalked(conn, settings, scope_id, replace(row, review_id=None), now_us)
            if not row.due_position:
                return _told(row, "waits", candidate_id=last.candidate_id)
            last = None
        try:
            with conn.begin_nested():
                done, made = _put_review(conn, scope_id, row, last, now_us=now_us)
        except StoreError as error:
            streaks.put(conn, scope_id, replace(row, blocked=error.message), now_us=now_us)
            return _told(row, "blocked", why=error.message)
        reviewed = replace(
            row,
            reviewed_position=max(row.reviewed_position, row.due_position),
            review_id=made,
            blocked=None,
        )
        _rewalked(conn, settings, scope_id, reviewed, now_us)
        return _told(row, done, candidate_id=made)


def _rewalked(
    conn: sa.Connection, settings: Settings, scope_id: str, row: StreakRow, now_us: int
) -> StreakRow:
    """The counts with all that came after the last review weighed again."""
    streaks.put(conn, scope_id, streaks.rewound(row), now_us=now_us)
    streaks.walk(
        conn,
        scope_id,
        row.ref,
        row.cue_key,
        through=row.walked_position,
        threshold=settings.recurrence_threshold,
        now_us=now_us,
    )
    weighed = streaks.get(conn, scope_id, row.ref, row.cue_key)
    assert weighed is not None
    return weighed


def _put_review(
    conn: sa.Connection,
    scope_id: str,
    row: StreakRow,
    last: Candidate | None,
    *,
    now_us: int,
) -> tuple[Done, str]:
    """Open the review of a failure, or add to the open one; tell which, and its id."""
    in_a_row = streaks.length(conn, scope_id, row, through=row.due_position)
    content = experiences.content(conn, scope_id, row.ref)
    before = (last.reason or "") if last and last.proposal != content else None
    reason = review_reason(
        row.ref, row.cue_key, streak=in_a_row, recurred=row.recurred, before=before
    )
    if last is not None:
        return _grow(conn, scope_id, row, last, reason=reason, now_us=now_us)
    positions = streaks.streak_outcomes(
        conn, scope_id, row, through=row.due_position, limit=_OUTCOMES_MAX
    )
    outcomes = [source.ref for source in judgements.at(conn, scope_id, positions)]
    made = propose_in(
        conn,
        scope_id,
        content,
        EvidenceRefs(sources=tuple(outcomes), artifacts=(row.ref,)),
        target=row.ref,
        reason=reason,
        origin="recurrence",
        author=REVIEW_AUTHOR,
        now_us=now_us,
        refuse_secrets=False,  # the text is approved already
    )
    review_drafts.want(conn, scope_id, made.candidate_id, version=1, now_us=now_us)
    return "opened", made.candidate_id


def _grow(
    conn: sa.Connection,
    scope_id: str,
    row: StreakRow,
    last: Candidate,
    *,
    reason: str,
    now_us: int,
) -> tuple[Done, str]:
    """Add to an open review all that came back since its first outcome.

    What people wrote into it stays; where there is no more room its oldest outcomes give way.
    """
    held = sources.some(conn, scope_id, last.evidence.sources)
    given = sorted(held[ref].position for ref in last.evidence.sources)
    counted = set(streaks.recurred_at(conn, scope_id, row, given))
    first = min(counted, default=row.reviewed_position + 1)
    positions = streaks.recurrences_in(
        conn, scope_id, row, first=first, last=row.due_position, limit=_OUTCOMES_MAX
    )
    outcomes = [source.ref for source in judgements.at(conn, scope_id, positions)]
    every = list(dict.fromkeys((*last.evidence.sources, *outcomes)))
    fixed = len(last.evidence) - len(last.evidence.sources)
    surplus = len(every) + fixed - limits.EVIDENCE_MAX
    oldest = [ref for ref in every if ref in held and held[ref].position in counted]
    oldest.sort(key=lambda ref: held[ref].position)
    dropped = set(oldest[: max(0, surplus)])
    kept = [ref for ref in every if ref not in dropped]
    if kept == list(last.evidence.sources):
        return "unchanged", last.candidate_id
    grown = revise_in(
        conn,
        scope_id,
        last.candidate_id,
        expected_version=last.version,
        proposal=last.proposal,
        sources=kept,
        artifacts=last.evidence.artifacts,
        target=last.target,
        reason=reason,
        author=REVIEW_AUTHOR,
        refuse_secrets=False,
        now_us=now_us,
    )
    review_drafts.want(conn, scope_id, last.candidate_id, version=grown.version, now_us=now_us)
    return "grown", last.candidate_id


def _told(
    row: StreakRow, done: Done, *, candidate_id: str | None = None, why: str | None = None
) -> Reviewed:
    return Reviewed(row.ref.artifact_id, row.ref.revision, row.cue_key, done, candidate_id, why)
