"""Look at what this store leans on outside its ledger: endpoints, index files, the disk.

Nothing here waits long, writes, or repeats a secret; each answers with one `Fact`.
"""

import os
import shutil
from urllib.parse import urlsplit

import httpx

from pc_store.errors import ModelError
from pc_store.ledger.database import Database
from pc_store.llm import providers
from pc_store.services.diagnose import Fact
from pc_store.settings import Settings

_OPENAI = "https://api.openai.com/v1"
_PROBE_S = 5.0
_FREE_LOW_BYTES = 1 << 30
_FREE_OUT_BYTES = 100 << 20
_UNBUILT_S = 3_600.0
"""An index file that is due for so long is not being built."""


def model_fact(settings: Settings) -> Fact:
    """Whether the model's endpoint answers, knows the key, and has the model; asks it nothing."""
    if settings.provider == "builtin":
        return Fact("model", "ok", "the built-in extractor; PC_LLM_MODEL names a better one")
    if settings.llm_model is None:
        return Fact("model", "error", "PC_LLM_MODEL is not set, so nothing can be extracted")
    base = (settings.llm_base_url or _OPENAI).rstrip("/")
    where = _shown(base)
    key = settings.llm_api_key
    headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}
    try:
        answer = httpx.get(f"{base}/models", headers=headers, timeout=_PROBE_S)
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        return Fact("model", "error", f"{where} cannot be reached: {type(error).__name__}")
    if answer.status_code in (401, 403):
        what = "PC_LLM_API_KEY" if key else "a call without PC_LLM_API_KEY"
        return Fact("model", "error", f"{where} refuses {what} ({answer.status_code})")
    if answer.status_code in (404, 405):
        return Fact("model", "ok", f"{settings.llm_model} at {where}, which lists no models")
    if not answer.is_success:
        return Fact("model", "warning", f"{where} answers {answer.status_code} to GET /models")
    known = _models(answer)
    if known and settings.llm_model not in known:
        return Fact("model", "error", f"{where} has no model {settings.llm_model!r}")
    return Fact("model", "ok", f"{settings.llm_model} at {where}")


def embedder_fact(settings: Settings) -> Fact:
    """Which embedder is in force and its dimensions; an endpoint is asked for one vector."""
    if settings.embedding_provider == "none":
        return Fact("embedder", "ok", "none: search is by words alone")
    hasty = settings.model_copy(
        update={
            "embed_timeout_s": min(settings.embed_timeout_s, _PROBE_S),
            "embed_transport_retries": 0,
        }
    )
    try:
        using = providers.embedder(hasty)
        assert using is not None
        if settings.embedding_provider == "builtin":
            return Fact("embedder", "ok", f"the built-in encoder, {using.dims} dimensions")
        dims = using.embed(["dimensions"]).shape[1]
    except ModelError as error:
        return Fact("embedder", "error", error.message)
    where = _shown((settings.embed_base_url or _OPENAI).rstrip("/"))
    return Fact("embedder", "ok", f"{settings.embed_model} at {where}, {dims} dimensions")


def disk_fact(settings: Settings) -> Fact:
    """Whether there is room where the store lives."""
    home = settings.home.absolute()
    existing = next(folder for folder in (home, *home.parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    level = "error" if free < _FREE_OUT_BYTES else "warning" if free < _FREE_LOW_BYTES else "ok"
    return Fact("disk", level, f"{free / (1 << 30):.1f} GiB free at {existing}")


def index_fact(db: Database, settings: Settings, *, now_us: int) -> Fact:
    """Whether index files can be written, and whether somebody builds those that are due."""
    from pc_store.services import index

    path = settings.index_path
    existing = next(folder for folder in (path, *path.parents) if folder.exists())
    if not os.access(existing, os.W_OK):
        says = f"{path} cannot be written: searches will be slower"
        return Fact("search index", "warning", says)
    shards = index.status(db, settings)
    due = [one for one in shards if one.due(settings, now_us=now_us)]
    since = min((one.tail.since for one in due if one.tail.since is not None), default=now_us)
    waited_s = (now_us - since) / 1_000_000
    says = f"{len(due)} of {len(shards)} shards at {path} are due to be built"
    if waited_s > settings.index_max_age_s + _UNBUILT_S:
        says += (
            f", for changes {waited_s:.0f} s old: searches are slower. Is dagster-daemon running, "
            "and the sensor search_index_due on? Or run `pc index build`"
        )
        return Fact("search index", "warning", says)
    return Fact("search index", "ok", says)


def _models(answer: httpx.Response) -> set[str]:
    """The models an endpoint lists; empty when it lists none in the usual form."""
    try:
        return {str(item["id"]) for item in answer.json()["data"]}
    except (ValueError, KeyError, TypeError):
        return set()


def _shown(url: str) -> str:
    """An address without the password that may be in it."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", f":{parts.port}" if parts.port else ""
    except ValueError:
        return "PC_LLM_BASE_URL, which is no address,"
    return f"{parts.scheme}://{host}{port}{parts.path}"
