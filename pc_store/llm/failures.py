"""Which of our errors a failed request is, told without a word of what was sent or answered.

Imports `openai`, which takes a second; import this module only to make a call.
"""

import re
from collections.abc import Iterator

import httpx2
import openai

from pc_store.errors import (
    ModelAnsweredBadly,
    ModelError,
    ModelMisconfigured,
    ModelSilent,
    ModelUnavailable,
)
from pc_store.llm.endpoint import Settings

_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_SETTING_OF = {
    "model": "MODEL",
    "response_format": "MODE",
    "tools": "MODE",
    "tool_choice": "MODE",
    "max_tokens": "MAX_TOKENS",
    "max_completion_tokens": "MAX_TOKENS",
    "dimensions": "DIMS",
}
"""Parameters an endpoint may refuse whatever the input, and the setting to change."""
_UNKNOWN_MODEL = {"model_not_found", "invalid_model", "unknown_model", "model_not_available"}


def classify(error: openai.APIError, settings: Settings = "PC_LLM") -> ModelError:
    """The store's error for one of the openai client's.

    Rate limits and connections say nothing of the input. A timeout or a server's fault may be
    of the input's making. Refusals of the key, the address, the model or a parameter need a
    person. 400, 413 and 422 are about the input: too long, or against a content policy.
    """
    if isinstance(error, openai.APIStatusError):
        return _of_status(error, settings)
    causes = list(_causes(error))
    if isinstance(error, openai.APITimeoutError):
        if any(isinstance(cause, httpx2.ConnectTimeout | httpx2.PoolTimeout) for cause in causes):
            return ModelUnavailable("the model endpoint cannot be reached in time")
        return ModelSilent("the model did not answer in time")
    if any(isinstance(cause, httpx2.UnsupportedProtocol | httpx2.InvalidURL) for cause in causes):
        return ModelMisconfigured(f"{settings}_BASE_URL is no http or https address")
    if isinstance(error, openai.APIConnectionError):
        kind = type(causes[0]).__name__ if causes else "no answer"
        return ModelUnavailable(f"the model endpoint cannot be reached ({kind})")
    return ModelSilent("the model endpoint sent a response that cannot be read")


_NOT_NOW = frozenset({409, 429, 503, 529})
"""Rate limits and "try later": they say nothing of the input."""


def _of_status(error: openai.APIStatusError, settings: Settings) -> ModelError:
    status = error.status_code
    code = _safe(error.code)
    told = f"the model endpoint answered HTTP {status}" + (f" ({code})" if code else "")
    setting = _SETTING_OF.get(error.param or "")
    if code in _UNKNOWN_MODEL:
        setting = "MODEL"
    if status in _NOT_NOW:
        return ModelUnavailable(told, status=status)
    if status == 408 or status >= 500:
        return ModelSilent(told, status=status)
    if status in (400, 413, 422) and setting is None:
        return ModelAnsweredBadly(
            f"{told}: it refuses this input, which may be too long or against its policy",
            status=status,
        )
    if setting is None:
        by_status = {401: "API_KEY", 403: "API_KEY"}
        setting = by_status.get(status, f"BASE_URL and {settings}_MODEL")
    return ModelMisconfigured(f"{told}: check {settings}_{setting}", status=status)


def _safe(code: object) -> str:
    """An error code, if it is one: endpoints put whole sentences there, which may quote input."""
    return code if isinstance(code, str) and _CODE.fullmatch(code) else ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause = error.__cause__
    while cause is not None:
        yield cause
        cause = cause.__cause__
