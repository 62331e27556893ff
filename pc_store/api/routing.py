"""What every route does around its service: strict JSON, verbs, scopes, lanes, idempotency."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial, wraps
from typing import Annotated, Any, ParamSpec

from fastapi import APIRouter, Depends, Header
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pc_store.api.access import Principal, Verb
from pc_store.api.gate import unescaped
from pc_store.api.lanes import Call, Edge, Lane
from pc_store.domain import strict_json, text
from pc_store.errors import InvalidInput
from pc_store.ledger.database import Database
from pc_store.services import replayable
from pc_store.services.clock import now_us
from pc_store.services.replayable import KEY_MAX_CHARS, Answer

Params = ParamSpec("Params")
Endpoint = Callable[Params, BaseModel | Response]
Served = Callable[Params, Coroutine[Any, Any, Response]]
REPLAYED_HEADER = "Idempotency-Replayed"
_BODY = "body"
_SHORT_BYTES = 32_768


class _ParsedRequest(Request):
    """A request whose JSON body was parsed strictly."""

    parsed: Any = None

    async def json(self) -> Any:
        return self.parsed


class StoreRoute(APIRoute):
    """A route that checks the verb, the address and the JSON before FastAPI sees the request."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, with the checks before it."""
        answer = super().get_route_handler()
        verb: Verb | None = getattr(self.endpoint, "verb")  # noqa: B009 - set by a lane below
        known = {field.alias for field in self.dependant.query_params}
        expects_body = self.body_field is not None

        async def checked(request: Request) -> Response:
            principal: Principal = request.state.principal
            if verb is not None:
                principal.require(verb)
            for name, value in request.path_params.items():
                request.path_params[name] = text.storable(name, unescaped(value))
            for name, value in request.query_params.multi_items():
                if name not in known:
                    raise InvalidInput("query", "holds an unknown parameter")
                text.storable(name, value)
            parsed = _ParsedRequest(request.scope, request.receive)
            if expects_body and (body := await parsed.body()):
                kind = request.headers.get("content-type", "")
                if len(body) <= _SHORT_BYTES:
                    parsed.parsed = _json(kind, body)
                else:  # it may take a while, and others wait for the loop
                    edge: Edge = request.app.state.edge
                    parsed.parsed = await edge.run("reads", partial(_json, kind, body))
            request.state.sent = parsed.parsed
            return await answer(parsed)

        return checked


def router() -> APIRouter:
    """A router whose routes are `StoreRoute`s."""
    return APIRouter(route_class=StoreRoute)


def _json(content_type: str, body: bytes) -> Any:
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "application/json":
        raise InvalidInput("Content-Type", "must be application/json")
    try:
        return strict_json.loads(body.decode("utf-8"), field=_BODY)
    except UnicodeDecodeError as error:
        raise InvalidInput(_BODY, f"is not UTF-8 at byte {error.start}") from None
    except InvalidInput as error:
        field = error.field.removeprefix(f"{_BODY}.")
        raise InvalidInput(field, error.reason) from None


async def _reading(request: Request) -> Call:
    edge: Edge = request.app.state.edge
    return Call(edge, edge.db, principal=request.state.principal, sent=request.state.sent)


async def _writing(
    request: Request,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="Makes the call safe to repeat: for 24 hours the same key with the same "
            "body gets the stored answer, and with another body 409. "
            f"1 to {KEY_MAX_CHARS} characters."
        ),
    ] = None,
) -> Call:
    call = await _reading(request)
    return replace(
        call, target=f"{request.method} {request.url.path}", idempotency_key=idempotency_key
    )


Reader = Annotated[Call, Depends(_reading)]
Writer = Annotated[Call, Depends(_writing)]


def reads(
    verb: Verb = "read", *, public: bool = False
) -> Callable[[Endpoint[Params]], Served[Params]]:
    """Run an endpoint among the reads, for callers with the verb, on a scope they may see.

    Args:
        public: for everybody; the path is in `gate.PUBLIC`.
    """

    def decorate(endpoint: Endpoint[Params]) -> Served[Params]:
        @wraps(endpoint)
        async def served(*args: Params.args, **kwargs: Params.kwargs) -> Response:
            call = _admitted(kwargs)
            return await call.edge.run("reads", lambda: _told(endpoint(*args, **kwargs)))

        return _marked(served, None if public else verb)

    return decorate


def writes(
    verb: Verb = "contribute",
    *,
    status: int | Callable[[Any], int] = 200,
    location: Callable[[Any], str] | None = None,
) -> Callable[[Endpoint[Params]], Served[Params]]:
    """Run an endpoint among the writes, once per idempotency key.

    Args:
        status: of a success, or what tells it from the answer's body.
        location: where what the answer's body describes can be read.
    """
    return _mutates("writes", verb, status, location)


def extracts(verb: Verb = "contribute") -> Callable[[Endpoint[Params]], Served[Params]]:
    """Run an endpoint that waits for a model, once per idempotency key."""
    return _mutates("extractions", verb, 200, None)


def _mutates(
    lane: Lane,
    verb: Verb,
    status: int | Callable[[Any], int],
    location: Callable[[Any], str] | None,
) -> Callable[[Endpoint[Params]], Served[Params]]:
    def decorate(endpoint: Endpoint[Params]) -> Served[Params]:
        def act(kwargs: dict[str, Any], call: Call) -> Answer:
            told = endpoint(**(kwargs | {"call": call}))  # type: ignore[call-arg]
            assert isinstance(told, BaseModel)
            body = told.model_dump(mode="json", exclude_unset=True)
            return Answer(status(body) if callable(status) else status, body)

        def work(kwargs: dict[str, Any], call: Call) -> Response:
            around = replayable.once if lane == "writes" else _around_model
            answer = around(
                call.db,
                principal=call.principal.name,
                route=call.target,
                key=call.idempotency_key,
                body=call.sent,
                act=lambda db: act(kwargs, replace(call, db=db)),
                now_us=now_us(),
            )
            headers = {} if location is None else {"Location": location(answer.body)}
            if answer.replayed:
                headers[REPLAYED_HEADER] = "true"
            return JSONResponse(answer.body, answer.status, headers)

        @wraps(endpoint)
        async def served(*_args: Params.args, **kwargs: Params.kwargs) -> Response:
            call = _admitted(kwargs)
            return await call.edge.run(lane, partial(work, kwargs, call))

        return _marked(served, verb)

    return decorate


def _around_model(db: Database, *, act: Callable[[Database], Answer], **named: Any) -> Answer:
    return replayable.once_around_model(db, act=lambda: act(db), **named)


def _admitted(kwargs: dict[str, Any]) -> Call:
    """The call, if the caller may use the scope that the address or the body names."""
    call: Call = kwargs["call"]
    named = kwargs.get("scope_id") or getattr(kwargs.get("body"), "scope_id", None)
    if named is not None:
        call.principal.require_scope(named)
    return call


def _told(answer: BaseModel | Response) -> Response:
    if isinstance(answer, Response):
        return answer
    return Response(answer.model_dump_json(exclude_unset=True), media_type="application/json")


def _marked(served: Served[Params], verb: Verb | None) -> Served[Params]:
    served.verb = verb  # type: ignore[attr-defined]
    return served
