"""Experiences over HTTP: exact revisions, lists, artifacts, lifecycle."""

import hashlib
import json

from calls import ok, refused, remember
from proposals import (
    CUE,
    PROPOSAL,
    approve,
    capture_outcome,
    experience,
    heads,
    learn,
    propose,
    proposing,
    read,
    source,
    tracked,
    update,
    with_source,
    withdraw,
)

EXTRAS = ["state", "head", "candidate_id", "content_digest", "created_at", "purged", "lifecycle"]


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
