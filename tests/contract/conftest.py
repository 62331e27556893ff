"""A real `pc serve` on each database, and the published client in a Python of its own.

The published package is installed once into a virtual environment under `PC_TEST_CACHE`, or else
the system's folder for temporary files. Where that cannot be done, for instance without a network,
its tests are skipped and the end of the report says so.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from model_stub import ModelStub, says, status
from server_process import ServerProcess

pytest.register_assert_rewrite("caller")
from scenario_names import MODULES, PLAIN_ONLY  # noqa: E402  # it asserts nothing

pytest.register_assert_rewrite(*MODULES, PLAIN_ONLY)

PUBLISHED = "powercontext==1.2.0"
EXTRAS = "[cli,client]"
WHY_NO_PUBLISHED = pytest.StashKey[str]()
INSTALL_WITHIN_S = 280


def _ready_environment(folder: Path) -> Path:
    """Return a Python that has the published package; make it if need be."""
    python = folder / "bin" / "python"
    complete = folder / "complete"
    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if complete.exists():
            return python
        shutil.rmtree(folder, ignore_errors=True)
        name, _, version = PUBLISHED.partition("==")
        wanted = f"{name}{EXTRAS}=={version}"
        for command in (
            [sys.executable, "-m", "venv", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", wanted],
            [str(python), "-c", "import powercontext.client.client"],
        ):
            subprocess.run(
                command, check=True, capture_output=True, text=True, timeout=INSTALL_WITHIN_S
            )
        complete.touch()
    return python


@pytest.fixture(scope="session")
def published_python(request: pytest.FixtureRequest) -> Path:
    """A Python with the published package, unmodified."""
    cache = Path(os.environ.get("PC_TEST_CACHE") or tempfile.gettempdir())
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        return _ready_environment(cache / f"pc-test-{PUBLISHED}-python{version}")
    except (subprocess.SubprocessError, OSError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        why = said[-1] if said else repr(error)
        request.config.stash[WHY_NO_PUBLISHED] = why
        pytest.skip(f"{PUBLISHED} cannot be installed: {why}")


@pytest.fixture(scope="session")
def contract_model() -> Iterator[ModelStub]:
    """A model that finds one entry in each source, and nothing, or trouble, where told so."""
    with ModelStub() as stub:
        stub.whenever("EMPTY", says({"candidates": []}))
        stub.whenever("POISON-500", status(500))
        stub.whenever("POISON-503", status(503))
        stub.whenever("POISON-JSON", says({"candidates": None}))
        nothing = {"intent": None, "proposal": None, "evidence_ids": []}
        for mark, outcome in (("DREAM-NOTHING", "no_change"), ("DREAM-BARE", "needs_evidence")):
            stub.whenever(mark, says({"outcome": outcome, "reason": "Nobody tried."} | nothing))
        stub.whenever("DREAM-BROKEN", status(401))
        stub.whenever('"operation":"refine_experience"', {})  # the stub's own plan
        lesson = dict.fromkeys(("situation", "action", "outcome", "lesson"), "Amounts are cents.")
        stub.whenever("TEACHES-NOTHING", says({"proposal": None}))
        stub.whenever("TEACHES", says({"proposal": lesson}))
        stub.whenever('"target_evidence_id"', says({"proposal": None}))
        stub.whenever('"kind":"task-outcome"', says({"candidates": []}))
        yield stub


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def served(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    contract_model: ModelStub,
) -> Iterator[ServerProcess]:
    """A server on an empty ledger, its windows three positions long."""
    databases = request.getfixturevalue(f"{request.param}_databases")
    url = databases.create()
    env = contract_model.env() | {
        "PC_DATABASE_URL": url,
        "PC_SOURCE_WINDOW_LIMIT": "3",
        "PC_LLM_TRANSPORT_RETRIES": "0",
        "PC_RETRY_BASE_S": "0",
        "PC_DREAM_WORKER": "true",  # the published server works on them itself
        "PC_EMBED_PROVIDER": "none",  # as the published server is without configuration
    }
    with ServerProcess(tmp_path_factory.mktemp("served"), **env) as server:
        yield server
    databases.drop(url)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly that the published client did not run."""
    if reason := terminalreporter.config.stash.get(WHY_NO_PUBLISHED, None):
        terminalreporter.section("warning", yellow=True, bold=True)
        message = f"PUBLISHED CLIENT SKIPPED: {PUBLISHED} cannot be installed: {reason}"
        terminalreporter.line(message, yellow=True, bold=True)
