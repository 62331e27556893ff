"""Memory extraction: what the memory makes of a window of the log, and whole runs of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

import sqlalchemy as sa

from pc_store.domain.entry import Draft
from pc_store.domain.proposal import Proposal, Proposer, ShownEntry
from pc_store.domain.refs import PROMPT_FAMILY, ArtifactRef
from pc_store.domain.source import Source, ineligible
from pc_store.domain.verdict import CHECKS, Verdict, check_of, judge
from pc_store.domain.window import Consumer, WindowKey
from pc_store.ledger import entries
from pc_store.ledger.database import Database
from pc_store.ledger.windows import WindowRow
from pc_store.services import settle, shadow
from pc_store.services.begin import Mode
from pc_store.services.commit import commit_drafts, lock_memory
from pc_store.services.consume import Family, KeptAnswer, Made, Written
from pc_store.services.instruct import MEMORY_EXTRACT
from pc_store.services.settle import Processed as Processed
from pc_store.services.settle import new_run_id as new_run_id
from pc_store.settings import Settings


class _Memory(Family[Proposal, Draft]):
    """The memory of a scope, which changes with every window."""

    consumer: ClassVar[Consumer] = "memory"
    prompt_key: ClassVar[str] = MEMORY_EXTRACT
    checks: ClassVar[Mapping[str, str]] = {str(name): told for name, told in CHECKS.items()}

    def passed_over(self, source: Source, *, now_us: int) -> str | None:
        """As `source.ineligible`."""
        return ineligible(source, now_us=now_us)

    def related(
        self, db: Database, settings: Settings, scope_id: str, shown: Sequence[Source]
    ) -> list[tuple[ShownEntry, str]]:
        """The entries that are nearest to what the sources say."""
        from pc_store.services import find

        found = find.relevant(
            db,
            settings,
            scope_id,
            [source.content for source in shown],
            limit=settings.shown_entries,
        )
        return [
            (ShownEntry(entry.entry_id, entry.kind, entry.text), entry.entry_version_id)
            for entry in found
        ]

    def dump(self, proposal: Proposal) -> dict[str, Any]:
        """Every field."""
        return asdict(proposal)

    def load(self, kept: Mapping[str, Any]) -> Proposal:
        """Read what `dump` wrote."""
        return Proposal(**{**kept, "evidence_ids": tuple(kept["evidence_ids"])})

    def judge(self, settings: Settings, kept: KeptAnswer[Proposal]) -> Verdict[Draft]:
        """As `verdict.judge`."""
        return judge(
            kept.proposals,
            evidence=kept.evidence,
            shown=kept.shown,
            refuse_secrets=settings.secret_detection,
        )

    def check_of(self, rule: str) -> str:
        """As `verdict.check_of`."""
        return check_of(rule)

    def lock(self, conn: sa.Connection, scope_id: str) -> None:
        """Lock the memory's head."""
        lock_memory(conn, scope_id)

    def write(
        self,
        conn: sa.Connection,
        settings: Settings,
        window: WindowRow,
        kept: KeptAnswer[Proposal],
        verdict: Verdict[Draft],
        *,
        now_us: int,
    ) -> Written:
        """Write the memory's next revision, if anything changes; of a shadow, keep its drafts."""
        if window.kind == "shadow":
            return Written({"kept": shadow.keep(conn, window, kept, verdict.kept)})
        own = kept.prompt_revision
        done = commit_drafts(
            conn,
            window.scope_id,
            verdict.kept,
            origin="extraction" if window.kind == "live" else "replay",
            now_us=now_us,
            budget=settings.memory_budget,
            shown=kept.shown,
            window_id=window.window_id,
            lineage_sources=list(kept.evidence.values()),
            lineage_artifacts=[ArtifactRef(PROMPT_FAMILY, self.prompt_key, own)] if own else [],
        )
        counts = {
            "added": done.count("add"),
            "revised": done.count("revise"),
            "unchanged": len(done.dropped),
        }
        return Written(counts, memory_revision=done.revision)

    def made(self, conn: sa.Connection, window: WindowRow) -> Made:
        """The memory as it is now, if the window showed any source; of a shadow nothing."""
        if window.kind == "shadow":
            return Made()
        head = entries.head(conn, window.scope_id)
        asked = (window.counts or {}).get("sources", 0) > 0
        return Made(ArtifactRef("memory", "memory", head) if head and asked else None)


MEMORY: Family[Proposal, Draft] = _Memory()


def flush(
    db: Database,
    settings: Settings,
    proposer: Proposer,
    scope_id: str,
    *,
    run_id: str | None = None,
) -> Processed:
    """Process the scope's next window, now. Raises as `settle.run_next`."""
    return settle.run_next(MEMORY, db, settings, proposer, scope_id, run_id=run_id)


def drain(
    db: Database,
    settings: Settings,
    proposer: Proposer,
    scope_id: str,
    *,
    budget_s: float,
    run_id: str | None = None,
    on_window: Callable[[Processed], None] = lambda _: None,
) -> list[Processed]:
    """Process windows until the log's present end, or time is up. As `settle.run_all`."""
    return settle.run_all(
        MEMORY,
        db,
        settings,
        proposer,
        scope_id,
        budget_s=budget_s,
        run_id=run_id,
        on_window=on_window,
    )


def replay(
    db: Database,
    settings: Settings,
    proposer: Proposer,
    key: WindowKey,
    *,
    mode: Mode = "replay",
    generation: str | None = None,
    run_id: str | None = None,
) -> Processed:
    """Run a named window again, or live when it is the next. As `settle.run_named`."""
    return settle.run_named(
        MEMORY,
        db,
        settings,
        proposer,
        key,
        mode=mode,
        generation=generation,
        run_id=run_id,
    )
