"""Candidates: listed, revised, approved, rejected; and what stops each."""

from typing import Any

from caller import Caller
from experience_scenarios import PROPOSAL, S1, _approve, _propose


def _decide(pc: Caller, verb: str, candidate: Any, **fields: Any) -> Any:
    return pc.memory(f"{verb}_artifact_candidate", **_named(candidate) | fields)


def _refused(pc: Caller, code: str, verb: str, candidate: Any, **fields: Any) -> Any:
    operation = f"{verb}_artifact_candidate"
    return pc.memory_refused(409, code, operation, **_named(candidate) | fields)


def _named(candidate: Any) -> dict[str, Any]:
    return {
        "candidate_id": candidate["candidate_id"],
        "expected_version": candidate["version"],
    }


def _content(**fields: Any) -> dict[str, Any]:
    return {"proposal": PROPOSAL, "source_refs": [S1], "artifact_refs": []} | fields


def _listed(pc: Caller, **fields: Any) -> list[str]:
    page = pc.memory("list_artifact_candidates", **fields)
    return [one["candidate_id"] for one in page["candidates"]]


def pending_candidates_are_listed_until_they_are_decided(pc: Caller) -> None:
    assert pc.memory("list_artifact_candidates") == {"candidates": [], "next_cursor": None}
    first, second = _propose(pc), _propose(pc)
    page = pc.memory("list_artifact_candidates")
    assert sorted(page["candidates"], key=lambda one: one["candidate_id"]) == sorted(
        [first, second], key=lambda one: one["candidate_id"]
    )
    assert pc.memory("get_artifact_candidate", candidate_id=first["candidate_id"]) == first
    _approve(pc, first)
    _decide(pc, "reject", second, reason="one run is not enough")
    assert _listed(pc) == []
    assert _listed(pc, status="approved", family="experience") == [first["candidate_id"]]
    assert _listed(pc, status="rejected") == [second["candidate_id"]]


def pages_of_candidates_are_followed_by_their_cursor(pc: Caller) -> None:
    made = {_propose(pc)["candidate_id"] for _ in range(5)}
    seen: list[str] = []
    cursor = None
    while True:
        more = {} if cursor is None else {"cursor": cursor}
        page = pc.memory("list_artifact_candidates", limit=2, **more)
        seen += [one["candidate_id"] for one in page["candidates"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert len(seen) == 5
    assert set(seen) == made
    for limit in (0, 101):
        pc.memory_refused(422, "invalid_request", "list_artifact_candidates", limit=limit)


def a_revision_replaces_all_and_raises_the_version(pc: Caller) -> None:
    found = _propose(pc, reason="first")
    pc.capture("s2", "Another amount.")
    changed = _content(
        proposal=PROPOSAL | {"lesson": "Other."},
        source_refs=[S1 | {"source_id": "s2"}],
        reason="clearer",
    )
    second = _decide(pc, "revise", found, **changed)
    assert second == found | {"version": 2} | changed
    third = _decide(pc, "revise", second, **_content())
    assert third == found | {"version": 3, "reason": None}


def citations_are_kept_unless_a_revision_gives_others(pc: Caller) -> None:
    cited = pc.entry("amounts are cents")["citation"]
    found = _propose(pc, memory_citations=[cited])
    kept = _decide(pc, "revise", found, **_content())
    assert kept["memory_citations"] == [cited]
    cleared = _decide(pc, "revise", kept, **_content(memory_citations=[]))
    assert cleared["memory_citations"] == []


def only_the_version_that_was_seen_is_decided_on(pc: Caller) -> None:
    found = _propose(pc)
    second = _decide(pc, "revise", found, **_content())
    stale = {"expected_version": 1, "current_version": 2}
    assert _refused(pc, "candidate_conflict", "approve", found) == stale
    assert _refused(pc, "candidate_conflict", "reject", found, reason="no") == stale
    assert _refused(pc, "candidate_conflict", "revise", found, **_content()) == stale
    assert _decide(pc, "approve", second)["status"] == "approved"


def an_approval_is_repeated_and_final(pc: Caller) -> None:
    found = _propose(pc)
    approved = _decide(pc, "approve", found)
    assert approved == found | {
        "status": "approved",
        "result_artifact": approved["result_artifact"],
    }
    assert _decide(pc, "approve", found) == approved
    final = {"status": "approved"}
    later = found | {"version": 2}
    assert _refused(pc, "candidate_terminal", "approve", later) == final
    assert _refused(pc, "candidate_terminal", "reject", found, reason="no") == final
    assert _refused(pc, "candidate_terminal", "revise", found, **_content()) == final


def a_rejection_needs_a_reason_and_is_final(pc: Caller) -> None:
    found = _propose(pc)
    for reason in ("", "  ", "r" * 2001):
        pc.memory_refused(
            422, "invalid_request", "reject_artifact_candidate", **_named(found), reason=reason
        )
    rejected = _decide(pc, "reject", found, reason="no")
    assert rejected == found | {"status": "rejected", "decision_reason": "no"}
    final = {"status": "rejected"}
    assert _refused(pc, "candidate_terminal", "reject", found, reason="no") == final
    assert _refused(pc, "candidate_terminal", "approve", found) == final


def the_second_of_two_for_one_target_can_only_be_rejected(pc: Caller) -> None:
    first = _approve(pc, _propose(pc))

    def update(lesson: str) -> Any:
        changed = PROPOSAL | {"lesson": lesson}
        return _propose(pc, proposal=changed, artifact_refs=[first], target=first)

    one, two = update("One."), update("Two.")
    second = _approve(pc, one)
    assert second == first | {"revision": 2}
    lost = {"current": second}
    assert _refused(pc, "artifact_conflict", "approve", two) == lost
    content = _content(artifact_refs=[first], target=first)
    assert _refused(pc, "artifact_conflict", "revise", two, **content) == lost
    assert pc.memory("get_artifact_candidate", candidate_id=two["candidate_id"]) == two
    assert _decide(pc, "reject", two, reason="overtaken")["status"] == "rejected"


def a_target_never_changes(pc: Caller) -> None:
    first = _approve(pc, _propose(pc))
    changed = PROPOSAL | {"lesson": "Other."}
    found = _propose(pc, proposal=changed, artifact_refs=[first], target=first)
    for content in (
        _content(artifact_refs=[first]),
        _content(artifact_refs=[first], target=first | {"revision": 2}),
    ):
        pc.memory_refused(
            422, "invalid_request", "revise_artifact_candidate", **_named(found), **content
        )
    created = _propose(pc)
    pc.memory_refused(
        *(422, "invalid_request", "revise_artifact_candidate"),
        **_named(created),
        **_content(artifact_refs=[first], target=first),
    )


def unknown_candidates_and_scopes_are_404(pc: Caller) -> None:
    named = {"candidate_id": "cand_x", "expected_version": 1}
    for operation, fields in (
        ("get_artifact_candidate", {"candidate_id": "cand_x"}),
        ("approve_artifact_candidate", named),
        ("reject_artifact_candidate", named | {"reason": "no"}),
        ("revise_artifact_candidate", named | _content()),
    ):
        pc.memory_refused(404, "candidate_not_found", operation, **fields)
        pc.refused(404, "scope_not_found", operation, {"scope_id": "nowhere", **fields})
    pc.refused(404, "scope_not_found", "list_artifact_candidates", {"scope_id": "nowhere"})


def capabilities_name_the_family(pc: Caller) -> None:
    assert "experience" in pc.ok("get_capabilities")["artifact_families"]
