"""One server for all tests of the client, and a client of it."""

from collections.abc import Iterator

import pytest
from model_stub import MODEL, ModelStub
from served import Served, served

from pc_store.client import Client


@pytest.fixture(scope="session")
def server(
    tmp_path_factory: pytest.TempPathFactory, _model_stub_process: ModelStub
) -> Iterator[Served]:
    with served(
        home=tmp_path_factory.mktemp("client"),
        llm_provider="openai",
        llm_base_url=_model_stub_process.base_url,
        llm_model=MODEL,
        llm_transport_retries=0,
        retry_base_s=0,
    ) as running:
        yield running


@pytest.fixture
def client(server: Served, model_stub: ModelStub) -> Iterator[Client]:
    with Client(server.url) as connected:
        yield connected
