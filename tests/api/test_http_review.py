"""Decisions over HTTP: on the version that was seen, once, by who may, and when they race."""

import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from calls import new_scope, ok, refused
from proposals import (
    CANDIDATES,
    PROPOSAL,
    PROPOSE,
    approve,
    get,
    learn,
    of,
    pending,
    post,
    propose,
    proposing,
    source,
    update,
    with_source,
)


def test_only_the_version_that_was_looked_at_is_approved(api, here):
    candidate = propose(api, here, reason="first")
    content = {"proposal": PROPOSAL | {"lesson": "Other."}, "source_refs": [source()]}

    revised = ok(post(api, "revise", of(candidate, here, artifact_refs=[], **content)))

    assert revised == candidate | {
        "version": 2,
        "proposal": PROPOSAL | {"lesson": "Other."},
        "reason": None,
    }
    stale = {"expected_version": 1, "current_version": 2}
    for verb, more in (
        ("approve", {}),
        ("reject", {"reason": "no"}),
        ("revise", {**content, "artifact_refs": []}),
    ):
        answer = post(api, verb, of(candidate, here, **more))
        assert refused(answer, 409, "candidate_conflict") == stale
    approved = ok(post(api, "approve", of(revised, here)))
    assert ok(post(api, "approve", of(revised, here))) == approved
    final = {"status": "approved"}
    for verb, version, more in (
        ("approve", 1, {}),
        ("reject", 2, {"reason": "no"}),
        ("revise", 2, {**content, "artifact_refs": []}),
    ):
        body = of(revised, here, **more) | {"expected_version": version}
        assert refused(post(api, verb, body), 409, "candidate_terminal") == final


def test_a_rejection_is_final_and_says_why(api, here):
    candidate = propose(api, here)
    for reason in ("", " ", "r" * 2001):
        details = refused(
            post(api, "reject", of(candidate, here, reason=reason)), 422, "invalid_request"
        )
        assert details["field"] == "reason"

    rejected = ok(post(api, "reject", of(candidate, here, reason="one run is not enough")))

    assert rejected == candidate | {
        "status": "rejected",
        "decision_reason": "one run is not enough",
    }
    again = post(api, "reject", of(candidate, here, reason="still"))
    assert refused(again, 409, "candidate_terminal") == {"status": "rejected"}
    refused(post(api, "approve", of(candidate, here)), 409, "candidate_terminal")
    assert pending(api, here, status="rejected") == [candidate["candidate_id"]]


def test_of_two_candidates_for_one_target_the_second_can_only_be_rejected(api, here):
    first = learn(api, here)
    one = update(api, here, first, lesson="One.", include=["warnings", "stale_target"])
    two = update(api, here, first, lesson="Two.", include=["warnings", "stale_target"])
    assert (one["warnings"], two["stale_target"]) == ([], False)
    assert [warned["code"] for warned in two["warnings"]] == ["rival"]
    assert two["warnings"][0]["candidate_id"] == one["candidate_id"]

    second = approve(api, here, one)

    lost = refused(post(api, "approve", of(two, here)), 409, "artifact_conflict")
    assert lost == {"current": second}
    content = {"proposal": PROPOSAL, "source_refs": [], "artifact_refs": [first], "target": first}
    lost = refused(post(api, "revise", of(two, here, **content)), 409, "artifact_conflict")
    assert lost == {"current": second}
    now = get(api, here, two, include=["warnings", "stale_target"])
    assert (now["status"], now["version"], now["stale_target"]) == ("pending", 1, True)
    assert now["warnings"] == [
        {
            "code": "stale_target",
            "message": now["warnings"][0]["message"],
            "artifact": second,
            "candidate_id": None,
        }
    ]
    assert ok(post(api, "reject", of(two, here, reason="overtaken")))["status"] == "rejected"


def test_approving_what_changes_nothing_is_refused(api, here):
    first = learn(api, here)
    same = propose(api, here, artifact_refs=[first], target=first)
    details = refused(post(api, "approve", of(same, here)), 422, "unchanged_proposal")
    assert details["field"] == "proposal"
    assert get(api, here, same)["status"] == "pending"


def test_a_repeated_call_with_its_key_gets_the_stored_answer(api, here):
    key = {"Idempotency-Key": "k"}

    def once(path, body):
        first = api.post(path, json=body, headers=key)
        again = api.post(path, json=body, headers=key)
        assert again.headers["Idempotency-Replayed"] == "true"
        assert (again.status_code, again.json()) == (first.status_code, first.json())
        return first.json()

    candidate = once(PROPOSE, proposing(here))
    assert pending(api, here) == [candidate["candidate_id"]]
    other = api.post(PROPOSE, json=proposing(here, reason="other"), headers=key)
    refused(other, 409, "idempotency_conflict")
    content = {"proposal": PROPOSAL | {"lesson": "B."}, "source_refs": [source()]}
    revised = once(f"{CANDIDATES}/revise", of(candidate, here, artifact_refs=[], **content))
    assert revised["version"] == 2
    assert once(f"{CANDIDATES}/approve", of(revised, here))["status"] == "approved"
    second = propose(api, here)
    rejected = once(f"{CANDIDATES}/reject", of(second, here, reason="no"))
    assert rejected["status"] == "rejected"


def test_a_refused_call_leaves_its_key_free(api, here):
    key = {"Idempotency-Key": "free"}
    late = proposing(here, source_refs=[source("late")])
    refused(api.post(PROPOSE, json=late, headers=key), 422, "invalid_request")
    body = {"scope_id": here, "source_id": "late", "content": "It came."}
    ok(api.post("/v1/sources/content", json=body), 202)
    ok(api.post(PROPOSE, json=late, headers=key), 201)


def at_once(count, work):
    gate = threading.Barrier(count)

    def begun(number):
        gate.wait(30)
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begun, range(count)))


def test_of_racing_approvals_for_one_target_exactly_one_wins(api, here):
    first = learn(api, here)
    rivals = [update(api, here, first, lesson=f"Lesson {n}.") for n in range(4)]

    answers = at_once(4, lambda n: post(api, "approve", of(rivals[n], here)))

    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 3}
    for answer in answers:
        if answer.status_code == 409:
            assert refused(answer, 409, "artifact_conflict") == {"current": first | {"revision": 2}}
    assert len(pending(api, here)) == 3
    revisions = f"/v1/scopes/{here}/artifacts/experience/{first['artifact_id']}/revisions"
    assert [one["revision"] for one in ok(api.get(revisions))["items"]] == [2, 1]


def test_racing_approvals_of_one_candidate_make_one_experience(api, here):
    candidate = propose(api, here)

    answers = at_once(4, lambda _: post(api, "approve", of(candidate, here)))

    (made,) = {json.dumps(ok(answer)["result_artifact"]) for answer in answers}
    listed = ok(api.get(f"/v1/scopes/{here}/experience"))["items"]
    assert [item["artifact"] for item in listed] == [json.loads(made)]


def test_an_approval_and_a_rejection_that_race_leave_one_decision(api, here):
    for _ in range(3):
        candidate = propose(api, here)
        calls = [("approve", {}), ("reject", {"reason": "no"})]

        answers = at_once(
            2,
            lambda n: post(api, calls[n][0], of(candidate, here, **calls[n][1])),  # noqa: B023
        )

        assert sorted(answer.status_code for answer in answers) == [200, 409]
        won = next(answer.json() for answer in answers if answer.status_code == 200)
        assert get(api, here, candidate)["status"] == won["status"]


def test_verbs_keep_who_proposes_from_deciding(serve):
    def token(name, *verbs):
        return {"name": name, "token": f"{name}-token", "scopes": ["*"], "verbs": list(verbs)}

    tokens = [
        token("agent", "read", "contribute"),
        token("reviewer", "read", "review"),
        token("admin", "admin"),
    ]
    server = serve(api_tokens=json.dumps(tokens))
    with (
        server.client("agent-token") as agent,
        server.client("reviewer-token") as reviewer,
        server.client("admin-token") as admin,
    ):
        scope = with_source(admin, new_scope(admin))
        candidate = propose(agent, scope, include=["author"])
        assert candidate["author"] == "agent"
        nothing = {"can_revise": False, "can_approve": False, "can_reject": False}
        assert candidate["permissions"] == nothing
        refused(reviewer.post(PROPOSE, json=proposing(scope)), 403, "forbidden")
        content = {"proposal": PROPOSAL, "source_refs": [source()], "artifact_refs": []}
        decisions = {"approve": {}, "reject": {"reason": "no"}, "revise": content}
        for verb, more in decisions.items():
            refused(post(agent, verb, of(candidate, scope, **more)), 403, "forbidden")
        seen = get(reviewer, scope, candidate)
        assert seen["permissions"] == dict.fromkeys(nothing, True)
        revised = ok(post(reviewer, "revise", of(candidate, scope, **content)))
        approved = ok(
            post(reviewer, "approve", of(revised, scope, include=["author", "decided_by"]))
        )
        assert (approved["author"], approved["decided_by"]) == ("agent", "reviewer")
        assert approved["permissions"] == nothing
        history = ok(post(agent, "history", {"scope_id": scope} | _id(candidate)))
        assert [one["author"] for one in history["versions"]] == ["agent", "reviewer"]
        assert history["decision"]["decided_by"] == "reviewer"
        withdrawn = {
            "scope_id": scope,
            "artifact": approved["result_artifact"],
            "state": "deprecated",
            "reason": "old",
        }
        refused(agent.post("/v1/experience/lifecycle", json=withdrawn), 403, "forbidden")
        assert ok(reviewer.post("/v1/experience/lifecycle", json=withdrawn))["state"] == (
            "deprecated"
        )


def _id(candidate):
    return {"candidate_id": candidate["candidate_id"]}
