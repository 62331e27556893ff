"""Refusals of a server as the errors they were, and the errors only a client meets."""

from collections.abc import Iterator, Mapping
from typing import Any

import httpx
from pydantic import TypeAdapter, ValidationError

from pc_store import errors
from pc_store.api import refusals as refusals
from pc_store.api.responses import ErrorResponse
from pc_store.errors import StoreError


class ServerUnreachable(StoreError):
    """The server could not be reached, or broke off before it answered."""

    code = "server_unreachable"


class StrangeAnswer(StoreError):
    """What answered is no such server, or one of another version."""

    code = "strange_answer"


def error_of(answer: httpx.Response) -> StoreError:
    """The error that a refusal stands for; its class is the one that has its code.

    A code that is not known here becomes a plain StoreError that carries it.
    """
    try:
        said = _BODY.validate_json(answer.content).error
    except ValidationError:
        return StrangeAnswer(f"the server answered {answer.status_code} without saying why")
    kind = _KINDS.get(said.code, StoreError)
    error = kind.__new__(kind)
    Exception.__init__(error, said.message)
    error.message = said.message
    error.details = said.details or {}
    error.code = said.code
    vars(error).update(_more(kind, error.details))
    return error


def _more(kind: type[StoreError], details: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that some classes have besides."""
    if issubclass(kind, errors.InvalidInput):
        return {"field": details.get("field", ""), "reason": details.get("reason", "")}
    if issubclass(kind, errors.ModelAnsweredBadly):
        return {"usage": None, "salvage": (), "rejected": (), "readable": False}
    return {"usage": None} if issubclass(kind, errors.ModelError) else {}


def _tree(root: type[StoreError]) -> Iterator[type[StoreError]]:
    for kind in root.__subclasses__():
        yield kind
        yield from _tree(kind)


_BODY: TypeAdapter[ErrorResponse] = TypeAdapter(ErrorResponse)
_KINDS = {kind.code: kind for kind in reversed(list(_tree(StoreError)))} | {
    "internal_error": refusals.InternalError,
    "inference_invalid_output": errors.ModelAnsweredBadly,
    "inference_failed": errors.ModelError,
}
