"""Look at what this store leans on: the model's endpoint, the disk, whether anything runs.

Nothing here waits long, writes, or repeats a secret; each answers with one `Fact`.
"""

import shutil
from urllib.parse import urlsplit

import httpx

from pc_store.errors import ModelError
from pc_store.ledger import windows
from pc_store.ledger.database import Database
from pc_store.llm import providers
from pc_store.services.diagnose import Fact, processing_status
from pc_store.settings import Settings

_OPENAI = "https://api.openai.com/v1"
_PROBE_S = 5.0
_FREE_LOW_BYTES = 1 << 30
_FREE_OUT_BYTES = 100 << 20
_IDLE_S = 600.0
"""Work that waits longer than this, or than ten times the schedule, is not being looked for."""


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


def schedule_fact(db: Database, settings: Settings, scope_ids: list[str], *, now_us: int) -> Fact:
    """Whether somebody looks for due windows, told from what has waited too long.

    Dagster's own heartbeat is not read: importing Dagster takes seconds, and another machine's
    daemon is as good.
    """
    every_s = settings.memory_schedule_seconds
    waiting = [
        status
        for scope_id in scope_ids
        if (status := processing_status(db, scope_id, now_us=now_us)).pending
    ]
    if every_s is None:
        level = "warning" if waiting else "ok"
        return Fact("schedule", level, "PC_MEMORY_SCHEDULE_SECONDS is unset: only on request")
    patience_s = max(_IDLE_S, 10.0 * every_s) + settings.window_max_wait_s
    before = now_us - int(patience_s * 1_000_000)
    late = [
        status.scope_id
        for status in waiting
        if status.next_attempt_at is None and (status.oldest_pending_at or now_us) < before
    ]
    if late and not _ended_since(db, before):
        return Fact(
            "schedule",
            "error",
            f"not scheduled: {late[0]!r} has waited over {patience_s:.0f} s and no window has "
            "ended since; is dagster-daemon running, and the sensor memory_windows_due on?",
        )
    return Fact("schedule", "ok", f"due windows are looked for every {every_s} s")


def _ended_since(db: Database, moment_us: int) -> bool:
    with db.read() as conn:
        found = windows.ended_since(conn, "memory", finished_at=moment_us, window_id="", limit=1)
    return bool(found)


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
