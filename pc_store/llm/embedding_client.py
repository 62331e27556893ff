"""Embeddings from any OpenAI-compatible endpoint, through `openai`.

Texts go out in batches. What comes back is checked and scaled to unit length here, whatever the
endpoint promises, and a text that the endpoint cannot embed is found by halving its batch, so
that it costs no other text its vector.

`openai` is imported on the first call. No text, no answer and no key is ever part of an error or
of a log line; errors are raised outside of `except` blocks for that reason.
"""

import base64
import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pc_store.domain.proposal import Usage
from pc_store.errors import (
    ModelAnsweredBadly,
    ModelError,
    ModelMisconfigured,
    ModelSilent,
    ModelUnavailable,
)
from pc_store.llm import endpoint
from pc_store.llm.embeddings import Embedded, Vectors
from pc_store.settings import Settings

if TYPE_CHECKING:
    import openai

READ_MAX_BYTES = 8_000
"""UTF-8 bytes of a text that are sent; the rest does not count. No tokeniser makes more tokens
than there are bytes, so this is within the 8,192 tokens that OpenAI's models read."""

SHORTENED_CHARS = 400
"""Characters of a longer text that are sent when the endpoint refuses it: models that run on a
desk often read no more than 512 tokens."""

DIMS_MAX = 16_384

_PROBE = "dimensions"
_CALL_TIMEOUTS = 2
"""A request with its retries ends after this many times `timeout_s`."""
_HOPELESS = 3
"""Single texts that fail before any other succeeds: then it is not the texts."""
_NORM_MIN = 1e-9


class OpenAIEmbedder:
    """An embedder behind an OpenAI-compatible endpoint; safe to share between threads.

    Args:
        dimensions: sent with each request, unless the endpoint refuses the parameter, and
            required of each vector.
        dims: what the model's vectors are known to have, when no `dimensions` are asked for;
            without either the model is asked for one vector at first need.
        batch: most texts in one request.
        timeout_s: for one response; a request with its retries takes at most twice that.
        transport_retries: of a request after a transport error, 429 or 5xx.

    Raises:
        ModelMisconfigured: the address, the key or the model's name cannot be used.
    """

    def __init__(
        self,
        *,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        dimensions: int | None = None,
        dims: int | None = None,
        batch: int = 64,
        timeout_s: float = 10.0,
        transport_retries: int = 2,
    ) -> None:
        self._model = model
        self._base_url = base_url or endpoint.DEFAULT_BASE_URL
        self._api_key = api_key
        self._dimensions = dimensions
        self._dims = dimensions or dims
        self._batch = batch
        self._timeout_s = timeout_s
        self._retries = transport_retries
        self._refused: set[str] = set()
        self._lock = threading.Lock()
        self._client: openai.OpenAI | None = None
        endpoint.check(self._base_url, api_key, "PC_EMBED")

    @classmethod
    def from_settings(cls, settings: Settings, *, dims: int | None = None) -> Self:
        """The embedder that the settings describe; no connection is made.

        Args:
            dims: what the model's vectors are known to have; counts if the settings ask for
                none.

        Raises:
            ModelMisconfigured: the model's name is missing, or a value cannot be used.
        """
        if settings.embed_model is None:
            raise ModelMisconfigured(
                "PC_EMBED_MODEL is not set; it names the model to ask at PC_EMBED_BASE_URL"
            )
        key = settings.embed_api_key
        return cls(
            model=settings.embed_model,
            base_url=settings.embed_base_url,
            api_key=key.get_secret_value().strip() if key else None,
            dimensions=settings.embed_dims,
            dims=dims,
            batch=settings.embed_batch,
            timeout_s=settings.embed_timeout_s,
            transport_retries=settings.embed_transport_retries,
        )

    @property
    def profile(self) -> str:
        """`openai:<model>:<dims>:unit`, whoever serves the model. Raises ModelError as `dims`."""
        return f"openai:{self._model}:{self.dims}:unit"

    @property
    def dims(self) -> int:
        """Length of every vector.

        Raises:
            ModelError: it is not known yet, and the model cannot be asked.
        """
        if self._dims is None:
            _, rows = self._ask([_PROBE])
            vector = _vector(rows[0])
            if vector is None:
                raise ModelAnsweredBadly("the model's answer holds no embedding")
            self._dims = len(vector)
        return self._dims

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (len(texts), dims), each row of unit length, in the order of `texts`.

        Raises:
            ModelUnavailable: no connection, or the rate limit, after transport retries.
            ModelSilent: no answer in time, or the server failed, after transport retries.
            ModelMisconfigured: the endpoint refuses the key, the model, the address or the
                dimensions.
            ModelAnsweredBadly: the answer is not one vector of the right size for each text,
                or the endpoint refuses a text.
        """
        done = self.attempt(texts)
        failure = done.stopped or next(iter(done.failed.values()), None)
        if failure is not None:
            raise failure
        result = np.empty((len(texts), self.dims), dtype=np.float32)
        for place, vector in done.made.items():
            result[place] = vector
        return result

    def attempt(self, texts: Sequence[str]) -> Embedded:
        """Embed as many of the texts as can be, each different text once. Raises nothing."""
        read = [_readable(text) for text in texts]
        work = _Work(list(dict.fromkeys(read)))
        places = []
        for place, text in enumerate(work.texts):
            if text.strip():
                places.append(place)
            else:
                work.failed[place] = ModelAnsweredBadly("a blank text has no embedding")
        for start in range(0, len(places), self._batch):
            self._collect(work, places[start : start + self._batch])
        place_of = {text: place for place, text in enumerate(dict.fromkeys(read))}
        found = [(at, place_of[text]) for at, text in enumerate(read)]
        return Embedded(
            {at: work.made[place] for at, place in found if place in work.made},
            {at: work.failed[place] for at, place in found if place in work.failed},
            work.stopped,
            work.usage,
        )

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _collect(self, work: "_Work", places: list[int]) -> None:
        """Embed the texts at some places, or find those among them that cannot be."""
        if work.stopped is not None:
            return
        failure: ModelError | None = None
        bad: list[int] = []
        try:
            usage, rows = self._ask([work.texts[place] for place in places])
            work.usage += usage
            vectors = {place: _vector(rows[at]) for at, place in enumerate(places)}
            bad = self._keep(work, vectors)
        except ModelError as error:
            failure = error
        if failure is None and not bad:
            return
        if failure is not None and _is_the_endpoints(failure):
            work.stopped = failure
        elif len(places) == 1:
            self._alone(work, places[0], failure or ModelAnsweredBadly(_NO_VECTOR))
        elif failure is None:
            for place in bad:
                self._collect(work, [place])
        else:
            half = len(places) // 2
            self._collect(work, places[:half])
            self._collect(work, places[half:])

    def _keep(self, work: "_Work", vectors: Mapping[int, Vectors | None]) -> list[int]:
        """Keep the vectors that are right; the places of the others.

        Raises:
            ModelError: their size cannot be asked for, or all of the first ones have another.
        """
        dims = self.dims
        sizes = {len(vector) for vector in vectors.values() if vector is not None}
        if len(sizes) == 1 and not work.made and (other := sizes.pop()) != dims:
            raise ModelMisconfigured(
                f"the model's vectors have {other} dimensions, not {dims}: it is not the model "
                "that PC_EMBED_MODEL named before, or it does not support PC_EMBED_DIMS",
                dims=other,
            )
        bad = []
        for place, vector in vectors.items():
            if vector is None or len(vector) != dims:
                bad.append(place)
            else:
                work.made[place] = vector
        return bad

    def _alone(self, work: "_Work", place: int, failure: ModelError) -> None:
        """What becomes of a single text that failed: once more, shortened; or it is given up."""
        text = work.texts[place]
        if "status" in failure.details and len(text) > SHORTENED_CHARS:
            work.texts[place] = text[:SHORTENED_CHARS]
            self._collect(work, [place])
            return
        work.failed[place] = failure
        work.given_up += 1
        if not work.made and work.given_up >= _HOPELESS:
            work.stopped = failure

    def _ask(self, texts: Sequence[str]) -> tuple[Usage, dict[int, Any]]:
        """One request: what it cost, and the embedding as answered for each place.

        Raises:
            ModelError: there is no answer, or it does not have exactly one item for each text.
        """
        started = time.monotonic()
        answer = self._answer(texts)
        items = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(items, list):
            raise ModelAnsweredBadly("the model's response holds no list of embeddings")
        if len(items) != len(texts):
            raise ModelAnsweredBadly(
                f"the model gave {len(items)} embeddings for {len(texts)} texts"
            )
        rows: dict[int, Any] = {}
        for at, item in enumerate(items):
            place = item.get("index", at) if isinstance(item, dict) else None
            if type(place) is not int or not 0 <= place < len(texts) or place in rows:
                raise ModelAnsweredBadly(
                    "the model's embeddings do not name each text's index exactly once"
                )
            rows[place] = item.get("embedding")
        return _cost(answer, time.monotonic() - started), rows

    def _answer(self, texts: Sequence[str]) -> Any:
        """The JSON of one response."""
        import openai

        from pc_store.llm.failures import classify
        from pc_store.llm.transport import ending_after

        failure: ModelError
        try:
            with ending_after(_CALL_TIMEOUTS * self._timeout_s):
                response = self._send(texts)
            if "json" in response.headers.get("content-type", "json"):
                return response.json()
            failure = ModelMisconfigured(
                "the endpoint sent no embeddings: is PC_EMBED_BASE_URL right?"
            )
        except openai.APIError as error:
            failure = classify(error, "PC_EMBED")
        except ValueError:  # the body says it is JSON and is not
            failure = ModelSilent("the model endpoint sent a response that is not JSON")
        raise failure

    def _send(self, texts: Sequence[str]) -> Any:
        """One request, without `dimensions` if this endpoint has refused the parameter before.

        Floats are asked for: every endpoint knows them, whereas some refuse base64.
        """
        import httpx2
        import openai

        from pc_store.llm.transport import post

        client = self._connected()
        options: dict[str, Any] = {
            "model": self._model,
            "input": list(texts),
            "encoding_format": "float",
        }
        if self._dimensions is None or "dimensions" in self._refused:
            return post(client, "/embeddings", options, httpx2.Response)
        try:
            wanted = options | {"dimensions": self._dimensions}
            return post(client, "/embeddings", wanted, httpx2.Response)
        except openai.BadRequestError as error:
            if error.param != "dimensions":
                raise
        self._refused.add("dimensions")
        return post(client, "/embeddings", options, httpx2.Response)

    def _connected(self) -> "openai.OpenAI":
        with self._lock:
            if self._client is None:
                from pc_store.llm.transport import connect

                self._client = connect(
                    self._base_url,
                    self._api_key,
                    timeout_s=self._timeout_s,
                    retries=self._retries,
                )
            return self._client


_NO_VECTOR = "the model's embedding of a text is not a vector of finite numbers of the right size"


@dataclass
class _Work:
    """Different texts, as they are sent, and what became of them by place."""

    texts: list[str]
    made: dict[int, Vectors] = field(default_factory=dict)
    failed: dict[int, ModelError] = field(default_factory=dict)
    stopped: ModelError | None = None
    usage: Usage = field(default_factory=Usage)
    given_up: int = 0


def _readable(text: str) -> str:
    """What is sent of a text: its beginning, with lone surrogates replaced."""
    encoded = text.encode("utf-8", "replace")
    return encoded[:READ_MAX_BYTES].decode("utf-8", "ignore")


def _is_the_endpoints(failure: ModelError) -> bool:
    """Whether asking for fewer texts would fail alike. Some servers answer 500 to a long text."""
    if isinstance(failure, ModelSilent):
        return failure.details.get("status") != 500
    return isinstance(failure, ModelUnavailable | ModelMisconfigured)


def _vector(answered: Any) -> Vectors | None:
    """An embedding as float32, unit length; None when it is no vector with a direction.

    Endpoints that ignore the format asked for send base64 of little-endian float32.
    """
    try:
        if isinstance(answered, str):
            raw = np.frombuffer(base64.b64decode(answered, validate=True), dtype="<f4")
        elif isinstance(answered, list):
            raw = np.asarray(answered, dtype=np.float64)
        else:
            return None
    except (ValueError, TypeError, OverflowError):
        return None
    if raw.ndim != 1 or not 1 <= len(raw) <= DIMS_MAX or not np.isfinite(raw).all():
        return None
    exact = raw.astype(np.float64)
    norm = float(np.linalg.norm(exact))
    if not math.isfinite(norm) or norm < _NORM_MIN:
        return None
    unit: Vectors = (exact / norm).astype(np.float32)
    return unit


def _cost(answer: Mapping[str, Any], seconds: float) -> Usage:
    """What a response says it cost; endpoints leave it out, or parts of it."""
    usage = answer.get("usage")
    told = usage if isinstance(usage, dict) else {}
    sizes = (told.get("prompt_tokens"), told.get("total_tokens"))
    tokens = next((size for size in sizes if type(size) is int and size > 0), 0)
    return Usage(calls=1, tokens_in=tokens, seconds=seconds)
