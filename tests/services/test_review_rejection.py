"""Rejection is final and gives a reason, and every decision is on the version that was seen."""

from dataclasses import replace

import pytest
from desk import NOW, SCOPE, entry, experience, refused, source
from reviewing import KEY, LATER, documents

from pc_store.errors import (
    CandidateConflict,
    CandidateNotFound,
    CandidateTerminal,
    InvalidInput,
    ScopeNotFound,
    SecretDetected,
)
from pc_store.services import administer, remember, review


def test_rejection_is_final_gives_a_reason_and_looks_at_no_evidence(desk):
    cited = entry(desk.db).citation
    made = desk.propose(citations=[cited])
    remember.retire(desk.db, SCOPE, cited, now_us=NOW)
    rejected = desk.at(LATER).reject(made, reason="  gone ", author="rev")
    assert rejected == replace(
        made, status="rejected", decision_reason="gone", decided_by="rev", updated_at=LATER
    )
    for act in (desk.reject, desk.approve, desk.revise):
        error = refused(desk.db, CandidateTerminal, act, made)
        assert error.details == {"status": "rejected"}
    error = refused(desk.db, CandidateTerminal, desk.approve, made, 9)
    assert error.details == {"status": "rejected"}, "a decision outweighs a stale version"
    assert documents(desk.db) == []


@pytest.mark.parametrize("reason", ["", "  ", "x" * 2_001, None])
def test_a_rejection_needs_a_reason(desk, reason):
    made = desk.propose(sources=[source("s1")])
    error = refused(desk.db, InvalidInput, desk.reject, made, reason=reason)
    assert error.field == "reason"


def test_a_credential_in_a_decision_is_refused(desk):
    made = desk.propose(sources=[source("s1")])
    refused(desk.db, SecretDetected, desk.reject, made, reason=KEY)
    refused(desk.db, SecretDetected, desk.revise, made, reason=KEY)
    changed = experience(action=KEY)
    refused(desk.db, SecretDetected, desk.revise, made, proposal=changed)
    assert desk.revise(made, proposal=changed, refuse_secrets=False).version == 2


def test_versions_count_at_every_decision(desk):
    made = desk.propose(sources=[source("s1")])
    assert desk.revise(made).version == 2
    for act in (desk.approve, desk.reject, desk.revise):
        for version in (1, 3):
            error = refused(desk.db, CandidateConflict, act, made, version)
            assert (error.code, error.details) == (
                "candidate_conflict",
                {"expected_version": version, "current_version": 2},
            )
    assert desk.approve(made, 2).version == 2
    error = refused(desk.db, CandidateTerminal, desk.reject, made, 2)
    assert (error.code, error.details) == ("candidate_terminal", {"status": "approved"})
    refused(desk.db, CandidateTerminal, desk.revise, made, 2)


def test_what_is_not_there_is_not_found(desk):
    made = desk.propose(sources=[source("s1")])
    administer.create_scope(desk.db, "other", now_us=NOW)
    elsewhere, nowhere = replace(desk, scope="other"), replace(desk, scope="nowhere")
    for act in ("get", "approve", "reject", "revise"):
        error = refused(desk.db, CandidateNotFound, getattr(elsewhere, act), made)
        assert error.details == {"candidate_id": made.candidate_id}
        refused(desk.db, ScopeNotFound, getattr(nowhere, act), made)
    for read_ in (review.history, review.diff):
        refused(desk.db, CandidateNotFound, read_, desk.db, "other", made.candidate_id)
