"""Proposals over HTTP: what a candidate needs, and which rule a refusal names."""

import pytest
from calls import ok, refused, remember
from proposals import (
    CUE,
    PROPOSAL,
    PROPOSE,
    approve,
    capture_outcome,
    experience,
    get,
    learn,
    of,
    pending,
    post,
    propose,
    proposing,
    source,
    tracked,
    update,
)


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
