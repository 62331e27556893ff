"""Incubation: candidates for experiences from the task outcomes in a window of the log.

Candidates, the recurrences of the same outcomes and the cursor are written in one transaction.
Nothing here approves anything: candidates wait for people.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import sqlalchemy as sa

from pc_store import limits
from pc_store.domain import experience, outcome
from pc_store.domain.candidate import EvidenceRefs, fingerprint
from pc_store.domain.experience_proposal import ExperienceProposal, ExperienceProposer, cues_of
from pc_store.domain.experience_verdict import (
    EXPERIENCE_CHECKS,
    ExperienceCheck,
    ExperienceDraft,
    experience_check_of,
    judge_experiences,
)
from pc_store.domain.proposal import Evidence, Rejected
from pc_store.domain.refs import PROMPT_FAMILY, ArtifactRef, new_id
from pc_store.domain.source import Source, ineligible
from pc_store.domain.verdict import Verdict
from pc_store.domain.window import Consumer, WindowKey
from pc_store.errors import Conflict, InvalidEvidence, InvalidInput, NotFound, SecretDetected
from pc_store.ledger import candidates, cursors
from pc_store.ledger.database import Database
from pc_store.ledger.windows import WindowRow
from pc_store.llm.experience_providers import experience_author as experience_author
from pc_store.services import recur, settle
from pc_store.services.begin import Mode
from pc_store.services.consume import Family, KeptAnswer, Made, Written
from pc_store.services.instruct import EXPERIENCE_INCUBATE
from pc_store.services.propose import known_fingerprints, propose_in
from pc_store.services.settle import Processed
from pc_store.settings import Settings


class _Experience(Family[ExperienceProposal, ExperienceDraft]):
    """The candidates of a scope, which people decide on."""

    consumer: ClassVar[Consumer] = "experience"
    prompt_key: ClassVar[str] = EXPERIENCE_INCUBATE
    checks: ClassVar[Mapping[str, str]] = EXPERIENCE_CHECKS
    evidence_most: ClassVar[int | None] = limits.INCUBATION_EVIDENCE_MAX

    def passed_over(self, source: Source, *, now_us: int) -> str | None:
        """All but unexpired texts whose metadata says they are task outcomes.

        Whether one is well-formed does not matter: a malformed one is shown as the text it is.
        """
        why = ineligible(source, now_us=now_us)
        if why is None and source.metadata.get("kind") != outcome.KIND:
            why = "no task outcome"
        return why

    def evidence(self, evidence_id: str, source: Source) -> Evidence:
        """The outcome as text, with the failures it verifies."""
        return replace(super().evidence(evidence_id, source), cues=cues_of(source.content))

    def dump(self, proposal: ExperienceProposal) -> dict[str, Any]:
        """Content and evidence ids."""
        return proposal.to_json()

    def load(self, kept: Mapping[str, Any]) -> ExperienceProposal:
        """Read what `dump` wrote."""
        return ExperienceProposal(experience.parse(kept["content"]), tuple(kept["evidence_ids"]))

    def judge(
        self, settings: Settings, kept: KeptAnswer[ExperienceProposal]
    ) -> Verdict[ExperienceDraft]:
        """As `judge_experiences`."""
        return judge_experiences(
            kept.proposals,
            evidence=kept.evidence,
            cues=kept.cues,
            refuse_secrets=settings.secret_detection,
        )

    def check_of(self, rule: str) -> str:
        """As `experience_check_of`."""
        return experience_check_of(rule)

    def lock(self, conn: sa.Connection, scope_id: str) -> None:
        """Lock the cursor, so that two commits do not make the same candidate."""
        cursors.get(conn, scope_id, self.consumer, lock=True)

    def write(
        self,
        conn: sa.Connection,
        settings: Settings,
        window: WindowRow,
        kept: KeptAnswer[ExperienceProposal],
        verdict: Verdict[ExperienceDraft],
        *,
        now_us: int,
    ) -> Written:
        """Insert the candidates that are new, and judge the window's outcomes for recurrence.

        A candidate equal in content and set of evidence to one that the scope has or had, at any
        version and whatever was decided of it, is passed over. One that the ledger refuses is
        rejected by itself, the others are written.
        """
        own = kept.prompt_revision
        prompts = (ArtifactRef(PROMPT_FAMILY, self.prompt_key, own),) if own else ()
        offered = [
            (draft, EvidenceRefs(draft.sources, prompts), fingerprint(draft.content, cited))
            for draft in verdict.kept
            for cited in [EvidenceRefs(draft.sources)]
        ]
        seen = set(known_fingerprints(conn, window.scope_id, [mark for _, _, mark in offered]))
        rejected: list[Rejected] = []
        created = known = 0
        for draft, evidence, mark in offered:
            if mark in seen:
                known += 1
                continue
            seen.add(mark)
            try:
                with conn.begin_nested():
                    propose_in(
                        conn,
                        window.scope_id,
                        draft.content,
                        evidence,
                        reason=f"incubated from positions {window.after + 1} to {window.through}",
                        origin="incubation",
                        now_us=now_us,
                        candidate_id=new_id("cand_", at_us=now_us, ordinal=created),
                        window_id=window.window_id,
                        refuse_secrets=settings.secret_detection,
                    )
            except (InvalidInput, NotFound, Conflict) as error:
                rejected.append(Rejected(draft.ordinal, _check_of(error), error.message))
            else:
                created += 1
        counts = {"created": created, "known": known}
        if window.kind == "live":
            judged = recur.record(
                conn,
                settings,
                window.scope_id,
                after=window.after,
                through=window.through,
                now_us=now_us,
            )
            counts |= {"recurred": judged.recurred, "avoided": judged.avoided}
        return Written(counts, tuple(rejected))

    def made(self, conn: sa.Connection, window: WindowRow) -> Made:
        """The candidates that the window made."""
        return Made(
            candidate_ids=tuple(candidates.of_window(conn, window.scope_id, window.window_id))
        )


EXPERIENCE: Family[ExperienceProposal, ExperienceDraft] = _Experience()


def incubate(
    db: Database,
    settings: Settings,
    proposer: ExperienceProposer,
    scope_id: str,
    *,
    run_id: str | None = None,
) -> Processed:
    """Process the scope's next experience window, now. Raises as `settle.run_next`."""
    return settle.run_next(EXPERIENCE, db, settings, proposer, scope_id, run_id=run_id)


def drain_experience(
    db: Database,
    settings: Settings,
    proposer: ExperienceProposer,
    scope_id: str,
    *,
    budget_s: float,
    run_id: str | None = None,
    on_window: Callable[[Processed], None] = lambda _: None,
) -> list[Processed]:
    """Process windows until the log's present end, or time is up. As `settle.run_all`."""
    return settle.run_all(
        EXPERIENCE,
        db,
        settings,
        proposer,
        scope_id,
        budget_s=budget_s,
        run_id=run_id,
        on_window=on_window,
    )


def replay_experience(
    db: Database,
    settings: Settings,
    proposer: ExperienceProposer,
    key: WindowKey,
    *,
    mode: Mode = "replay",
    run_id: str | None = None,
) -> Processed:
    """Run a named window again, or live when it is the next. As `settle.run_named`."""
    return settle.run_named(EXPERIENCE, db, settings, proposer, key, mode=mode, run_id=run_id)


def _check_of(error: InvalidInput | NotFound | Conflict) -> ExperienceCheck:
    """The check that a refusal of the ledger belongs to."""
    if isinstance(error, SecretDetected):
        return "no_secret_in_text"
    if error.details.get("rule") == "failure":
        return "failures_are_supported"
    if isinstance(error, InvalidEvidence | NotFound):
        return "evidence_ids_resolve"
    return "every_proposal_is_well_formed"
