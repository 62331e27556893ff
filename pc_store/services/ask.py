"""Ask a proposer about a window, outside any transaction, and keep the answer for the commit."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from pc_store.domain.proposal import (
    Answer,
    Evidence,
    Proposal,
    Proposer,
    Rejected,
    ShownEntry,
    Usage,
)
from pc_store.domain.refs import SourceRef
from pc_store.domain.source import Source, ineligible
from pc_store.domain.text import digest
from pc_store.domain.window import OPEN
from pc_store.errors import ModelAnsweredBadly, ModelError, ModelSilent
from pc_store.ledger import sources, windows
from pc_store.ledger.database import Database
from pc_store.ledger.windows import WindowRow
from pc_store.llm.asking import propose_all
from pc_store.services import find, recover
from pc_store.services.begin import lock_open, refuse_ended
from pc_store.services.clock import now_us as clock
from pc_store.services.instruct import MEMORY_EXTRACT, Prompt, prompt_in_force
from pc_store.settings import Settings


@dataclass(frozen=True)
class KeptAnswer:
    """An answer between asking and committing.

    Attributes:
        evidence: the sources behind the evidence ids that were shown.
        shown: the entries that were shown, and the version of each.
        rejected: proposals that the provider's edge could not accept.
        fault: why nothing could be read from the answer; None when it could.
        faulty: the answer broke a rule. One that did not may still have rejected proposals:
            of two calls that revise the same entry, the second's.
        filtered: positions passed over, by reason.
        prompt_revision: of the scope's own prompt that was sent; None for the packaged one.
    """

    proposals: tuple[Proposal, ...]
    rejected: tuple[Rejected, ...]
    evidence: Mapping[str, SourceRef]
    shown: Mapping[str, str]
    usage: Usage
    fault: str | None
    filtered: Mapping[str, int]
    asked: bool
    faulty: bool = False
    prompt_revision: int | None = None
    reused: bool = False

    def to_json(self) -> dict[str, Any]:
        """The form the ledger keeps."""
        return {
            "proposals": [asdict(item) for item in self.proposals],
            "rejected": [asdict(item) for item in self.rejected],
            "evidence": {
                name: [ref.source_type, ref.source_id] for name, ref in self.evidence.items()
            },
            "shown": dict(self.shown),
            "usage": asdict(self.usage),
            "fault": self.fault,
            "filtered": dict(self.filtered),
            "asked": self.asked,
            "faulty": self.faulty,
            "prompt_revision": self.prompt_revision,
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any], *, reused: bool = False) -> "KeptAnswer":
        """Read what `to_json` wrote."""
        return cls(
            proposals=tuple(
                Proposal(**{**item, "evidence_ids": tuple(item["evidence_ids"])})
                for item in kept["proposals"]
            ),
            rejected=tuple(Rejected(**item) for item in kept["rejected"]),
            evidence={name: SourceRef(*pair) for name, pair in kept["evidence"].items()},
            shown=kept["shown"],
            usage=Usage(**kept["usage"]),
            fault=kept["fault"],
            filtered=kept["filtered"],
            asked=kept["asked"],
            faulty=kept["faulty"],
            prompt_revision=kept["prompt_revision"],
            reused=reused,
        )


def ask(db: Database, settings: Settings, proposer: Proposer, window_id: str) -> KeptAnswer:
    """Show the window's eligible sources and the related entries to the proposer.

    The answer is kept in the ledger, so that a retry of the commit does not pay for it again;
    an answer that was kept for the same model, prompt and sources is used as it is. With no
    eligible source nobody is asked. An answer that breaks a rule is kept too, for `judge` to
    refuse.

    Raises:
        ModelError: no answer came; recorded with the window, cursor and memory untouched.
        CursorConflict: another run has ended the window.
    """
    with db.read() as conn:
        window = windows.get(conn, window_id)
        prompt = prompt_in_force(conn, window.scope_id, MEMORY_EXTRACT)
        basis = digest(f"{proposer.provider}\n{proposer.model}\n{prompt.label}\n{prompt.text}")
        kept = windows.draft(conn, window_id)
        if kept is not None and kept[0] == basis and not kept[1]["faulty"]:
            return KeptAnswer.from_json(kept[1], reused=True)
        shown_sources, filtered = _eligible(conn, window)
    _note_asking(db, window, proposer, prompt)
    try:
        answer = _asked(db, settings, proposer, window, prompt, shown_sources, filtered)
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
            windows.put_draft(conn, window_id, basis=basis, answer=answer.to_json(), now_us=now)
    refuse_ended(window)
    return answer


def kept_answer(conn: sa.Connection, window_id: str) -> KeptAnswer | None:
    """The answer that waits to be judged and committed."""
    kept = windows.draft(conn, window_id)
    return KeptAnswer.from_json(kept[1]) if kept is not None else None


def _asked(
    db: Database,
    settings: Settings,
    proposer: Proposer,
    window: WindowRow,
    prompt: Prompt,
    shown_sources: list[Source],
    filtered: Mapping[str, int],
) -> KeptAnswer:
    if not shown_sources:
        return KeptAnswer((), (), {}, {}, Usage(), None, filtered, asked=False)
    evidence = [
        Evidence(
            f"e{ordinal}", source.source_type, source.source_id, source.content, source.metadata
        )
        for ordinal, source in enumerate(shown_sources, start=1)
    ]
    related = find.relevant(
        db,
        settings.index_path,
        window.scope_id,
        [source.content for source in shown_sources],
        limit=settings.shown_entries,
    )
    entries = [ShownEntry(entry.entry_id, entry.kind, entry.text) for entry in related]
    fault, faulty = None, False
    try:
        answer = propose_all(
            proposer,
            evidence,
            entries,
            policy=prompt.text,
            budget_tokens=settings.prompt_token_budget,
        )
    except ModelAnsweredBadly as error:
        answer = Answer(tuple(error.salvage), error.usage or Usage(), tuple(error.rejected))
        fault, faulty = None if error.readable and error.rejected else error.message, True
    return KeptAnswer(
        proposals=answer.proposals,
        rejected=answer.rejected,
        evidence={
            item.evidence_id: SourceRef(item.source_type, item.source_id) for item in evidence
        },
        shown={entry.entry_id: entry.entry_version_id for entry in related},
        usage=answer.usage,
        fault=fault,
        filtered=filtered,
        asked=True,
        faulty=faulty,
        prompt_revision=prompt.ref.revision if prompt.ref else None,
    )


def _answers_another(proposer: Proposer, prompt: Prompt) -> tuple[bool, Usage]:
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


def _eligible(conn: sa.Connection, window: WindowRow) -> tuple[list[Source], dict[str, int]]:
    """The window's sources that may be shown, and how many may not, by reason."""
    now = clock()
    shown: list[Source] = []
    filtered: dict[str, int] = {}
    for source in sources.between(
        conn, window.scope_id, after=window.after, through=window.through
    ):
        why = ineligible(source, now_us=now)
        if why is None:
            shown.append(source)
        else:
            filtered[why] = filtered.get(why, 0) + 1
    return shown, filtered


def _note_asking(db: Database, window: WindowRow, proposer: Proposer, prompt: Prompt) -> None:
    with db.write() as conn:
        lock_open(conn, window.window_id)
        windows.update(
            conn,
            window.window_id,
            status="running",
            provider=proposer.provider,
            model=proposer.model,
            prompt_key=prompt.key,
            prompt_revision=prompt.label,
        )
