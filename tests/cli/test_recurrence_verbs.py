"""`pc outcome`, `pc receipt` and `pc recurrence`, on a store of this machine and on a server."""

import json

import pytest
from model_stub import says, status

from pc_store.cli import console
from pc_store.client import SourceRef

CUE = "Amounts off by one cent"
EVIDENCE = [{"kind": "source", "source_ref": {"name": "content", "source_id": "s1"}}]
PROPOSAL = {
    "situation": "CSV amounts are imported.",
    "action": "The text went through float.",
    "outcome": "One amount was off.",
    "lesson": "Use Decimal.",
    "failure": {
        "signature": {"recall_cue": CUE, "symptom": None},
        "repair_surface": "experience_content",
        "verification": {"condition": "An amount was imported", "check_subject": "round trip"},
    },
}


def outcome(**changes):
    value = {
        "objective": "Import",
        "status": "failed",
        "summary": "Off by one.",
        "observations": [{"text": "It was tried."}],
        "checks": [{"name": CUE, "status": "failed", "basis": "verified", "evidence": EVIDENCE}],
    }
    return json.dumps(value | changes)


@pytest.fixture
def experience(pc, shop, tmp_path):
    """The id of an approved experience in `shop`, whose failure is tracked."""

    shop("The log of the run.")
    pc.ok("outcome", "record", "shop", "founding", "-", stdin=outcome())
    token = console.chosen_server.set(pc.before[1] if pc.before else None)
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in pc.env.items():
                patch.setenv(name, value)
            with console.connected() as client:
                made = client.propose_experience(
                    "shop",
                    PROPOSAL,
                    source_refs=[SourceRef(name="content", source_id="founding")],
                )
                done = client.approve_artifact_candidate(
                    "shop", made.candidate_id, expected_version=1
                )
    finally:
        console.chosen_server.reset(token)
    return done.result_artifact.artifact_id


def test_from_outcomes_to_a_review(pc, experience, tmp_path, model_stub):
    said = pc.ok("receipt", "record", "shop", "given", f"{experience}@1", "--note", "to the agent")
    assert said == "receipt given at position 3\n"
    path = tmp_path / "outcome.json"
    path.write_text(outcome(), encoding="utf-8")
    for number in range(3):
        said = pc.ok("outcome", "record", "shop", f"o{number}", str(path))
        assert said == f"outcome o{number} at position {number + 4}\n"
    told = pc.ok("recurrence", "run")
    assert told.startswith(
        "shop: 4 outcomes judged (0 malformed), 3 recurred, 0 avoided, 1 unmatched, 0 ambiguous, "
        f"0 pending\n  review of {experience}@1 opened as cand_"
    )
    draft = {
        "reason": "Decimal was used, and it failed.",
        "evidence_ids": ["source:content/o1"],
        "proposal": PROPOSAL | {"lesson": "Round once, at the end."},
    }
    model_stub.answer(status(500), says(draft))
    (row,) = pc.rows("review", "list", "shop")
    candidate = row["candidate_id"]
    assert [one["code"] for one in row["warnings"]] == ["unchanged"]
    told = pc.ok("recurrence", "review")
    assert told.startswith(f"shop: draft of {candidate} failed: ")
    why = told.partition("failed: ")[2]
    assert f"  its draft failed, attempt 1: {why}" in pc.ok(
        "recurrence", "explain", "shop", experience
    )
    assert pc.ok("recurrence", "review") == f"shop: draft of {candidate} drafted as version 2\n"
    assert pc.ok("recurrence", "review") == "no review is due\n"
    (row,) = pc.rows("review", "list", "shop")
    assert [one["code"] for one in row["warnings"]] == ["model_draft"]
    assert "its words are a model draft, openai:stub-1" in pc.ok(
        "review", "show", "shop", candidate
    )
    (again,) = pc.rows("recurrence", "run", "shop")
    assert (again["outcomes"], again["cursor"], again["reviews"]) == (0, 6, [])

    told = pc.ok("recurrence", "explain", "shop", experience)
    assert f"{experience}@1 (the head, active)" in told
    assert "streak 3 of 3, recurred 3, avoided 0" in told
    assert "o2  recurred, streak 3" in told
    assert "the outcome is among what the revision was made from" in told
    (row,) = pc.rows("recurrence", "explain", "shop", experience, "--limit", "2")
    assert [item["source"]["source_id"] for item in row["items"]] == ["founding", "o0"]

    event = row["items"][1]["event_id"]
    said = pc.ok("recurrence", "void", "shop", event, "--reason", "a rehearsal")
    assert said == "recurred at position 4 is void; the streak is 2\n"
    assert "voided: a rehearsal" in pc.ok("recurrence", "explain", "shop", experience)


def test_what_is_wrong_is_said_in_a_line(pc, shop, tmp_path):
    shop("The log of the run.")
    refused = pc.refused
    assert "outcome.status" in refused(
        2, "outcome", "record", "shop", "o", "-", stdin=outcome(status="done")
    )
    assert "holds no JSON object" in refused(2, "outcome", "record", "shop", "o", "-", stdin="[]")
    assert "is not JSON" in refused(2, "outcome", "record", "shop", "o", "-", stdin="{")
    missing = str(tmp_path / "missing.json")
    assert "cannot be read" in refused(2, "outcome", "record", "shop", "o", missing)
    assert "such as exp_…@1" in refused(2, "receipt", "record", "shop", "r", "exp_1")
    assert "experiences[0]" in refused(2, "receipt", "record", "shop", "r", "exp_1@1")
    assert "there is no experience 'x'" in refused(1, "recurrence", "explain", "shop", "x")
    assert "no verdict 'x'" in refused(1, "recurrence", "void", "shop", "x", "--reason", "because")
    assert "there is no scope" in refused(1, "recurrence", "run", "nowhere")
