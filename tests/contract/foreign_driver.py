"""Runs scenarios through the published Python client, in that client's own Python.

    PYTHON_OF_THE_CLIENT foreign_driver.py SERVER_URL RUN_NAME

Prints one JSON line a scenario: `module`, `name`, and `failure`, null when it holds.
"""

import asyncio
import json
import sys
import traceback
import typing
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
from powercontext.client import InvalidResponseError, PowerContextClient, ServerResponseError
from pydantic import BaseModel, ValidationError

sys.path.insert(0, str(Path(__file__).parent))

from caller import Answer, Caller
from scenario_names import MODULES, PUBLISHED_ONLY, names


class ForeignCaller(Caller):
    """Sends calls with the published client; whatever it refuses, it refuses here."""

    def __init__(self, url: str, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._url = url
        self._client = PowerContextClient(url, timeout=60)
        self._name = name
        self._scopes = 0
        self.scope = self.new_scope()["scope_id"]

    def new_scope(self, **fields: Any) -> Any:
        self._scopes += 1
        key = f"{self._name}-{self._scopes}"
        asked = {"title": "A title", "summary": "A summary", "idempotency_key": key}
        return self.ok("create_scope", asked | fields)

    def put(self, path: str, body: Any) -> int:
        return httpx.put(self._url + path, json=body, trust_env=False).status_code

    def call(self, operation: str, request: Any = None, **arguments: Any) -> Answer:
        method = getattr(self._client, operation)
        if request is not None:
            hint = typing.get_type_hints(method)["request"]
            shape = next(t for t in (hint, *typing.get_args(hint)) if _is_model(t))
            try:
                arguments["request"] = shape.model_validate(request)
            except ValidationError as error:
                found = [{"loc": problem["loc"]} for problem in error.errors()]
                return Answer(422, None, "invalid_request", {"refused_by_client": found})
        try:
            found = self._loop.run_until_complete(method(**arguments))
        except ServerResponseError as error:
            code = error.code if error.request_id else "no request id"
            return Answer(error.status_code, None, code, error.details)
        except InvalidResponseError as error:
            raise AssertionError(f"{operation}: the client refuses the answer") from error
        if found is None:
            return Answer(304)
        return Answer(200, found.model_dump(mode="json", by_alias=True))

    def close(self) -> None:
        self._loop.run_until_complete(self._client.aclose())


def _is_model(shape: Any) -> bool:
    return isinstance(shape, type) and issubclass(shape, BaseModel)


def main(url: str, run: str) -> None:
    loop = asyncio.new_event_loop()
    for module in (*MODULES, PUBLISHED_ONLY):
        scenarios = import_module(module)
        for name in names(module):
            failure = None
            try:
                caller = ForeignCaller(url, loop, f"{run}-{module}-{name}")
                getattr(scenarios, name)(caller)
                caller.close()
            except Exception as error:  # noqa: BLE001  # each becomes the failure of one test
                shown = traceback.TracebackException.from_exception(error, capture_locals=True)
                failure = "".join(shown.format())
            found = {"module": module, "name": name, "failure": failure}
            sys.stdout.write(json.dumps(found) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
