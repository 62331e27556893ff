"""Incubation of the outcomes of 200 real trials, which lie beside the repository and not in it."""

import json
from pathlib import Path

import pytest
from extraction_rig import SCOPE
from model_stub import MODEL

from pc_store.domain.source import estimated_tokens
from pc_store.domain.window import WindowKey
from pc_store.llm.builtin_experience import BuiltinExperienceAuthor
from pc_store.llm.experience_client import OpenAIExperienceModel
from pc_store.readers import detect
from pc_store.readers.reading import Read
from pc_store.services import capture, incubate, review
from pc_store.services.clock import now_us

TRIALS = Path(__file__).parents[2].parent / "shared/data/real/tau_bench/gpt-4o-airline.json.gz"

pytestmark = pytest.mark.slow


@pytest.fixture
def real(new_rig):
    """A scope whose log is the trials, in windows of the default size."""
    if not TRIALS.is_file():
        pytest.skip(f"REAL LOGS SKIPPED: there is no {TRIALS}")
    rig = new_rig(source_window_limit=100, timeout_s=60.0)
    offered = [
        item.source for item in detect.read(TRIALS, root=TRIALS.parent) if isinstance(item, Read)
    ]
    assert len(offered) == 200
    for start in range(0, 200, 100):
        capture.capture_many(rig.db, SCOPE, offered[start : start + 100], now_us=now_us())
    return rig


def incubated(rig, author):
    done = incubate.drain_experience(rig.db, rig.settings, author, SCOPE, budget_s=300)
    assert [one.previous_cursor for one in done[1:]] == [one.current_cursor for one in done[:-1]]
    assert done[-1].current_cursor == 200
    return done, pending(rig)


def pending(rig):
    """Every candidate that waits for review."""
    found, after = [], None
    while True:
        page = review.list_candidates(rig.db, SCOPE, after=after, limit=100)
        found += page.items
        after = page.next_after
        if after is None:
            return found


def cited(candidates):
    return sorted(ref.source_id for one in candidates for ref in one.evidence.sources)


def test_the_builtin_author_drafts_every_trial_as_the_record_has_it(real):
    done, candidates = incubated(real, BuiltinExperienceAuthor())
    assert len(cited(candidates)) == len(set(cited(candidates))) == 200
    passed = failed = 0
    for one in candidates:
        assert (one.status, one.origin, one.target) == ("pending", "incubation", None)
        content = one.proposal
        assert content.failure is None  # a results file verifies nothing
        assert content.lesson.startswith("Nothing in this record was verified")
        assert "verified as passed" not in content.lesson
        count = len(one.evidence.sources)
        passed += count * ("Check (declared, not verified), passed: " in content.outcome)
        failed += count * ("Check (declared, not verified), failed: " in content.outcome)
    trials = real.windows()
    assert {row.status for row in trials} == {"processed"}
    assert sum(row.counts["sources"] for row in trials) == 200
    assert sum(row.counts["created"] for row in trials) == len(candidates)
    assert (passed, failed) == (84, 116)
    assert [row.rejects for row in trials] == [None] * len(done)


def test_a_model_is_asked_within_its_budget_and_nothing_is_proposed_twice(real):
    model = OpenAIExperienceModel(
        model=MODEL, base_url=real.stub.base_url, timeout_s=60.0, transport_retries=0
    )
    _, candidates = incubated(real, model)
    assert len(set(cited(candidates))) == 200
    asked = []
    for request in real.stub.requests():
        body = request["body"]
        sent = [json.dumps(body["response_format"]), *(m["content"] for m in body["messages"])]
        assert sum(map(estimated_tokens, sent)) <= real.settings.prompt_token_budget
        shown = json.loads(body["messages"][1]["content"])["evidence"]
        asked += [one["content"]["source_id"] for one in shown]
    assert sorted(asked) == cited(candidates)
    marks = [one.fingerprint for one in candidates]
    assert len(marks) == len(set(marks))

    first = real.windows()[0]
    again = incubate.replay_experience(
        real.db, real.settings, model, WindowKey(SCOPE, first.after + 1, first.through)
    )
    model.close()
    assert again.candidate_ids == ()
    assert again.window.counts["known"] == first.counts["created"]
    assert len(pending(real)) == len(candidates)
