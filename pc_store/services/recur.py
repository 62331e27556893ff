"""Judge task outcomes: which tracked failures came back, which were avoided. No model is asked."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from pc_store.domain import experience, outcome, recurrence, strict_json
from pc_store.domain.failure import FailureItem, failure_items
from pc_store.domain.outcome import TaskOutcome
from pc_store.domain.recurrence import Match, Mode, Tracked, Verdict, verdict_key
from pc_store.domain.refs import ArtifactRef, SourceRef
from pc_store.errors import ArtifactNotFound, InvalidInput
from pc_store.ledger import (
    artifacts,
    cursors,
    experiences,
    judgements,
    recurrences,
    sources,
    streaks,
)
from pc_store.ledger.database import Database
from pc_store.ledger.judgements import OutcomeRow, OutcomeSource
from pc_store.ledger.recurrences import EventRow
from pc_store.services.outcomes import cited_by_receipt, missing_evidence
from pc_store.settings import Settings

RETRIED = 32
"""Most outcomes that wait for an artifact or a memory entry and are tried again in one go."""


@dataclass(frozen=True)
class Recorded:
    """What judging did; counts of this call, so a repetition gives zeros.

    Attributes:
        outcomes: task outcomes judged for the first time, `malformed` of them unreadable.
        pending: failing items that wait for their evidence now.
        retried: outcomes judged again because evidence may have arrived.
        cursor: where the `recurrence` cursor stands afterwards.
    """

    outcomes: int = 0
    malformed: int = 0
    matched: int = 0
    unmatched: int = 0
    ambiguous: int = 0
    pending: int = 0
    retried: int = 0
    selected: int = 0
    recurred: int = 0
    avoided: int = 0
    cursor: int = 0

    def __add__(self, other: "Recorded") -> "Recorded":
        total = {name: value + getattr(other, name) for name, value in vars(self).items()}
        return Recorded(**total | {"cursor": max(self.cursor, other.cursor)})


@dataclass
class _Judging:
    """One call of `record`: what it counts and what it has read."""

    conn: sa.Connection
    scope_id: str
    now_us: int
    counts: dict[str, int] = field(default_factory=dict)
    touched: set[tuple[ArtifactRef, str]] = field(default_factory=set)
    known: dict[ArtifactRef, Tracked | None] = field(default_factory=dict)

    def tally(self, name: str, number: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + number

    def tracked(self, ref: ArtifactRef) -> Tracked | None:
        """What a revision tracks; None for one that tracks nothing or cannot be read."""
        if ref not in self.known:
            self.known[ref] = tracked_revision(self.conn, self.scope_id, ref)
        return self.known[ref]


def record(
    conn: sa.Connection,
    settings: Settings,
    scope_id: str,
    *,
    after: int,
    through: int,
    now_us: int,
) -> Recorded:
    """Judge the task outcomes at positions (after, through], in the caller's transaction.

    Each outcome is judged once, whoever asks and however often: by the `recurrence` consumer,
    by the incubation of the same window, or by a replay. Outcomes that waited for evidence are
    judged again when it is among these positions. The `recurrence` cursor is moved on if it
    stands in this range; reviews become due up to the cursor only. Reviews are not opened here:
    `recurrence_review` does that.

    Raises:
        ScopeNotFound: no such scope.
    """
    cursor = judgements.lock(conn, scope_id)
    judging = _Judging(conn, scope_id, now_us)
    retry = judgements.waiting_for(conn, scope_id, after=after, through=through, retried=RETRIED)
    for source in judgements.unjudged(conn, scope_id, after=after, through=through):
        judging.tally("outcomes")
        _judge_new(judging, source)
    for source in judgements.at(conn, scope_id, retry):
        judging.tally("retried")
        _judge_again(judging, source)
    reached = cursor
    if after <= cursor < through:
        cursors.advance(conn, scope_id, "recurrence", after=cursor, through=through, now_us=now_us)
        reached = through
        for event in recurrences.events_between(conn, scope_id, after=cursor, through=through):
            judging.touched.add((event.ref, event.cue_key))
    for ref, cue in sorted(judging.touched):
        streaks.walk(
            conn,
            scope_id,
            ref,
            cue,
            through=reached,
            threshold=settings.recurrence_threshold,
            now_us=now_us,
        )
    return Recorded(**judging.counts, cursor=reached)


def run(
    db: Database, settings: Settings, scope_id: str, *, now_us: int, most_windows: int | None = None
) -> Recorded:
    """Judge everything up to the log's end as it is now, a window a transaction.

    Args:
        most_windows: stop after so many; None for all.

    Raises:
        ScopeNotFound: no such scope.
    """
    total = Recorded()
    with db.read() as conn:
        end = sources.high_watermark(conn, scope_id)
    done = 0
    while most_windows is None or done < most_windows:
        with db.write() as conn:
            cursor = judgements.lock(conn, scope_id)
            through = min(end, cursor + settings.source_window_limit)
            total += record(
                conn,
                settings,
                scope_id,
                after=min(cursor, through),
                through=through,
                now_us=now_us,
            )
        done += 1
        if total.cursor >= end:
            break
    return total


def tracked_revision(conn: sa.Connection, scope_id: str, ref: ArtifactRef) -> Tracked | None:
    """What an exact revision tracks; None if it is absent, unreadable or tracks nothing."""
    try:
        held = artifacts.revision(conn, scope_id, ref.family, ref.artifact_id, ref.revision)
        content = experience.parse(held.content)
    except (ArtifactNotFound, InvalidInput):
        return None
    made_from = [
        SourceRef(**named)
        for kind, named in artifacts.lineage_of(conn, scope_id, ref)
        if kind == "source"
    ]
    return recurrence.tracked(ref, content, approved_at=held.log_position or 0, lineage=made_from)


def _judge_new(judging: _Judging, source: OutcomeSource) -> None:
    conn, scope_id = judging.conn, judging.scope_id
    told = _read(source)
    if isinstance(told, str):
        judging.tally("malformed")
        row = OutcomeRow(source.position, "malformed", None, None, told)
        judgements.put_outcome(conn, scope_id, row, now_us=judging.now_us)
        return
    mode: Mode = "scope_heads"
    receipt, problem = None, None
    if told.handoff_receipt_ref is not None:
        found = cited_by_receipt(
            conn, scope_id, told.handoff_receipt_ref.ref, before=source.position
        )
        if isinstance(found, str):
            problem = found
        else:
            mode, receipt = "receipt", found.position
    row = OutcomeRow(source.position, "judged", mode, receipt, problem)
    judgements.put_outcome(conn, scope_id, row, now_us=judging.now_us)
    _judge(judging, source, told, row, again=False)


def _judge_again(judging: _Judging, source: OutcomeSource) -> None:
    told = _read(source)
    row = judgements.judged(judging.conn, judging.scope_id, [source.position]).get(source.position)
    if row is not None and not isinstance(told, str):
        _judge(judging, source, told, row, again=True)


def _read(source: OutcomeSource) -> TaskOutcome | str:
    try:
        return outcome.loads(source.content)
    except InvalidInput as error:
        return error.message


def _judge(
    judging: _Judging, source: OutcomeSource, told: TaskOutcome, row: OutcomeRow, *, again: bool
) -> None:
    """Give the verdicts of an outcome that can be given now, and note what the others wait for."""
    conn, scope_id = judging.conn, judging.scope_id
    linked = _linked(judging, source, told) if row.mode == "receipt" else None
    stored = recurrences.matches(conn, scope_id, [source.position]) if again else {}
    waits: list[str] = []
    came_back: set[tuple[ArtifactRef, str]] = set()
    undecided: set[str] = set()
    for item in failure_items(told):
        known = stored.get((source.position, item.kind, item.index))
        if known is not None and known.result != "pending":
            if known.matched is not None:
                came_back.add((known.matched, known.cue_key))
            continue
        match = _matched(judging, source, item, linked)
        if match.result == "pending":
            waits.append(match.note or "")
            undecided.add(item.cue_key)
        _put_match(judging, source, item, match, row, again=known is not None)
        if match.matched is not None:
            came_back.add((match.matched.ref, match.matched.cue_key))
            _recurred(judging, source, item, match, row)
    for one in sorted(linked or (), key=lambda one: one.ref):
        if (one.ref, one.cue_key) not in came_back and one.cue_key not in undecided:
            waits += _avoided(judging, source, told, one, row)
    if waits or again:
        judgements.put_waits(conn, scope_id, source.position, waits, now_us=judging.now_us)


def _linked(judging: _Judging, source: OutcomeSource, told: TaskOutcome) -> list[Tracked]:
    """The tracked revisions that the outcome's receipt cites, each noted as selected."""
    assert told.handoff_receipt_ref is not None
    receipt = cited_by_receipt(
        judging.conn, judging.scope_id, told.handoff_receipt_ref.ref, before=source.position
    )
    assert not isinstance(receipt, str), "a receipt, once valid, stays so"
    found = [one for ref in receipt.experiences if (one := judging.tracked(ref)) is not None]
    for one in found:
        evidence = {"receipt": receipt.position}
        if _put_event(judging, source, "selected", one, evidence):
            judging.tally("selected")
    return found


def _matched(
    judging: _Judging, source: OutcomeSource, item: FailureItem, linked: Sequence[Tracked] | None
) -> Match:
    missing = missing_evidence(judging.conn, judging.scope_id, item.evidence)
    if missing is not None:
        return Match("pending", note=missing)
    if not item.cue_key:
        pool: list[Tracked | None] = []
    elif linked is None:
        pool = [judging.tracked(ref) for ref in _heads(judging, item.cue_key)]
    else:
        pool = list(linked)
    alike = [one for one in pool if one is not None and one.cue_key == item.cue_key]
    return recurrence.match(item, alike, outcome=source.ref, position=source.position)


def _heads(judging: _Judging, cue: str) -> list[ArtifactRef]:
    return experiences.with_cues(judging.conn, judging.scope_id, [cue]).get(cue, [])


def _put_match(
    judging: _Judging,
    source: OutcomeSource,
    item: FailureItem,
    match: Match,
    row: OutcomeRow,
    *,
    again: bool,
) -> None:
    assert row.mode is not None
    if not (again and match.result == "pending"):
        judging.tally(match.result)
    recurrences.put_match(
        judging.conn,
        judging.scope_id,
        source.position,
        item.kind,
        item.index,
        digest=item.digest,
        cue=item.cue_key,
        mode=row.mode,
        match=match,
        again=again,
        now_us=judging.now_us,
    )


def _recurred(
    judging: _Judging, source: OutcomeSource, item: FailureItem, match: Match, row: OutcomeRow
) -> None:
    assert match.matched is not None
    evidence = {"mode": row.mode, "item": [item.kind, item.index, item.digest]}
    if _put_event(judging, source, "recurred", match.matched, evidence):
        _count(judging, source, match.matched, "recurred")


def _avoided(
    judging: _Judging, source: OutcomeSource, told: TaskOutcome, one: Tracked, row: OutcomeRow
) -> list[str]:
    """Note an avoidance if the outcome shows one; return what that still waits for."""
    found = recurrence.avoidance(told, one)
    if isinstance(found, str) or one.founding(source.ref, source.position) is not None:
        return []
    shown = (*told.observations[found.condition].evidence, *told.checks[found.check].evidence)
    missing = missing_evidence(judging.conn, judging.scope_id, shown)
    if missing is not None:
        return [missing]
    evidence = {
        "receipt": row.receipt_position,
        "condition": ["observation", found.condition],
        "check": ["check", found.check],
    }
    if _put_event(judging, source, "avoided", one, evidence):
        _count(judging, source, one, "avoided")
    return []


def _put_event(
    judging: _Judging, source: OutcomeSource, event: str, one: Tracked, evidence: dict[str, Any]
) -> bool:
    name = [judging.scope_id, event, one.ref.artifact_id, one.ref.revision, one.cue_key]
    row = EventRow(
        event_id=strict_json.digest_prefixed("pc:event:v1", [*name, source.position, evidence]),
        event=event,
        ref=one.ref,
        cue_key=one.cue_key,
        position=source.position,
        evidence=evidence,
        voided=False,
        recorded_at=judging.now_us,
    )
    key = None
    if event != "selected":
        key = verdict_key(judging.scope_id, one.ref, one.cue_key, source.position)
    return recurrences.put_event(judging.conn, judging.scope_id, row, verdict_key=key)


def _count(judging: _Judging, source: OutcomeSource, one: Tracked, verdict: Verdict) -> None:
    judging.tally(verdict)
    judging.touched.add((one.ref, one.cue_key))
    streaks.count(
        judging.conn, judging.scope_id, one, verdict, source.position, now_us=judging.now_us
    )
