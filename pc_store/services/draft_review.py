"""Have a model draft the change that a review of a failure that keeps coming back asks for.

Reviews are opened without a model, as copies that nobody can approve. This comes after it, and may
fail: a draft is the review's next version, written only if the review is still as the model was
shown it, and never once a person has written into it. An attempt is counted before the model is
asked, so that a crash counts, too, and a model that never answers is not asked for ever.
"""

import time
from dataclasses import dataclass, field, replace
from typing import Literal

from pc_store import limits
from pc_store.domain.candidate import Candidate
from pc_store.domain.experience import parse
from pc_store.domain.experience_proposal import Exhibit, Redraft, ReviewDrafter
from pc_store.domain.proposal import Usage
from pc_store.domain.recurrence import draft_author, drafted_reason, untouched
from pc_store.domain.secret import find_secret
from pc_store.errors import (
    ArtifactConflict,
    ArtifactInactive,
    CandidateConflict,
    CandidateTerminal,
    InvalidInput,
    ModelError,
)
from pc_store.ledger import candidates, review_drafts, scopes, sources
from pc_store.ledger.database import Database
from pc_store.ledger.review_drafts import DraftRow
from pc_store.llm.experience_providers import redraft_room_tokens, review_drafter
from pc_store.services.clock import now_us as clock
from pc_store.services.exhibits import fitting, of_artifact, of_source
from pc_store.services.read_artifacts import read_artifact
from pc_store.services.review import revise_in
from pc_store.settings import Settings

AT_ONCE = 100
"""Most reviews looked at in one call."""
_PAUSE_GROWS = 20
"""After a first failure the pause is so many times `PC_RETRY_BASE_S`, then that many times more."""
_MILLION = 1_000_000
_UNTOLD = "the model gave a reason that holds a credential"

Done = Literal["drafted", "unsupported", "failed", "overtaken"]


@dataclass(frozen=True)
class Drafted:
    """What came of asking for a draft.

    Attributes:
        done: the review was `drafted`, as `version`; `unsupported`: the model says that the
            outcomes do not show what to change; `failed`: nothing usable came back; `overtaken`:
            the review was changed or decided meanwhile, and stays as it is. `why` says more.
        attempts: made on this evidence; after 3 that failed no more are.
    """

    candidate_id: str
    done: Done
    attempts: int
    version: int | None = None
    why: str | None = None
    usage: Usage = field(default_factory=Usage)


def draft_reviews(
    db: Database, settings: Settings, scope_id: str, *, budget_s: float, early: bool = False
) -> list[Drafted]:
    """Ask for the drafts that a scope's open reviews want, one after another.

    None is asked for where no model is configured, or `PC_RECURRENCE_DRAFT` is off. A model that
    fails is told of in the answer and raises nothing.

    Args:
        budget_s: none is begun after so many seconds; one is.
        early: those that failed are asked for again before their pause is over.

    Raises:
        ScopeNotFound: no such scope.
    """
    started = time.monotonic()
    with db.read() as conn:
        scopes.get(conn, scope_id)
        waiting = review_drafts.due(
            conn,
            scope_id,
            attempts_max=limits.DRAFT_ATTEMPTS_MAX,
            now_us=clock(),
            early=early,
            limit=AT_ONCE,
        )
    made: list[Drafted] = []
    for row in waiting if settings.drafts_reviews else ():
        if made and time.monotonic() - started >= budget_s:
            break
        if (begun := _begun(db, settings, row)) is not None:
            made.append(_asked(db, settings, *begun))
    return made


def due_drafts(
    db: Database, settings: Settings, *, scope_id: str | None = None, now_us: int, limit: int
) -> list[str]:
    """Scopes with a review that wants a draft now, the longest due first; or the one, if it has."""
    if not settings.drafts_reviews:
        return []
    with db.read() as conn:
        waiting = review_drafts.due(
            conn,
            scope_id,
            attempts_max=limits.DRAFT_ATTEMPTS_MAX,
            now_us=now_us,
            limit=limit * AT_ONCE,
        )
    return list(dict.fromkeys(row.scope_id for row in waiting))[:limit]


def _begun(db: Database, settings: Settings, seen: DraftRow) -> tuple[DraftRow, Candidate] | None:
    """Count an attempt, and pin what it is shown; None when there is nothing to ask for."""
    with db.write() as conn:
        review = candidates.lock(conn, seen.scope_id, seen.candidate_id)
        now = clock()
        versions = candidates.versions(conn, seen.scope_id, seen.candidate_id)
        if review.version != seen.version or not untouched(one.author for one in versions):
            why = "somebody has written into the review"
            review_drafts.end(conn, seen, "overtaken", why=why, now_us=now)
            return None
        # A call with its re-ask and a last silence takes three times the timeout at most.
        until = now + int((3 * settings.llm_timeout_s + settings.lease_s) * _MILLION)
        model = f"{settings.provider}:{settings.llm_model or ''}"
        if not review_drafts.begin(conn, seen, model=model, until_us=until, now_us=now):
            return None
        asked = replace(seen, status="asked", attempts=seen.attempts + 1, model=model)
        return asked, review


def _asked(db: Database, settings: Settings, row: DraftRow, review: Candidate) -> Drafted:
    usage = Usage()
    try:
        drafter = review_drafter(settings)
        assert drafter is not None  # the settings say that there is one
        made = _redraft(db, settings, drafter, review)
        usage = made.usage
        if made.content is None:
            return _ended(db, row, "unsupported", _kept(settings, made.reason), usage)
        return _committed(db, settings, row, review, made)
    except ModelError as error:
        return _failed(db, settings, row, error.message, error.usage or usage)
    except (CandidateConflict, CandidateTerminal, ArtifactConflict, ArtifactInactive) as error:
        return _ended(db, row, "overtaken", error.message, usage)
    except InvalidInput as error:
        return _failed(db, settings, row, f"the draft was refused: {error.message}", usage)


def _redraft(
    db: Database, settings: Settings, drafter: ReviewDrafter, review: Candidate
) -> Redraft:
    target = review.target
    assert target is not None  # every review has one
    scope_id = review.scope_id
    with db.read() as conn:
        held = sources.some(conn, scope_id, review.evidence.sources)
    now = read_artifact(db, scope_id, target.family, target.artifact_id, revision=target.revision)
    outcomes = sorted(held.values(), key=lambda source: source.position)
    shown: list[Exhibit] = [of_artifact(now), *(of_source(one) for one in outcomes)]
    room = redraft_room_tokens(settings)
    fitted = fitting(shown, room, budget_tokens=settings.prompt_token_budget)
    return drafter.redraft(fitted, target=parse(now.content))


def _committed(
    db: Database, settings: Settings, row: DraftRow, review: Candidate, made: Redraft
) -> Drafted:
    """Make a draft the review's next version, if the review is as it was shown."""
    assert made.content is not None and row.model is not None  # noqa: PT018 - it was asked
    named = {f"source:{ref.source_type}/{ref.source_id}": ref for ref in review.evidence.sources}
    reason = drafted_reason(
        review.reason or "",
        model=row.model,
        records=[named[one].source_id for one in made.evidence_ids],
        told=made.reason,
    )
    with db.write() as conn:
        written = revise_in(
            conn,
            review.scope_id,
            review.candidate_id,
            expected_version=review.version,
            proposal=made.content,
            sources=review.evidence.sources,
            artifacts=review.evidence.artifacts,
            target=review.target,
            reason=reason,
            author=draft_author(row.model),
            refuse_secrets=settings.secret_detection,
            now_us=clock(),
        )
        review_drafts.end(conn, row, "drafted", now_us=clock())
        review_drafts.spend(conn, row, made.usage)
    return Drafted(
        row.candidate_id, "drafted", row.attempts, version=written.version, usage=made.usage
    )


def _failed(db: Database, settings: Settings, row: DraftRow, why: str, usage: Usage) -> Drafted:
    """Let a draft wait for its next attempt, if there is one."""
    pause_s = min(settings.retry_cap_s, settings.retry_base_s * _PAUSE_GROWS**row.attempts)
    due = clock() + int(pause_s * _MILLION)
    return _ended(db, row, "failed", why, usage, due_us=due)


def _ended(
    db: Database, row: DraftRow, done: Done, why: str, usage: Usage, *, due_us: int = 0
) -> Drafted:
    with db.write() as conn:
        review_drafts.end(conn, row, done, why=why, due_us=due_us, now_us=clock())
        review_drafts.spend(conn, row, usage)
    return Drafted(row.candidate_id, done, row.attempts, why=why, usage=usage)


def _kept(settings: Settings, told: str) -> str:
    """A model's reason as the ledger may keep it."""
    return _UNTOLD if settings.secret_detection and find_secret(told) else told
