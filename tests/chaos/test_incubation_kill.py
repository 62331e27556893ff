"""kill -9 of a worker that incubates: every window is processed once, with all that is its own."""

import chaos_worker
import pytest
import sqlalchemy as sa
from extraction_rig import SCOPE
from test_kill import forked, killed_and_restarted

from pc_store.domain import strict_json
from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.experience import parse
from pc_store.domain.refs import SourceRef
from pc_store.ledger.schema import candidate_versions, candidates, recurrence_events, windows
from pc_store.services import propose, review
from pc_store.services.administer import scope_status
from pc_store.services.clock import now_us
from pc_store.services.incubate import EXPERIENCE

__all__ = ["forked"]

CUE = "amounts are exact"


def outcome(number: int) -> str:
    """A record whose one check failed, so that each is a recurrence of what is tracked."""
    seen = [{"kind": "source", "source_ref": {"source_type": "content", "source_id": "s1"}}]
    return strict_json.dumps(
        {
            "objective": f"Import {number}.",
            "status": "failed",
            "summary": f"Attempt {number}.",
            "observations": [{"text": "An amount was read."}],
            "checks": [{"name": CUE, "status": "failed", "basis": "verified", "evidence": seen}],
        }
    )


def track(rig) -> None:
    """Approve an experience that tracks the failure; outcomes after this one count."""
    rig.put(outcome(2), first=2, metadata={"kind": "task-outcome"})
    content = parse(
        {
            **dict.fromkeys(("situation", "action", "outcome", "lesson"), "x"),
            "failure": {
                "signature": {"recall_cue": CUE, "symptom": None},
                "repair_surface": "experience_content",
                "verification": {"condition": "an amount was read", "check_subject": CUE},
            },
        }
    )
    evidence = EvidenceRefs(sources=(SourceRef("content", "s2"),))
    made = propose.propose(rig.db, SCOPE, content, evidence, now_us=now_us())
    review.approve(rig.db, SCOPE, made.candidate_id, expected_version=1, now_us=now_us())


def rows(rig, table: sa.Table, *order: str):
    with rig.db.read() as conn:
        return conn.execute(sa.select(table).order_by(*(table.c[name] for name in order))).all()


def assert_processed_once(rig, count: int) -> None:
    found = [row for row in rows(rig, windows, "after") if row.consumer == EXPERIENCE.consumer]
    assert [(row.after, row.through) for row in found] == [(3 * n, 3 * n + 3) for n in range(count)]
    assert {row.status for row in found} == {"processed"}
    assert [row.counts["created"] for row in found] == [1] * count

    made = [row for row in rows(rig, candidates, "candidate_id") if row.origin == "incubation"]
    assert [row.window_id for row in made] == [row.window_id for row in found]
    assert {row.status for row in made} == {"pending"}
    cited = {row.candidate_id: row for row in rows(rig, candidate_versions, "candidate_id")}
    assert [cited[row.candidate_id].source_refs for row in made] == [
        [["content", f"s{3 * n + 2}"]] for n in range(count)
    ]

    recurred = rows(rig, recurrence_events, "outcome_position")
    assert [(row.event, row.outcome_position) for row in recurred] == [
        ("recurred", 3 * n + 2) for n in range(1, count)
    ]
    status = scope_status(rig.db, SCOPE)
    assert status.cursors == {"memory": 0, "experience": 3 * count, "recurrence": 3 * count}
    assert rig.drafts() == 0


@pytest.fixture
def tracked(rig):
    """A scope whose first outcome founded an experience that tracks its failure."""
    rig.put("The log.", first=1)
    track(rig)
    rig.put("Chatter.", first=3)
    return rig


def put_more(rig, windows: int) -> None:
    for window in range(1, windows):
        first = 3 * window + 1
        rig.put("The log.", first=first)
        rig.put(outcome(first + 1), first=first + 1, metadata={"kind": "task-outcome"})
        rig.put("Chatter.", first=first + 2)


def test_an_incubation_killed_three_times_makes_every_candidate_once(forked, tracked, tmp_path):
    put_more(tracked, 8)
    killed_and_restarted(forked, tracked, tmp_path, kills=3, seed=3, work=chaos_worker.incubate)
    assert_processed_once(tracked, 8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_incubations_killed_at_random_points_of_thirty_windows_make_every_candidate_once(
    forked,
    tracked,
    tmp_path,
    seed,
):
    put_more(tracked, 30)
    killed = killed_and_restarted(
        forked, tracked, tmp_path, kills=40, seed=seed, work=chaos_worker.incubate
    )
    assert_processed_once(tracked, 30)
    assert killed >= 10
