"""One call to an OpenAI-compatible endpoint, with its re-ask: what it cost and why it failed.

Everything that instructor must not decide is decided here, between it and the openai client:
whether an answer is complete, which part of it is its text, and what to make of a failure.
Its exceptions quote whole answers, so none of them gets past this module.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from pc_store.domain import strict_json
from pc_store.domain.proposal import Usage
from pc_store.errors import ModelAnsweredBadly, ModelError, ModelMisconfigured, ModelSilent
from pc_store.llm.judging import Reply, explain, sift

R = TypeVar("R", bound=Reply)

REASKS = 1
"""How often an answer that breaks a rule is sent back."""

_COMPLETE = ("stop", "tool_calls", "function_call")


class _FinalError(Exception):
    """Tells instructor not to go on; `Call.failed` says why. It quotes nothing."""


@dataclass(frozen=True)
class _Called:
    """Stands for a tool's call; only its arguments are read."""

    arguments: str


class Call(Generic[R]):
    """One call, used once.

    Args:
        send: makes one request of the openai client's; may raise its errors.
        model: what the reply must be.
        tools: whether the answer is asked for as a tool's call.
        reasks: how often an answer that breaks a rule is sent back.
        limit: what an answer is cut off at, in words.
    """

    def __init__(
        self,
        send: Callable[[dict[str, Any]], Any],
        model: type[R],
        *,
        tools: bool,
        reasks: int = REASKS,
        limit: str = "PC_LLM_MAX_TOKENS",
    ) -> None:
        self.usage = Usage()
        self._request = send
        self._model = model
        self._tools = tools
        self._reasks = reasks
        self._limit = limit
        self._failure: ModelError | None = None
        self._text = ""
        self._sent = 0

    def ask(self, mode: Any, within_s: float, **options: Any) -> R | None:
        """The checked reply, or None when `failed` has the reason.

        Args:
            mode: an `instructor.Mode`.
            within_s: when the call is over, re-ask and transport retries included.
            options: of the request, messages among them.
        """
        import instructor
        from instructor.core.exceptions import InstructorError

        from pc_store.llm.transport import ending_after

        # No `context=`: with it instructor runs every message through Jinja, which deletes
        # or fails on `{{ … }}` in a log. The ids to check against are part of the model.
        create: Any = instructor.patch(create=self._send, mode=mode)
        with suppress(InstructorError), ending_after(within_s):
            reply: R = create(
                response_model=self._model, max_retries=self._reasks, strict=False, **options
            )
            return reply
        return None

    def failed(self) -> ModelError:
        """Why there is no reply, with what it cost."""
        failure = self._failure or self._judged()
        failure.usage = self.usage
        return failure

    def _judged(self) -> ModelAnsweredBadly:
        """The error of a last answer that was sent back and still breaks a rule."""
        told = "it is not in the form that PC_LLM_MODE asks for"
        try:
            self._model.model_validate_json(self._text)
        except ValidationError as error:
            told = explain(error)
        parts = self._model.parts_in(self._text)
        kept, rejected = sift(parts or (), self._model)
        what = "was sent back once and still breaks" if self._reasks else "breaks"
        return ModelAnsweredBadly(
            f"the model's answer {what} a rule: {told}",
            salvage=kept,
            rejected=rejected,
            readable=parts is not None,
        )

    def _send(self, **options: Any) -> Any:
        """What instructor calls in place of `chat.completions.create`."""
        self._sent += 1
        self._text = ""
        if self._sent > 1:
            self.usage += Usage(reasks=1)
        started = time.monotonic()
        try:
            completion = self._answer(options)
        finally:
            self.usage += Usage(seconds=time.monotonic() - started)
        self.usage += _cost(completion)
        self._text = self._whole(completion)
        return completion

    def _answer(self, options: dict[str, Any]) -> Any:
        import openai

        from pc_store.llm.failures import classify

        try:
            return self._request(options)
        except openai.APIError as error:
            self._failure = classify(error)
        except ValueError:  # the body says it is JSON and is not
            self._failure = ModelSilent("the model endpoint sent a response that is not JSON")
        raise _FinalError

    def _whole(self, completion: Any) -> str:
        """The text of an answer that is complete; other answers are never sent back."""
        choices: Any = getattr(completion, "choices", None)
        if isinstance(completion, str | bytes):
            self._failure = ModelMisconfigured(
                "the endpoint sent no chat completion: is PC_LLM_BASE_URL right?"
            )
        elif not isinstance(choices, list) or not choices or not hasattr(choices[0], "message"):
            self._failure = ModelAnsweredBadly("the model's response holds no answer")
        elif getattr(choices[0].message, "refusal", None):
            self._failure = ModelAnsweredBadly("the model refused to answer")
        elif choices[0].finish_reason not in _COMPLETE:
            self._failure = _incomplete(choices[0].finish_reason, self._limit)
        if self._failure is not None:
            raise _FinalError
        message = choices[0].message
        text = _text(message)
        if message.tool_calls:
            # instructor reads the first call and drops the others; several must agree, as
            # several objects in one text must.
            message.tool_calls[0].function.arguments = text
        elif self._tools and self._is_right(text):
            # Some servers do not honour a forced tool and answer in plain text.
            message.function_call = _Called(text)
        return text

    def _is_right(self, text: str) -> bool:
        try:
            self._model.model_validate_json(text)
        except ValidationError:
            return False
        return True


def _incomplete(finish_reason: object, limit: str) -> ModelAnsweredBadly:
    if finish_reason == "length":
        return ModelAnsweredBadly(f"the model's answer was cut off at {limit}")
    if finish_reason == "content_filter":
        return ModelAnsweredBadly("the model's answer was withheld by a content filter")
    return ModelAnsweredBadly("the model's answer ended for an unknown reason")


def _cost(completion: Any) -> Usage:
    """What one response says it cost; endpoints leave it out, or parts of it.

    Read before instructor sees the response: it replaces `usage` by a running total.
    """
    usage = getattr(completion, "usage", None)
    sizes = [getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens")]
    sent, answered = (size if type(size) is int and size > 0 else 0 for size in sizes)
    return Usage(calls=1, tokens_in=sent, tokens_out=answered)


def _text(message: Any) -> str:
    """What the message answers, in one text, whichever of its fields holds it."""
    calls = message.tool_calls or []
    if calls:
        return "\n".join(_arguments(call.function) for call in calls)
    if message.function_call is not None:
        return _arguments(message.function_call)
    return message.content if isinstance(message.content, str) else ""


def _arguments(function: Any) -> str:
    given = function.arguments
    return given if isinstance(given, str) else strict_json.dumps(given)
