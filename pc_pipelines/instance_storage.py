"""Where Dagster keeps its own history: runs, events, ticks. One `dagster.yaml` serves both answers.

    PC_DAGSTER_POSTGRES_URL set     dagster-postgres, at that URL
    otherwise                       SQLite, in `$DAGSTER_HOME/storage`

The ledger is not kept here; it has its own URL. `dagster.yaml` names the class below, so every
Dagster process must be able to import this module: install the project, editable or not. The
module reaches into Dagster's private ones, for which Dagster offers no public door; that is why
`pyproject.toml` holds Dagster at 1.13.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dagster._config.config_schema import UserConfigSchema
from dagster._core.storage.base_storage import DagsterStorage
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._serdes import ConfigurableClass, ConfigurableClassData

POSTGRES_URL_VARIABLE = "PC_DAGSTER_POSTGRES_URL"


class EnvStorage(DagsterStorage, ConfigurableClass):
    """Builds the storage that the environment asks for; it has no instances of its own."""

    @classmethod
    def config_type(cls) -> UserConfigSchema:
        """Nothing is configured in `dagster.yaml`; the environment says it all."""
        return {}

    @classmethod
    def from_config_value(  # type: ignore[override]  # as Dagster's own: a sibling, not `Self`
        cls, inst_data: ConfigurableClassData, _config_value: Mapping[str, Any]
    ) -> DagsterStorage:
        """Open the storage, creating its tables when they are missing.

        Raises:
            ValueError: the URL names something other than Postgres.
        """
        if url := os.environ.get(POSTGRES_URL_VARIABLE):
            from dagster_postgres import DagsterPostgresStorage  # 0.2 s, and only here

            return DagsterPostgresStorage(psycopg2_url(url), inst_data=inst_data)
        return DagsterSqliteStorage.from_local(str(dagster_home() / "storage"), inst_data)


def psycopg2_url(url: str) -> str:
    """Return the URL with the driver that dagster-postgres installs named in it.

    SQLAlchemy 2.1 reads a bare `postgresql://` as psycopg 3.

    Raises:
        ValueError: the URL names something other than Postgres, or another driver.
    """
    rewritten, count = re.subn(r"^postgres(ql)?(\+psycopg2)?://", "postgresql+psycopg2://", url)
    if not count:
        scheme = url.partition("://")[0] if "://" in url else ""
        raise ValueError(
            f"{POSTGRES_URL_VARIABLE} starts with {scheme!r}, "
            "expected 'postgresql://' or 'postgres://'"
        )
    return rewritten


def dagster_home() -> Path:
    """Return the instance's directory: `DAGSTER_HOME`, else where `make dev` puts it.

    Without `DAGSTER_HOME`, `dagster dev` in a checkout reads the `dagster.yaml` it finds there,
    and would lose the runs when it ends.
    """
    if home := os.environ.get("DAGSTER_HOME"):
        return Path(home)
    return Path(os.environ.get("PC_HOME") or ".pc").absolute() / "dagster"
