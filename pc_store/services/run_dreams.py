"""Work on dreams: claim one, ask the model once, and write what came of it.

A claim is held by a worker that gives signs of life; if these end, another takes the dream over,
and the attempt that was lost counts. What is proposed, and that the dream has ended, is written in
one transaction under the claim, so no dream proposes twice, however its workers end.
"""

from dataclasses import replace

import sqlalchemy as sa

from pc_store.domain.candidate import EvidenceRefs, fingerprint
from pc_store.domain.dream_graph import Graph
from pc_store.domain.dream_run import Dreamer, DreamRun, DreamUsage, Outcome, Plan
from pc_store.domain.evidence_graph import evidence_id
from pc_store.domain.principal import RUNTIME
from pc_store.domain.proposal import Usage
from pc_store.domain.secret import find_secret
from pc_store.dream_refusals import AccessRevoked, AccessUnavailable, ReferenceNotFound
from pc_store.errors import (
    Conflict,
    InvalidCitation,
    InvalidEvidence,
    InvalidInput,
    InvalidProposal,
    ModelAnsweredBadly,
    ModelError,
    ModelMisconfigured,
    ModelSilent,
    ModelUnavailable,
    SecretDetected,
    StoreError,
)
from pc_store.ledger import candidates, dreams, experiences
from pc_store.ledger.database import Database
from pc_store.llm.dream_providers import PROMPT_VERSION, dreamer, model_id, prompt_room_tokens
from pc_store.services.allow import refuse_revoked
from pc_store.services.clock import now_us as clock
from pc_store.services.dream import refuse_moved
from pc_store.services.dream_evidence import assemble
from pc_store.services.propose import propose_in
from pc_store.settings import Settings

PAUSE_S = 5.0
"""Before a second attempt after a fault of the model's; `PC_RETRY_BASE_S` if that is less."""
UNSUPPORTED = (
    "What the proposal rests on is memory, and no source supports it that can be cited: add the "
    "log or the task outcome that shows what was done and what came of it."
)
_MILLION = 1_000_000
_ATTEMPT_MIN_S = 0.05

GENERATION_FAILED = "generation_failed"
BUDGET_EXCEEDED = "budget_exceeded"
INVALID_OUTPUT = "invalid_generation_output"
EVIDENCE_UNAVAILABLE = "evidence_unavailable"
CAPABILITY_UNAVAILABLE = "capability_unavailable"


class _LostError(Exception):
    """Another worker has the dream, or somebody cancelled it."""


def claim(
    db: Database, settings: Settings, claim_id: str, *, lease_s: float, dagster_run_id: str | None
) -> DreamRun | None:
    """Take the next due dream and count the attempt; None when none is due.

    One whose time or attempts are used up, or that was begun with another model or prompt,
    comes back ended, without an attempt.

    Args:
        claim_id: another one for every claim.
        lease_s: how long others leave it alone, unless `dreams.keep` puts that off.
    """
    model, why = _author(settings)
    with db.write() as conn:
        now = clock()
        taken = dreams.claim(
            conn,
            claim_id,
            now_us=now,
            until_us=now + int(lease_s * _MILLION),
            dagster_run_id=dagster_run_id,
        )
        if taken is None:
            return None
        run = _begun(taken, model_id(model) if model else None, why, now)
        dreams.replace_held(conn, run)
        return run


def work_on(db: Database, settings: Settings, run: DreamRun) -> DreamRun | None:
    """Make one attempt at a dream that `claim` gave, and return it as it is then.

    It has ended, or waits for its second attempt. None: it was lost to another worker, or
    cancelled, and nothing of it was written.

    Raises:
        StoreBusy, StoreUnavailable: the ledger could not be used; it stays claimed.
    """
    if run.ended:
        return run
    model, _ = _author(settings)
    assert model is not None  # else the claim would have ended it
    model.prepare()  # before the request's time is measured out: the first one loads libraries
    try:
        graph, run, budget_s = _shown(db, settings, run, asks=model.provider != "builtin")
        usage = Usage()
        try:
            dreamt = model.dream(
                graph.projection,
                target_evidence_id=evidence_id(run.request.target) if run.request.target else None,
                feedback=run.feedback,
                within_s=budget_s,
                max_tokens=run.budget.max_output_tokens,
            )
            usage = dreamt.usage
        except ModelError as error:
            usage = error.usage or Usage()
            raise
        finally:
            run = _noted(db, run, usage)
        if too_long := _over_budget(run, usage):
            return _end(db, run, BUDGET_EXCEEDED, too_long)
        return _committed(db, settings, run, dreamt.plan)
    except _LostError:
        return None
    except ModelError as error:
        if too_long := _over_budget(run, error.usage or Usage()):
            return _end(db, run, BUDGET_EXCEEDED, too_long)
        return _model_failed(db, settings, run, error)
    except (InvalidInput, Conflict, ReferenceNotFound, AccessRevoked, AccessUnavailable) as error:
        return _end(db, run, _code(error), error.message)


def _author(settings: Settings) -> tuple[Dreamer | None, str]:
    try:
        return dreamer(settings), ""
    except ModelMisconfigured as error:
        return None, error.message


def _begun(run: DreamRun, model: str | None, why: str, now: int) -> DreamRun:
    """A dream with its attempt counted; or ended, when it cannot be attempted."""
    begun = replace(
        run,
        status="running",
        attempts=run.attempts + 1,
        started_at=run.started_at or now,
        model=run.model or model,
    )
    deadline = begun.deadline_us
    assert deadline is not None
    if model is None:
        return _failed(run, CAPABILITY_UNAVAILABLE, why, now)
    for began, there in ((run.model or model, model), (run.prompt_version, PROMPT_VERSION)):
        if began != there:
            told = f"it was begun with {began}, and there is {there} now"
            return _failed(run, CAPABILITY_UNAVAILABLE, told, now)
    if now >= deadline:
        told = f"it had {run.budget.timeout_seconds:g} s from its first attempt's start"
        return _failed(run, BUDGET_EXCEEDED, told, now)
    if run.attempts >= run.budget.max_model_calls:
        told = f"its {run.attempts} attempts were used up; the last one was broken off"
        return _failed(run, BUDGET_EXCEEDED, told, now)
    return begun


def _shown(
    db: Database, settings: Settings, run: DreamRun, *, asks: bool
) -> tuple[Graph, DreamRun, float]:
    """The evidence, pinned; the dream with its request counted; and seconds for the request.

    Args:
        asks: whether a request goes to a model at all.
    """
    room = prompt_room_tokens(settings)
    refuse_revoked(settings, run.scope_id, run.principal)
    with db.read() as conn:
        refuse_moved(conn, run.scope_id, run.request.target)
        graph = _assembled(conn, run, room)
    with db.write() as conn:
        held = _held(conn, run)
        spent = held.usage or DreamUsage()
        counted = replace(spent, model_calls=spent.model_calls + asks)
        manifest = held.manifest or graph.manifest()
        asking = replace(held, manifest=manifest, usage=counted)
        dreams.replace_held(conn, asking)
        deadline = asking.deadline_us
        assert deadline is not None
        left_s = (deadline - clock()) / _MILLION
        share = asking.budget.max_model_calls - asking.attempts + 1
        return graph, asking, max(min(left_s / share, settings.llm_timeout_s), _ATTEMPT_MIN_S)


def _assembled(conn: sa.Connection, run: DreamRun, room_tokens: int) -> Graph:
    return assemble(
        conn,
        run.scope_id,
        run.request.evidence,
        run.budget,
        prompt_room_tokens=room_tokens,
        pin=run.manifest,
    )


def _held(conn: sa.Connection, run: DreamRun) -> DreamRun:
    """The dream as it is now, locked. Raises _LostError: it is not this claim's any more."""
    held = dreams.get(conn, run.scope_id, run.run_id, lock=True)
    if held.status != "running" or held.claim != run.claim:
        raise _LostError
    return held


def _noted(db: Database, run: DreamRun, usage: Usage) -> DreamRun:
    spent = (run.usage or DreamUsage()).and_tokens(usage)
    with db.write() as conn:
        dreams.note_usage(conn, run, spent)
    return replace(run, usage=spent)


def _over_budget(run: DreamRun, usage: Usage) -> str | None:
    """Why an answer is thrown away, right or wrong; None if its length is within the budget."""
    most = run.budget.max_output_tokens
    if usage.tokens_out <= most:
        return None
    return f"the answer has {usage.tokens_out} tokens, the most is {most}"


def _committed(db: Database, settings: Settings, run: DreamRun, plan: Plan) -> DreamRun:
    """Write what a plan comes to, with the dream's end, in one transaction."""
    room = prompt_room_tokens(settings)
    if settings.secret_detection and (kind := find_secret(plan.reason)):
        raise SecretDetected("reason", f"contains a credential: {kind}")
    with db.write() as conn:
        held = _held(conn, run)
        if plan.proposal is None:
            return _succeeded(conn, held, plan.outcome, plan.reason)
        target = held.request.target
        refuse_revoked(settings, held.scope_id, held.principal)
        refuse_moved(conn, held.scope_id, target)
        cited = _assembled(conn, held, room).cited(plan.evidence_ids, target)
        if cited is None:
            return _succeeded(conn, held, "needs_evidence", UNSUPPORTED)
        why = _known_already(conn, held, plan, cited)
        if why is not None:
            return _succeeded(conn, held, "no_change", why)
        made = propose_in(
            conn,
            held.scope_id,
            plan.proposal,
            cited,
            target=target,
            reason=plan.reason,
            origin="dream",
            author="" if held.principal == RUNTIME else held.principal,
            now_us=clock(),
            candidate_id=f"cand_dream_{held.run_id}",
            intent=plan.intent,
            refuse_secrets=settings.secret_detection,
        )
        held = replace(held, candidate_id=made.candidate_id, intent=plan.intent)
        return _succeeded(conn, held, "proposed", plan.reason)


def _known_already(
    conn: sa.Connection, run: DreamRun, plan: Plan, cited: EvidenceRefs
) -> str | None:
    """Why a proposal would tell people nothing new; None if it would."""
    assert plan.proposal is not None
    target = run.request.target
    if target and experiences.content(conn, run.scope_id, target) == plan.proposal:
        return "The proposal says what its target says already."
    mark = fingerprint(plan.proposal, cited)
    known = candidates.known_fingerprints(conn, run.scope_id, [mark]).get(mark)
    if known is None:
        return None
    status = candidates.get(conn, run.scope_id, known).status
    return f"The same proposal, on the same evidence, is the candidate {known}, which is {status}."


def _succeeded(conn: sa.Connection, run: DreamRun, outcome: Outcome, reason: str) -> DreamRun:
    ended = replace(
        run,
        status="succeeded",
        outcome=outcome,
        reason=reason,
        message=None,
        feedback=None,
        completed_at=clock(),
    )
    dreams.replace_held(conn, ended)
    return ended


def _model_failed(
    db: Database, settings: Settings, run: DreamRun, error: ModelError
) -> DreamRun | None:
    """Let a dream wait for its second attempt where that may help, or end it."""
    told_wrong = isinstance(error, ModelAnsweredBadly) and "status" not in error.details
    again = told_wrong or isinstance(error, ModelUnavailable | ModelSilent)
    now = clock()
    pause_s = 0.0 if told_wrong else min(PAUSE_S, settings.retry_base_s)
    then = now + int(pause_s * _MILLION)
    deadline = run.deadline_us
    assert deadline is not None
    if now >= deadline:
        return _end(db, run, BUDGET_EXCEEDED, f"its time was up: {error.message}")
    if not again or run.attempts >= run.budget.max_model_calls or then >= deadline:
        return _end(db, run, INVALID_OUTPUT if told_wrong else GENERATION_FAILED, error.message)
    with db.write() as conn:
        try:
            held = _held(conn, run)
        except _LostError:
            return None
        waiting = replace(
            held,
            status="queued",
            next_attempt_at=then,
            message=error.message,
            feedback=error.message if told_wrong else held.feedback,
        )
        dreams.replace_held(conn, waiting)
        return waiting


def _end(db: Database, run: DreamRun, code: str, message: str) -> DreamRun | None:
    with db.write() as conn:
        try:
            ended = _failed(_held(conn, run), code, message, clock())
        except _LostError:
            return None
        dreams.replace_held(conn, ended)
        return ended


def _failed(run: DreamRun, code: str, message: str, now: int) -> DreamRun:
    return replace(
        run, status="failed", error=code, message=message, feedback=None, completed_at=now
    )


def _code(error: StoreError) -> str:
    """The published code of what stood in the way of a dream."""
    if isinstance(error, Conflict):  # the target is not an active head
        return "artifact_conflict"
    if isinstance(error, AccessRevoked | AccessUnavailable):
        return error.code
    if isinstance(error, InvalidProposal | SecretDetected):
        return INVALID_OUTPUT
    if isinstance(error, InvalidEvidence) and not isinstance(error, InvalidCitation):
        return error.code
    if isinstance(error, InvalidInput) and error.details.get("rule") == "failure":
        return INVALID_OUTPUT
    return EVIDENCE_UNAVAILABLE
