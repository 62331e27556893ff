"""The fixtures of the pipeline's tests: plants, as `plant.py` describes them."""

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from plant import Plant

from pc_pipelines import resources
from pc_pipelines.resources import StoreResource
from pc_store.ledger.database import open_database

ROOT = Path(__file__).parents[2]


def migrate(url: str) -> None:
    open_database(url).close()


def dagster_schema(url: str) -> None:
    """Make Dagster's own tables in an empty Postgres database."""
    from dagster_postgres import DagsterPostgresStorage

    storage = DagsterPostgresStorage(url, should_autocreate_tables=True)
    storage.event_log_storage.dispose()
    storage.run_storage.dispose()
    storage.schedule_storage.dispose()


@pytest.fixture(scope="session")
def _dagster_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A DAGSTER_HOME with the tables in it, to be copied: making them takes a second."""
    home = tmp_path_factory.mktemp("dagster-home")
    shutil.copyfile(ROOT / "dagster.yaml", home / "dagster.yaml")
    before = os.environ.get("DAGSTER_HOME")
    os.environ["DAGSTER_HOME"] = str(home)
    try:
        with dg.DagsterInstance.from_config(str(home)) as instance:
            instance.add_dynamic_partitions("warm", ["up"])
            instance.delete_dynamic_partition("warm", "up")
            instance.get_runs(limit=1)
            instance.all_instigator_state()
    finally:
        del os.environ["DAGSTER_HOME"]
        if before:
            os.environ["DAGSTER_HOME"] = before
    return home


@pytest.fixture
def new_plant(
    _dagster_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Callable[..., Plant]]:
    """Make plants; settings are given by the names of their variables, without PC_.

    `ledger` and `history` are `sqlite` or `postgres`. A second plant of a test keeps the first
    one's ledger unless it names one, and has an instance of its own.
    """
    numbers = itertools.count()
    opened: list[Plant] = []
    made: list[tuple[Any, str]] = []

    def database(kind: str, build: Callable[[str], None] | None) -> str:
        databases = request.getfixturevalue(f"{kind}_databases")
        url: str = databases.create(build)
        made.append((databases, url))
        return url

    def create(
        *, ledger: str | None = None, history: str = "sqlite", build: Any = migrate, **env: str
    ) -> Plant:
        home = tmp_path / f"dagster{next(numbers)}"
        shutil.copytree(_dagster_home, home)
        values = {"SOURCE_WINDOW_LIMIT": "3", "LLM_PROVIDER": "builtin", **env}
        if not opened or ledger is not None:
            values["DATABASE_URL"] = database(ledger or "sqlite", build)
        if history == "postgres":
            values["DAGSTER_POSTGRES_URL"] = database("postgres", dagster_schema)
        else:
            monkeypatch.delenv("PC_DAGSTER_POSTGRES_URL", raising=False)
        monkeypatch.setenv("PC_HOME", str(tmp_path / "pc"))
        monkeypatch.setenv("DAGSTER_HOME", str(home))
        for name, value in values.items():
            monkeypatch.setenv(f"PC_{name}", value)
        plant = Plant(StoreResource().db, dg.DagsterInstance.from_config(str(home)), home)
        opened.append(plant)
        return plant

    yield create
    for plant in opened:
        plant.instance.dispose()
        plant.db.close()
    resources._proposer.cache_clear()
    resources._database.cache_clear()
    for databases, url in made:
        databases.drop(url)


@pytest.fixture
def plant(new_plant: Callable[..., Plant]) -> Plant:
    """A plant on SQLite with the builtin provider and windows of at most three sources."""
    return new_plant()


@pytest.fixture
def asking(new_plant: Callable[..., Plant], model_stub: Any) -> Plant:
    """A plant whose model is the stub."""
    named = {name.removeprefix("PC_"): value for name, value in model_stub.env().items()}
    return new_plant(**named, LLM_TRANSPORT_RETRIES="0")
