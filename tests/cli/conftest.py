"""The command on a store of this machine and on a server's; the model is the stub.

A test that takes `pc` runs once on either.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from model_stub import MODEL, ModelStub
from running_pc import Command
from served import served


@pytest.fixture
def model_env(model_stub: ModelStub) -> dict[str, str]:
    return {
        "PC_LLM_PROVIDER": "openai",
        "PC_LLM_BASE_URL": model_stub.base_url,
        "PC_LLM_MODEL": MODEL,
        "PC_LLM_TRANSPORT_RETRIES": "0",
        "PC_SOURCE_WINDOW_LIMIT": "2",
        "PC_RETRY_BASE_S": "0",
    }


@pytest.fixture
def local(tmp_path: Path, model_env: dict[str, str]) -> Command:
    """The command on a store of its own."""
    return Command(PC_HOME=str(tmp_path / "home"), **model_env)


@pytest.fixture(params=["local", "server"])
def pc(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    local: Command,
    model_env: dict[str, str],
) -> Iterator[Command]:
    """The command, once on a store of its own and once on a server."""
    if request.param == "local":
        yield local
        return
    settings = {name.removeprefix("PC_").lower(): value for name, value in model_env.items()}
    with served(home=tmp_path / "served", **settings) as server:
        yield Command("--server", server.url)


@pytest.fixture
def shop(pc: Command) -> Callable[..., Any]:
    """Create the scope `shop`, with sources if texts are given."""

    def create(*texts: str) -> str:
        pc.ok("scope", "create", "shop", "--title", "The shop")
        for number, text in enumerate(texts, start=1):
            pc.ok("source", "add", "shop", f"s{number}", text, "--metadata", '{"kind": "log"}')
        return "shop"

    return create
