"""Proposals from any OpenAI-compatible endpoint, through `openai` and `instructor`.

One call shows evidence and entries, and takes a checked list of changes. An answer that breaks
a rule is sent back once with the rules it breaks; what is wrong after that is an error, with
the part of the last answer that is right.

`openai` and `instructor` are imported on the first call: they take a second, which neither the
command line nor a code location should pay for. Nothing that was sent or answered, and no key,
is ever part of an error or of a log line; errors are raised outside of `except` blocks for that
reason, because instructor's exceptions quote whole answers.
"""

import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import urlsplit

from pc_store.domain.proposal import Answer, Evidence, Proposal, ShownEntry
from pc_store.domain.source import estimated_tokens
from pc_store.errors import ModelAnsweredBadly, ModelMisconfigured
from pc_store.llm import policy as prompts
from pc_store.llm.call import REASKS, Call
from pc_store.llm.evidence import request_text
from pc_store.llm.replies import reply_model
from pc_store.settings import Settings

if TYPE_CHECKING:
    import openai
    from openai.types.chat import ChatCompletion

Mode = Literal["json_schema", "tools", "json", "md_json"]

DEFAULT_BASE_URL = "https://api.openai.com/v1"
CALL_TIMEOUTS = 1 + REASKS
"""A call with its re-ask and retries ends after this many times `timeout_s`."""

_SCHEMA_TOKENS = 600
"""What the reply's schema takes, without the ids in it."""


class OpenAIProposer:
    """A proposer behind an OpenAI-compatible endpoint; safe to share between threads.

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
        self._base_url = base_url or DEFAULT_BASE_URL
        self._api_key = api_key
        self._mode: Mode = mode
        self._timeout_s = timeout_s
        self._max_tokens = max_tokens
        self._transport_retries = transport_retries
        self._lock = threading.Lock()
        self._client: openai.OpenAI | None = None
        self._refused: set[str] = set()
        self._check()

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The proposer that the settings describe; no connection is made.

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

    def overhead_tokens(self, policy: str) -> int:
        """Estimated tokens a call sends beside its evidence and entries."""
        return estimated_tokens(_system(policy)) + _SCHEMA_TOKENS

    def propose(
        self, evidence: Sequence[Evidence], entries: Sequence[ShownEntry], *, policy: str
    ) -> Answer:
        """Ask once about evidence that fits one call, see `evidence.batches`.

        Entries are shown under the short handles m1, m2 …, which cost fewer tokens than their
        ids and cannot be mistyped; proposals name the real ids again.

        Raises:
            ModelUnavailable: no connection, or the rate limit, after transport retries.
            ModelSilent: no answer in time, or the server failed, after transport retries.
            ModelMisconfigured: the endpoint refuses the key, the model, the address or the mode.
            ModelAnsweredBadly: the answer is incomplete or refused, or breaks a rule after it
                was sent back once; `salvage` and `rejected` are of the last answer.
        """
        if not evidence:
            return Answer(())
        handles = {f"m{number}": entry.entry_id for number, entry in enumerate(entries, start=1)}
        shown = [
            replace(entry, entry_id=handle) for handle, entry in zip(handles, entries, strict=True)
        ]
        system = _system(policy)
        model = reply_model(
            (one.evidence_id for one in evidence), handles, examples=prompts.examples(system)
        )
        messages = [
            {"role": "system", "content": system},
            {"role": "user", "content": request_text(evidence, shown)},
        ]
        call = Call(self._send, model, tools=self._mode == "tools")
        reply = call.ask(
            self._instructor_mode(),
            CALL_TIMEOUTS * self._timeout_s,
            model=self._model,
            messages=messages,
            temperature=0,
            max_tokens=self._max_tokens,
        )
        if reply is None:
            failure = call.failed()
            if isinstance(failure, ModelAnsweredBadly):
                failure.salvage = tuple(_named(one, handles) for one in failure.salvage)
            raise failure
        proposals = tuple(_named(one.proposal(), handles) for one in reply.candidates)
        return Answer(proposals, call.usage)

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _check(self) -> None:
        """Refuse at once what could only fail later, and less clearly."""
        parts = urlsplit(self._base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ModelMisconfigured("PC_LLM_BASE_URL is no http or https address")
        if self._base_url == DEFAULT_BASE_URL and not self._api_key:
            raise ModelMisconfigured("PC_LLM_API_KEY is not set, and api.openai.com needs it")
        # It becomes a header, and a header holds printable ASCII.
        if self._api_key and not (self._api_key.isascii() and self._api_key.isprintable()):
            raise ModelMisconfigured("PC_LLM_API_KEY holds a character that no key can hold")

    def _connected(self) -> "openai.OpenAI":
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _connect(self) -> "openai.OpenAI":
        import httpx2
        import openai

        from pc_store.llm.transport import CONNECT_TIMEOUT_S, BoundedClient, silence_text_in_logs

        silence_text_in_logs()
        url = httpx2.URL(self._base_url)
        # A password in the address would be part of every request that httpx2 logs.
        login = (url.username, url.password) if url.userinfo else None
        timeout = httpx2.Timeout(self._timeout_s, connect=min(self._timeout_s, CONNECT_TIMEOUT_S))
        http = BoundedClient(timeout=timeout, auth=login)
        weakref.finalize(self, http.close)
        return openai.OpenAI(
            base_url=url.copy_with(userinfo=b""),
            api_key=self._api_key or "none",
            timeout=timeout,
            max_retries=self._transport_retries,
            http_client=http,
        )

    def _send(self, options: dict[str, Any]) -> "ChatCompletion":
        """One request, without the parameters this endpoint has refused before.

        OpenAI's reasoning models refuse `temperature` and know `max_tokens` by another name.
        """
        import openai

        client = self._connected()
        while True:
            try:
                answered: ChatCompletion = client.chat.completions.create(**self._accepted(options))
                return answered
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


def _system(policy: str) -> str:
    return f"{policy.strip()}\n\n{prompts.reply_format().text}"


def _named(proposal: Proposal, handles: Mapping[str, str]) -> Proposal:
    if proposal.entry_id is None:
        return proposal
    return replace(proposal, entry_id=handles[proposal.entry_id])
