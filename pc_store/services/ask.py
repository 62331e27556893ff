"""Ask a proposer about a window, outside any transaction, and keep the answer for the commit."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from pc_store.domain.proposal import (
    Answered,
    Evidence,
    ProposerOf,
    Usage,
)
from pc_store.domain.refs import SourceRef
from pc_store.domain.source import Source
from pc_store.domain.text import digest
from pc_store.domain.window import OPEN
from pc_store.errors import (
    GenerationEnded,
    ModelAnsweredBadly,
    ModelError,
    ModelSilent,
    WindowRefused,
)
from pc_store.ledger import sources, windows
from pc_store.ledger.database import Database
from pc_store.ledger.windows import WindowRow
from pc_store.llm.asking import propose_all
from pc_store.services import recover, shadow
from pc_store.services.begin import lock_open, refuse_ended
from pc_store.services.clock import now_us as clock
from pc_store.services.consume import Family, KeptAnswer, P
from pc_store.services.instruct import Prompt, prompt_in_force
from pc_store.settings import Settings


def ask(
    family: Family[P, Any],
    db: Database,
    settings: Settings,
    proposer: ProposerOf[P],
    window_id: str,
) -> KeptAnswer[P]:
    """Show the window's eligible sources and what is related to them to the proposer.

    The answer is kept in the ledger, so that a retry of the commit does not pay for it again;
    an answer that was kept for the same model, prompt and sources is used as it is. With no
    eligible source nobody is asked. An answer that breaks a rule is kept too, for
    `settle.judge_window` to refuse.

    Raises:
        ModelError: no answer came; recorded with the window, of which nothing was written.
        CursorConflict: another run has ended the window.
        GenerationEnded, WindowRefused: as `shadow.pin`; recorded, and nobody was asked.
    """
    with db.read() as conn:
        window = windows.get(conn, window_id)
        prompt = prompt_in_force(conn, window.scope_id, family.prompt_key)
        basis = digest(f"{proposer.provider}\n{proposer.model}\n{prompt.label}\n{prompt.text}")
        kept = windows.draft(conn, window_id)
        if kept is not None and kept[0] == basis and not kept[1]["faulty"]:
            return family.from_json(kept[1], reused=True)
        shown_sources, filtered = _eligible(family, conn, window)
    try:
        _note_asking(db, window, prompt, provider=proposer.provider, model=proposer.model)
    except (GenerationEnded, WindowRefused) as error:
        recover.record_failure(db, settings, window_id, error)
        raise
    try:
        answer = _asked(family, db, settings, proposer, window, prompt, shown_sources, filtered)
    except ModelError as error:
        alive = False
        if isinstance(error, ModelSilent) and recover.is_last_straw(settings, window):
            alive, cost = _answers_another(proposer, prompt)
            error.usage = (error.usage or Usage()) + cost
        recover.record_failure(db, settings, window_id, error, alive=alive)
        raise
    now = clock()
    with db.write() as conn:
        # Locked, because another run of the same window may keep its answer at the same moment.
        window = windows.get(conn, window_id, lock=True)
        if answer.asked:
            windows.update(conn, window_id, answered_at=now)
            recover.add_usage(conn, window_id, answer.usage)
        if window.status in OPEN:
            told = family.to_json(answer)
            windows.put_draft(conn, window_id, basis=basis, answer=told, now_us=now)
    refuse_ended(window)
    return answer


def kept_answer(
    family: Family[P, Any], conn: sa.Connection, window_id: str
) -> KeptAnswer[P] | None:
    """The answer that waits to be judged and committed."""
    kept = windows.draft(conn, window_id)
    return family.from_json(kept[1]) if kept is not None else None


def _asked(
    family: Family[P, Any],
    db: Database,
    settings: Settings,
    proposer: ProposerOf[P],
    window: WindowRow,
    prompt: Prompt,
    shown_sources: list[Source],
    filtered: Mapping[str, int],
) -> KeptAnswer[P]:
    if not shown_sources:
        return KeptAnswer((), (), {}, {}, Usage(), None, filtered, asked=False)
    evidence = [
        family.evidence(f"e{ordinal}", source)
        for ordinal, source in enumerate(shown_sources, start=1)
    ]
    related = family.related(db, settings, window.scope_id, shown_sources)
    fault, faulty = None, False
    try:
        answer = propose_all(
            proposer,
            evidence,
            [entry for entry, _ in related],
            policy=prompt.text,
            budget_tokens=settings.prompt_token_budget,
            most=family.evidence_most,
        )
    except ModelAnsweredBadly as error:
        answer = Answered(tuple(error.salvage), error.usage or Usage(), tuple(error.rejected))
        fault, faulty = None if error.readable and error.rejected else error.message, True
    return KeptAnswer(
        proposals=answer.proposals,
        rejected=answer.rejected,
        evidence={
            item.evidence_id: SourceRef(item.source_type, item.source_id) for item in evidence
        },
        shown={entry.entry_id: version_id for entry, version_id in related},
        usage=answer.usage,
        fault=fault,
        filtered=filtered,
        asked=True,
        faulty=faulty,
        prompt_revision=prompt.ref.revision if prompt.ref else None,
        cues={item.evidence_id: item.cues for item in evidence},
    )


def _answers_another(proposer: ProposerOf[P], prompt: Prompt) -> tuple[bool, Usage]:
    """Whether the model answers a harmless source, and what that cost.

    If it does, its silence about a window's only source lies in that source. Without asking, a
    scope whose every other source waits behind this one could never tell.
    """
    harmless = Evidence("e1", "content", "probe", "The nightly build passed.")
    try:
        return True, proposer.propose([harmless], [], policy=prompt.text).usage
    except ModelAnsweredBadly as error:
        return True, error.usage or Usage()
    except ModelError as error:
        return False, error.usage or Usage()


def _eligible(
    family: Family[P, Any], conn: sa.Connection, window: WindowRow
) -> tuple[list[Source], dict[str, int]]:
    """The window's sources that may be shown, and how many may not, by reason."""
    now = clock()
    shown: list[Source] = []
    filtered: dict[str, int] = {}
    for source in sources.between(
        conn, window.scope_id, after=window.after, through=window.through
    ):
        why = family.passed_over(source, now_us=now)
        if why is None:
            shown.append(source)
        else:
            filtered[why] = filtered.get(why, 0) + 1
    return shown, filtered


def _note_asking(
    db: Database, window: WindowRow, prompt: Prompt, *, provider: str, model: str
) -> None:
    with db.write() as conn:
        lock_open(conn, window.window_id)
        shadow.pin(conn, window, prompt, provider=provider, model=model)
        windows.update(
            conn,
            window.window_id,
            status="running",
            provider=provider,
            model=model,
            prompt_key=prompt.key,
            prompt_revision=prompt.label,
        )
