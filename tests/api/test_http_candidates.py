"""Candidates as they are read over HTTP: one by one, listed, with their history and diff."""

from calls import ok, refused
from proposals import (
    PROPOSAL,
    PROPOSE,
    approve,
    get,
    of,
    pending,
    post,
    propose,
    proposing,
    source,
    update,
)

EXTRAS = [
    *("created_at", "updated_at", "origin", "intent", "author", "decided_by", "window_id"),
    *("warnings", "stale_target"),
]


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
