"""Two hundred dreams over twenty scopes, of a model that fails in every way by turns."""

import threading

import pytest
from dreaming import SCOPE, Sleeper, source
from model_stub import says, status, text

from pc_store.domain import strict_json
from pc_store.domain.source import new_source
from pc_store.services import administer, dream
from pc_store.services.administer import scope_status
from pc_store.services.capture import capture_many
from pc_store.services.clock import now_us
from pc_store.services.dream_worker import run_pending
from pc_store.services.incubate import drain_experience, experience_author
from pc_store.services.remember import remember

pytestmark = pytest.mark.slow

SCOPES = 20
EACH = 10
FAULTS = {
    "SILENT": (text("", delay_s=5), ("failed", "generation_failed", {2})),
    "BROKEN": (status(500), ("failed", "generation_failed", {2})),
    "BUSY": (status(429), ("failed", "generation_failed", {2})),
    "WRONG": (says({"outcome": "proposed"}), ("failed", "invalid_generation_output", {2})),
    "LOCKED": (status(401), ("failed", "generation_failed", {1, 2})),
    "SLOW": ({"delay_s": 0.5}, ("succeeded", "proposed", {1, 2})),
    "GOOD": ({}, ("succeeded", "proposed", {1, 2})),
}
"""By a word in the evidence: the answer, and the status, outcome or error, and attempts."""


def record(number):
    return strict_json.dumps(
        {
            "objective": f"Import {number}.",
            "status": "succeeded",
            "summary": "It ran.",
            "observations": [{"text": "The import ran."}],
        }
    )


def test_every_dream_ends_truthfully_and_once_while_incubation_goes_on(rig):
    sleeper = Sleeper(rig, llm_timeout_s=2.0, dream_concurrency=8, llm_transport_retries=0)
    db, settings = sleeper.db, sleeper.settings
    for mark, (answer, _) in FAULTS.items():
        rig.stub.whenever(mark, answer)
    wanted = {}
    for number in range(SCOPES):
        scope = f"scope-{number}"
        administer.create_scope(db, scope, now_us=now_us())
        capture_many(db, scope, [new_source("s1", "What ran.")], now_us=now_us())
        for turn in range(EACH):
            mark = list(FAULTS)[(number * EACH + turn) % len(FAULTS)]
            said = f"{mark} {turn} is known."
            made = remember(db, scope, kind="fact", text=said, now_us=now_us()).entry
            run = sleeper.queued(made.citation, source("s1"), scope=scope)
            wanted[scope, run.run_id] = FAULTS[mark][1]
    outcomes = [
        new_source(f"o{number}", record(number), {"kind": "task-outcome"}) for number in range(30)
    ]
    capture_many(db, SCOPE, outcomes, now_us=now_us())
    moved = []

    def incubate():
        drain_experience(db, settings, experience_author(settings), SCOPE, budget_s=60)
        moved.append(dream.waiting(db, now_us=now_us()).pending)

    incubation = threading.Thread(target=incubate)
    workers = [
        threading.Thread(target=lambda: run_pending(db, settings, budget_s=300)) for _ in range(2)
    ]
    for thread in (*workers, incubation):
        thread.start()
    for thread in (*workers, incubation):
        thread.join(400)
    assert scope_status(db, SCOPE).cursors["experience"] == 30
    assert moved[0] > 0  # so it did not wait for the dreams

    ended = [dream.get_dream(db, scope, run_id) for scope, run_id in wanted]
    for run in ended:
        assert (run.status, run.outcome or run.error) == wanted[run.scope_id, run.run_id][:2]
        assert run.attempts in wanted[run.scope_id, run.run_id][2]  # a busy machine is slow too
        assert run.usage.model_calls == run.attempts
    made = [run.candidate_id for run in ended if run.outcome == "proposed"]
    found = [one.candidate_id for n in range(SCOPES) for one in sleeper.candidates(f"scope-{n}")]
    assert sorted(found) == sorted(made)
    assert len(set(made)) == len(made) >= 50
    assert len(sleeper.asked()) == sum(run.attempts for run in ended)
