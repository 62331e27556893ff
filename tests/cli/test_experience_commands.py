"""`pc experience`, on a store of this machine and on a server."""

import json

import pytest
from model_stub import says
from proposed import PROPOSAL, learn, proposal


@pytest.fixture(autouse=True)
def _shop(shop):
    shop("An amount of 0.29 became 28 cents.", "Another one did.")


def test_a_lesson_is_proposed_reviewed_and_shown(pc, tmp_path):
    file = tmp_path / "lesson.json"
    file.write_text(proposal())
    told = pc.ok("experience", "propose", "shop", str(file), "--source", "s1", "--reason", "why")
    candidate = told.split()[0]
    assert told == f"{candidate} waits for review\n"
    assert pc.ok("experience", "list", "shop") == "no experiences\n"
    approved = pc.ok("review", "approve", "shop", candidate)
    made = approved.split()[-1]
    assert approved == f"{candidate} is approved as {made}\n"
    assert made.endswith("@1")

    shown = pc.ok("experience", "show", "shop", made)

    assert shown.startswith(
        f"{made}, active\n"
        "situation  An amount went through a float.\n"
        "action     Parsed the text as Decimal.\n"
        "outcome    The cents are right.\n"
        "lesson     Parse money as Decimal.\n"
        "  from content s1\n"
        "approved "
    )
    (row,) = pc.rows("experience", "show", "shop", made.removesuffix("@1"))
    assert (row["content"], row["state"]) == (PROPOSAL, "active")
    assert pc.ok("experience", "list", "shop") == (
        f"{made}  An amount went through a float.\n"
        "    Parse money as Decimal.\n"
        "    active, from s1\n"
    )
    assert [row["artifact"]["revision"] for row in pc.rows("experience", "list", "shop")] == [1]


def test_a_new_revision_cites_what_it_replaces(pc):
    first = learn(pc)
    (entry,) = pc.rows("memory", "remember", "shop", "Amounts are cents.")
    entry_id = entry["entry"]["citation"]["entry_id"]

    (row,) = pc.rows(
        *("experience", "propose", "shop", "-", "--source", "s2", "--target", first),
        *("--entry", entry_id, "--artifact", "memory/memory@1"),
        stdin=proposal(lesson="Weights too."),
    )

    ref = {"family": "experience", "artifact_id": first, "revision": 1}
    memory = {"family": "memory", "artifact_id": "memory", "revision": 1}
    assert (row["target"], row["artifact_refs"]) == (ref, [ref, memory])
    assert row["memory_citations"] == [entry["entry"]["citation"]]
    pc.ok("review", "approve", "shop", row["candidate_id"])
    now = pc.ok("experience", "show", "shop", first)
    assert now.startswith(f"{first}@2, active\n")
    assert f"  from {first}@1\n  from memory/memory@1\n  from entry {entry_id} in" in now
    old = pc.ok("experience", "show", "shop", f"{first}@1")
    assert old.startswith(f"{first}@1, active, now at 2\n")


def test_what_is_tracked_is_shown(pc):
    outcome = {
        "objective": "import",
        "status": "failed",
        "summary": "off by one",
        "observations": [{"text": "it ran"}],
        "checks": [
            {
                "name": "amount check",
                "status": "failed",
                "basis": "verified",
                "evidence": [
                    {"kind": "source", "source_ref": {"name": "content", "source_id": "s1"}}
                ],
            }
        ],
    }
    pc.ok(
        *("source", "add", "shop", "o1", json.dumps(outcome)),
        *("--metadata", '{"kind":"task-outcome"}'),
    )
    failure = {
        "signature": {"recall_cue": "amount check", "symptom": "off by a cent"},
        "repair_surface": "working_state",
        "verification": {"condition": "an import ran", "check_subject": "test_amounts"},
    }
    made = learn(pc, "--source", "o1", failure=failure)
    assert (
        "lesson     Parse money as Decimal.\n"
        "cue        amount check\n"
        "symptom    off by a cent\n"
        "repair     working_state\n"
        "avoided if an import ran; check test_amounts passes\n"
    ) in pc.ok("experience", "show", "shop", made)


def test_a_lesson_is_found_again(pc):
    assert pc.ok("experience", "search", "shop", "money") == "nothing found\n"
    made = learn(pc)
    told = pc.ok("experience", "search", "shop", "how to parse money?")
    assert f" {made}@1  Parse money as Decimal.\n    when: An amount went" in told
    (row,) = pc.rows("experience", "search", "shop", "money", "--mode", "fts", "--limit", "1")
    assert (row["artifact"]["artifact_id"], row["matched_terms"]) == (made, ["money"])


def test_a_model_proposes_and_incubates(pc, model_stub):
    model_stub.answer(says({"proposal": PROPOSAL}), says({"proposal": None}))
    told = pc.ok("experience", "generate", "shop", "--source", "s1", "--reason", "why")
    assert told.endswith(" waits for review\n")
    assert pc.ok("experience", "generate", "shop", "--source", "s2") == "nothing to learn in it\n"
    outcome = {
        "objective": "import",
        "status": "succeeded",
        "summary": "done",
        "observations": [{"text": "it ran"}],
    }
    for name in ("o1", "o2", "o3"):
        pc.ok(
            *("source", "add", "shop", name, json.dumps(outcome)),
            *("--metadata", '{"kind":"task-outcome"}'),
        )
    model_stub.always(says({"candidates": []}))
    assert pc.ok("experience", "incubate", "shop") == (
        "processed (0, 2] of 5: 0 sources, 0 candidates, 3 positions left\n"
    )
    found = [{"proposal": PROPOSAL | {"lesson": "Imports run."}, "evidence_ids": ["e1"]}]
    model_stub.answer(says({"candidates": found}))
    assert pc.ok("experience", "incubate", "shop", "--drain") == (
        "processed (2, 5] of 5: 3 sources, 1 candidates, 0 positions left\n"
    )
    assert pc.ok("experience", "incubate", "shop") == "idle: cursor 5 of 5\n"
    (row,) = pc.rows("experience", "incubate", "shop", "--drain")
    assert (row["status"], row["windows"], row["candidate_ids"]) == ("idle", 0, [])
    origins = [row["origin"] for row in pc.rows("review", "list", "shop")]
    assert origins == ["generate", "incubation"]


def test_a_lesson_is_withdrawn_and_comes_back(pc):
    made = learn(pc)
    told = pc.ok("experience", "lifecycle", "shop", made, "deprecated", "--reason", "old code")
    assert told == f"{made}@1 is deprecated\n"
    assert pc.ok("experience", "list", "shop") == "no experiences\n"
    assert "deprecated, from s1" in pc.ok("experience", "list", "shop", "--include-inactive")
    assert pc.ok("experience", "show", "shop", made).endswith(" UTC: old code\n")
    (row,) = pc.rows("experience", "lifecycle", "shop", made, "active", "--reason", "back")
    assert row["state"] == "active"
    pc.ok("experience", "lifecycle", "shop", f"{made}@1", "retired", "--reason", "gone")
    told = pc.refused(1, "experience", "lifecycle", "shop", made, "active", "--reason", "no")
    assert "is retired, which is final" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--source", "s1"), "pc: proposal: is not JSON"),
        ((), "pc: evidence: is empty"),
        (("--source", "none"), "pc: source_refs"),
        (("--artifact", "memory"), "pc: --artifact: is 'memory', FAMILY/ID@REVISION is expected"),
        (("--target", "memory/memory@1"), "pc: the experience: is of the family 'memory'"),
        (("--target", "a@b"), "pc: the experience: is 'a@b', ID or ID@REVISION is expected"),
    ],
)
def test_a_wrong_proposal_is_refused_in_one_line(pc, arguments, told):
    text = "{" if "JSON" in told else proposal()
    line = pc.refused(2, "experience", "propose", "shop", "-", *arguments, stdin=text)
    assert line.startswith(told)
    assert pc.ok("review", "list", "shop") == "no pending candidates\n"


def test_other_refusals(pc):
    lines = pc.refused(2, "experience", "propose", "shop", "-", stdin="[]")
    assert lines.startswith("pc: proposal: must be an object")
    assert pc.refused(1, "experience", "show", "shop", "exp_none")
    assert pc.refused(1, "experience", "list", "nowhere")
    made = learn(pc)
    for arguments in (("gone", "--reason", "x"), ("retired",)):
        assert pc("experience", "lifecycle", "shop", made, *arguments).exit_code == 2
