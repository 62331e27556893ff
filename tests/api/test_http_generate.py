"""Experiences from a model over HTTP: incubated from outcomes, or generated from evidence."""

from calls import new_scope, ok, refused
from model_stub import says, status
from proposals import (
    CUE,
    PROPOSAL,
    approve,
    capture_outcome,
    heads,
    learn,
    source,
    update,
    with_source,
)

# incubation


def test_a_window_of_outcomes_is_incubated(api, here, model_stub):
    body = {"scope_id": here}
    capture_outcome(api, here, "o1", failing=CUE)
    said = {"proposal": PROPOSAL, "evidence_ids": ["e1"]}
    model_stub.answer(says({"candidates": [said]}))

    done = ok(api.post("/v1/experience/incubate", json=body))

    (made,) = done.pop("candidate_ids")
    counts = done.pop("counts")
    assert done == {
        "status": "processed",
        "previous_cursor": 0,
        "current_cursor": 2,
        "high_watermark": 2,
        "windows": 1,
        "remaining": 0,
        "processed_source_count": 1,
    }
    assert counts["created"] == 1
    (candidate,) = ok(
        api.post("/v1/artifact-candidates/list", json=body | {"include": ["origin", "window_id"]})
    )["candidates"]
    assert (candidate["candidate_id"], candidate["proposal"]) == (made, PROPOSAL)
    assert (candidate["origin"], candidate["source_refs"]) == ("incubation", [source("o1")])
    assert candidate["window_id"]
    (request,) = model_stub.requests()
    assert "An amount of 0.29" not in str(request["body"])  # s1 is no task outcome
    idle = ok(api.post("/v1/experience/incubate", json=body | {"budget_s": 5.0}))
    assert (idle["status"], idle["current_cursor"], idle["windows"]) == ("idle", 2, 0)


def test_a_backlog_is_drained_and_a_model_that_fails_moves_nothing(api, here, model_stub):
    for number in range(5):
        capture_outcome(api, here, f"o{number}", failing=CUE)
    body = {"scope_id": here}
    model_stub.always(status(500))
    refused(api.post("/v1/experience/incubate", json=body), 503, "inference_timeout")
    model_stub.reset()
    model_stub.always(says({"candidates": []}))
    done = ok(api.post("/v1/experience/incubate", json=body | {"budget_s": 60.0}))
    assert (done["previous_cursor"], done["current_cursor"], done["remaining"]) == (0, 6, 0)
    assert (done["processed_source_count"], done["candidate_ids"]) == (5, [])
    refused(
        api.post("/v1/experience/incubate", json={"scope_id": "nowhere"}), 404, "scope_not_found"
    )
    for budget_s in (0, 601, "1"):
        answer = api.post("/v1/experience/incubate", json=body | {"budget_s": budget_s})
        assert refused(answer, 422, "invalid_request")["field"] == "budget_s"


# generation


def generate(api, scope, **fields):
    body = {"scope_id": scope, "source_refs": [source()], "artifact_refs": []}
    return api.post("/v1/experience/generate", json=body | fields)


def test_a_model_writes_a_proposal_that_waits_for_review(api, here, model_stub):
    model_stub.answer(says({"proposal": PROPOSAL}))

    made = ok(generate(api, here, reason="after the release", include=["origin"]))

    candidate = made["candidate"]
    assert made == {"status": "pending", "candidate": candidate}
    assert candidate == {
        "candidate_id": candidate["candidate_id"],
        "version": 1,
        "family": "experience",
        "status": "pending",
        "proposal": PROPOSAL,
        "source_refs": [source()],
        "artifact_refs": [],
        "memory_citations": [],
        "target": None,
        "reason": "after the release",
        "result_artifact": None,
        "decision_reason": None,
        "permissions": None,
        "origin": "generate",
    }
    assert heads(api, here)["items"] == []
    (request,) = model_stub.requests()
    assert "An amount of 0.29" in str(request["body"])
    first = approve(api, here, candidate)
    model_stub.answer(says({"proposal": PROPOSAL | {"lesson": "Weights, too."}}))
    revised = ok(generate(api, here, artifact_refs=[first], target=first))["candidate"]
    assert (revised["target"], revised["artifact_refs"]) == (first, [first])


def test_a_model_that_finds_nothing_makes_nothing(api, here, model_stub):
    model_stub.answer(says({"proposal": None}))
    assert ok(generate(api, here)) == {"status": "no_op", "candidate": None}
    listed = api.post("/v1/artifact-candidates/list", json={"scope_id": here})
    assert ok(listed)["candidates"] == []


def test_a_model_that_fails_is_told_apart_from_a_wrong_call(api, here, model_stub):
    first = learn(api, here)
    second = approve(api, here, update(api, here, first))
    for fields, code in (
        ({"source_refs": [], "artifact_refs": []}, "invalid_request"),
        ({"source_refs": [source("none")]}, "invalid_request"),
        ({"reason": " "}, "invalid_request"),
        ({"target": first}, "invalid_request"),
        ({"memory_citations": []}, "invalid_request"),
        ({"artifact_refs": None}, "invalid_request"),
    ):
        assert refused(generate(api, here, **fields), 422, code)["field"]
    stale = generate(api, here, artifact_refs=[first], target=first)
    assert refused(stale, 409, "artifact_conflict") == {"current": second}
    refused(generate(api, "nowhere"), 404, "scope_not_found")
    assert model_stub.requests() == []  # nothing was paid for
    model_stub.always(says({"proposal": {"situation": "only"}}))
    refused(generate(api, here), 502, "inference_invalid_output")
    model_stub.reset()
    model_stub.always(status(503))
    response = generate(api, here)
    refused(response, 503, "inference_unavailable")
    assert response.headers["Retry-After"]


def test_a_generation_is_paid_for_once_a_key(api, here, model_stub):
    model_stub.answer(says({"proposal": PROPOSAL}))
    body = {"scope_id": here, "source_refs": [source()], "artifact_refs": []}
    key = {"Idempotency-Key": "k"}
    first = api.post("/v1/experience/generate", json=body, headers=key)
    again = api.post("/v1/experience/generate", json=body, headers=key)
    assert (again.json(), again.headers["Idempotency-Replayed"]) == (ok(first), "true")
    assert len(model_stub.requests()) == 1


def test_without_a_model_proposing_works_and_generating_says_why_not(serve):
    server = serve(llm_provider="openai")
    with server.client() as api:
        assert ok(api.get("/v1/capabilities"))["experience_generation"] is False
        scope = with_source(api, new_scope(api))
        refused(generate(api, scope), 503, "inference_misconfigured")
        refused(
            api.post("/v1/experience/incubate", json={"scope_id": scope}),
            503,
            "inference_misconfigured",
        )
        assert learn(api, scope)["revision"] == 1


def test_the_builtin_writer_says_what_it_cannot_write_from(serve):
    server = serve(llm_provider="builtin")
    with server.client() as api:
        assert ok(api.get("/v1/capabilities"))["experience_generation"] is True
        scope = with_source(api, new_scope(api))
        assert refused(generate(api, scope), 503, "generation_unavailable")["family"] == (
            "experience"
        )
        seen = capture_outcome(api, scope, "o1", failing=CUE)
        made = ok(generate(api, scope, source_refs=[seen]))
        assert made["status"] in {"pending", "no_op"}


def test_a_scope_has_prompts_of_its_own_for_experiences(api, here, model_stub):
    for key in ("experience.generate", "experience.incubate"):
        path = f"/v1/scopes/{here}/prompts/{key}"
        packaged = ok(api.get(path))
        assert (packaged["status"], packaged["mode"]) == ("supported", "auto")
        own = ok(api.put(path, json={"instructions": "Learn about money only."}))
        assert (own["prompt_key"], own["mode"]) == (key, "custom")
        assert own["artifact"] == {"family": "prompt", "artifact_id": key, "revision": 1}
    model_stub.answer(says({"proposal": PROPOSAL}))
    candidate = ok(generate(api, here))["candidate"]
    assert candidate["artifact_refs"] == [
        {"family": "prompt", "artifact_id": "experience.generate", "revision": 1}
    ]
    assert "Learn about money only." in str(model_stub.requests()[0]["body"])
