"""The checks on dreams and the inbox fail exactly when what they assert is broken by hand."""

import pytest
import sqlalchemy as sa
from dreaming import SCOPE, Sleeper, nothing, source
from model_stub import says

from pc_store.ledger.schema import candidates, dream_runs
from pc_store.services import dream
from pc_store.services.audit import audit
from pc_store.services.clock import now_us
from pc_store.settings import Settings


@pytest.fixture
def sleeper(rig):
    """A dream of every kind of end, one that waits, and a candidate of another origin."""
    sleeper = Sleeper(rig)
    cited = sleeper.remembered()
    sleeper.says(cited)
    sleeper.made = sleeper.dreamt(cited)
    sleeper.stub.answer(says(nothing("no_change", "Nothing new.")))
    sleeper.none = sleeper.dreamt(cited)
    sleeper.gone = sleeper.queued(cited)
    dream.cancel(sleeper.db, SCOPE, sleeper.gone.run_id, principal="ann", now_us=now_us())
    sleeper.waiting = sleeper.queued(cited)
    other = sleeper.desk.propose(sources=[source("s1")])
    corrupt(sleeper, candidates, other.candidate_id, created_at=now_us())
    return sleeper


def broken(sleeper, settings=None, **more):
    findings = audit(sleeper.db, settings or Settings(), **more)
    return {one.check: one.rows for one in findings if not one.passed}


def corrupt(sleeper, table, run_or_id, **values):
    key = table.c.run_id if table is dream_runs else table.c.candidate_id
    with sleeper.db.write() as conn:
        assert conn.execute(sa.update(table).where(key == run_or_id).values(values)).rowcount == 1


def lost(sleeper, run, why, candidate_id=None):
    row = {"scope_id": SCOPE, "dream": run, "candidate_id": candidate_id, "why": why}
    assert broken(sleeper) == {"dreams_and_candidates_agree": [row]}


def test_sound_dreams_pass(sleeper):
    assert broken(sleeper) == {}


def test_a_proposal_without_its_candidate_and_a_candidate_without_its_dream_are_found(sleeper):
    run = sleeper.made
    corrupt(sleeper, dream_runs, run.run_id, candidate_id="cand_other")
    assert broken(sleeper) == {
        "dreams_and_candidates_agree": [
            {
                "scope_id": SCOPE,
                "dream": run.run_id,
                "candidate_id": "cand_other",
                "why": "not its candidate",
            },
            {
                "scope_id": SCOPE,
                "dream": None,
                "candidate_id": run.candidate_id,
                "why": "no dream proposed it",
            },
        ]
    }
    corrupt(sleeper, dream_runs, run.run_id, candidate_id=run.candidate_id)
    corrupt(sleeper, candidates, run.candidate_id, origin="propose")
    lost(sleeper, run.run_id, "not its candidate", run.candidate_id)


def test_a_candidate_of_a_dream_that_proposed_nothing_is_found(sleeper):
    corrupt(sleeper, dream_runs, sleeper.none.run_id, candidate_id=sleeper.made.candidate_id)
    lost(sleeper, sleeper.none.run_id, "not its candidate", sleeper.made.candidate_id)


@pytest.mark.parametrize(
    ("which", "values"),
    [
        ("none", {"completed_at": None}),
        ("none", {"outcome": None}),
        ("none", {"error": "cancelled"}),
        ("gone", {"error": None}),
        ("gone", {"completed_at": None}),
        ("waiting", {"completed_at": 1}),
    ],
)
def test_a_dream_without_the_end_that_its_status_says_is_found(sleeper, which, values):
    run = getattr(sleeper, which)
    corrupt(sleeper, dream_runs, run.run_id, **values)
    lost(sleeper, run.run_id, "its end is not whole")


def test_a_candidate_that_waits_too_long_is_found(sleeper):
    made = sleeper.made.candidate_id
    corrupt(sleeper, candidates, made, created_at=now_us() - 50 * 3_600_000_000)
    assert broken(sleeper) == {}
    strict = Settings(inbox_age_target_s=49 * 3_600)
    row = {"scope_id": SCOPE, "candidate_id": made, "origin": "dream", "hours": 50}
    assert broken(sleeper, strict) == {"inbox_age_within_target": [row]}
    corrupt(sleeper, candidates, made, status="rejected")
    assert broken(sleeper, strict) == {}
