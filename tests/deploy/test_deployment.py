"""The deployment of `deploy/compose.yaml`, run: an image built from what it copies, every command
as it is written, a text put in over HTTP and found as memory, and an orderly end."""

import hashlib
import json
import os
import shutil
import zipfile

import pytest
from containers import Containers, build_wheel
from deploy_files import ROOT

API = "http://127.0.0.1:8000"
UI = "http://127.0.0.1:3000/graphql"
TOKEN = "a-token-of-these-tests"
RUNS = "{runsOrError{...on Runs{results{status jobName}}}}"
LOADED = "{workspaceOrError{...on Workspace{locationEntries{name loadStatus}}}}"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def containers(wheel, tmp_path):
    if os.geteuid() != 0 or not all(
        map(shutil.which, ("unshare", "nsenter", "setpriv", "useradd"))
    ):
        pytest.skip("needs root, and the namespaces of Linux")
    tokens = [
        {
            "name": "ops",
            "token_sha256": hashlib.sha256(TOKEN.encode()).hexdigest(),
            "scopes": ["*"],
            "verbs": ["admin"],
        }
    ]
    made = Containers(tmp_path, wheel, password="secret1", secrets={"tokens": json.dumps(tokens)})
    yield made
    made.close()


@pytest.mark.slow
def test_the_wheel_holds_all_of_the_packages_and_nothing_else(wheel):
    packages = ("pc_store", "pc_pipelines")
    expected = {
        str(path.relative_to(ROOT))
        for package in packages
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == expected
    assert "pc_store/llm/builtin_weights.json" in names
    assert "pc_store/llm/prompts/memory.extract.md" in names
    assert "pc_store/ledger/migrations/script.py.mako" in names


@pytest.mark.slow
def test_a_text_put_in_over_http_is_extracted_by_the_daemon_through_the_code_server(containers):
    containers.start_postgres()
    assert containers.healthy("postgres")
    for name in ("code-server", "api"):
        containers.start(name)
    for name in ("code-server", "api"):
        containers.wait_for(lambda name=name: containers.healthy(name), name, within_s=120)
    for name in ("webserver", "daemon"):
        containers.start(name)
    for name in ("webserver", "daemon"):
        containers.wait_for(lambda name=name: containers.healthy(name), name, within_s=120)

    def call(method, path, body=None, token=TOKEN):
        headers = {"Authorization": f"Bearer {token}"}
        return containers.request(method, f"{API}{path}", json_body=body, headers=headers)

    def graphql(query):
        status, answer = containers.request("POST", UI, json_body={"query": query})
        assert status == 200
        assert "errors" not in answer
        return answer["data"]

    (location,) = graphql(LOADED)["workspaceOrError"]["locationEntries"]
    assert location == {"name": "pc_pipelines", "loadStatus": "LOADED"}
    assert call("GET", "/v1/scopes", token="another-token")[0] == 401
    scope = {"scope_id": "shop", "title": "Shop", "summary": "A shop.", "idempotency_key": "k"}
    assert call("POST", "/v1/scopes", scope)[0] == 201
    text = "We decided to store amounts as integer cents."
    source = {"scope_id": "shop", "source_id": "s1", "content": text}
    assert call("POST", "/v1/sources/content", source)[0] == 202

    def entries():
        found = call("POST", "/v1/memory/entries/list", {"scope_id": "shop"})[1]["entries"]
        return [entry["text"] for entry in found]

    containers.wait_for(entries, "the entry", within_s=120)
    assert entries() == [text]

    def jobs():
        found = graphql(RUNS)["runsOrError"]["results"]
        if all(run["status"] in ("SUCCESS", "FAILURE", "CANCELED") for run in found):
            return {(run["jobName"], run["status"]) for run in found}
        return None

    done = containers.wait_for(jobs, "the runs to end", within_s=120)
    assert ("memory_extraction", "SUCCESS") in done
    assert {status for _, status in done} == {"SUCCESS"}

    ended = {
        name: containers.stop(name)[0] for name in ("daemon", "webserver", "code-server", "api")
    }
    assert ended == dict.fromkeys(("daemon", "webserver", "code-server", "api"), 0)
    assert sorted(containers.inside("ls", "-A", "/opt/pc/dagster").split()) == [
        "dagster.yaml",
        "storage",
        "workspace.yaml",
    ]
    for name in ended:
        assert "Traceback" not in containers.log(name)
        assert "secret1" not in containers.log(name)
