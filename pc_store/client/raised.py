"""Refusals of a server as the errors they were, and the errors only a client meets."""

from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from pc_store import dream_refusals, errors
from pc_store.api import refusals
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
        said = answer.json()["error"]
        code, message, details = said["code"], said["message"], said["details"] or {}
    except (ValueError, KeyError, TypeError):
        return StrangeAnswer(f"the server answered {answer.status_code} without saying why")
    kind = _KINDS.get(code, StoreError)
    if answer.status_code == 409:
        kind = _CONFLICTS.get(code, kind)
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.message = message
    error.details = details
    error.code = code
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


_CONFLICTS = {kind.code: kind for kind in _tree(errors.Conflict)}
"""Some codes are of two classes: a conflict, and of what cites the same thing as evidence."""
_KINDS = {kind.code: kind for kind in reversed(list(_tree(StoreError)))} | {
    refusals.InternalError.code: refusals.InternalError,
    dream_refusals.DreamQueueFull.code: dream_refusals.DreamQueueFull,
    errors.InvalidCursor.code: errors.InvalidCursor,
    "inference_invalid_output": errors.ModelAnsweredBadly,
    "inference_failed": errors.ModelError,
}
