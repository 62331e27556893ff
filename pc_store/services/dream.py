"""Dreams: submit one, look at it, cancel it. Who works on them is `run_dreams`."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import sqlalchemy as sa

from pc_store import limits
from pc_store.domain.candidate import Candidate
from pc_store.domain.candidate import reason as checked_reason
from pc_store.domain.dream_run import (
    CANCELLED,
    DreamRequest,
    DreamRun,
    Operation,
    Status,
    idempotency_key,
)
from pc_store.domain.principal import RUNTIME
from pc_store.domain.refs import ArtifactRef, new_id
from pc_store.domain.secret import find_secret
from pc_store.dream_refusals import (
    CapabilityUnavailable,
    DreamEnded,
    DreamQueueFull,
    InvalidDreamCursor,
    ReferenceNotFound,
)
from pc_store.errors import (
    IdempotencyConflict,
    InvalidInput,
    ModelMisconfigured,
    SecretDetected,
)
from pc_store.ledger import candidates, dreams, scopes
from pc_store.ledger.database import Database
from pc_store.ledger.dreams import Waiting as Waiting
from pc_store.llm.dream_providers import PROMPT_VERSION, dreamer, prompt_room_tokens
from pc_store.services import admit
from pc_store.services.dream_evidence import assemble
from pc_store.services.trace_evidence import shown
from pc_store.settings import Settings

PAGE_DEFAULT = 20
_CURSOR = re.compile(r"([0-9]{1,19}):(dr_[0-9a-f]{1,61})")


@dataclass(frozen=True)
class Submitted:
    """The dream that a request stands for; `replayed` when it was accepted before."""

    run: DreamRun
    replayed: bool


@dataclass(frozen=True)
class DreamPage:
    """Dreams, newest first, and the cursor of the next page; None: there is none."""

    runs: tuple[DreamRun, ...]
    next_cursor: str | None


def submit(
    db: Database,
    settings: Settings,
    scope_id: str,
    request: DreamRequest,
    *,
    key: str,
    principal: str = "",
    may_contribute: Callable[[], None] = lambda: None,
    now_us: int,
) -> Submitted:
    """Accept a dream, or return the one that this principal's key stands for already.

    The key is looked up before anything else: whatever became of the dream, of its target or
    of this installation since, the same request gets the same dream. Keys never expire.

    Args:
        principal: who asks; "" without authentication.
        may_contribute: raises where a new dream may not be made.

    Raises:
        ScopeNotFound.
        InvalidInput: the key is blank, has white space around it, or over 128 characters.
        IdempotencyConflict: the key stands for another request.
        CapabilityUnavailable: dreams are switched off or not configured, or of this kind unknown.
        ArtifactConflict, ArtifactInactive: the target is not an active head.
        ReferenceNotFound, InvalidEvidence: what is selected does not exist or cannot be used.
        DreamQueueFull: too many dreams of the scope wait or run.
    """
    idempotency_key(key)
    principal = principal or RUNTIME
    with db.read() as conn:
        scopes.get(conn, scope_id)
        kept = _kept(conn, scope_id, principal, key, request)
    if kept is not None:
        return kept
    may_contribute()
    _refuse_incapable(settings, request)
    run = DreamRun(
        scope_id=scope_id,
        run_id=new_id("dr_", at_us=now_us),
        principal=principal,
        idempotency_key=key,
        digest=request.digest,
        request=request,
        budget=settings.dream_budget,
        prompt_version=PROMPT_VERSION,
        accepted_at=now_us,
    )
    with db.write() as conn:
        scopes.lock(conn, scope_id)  # so that what waits is counted one submission at a time
        kept = _kept(conn, scope_id, principal, key, request)
        if kept is not None:
            return kept
        refuse_moved(conn, scope_id, request.target)
        assemble(
            conn,
            scope_id,
            request.evidence,
            run.budget,
            prompt_room_tokens=prompt_room_tokens(settings),
        )
        waiting = dreams.pending(conn, scope_id)
        if waiting >= settings.dream_max_pending:
            raise DreamQueueFull(
                f"{waiting} dreams of the scope wait or run, the most is "
                f"{settings.dream_max_pending}",
                limit=settings.dream_max_pending,
                observed=waiting,
            )
        dreams.insert(conn, run)
    return Submitted(run, replayed=False)


def get_dream(db: Database, scope_id: str, run_id: str) -> DreamRun:
    """One dream.

    Raises:
        ScopeNotFound, DreamNotFound.
    """
    with db.read() as conn:
        scopes.get(conn, scope_id)
        return dreams.get(conn, scope_id, run_id)


def list_dreams(
    db: Database,
    scope_id: str,
    *,
    status: Status | None = None,
    operation: Operation | None = None,
    cursor: str | None = None,
    limit: int = PAGE_DEFAULT,
) -> DreamPage:
    """A scope's dreams, newest first.

    Args:
        cursor: `next_cursor` of the page before: the time its last was accepted, in
            microseconds, a colon, and its id.
        limit: 1 to 100.

    Raises:
        ScopeNotFound, InvalidDreamCursor, InvalidInput (the limit).
    """
    if not 1 <= limit <= limits.PAGE_MAX:
        raise InvalidInput("limit", f"is {limit}, expected 1 to {limits.PAGE_MAX}")
    before = None
    if cursor is not None:
        named = _CURSOR.fullmatch(cursor)
        if named is None or int(named[1]) > limits.JSON_INT_MAX:
            raise InvalidDreamCursor("cursor", "is not one that a page of dreams gave")
        before = int(named[1]), named[2]
    with db.read() as conn:
        scopes.get(conn, scope_id)
        found = dreams.page(
            conn, scope_id, status=status, operation=operation, before=before, limit=limit + 1
        )
    runs = tuple(found[:limit])
    last = runs[-1] if len(found) > limit else None
    return DreamPage(runs, f"{last.accepted_at}:{last.run_id}" if last else None)


def cancel(
    db: Database,
    scope_id: str,
    run_id: str,
    *,
    reason: str | None = None,
    principal: str = "",
    refuse_secrets: bool = True,
    now_us: int,
) -> DreamRun:
    """End a dream that waits or runs: it fails with the error `cancelled`, and proposes nothing.

    A model that is at work on it is not called back; its answer is thrown away. Cancelling a
    cancelled dream again returns it as it is.

    Raises:
        ScopeNotFound, DreamNotFound.
        DreamEnded: it has ended otherwise.
        InvalidInput: the reason is blank or over 2,000 characters. SecretDetected.
    """
    said = checked_reason(reason)
    if refuse_secrets and said and (kind := find_secret(said)):
        raise SecretDetected("reason", f"contains a credential: {kind}")
    with db.write() as conn:
        scopes.get(conn, scope_id)
        run = dreams.get(conn, scope_id, run_id, lock=True)
        if run.error == CANCELLED:
            return run
        if run.ended:
            raise DreamEnded(
                f"the dream {run_id} has {run.status} already",
                status=run.status,
                outcome=run.outcome,
                error=run.error,
            )
        by = f"cancelled by {principal or RUNTIME}"
        ended = replace(
            run,
            status="failed",
            error=CANCELLED,
            message=f"{by}: {said}" if said else by,
            feedback=None,
            completed_at=now_us,
        )
        dreams.replace_held(conn, ended)
        return ended


def candidates_of(db: Database, runs: Iterable[DreamRun]) -> dict[str, Candidate]:
    """The candidates that dreams proposed, as they are now, by the dreams' ids."""
    with db.read() as conn:
        return {
            run.run_id: candidates.get(conn, run.scope_id, run.candidate_id)
            for run in runs
            if run.candidate_id is not None
        }


def waiting(db: Database, *, now_us: int) -> Waiting:
    """The dreams of all scopes that have not ended."""
    with db.read() as conn:
        return dreams.waiting(conn, now_us=now_us)


def refuse_moved(conn: sa.Connection, scope_id: str, target: ArtifactRef | None) -> None:
    """Let only an active head be what a dream replaces.

    Raises:
        ReferenceNotFound: there is no such experience.
        ArtifactConflict, ArtifactInactive: it moved on, or is withdrawn.
    """
    if target is None:
        return
    head = admit.head_of(conn, scope_id, target)
    if head is None:
        raise ReferenceNotFound(f"target: there is no {shown(target)}", artifact_ref=vars(target))
    admit.refuse_moved_target(target, head)


def _kept(
    conn: sa.Connection, scope_id: str, principal: str, key: str, request: DreamRequest
) -> Submitted | None:
    """The dream of a key. Raises IdempotencyConflict: it is of another request."""
    run = dreams.of_key(conn, scope_id, principal, key)
    if run is None:
        return None
    if run.digest != request.digest:
        raise IdempotencyConflict(
            "the idempotency key stands for another dream", reason="other request"
        )
    return Submitted(run, replayed=True)


def _refuse_incapable(settings: Settings, request: DreamRequest) -> None:
    capability = f"dream.{request.operation}"
    if request.operation != "refine_experience":
        raise CapabilityUnavailable(capability, "this store keeps no skills, so none is derived")
    if not settings.dream_enabled:
        raise CapabilityUnavailable(capability, "dreams are switched off: PC_DREAM_ENABLED")
    try:
        dreamer(settings)
    except ModelMisconfigured as error:
        raise CapabilityUnavailable(capability, error.message) from None
