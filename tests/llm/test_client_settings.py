"""The proposer as the settings describe it."""

import json
import os
import subprocess
import sys
import threading

import pytest
from asked import (
    ENTRIES,
    EVIDENCE,
    POLICY,
)
from model_stub import (
    MODEL,
)

from pc_store.domain.proposal import Evidence
from pc_store.errors import (
    ModelMisconfigured,
)
from pc_store.llm.client import OpenAIProposer
from pc_store.llm.endpoint import DEFAULT_BASE_URL
from pc_store.llm.providers import proposer as proposer_of
from pc_store.settings import Settings

# Settings


def settings(**values) -> Settings:
    return Settings.model_validate(values)


def test_the_settings_describe_the_proposer(model_stub, monkeypatch):
    for name, value in model_stub.env().items():
        monkeypatch.setenv(name, value)
    proposer = OpenAIProposer.from_settings(Settings.load())
    assert (proposer.provider, proposer.model) == ("openai", MODEL)
    assert len(proposer.propose(EVIDENCE, ENTRIES, policy=POLICY).proposals) == 2
    [request] = model_stub.requests()
    assert request["headers"]["authorization"] == "Bearer stub-key"
    proposer.close()


def test_a_missing_model_name_is_named():
    with pytest.raises(ModelMisconfigured, match="PC_LLM_MODEL"):
        proposer_of(settings(llm_base_url="http://127.0.0.1:9/v1"))


@pytest.mark.parametrize("address", ["localhost:8000", "ftp://x/v1", "http://", "/v1"])
def test_an_address_that_is_none_is_named(address):
    with pytest.raises(ModelMisconfigured, match="PC_LLM_BASE_URL"):
        proposer_of(settings(llm_base_url=address, llm_model=MODEL))


@pytest.mark.parametrize("key", ["密钥", "a\nb", "“quoted”"])
def test_a_key_that_no_header_can_hold_is_named_and_not_shown(key):
    with pytest.raises(ModelMisconfigured, match="PC_LLM_API_KEY") as caught:
        proposer_of(settings(llm_base_url="http://x/v1", llm_model=MODEL, llm_api_key=key))
    assert key not in str(caught.value)


def test_without_an_address_openai_itself_is_asked_which_needs_a_key():
    with pytest.raises(ModelMisconfigured, match="PC_LLM_API_KEY"):
        proposer_of(settings(llm_model=MODEL))
    proposer = OpenAIProposer.from_settings(settings(llm_model=MODEL, llm_api_key="k"))
    assert str(proposer._connected().base_url) == DEFAULT_BASE_URL + "/"
    proposer.close()


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "OPENAI_ADMIN_KEY"])
def test_a_key_of_openai_in_the_environment_is_not_sent_to_another_endpoint(
    ask, model_stub, monkeypatch, name
):
    monkeypatch.setenv(name, "not-for-you")
    ask()
    assert "not-for-you" not in json.dumps(model_stub.requests())


def test_without_any_setting_the_builtin_program_proposes():
    assert proposer_of(settings()).provider == "builtin"


def test_openai_and_instructor_are_imported_at_the_first_call_and_no_other_endpoint(model_stub):
    code = f"""
import sys
from asked import EVIDENCE, POLICY
from pc_store.llm import asking, client, providers
from pc_store.settings import Settings
one = providers.proposer(Settings(llm_model="m", llm_base_url="{model_stub.base_url}"))
slow = ("openai", "instructor", "httpx2", "jinja2", "openai.resources")
print([name for name in slow if name in sys.modules])
one.propose(EVIDENCE, (), policy=POLICY)
print([name for name in slow if name in sys.modules])
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    assert ran.stdout.splitlines() == ["[]", "['openai', 'instructor', 'httpx2', 'jinja2']"]


def test_one_proposer_serves_several_threads(connect, model_stub):
    proposer = connect()
    answers = {}

    def ask_about(number):
        said = Evidence(f"e{number}", "content", "log", f"Fact number {number}.")
        answers[number] = proposer.propose([said], (), policy=POLICY)

    threads = [threading.Thread(target=ask_about, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert {number: answer.proposals[0].text for number, answer in answers.items()} == {
        number: f"Fact number {number}." for number in range(8)
    }
    assert all(answer.usage.calls == 1 for answer in answers.values())
