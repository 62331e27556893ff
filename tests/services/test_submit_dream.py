"""Submitting dreams: keys before everything, what is refused, and what may wait."""

import threading
from dataclasses import replace

import pytest
from desk import put_internal, refused, rows
from dreaming import SCOPE, nothing, source
from model_stub import says

from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.dream_run import DreamBudget, DreamRun, dream_request
from pc_store.domain.refs import ArtifactRef, Citation
from pc_store.dream_refusals import (
    CapabilityUnavailable,
    DreamQueueFull,
    ReferenceNotFound,
)
from pc_store.errors import (
    ArtifactConflict,
    ArtifactInactive,
    CitedEntryInactive,
    EvidenceLimitExceeded,
    IdempotencyConflict,
    InvalidCitation,
    InvalidInput,
    ScopeNotFound,
    SourceNotEligible,
)
from pc_store.services import administer, dream, experiences
from pc_store.services.clock import now_us


def test_what_is_accepted_waits_with_all_that_was_asked_for(sleeper):
    cited = sleeper.remembered()
    target = sleeper.desk.approved()
    before = now_us()
    done = sleeper.submit(cited, source("s1"), target, target=target, key="one", principal="ann")
    run = done.run
    assert before <= run.accepted_at <= now_us()
    assert run.run_id.startswith("dr_")
    assert done == dream.Submitted(run, replayed=False)
    assert run == DreamRun(
        scope_id=SCOPE,
        run_id=run.run_id,
        principal="ann",
        idempotency_key="one",
        digest=run.request.digest,
        request=sleeper.request(target, cited, source("s1"), target=target),
        status="queued",
        outcome=None,
        candidate_id=None,
        intent=None,
        reason=None,
        error=None,
        message=None,
        feedback=None,
        attempts=0,
        claim=None,
        manifest=None,
        usage=None,
        budget=DreamBudget(32, 65_536, 128, 256, 8, 4_096, 2, 120.0),
        prompt_version="pc.dream.v1",
        model=None,
        accepted_at=run.accepted_at,
        started_at=None,
        next_attempt_at=0,
        completed_at=None,
        dagster_run_id=None,
    )
    assert sleeper.get(run) == run
    assert sleeper.asked() == []


# keys


def test_the_same_request_under_the_same_key_is_the_same_dream_whatever_its_order(sleeper):
    one, two = sleeper.remembered(), sleeper.by_hand()
    target = sleeper.desk.approved()
    first = sleeper.submit(two, target, one, source("s1"), key="k")
    before = rows(sleeper.db)
    again = sleeper.submit(one, two, source("s1"), two, target, target, source("s1"), key="k")
    assert again == dream.Submitted(first.run, replayed=True)
    assert rows(sleeper.db) == before


@pytest.mark.parametrize("change", ["fewer", "more", "source", "target"])
def test_another_request_under_the_same_key_is_refused(sleeper, change):
    one, two = sleeper.remembered(), sleeper.by_hand()
    target = sleeper.desk.approved()
    sleeper.submit(one, target, key="k")
    other = {
        "fewer": ((target,), None),
        "more": ((one, two, target), None),
        "source": ((one, target, source("s1")), None),
        "target": ((one, target), target),
    }[change]
    error = refused(
        sleeper.db, IdempotencyConflict, sleeper.submit, *other[0], target=other[1], key="k"
    )
    assert error.code == "idempotency_conflict"


def test_keys_belong_to_a_principal_and_a_scope(sleeper):
    cited = sleeper.by_hand()
    other = sleeper.desk.approved(sources=[sleeper.rig.put("x") or source("s1")])
    administer.create_scope(sleeper.db, "elsewhere", now_us=now_us())
    first = sleeper.submit(cited, key="k").run
    assert first.principal == "runtime"
    assert sleeper.submit(cited, key="k", principal="runtime").replayed
    assert sleeper.submit(other, key="k", principal="ann").run.run_id != first.run_id
    with pytest.raises(InvalidCitation):  # so the key was not found there
        sleeper.submit(cited, key="k", scope="elsewhere")


def test_a_key_is_looked_up_before_the_target_the_evidence_and_the_queue(sleeper):
    cited = sleeper.by_hand()
    sleeper.rig.put("What happened.")
    target = sleeper.desk.approved()
    run = sleeper.submit(cited, target, target=target, key="k").run
    sleeper.desk.approve(sleeper.desk.update(target, sources=[source("s1")]))
    sleeper.rig.retire("Decimals are exact.")
    for state in (
        {"dream_enabled": False},
        {"llm_model": None},
        {"dream_max_pending": 1},
        {"dream_max_items": 1},
    ):
        other = sleeper.having(**state)
        assert other.submit(cited, target, target=target, key="k").run == run

    def forbidden():
        raise AssertionError("a replay makes nothing new")

    again = sleeper.submit(cited, target, target=target, key="k", may_contribute=forbidden)
    assert again == dream.Submitted(run, replayed=True)


def test_a_dream_that_ended_is_returned_as_it_ended(sleeper):
    cited = sleeper.remembered()
    sleeper.stub.answer(says(nothing()))
    done = sleeper.dreamt(cited, key="good")
    assert sleeper.submit(cited, key="good") == dream.Submitted(done, replayed=True)
    assert done.outcome == "no_change"
    sleeper.rig.put("unused", first=50)
    lost = sleeper.queued(sleeper.by_hand(), key="bad")
    sleeper.rig.retire("Decimals are exact.")
    sleeper.work()
    failed = sleeper.get(lost)
    assert failed.status == "failed"
    again = dream.submit(
        sleeper.db, sleeper.settings, SCOPE, lost.request, key="bad", now_us=now_us()
    )
    assert again == dream.Submitted(failed, replayed=True)


@pytest.mark.parametrize("key", ["", " ", " k", "k ", "k" * 129, "a\x00b"])
def test_keys_are_trimmed_texts_of_1_to_128_characters(sleeper, key):
    cited = sleeper.by_hand()
    error = refused(
        sleeper.db,
        InvalidInput,
        lambda: dream.submit(
            sleeper.db, sleeper.settings, SCOPE, sleeper.request(cited), key=key, now_us=now_us()
        ),
    )
    assert error.field == "idempotency_key"


def test_two_submissions_at_a_time_make_one_dream(sleeper):
    cited = sleeper.by_hand()
    begin = threading.Barrier(6)
    got = []

    def go():
        begin.wait(10)
        got.append(sleeper.submit(cited, key="k"))

    threads = [threading.Thread(target=go) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(got) == 6
    assert {one.run.run_id for one in got} == {sleeper.submit(cited, key="k").run.run_id}
    assert [one.replayed for one in got].count(False) == 1


# what is refused


def experiences_named(count):
    return [ArtifactRef("experience", f"exp_{number}", 1) for number in range(count)]


MEMORY = ArtifactRef("memory", "memory", 1)


@pytest.mark.parametrize(
    ("operation", "evidence", "target", "rule"),
    [
        ("refine_experience", EvidenceRefs(), None, "evidence_limit_exceeded"),
        ("refine_experience", EvidenceRefs((source("s"),)), None, "evidence_limit_exceeded"),
        (
            "refine_experience",
            EvidenceRefs((), tuple(experiences_named(21))),
            None,
            "evidence_limit_exceeded",
        ),
        (
            "refine_experience",
            EvidenceRefs(tuple(source(f"s{n}") for n in range(32)), tuple(experiences_named(1))),
            None,
            "evidence_limit_exceeded",
        ),
        ("refine_experience", EvidenceRefs((), (MEMORY,)), None, "invalid_artifact_family"),
        (
            "refine_experience",
            EvidenceRefs((), (), (Citation(ArtifactRef("experience", "e", 1), "i", "v"),)),
            None,
            "invalid_memory_citation",
        ),
        (
            "refine_experience",
            EvidenceRefs((), tuple(experiences_named(1))),
            experiences_named(2)[1],
            "invalid_target",
        ),
        (
            "derive_skill",
            EvidenceRefs((), (), (Citation(MEMORY, "i", "v"),)),
            None,
            "invalid_dream_operation",
        ),
        (
            "derive_skill",
            EvidenceRefs((), tuple(experiences_named(1))),
            experiences_named(1)[0],
            "invalid_dream_operation",
        ),
    ],
)
def test_requests_that_break_a_rule_name_it(operation, evidence, target, rule):
    with pytest.raises(InvalidInput) as caught:
        dream_request(operation, evidence, target=target)
    assert (caught.value.code, caught.value.details["rule"]) == ("invalid_request", rule)


def test_the_most_that_may_be_asked_for_is_20_and_32_with_sources():
    refs = EvidenceRefs(tuple(source(f"s{n}") for n in range(12)), tuple(experiences_named(20)))
    assert len(dream_request("refine_experience", refs).evidence) == 32


def test_duplicates_do_not_count():
    refs = EvidenceRefs((source("s"),) * 40, tuple(experiences_named(20) * 3))
    assert len(dream_request("refine_experience", refs).evidence) == 21


def test_without_its_own_skills_a_store_derives_none(sleeper):
    sleeper.rig.put("What happened.")
    target = sleeper.desk.approved()
    error = refused(
        sleeper.db, CapabilityUnavailable, sleeper.submit, target, operation="derive_skill"
    )
    assert (error.code, error.details) == (
        "capability_unavailable",
        {"capability": "dream.derive_skill"},
    )


@pytest.mark.parametrize("state", [{"dream_enabled": False}, {"llm_model": None}])
def test_a_new_dream_needs_them_switched_on_and_configured(sleeper, state):
    cited = sleeper.by_hand()
    other = sleeper.having(**state)
    error = refused(other.db, CapabilityUnavailable, other.submit, cited)
    assert error.details == {"capability": "dream.refine_experience"}


def test_a_new_dream_needs_permission(sleeper):
    cited = sleeper.by_hand()

    def forbidden():
        raise CapabilityUnavailable("x", "no")

    refused(sleeper.db, CapabilityUnavailable, sleeper.submit, cited, may_contribute=forbidden)


def test_only_an_active_head_can_be_the_target(sleeper):
    sleeper.rig.put("What happened.")
    old = sleeper.desk.approved()
    new = sleeper.desk.approve(sleeper.desk.update(old, sources=[source("s1")])).result
    error = refused(sleeper.db, ArtifactConflict, sleeper.submit, old, target=old)
    assert error.details == {"current": vars(new)}
    experiences.set_lifecycle(
        sleeper.db, SCOPE, new, state="deprecated", reason="wrong", now_us=now_us()
    )
    refused(sleeper.db, ArtifactInactive, sleeper.submit, new, target=new)
    sleeper.submit(new, old)  # as evidence both are welcome


def test_what_does_not_exist_cannot_be_selected(sleeper):
    cited = sleeper.by_hand()
    nowhere = ArtifactRef("experience", "exp_none", 1)
    error = refused(sleeper.db, ReferenceNotFound, sleeper.submit, nowhere)
    assert (error.code, error.details) == ("reference_not_found", {"artifact_ref": vars(nowhere)})
    refused(sleeper.db, ReferenceNotFound, sleeper.submit, nowhere, target=nowhere)
    error = refused(sleeper.db, ReferenceNotFound, sleeper.submit, cited, source("none"))
    assert error.details == {"source_ref": vars(source("none"))}
    for wrong in (
        replace(cited, entry_version_id="mem_ver_none"),
        replace(cited, memory=ArtifactRef("memory", "memory", 9)),
    ):
        error = refused(sleeper.db, InvalidCitation, sleeper.submit, wrong)
        assert error.code == "invalid_memory_citation"


def test_retired_entries_and_the_stores_own_records_cannot_be_selected(sleeper):
    cited = sleeper.by_hand()
    error = refused(
        sleeper.db, SourceNotEligible, sleeper.submit, cited, put_internal(sleeper.db, "own")
    )
    assert error.code == "source_not_eligible"
    sleeper.rig.retire("Decimals are exact.")
    error = refused(sleeper.db, CitedEntryInactive, sleeper.submit, cited)
    assert error.code == "memory_entry_inactive"


def test_a_retired_entry_below_an_experience_refuses_it(sleeper):
    sleeper.rig.put("What happened.")
    kept = sleeper.desk.approved(sources=[source("s1")], citations=[sleeper.by_hand()])
    sleeper.rig.retire("Decimals are exact.")
    error = refused(sleeper.db, CitedEntryInactive, sleeper.submit, kept)
    assert error.field == "artifact_refs"


def test_evidence_that_is_too_much_is_refused_at_once(sleeper):
    sleeper.rig.put("x" * 66_000)
    cited = sleeper.by_hand()
    error = refused(sleeper.db, EvidenceLimitExceeded, sleeper.submit, cited, source("s1"))
    assert error.details["limit"] == 65_536
    assert "bytes" in error.reason
    small = sleeper.having(dream_max_items=1)
    refused(small.db, EvidenceLimitExceeded, small.submit, cited, source("s1"))
    narrow = sleeper.having(prompt_token_budget=4_000)
    sleeper.rig.put("y" * 20_000, first=2)
    error = refused(narrow.db, EvidenceLimitExceeded, narrow.submit, cited, source("s2"))
    assert "PC_PROMPT_TOKEN_BUDGET" in error.reason


def test_scopes_are_known(sleeper):
    cited = sleeper.by_hand()
    refused(sleeper.db, ScopeNotFound, sleeper.submit, cited, scope="nowhere")


# the queue


def test_only_so_many_dreams_of_a_scope_wait_or_run(sleeper):
    cited = sleeper.by_hand()
    for _ in range(32):
        sleeper.submit(cited)
    sleeper.claim()
    error = refused(sleeper.db, DreamQueueFull, sleeper.submit, cited)
    assert (error.code, error.details) == ("capacity_exceeded", {"limit": 32, "observed": 32})
    first = dream.list_dreams(sleeper.db, SCOPE, limit=100).runs[-1]
    dream.cancel(sleeper.db, SCOPE, first.run_id, now_us=now_us())
    sleeper.submit(cited)
    refused(sleeper.db, DreamQueueFull, sleeper.submit, cited)
    administer.create_scope(sleeper.db, "elsewhere", now_us=now_us())
    with pytest.raises(InvalidCitation):  # not the queue of another scope
        sleeper.submit(cited, scope="elsewhere")
