"""The tau-bench airline trials, whose verdicts are known by counting: 116 fail, 84 pass.

One experience a task, whose cue is the task; its trials are replayed as outcomes in the order of
the trials, each citing its transcript. 21 of the 50 tasks fail three times in a row.
"""

import gzip
import json
import random
from collections import Counter
from pathlib import Path

import pytest
from recurrence_rig import SCOPE, Ledger, content

from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.experience import parse
from pc_store.domain.refs import ArtifactRef, SourceRef
from pc_store.domain.source import new_source
from pc_store.services import capture
from pc_store.services.propose import propose

TRIALS = Path(__file__).parents[2].parent / "shared/data/real/tau_bench/gpt-4o-airline.json.gz"

pytestmark = pytest.mark.skipif(not TRIALS.exists(), reason=f"there is no {TRIALS.name} beside")


@pytest.fixture(scope="module")
def trials() -> list[tuple[int, int, bool, str]]:
    """(trial, task, passed, transcript) of each of the 200 trials, by trial, then task."""
    with gzip.open(TRIALS, "rt", encoding="utf-8") as file:
        read = json.load(file)
    return sorted(
        (one["trial"], one["task_id"], one["reward"] >= 1, json.dumps(one["traj"])[:2_000])
        for one in read
    )


def outcome(task: int, *, passed: bool, transcript: str, receipt: str | None) -> dict:
    evidence = [{"kind": "source", "source_ref": {"name": "content", "source_id": transcript}}]
    verified = {"basis": "verified", "evidence": evidence}
    name = f"airline task {task}"
    return {
        "objective": name,
        "status": "succeeded" if passed else "failed",
        "summary": "Graded by the goal check.",
        "handoff_receipt_ref": {"name": "content", "source_id": receipt} if receipt else None,
        "observations": [{"text": f"{name} was attempted", **verified}],
        "checks": [{"name": f"{name}: goal check", "status": "passed", **verified}]
        if passed
        else [{"name": name, "status": "failed", **verified}],
    }


def prepare(ledger: Ledger, trials) -> dict[int, str]:
    """Approve an experience for each task and give it a receipt; return the experiences' ids."""
    tasks = sorted({task for _, task, _, _ in trials})
    found = {}
    ledger.capture("pilot", "The pilot run, before there was any experience.")
    for task in tasks:
        ledger.outcome(
            outcome(task, passed=False, transcript="pilot", receipt=None), f"founding-{task}"
        )
    for task in tasks:
        cue = f"airline task {task}"
        checked = {"condition": f"{cue} was attempted", "check_subject": f"{cue}: goal check"}
        made = propose(
            ledger.db,
            SCOPE,
            parse(content(cue, verification=checked)),
            EvidenceRefs(sources=(SourceRef("content", f"founding-{task}"),)),
            now_us=ledger.tick(),
        )
        ref = ledger.approve(made)
        found[task] = ref.artifact_id
        ledger.receipt(ref, name=f"given-{task}")
    return found


def play(ledger: Ledger, trial, *, number: int) -> int:
    """Record one trial: its transcript, then its outcome. Return the outcome's position."""
    _, task, passed, transcript = trial
    name = f"transcript-{number}"
    source = new_source(name, transcript)
    capture.capture(ledger.db, SCOPE, source, now_us=ledger.tick())
    value = outcome(
        task, passed=passed, transcript=name, receipt=f"given-{task}" if passed else None
    )
    return ledger.outcome(value, f"trial-{number}")


def expected(trials) -> dict[int, list[int]]:
    """Each task's streak after each of its trials."""
    streaks: dict[int, list[int]] = {}
    for _, task, passed, _ in trials:
        run = streaks.setdefault(task, [])
        run.append(0 if passed else (run[-1] if run else 0) + 1)
    return streaks


def check_all(ledger: Ledger, trials, found: dict[int, str]) -> None:
    counted = Counter(event for _, event, _, _ in ledger.verdicts())
    assert counted == {"recurred": 116, "avoided": 84}
    streaks = expected(trials)
    due = {found[task] for task, run in streaks.items() if max(run) >= 3}
    reviewed = [one.target.artifact_id for one in ledger.reviews() if one.target]
    assert len(due) == 21
    assert sorted(reviewed) == sorted(due)
    for task, run in streaks.items():
        ref = ArtifactRef("experience", found[task], 1)
        assert ledger.streak(ref, f"airline task {task}") == run[-1], task


def told(ledger: Ledger) -> list:
    """The verdicts, the matches, and what each review is of and stands on."""
    reviews = sorted(
        (one.target.artifact_id, [ref.source_id for ref in one.evidence.sources])
        for one in ledger.reviews()
        if one.target
    )
    return [ledger.verdicts(), ledger.results(), reviews]


@pytest.mark.slow
def test_live_drained_replayed_and_shuffled_give_one_ledger(ledger, trials):
    found = prepare(ledger, trials)
    ledger.run()
    for number, trial in enumerate(trials):
        play(ledger, trial, number=number)
        ledger.settle()
    check_all(ledger, trials, found)
    live = told(ledger)

    before = ledger.ledger()
    for _ in range(2):
        ledger.record(0, ledger.end())
        assert ledger.review() == []
    assert ledger.ledger() == before, "a replay adds nothing"

    ledger.forget()
    ledger.settle()
    check_all(ledger, trials, found)
    assert told(ledger) == live

    ledger.forget()
    order = list(range(ledger.end()))
    random.Random(20).shuffle(order)
    for number, position in enumerate(order):
        ledger.record(position, position + 1)
        if number % 25 == 0:
            ledger.review()
    ledger.settle()
    check_all(ledger, trials, found)
    assert told(ledger) == live
