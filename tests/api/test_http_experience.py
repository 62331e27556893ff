"""Experiences over HTTP: exact revisions, lists, artifacts, lifecycle."""

import hashlib
import json

import pytest
from calls import new_scope, ok, refused, remember
from model_stub import says, status
from proposals import (
    CUE,
    PROPOSAL,
    approve,
    capture_outcome,
    experience,
    learn,
    propose,
    proposing,
    source,
    tracked,
    update,
    with_source,
)

EXTRAS = ["state", "head", "candidate_id", "content_digest", "created_at", "purged", "lifecycle"]


@pytest.fixture
def here(api, scope):
    return with_source(api, scope)


def read(api, scope, artifact, **fields):
    return api.post("/v1/experience/get", json={"scope_id": scope, "artifact": artifact, **fields})


def withdraw(api, scope, artifact, state="deprecated", **fields):
    body = {"scope_id": scope, "artifact": artifact, "state": state, "reason": "outdated"}
    return api.post("/v1/experience/lifecycle", json=body | fields)


def heads(api, scope, **params):
    return ok(api.get(f"/v1/scopes/{scope}/experience", params=params))


def digest(value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def test_every_revision_reads_as_it_was(api, here):
    seen = capture_outcome(api, here, "o1", failing=CUE)
    first = learn(api, here, proposal=tracked(), source_refs=[seen])
    was = ok(read(api, here, first))
    assert was["content"] == tracked()
    second = approve(api, here, update(api, here, first))

    assert ok(read(api, here, first)) == was
    now = ok(read(api, here, second, include=EXTRAS))
    assert now["content"]["failure"] is None
    candidate_id, created_at = now.pop("candidate_id"), now.pop("created_at")
    assert now == ok(read(api, here, second)) | {
        "state": "active",
        "head": second,
        "content_digest": digest(now["content"]),
        "purged": [],
        "lifecycle": [],
    }
    old = ok(read(api, here, first, include=["head", "candidate_id", "created_at"]))
    assert (old["head"], old["candidate_id"] < candidate_id) == (second, True)
    assert old["created_at"] < created_at


def test_white_space_around_the_fields_is_kept(api, here):
    said = PROPOSAL | {"action": "  two\n", "lesson": "\u3000汉字\t"}
    made = learn(api, here, proposal=said)
    assert ok(read(api, here, made))["content"] == said


def test_what_is_no_such_revision_is_not_found(api, here):
    made = learn(api, here)
    memory = remember(api, here, "Cents.")["memory"]
    for artifact in (memory, experience("exp_none"), made | {"revision": 2}):
        refused(read(api, here, artifact), 404, "artifact_not_found")
    refused(read(api, "nowhere", made), 404, "scope_not_found")
    for artifact in (made | {"revision": 0}, made | {"artifact_id": ""}, made | {"x": 1}, None):
        refused(read(api, here, artifact), 422, "invalid_request")
    details = refused(read(api, here, made, include=["score"]), 422, "invalid_request")
    assert details["field"] == "include.0"


def test_an_erased_entry_is_named_where_it_was_cited(api, here):
    entry = remember(api, here, "Amounts are cents.")["entry"]["citation"]
    made = learn(api, here, memory_citations=[entry])
    assert ok(read(api, here, made))["memory_citations"] == [entry]
    erase = {"scope_id": here, "entry_id": entry["entry_id"]}
    ok(api.post("/v1/memory/entries/purge", json=erase))
    found = ok(read(api, here, made, include=["purged"]))
    assert found["purged"] == found["memory_citations"] == [entry]


def test_experiences_are_listed_by_creation(api, here):
    assert heads(api, here) == {"items": [], "next_cursor": None}
    made = [learn(api, here, proposal=PROPOSAL | {"lesson": str(n)}) for n in range(5)]
    second = approve(api, here, update(api, here, made[1]))
    wanted = [made[0], second, *made[2:]]

    whole = heads(api, here)

    assert [item["artifact"] for item in whole["items"]] == wanted
    assert whole["items"][1] == {
        **ok(read(api, here, second)),
        **ok(
            read(
                api, here, second, include=["state", "candidate_id", "content_digest", "created_at"]
            )
        ),
    }
    pages, cursor = [], None
    while True:
        page = heads(api, here, limit=2, **({} if cursor is None else {"cursor": cursor}))
        pages.append([item["artifact"] for item in page["items"]])
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert pages == [wanted[:2], wanted[2:4], wanted[4:]]
    first = heads(api, here, limit=2)["next_cursor"]
    path = f"/v1/scopes/{here}/experience"
    refused(api.get(path, params={"limit": 3, "cursor": first}), 400, "invalid_cursor")
    refused(api.get(path, params={"limit": 0}), 400, "invalid_request")
    refused(api.get(path, params={"state": "active"}), 422, "invalid_request")
    refused(api.get("/v1/scopes/nowhere/experience"), 404, "scope_not_found")


def test_an_experience_is_an_artifact(api, here):
    entry = remember(api, here, "Amounts are cents.")["entry"]["citation"]
    first = learn(api, here, memory_citations=[entry])
    second = approve(api, here, update(api, here, first))
    family = f"/v1/scopes/{here}/artifacts/experience"
    one = f"{family}/{first['artifact_id']}"
    facts = {
        "scope_id": here,
        "family": "experience",
        "artifact_id": first["artifact_id"],
    }
    stored = [{"source_type": "content", "source_id": "s1"}]

    head = api.get(one)

    content = PROPOSAL | {"lesson": "Parse money as Decimal, and amounts of weight as well."}
    assert ok(head) == {
        **facts,
        "revision": 2,
        "content": content,
        "sources": stored,
        "artifacts": [first],
        "memory_citations": [],
        "content_digest": digest(content),
    }
    assert head.headers["ETag"] == '"revision:2"'
    known = api.get(one, headers={"If-None-Match": '"revision:2"'})
    assert (known.status_code, known.content) == (304, b"")
    assert ok(api.get(one, headers={"If-None-Match": '"revision:1"'})) == ok(head)
    exact = {
        **facts,
        "revision": 1,
        "content": PROPOSAL,
        "sources": stored,
        "artifacts": [],
        "memory_citations": [entry],
        "content_digest": digest(PROPOSAL),
    }
    assert ok(api.get(f"{one}/revisions/1")) == exact
    item = {"title": None, "summary": None, "published_at": None, "source_count": None}
    for name in ("content", "memory_citations"):
        exact.pop(name)
    listed = ok(api.get(f"{one}/revisions"))["items"]
    assert [row["revision"] for row in listed] == [2, 1]
    assert listed[1] == exact | item
    assert ok(api.get(family)) == {"items": [listed[0]], "next_cursor": None}
    page = ok(api.get(f"{one}/revisions", params={"limit": 1}))
    page = ok(api.get(f"{one}/revisions", params={"limit": 1, "cursor": page["next_cursor"]}))
    assert page == {"items": [listed[1]], "next_cursor": None}
    refused(api.get(f"{one}/revisions/3"), 404, "artifact_not_found")
    refused(api.get(f"{family}/exp_none"), 404, "artifact_not_found")
    refused(api.get(f"{family}/exp_none/revisions"), 404, "artifact_not_found")
    assert second["revision"] == 2


def test_nothing_writes_an_experience_past_its_review(api, here):
    first = learn(api, here)
    body = {"family": "experience", "content": PROPOSAL}
    refused(api.post(f"/v1/scopes/{here}/artifacts", json=body), 404, "route_not_found")
    path = f"/v1/scopes/{here}/artifacts/experience/{first['artifact_id']}"
    answer = api.put(path, json={"content": PROPOSAL}, headers={"If-Match": '"revision:1"'})
    refused(answer, 405, "method_not_allowed")
    refused(api.delete(path), 405, "method_not_allowed")
    assert ok(api.get(path))["revision"] == 1


def test_a_withdrawn_experience_is_read_and_no_longer_listed_or_revised(api, here):
    seen = capture_outcome(api, here, "o1", failing=CUE)
    first = learn(api, here, proposal=tracked(), source_refs=[seen])
    waiting = update(api, here, first)

    assert ok(withdraw(api, here, first)) == {"artifact": first, "state": "deprecated"}

    assert heads(api, here)["items"] == []
    assert ok(api.get(f"/v1/scopes/{here}/artifacts/experience"))["items"] == []
    (item,) = heads(api, here, include_inactive=True)["items"]
    assert (item["artifact"], item["state"]) == (first, "deprecated")
    found = ok(read(api, here, first, include=["state", "lifecycle"]))
    assert found["state"] == "deprecated"
    changed_at = found["lifecycle"][0].pop("changed_at")
    assert changed_at
    assert found["lifecycle"] == [
        {"state": "deprecated", "revision": 1, "reason": "outdated", "author": ""}
    ]
    body = {
        "scope_id": here,
        "candidate_id": waiting["candidate_id"],
        "expected_version": 1,
        "include": ["stale_target"],
    }
    approval = api.post("/v1/artifact-candidates/approve", json=body)
    details = refused(approval, 409, "artifact_inactive")
    assert details == {"artifact": first, "lifecycle": "deprecated"}
    proposal = proposing(here, artifact_refs=[first], target=first)
    refused(api.post("/v1/experience/propose", json=proposal), 409, "artifact_inactive")
    assert propose(api, here, artifact_refs=[first])["target"] is None  # as evidence it is good

    assert ok(withdraw(api, here, first, "active"))["state"] == "active"
    assert ok(api.post("/v1/artifact-candidates/approve", json=body))["stale_target"] is False
    assert [one["artifact"]["revision"] for one in heads(api, here)["items"]] == [2]


def test_retired_is_final_and_only_the_head_changes_state(api, here):
    first = learn(api, here)
    second = approve(api, here, update(api, here, first))
    assert refused(withdraw(api, here, first), 409, "artifact_conflict") == {"current": second}
    assert ok(withdraw(api, here, second, "retired"))["state"] == "retired"
    assert ok(withdraw(api, here, second, "retired"))["state"] == "retired"
    for state in ("active", "deprecated"):
        details = refused(withdraw(api, here, second, state), 409, "artifact_inactive")
        assert details == {"artifact": second, "lifecycle": "retired"}
    assert len(ok(read(api, here, second, include=["lifecycle"]))["lifecycle"]) == 1
    refused(withdraw(api, here, experience("exp_none")), 404, "artifact_not_found")
    refused(withdraw(api, "nowhere", second), 404, "scope_not_found")
    for fields, field in (
        ({"state": "gone"}, "state"),
        ({"reason": ""}, "reason"),
        ({"reason": " "}, "reason"),
        ({"reason": None}, "reason"),
    ):
        details = refused(withdraw(api, here, second, **fields), 422, "invalid_request")
        assert details["field"] == field


def test_a_change_of_state_is_done_once_a_key(api, here):
    first = learn(api, here)
    key = {"Idempotency-Key": "k"}
    body = {"scope_id": here, "artifact": first, "state": "deprecated", "reason": "outdated"}
    done = api.post("/v1/experience/lifecycle", json=body, headers=key)
    ok(withdraw(api, here, first, "active"))
    again = api.post("/v1/experience/lifecycle", json=body, headers=key)
    assert (again.json(), again.headers["Idempotency-Replayed"]) == (ok(done), "true")
    assert len(heads(api, here)["items"]) == 1


def test_sources_of_scopes_do_not_mix(api, here):
    other = with_source(api, ok(api.post("/v1/scopes", json=_scope(f"{here}-b")), 201)["scope_id"])
    made = learn(api, here)
    refused(read(api, other, made), 404, "artifact_not_found")
    body = proposing(other, source_refs=[source()], artifact_refs=[made])
    refused(api.post("/v1/experience/propose", json=body), 422, "invalid_request")


def _scope(scope_id):
    return {"scope_id": scope_id, "title": "T", "summary": "S", "idempotency_key": scope_id}


def search(api, scope, query, **fields):
    return api.post("/v1/experience/search", json={"scope_id": scope, "query": query, **fields})


def test_what_is_active_is_found_by_what_it_says(api, here):
    assert ok(search(api, here, "money")) == {"mode": None, "hits": []}
    seen = capture_outcome(api, here, "o1", failing=CUE)
    first = learn(api, here, proposal=tracked(lesson="金额必须以整数分存储。"), source_refs=[seen])
    learn(api, here, proposal=PROPOSAL | {"lesson": "Sort imports by name."})

    found = ok(search(api, here, "金额字段应该怎么处理？", limit=1))

    (hit,) = found["hits"]
    assert found["mode"] == "fts"
    assert hit == {
        "artifact": first,
        "content": tracked(lesson="金额必须以整数分存储。"),
        "score": hit["score"],
        "matched_by": ["fts"],
    }
    asked = ["matched_terms", "channels", "coverage"]
    more = ok(search(api, here, "rounding check", mode="fts", limit=1, include=asked))
    assert more["coverage"] == {"active_experiences": 2, "fts": 2, "vector": 0}
    (hit,) = more["hits"]
    assert (hit["artifact"], sorted(hit["matched_terms"])) == (
        first,
        ["check", "round", "rounding"],
    )
    assert [(one["channel"], one["rank"]) for one in hit["channels"]] == [("fts", 1)]
    for fields, field in (
        ({"query": ""}, "query"),
        ({"query": " "}, "query"),
        ({"limit": 0}, "limit"),
        ({"limit": 51}, "limit"),
        ({"mode": "fuzzy"}, "mode"),
        ({"include": ["kind"]}, "include.0"),
    ):
        response = search(api, here, **{"query": "money", **fields})
        assert refused(response, 422, "invalid_request")["field"] == field
    refused(search(api, "nowhere", "money"), 404, "scope_not_found")


def test_only_approved_active_heads_are_recalled(api, here):
    seen = capture_outcome(api, here, "o1", failing=CUE)

    def recalled():
        body = {"scope_id": here, "query": "Decimal money zebra yak walrus"}
        prepared = ok(api.post("/v1/context/prepare", json=body))["content"] or ""
        hits = ok(search(api, here, "Decimal money zebra yak walrus"))["hits"]
        return prepared, [hit["artifact"] for hit in hits]

    waiting = propose(
        api, here, proposal=tracked(lesson="Parse money of zebra."), source_refs=[seen]
    )
    assert recalled() == ("", [])  # pending

    first = approve(api, here, waiting)
    prepared, found = recalled()
    assert found == [first]
    for line in (
        "Lesson: Parse money of zebra.",
        f"Failure cue: {CUE}",
        "Symptom: off by one cent",
        "Repair surface: experience_content",
        "Verification condition: an order was imported",
        "Verification check: test_amounts",
    ):
        assert line in prepared

    lost = propose(api, here, proposal=PROPOSAL | {"lesson": "Parse money of walrus."})
    body = {"scope_id": here, "candidate_id": lost["candidate_id"], "expected_version": 1}
    ok(api.post("/v1/artifact-candidates/reject", json=body | {"reason": "no"}))
    second = approve(api, here, update(api, here, first, lesson="Parse money of yak."))
    prepared, found = recalled()
    assert found == [second]
    assert "yak" in prepared
    assert "zebra" not in prepared  # historical
    assert "walrus" not in prepared  # rejected

    ok(withdraw(api, here, second))
    assert recalled() == ("", [])
    assert ok(read(api, here, first))["content"]["lesson"] == "Parse money of zebra."


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
