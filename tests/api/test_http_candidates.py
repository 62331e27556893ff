"""Candidates over HTTP: propose, list, revise, approve, reject, and everything that stops one."""

import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from calls import new_scope, ok, refused, remember
from proposals import (
    CUE,
    PROPOSAL,
    approve,
    capture_outcome,
    experience,
    learn,
    of,
    pending,
    propose,
    proposing,
    source,
    tracked,
    update,
    with_source,
)

CANDIDATES = "/v1/artifact-candidates"
PROPOSE = "/v1/experience/propose"
EXTRAS = [
    *("created_at", "updated_at", "origin", "intent", "author", "decided_by", "window_id"),
    *("warnings", "stale_target"),
]


@pytest.fixture
def here(api, scope):
    return with_source(api, scope)


def post(api, verb, body):
    return api.post(f"{CANDIDATES}/{verb}", json=body)


def get(api, scope, candidate, **fields):
    body = {"scope_id": scope, "candidate_id": candidate["candidate_id"], **fields}
    return ok(post(api, "get", body))


def test_a_proposal_waits_until_it_is_approved_and_is_then_read_by_revision(api, here):
    candidate = propose(api, here, reason="seen twice")

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
        "reason": "seen twice",
        "result_artifact": None,
        "decision_reason": None,
        "permissions": None,
    }
    assert candidate["candidate_id"].startswith("cand_")
    assert get(api, here, candidate) == candidate
    assert pending(api, here) == [candidate["candidate_id"]]

    approved = ok(post(api, "approve", of(candidate, here)))

    made = approved["result_artifact"]
    assert approved == candidate | {"status": "approved", "result_artifact": made}
    assert (made["family"], made["revision"]) == ("experience", 1)
    body = {"scope_id": here, "artifact": made}
    assert ok(api.post("/v1/experience/get", json=body)) == {
        "artifact": made,
        "content": PROPOSAL,
        "source_refs": [source()],
        "artifact_refs": [],
        "memory_citations": [],
    }
    assert pending(api, here) == []
    assert pending(api, here, status="approved") == [candidate["candidate_id"]]


def test_what_else_is_known_of_a_candidate_comes_only_when_asked_for(api, here):
    candidate = propose(api, here, include=EXTRAS)

    assert candidate.keys() - get(api, here, candidate).keys() == set(EXTRAS)
    assert candidate["created_at"] == candidate["updated_at"]
    assert {name: candidate[name] for name in EXTRAS[2:]} == {
        "origin": "propose",
        "intent": None,
        "author": "",
        "decided_by": None,
        "window_id": None,
        "warnings": [],
        "stale_target": False,
    }
    decided = ok(post(api, "approve", of(candidate, here, include=["decided_by", "updated_at"])))
    assert decided["decided_by"] == ""
    assert decided["updated_at"] > candidate["created_at"]
    body = {"scope_id": here, "candidate_id": candidate["candidate_id"], "include": ["score"]}
    assert refused(post(api, "get", body), 422, "invalid_request")["field"] == "include.0"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"source_refs": []}, "evidence"),
        ({"source_refs": [source("none")]}, "source_refs"),
        ({"source_refs": [source(f"s{n}") for n in range(33)]}, "source_refs"),
        ({"artifact_refs": [experience("exp_none")]}, "artifact_refs"),
        ({"reason": ""}, "reason"),
        ({"reason": "  "}, "reason"),
        ({"reason": "r" * 2001}, "reason"),
        ({"target": experience("exp_none")}, "target"),
        ({"proposal": {**PROPOSAL, "lesson": " \n"}}, "proposal.lesson"),
        ({"proposal": {**PROPOSAL, "lesson": "x" * 8001}}, "proposal.lesson"),
        ({"proposal": {**PROPOSAL, "score": 1}}, "proposal.score"),
        ({"proposal": tracked("!!!")}, "proposal.failure.signature.recall_cue"),
        ({"proposal": tracked()}, "evidence"),
        ({"family": "experience"}, "family"),
    ],
)
def test_a_proposal_that_breaks_a_rule_is_refused_by_field(api, here, fields, field):
    details = refused(api.post(PROPOSE, json=proposing(here, **fields)), 422, "invalid_request")
    assert details["field"] == field
    assert details["reason"]
    assert not details["reason"].startswith("value error")
    assert pending(api, here) == []


def test_sources_artifacts_and_citations_are_32_together(api, here):
    entries = [remember(api, here, f"Fact {n}.")["entry"]["citation"] for n in range(32)]
    over = proposing(here, memory_citations=entries)
    details = refused(api.post(PROPOSE, json=over), 422, "invalid_request")
    assert details["field"] == "evidence"
    kept = propose(api, here, source_refs=[], memory_citations=entries)
    assert kept["memory_citations"] == entries


def test_a_prompt_alone_is_no_evidence(api, here):
    path = f"/v1/scopes/{here}/prompts/memory.extract"
    prompt = ok(api.put(path, json={"instructions": "Keep money."}))["artifact"]
    body = proposing(here, source_refs=[], artifact_refs=[prompt])
    assert refused(api.post(PROPOSE, json=body), 422, "invalid_request")["field"] == "evidence"
    assert propose(api, here, artifact_refs=[prompt])["artifact_refs"] == [prompt]


def test_unknown_scopes_and_candidates_are_not_found(api, here):
    body = proposing("nowhere")
    refused(api.post(PROPOSE, json=body), 404, "scope_not_found")
    refused(post(api, "list", {"scope_id": "nowhere"}), 404, "scope_not_found")
    named = {"scope_id": here, "candidate_id": "cand_none"}
    content = {"proposal": PROPOSAL, "source_refs": [source()], "artifact_refs": []}
    for verb, more in (
        ("get", {}),
        ("history", {}),
        ("diff", {}),
        ("approve", {"expected_version": 1}),
        ("reject", {"expected_version": 1, "reason": "no"}),
        ("revise", {"expected_version": 1, **content}),
    ):
        refused(post(api, verb, named | more), 404, "candidate_not_found")
        missing = named | more | {"scope_id": "nowhere"}
        refused(post(api, verb, missing), 404, "scope_not_found")


def test_an_unknown_family_is_refused_clearly(api, here):
    for family in ("skill", "profile", "汉", ""):
        details = refused(
            post(api, "list", {"scope_id": here, "family": family}), 422, "invalid_request"
        )
        assert details["field"] == "family"
    assert pending(api, here, family="experience") == []


def test_a_target_is_the_head_and_is_cited(api, here):
    first = learn(api, here)
    body = proposing(here, target=first)
    assert refused(api.post(PROPOSE, json=body), 422, "invalid_request")["field"] == "target"
    memory = remember(api, here, "Cents.")["memory"]
    body = proposing(here, artifact_refs=[memory], target=memory)
    assert refused(api.post(PROPOSE, json=body), 422, "invalid_request")["field"] == "target"

    second = approve(api, here, update(api, here, first))

    assert second == first | {"revision": 2}
    body = proposing(here, artifact_refs=[first], target=first)
    details = refused(api.post(PROPOSE, json=body), 409, "artifact_conflict")
    assert details == {"current": second}
    got = ok(api.post("/v1/experience/get", json={"scope_id": here, "artifact": second}))
    assert got["artifact_refs"] == [first]


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


def test_a_failure_is_tracked_only_if_an_outcome_shows_it(api, here):
    refused(api.post(PROPOSE, json=proposing(here, proposal=tracked())), 422, "invalid_request")
    seen = capture_outcome(api, here, "o1", failing=f"  {CUE.upper()}!".replace("R", "Ｒ"))
    body = proposing(here, proposal=tracked(), source_refs=[source(), seen])

    candidate = ok(api.post(PROPOSE, json=body), 201)

    assert candidate["proposal"] == tracked()
    first = approve(api, here, candidate)
    # keeping it needs an outcome that shows it again
    kept = proposing(here, proposal=tracked(lesson="New."), artifact_refs=[first], target=first)
    details = refused(api.post(PROPOSE, json=kept), 422, "invalid_request")
    assert (details["field"], details["rule"]) == ("evidence", "failure")
    other = propose(api, here, proposal=tracked(), source_refs=[seen], include=["warnings"])
    assert [(one["code"], one["artifact"]) for one in other["warnings"]] == [("same_cue", first)]


def test_an_outcome_that_names_nothing_does_no_harm(api, here):
    seen = capture_outcome(api, here, "o1", failing="!!!")
    body = proposing(here, proposal=tracked(), source_refs=[seen])
    assert refused(api.post(PROPOSE, json=body), 422, "invalid_request")["field"] == "evidence"


def test_a_retired_entry_is_no_evidence_not_even_at_approval(api, here):
    entry = remember(api, here, "Amounts are cents.")["entry"]
    candidate = propose(api, here, memory_citations=[entry["citation"]])
    retire = {"scope_id": here, "citation": entry["citation"]}
    ok(api.post("/v1/memory/entries/retire", json=retire))

    refused(post(api, "approve", of(candidate, here)), 422, "memory_entry_inactive")

    body = proposing(here, memory_citations=[entry["citation"]])
    refused(api.post(PROPOSE, json=body), 422, "memory_entry_inactive")
    unknown = entry["citation"] | {"entry_version_id": "mem_ver_none"}
    body = proposing(here, memory_citations=[unknown])
    refused(api.post(PROPOSE, json=body), 422, "invalid_memory_citation")
    content = {"proposal": PROPOSAL, "source_refs": [source()], "artifact_refs": []}
    refused(post(api, "revise", of(candidate, here, **content)), 422, "memory_entry_inactive")
    cleared = of(candidate, here, **content, memory_citations=[])
    revised = ok(post(api, "revise", cleared))
    assert (revised["version"], revised["memory_citations"]) == (2, [])
    assert approve(api, here, revised)["revision"] == 1


def test_the_sources_behind_a_cited_entry_come_along(api, here, model_stub):
    ok(api.post("/v1/memory/flush", json={"scope_id": here}))
    (entry,) = ok(api.post("/v1/memory/entries/list", json={"scope_id": here}))["entries"]
    candidate = propose(api, here, source_refs=[], memory_citations=[entry["citation"]])
    assert candidate["source_refs"] == [source()]


def test_secrets_are_refused_and_not_repeated(api, here):
    secret = "AKIA" + "ABCDEFGH12345678"
    for fields in ({"proposal": PROPOSAL | {"action": f"key {secret}"}}, {"reason": secret}):
        answer = api.post(PROPOSE, json=proposing(here, **fields))
        refused(answer, 422, "secret_detected")
        assert secret not in answer.text
    candidate = propose(api, here)
    answer = post(api, "reject", of(candidate, here, reason=secret))
    refused(answer, 422, "secret_detected")
    assert secret not in answer.text


def test_candidates_are_listed_by_creation_with_short_cursors(api, here):
    made = [
        propose(api, here, proposal=PROPOSAL | {"lesson": str(n)})["candidate_id"] for n in range(5)
    ]
    seen, cursor = [], None
    while True:
        asked = {"scope_id": here, "limit": 2} | ({} if cursor is None else {"cursor": cursor})
        page = ok(post(api, "list", asked))
        seen += [one["candidate_id"] for one in page["candidates"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
        assert len(cursor) <= 128  # published clients refuse to send longer ones
    assert seen == made
    first = ok(post(api, "list", {"scope_id": here, "limit": 2}))["next_cursor"]
    for asked in (
        {"limit": 3, "cursor": first},
        {"limit": 2, "status": "approved", "cursor": first},
        {"limit": 2, "cursor": "x"},
        {"limit": 2, "cursor": first[:-1] + ("A" if first[-1] != "A" else "B")},
    ):
        refused(post(api, "list", {"scope_id": here, **asked}), 400, "invalid_cursor")
    for limit in (0, 101):
        details = refused(
            post(api, "list", {"scope_id": here, "limit": limit}), 422, "invalid_request"
        )
        assert details["field"] == "limit"
    both = pending(api, here, limit=100)
    assert both == made


def test_the_history_shows_every_version_and_the_decision(api, here):
    candidate = propose(api, here, reason="first")
    content = {"proposal": PROPOSAL | {"lesson": "Other."}, "source_refs": [source()]}
    revised = ok(
        post(api, "revise", of(candidate, here, artifact_refs=[], reason="clearer", **content))
    )
    named = {"scope_id": here, "candidate_id": candidate["candidate_id"]}

    before = ok(post(api, "history", named))

    said = {"source_refs": [source()], "artifact_refs": [], "memory_citations": [], "author": ""}
    times = [one.pop("created_at") for one in before["versions"]]
    assert times == sorted(set(times))
    assert before == {
        "candidate_id": candidate["candidate_id"],
        "versions": [
            {"version": 1, "proposal": PROPOSAL, "reason": "first", **said},
            {"version": 2, "proposal": revised["proposal"], "reason": "clearer", **said},
        ],
        "decision": None,
    }
    made = approve(api, here, revised)
    decision = ok(post(api, "history", named))["decision"]
    assert decision.pop("decided_at") > times[1]
    assert decision == {
        "status": "approved",
        "decided_by": "",
        "reason": None,
        "result_artifact": made,
    }


def test_the_diff_is_against_the_target(api, here):
    new = propose(api, here)
    named = {"scope_id": here, "candidate_id": new["candidate_id"]}
    assert ok(post(api, "diff", named)) == {
        "candidate_id": new["candidate_id"],
        "version": 1,
        "target": None,
        "current": None,
        "state": None,
        "stale_target": False,
        "changes": [
            {"field": name, "before": None, "after": text, "changed": True}
            for name, text in PROPOSAL.items()
            if text is not None
        ],
    }
    first = approve(api, here, new)
    changed = update(api, here, first, lesson="Other.")
    named = {"scope_id": here, "candidate_id": changed["candidate_id"]}
    found = ok(post(api, "diff", named))
    assert (found["target"], found["current"], found["state"]) == (first, first, "active")
    assert [one["field"] for one in found["changes"] if one["changed"]] == ["lesson"]
    assert found["changes"][3] == {
        "field": "lesson",
        "before": PROPOSAL["lesson"],
        "after": "Other.",
        "changed": True,
    }
    second = approve(api, here, update(api, here, first, lesson="Overtaken."))
    found = ok(post(api, "diff", named))
    assert (found["current"], found["stale_target"]) == (second, True)


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
