"""The real `pc` in a process of its own: exit codes, streams, completion, the environment."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from served import served

PC = str(Path(sys.executable).with_name("pc"))


@pytest.fixture
def pc(tmp_path):
    def run(*arguments, **env):
        given = {name: value for name, value in os.environ.items() if not name.startswith("PC_")}
        return subprocess.run(
            [PC, *arguments],
            env={**given, "PC_HOME": str(tmp_path / "home"), **env},
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run


def test_exit_codes(pc):
    made = pc("scope", "create", "shop", "--json")
    assert (made.returncode, json.loads(made.stdout)["scope_id"], made.stderr) == (0, "shop", "")
    wrong = pc("memory", "remember", "shop", "x" * 8193)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("pc: text: ")


def test_the_server_comes_from_the_environment(pc, tmp_path):
    tokens = '[{"name":"a","token":"some-token","scopes":["*"],"verbs":["admin"]}]'
    with served(home=tmp_path / "served", api_tokens=tokens) as server:
        refused = pc("scope", "create", "there", PC_API_URL=server.url)
        assert (refused.returncode, refused.stderr) == (
            1,
            "pc: one bearer token is needed\n",
        )
        env = {"PC_API_URL": server.url, "PC_API_TOKEN": "some-token"}
        assert pc("scope", "create", "there", **env).returncode == 0
    assert not (tmp_path / "home").exists()


def test_completion_offers_the_verbs(pc):
    shown = pc(_PC_COMPLETE="complete_bash", COMP_WORDS="pc memory re", COMP_CWORD="2")
    assert {"remember", "remember-batch", "revise", "retire", "reactivate"} <= set(
        shown.stdout.split()
    )
