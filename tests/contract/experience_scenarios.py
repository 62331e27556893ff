"""Experiences: proposed on evidence, read by exact revision, and as artifacts."""

import json
from typing import Any

from caller import Caller

PROPOSAL = {
    "situation": "An amount went through a float before it became integer cents.",
    "action": "Parsed the text as Decimal.",
    "outcome": "The input that was off by one gives the expected value.",
    "lesson": "Parse money as Decimal.",
    "failure": None,
}
S1 = {"name": "content", "source_id": "s1"}


def _propose(pc: Caller, **fields: Any) -> Any:
    if fields.pop("capture", True):
        pc.capture("s1", "An amount of 0.29 became 28 cents.")
    asked = {"proposal": PROPOSAL, "source_refs": [S1], "artifact_refs": []}
    return pc.memory("propose_experience", **asked | fields)


def _approve(pc: Caller, candidate: Any) -> Any:
    approved = pc.memory(
        "approve_artifact_candidate",
        candidate_id=candidate["candidate_id"],
        expected_version=candidate["version"],
    )
    return approved["result_artifact"]


def _outcome(pc: Caller, source_id: str, failing: str) -> dict[str, str]:
    """Append a task outcome whose one check failed, and return its reference."""
    evidence = {"kind": "source", "source_ref": {"source_type": "content", "source_id": "s1"}}
    outcome = {
        "schema": "powercontext.task-outcome.v1",
        "trust": "untrusted_observation",
        "objective": "import the orders",
        "status": "failed",
        "summary": "one amount is off",
        "handoff_receipt_ref": None,
        "observations": [{"text": "the import ran", "basis": "declared", "evidence": []}],
        "checks": [
            {
                "name": failing,
                "status": "failed",
                "basis": "verified",
                "details": None,
                "evidence": [evidence],
            }
        ],
        "produced_artifacts": [],
        "remaining_work": [],
    }
    pc.capture("s1", "An amount of 0.29 became 28 cents.")
    pc.capture(source_id, json.dumps(outcome), metadata={"kind": "task-outcome"})
    return {"name": "content", "source_id": source_id}


def _tracked(cue: str) -> dict[str, Any]:
    failure = {
        "signature": {"recall_cue": cue, "symptom": None},
        "repair_surface": "experience_content",
        "verification": {"condition": "an import ran", "check_subject": "test_amounts"},
    }
    return PROPOSAL | {"failure": failure}


def a_proposal_is_a_pending_candidate(pc: Caller) -> None:
    found = _propose(pc, reason="seen twice")
    assert found["candidate_id"].startswith("cand_")
    assert found == {
        "candidate_id": found["candidate_id"],
        "version": 1,
        "family": "experience",
        "status": "pending",
        "proposal": PROPOSAL,
        "source_refs": [S1],
        "artifact_refs": [],
        "memory_citations": [],
        "target": None,
        "reason": "seen twice",
        "result_artifact": None,
        "decision_reason": None,
        "permissions": None,
    }


def what_is_approved_is_read_by_its_revision(pc: Caller) -> None:
    made = _approve(pc, _propose(pc))
    assert (made["family"], made["revision"]) == ("experience", 1)
    assert made["artifact_id"].startswith("exp_")
    assert pc.memory("get_experience", artifact=made) == {
        "artifact": made,
        "content": PROPOSAL,
        "source_refs": [S1],
        "artifact_refs": [],
        "memory_citations": [],
    }


def a_new_revision_leaves_the_old_one_as_it_was(pc: Caller) -> None:
    first = _approve(pc, _propose(pc))
    was = pc.memory("get_experience", artifact=first)
    changed = PROPOSAL | {"lesson": "Weights, too."}
    second = _approve(pc, _propose(pc, proposal=changed, artifact_refs=[first], target=first))
    assert second == first | {"revision": 2}
    assert pc.memory("get_experience", artifact=first) == was
    now = pc.memory("get_experience", artifact=second)
    assert (now["content"], now["artifact_refs"]) == (changed, [first])


def a_proposal_needs_evidence_that_exists(pc: Caller) -> None:
    pc.capture("s1", "text")
    for fields in (
        {"source_refs": []},
        {"source_refs": [{"name": "content", "source_id": "none"}]},
        {"source_refs": [S1 | {"source_id": f"s{n}"} for n in range(33)]},
        {"artifact_refs": [{"family": "experience", "artifact_id": "exp_x", "revision": 1}]},
        {"proposal": PROPOSAL | {"lesson": ""}},
        {"proposal": PROPOSAL | {"lesson": " "}},
        {"proposal": PROPOSAL | {"action": "x" * 8001}},
        {"proposal": _tracked("never seen")},
        {"reason": "r" * 2001},
    ):
        asked = {"proposal": PROPOSAL, "source_refs": [S1], "artifact_refs": []} | fields
        pc.memory_refused(422, "invalid_request", "propose_experience", **asked)
    asked = {"scope_id": "nowhere", "proposal": PROPOSAL, "source_refs": [S1], "artifact_refs": []}
    pc.refused(404, "scope_not_found", "propose_experience", asked)


def a_prompt_alone_is_no_evidence(pc: Caller) -> None:
    path = f"/v1/scopes/{pc.scope}/prompts/memory.extract"
    assert pc.put(path, {"instructions": "Keep money."}) == 200
    prompt = {"family": "prompt", "artifact_id": "memory.extract", "revision": 1}
    asked = {"proposal": PROPOSAL, "source_refs": [], "artifact_refs": [prompt]}
    pc.memory_refused(422, "invalid_request", "propose_experience", **asked)
    assert _propose(pc, artifact_refs=[prompt])["artifact_refs"] == [prompt]


def a_target_is_the_head_and_among_the_evidence(pc: Caller) -> None:
    first = _approve(pc, _propose(pc))
    asked = {"proposal": PROPOSAL, "source_refs": [S1], "target": first}
    pc.memory_refused(422, "invalid_request", "propose_experience", **asked, artifact_refs=[])
    changed = PROPOSAL | {"lesson": "Weights, too."}
    second = _approve(pc, _propose(pc, proposal=changed, artifact_refs=[first], target=first))
    details = pc.memory_refused(
        409, "artifact_conflict", "propose_experience", **asked, artifact_refs=[first]
    )
    assert details == {"current": second}


def a_failure_is_tracked_if_an_outcome_shows_it(pc: Caller) -> None:
    seen = _outcome(pc, "o1", "  Amount ROUNDING ｃheck!")
    found = _propose(pc, proposal=_tracked("amount rounding check"), source_refs=[seen])
    made = _approve(pc, found)
    content = pc.memory("get_experience", artifact=made)["content"]
    assert content == _tracked("amount rounding check")
    asked = {"proposal": _tracked("another check"), "source_refs": [seen], "artifact_refs": []}
    pc.memory_refused(422, "invalid_request", "propose_experience", **asked)
    # what the target stands on does not count again
    kept = {"proposal": _tracked("amount rounding check"), "source_refs": [S1]}
    pc.memory_refused(
        422, "invalid_request", "propose_experience", **kept, artifact_refs=[made], target=made
    )


def an_outcome_whose_check_has_no_name_left_is_no_500(pc: Caller) -> None:
    seen = _outcome(pc, "o1", "!!!")
    asked = {"proposal": _tracked("a check"), "source_refs": [seen], "artifact_refs": []}
    pc.memory_refused(422, "invalid_request", "propose_experience", **asked)


def entries_are_cited_exactly_and_must_be_active(pc: Caller) -> None:
    entry = pc.entry("amounts are cents")
    cited = entry["citation"]
    found = _propose(pc, source_refs=[], memory_citations=[cited])
    assert found["memory_citations"] == [cited]
    made = _approve(pc, found)
    assert pc.memory("get_experience", artifact=made)["memory_citations"] == [cited]
    waiting = _propose(pc, memory_citations=[cited])
    pc.memory("retire_memory_entry", citation=cited)
    asked = {"proposal": PROPOSAL, "source_refs": [], "artifact_refs": []}
    pc.memory_refused(
        422, "memory_entry_inactive", "propose_experience", **asked, memory_citations=[cited]
    )
    named = {"candidate_id": waiting["candidate_id"], "expected_version": 1}
    pc.memory_refused(422, "memory_entry_inactive", "approve_artifact_candidate", **named)
    wrong = cited | {"entry_version_id": "mem_ver_x"}
    pc.memory_refused(
        422, "invalid_memory_citation", "propose_experience", **asked, memory_citations=[wrong]
    )
    assert pc.memory("get_experience", artifact=made)["memory_citations"] == [cited]


def white_space_around_the_fields_is_kept(pc: Caller) -> None:
    kept = PROPOSAL | {"action": " two\n", "lesson": "\u3000汉字"}
    made = _approve(pc, _propose(pc, proposal=kept))
    assert pc.memory("get_experience", artifact=made)["content"] == kept


def twice_the_same_proposal_is_two_candidates(pc: Caller) -> None:
    assert _propose(pc)["candidate_id"] != _propose(pc)["candidate_id"]


def what_is_no_experience_is_404(pc: Caller) -> None:
    made = _approve(pc, _propose(pc))
    pc.entry("a fact")
    for artifact in (
        made | {"revision": 2},
        made | {"artifact_id": "exp_x"},
        {"family": "memory", "artifact_id": "memory", "revision": 1},
    ):
        pc.memory_refused(404, "artifact_not_found", "get_experience", artifact=artifact)
    pc.refused(404, "scope_not_found", "get_experience", {"scope_id": "nowhere", "artifact": made})


def an_experience_is_an_artifact_too(pc: Caller) -> None:
    first = _approve(pc, _propose(pc))
    changed = PROPOSAL | {"lesson": "Weights, too."}
    _approve(pc, _propose(pc, proposal=changed, artifact_refs=[first], target=first))
    family = {"scope_id": pc.scope, "family": "experience"}
    named = family | {"artifact_id": first["artifact_id"]}
    head = pc.ok("get_artifact", **named)
    assert (head["revision"], head["content"], head["artifacts"]) == (2, changed, [first])
    assert head["sources"] == [{"source_type": "content", "source_id": "s1"}]
    assert head["content_digest"].startswith("sha256:")
    assert pc.call("get_artifact", **named, if_none_match='"revision:2"').status == 304
    assert pc.ok("get_artifact", **named, if_none_match='"revision:1"') == head
    assert pc.ok("get_artifact_revision", **named, revision=2) == head
    assert pc.ok("get_artifact_revision", **named, revision=1)["content"] == PROPOSAL
    revisions, cursor = [], None
    while True:
        asked = {"limit": 1} | ({} if cursor is None else {"cursor": cursor})
        page = pc.ok("list_artifact_revisions", asked, **named)
        revisions += [item["revision"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert revisions == [2, 1]
    [item] = pc.ok("list_artifacts", {}, **family)["items"]
    assert (item["artifact_id"], item["revision"]) == (first["artifact_id"], 2)
    assert item["content_digest"] == head["content_digest"]
    assert (item["title"], item["source_count"]) == (None, None)
    pc.refused(404, "artifact_not_found", "get_artifact", **named | {"artifact_id": "exp_x"})


def a_direct_write_is_refused_and_changes_nothing(pc: Caller) -> None:
    """1.2.0 writes past the review; nothing does here."""
    made = _approve(pc, _propose(pc))
    path = f"/v1/scopes/{pc.scope}/artifacts/experience/{made['artifact_id']}"
    assert pc.put(path, {"content": PROPOSAL}) == 405
    assert pc.memory("get_experience", artifact=made)["content"] == PROPOSAL
    pc.memory_refused(404, "artifact_not_found", "get_experience", artifact=made | {"revision": 2})


def a_model_proposes_or_finds_nothing(pc: Caller) -> None:
    pc.capture("s1", "TEACHES something.")
    asked = {"source_refs": [S1], "artifact_refs": []}
    made = pc.memory("generate_experience", **asked, reason="why")
    candidate = made["candidate"]
    assert (made["status"], candidate["status"], candidate["version"]) == ("pending", "pending", 1)
    assert (candidate["source_refs"], candidate["reason"]) == ([S1], "why")
    assert candidate["proposal"]["lesson"] == "Amounts are cents."
    assert candidate["proposal"]["failure"] is None
    pc.capture("s2", "TEACHES-NOTHING at all.")
    asked["source_refs"] = [S1 | {"source_id": "s2"}]
    assert pc.memory("generate_experience", **asked) == {"status": "no_op", "candidate": None}
    assert len(pc.memory("list_artifact_candidates")["candidates"]) == 1


def a_model_is_asked_about_good_evidence_only(pc: Caller) -> None:
    pc.capture("s1", "POISON-503 if it is asked.")
    for fields in ({"source_refs": []}, {"source_refs": [S1 | {"source_id": "none"}]}):
        asked = {"source_refs": [S1], "artifact_refs": []} | fields
        pc.memory_refused(422, "invalid_request", "generate_experience", **asked)
    asked = {"source_refs": [S1], "artifact_refs": []}
    pc.refused(404, "scope_not_found", "generate_experience", {"scope_id": "nowhere", **asked})
    pc.memory_refused(503, "inference_unavailable", "generate_experience", **asked)
