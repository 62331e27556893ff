"""The published client, unmodified and in its own Python, through the same scenarios."""

import json
import secrets
import subprocess
from pathlib import Path

import pytest
from caller import PlainCaller
from scenario_names import MODULES, PUBLISHED_ONLY, names

pytestmark = pytest.mark.slow

DRIVER = Path(__file__).with_name("foreign_driver.py")
SCENARIOS = [(module, name) for module in (*MODULES, PUBLISHED_ONLY) for name in names(module)]
WITHIN_S = 240


@pytest.fixture(scope="session")
def failures(served, published_python):
    """What became of each scenario: its failure, or None."""
    done = subprocess.run(
        [str(published_python), str(DRIVER), served.url, f"driven-{secrets.token_hex(4)}"],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    return {(each["module"], each["name"]): each["failure"] for each in found}


@pytest.fixture
def published_cli(served, published_python):
    """Run the published command line against the server; return what it says as JSON."""

    def run(*arguments, code=0):
        command = [published_python.with_name("powercontext"), "--server-url", served.url]
        done = subprocess.run(
            [*map(str, command), "--json", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            env={"PATH": "/usr/bin:/bin", "HOME": str(served.home), "COLUMNS": "200"},
        )
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout) if code == 0 else done.stdout + done.stderr

    return run


@pytest.mark.parametrize(("module", "name"), SCENARIOS, ids=[f"{m}-{n}" for m, n in SCENARIOS])
def test_scenario(failures, module, name):
    if failure := failures[module, name]:
        pytest.fail(failure, pytrace=False)


def test_the_command_line_reads_health_and_capabilities(published_cli):
    assert published_cli("live") == {"status": "ok"}
    assert published_cli("ready")["status"] in {"ready", "degraded"}
    assert published_cli("capabilities")["search_modes"] == ["auto", "fts"]


def test_the_command_line_reads_statistics(served, published_cli):
    with served.client() as http:
        pc = PlainCaller(http, f"cli-{secrets.token_hex(4)}")
        pc.entry("one")
        pc.capture("s1", "text")
        child = pc.new_scope(parent_scope_id=pc.scope)["scope_id"]
    exact = published_cli("stats", "--scope-id", pc.scope, "--period", "7d")
    assert exact["scope_ids"] == [pc.scope]
    assert exact["inventory"]["memory"]["entries"]["total"] == 1
    assert exact["inventory"]["sources"]["memory_pending"] == 1
    subtree = published_cli("stats", "--root-scope-id", pc.scope)
    assert set(subtree["scope_ids"]) == {pc.scope, child}
    assert {pc.scope, child} <= set(published_cli("stats")["scope_ids"])
    published_cli("stats", "--scope-id", "nowhere", code=1)
