"""`pc doctor`: what is wrong is named, an exit code says so, and no secret is told."""

import contextlib
import json
import sqlite3
import time

import pytest
from model_stub import status
from running_pc import Command
from served import served

SECRET = "sk-very-secret-value"


def levels(result_rows):
    return {row["name"]: row["level"] for row in result_rows}


def diagnosed(command):
    """(exit code, rows)"""
    result = command("doctor", "--json")
    assert SECRET not in result.output
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()]


def told(rows, name):
    return next(row["says"] for row in rows if row["name"] == name)


def test_a_sound_store(pc, shop):
    shop()
    code, rows = diagnosed(pc)
    assert code == 0
    assert set(levels(rows).values()) == {"ok"}
    assert "ok" in pc.ok("doctor")


def test_what_fails_is_an_error_here_and_on_a_server(pc, shop, model_stub):
    shop("Text.")
    model_stub.answer(status(401))
    pc.refused(1, "memory", "flush", "shop")
    code, rows = diagnosed(pc)
    assert code == 1
    assert levels(rows)["failing windows"] == "error"
    assert "shop" in told(rows, "failing windows")
    assert "inference_misconfigured" in told(rows, "failing windows")
    assert told(rows, "memory backlog").startswith("1 positions of 1 scopes wait")
    assert told(rows, "experience backlog").startswith("0 ")


def test_dreams_that_nobody_works_on_are_an_error_here_and_on_a_server(pc, shop, tmp_path):
    shop()
    (made,) = pc.rows("memory", "remember", "shop", "Amounts are cents.")
    pc.ok("dream", "submit", "shop", "--entry", made["entry"]["citation"]["entry_id"])
    code, rows = diagnosed(pc)
    assert (code, told(rows, "dreams")) == (0, "1 wait or are worked on")
    ledger = sqlite3.connect(tmp_path / ("served" if pc.before else "home") / "ledger.db")
    with contextlib.closing(ledger), ledger:
        ledger.execute("UPDATE dream_runs SET accepted_at = accepted_at - 61000000")
    code, rows = diagnosed(pc)
    assert (code, levels(rows)["dreams"]) == (1, "error")
    assert "pc dream run-pending" in told(rows, "dreams")
    assert told(rows, "review inbox").startswith(("0 candidates", "no candidate"))


@pytest.mark.parametrize(
    ("env", "name", "says"),
    [
        ({"PC_LEASE_S": "0"}, "settings", "PC_LEASE_S"),
        ({"PC_API_TOKENS": '[{"name":"a","token":"sk-very-secret-value"}]'}, "settings", "scopes"),
        ({"PC_HTTP_HOST": "0.0.0.0"}, "settings", "PC_API_TOKENS"),
        ({"PC_DATABASE_URL": f"postgresql://u:{SECRET}@127.0.0.1:9/x"}, "ledger", "127.0.0.1"),
        ({"PC_DATABASE_URL": f"mysql://u:{SECRET}@h/x"}, "ledger", ""),
        ({"PC_LLM_MODEL": "m", "PC_LLM_BASE_URL": "http://h:99999/v1"}, "model", "no address"),
        ({"PC_LLM_PROVIDER": "openai"}, "model", "PC_LLM_MODEL is not set"),
        ({"PC_EMBED_PROVIDER": "openai"}, "embedder", "PC_EMBED_MODEL is not set"),
        (
            {"PC_EMBED_MODEL": "m", "PC_EMBED_BASE_URL": f"http://u:{SECRET}@127.0.0.1:9/v1"},
            "embedder",
            "the model endpoint cannot be reached (ConnectError)",
        ),
        (
            {"PC_LLM_MODEL": "m", "PC_LLM_BASE_URL": f"http://u:{SECRET}@127.0.0.1:9/v1"},
            "model",
            "http://127.0.0.1:9/v1 cannot be reached: ConnectError",
        ),
    ],
)
def test_what_is_misconfigured_is_named(tmp_path, env, name, says):
    code, rows = diagnosed(Command(PC_HOME=str(tmp_path), PC_DATABASE_WAIT_S="1", **env))
    assert code == 1
    assert levels(rows)[name] == "error"
    assert says in told(rows, name)


def test_the_embedder_in_force_is_named_with_its_dimensions(tmp_path, model_stub):
    for env, says in (
        ({}, "the built-in encoder, 512 dimensions"),
        ({"PC_EMBED_PROVIDER": "none"}, "none: search is by words alone"),
        (
            model_stub.embedding_env(),
            f"stub-embedding-1 at {model_stub.base_url}, 64 dimensions",
        ),
    ):
        code, rows = diagnosed(Command(PC_HOME=str(tmp_path), **env))
        assert (code, told(rows, "embedder")) == (0, says)


def test_work_that_waits_while_nobody_looks_is_an_error(tmp_path, monkeypatch):
    command = Command(PC_HOME=str(tmp_path), PC_MEMORY_SCHEDULE_SECONDS="15")
    name = "memory schedule"
    command.ok("scope", "create", "shop")
    command.ok("source", "add", "shop", "s1", "Text.")
    code, rows = diagnosed(command)
    assert (code, levels(rows)[name]) == (0, "ok")
    later = time.time_ns() // 1_000 + 3_600_000_000
    monkeypatch.setattr("pc_store.cli.doctor_command.now_us", lambda: later)
    code, rows = diagnosed(command)
    assert (code, levels(rows)[name]) == (1, "error")
    assert told(rows, name).startswith("not scheduled: 'shop' has waited over 600 s")


def test_a_token_that_is_unknown(tmp_path):
    tokens = '[{"name":"a","token":"some-token","scopes":["*"],"verbs":["read"]}]'
    with served(home=tmp_path, api_tokens=tokens) as server:
        code, rows = diagnosed(Command("--server", server.url))
        assert (code, levels(rows)) == (1, {"server": "ok", "token": "error"})
        code, rows = diagnosed(Command("--server", server.url, PC_API_TOKEN="some-token"))
        assert code == 0


def test_a_server_that_is_away():
    code, rows = diagnosed(Command("--server", "http://127.0.0.1:9"))
    assert (code, levels(rows)) == (1, {"server": "error"})
