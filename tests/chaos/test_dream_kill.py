"""kill -9 of a worker that works on dreams: each ends once, and says truthfully how."""

import chaos_worker
import pytest
import sqlalchemy as sa
from extraction_rig import SCOPE
from test_kill import forked, killed_and_restarted

from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.dream_run import dream_request
from pc_store.domain.refs import SourceRef
from pc_store.ledger.schema import candidates, dream_runs
from pc_store.services import dream
from pc_store.services.clock import now_us

__all__ = ["forked"]


def submit(rig, count: int) -> None:
    rig.put("The import ran with cents, and no amount was off.")
    settings = rig.settings.model_copy(
        update={
            "llm_provider": "openai",
            "llm_base_url": rig.stub.base_url,
            "llm_model": "stub-1",
            "dream_max_pending": 1_000,
        }
    )
    for number in range(count):
        cited = rig.remember(f"Fact {number} is known.").citation
        evidence = EvidenceRefs((SourceRef("content", "s1"),), (), (cited,))
        request = dream_request("refine_experience", evidence)
        dream.submit(rig.db, settings, SCOPE, request, key=f"k{number}", now_us=now_us())


def assert_each_ended_once(rig, count: int) -> int:
    """How many were proposed; the others lost both of their attempts."""
    with rig.db.read() as conn:
        runs = conn.execute(sa.select(dream_runs)).all()
        made = set(conn.execute(sa.select(candidates.c.candidate_id)).scalars())
    assert len(runs) == count
    ended = {(run.status, run.outcome, run.error) for run in runs}
    assert ended <= {("succeeded", "proposed", None), ("failed", None, "budget_exceeded")}
    proposed = [run for run in runs if run.outcome == "proposed"]
    assert made == {f"cand_dream_{run.run_id}" for run in proposed}
    assert made == {run.candidate_id for run in proposed}
    assert all(1 <= run.attempts <= 2 for run in proposed)
    assert {run.attempts for run in runs if run.status == "failed"} <= {2}
    assert all(run.usage["model_calls"] <= run.attempts for run in runs if run.usage)
    return len(proposed)


def test_dreams_whose_workers_are_killed_three_times_end_once(forked, rig, tmp_path):
    submit(rig, 12)
    killed_and_restarted(forked, rig, tmp_path, kills=3, seed=3, work=chaos_worker.dream)
    assert assert_each_ended_once(rig, 12) >= 8  # two at a time, and each survives one kill


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_dreams_whose_workers_are_killed_at_random_points_end_once(forked, rig, tmp_path, seed):
    submit(rig, 100)
    killed = killed_and_restarted(
        forked, rig, tmp_path, kills=40, seed=seed, work=chaos_worker.dream
    )
    assert assert_each_ended_once(rig, 100) >= 50
    assert killed >= 10
