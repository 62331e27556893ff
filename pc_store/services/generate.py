"""Generate: one experience, written by a model from evidence that somebody chose.

All that can be refused is refused before the model is paid, and nothing is locked while it works.
What it writes becomes a candidate, which people decide on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import sqlalchemy as sa

from pc_store import limits
from pc_store.domain import strict_json
from pc_store.domain.candidate import Candidate, EvidenceRefs
from pc_store.domain.experience_proposal import Exhibit, cues_of
from pc_store.domain.proposal import Usage
from pc_store.domain.refs import PROMPT_FAMILY, ArtifactRef
from pc_store.domain.source import Source, estimated_tokens
from pc_store.errors import (
    InvalidInput,
    ModelAnsweredBadly,
    ModelMisconfigured,
    SecretDetected,
)
from pc_store.ledger import experiences, scopes, sources
from pc_store.ledger.database import Database
from pc_store.llm.experience_providers import experience_author
from pc_store.services import admit
from pc_store.services.instruct import EXPERIENCE_GENERATE, Prompt, prompt_in_force
from pc_store.services.propose import propose
from pc_store.services.read_artifacts import ArtifactContent, read_artifact
from pc_store.services.trace_evidence import settle, shown
from pc_store.settings import Settings

_OVERHEAD_TOKENS = 2_000
"""What the reply's description, its schema and the frame around the evidence take."""
_ROOM_LEAST_TOKENS = 1_000


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
    exhibits = [_of_source(held[ref]) for ref in evidence.sources]
    exhibits += [
        _of_artifact(
            read_artifact(db, scope_id, ref.family, ref.artifact_id, revision=ref.revision)
        )
        for ref in evidence.artifacts
    ]
    room = settings.prompt_token_budget - estimated_tokens(prompt.text) - _OVERHEAD_TOKENS
    if room < _ROOM_LEAST_TOKENS:
        raise ModelMisconfigured(
            f"the prompt leaves {max(0, room)} tokens of PC_PROMPT_TOKEN_BUDGET "
            f"({settings.prompt_token_budget}) for evidence"
        )
    draft = model.generate(
        _fitting(exhibits, room),
        target_evidence_id=_artifact_id(target) if target else None,
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


def _of_source(source: Source) -> Exhibit:
    whole = {
        "source_type": source.source_type,
        "source_id": source.source_id,
        "position": source.position,
        "content": source.value,
        "metadata": dict(source.metadata),
    }
    return _exhibit(
        f"source:{source.source_type}/{source.source_id}", "source", whole, text=source.content
    )


def _of_artifact(artifact: ArtifactContent) -> Exhibit:
    whole = {
        "artifact": vars(artifact.ref),
        "content": artifact.content,
        "sources": [vars(ref) for ref in artifact.sources],
        "artifacts": [vars(ref) for ref in artifact.artifacts],
    }
    return _exhibit(_artifact_id(artifact.ref), "artifact", whole)


def _artifact_id(ref: ArtifactRef) -> str:
    return f"artifact:{ref.family}/{ref.artifact_id}@{ref.revision}"


def _exhibit(evidence_id: str, kind: str, whole: dict[str, Any], *, text: str = "") -> Exhibit:
    content = strict_json.dumps(whole)
    return Exhibit(
        evidence_id,
        kind,
        content[: limits.GENERATION_EVIDENCE_MAX_CHARS],
        truncated=len(content) > limits.GENERATION_EVIDENCE_MAX_CHARS,
        text=text,
        cues=cues_of(text) if text else (),
    )


def _fitting(exhibits: Sequence[Exhibit], room_tokens: int) -> list[Exhibit]:
    """The exhibits, the longest cut to one length so that together they fit."""
    sizes = [estimated_tokens(one.content) for one in exhibits]
    if sum(sizes) <= room_tokens:
        return list(exhibits)
    left, most = room_tokens, room_tokens
    for done, size in enumerate(sorted(sizes)):
        most = left // (len(sizes) - done)
        if size > most:
            break
        left -= size
    return [
        one if size <= most else replace(one, content=_cut(one.content, most), truncated=True)
        for one, size in zip(exhibits, sizes, strict=True)
    ]


def _cut(text: str, most_tokens: int) -> str:
    """The longest beginning of a text, within a tenth, that takes at most so many tokens."""
    while (size := estimated_tokens(text)) > most_tokens:
        text = text[: min(len(text) * 9 // 10, len(text) * most_tokens // size + 1)]
    return text
