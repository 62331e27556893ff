"""What tests of experiences and candidates begin with, and the calls that they make."""

import json
from typing import Any

import httpx
from calls import capture, ok

PROPOSAL = {
    "situation": "An amount went through a float before it became integer cents.",
    "action": "Parsed the text as Decimal and converted it by the project's rule.",
    "outcome": "The input that was off by one cent gives the expected value.",
    "lesson": "Parse money as Decimal from the original text.",
    "failure": None,
}
CUE = "amount rounding check"
CANDIDATES = "/v1/artifact-candidates"
PROPOSE = "/v1/experience/propose"


def failure(cue: str = CUE, surface: str = "experience_content") -> dict[str, Any]:
    return {
        "signature": {"recall_cue": cue, "symptom": "off by one cent"},
        "repair_surface": surface,
        "verification": {"condition": "an order was imported", "check_subject": "test_amounts"},
    }


def tracked(cue: str = CUE, **fields: Any) -> dict[str, Any]:
    """A proposal that tracks a failure."""
    return {**PROPOSAL, "failure": failure(cue), **fields}


def source(source_id: str = "s1") -> dict[str, str]:
    return {"name": "content", "source_id": source_id}


def experience(artifact_id: str, revision: int = 1) -> dict[str, Any]:
    return {"family": "experience", "artifact_id": artifact_id, "revision": revision}


def capture_outcome(
    api: httpx.Client, scope: str, source_id: str, *, failing: str, evidence: str = "s1"
) -> dict[str, str]:
    """Append a failed task's outcome, whose one check failed as seen in a source; cite it."""
    seen = {"kind": "source", "source_ref": source(evidence)}
    outcome = {
        "schema": "powercontext.task-outcome.v1",
        "trust": "untrusted_observation",
        "objective": "import the orders",
        "status": "failed",
        "summary": "one amount is off",
        "observations": [{"text": "the import ran", "basis": "declared", "evidence": []}],
        "checks": [{"name": failing, "status": "failed", "basis": "verified", "evidence": [seen]}],
    }
    body = {
        "scope_id": scope,
        "source_id": source_id,
        "content": json.dumps(outcome),
        "metadata": {"kind": "task-outcome"},
    }
    ok(api.post("/v1/sources/content", json=body), 202)
    return source(source_id)


def proposing(scope: str, **fields: Any) -> dict[str, Any]:
    """The body of a proposal that stands on the source s1."""
    body = {
        "scope_id": scope,
        "proposal": PROPOSAL,
        "source_refs": [source()],
        "artifact_refs": [],
    }
    return body | fields


def propose(api: httpx.Client, scope: str, **fields: Any) -> Any:
    return ok(api.post(PROPOSE, json=proposing(scope, **fields)), 201)


def post(api: httpx.Client, verb: str, body: dict[str, Any]) -> httpx.Response:
    """Do something to candidates."""
    return api.post(f"{CANDIDATES}/{verb}", json=body)


def get(api: httpx.Client, scope: str, candidate: dict[str, Any], **fields: Any) -> Any:
    """A candidate as it is now."""
    body = {"scope_id": scope, "candidate_id": candidate["candidate_id"], **fields}
    return ok(post(api, "get", body))


def of(candidate: dict[str, Any], scope: str, **fields: Any) -> dict[str, Any]:
    """The body of a decision on a candidate at the version it is at."""
    return {
        "scope_id": scope,
        "candidate_id": candidate["candidate_id"],
        "expected_version": candidate["version"],
        **fields,
    }


def approve(api: httpx.Client, scope: str, candidate: dict[str, Any]) -> Any:
    """Approve a candidate and return the artifact that it became."""
    return ok(post(api, "approve", of(candidate, scope)))["result_artifact"]


def learn(api: httpx.Client, scope: str, **fields: Any) -> Any:
    """Propose and approve at once; return the artifact."""
    return approve(api, scope, propose(api, scope, **fields))


def update(api: httpx.Client, scope: str, target: dict[str, Any], **fields: Any) -> Any:
    """Propose the next revision of an experience; return the candidate."""
    text = fields.pop("lesson", "Parse money as Decimal, and amounts of weight as well.")
    return propose(
        api,
        scope,
        proposal=PROPOSAL | {"lesson": text},
        artifact_refs=[target],
        target=target,
        **fields,
    )


def pending(api: httpx.Client, scope: str, **fields: Any) -> list[Any]:
    """The ids of the candidates listed."""
    listed = ok(post(api, "list", {"scope_id": scope, **fields}))
    return [one["candidate_id"] for one in listed["candidates"]]


def read(api: httpx.Client, scope: str, artifact: Any, **fields: Any) -> httpx.Response:
    """Ask for one revision of an experience."""
    return api.post("/v1/experience/get", json={"scope_id": scope, "artifact": artifact, **fields})


def heads(api: httpx.Client, scope: str, **params: Any) -> Any:
    """A page of the experiences of a scope."""
    return ok(api.get(f"/v1/scopes/{scope}/experience", params=params))


def withdraw(
    api: httpx.Client, scope: str, artifact: Any, state: str = "deprecated", **fields: Any
) -> httpx.Response:
    """Change the state of an experience."""
    body = {"scope_id": scope, "artifact": artifact, "state": state, "reason": "outdated"}
    return api.post("/v1/experience/lifecycle", json=body | fields)


def with_source(api: httpx.Client, scope: str) -> str:
    """The scope, whose log has the source s1."""
    capture(api, scope, "An amount of 0.29 became 28 cents.")
    return scope
