"""Results of tau-bench."""

import gzip
import json

import pytest

from pc_store.domain import outcome
from pc_store.readers import tau_bench
from pc_store.readers.reading import Read, Reject


def trial(task_id=3, number=0, reward=0.0, **more) -> dict:
    return {
        "task_id": task_id,
        "trial": number,
        "reward": reward,
        "info": {
            "task": {
                "instruction": "You want a refund.",
                "actions": [{"name": "cancel", "kwargs": {"id": "X1"}}],
            },
            "reward_info": {"info": {"r_outputs": reward, "outputs": {"327": False}}},
        },
        "traj": [
            {"role": "user", "content": "Refund please"},
            {"role": "assistant", "content": None, "tool_calls": [{}]},
            {"role": "tool", "content": "refund refused"},
            {"role": "assistant", "content": "It was refused."},
            {"role": "user", "content": "Oh. ###STOP###"},
        ],
        **more,
    }


@pytest.fixture
def read(tmp_path):
    def reader(trials, name="gpt-4o-airline.json"):
        path = tmp_path / name
        path.write_text(json.dumps(trials))
        return list(tau_bench.read(path, root=tmp_path))

    return reader


def test_a_trial_is_one_task_outcome(read):
    (told,) = read([trial()])
    assert told.source.source_id == "tau-airline-3-t0"
    assert dict(told.source.metadata) == {
        "kind": "task-outcome",
        "schema": "powercontext.task-outcome.v1",
        "task": "airline task 3",
        "trial": 0,
        "reward": 0.0,
    }
    found = outcome.loads(told.source.content)
    assert found.objective == "You want a refund."
    assert found.status == "failed"
    assert found.summary.endswith("The agent's last words: It was refused.")
    assert [seen.text for seen in found.observations] == [
        "airline task 3 was attempted",
        "The agent's last message: It was refused.",
        "The user's last message: Oh.",
        "The last tool result: refund refused",
        'Expected actions: cancel {"id": "X1"}',
    ]
    (goal,) = found.checks
    assert (goal.name, goal.status, goal.basis, goal.details) == (
        "airline task 3: goal check",
        "failed",
        "declared",
        "reward 0; answers not given: 327",
    )


def test_a_reward_of_one_is_a_success(read):
    found = outcome.loads(read([trial(reward=1.0)])[0].source.content)
    assert (found.status, found.checks[0].status) == ("succeeded", "passed")


def test_order_is_by_trial_then_task(read):
    items = read([trial(2, 1), trial(1, 1), trial(2, 0), trial(10, 0)])
    assert [item.source.source_id for item in items] == [
        "tau-airline-2-t0",
        "tau-airline-10-t0",
        "tau-airline-1-t1",
        "tau-airline-2-t1",
    ]


@pytest.mark.parametrize(
    ("name", "environment"),
    [
        ("gpt-4o-airline.json", "airline"),
        ("runs/sonnet_retail_2.json.gz", "retail"),
        ("mine.json", "mine"),
    ],
)
def test_the_environment_is_told_by_the_file_name(name, environment):
    assert tau_bench.environment_of(name) == environment


def test_a_trial_whose_dialogue_did_not_end_says_so(read):
    ended = trial()
    ended["info"]["reward_info"] = None
    found = outcome.loads(read([ended])[0].source.content)
    assert found.checks[0].details == (
        "reward 0; the dialogue did not end, so nothing was compared"
    )


def test_long_texts_are_trimmed_to_the_limits(read):
    long = trial()
    long["info"]["task"]["instruction"] = "x" * 20_000
    long["traj"][-2]["content"] = "y" * 20_000
    found = outcome.loads(read([long])[0].source.content)
    assert len(found.objective) == len(found.observations[1].text) == 8_192
    assert found.objective.endswith("…")


def test_a_bad_trial_is_rejected_and_the_others_are_read(read):
    items = read([trial(), {"task_id": 1}, "x", trial(4, reward="1"), trial(5, traj=None)])
    assert [item.reason for item in items if isinstance(item, Reject)] == [
        "trial: is missing or not an integer",
        "trial: is a str, an object is expected",
        "reward: is missing or not a number",
        "traj: is missing or not a list",
    ]
    assert len([item for item in items if isinstance(item, Read)]) == 1


def test_a_gzip_file_reads_the_same(tmp_path, read):
    plain = read([trial()])
    path = tmp_path / "gpt-4o-airline.json.gz"
    path.write_bytes(gzip.compress(json.dumps([trial()]).encode()))
    assert [item.source for item in tau_bench.read(path, root=tmp_path)] == [
        item.source for item in plain
    ]


def test_another_document_is_one_reject(read):
    (only,) = read({"a": 1})
    assert only.reason == "document: is a dict, a list is expected"
