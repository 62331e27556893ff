"""Path parameters, as every route declares them."""

from typing import Annotated

from fastapi import Path

from pc_store import limits

SCOPE = "{scope_id}"

ScopePath = Annotated[
    str,
    Path(
        max_length=limits.SCOPE_ID_MAX_CHARS,
        description="The scope's id; a slash in it is sent as `%2F`.",
        examples=["orders"],
    ),
]
ArtifactPath = Annotated[str, Path(max_length=128, pattern=r"^[\x21-\x7E]+$", examples=["memory"])]
RevisionPath = Annotated[int, Path(ge=1, le=limits.JSON_INT_MAX)]
SourceTypePath = Annotated[str, Path(max_length=limits.SOURCE_TYPE_MAX_CHARS, examples=["content"])]
SourceIdPath = Annotated[str, Path(max_length=limits.SOURCE_ID_MAX_CHARS, examples=["worklog-17"])]
GenerationPath = Annotated[
    str, Path(max_length=limits.GENERATION_NAME_MAX_CHARS, examples=["prompt-2"])
]
PositionPath = Annotated[int, Path(ge=1, le=limits.POSITION_MAX)]
