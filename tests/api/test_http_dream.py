"""Dreams over HTTP: the contract's bodies and statuses, and what goes beyond them on request."""

import json
import re
import time

import pytest
from calls import new_scope, ok, refused, remember
from model_stub import status
from proposals import learn

from pc_store.services.dream_worker import run_pending


@pytest.fixture
def work(running):
    """Work on all dreams that wait."""
    return lambda: run_pending(running.db, running.settings, budget_s=60)


def cite(api, scope, text="Amounts are cents."):
    return remember(api, scope, text)["entry"]["citation"]


def asked(key, *citations, **fields):
    return {
        "operation": "refine_experience",
        "memory_citations": list(citations),
        "idempotency_key": key,
    } | fields


def submit(api, scope, *citations, key="k1", **fields):
    return api.post(f"/v1/scopes/{scope}/dream", json=asked(key, *citations, **fields))


def get(api, scope, run, **params):
    return ok(api.get(f"/v1/scopes/{scope}/dream/{run['run_id']}", params=params))


SOURCE = {"source_type": "content", "source_id": "s1"}


def test_a_dream_from_submission_to_its_candidate(api, here, work, model_stub):
    cited = cite(api, here)
    answer = submit(api, here, cited, sources=[SOURCE])
    run = ok(answer, 202)
    assert answer.headers["Location"] == f"/v1/scopes/{here}/dream/{run['run_id']}"
    assert re.fullmatch("dr_[0-9a-f]{32}", run["run_id"])
    assert run == {
        "scope_id": here,
        "run_id": run["run_id"],
        "operation": "refine_experience",
        "status": "queued",
        "outcome": None,
        "target": None,
        "candidate": None,
        "reason": None,
        "error": None,
        "accepted_at": run["accepted_at"],
        "started_at": None,
        "completed_at": None,
        "attempt_count": 0,
        "input_manifest": None,
        "usage": None,
        "budget": {
            "max_items": 32,
            "max_bytes": 65_536,
            "max_nodes": 128,
            "max_edges": 256,
            "max_depth": 8,
            "max_output_tokens": 4_096,
            "max_model_calls": 2,
            "timeout_seconds": 120.0,
        },
        "prompt_version": "pc.dream.v1",
        "model_config_id": None,
    }
    assert get(api, here, run) == run
    work()
    done = get(api, here, run)
    candidate_id = f"cand_dream_{run['run_id']}"
    assert done["candidate"] == {"candidate_id": candidate_id, "version": 1}
    assert (done["status"], done["outcome"], done["attempt_count"]) == ("succeeded", "proposed", 1)
    assert done["usage"] == {"model_calls": 1, "input_tokens": 100, "output_tokens": 20}
    assert done["model_config_id"] == "openai:stub-1"
    assert done["accepted_at"] <= done["started_at"] <= done["completed_at"]
    nodes = done["input_manifest"]["nodes"]
    assert [(node["kind"], node["role"], node["source"]) for node in nodes] == [
        ("source", "root", SOURCE),
        ("memory", "derived", None),
    ]
    assert nodes[1]["memory_citations"] == [cited]
    assert done["input_manifest"]["sources"] == [SOURCE]
    assert done.keys() == run.keys()
    extras = get(api, here, run, include=["current_candidate", "message", "intent", "principal"])
    assert extras == done | {
        "current_candidate": {
            "candidate_id": candidate_id,
            "version": 1,
            "status": "pending",
            "result_artifact": None,
        },
        "message": None,
        "intent": "create",
        "principal": "runtime",
    }
    read = {"scope_id": here, "candidate_id": candidate_id}
    made = ok(api.post("/v1/artifact-candidates/get", json=read | {"include": ["origin"]}))
    assert (made["origin"], made["memory_citations"]) == ("dream", [cited])
    approved = ok(api.post("/v1/artifact-candidates/approve", json=read | {"expected_version": 1}))
    now = get(api, here, run, include="current_candidate")
    assert now["candidate"] == {"candidate_id": candidate_id, "version": 1}
    assert now["current_candidate"] == {
        "candidate_id": candidate_id,
        "version": 1,
        "status": "approved",
        "result_artifact": approved["result_artifact"],
    }


def test_replays_are_202_until_the_end_and_200_from_then_on(api, here, work):
    one, two = cite(api, here), cite(api, here, "Names are UTF-8.")
    run = ok(submit(api, here, one, two, sources=[SOURCE]), 202)
    same = submit(api, here, two, one, one, sources=[SOURCE, SOURCE], artifacts=[], target=None)
    assert ok(same, 202) == run
    work()
    again = submit(api, here, one, two, sources=[SOURCE])
    assert ok(again) == get(api, here, run)
    assert refused(submit(api, here, one), 409, "idempotency_conflict")
    assert len(ok(api.get(f"/v1/scopes/{here}/dream"))["runs"]) == 1


def test_a_failed_run_is_replayed_as_failed(api, here, work, model_stub):
    cited = cite(api, here)
    model_stub.answer(status(401))
    run = ok(submit(api, here, cited, sources=[SOURCE]), 202)
    work()
    failed = ok(submit(api, here, cited, sources=[SOURCE]))
    assert (failed["run_id"], failed["status"], failed["error"]) == (
        run["run_id"],
        "failed",
        "generation_failed",
    )
    told = get(api, here, run, include="message")["message"]
    assert "401" in told


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"memory_citations": []}, "evidence_limit_exceeded"),
        (
            {"artifacts": [{"family": "memory", "artifact_id": "memory", "revision": 1}]},
            "invalid_artifact_family",
        ),
        (
            {"target": {"family": "experience", "artifact_id": "exp_1", "revision": 1}},
            "invalid_target",
        ),
        ({"operation": "derive_skill"}, "invalid_dream_operation"),
        ({"operation": "dance"}, "literal_error"),
        ({"idempotency_key": " k"}, "value_error"),
        ({"idempotency_key": "k" * 129}, "string_too_long"),
        ({"surplus": 1}, "extra_forbidden"),
        ({"sources": [{"name": "content", "source_id": "s1"}]}, "missing"),
    ],
)
def test_requests_that_break_a_rule(api, here, fields, rule):
    body = asked("k1", cite(api, here)) | fields
    details = refused(api.post(f"/v1/scopes/{here}/dream", json=body), 422, "invalid_request")
    assert rule in [error["type"] for error in details["errors"]]
    assert details["field"] in ("artifacts", "sources.0.source_type", *fields)


def test_what_cannot_be_refined(api, here):
    cited = cite(api, here)
    learnt = learn(api, here)
    refused(submit(api, "nowhere", cited), 404, "scope_not_found")
    gone = {"source_type": "content", "source_id": "none"}
    refused(submit(api, here, cited, sources=[gone]), 404, "reference_not_found")
    wrong = cited | {"entry_version_id": "mem_ver_none"}
    refused(submit(api, here, wrong), 422, "invalid_memory_citation")
    details = refused(
        submit(api, here, operation="derive_skill", artifacts=[learnt]),
        503,
        "capability_unavailable",
    )
    assert details == {"capability": "dream.derive_skill"}
    old = learnt | {"revision": 2}
    assert refused(submit(api, here, cited, artifacts=[old]), 404, "reference_not_found")


def test_the_33rd_that_waits_is_told_to_try_again(api, here, work):
    cited = cite(api, here)
    for number in range(32):
        ok(submit(api, here, cited, key=f"k{number}"), 202)
    answer = submit(api, here, cited, key="one more")
    assert refused(answer, 429, "capacity_exceeded") == {"limit": 32, "observed": 32}
    assert answer.headers["Retry-After"] == "1"
    work()
    ok(submit(api, here, cited, key="one more"), 202)
    work()


def test_lists_page_and_filter(api, here):
    cited = cite(api, here)
    runs = [ok(submit(api, here, cited, key=f"k{n}"), 202) for n in range(3)]
    path = f"/v1/scopes/{here}/dream"
    page = ok(api.get(path, params={"limit": 2}))
    assert page["runs"] == runs[:0:-1]
    rest = ok(api.get(path, params={"limit": 2, "cursor": page["next_cursor"]}))
    assert rest == {"runs": runs[:1], "next_cursor": None}
    assert page["next_cursor"].endswith(f":{runs[1]['run_id']}")
    ok(api.post(f"{path}/{runs[0]['run_id']}/cancel"))
    failed = ok(api.get(path, params={"status": "failed", "operation": "refine_experience"}))
    assert [run["run_id"] for run in failed["runs"]] == [runs[0]["run_id"]]
    refused(api.get(path, params={"cursor": "x"}), 422, "invalid_cursor")
    refused(api.get(path, params={"limit": 0}), 400, "invalid_request")
    refused(api.get(path, params={"status": "cancelled"}), 400, "invalid_request")
    refused(api.get(f"{path}/dr_none"), 404, "dream_not_found")
    assert api.delete(f"{path}/{runs[0]['run_id']}").status_code == 405


def test_a_summary_leaves_the_manifests_out(api, here, work, model_stub):
    cited = cite(api, here)
    run = ok(submit(api, here, cited, sources=[SOURCE]), 202)
    work()
    whole = get(api, here, run)
    path = f"/v1/scopes/{here}/dream"
    assert whole["input_manifest"]
    assert ok(api.get(path))["runs"] == [whole]
    short = ok(api.get(path, params={"summary": "true", "include": "intent"}))["runs"]
    assert short == [whole | {"input_manifest": None, "intent": "create"}]


def test_a_cancelled_run_reads_as_failed(api, here, work):
    cited = cite(api, here)
    run = ok(submit(api, here, cited, sources=[SOURCE]), 202)
    path = f"/v1/scopes/{here}/dream/{run['run_id']}/cancel"
    ended = ok(api.post(path, json={"reason": "the wrong entry"}))
    assert (ended["status"], ended["error"], ended["outcome"]) == ("failed", "cancelled", None)
    assert ok(api.post(path)) == ended
    assert ok(submit(api, here, cited, sources=[SOURCE])) == ended
    told = get(api, here, run, include="message")["message"]
    assert told == "cancelled by runtime: the wrong entry"
    other = ok(submit(api, here, cited, key="k2", sources=[SOURCE]), 202)
    work()
    late = api.post(f"/v1/scopes/{here}/dream/{other['run_id']}/cancel")
    assert refused(late, 409, "dream_ended")["status"] == "succeeded"
    refused(api.post(f"/v1/scopes/{here}/dream/dr_none/cancel"), 404, "dream_not_found")


def test_without_contribute_a_token_makes_nothing_new(serve):
    tokens = [
        {"name": name, "token": f"{name}-token", "scopes": ["*"], "verbs": verbs}
        for name, verbs in (("ann", ["contribute", "read", "admin"]), ("bob", ["read"]))
    ]

    server = serve(api_tokens=json.dumps(tokens))
    with server.client("ann-token") as ann, server.client("bob-token") as bob:
        here = new_scope(ann)
        cited = cite(ann, here)
        run = ok(submit(ann, here, cited), 202)
        refused(submit(bob, here, cited), 403, "forbidden")
        assert get(bob, here, run, include="principal")["principal"] == "ann"
        cancel = bob.post(f"/v1/scopes/{here}/dream/{run['run_id']}/cancel")
        refused(cancel, 403, "forbidden")


def test_a_server_can_work_on_dreams_itself(serve):
    server = serve(dream_worker=True)
    with server.client() as api:
        here = new_scope(api)
        run = ok(submit(api, here, cite(api, here)), 202)
        until = time.monotonic() + 30
        while (now := get(api, here, run))["completed_at"] is None:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert (now["status"], now["outcome"]) == ("succeeded", "needs_evidence")
        assert now["model_config_id"] == "builtin:dream-1"


def test_capabilities_say_whether_dreams_are_accepted(api, serve):
    assert ok(api.get("/v1/capabilities"))["artifact_dreaming"] is True
    server = serve(dream_enabled=False)
    with server.client() as off:
        assert ok(off.get("/v1/capabilities"))["artifact_dreaming"] is False
        here = new_scope(off)
        refused(submit(off, here, cite(off, here)), 503, "capability_unavailable")
