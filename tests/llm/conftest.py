"""Proposers and authors connected to the stub."""

import pytest
from asked import ENTRIES, EVIDENCE, POLICY
from model_stub import MODEL, ModelStub

from pc_store.domain.proposal import Answer
from pc_store.errors import ModelError
from pc_store.llm.client import OpenAIProposer
from pc_store.llm.experience_client import OpenAIExperienceModel


def connecting(kind, model_stub: ModelStub):
    """Give what makes clients of a kind that talk to the stub, and close them in the end."""
    made = []

    def connected(**options):
        options = {"model": MODEL, "timeout_s": 10.0, "transport_retries": 0, **options}
        made.append(kind(**{"base_url": model_stub.base_url, **options}))
        return made[-1]

    yield connected
    for one in made:
        one.close()


@pytest.fixture
def connect(model_stub: ModelStub):
    """Make proposers that talk to the stub, without transport retries unless asked for."""
    yield from connecting(OpenAIProposer, model_stub)


@pytest.fixture
def connect_author(model_stub: ModelStub):
    """As `connect`, of models that write experiences."""
    yield from connecting(OpenAIExperienceModel, model_stub)


@pytest.fixture
def ask(connect):
    """Ask once, with everything at its default but what the test says."""

    def asked(evidence=EVIDENCE, entries=ENTRIES, *, policy=POLICY, **options) -> Answer:
        return connect(**options).propose(evidence, entries, policy=policy)

    return asked


@pytest.fixture
def fails(ask):
    """Ask once, as `ask` does, and return the error, which must be of exactly this class."""

    def failed(expected, *given, **options):
        with pytest.raises(ModelError) as caught:
            ask(*given, **options)
        assert type(caught.value) is expected
        return caught.value

    return failed
