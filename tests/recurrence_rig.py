"""A ledger with experiences that track failures, and the verbs that tests of recurrence need."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import sqlalchemy as sa

from pc_store.domain.candidate import Candidate, EvidenceRefs
from pc_store.domain.experience import parse
from pc_store.domain.outcome import parse as outcome_of
from pc_store.domain.refs import ArtifactRef, SourceRef
from pc_store.domain.source import new_source
from pc_store.ledger import candidates, recurrences, sources, streaks
from pc_store.ledger.database import Database
from pc_store.ledger.schema import (
    candidate_versions,
    cursors,
    recurrence_events,
    recurrence_matches,
    recurrence_outcomes,
    recurrence_streaks,
    recurrence_waits,
)
from pc_store.ledger.schema import candidates as candidate_rows
from pc_store.services import administer, capture, outcomes, recur, recurrence_review, review
from pc_store.services.propose import propose
from pc_store.settings import Settings

SCOPE = "orders"
CUE = "Amounts off by one cent"
CONDITION = "An amount text was imported"
CHECK = "amount round trip"
LOG = [{"kind": "source", "source_ref": {"source_type": "content", "source_id": "log"}}]


def late(source_id: str) -> list[dict[str, Any]]:
    """Evidence that is a source which may not be there yet."""
    return [{"kind": "source", "source_ref": {"source_type": "content", "source_id": source_id}}]


def content(cue: str = CUE, *, lesson: str = "Use Decimal.", **failure: Any) -> dict[str, Any]:
    """An experience that tracks a failure."""
    return {
        "situation": "CSV amounts are imported.",
        "action": "The text went through float.",
        "outcome": "One amount was off.",
        "lesson": lesson,
        "failure": {
            "signature": {"recall_cue": cue, "symptom": None},
            "repair_surface": "experience_content",
            "verification": {"condition": CONDITION, "check_subject": CHECK},
        }
        | failure,
    }


def told(
    *,
    status: str = "failed",
    checks: Sequence[dict[str, Any]] = (),
    observations: Sequence[dict[str, Any]] = ({"text": "It was tried."},),
    receipt: str | None = None,
) -> dict[str, Any]:
    """A task outcome."""
    ref = None if receipt is None else {"source_type": "content", "source_id": receipt}
    return {
        "objective": "Import the orders.",
        "status": status,
        "summary": "Done.",
        "handoff_receipt_ref": ref,
        "observations": list(observations),
        "checks": list(checks),
    }


def check(name: str, status: str = "failed", evidence: Any = LOG) -> dict[str, Any]:
    """A verified check; with no evidence a declared one."""
    basis = "verified" if evidence else "declared"
    return {"name": name, "status": status, "basis": basis, "evidence": list(evidence)}


def seen(text: str, evidence: Any = LOG) -> dict[str, Any]:
    """A verified observation; with no evidence a declared one."""
    basis = "verified" if evidence else "declared"
    return {"text": text, "basis": basis, "evidence": list(evidence)}


def avoiding(receipt: str | None, **changes: Any) -> dict[str, Any]:
    """An outcome that proves an avoidance."""
    values = {
        "status": "succeeded",
        "receipt": receipt,
        "observations": [seen(CONDITION)],
        "checks": [check(CHECK, "passed")],
    }
    return told(**values | changes)


@dataclass
class Ledger:
    """One ledger with the scope `orders`, whose log holds the source `log`."""

    db: Database
    settings: Settings
    now: int = 1_000_000
    made: int = field(default=0)

    def tick(self) -> int:
        """A moment later than any before."""
        self.now += 1_000
        return self.now

    def capture(self, source_id: str, text: str, metadata: dict[str, Any] | None = None) -> int:
        source = new_source(source_id, text, metadata)
        return capture.capture(self.db, SCOPE, source, now_us=self.tick()).position

    def outcome(self, value: dict[str, Any], source_id: str | None = None) -> int:
        """Record an outcome and return its position."""
        self.made += 1
        name = source_id or f"outcome-{self.made}"
        taken = outcomes.record_outcome(self.db, SCOPE, name, value, now_us=self.tick())
        return taken.position

    def raw(self, value: dict[str, Any], source_id: str) -> int:
        """Capture an outcome without the checks of the record route."""
        return self.capture(source_id, outcome_of(value).dumps(), {"kind": "task-outcome"})

    def receipt(self, *refs: ArtifactRef, name: str = "receipt-1") -> int:
        return outcomes.record_receipt(self.db, SCOPE, name, refs, now_us=self.tick()).position

    def fails(self, cue: str = CUE, **more: Any) -> int:
        """Record an outcome whose one verified check fails, named as the cue."""
        return self.outcome(told(checks=[check(cue)], **more))

    def experience(self, cue: str = CUE, **more: Any) -> ArtifactRef:
        """Have an experience approved, founded on an outcome of its own."""
        self.made += 1
        founding = f"founding-{self.made}"
        self.outcome(told(checks=[check(cue)]), founding)
        made = propose(
            self.db,
            SCOPE,
            parse(content(cue, **more)),
            EvidenceRefs(sources=(SourceRef("content", founding),)),
            now_us=self.tick(),
        )
        return self.approve(made)

    def approve(self, candidate: Candidate) -> ArtifactRef:
        done = review.approve(
            self.db,
            SCOPE,
            candidate.candidate_id,
            expected_version=candidate.version,
            now_us=self.tick(),
        )
        assert done.result is not None
        return done.result

    def change(self, candidate: Candidate, **more: Any) -> Candidate:
        """Revise a candidate: another lesson, or what is given."""
        return review.revise(
            self.db,
            SCOPE,
            candidate.candidate_id,
            expected_version=candidate.version,
            proposal=parse(content(**{"lesson": "Use Decimal from the first text on."} | more)),
            sources=candidate.evidence.sources,
            artifacts=candidate.evidence.artifacts,
            target=candidate.target,
            reason="changed",
            now_us=self.tick(),
        )

    def record(self, after: int, through: int) -> recur.Recorded:
        with self.db.write() as conn:
            return recur.record(
                conn, self.settings, SCOPE, after=after, through=through, now_us=self.tick()
            )

    def run(self) -> recur.Recorded:
        return recur.run(self.db, self.settings, SCOPE, now_us=self.tick())

    def review(self) -> list[recurrence_review.Reviewed]:
        return recurrence_review.review(self.db, self.settings, SCOPE, now_us=self.tick())

    def settle(self) -> list[recurrence_review.Reviewed]:
        """Judge all there is and open the reviews that are due."""
        self.run()
        return self.review()

    def streak(self, ref: ArtifactRef, cue_key: str = CUE.casefold()) -> int:
        with self.db.read() as conn:
            row = streaks.get(conn, SCOPE, ref, cue_key)
        return row.streak if row else 0

    def row(self, ref: ArtifactRef, cue_key: str = CUE.casefold()) -> streaks.StreakRow:
        with self.db.read() as conn:
            row = streaks.get(conn, SCOPE, ref, cue_key)
        assert row is not None
        return row

    def verdicts(self) -> list[tuple[int, str, str, int]]:
        """(position, event, artifact id, revision) of all verdicts, by position."""
        with self.db.read() as conn:
            found = recurrences.events_between(conn, SCOPE, after=0, through=10**9)
        return [
            (one.position, one.event, one.ref.artifact_id, one.ref.revision)
            for one in found
            if not one.voided
        ]

    def results(self) -> dict[tuple[int, str, int], str]:
        """The result of each failing item, by (position, kind, index)."""
        return {name: row.result for name, row in self.matches().items()}

    def matches(self) -> dict[tuple[int, str, int], recurrences.MatchRow]:
        with self.db.read() as conn:
            return recurrences.matches(conn, SCOPE, range(1, self.end() + 1))

    def end(self) -> int:
        with self.db.read() as conn:
            return sources.high_watermark(conn, SCOPE)

    def reviews(self) -> list[Candidate]:
        """Every candidate that recurrence made, oldest first."""
        with self.db.read() as conn:
            return candidates.page(conn, SCOPE, origin="recurrence", limit=1_000)

    def forget(self) -> None:
        """Forget all that recurrence ever recorded, its reviews and its cursor."""
        with self.db.write() as conn:
            for table in (
                recurrence_events,
                recurrence_matches,
                recurrence_outcomes,
                recurrence_streaks,
                recurrence_waits,
            ):
                conn.execute(sa.delete(table))
            made = sa.select(candidate_rows.c.candidate_id).where(
                candidate_rows.c.origin == "recurrence"
            )
            for rows in (candidate_versions, candidate_rows):
                conn.execute(sa.delete(rows).where(rows.c.candidate_id.in_(made)))
            conn.execute(
                sa.update(cursors).where(cursors.c.consumer == "recurrence").values(position=0)
            )

    def ledger(self) -> dict[str, list[tuple[Any, ...]]]:
        """All that was recorded, without the times and what only says how far walks went."""
        with self.db.read() as conn:
            return {
                table.name: sorted(
                    tuple(
                        str(getattr(row, column.name))
                        for column in table.columns
                        if column.name not in ("decided_at", "recorded_at", "updated_at")
                    )
                    for row in conn.execute(sa.select(table))
                )
                for table in (recurrence_matches, recurrence_events, recurrence_streaks)
            }


@pytest.fixture
def ledger(db: Database) -> Ledger:
    """A ledger with one scope and a source that serves as evidence."""
    return make_ledger(db)


def make_ledger(db: Database, **settings: Any) -> Ledger:
    """A ledger on a database, with one scope and a source that serves as evidence."""
    administer.create_scope(db, SCOPE, now_us=1)
    made = Ledger(db, Settings(**settings))
    made.capture("log", "The log of the run.")
    return made
