"""Whole sources and artifacts as a model is shown them, cut so that together they fit."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pc_store import limits
from pc_store.domain import strict_json
from pc_store.domain.experience_proposal import Exhibit, cues_of
from pc_store.domain.refs import ArtifactRef
from pc_store.domain.source import Source, estimated_tokens
from pc_store.errors import ModelMisconfigured
from pc_store.services.read_artifacts import ArtifactContent

_ROOM_LEAST_TOKENS = 1_000


def of_source(source: Source) -> Exhibit:
    """A whole source."""
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


def of_artifact(artifact: ArtifactContent) -> Exhibit:
    """A whole artifact revision, with what it was made from."""
    whole = {
        "artifact": vars(artifact.ref),
        "content": artifact.content,
        "sources": [vars(ref) for ref in artifact.sources],
        "artifacts": [vars(ref) for ref in artifact.artifacts],
    }
    return _exhibit(artifact_id(artifact.ref), "artifact", whole)


def artifact_id(ref: ArtifactRef) -> str:
    """The evidence id of an artifact revision."""
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


def fitting(exhibits: Sequence[Exhibit], room_tokens: int, *, budget_tokens: int) -> list[Exhibit]:
    """The exhibits, the longest cut to one length so that together they fit.

    Args:
        room_tokens: what the prompt leaves of `budget_tokens`.

    Raises:
        ModelMisconfigured: that is next to nothing.
    """
    if room_tokens < _ROOM_LEAST_TOKENS:
        raise ModelMisconfigured(
            f"the prompt leaves {max(0, room_tokens)} tokens of PC_PROMPT_TOKEN_BUDGET "
            f"({budget_tokens}) for evidence"
        )
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
