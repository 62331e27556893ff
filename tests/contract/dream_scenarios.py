"""Dreams: submitted, polled, replayed and listed as the published client does."""

import time
from typing import Any

from caller import Caller

WITHIN_S = 60
KEYS = {
    *("scope_id", "run_id", "operation", "status", "outcome", "target", "candidate", "reason"),
    *("error", "accepted_at", "started_at", "completed_at", "attempt_count", "input_manifest"),
    *("usage", "budget", "prompt_version", "model_config_id"),
}


def _cite(pc: Caller, text: str) -> Any:
    return pc.entry(text)["citation"]


def _submit(pc: Caller, *citations: Any, key: str = "k1", **fields: Any) -> Any:
    asked = {
        "operation": "refine_experience",
        "memory_citations": list(citations),
        "idempotency_key": key,
    }
    return pc.call("create_dream_run", asked | fields, scope_id=pc.scope)


def _ended(pc: Caller, run: Any) -> Any:
    until = time.monotonic() + WITHIN_S
    while True:
        now = pc.ok("get_dream_run", scope_id=pc.scope, run_id=run["run_id"])
        if now["completed_at"] is not None:
            return now
        assert time.monotonic() < until, now
        time.sleep(0.1)


def _source(pc: Caller, source_id: str, content: str) -> Any:
    pc.capture(source_id, content)
    return {"source_type": "content", "source_id": source_id}


def a_dream_ends_as_a_candidate_that_waits_for_review(pc: Caller) -> None:
    cited = _cite(pc, "Amounts are cents.")
    log = _source(pc, "log", "The import ran with cents, and no amount was off.")
    answer = _submit(pc, cited, sources=[log])
    run = answer.body
    assert run.keys() == KEYS
    assert (run["status"] in ("queued", "running"), run["outcome"], run["candidate"]) == (
        True,
        None,
        None,
    )
    done = _ended(pc, run)
    assert done.keys() == KEYS
    assert (done["status"], done["outcome"], done["error"]) == ("succeeded", "proposed", None)
    assert done["candidate"]["version"] == 1
    assert done["attempt_count"] == 1
    assert done["usage"]["model_calls"] == 1
    manifest = done["input_manifest"]
    assert (manifest["memory_citations"], manifest["sources"]) == ([cited], [log])
    assert {node["kind"] for node in manifest["nodes"]} == {"memory", "source"}
    (group,) = manifest["root_groups"]
    assert group == {
        "group_id": group["group_id"],
        "sources": [log],
        "independence": "unknown",
    }
    candidate_id = done["candidate"]["candidate_id"]
    assert candidate_id == f"cand_dream_{run['run_id']}"
    made = pc.memory("get_artifact_candidate", candidate_id=candidate_id)
    assert (made["status"], made["memory_citations"], made["target"]) == ("pending", [cited], None)
    assert made["source_refs"] == [{"name": "content", "source_id": "log"}]
    assert made["reason"] == done["reason"]


def an_experience_is_replaced_when_it_is_the_target(pc: Caller) -> None:
    pc.capture("s1", "An amount of 0.29 became 28 cents.")
    said = dict.fromkeys(("situation", "action", "outcome", "lesson"), "Amounts are cents.")
    first = pc.memory(
        "propose_experience",
        proposal=said | {"failure": None},
        source_refs=[{"name": "content", "source_id": "s1"}],
        artifact_refs=[],
    )
    learnt = pc.memory(
        "approve_artifact_candidate", candidate_id=first["candidate_id"], expected_version=1
    )["result_artifact"]
    run = _submit(pc, artifacts=[learnt], target=learnt).body
    assert run["target"] == learnt
    done = _ended(pc, run)
    assert done["outcome"] == "proposed"
    made = pc.memory("get_artifact_candidate", candidate_id=done["candidate"]["candidate_id"])
    assert (made["target"], made["artifact_refs"]) == (learnt, [learnt])


def without_anything_worth_proposing_the_reason_is_told(pc: Caller) -> None:
    for number, (mark, outcome) in enumerate(
        (("DREAM-NOTHING", "no_change"), ("DREAM-BARE", "needs_evidence"))
    ):
        done = _ended(pc, _submit(pc, _cite(pc, f"{mark} is said."), key=f"k{number}").body)
        assert (done["status"], done["outcome"], done["candidate"], done["reason"]) == (
            "succeeded",
            outcome,
            None,
            "Nobody tried.",
        )


def memory_without_a_source_needs_evidence(pc: Caller) -> None:
    done = _ended(pc, _submit(pc, _cite(pc, "Amounts are cents.")).body)
    assert (done["status"], done["outcome"], done["candidate"]) == (
        "succeeded",
        "needs_evidence",
        None,
    )
    assert done["reason"]


def the_same_key_is_the_same_run_for_ever(pc: Caller) -> None:
    one, two = _cite(pc, "DREAM-NOTHING is said."), _cite(pc, "Names are UTF-8.")
    run = _submit(pc, one, two).body
    _ended(pc, run)
    done = _ended(pc, run)
    assert _submit(pc, two, one, one, target=None, artifacts=[]).body == done
    answer = _submit(pc, one)
    assert (answer.status, answer.code) == (409, "idempotency_conflict")


def a_run_that_failed_is_replayed_as_failed(pc: Caller) -> None:
    cited = _cite(pc, "DREAM-BROKEN is said.")
    done = _ended(pc, _submit(pc, cited).body)
    assert (done["status"], done["outcome"], done["error"]) == (
        "failed",
        None,
        "generation_failed",
    )
    assert _submit(pc, cited).body == done


def what_cannot_be_refined_is_refused(pc: Caller) -> None:
    cited = _cite(pc, "Amounts are cents.")
    gone = {"source_type": "content", "source_id": "none"}
    answer = _submit(pc, cited, sources=[gone])
    assert (answer.status, answer.code) == (404, "reference_not_found")
    wrong = cited | {"entry_version_id": "mem_ver_none"}
    answer = _submit(pc, wrong)
    assert (answer.status, answer.code) == (422, "invalid_memory_citation")
    answer = _submit(pc)
    assert (answer.status, answer.code) == (422, "invalid_request")
    pc.memory("retire_memory_entry", citation=cited, reason="old")
    answer = _submit(pc, cited)
    assert (answer.status, answer.code) == (422, "memory_entry_inactive")
    pc.refused(404, "dream_not_found", "get_dream_run", scope_id=pc.scope, run_id="dr_none")


def runs_are_listed_newest_first_in_pages(pc: Caller) -> None:
    cited = _cite(pc, "DREAM-NOTHING is said.")
    runs = [_ended(pc, _submit(pc, cited, key=f"k{n}").body) for n in range(3)]
    page = pc.ok("list_dream_runs", {"limit": 2}, scope_id=pc.scope)
    assert page["runs"] == runs[:0:-1]
    rest = pc.ok("list_dream_runs", {"cursor": page["next_cursor"]}, scope_id=pc.scope)
    assert rest == {"runs": runs[:1], "next_cursor": None}
    none = pc.ok("list_dream_runs", {"status": "failed"}, scope_id=pc.scope)
    assert none == {"runs": [], "next_cursor": None}
    pc.refused(422, "invalid_cursor", "list_dream_runs", {"cursor": "x"}, scope_id=pc.scope)
