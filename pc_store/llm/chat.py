"""One model behind an OpenAI-compatible endpoint, asked for replies of a given shape.

A reply that breaks a rule is sent back once with the rules it breaks; what is wrong after that is
an error, with the part of the last reply that is right.

`openai` and `instructor` are imported on the first call: they take a second, which neither the
command line nor a code location should pay for. Nothing that was sent or answered, and no key,
is ever part of an error or of a log line; errors are raised outside of `except` blocks for that
reason, because instructor's exceptions quote whole answers.
"""

import math
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from pc_store.domain.proposal import Usage
from pc_store.errors import ModelMisconfigured
from pc_store.llm import endpoint
from pc_store.llm.call import REASKS, Call
from pc_store.llm.judging import Reply
from pc_store.settings import Settings

if TYPE_CHECKING:
    import openai
    from openai.types.chat import ChatCompletion

Mode = Literal["json_schema", "tools", "json", "md_json"]
R = TypeVar("R", bound=Reply)

CALL_TIMEOUTS = 1 + REASKS
"""A call with its re-ask and retries ends after this many times `timeout_s`."""


class ChatModel:
    """A model behind an OpenAI-compatible endpoint; safe to share between threads.

    Waiting is bounded: one HTTP response takes at most `timeout_s` (twice that if the server
    falls silent half way), and a whole call, its re-ask and its transport retries included,
    ends after `2 * timeout_s`, plus a last silence of at most `timeout_s`.
    """

    def __init__(
        self,
        *,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        mode: Mode = "json_schema",
        timeout_s: float = 120.0,
        max_tokens: int = 4_096,
        transport_retries: int = 2,
    ) -> None:
        self._model = model
        self._base_url = base_url or endpoint.DEFAULT_BASE_URL
        self._api_key = api_key
        self._mode: Mode = mode
        self._timeout_s = timeout_s
        self._max_tokens = max_tokens
        self._transport_retries = transport_retries
        self._lock = threading.Lock()
        self._client: openai.OpenAI | None = None
        self._refused: set[str] = set()
        endpoint.check(self._base_url, api_key, "PC_LLM")

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The model that the settings describe; no connection is made.

        Raises:
            ModelMisconfigured: the model's name is missing, or a value cannot be used.
        """
        if settings.llm_model is None:
            raise ModelMisconfigured(
                "PC_LLM_MODEL is not set; it names the model to ask at PC_LLM_BASE_URL"
            )
        key = settings.llm_api_key
        return cls(
            model=settings.llm_model,
            base_url=settings.llm_base_url,
            api_key=key.get_secret_value().strip() if key else None,
            mode=settings.llm_mode,
            timeout_s=settings.llm_timeout_s,
            max_tokens=settings.llm_max_tokens,
            transport_retries=settings.llm_transport_retries,
        )

    @property
    def provider(self) -> str:
        """Always `openai`, whoever serves the model."""
        return "openai"

    @property
    def model(self) -> str:
        """The model's name as configured."""
        return self._model

    def prepare(self) -> None:
        """Load the client now: seconds that would count as the first request's otherwise."""
        self._instructor_mode()
        self._connected()

    def ask(
        self,
        reply: type[R],
        *,
        system: str,
        user: str,
        reasks: int = REASKS,
        within_s: float | None = None,
        max_tokens: int | None = None,
    ) -> tuple[R, Usage]:
        """Ask once; the reply breaks no rule of its model.

        Args:
            reasks: how often an answer that breaks a rule is sent back, 0 or 1.
            within_s: when the call is over, if that is sooner than it is anyway.
            max_tokens: of the answer, if these are fewer than the model's.

        Raises:
            ModelUnavailable: no connection, or the rate limit, after transport retries.
            ModelSilent: no answer in time, or the server failed, after transport retries.
            ModelMisconfigured: the endpoint refuses the key, the model, the address or the mode.
            ModelAnsweredBadly: the answer is incomplete or refused, or breaks a rule after it
                was sent back once; `salvage` and `rejected` are of the last answer.
        """
        most, limit = self._max_tokens, "PC_LLM_MAX_TOKENS"
        if max_tokens is not None and max_tokens <= most:
            most, limit = max_tokens, f"{max_tokens} tokens"
        call = Call(self._send, reply, tools=self._mode == "tools", reasks=reasks, limit=limit)
        answered = call.ask(
            self._instructor_mode(),
            min(CALL_TIMEOUTS * self._timeout_s, within_s or math.inf),
            model=self._model,
            messages=[{"role": "system", "content": system}, {"role": "user", "content": user}],
            temperature=0,
            max_tokens=most,
        )
        if answered is None:
            raise call.failed()
        return answered, call.usage

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self) -> "openai.OpenAI":
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _connect(self) -> "openai.OpenAI":
        from pc_store.llm.transport import connect

        return connect(
            self._base_url,
            self._api_key,
            timeout_s=self._timeout_s,
            retries=self._transport_retries,
        )

    def _send(self, options: dict[str, Any]) -> "ChatCompletion":
        """One request, without the parameters this endpoint has refused before.

        OpenAI's reasoning models refuse `temperature` and know `max_tokens` by another name.
        """
        import openai
        from openai.types.chat import ChatCompletion

        from pc_store.llm.transport import post

        client = self._connected()
        while True:
            try:
                return post(client, "/chat/completions", self._accepted(options), ChatCompletion)
            except openai.BadRequestError as error:
                refused = error.param
                if refused not in ("max_tokens", "temperature") or refused in self._refused:
                    raise
                self._refused.add(refused)

    def _accepted(self, options: Mapping[str, Any]) -> dict[str, Any]:
        accepted = dict(options)
        if "temperature" in self._refused:
            accepted.pop("temperature", None)
        if "max_tokens" in self._refused and "max_tokens" in accepted:
            accepted["max_completion_tokens"] = accepted.pop("max_tokens")
        if self._mode == "md_json":
            accepted.pop("response_format", None)
        return accepted

    def _instructor_mode(self) -> Any:
        import instructor

        # `md_json` is JSON mode with nothing but the prompt to ask for it. instructor's own
        # MD_JSON takes the last of several objects in an answer, which is a guess.
        return {
            "json_schema": instructor.Mode.JSON_SCHEMA,
            "tools": instructor.Mode.TOOLS,
            "json": instructor.Mode.JSON,
            "md_json": instructor.Mode.JSON,
        }[self._mode]
