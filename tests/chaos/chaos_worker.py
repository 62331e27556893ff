"""A worker to kill: drains a scope until nothing waits, then prints how it ended.

    python chaos_worker.py DATABASE_URL HOME MODEL_URL SCOPE

`incubate` does the same for the scope's experience windows, `replay_aside` replays windows into a
generation, and `dream` works on all dreams.

Nothing in it knows that it may be killed. It prints `idle`, or the code and message of the error
that ended it.
"""

import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from pc_store.domain.window import WindowKey
from pc_store.errors import StoreError
from pc_store.ledger.database import Database
from pc_store.llm.client import OpenAIProposer
from pc_store.llm.experience_client import OpenAIExperienceModel
from pc_store.services import extract
from pc_store.services.begin import alive
from pc_store.services.dream_worker import run_pending
from pc_store.services.incubate import drain_experience
from pc_store.settings import Settings


def work(
    url: str, home: str, model_url: str, scope_id: str, ready: Connection | None = None
) -> str:
    """Drain the scope's memory windows; `ready` is told right before the first window."""
    model = OpenAIProposer(model="stub-1", base_url=model_url, timeout_s=20, transport_retries=0)

    def drain(db: Database, settings: Settings, run_id: str) -> int:
        done = extract.drain(db, settings, model, scope_id, budget_s=60, run_id=run_id)
        return len(done)

    return _until_idle(drain, url, home, ready)


def incubate(
    url: str, home: str, model_url: str, scope_id: str, ready: Connection | None = None
) -> str:
    """Drain the scope's experience windows, as `work` does."""
    model = OpenAIExperienceModel(
        model="stub-1", base_url=model_url, timeout_s=20, transport_retries=0
    )

    def drain(db: Database, settings: Settings, run_id: str) -> int:
        done = drain_experience(db, settings, model, scope_id, budget_s=60, run_id=run_id)
        return len(done)

    return _until_idle(drain, url, home, ready)


def replay_aside(
    url: str, home: str, model_url: str, scope_id: str, ready: Connection | None = None
) -> str:
    """Replay the scope's first twelve positions, three at a time, into a generation."""
    model = OpenAIProposer(model="stub-1", base_url=model_url, timeout_s=20, transport_retries=0)
    keys = [WindowKey(scope_id, first, first + 2) for first in (1, 4, 7, 10)]

    def replay(db: Database, settings: Settings, run_id: str) -> int:
        for key in keys:
            extract.replay(
                db, settings, model, key, mode="shadow", generation="aside", run_id=run_id
            )
        return 0

    return _until_idle(replay, url, home, ready)


def dream(
    url: str, home: str, model_url: str, scope_id: str, ready: Connection | None = None
) -> str:
    """Work on the dreams of all scopes until none is left."""
    del scope_id
    db = Database(url)
    settings = Settings(
        home=Path(home),
        llm_provider="openai",
        llm_base_url=model_url,
        llm_model="stub-1",
        llm_timeout_s=20,
        retry_base_s=0,
        lease_s=1.2,
        dream_concurrency=2,
    )
    if ready is not None:
        ready.send("ready")
    run_pending(db, settings, budget_s=60)
    return "idle"


def _until_idle(
    drain: Callable[[Database, Settings, str], int], url: str, home: str, ready: Connection | None
) -> str:
    db = Database(url)
    settings = Settings(home=Path(home), source_window_limit=3, retry_base_s=0)
    run_id = extract.new_run_id()
    if ready is not None:
        ready.send("ready")
    try:
        with alive(db, run_id, every_s=0.02):
            while drain(db, settings, run_id):
                pass
    except StoreError as error:
        return f"{error.code}: {error.message}"
    return "idle"


if __name__ == "__main__":
    sys.stdout.write(work(*sys.argv[1:]))
