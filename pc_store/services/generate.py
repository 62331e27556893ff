"""Generate: one experience, written by a model from evidence that somebody chose.

All that can be refused is refused before the model is paid, and nothing is locked while it works.
What it writes becomes a candidate, which people decide on.
"""

from dataclasses import dataclass, replace
from typing import Literal

import sqlalchemy as sa

from pc_store.domain.candidate import Candidate, EvidenceRefs
from pc_store.domain.proposal import Usage
from pc_store.domain.refs import PROMPT_FAMILY, ArtifactRef
from pc_store.domain.source import estimated_tokens
from pc_store.errors import (
    InvalidInput,
    ModelAnsweredBadly,
    SecretDetected,
)
from pc_store.ledger import experiences, scopes, sources
from pc_store.ledger.database import Database
from pc_store.llm.experience_providers import experience_author
from pc_store.services import admit
from pc_store.services.exhibits import artifact_id, fitting, of_artifact, of_source
from pc_store.services.instruct import EXPERIENCE_GENERATE, Prompt, prompt_in_force
from pc_store.services.propose import propose
from pc_store.services.read_artifacts import read_artifact
from pc_store.services.trace_evidence import settle, shown
from pc_store.settings import Settings

_OVERHEAD_TOKENS = 2_000
"""What the reply's description, its schema and the frame around the evidence take."""


@dataclass(frozen=True)
class Generated:
    """The candidate that was made, or None when the evidence supports none; and what it cost."""

    status: Literal["pending", "no_op"]
    candidate: Candidate | None
    usage: Usage


def generate(
    db: Database,
    settings: Settings,
    scope_id: str,
    evidence: EvidenceRefs,
    *,
    target: ArtifactRef | None = None,
    reason: str | None = None,
    author: str = "",
    now_us: int,
) -> Generated:
    """Have an experience written from whole sources and artifacts, and propose it.

    The candidate cites all the evidence that was given, and the scope's own prompt if one was
    used. The builtin provider drafts from well-formed task outcomes and from nothing else.

    Args:
        evidence: sources and artifacts, at least one; no prompts.
        target: the experience head to be replaced, also among the artifacts.

    Raises:
        as `propose`, before the model is asked and again afterwards.
        GenerationUnavailable: the provider in force cannot write from this evidence.
        ModelError: nothing usable came back.
    """
    model = experience_author(settings)
    prompt, cited = _admitted(db, settings, scope_id, evidence, target, reason)
    with db.read() as conn:
        held = sources.some(conn, scope_id, evidence.sources)
        before = experiences.content(conn, scope_id, target) if target else None
    exhibits = [of_source(held[ref]) for ref in evidence.sources]
    exhibits += [
        of_artifact(read_artifact(db, scope_id, ref.family, ref.artifact_id, revision=ref.revision))
        for ref in evidence.artifacts
    ]
    room = settings.prompt_token_budget - estimated_tokens(prompt.text) - _OVERHEAD_TOKENS
    draft = model.generate(
        fitting(exhibits, room, budget_tokens=settings.prompt_token_budget),
        target_evidence_id=artifact_id(target) if target else None,
        policy=prompt.text,
    )
    if draft.content is None or draft.content == before:
        return Generated("no_op", None, draft.usage)
    try:
        candidate = propose(
            db,
            scope_id,
            draft.content,
            cited,
            target=target,
            reason=reason,
            origin="generate",
            author=author,
            refuse_secrets=settings.secret_detection,
            now_us=now_us,
        )
    except InvalidInput as error:
        if isinstance(error, SecretDetected) or error.details.get("rule") == "failure":
            raise ModelAnsweredBadly(
                f"the answer breaks a rule: {error.message}", usage=draft.usage
            ) from None
        raise
    return Generated("pending", candidate, draft.usage)


def _admitted(
    db: Database,
    settings: Settings,
    scope_id: str,
    evidence: EvidenceRefs,
    target: ArtifactRef | None,
    reason: str | None,
) -> tuple[Prompt, EvidenceRefs]:
    """The prompt in force, and the evidence with it; refused is what proposing would refuse."""
    admit.told(reason, refuse_secrets=settings.secret_detection)
    for ref in evidence.artifacts:
        if ref.family == PROMPT_FAMILY:
            raise InvalidInput("artifact_refs", f"{shown(ref)} is a prompt, which is no evidence")
    with db.write() as conn:  # evidence is checked under the memory's lock, which needs a write
        scopes.get(conn, scope_id)
        prompt = prompt_in_force(conn, scope_id, EXPERIENCE_GENERATE)
        own = (prompt.ref,) if prompt.ref else ()
        cited = replace(evidence, artifacts=(*evidence.artifacts, *own))
        settle(conn, scope_id, cited)
        _refuse_target(conn, scope_id, target, evidence)
    return prompt, cited


def _refuse_target(
    conn: sa.Connection, scope_id: str, target: ArtifactRef | None, evidence: EvidenceRefs
) -> None:
    admit.refuse_foreign_target(target, evidence)
    if target is not None:
        admit.refuse_moved_target(target, admit.head_of(conn, scope_id, target))
