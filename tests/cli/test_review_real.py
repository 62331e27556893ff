"""Two hundred real trials, from the file to a recalled experience, by the command alone."""

from pathlib import Path

import pytest
from running_pc import Command

TRIALS = Path(__file__).parents[2].parent / "shared/data/real/tau_bench/gpt-4o-airline.json.gz"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(params=["builtin", "stub"])
def command(request, tmp_path, model_env):
    """The command with either provider, in windows of the default size."""
    if not TRIALS.is_file():
        pytest.skip(f"REAL LOGS SKIPPED: there is no {TRIALS}")
    env = model_env | {"PC_HOME": str(tmp_path / "home"), "PC_SOURCE_WINDOW_LIMIT": "100"}
    if request.param == "builtin":
        env["PC_LLM_PROVIDER"] = "builtin"
    return Command(**env)


def test_trials_become_candidates_that_a_script_reviews_and_a_query_recalls(command):
    command.ok("ingest", "airline", str(TRIALS), "--create-scope")
    command.ok("experience", "incubate", "airline", "--drain")
    waiting = command.rows("review", "list", "airline", "--limit", "1000")
    cited = {ref["source_id"] for row in waiting for ref in row["source_refs"]}
    assert len(cited) == 200
    kept, dropped = waiting[0], waiting[1]
    assert command.rows("experience", "list", "airline") == []  # nothing approves itself

    script = "a\nj\nit says nothing new\n" + "s\n" * (len(waiting) - 2)
    told = command.ok("review", "start", "airline", stdin=script)
    assert "1 approved" in told

    left = command.rows("review", "list", "airline", "--limit", "1000")
    assert [row["candidate_id"] for row in left] == [row["candidate_id"] for row in waiting[2:]]
    (rejected,) = command.rows("review", "list", "airline", "--status", "rejected")
    assert rejected["candidate_id"] == dropped["candidate_id"]
    assert rejected["decision_reason"] == "it says nothing new"
    (learnt,) = command.rows("experience", "list", "airline")
    assert learnt["content"] == kept["proposal"]

    words = " ".join(kept["proposal"]["situation"].split()[:12])
    (hit,) = command.rows("experience", "search", "airline", words)
    assert hit["artifact"] == learnt["artifact"]
    assert learnt["artifact"]["artifact_id"] in command.ok("prepare", "airline", words)
