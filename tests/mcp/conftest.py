"""One server for all tests of MCP over HTTP, whose model is the stub."""

from collections.abc import Iterator

import pytest
from model_stub import MODEL, ModelStub
from served import Served, served


@pytest.fixture(scope="session")
def server(
    tmp_path_factory: pytest.TempPathFactory, _model_stub_process: ModelStub
) -> Iterator[Served]:
    with served(
        home=tmp_path_factory.mktemp("mcp"),
        llm_provider="openai",
        llm_base_url=_model_stub_process.base_url,
        llm_model=MODEL,
    ) as running:
        yield running
