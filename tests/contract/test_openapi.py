"""The server against its own OpenAPI document: schemathesis finds no lie and no 5xx."""

import subprocess
import sys

import pytest
from model_stub import ModelStub
from server_process import ServerProcess

pytestmark = pytest.mark.slow

EXAMPLES = 40
WITHIN_S = 240
EXCLUDED = (
    # The document cannot say that a cursor is one of ours, or which two parameters go together.
    "positive_data_acceptance",
    "ignored_auth",  # nobody has to say who he is on this machine
)


@pytest.fixture
def filled(tmp_path, contract_model: ModelStub):
    """A server whose ledger holds what the document's examples name."""
    with ServerProcess(tmp_path / "home", **contract_model.env()) as server:
        with server.client() as http:
            for scope in ("orders", "shop"):
                named = {"scope_id": scope, "title": "T", "summary": "S", "idempotency_key": scope}
                assert http.post("/v1/scopes", json=named).status_code == 201
                for text in ("one", "two", "three"):
                    entry = {"scope_id": scope, "kind": "fact", "text": text}
                    assert http.post("/v1/memory/remember", json=entry).status_code == 200
                    source = {"scope_id": scope, "source_id": text, "content": f"We chose {text}."}
                    assert http.post("/v1/sources/content", json=source).status_code == 202
                log = {"scope_id": scope, "source_id": "worklog-17", "content": "0.29 became 28."}
                assert http.post("/v1/sources/content", json=log).status_code == 202
                said = dict.fromkeys(("situation", "action", "outcome", "lesson"), "A text.")
                proposed = {
                    "scope_id": scope,
                    "proposal": said,
                    "source_refs": [{"name": "content", "source_id": "worklog-17"}],
                    "artifact_refs": [],
                }
                for verb in ("approve", "reject"):
                    made = http.post("/v1/experience/propose", json=proposed).json()
                    decided = {
                        "scope_id": scope,
                        "candidate_id": made["candidate_id"],
                        "expected_version": 1,
                    } | ({"reason": "no"} if verb == "reject" else {})
                    answer = http.post(f"/v1/artifact-candidates/{verb}", json=decided)
                    assert answer.status_code == 200
        yield server


@pytest.mark.parametrize("seed", [1, 2])
def test_every_answer_is_one_that_the_document_promises(filled, tmp_path, seed):
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{filled.url}/openapi.json"]
    options = {
        "--checks": "all",
        "--exclude-checks": ",".join(EXCLUDED),
        "--max-examples": str(EXAMPLES),
        "--seed": str(seed),
        "--warnings": "off",
    }
    done = subprocess.run(
        [*command, *(part for option in options.items() for part in option), "--no-color"],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        cwd=tmp_path,  # it writes what it learns there
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    assert "0 selected" not in done.stdout
