"""Trajectories of SWE-agent."""

import json

import pytest

from pc_store.readers import swe_agent
from pc_store.readers.reading import Reject, Tally

HISTORY = [
    {"role": "system", "content": "You are…"},
    {"role": "user", "content": "Here is a demonstration", "is_demo": True},
    {"role": "user", "content": "Fix the bug"},
    {"role": "assistant", "content": "Look first.", "thought": "Look first.", "action": "ls"},
    {"role": "tool", "content": [{"type": "text", "text": "a.py\r\nb.py"}]},
    {"role": "assistant", "content": "Done.", "thought": "Done.", "action": "submit"},
]
TRAJECTORY = [
    {"thought": "Look first.", "action": "ls\n", "observation": "a.py\r\nb.py", "response": "…"},
    {"thought": "Done.", "action": "submit", "observation": "", "response": "…"},
]
STEPS = [
    "Thought:\nLook first.\n\nAction:\nls\n\nObservation:\na.py\nb.py",
    "Thought:\nDone.\n\nAction:\nsubmit",
]
INFO = {"exit_status": "submitted", "submission": "\ndiff --git a b\n", "model_stats": {}}


@pytest.fixture
def read(tmp_path):
    def reader(run, tally: Tally | None = None):
        path = tmp_path / "run.traj"
        path.write_text(run if isinstance(run, str) else json.dumps(run), encoding="utf-8")
        return list(swe_agent.read(path, root=tmp_path, tally=tally))

    return reader


def test_a_trajectory_gives_the_task_the_steps_and_the_result(read):
    tally = Tally()
    items = read({"trajectory": TRAJECTORY, "history": HISTORY, "info": INFO}, tally)
    assert [item.source.content for item in items] == [
        "Fix the bug",
        *STEPS,
        "Exit status: submitted\n\nSubmission:\ndiff --git a b",
    ]
    assert [item.source.metadata["kind"] for item in items] == ["prompt", "step", "step", "result"]
    names = [item.source.source_id.rsplit(":", 1)[0] for item in items]
    assert names == ["swe:run:task", "swe:run:step-001", "swe:run:step-002", "swe:run:result"]
    assert dict(items[-1].source.metadata) == {
        "kind": "result",
        "trajectory": "run",
        "exit_status": "submitted",
        "submitted": True,
    }
    assert tally.dropped == {"system prompt": 1, "demonstration": 1}


def test_a_history_alone_gives_the_same_steps(read):
    items = read({"history": HISTORY})
    assert [item.source.content for item in items] == ["Fix the bug", *STEPS]


def test_the_same_run_has_the_same_ids_and_another_run_other_ones(read):
    first = read({"trajectory": TRAJECTORY, "info": INFO})
    assert read({"trajectory": TRAJECTORY, "info": INFO}) == first
    changed = [TRAJECTORY[0], {**TRAJECTORY[1], "thought": "Almost done."}]
    second = read({"trajectory": changed, "info": INFO})
    assert second[0] == first[0]
    assert second[1].source.source_id != first[1].source.source_id


def test_a_run_that_did_not_end_has_no_result(read):
    assert len(read({"trajectory": TRAJECTORY, "info": {}})) == 2


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        ('{"trajectory": [', "record: is not JSON: expecting value at line 1 column 17"),
        ([], "document: is a list, an object is expected"),
        ({"messages": []}, "document: has neither a trajectory nor a history"),
        ({"trajectory": "x"}, "trajectory: is a str, a list is expected"),
    ],
)
def test_another_document_is_one_reject(read, run, reason):
    (only,) = read(run)
    assert isinstance(only, Reject)
    assert only.reason == reason


def test_an_empty_file_is_dropped(read):
    assert read("") == []
