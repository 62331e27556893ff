"""Work: outcomes of tasks, in the published client's own form."""

import json
from typing import Any

from caller import Caller

SCHEMA = "powercontext.task-outcome.v1"


def _outcome(**changes: Any) -> Any:
    evidence = [{"kind": "source", "source_ref": {"name": "content", "source_id": "log"}}]
    return {
        "schema": SCHEMA,
        "trust": "untrusted_observation",
        "objective": "Import the orders",
        "status": "failed",
        "summary": "One amount was off.",
        "handoff_receipt_ref": None,
        "observations": [{"text": "It ran", "basis": "declared", "evidence": []}],
        "checks": [
            {
                "name": "Amounts off by one cent",
                "status": "failed",
                "details": None,
                "basis": "verified",
                "evidence": evidence,
            }
        ],
        "produced_artifacts": [],
        "remaining_work": [],
    } | changes


def _record(pc: Caller, source_id: str, **changes: Any) -> Any:
    return pc.memory("record_task_outcome", source_id=source_id, outcome=_outcome(**changes))


def an_outcome_becomes_a_source_of_its_kind(pc: Caller) -> None:
    pc.capture("log", "12.30 gave 1229")
    recorded = _record(pc, "o1")
    assert recorded == {
        "kind": "task-outcome",
        "source": {"name": "content", "source_id": "o1"},
        "position": 2,
        "content_digest": recorded["content_digest"],
    }
    asked = {"scope_id": pc.scope, "source_type": "content", "source_id": "o1"}
    held = pc.ok("get_source", None, **asked)
    assert held["content_digest"] == recorded["content_digest"]
    stored = json.loads(held["content"])
    assert stored["schema"] == SCHEMA
    assert stored["checks"][0]["evidence"][0]["source_ref"] == {
        "source_type": "content",
        "source_id": "log",
    }
    assert held["content"] == json.dumps(stored, ensure_ascii=False, indent=2)


def the_same_outcome_again_is_where_it_was_and_another_a_conflict(pc: Caller) -> None:
    pc.capture("log", "12.30 gave 1229")
    assert _record(pc, "o1") == _record(pc, "o1")
    pc.memory_refused(
        409,
        "source_conflict",
        "record_task_outcome",
        source_id="o1",
        outcome=_outcome(status="blocked"),
    )


def an_outcome_needs_its_evidence_and_its_receipt(pc: Caller) -> None:
    receipt = {"name": "content", "source_id": "receipt"}
    for changes in ({}, {"checks": [], "handoff_receipt_ref": receipt}):
        pc.memory_refused(
            422,
            "invalid_request",
            "record_task_outcome",
            source_id="o1",
            outcome=_outcome(**changes),
        )
    pc.capture("receipt", "Given.")
    pc.memory_refused(
        422,
        "invalid_request",
        "record_task_outcome",
        source_id="o1",
        outcome=_outcome(checks=[], handoff_receipt_ref=receipt),
    )


def the_statistics_have_a_recurrence_block(pc: Caller) -> None:
    stats = pc.ok("get_stats", {"selection": {"mode": "exact", "scope_ids": [pc.scope]}})
    assert stats["by_scope"][0]["recurrence"] == {
        "selected": 0,
        "recurred": 0,
        "avoided": 0,
        "unknown": 0,
        "unlinked_handoff_citations": 0,
        "needing_review": 0,
        "top_revisions": [],
    }
