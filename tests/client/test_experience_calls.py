"""The client's calls about experiences and candidates, against a real server."""

import json

import pytest
from model_stub import says
from served import served

from pc_store import errors
from pc_store.api import refusals
from pc_store.client import ArtifactRef, Client, SourceRef

PROPOSAL = {
    "situation": "An amount went through a float.",
    "action": "Parsed the text as Decimal.",
    "outcome": "The cents are right.",
    "lesson": "Parse money as Decimal.",
}
S1 = SourceRef(name="content", source_id="s1")


@pytest.fixture
def scope(client, request):
    name = request.node.name
    client.create_scope("T", "S", idempotency_key=name, scope_id=name)
    client.capture_content_source(name, "s1", "An amount of 0.29 became 28 cents.")
    return name


def propose(client, scope, lesson=None, **fields):
    said = PROPOSAL | ({"lesson": lesson} if lesson else {})
    return client.propose_experience(scope, said, source_refs=[S1], **fields)


def approve(client, scope, candidate):
    return client.approve_artifact_candidate(
        scope, candidate.candidate_id, expected_version=candidate.version
    ).result_artifact


def test_a_lesson_from_proposal_to_retirement(client, scope):
    told = client.remember_memory(scope, "Amounts are cents.", kind="fact").entry.citation
    found = propose(
        client, scope, memory_citations=[told], reason="seen twice", include=["origin", "warnings"]
    )
    assert (found.origin, found.warnings, found.memory_citations) == ("propose", [], [told])
    assert client.get_artifact_candidate(scope, found.candidate_id).proposal == found.proposal
    assert client.list_artifact_candidates(scope).candidates[0].candidate_id == found.candidate_id
    revised = client.revise_artifact_candidate(
        scope,
        found.candidate_id,
        PROPOSAL | {"lesson": "Parse amounts as Decimal."},
        expected_version=1,
        source_refs=[S1],
    )
    assert (revised.version, revised.memory_citations, revised.reason) == (2, [told], None)
    assert [
        change.field
        for change in client.compare_artifact_candidate(scope, found.candidate_id).changes
    ] == list(PROPOSAL)
    first = approve(client, scope, revised)
    history = client.list_artifact_candidate_history(scope, found.candidate_id)
    assert [one.version for one in history.versions] == [1, 2]
    assert history.decision.result_artifact == first

    read = client.get_experience(scope, first, include=["state", "candidate_id"])
    assert (read.state, read.candidate_id) == ("active", found.candidate_id)
    assert read.content.lesson == "Parse amounts as Decimal."
    (item,) = client.list_experiences(scope).items
    assert (item.artifact, item.content) == (first, read.content)
    hits = client.search_experiences(scope, "float", limit=1, include=["matched_terms"]).hits
    assert [(hit.artifact, hit.matched_terms) for hit in hits] == [(first, ["float"])]
    gone = client.set_experience_lifecycle(scope, first, "retired", reason="old")
    assert (gone.artifact, gone.state) == (first, "retired")
    assert client.search_experiences(scope, "decimal").hits == []
    assert client.list_experiences(scope).items == []
    assert client.list_experiences(scope, include_inactive=True, limit=1).items[0].state == (
        "retired"
    )
    assert client.get_artifact(scope, "experience", first.artifact_id).memory_citations == [told]


def test_a_model_writes_and_incubates(client, scope, model_stub):
    model_stub.answer(says({"proposal": PROPOSAL}), says({"proposal": None}))
    made = client.generate_experience(scope, source_refs=[S1], reason="why")
    assert (made.status, made.candidate.reason) == ("pending", "why")
    nothing = client.generate_experience(scope, source_refs=[S1])
    assert (nothing.status, nothing.candidate) == ("no_op", None)
    done = client.incubate_experience(scope)
    assert (done.status, done.current_cursor, done.candidate_ids) == ("processed", 1, [])
    assert client.incubate_experience(scope, budget_s=1).status == "idle"


def test_who_comes_second_gets_the_error_that_says_why(client, scope):
    first = approve(client, scope, propose(client, scope))
    one, two = (
        propose(client, scope, lesson, artifact_refs=[first], target=first)
        for lesson in ("One.", "Two.")
    )
    second = approve(client, scope, one)
    with pytest.raises(errors.ArtifactConflict) as moved:
        approve(client, scope, two)
    assert ArtifactRef.model_validate(moved.value.details["current"]) == second
    with pytest.raises(errors.CandidateTerminal) as final:
        client.reject_artifact_candidate(scope, one.candidate_id, expected_version=1, reason="late")
    assert final.value.details == {"status": "approved"}
    with pytest.raises(errors.CandidateConflict):
        client.reject_artifact_candidate(scope, two.candidate_id, expected_version=9, reason="late")
    with pytest.raises(errors.CandidateNotFound):
        client.get_artifact_candidate(scope, "cand_none")
    client.set_experience_lifecycle(scope, second, "retired", reason="old")
    with pytest.raises(errors.ArtifactInactive):
        client.set_experience_lifecycle(scope, second, "active", reason="no")


def test_a_retired_entry_is_a_conflict_when_revised_and_invalid_as_evidence(client, scope):
    entry = client.remember_memory(scope, "Amounts are cents.", kind="fact").entry
    retired = client.retire_memory_entry(scope, entry.citation).entry
    with pytest.raises(errors.EntryInactive):
        client.revise_memory_entry(scope, retired.citation, "New.", kind="fact")
    with pytest.raises(errors.CitedEntryInactive) as invalid:
        propose(client, scope, memory_citations=[entry.citation])
    assert invalid.value.field
    with pytest.raises(errors.InvalidInput) as blank:
        propose(client, scope, " ")
    assert (blank.value.field, blank.value.reason) == ("proposal.lesson", "is blank")


def test_a_key_makes_a_proposal_once(client, scope):
    first = propose(client, scope, idempotency_key="k")
    assert propose(client, scope, idempotency_key="k") == first
    assert len(client.list_artifact_candidates(scope).candidates) == 1
    assert len(client.list_artifact_candidates(scope, status="approved").candidates) == 0


def test_pages_of_candidates_and_experiences(client, scope):
    made = [propose(client, scope, f"Lesson {number}.") for number in range(3)]
    first = client.list_artifact_candidates(scope, limit=2)
    second = client.list_artifact_candidates(scope, limit=2, cursor=first.next_cursor)
    assert [*first.candidates, *second.candidates] == made
    refs = [approve(client, scope, one) for one in made]
    page = client.list_experiences(scope, limit=2)
    last = client.list_experiences(scope, limit=2, cursor=page.next_cursor)
    assert [item.artifact for item in (*page.items, *last.items)] == refs


def test_a_contributor_may_not_decide(tmp_path):
    token = {"name": "agent", "token": "agent-token", "scopes": ["*"]}
    tokens = json.dumps([token | {"verbs": ["read", "contribute"]}])
    with (
        served(home=tmp_path, api_tokens=tokens) as server,
        Client(server.url, token="agent-token") as client,
    ):
        client.create_scope("T", "S", idempotency_key="s", scope_id="s")
        client.capture_content_source("s", "s1", "An amount.")
        candidate = propose(client, "s", include=["author"])
        assert (candidate.author, candidate.permissions.can_approve) == ("agent", False)
        with pytest.raises(refusals.Forbidden):
            approve(client, "s", candidate)
