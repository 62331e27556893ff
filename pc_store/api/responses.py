"""How every refusal looks: one body, one table of statuses, and their declaration for OpenAPI."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pc_store import dream_refusals, errors
from pc_store.api import refusals
from pc_store.domain.text import shortened
from pc_store.errors import StoreError

REQUEST_ID_HEADER = "X-PowerContext-Request-ID"
RETRY_AFTER_S = 1
_SHOWN_CHARS = 128
_SHOWN_FAULTS = 20

STATUSES: Mapping[type[StoreError], int] = {
    refusals.Unauthorized: 401,
    refusals.Forbidden: 403,
    refusals.NoSuchRoute: 404,
    refusals.WrongMethod: 405,
    refusals.BodyTooSlow: 408,
    refusals.BodyTooLarge: 413,
    refusals.InternalError: 500,
    refusals.Overloaded: 503,
    errors.InvalidCursor: 400,
    errors.EntryPurged: 410,
    errors.CursorExpired: 410,
    errors.NotFound: 404,
    errors.Conflict: 409,
    dream_refusals.DreamQueueFull: 429,
    errors.CapacityExceeded: 409,
    errors.WindowRefused: 409,
    errors.NotSupported: 422,
    errors.InvalidInput: 422,
    errors.InvalidProposal: 502,
    errors.ModelAnsweredBadly: 502,
    errors.ModelError: 503,
    errors.GenerationUnavailable: 503,
    dream_refusals.CapabilityUnavailable: 503,
    errors.StoreBusy: 503,
    errors.StoreUnavailable: 503,
    errors.SearchExtensionUnavailable: 503,
    errors.IndexUnwritable: 503,
    StoreError: 500,
}
"""The status of each error; a class that is not here has that of its nearest parent."""

MEANINGS: Mapping[int, str] = {
    304: "Not modified: the ETag sent is the current one.",
    400: "The page cursor or the query string is not valid.",
    401: "No token, or an unknown one.",
    403: "The token does not allow this.",
    404: "Something named does not exist.",
    405: "The path is served by other methods.",
    408: "The body did not arrive in time.",
    409: "Someone else moved first, or the value is taken; `details` says what is current.",
    410: "Gone: the entry was purged, or the page cursor has expired.",
    412: "`If-Match` names another revision than the current one.",
    413: "The body is too large.",
    422: "A value breaks a rule; `details` names the field and the reason. Nothing was written.",
    428: "`If-Match` is required.",
    429: "As much of this waits already as may. Safe to retry.",
    500: "A fault of the server's own.",
    502: "The model's answer breaks a rule. Nothing was written.",
    503: "Busy, or something this needs cannot be reached. Safe to retry.",
}


class ErrorDetail(BaseModel):
    """What went wrong."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: str = Field(description="Stable and machine-readable.")
    message: str = Field(description="For people; it may change.")
    details: dict[str, Any] | None = Field(description="What a program needs to react.")


class ErrorResponse(BaseModel):
    """The body of every answer that is not a success."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "error": {
                        "code": "invalid_request",
                        "message": "text: is blank",
                        "details": {"field": "text", "reason": "is blank"},
                    }
                }
            ]
        },
    )

    error: ErrorDetail


def declared(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The declaration of a route's refusals, those of every route included."""
    every = {401, 403, 500, 503, *statuses}
    return {
        status: {"description": MEANINGS[status]}
        | ({} if status == 304 else {"model": ErrorResponse})
        for status in sorted(every)
    }


def status_of(error: StoreError) -> int:
    """The status an error is answered with."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)


def refusal(error: StoreError) -> Response:
    """An error as an answer."""
    status = status_of(error)
    details = jsonable_encoder(dict(error.details)) or None
    headers = {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    elif status in (429, 503):
        headers["Retry-After"] = str(RETRY_AFTER_S)
    elif status == 405 and "allowed" in error.details:
        headers["Allow"] = ", ".join(error.details["allowed"])
    body = {"error": {"code": error.code, "message": error.message, "details": details}}
    return JSONResponse(body, status, headers)


def install(app: FastAPI, routes: Sequence[Route]) -> None:
    """Answer every error of an application in the one form.

    Args:
        routes: all that it serves; an answer to a wrong method names the right ones.
    """

    async def store_error(_request: Request, error: Exception) -> Response:
        assert isinstance(error, StoreError)
        return refusal(error)

    async def broken_rule(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        response = _invalid(error.errors())
        if error.errors()[0]["loc"][0] == "query" and request.url.path.startswith("/v1/scopes/"):
            response.status_code = 400  # as the published contract has it, and 422 elsewhere
        return response

    async def routing(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 404:
            return refusal(refusals.NoSuchRoute("nothing is served at this path"))
        if error.status_code == 405:
            told = (error.headers or {}).get("Allow", "").split(", ")
            allowed = _allowed(routes, request) or sorted(told)
            return refusal(
                refusals.WrongMethod(f"{request.method} is not served here", allowed=allowed)
            )
        return refusal(refusals.InternalError("the server failed"))

    app.add_exception_handler(StoreError, store_error)
    app.add_exception_handler(RequestValidationError, broken_rule)
    app.add_exception_handler(HTTPException, routing)


def _allowed(routes: Sequence[Route], request: Request) -> list[str]:
    path = request.scope["path"]
    fitting = (route.methods or () for route in routes if route.path_regex.match(path))
    return sorted({method for methods in fitting for method in methods})


def _invalid(faults: Sequence[Any]) -> Response:
    """Say which fields break which rules; the values sent are left out."""
    told = [
        {
            "type": fault["type"],
            "loc": [
                part if isinstance(part, int) else shortened(part, _SHOWN_CHARS)
                for part in place(fault)
            ],
            "msg": shortened(fault["msg"].removeprefix("Value error, "), _SHOWN_CHARS),
        }
        for fault in faults[:_SHOWN_FAULTS]
    ]
    first = told[0]
    field = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    reason = first["msg"][:1].lower() + first["msg"][1:]
    return refusal(errors.InvalidInput(field, reason, errors=told))


def place(fault: Any) -> tuple[int | str, ...]:
    """Where a fault is; a rule over several fields names the one to look at itself."""
    named = fault.get("ctx", {}).get("field")
    return (*fault["loc"], named) if named else tuple(fault["loc"])
