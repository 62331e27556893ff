"""`pc dream`, on a store of this machine and on a server."""

import json
import re
import threading
import time
from functools import partial

import pytest
from model_stub import says, status
from proposed import learn
from running_pc import Command

from pc_store.cli import dream_commands
from pc_store.ledger.database import open_database
from pc_store.services.clock import now_us
from pc_store.services.dream import waiting
from pc_store.services.dream_worker import run_pending
from pc_store.settings import Settings

NOTHING = {
    "outcome": "no_change",
    "reason": "Nobody tried.",
    "intent": None,
    "proposal": None,
    "evidence_ids": [],
}


@pytest.fixture
def work(pc, local, tmp_path):
    """Work on what waits, on the machine that has the store."""
    home = str(tmp_path / ("served" if pc.before else "home"))
    return partial(Command(**(local.env | {"PC_HOME": home})).ok, "dream", "run-pending")


@pytest.fixture
def entry(pc, shop):
    shop("The import ran with cents, and no amount was off.")
    (made,) = pc.rows("memory", "remember", "shop", "Amounts are cents.")
    return made["entry"]["citation"]["entry_id"]


def submitted(pc, *arguments):
    return pc.ok("dream", "submit", "shop", *arguments).split()[0]


def test_a_dream_is_submitted_worked_on_and_shown(pc, entry, work):
    run = submitted(pc, "--entry", entry, "--source", "s1", "--key", "k1")
    assert re.fullmatch("dr_[0-9a-f]{32}", run)
    assert pc.ok("dream", "submit", "shop", "--entry", entry, "--source", "s1", "--key", "k1") == (
        f"{run} queued\n"
    )
    assert work() == f"shop  {run}  proposed\n"
    shown = pc.ok("dream", "show", "shop", run)
    assert f"succeeded: cand_dream_{run} waits for review" in shown
    assert f"candidate  cand_dream_{run}, version 1, pending" in shown
    assert "from       content s1 (root)" in shown
    assert f"from       entry {entry}" in shown
    assert "1 request to the model, tokens: 100 in, 20 out" in shown
    assert "reason     All 2 pieces say so." in shown
    (row,) = pc.rows("dream", "show", "shop", run)
    assert (row["outcome"], row["intent"], row["principal"]) == ("proposed", "create", "runtime")
    (listed,) = pc.rows("dream", "list", "shop")
    assert (listed["run_id"], listed["input_manifest"]) == (run, None)
    assert "proposed" in pc.ok("dream", "list", "shop", "--status", "succeeded")
    assert pc.ok("dream", "list", "shop", "--status", "failed") == "no failed dreams\n"
    assert work() == "no dream waits\n"
    pc.ok("review", "reject", "shop", f"cand_dream_{run}", "--version", "1", "--reason", "no")
    assert f"succeeded: cand_dream_{run} is rejected" in pc.ok("dream", "show", "shop", run)


def test_switched_off_they_wait(local):
    off = Command(**(local.env | {"PC_DREAM_ENABLED": "false"}))
    assert off.ok("dream", "run-pending") == "dreams are switched off: PC_DREAM_ENABLED\n"


def test_an_experience_is_replaced(pc, entry, work):
    learnt = learn(pc)
    run = submitted(pc, "--entry", entry, "--target", learnt)
    work()
    (row,) = pc.rows("dream", "show", "shop", run)
    assert row["target"] == {"family": "experience", "artifact_id": learnt, "revision": 1}
    assert row["intent"] == "refine"
    assert f"target     {learnt}@1" in pc.ok("dream", "show", "shop", run)
    again = submitted(pc, "--experience", f"{learnt}@1", "--source", "s1")
    assert pc.rows("dream", "show", "shop", again)[0]["target"] is None


def test_a_dream_is_cancelled(pc, entry, work):
    run = submitted(pc, "--entry", entry)
    assert pc.ok("dream", "cancel", "shop", run, "--reason", "wrong") == f"{run} is cancelled\n"
    assert "message    cancelled by runtime: wrong" in pc.ok("dream", "show", "shop", run)
    assert work() == "no dream waits\n"


def test_what_failed_says_why(pc, entry, work, model_stub):
    model_stub.answer(status(401))
    run = submitted(pc, "--entry", entry, "--source", "s1")
    told = work()
    assert told.startswith(f"shop  {run}  generation_failed: the model endpoint answered HTTP 401")
    listed = pc.ok("dream", "list", "shop")
    assert "failed: generation_failed" in listed
    assert "the model endpoint answered HTTP 401: check PC_LLM_API_KEY" in listed
    assert pc.refused(1, "dream", "cancel", "shop", run) == (
        f"pc: the dream {run} has failed already"
    )


def test_waiting_for_the_end(local, model_stub):
    local.ok("scope", "create", "shop")
    (made,) = local.rows("memory", "remember", "shop", "Amounts are cents.")
    entry = made["entry"]["citation"]["entry_id"]
    model_stub.answer(says(NOTHING), status(401))
    for key, code in (("good", 0), ("bad", 1)):
        local.ok("dream", "submit", "shop", "--entry", entry, "--key", key)
        local.ok("dream", "run-pending")
        done = local("dream", "submit", "shop", "--entry", entry, "--key", key, "--wait")
        assert done.exit_code == code
    assert "generation_failed" in done.stderr


def test_waiting_says_which_dream_and_that_nobody_has_begun_it(local, model_stub, monkeypatch):
    monkeypatch.setattr(dream_commands, "_UNBEGUN_S", 0.0)
    local.ok("scope", "create", "shop")
    (made,) = local.rows("memory", "remember", "shop", "Amounts are cents.")
    model_stub.answer(says(NOTHING))

    def begin_late():
        env = {name.removeprefix("PC_").lower(): value for name, value in local.env.items()}
        env.pop("columns")
        settings = Settings(**env)
        database = open_database(settings.ledger_url)
        while not waiting(database, now_us=now_us()).pending:
            time.sleep(0.05)
        time.sleep(1.0)
        run_pending(database, settings, budget_s=30)
        database.close()

    worker = threading.Thread(target=begin_late)
    worker.start()
    entry = made["entry"]["citation"]["entry_id"]
    done = local("dream", "submit", "shop", "--entry", entry, "--wait", "--json")
    worker.join()
    run = json.loads(done.stdout)
    assert (done.exit_code, run["outcome"]) == (0, "no_change")
    first, *then = done.stderr.splitlines()
    assert first == f"{run['run_id']} queued"
    assert " ".join(then).startswith("nobody has begun it yet: is dagster-daemon running?")


def test_calls_that_make_no_sense(pc, entry):
    for arguments in ((), ("--source", "s1")):
        assert pc.refused(2, "dream", "submit", "shop", *arguments) == (
            "pc: --entry: is missing: name an entry or an experience to refine"
        )
    assert pc.refused(2, "dream", "submit", "shop", "--entry", entry, "--key", " k") == (
        "pc: idempotency_key: has white space around it"
    )
    assert pc.refused(1, "dream", "submit", "shop", "--experience", "exp_none") == (
        "pc: there is no experience/exp_none"
    )
    assert pc.refused(2, "dream", "submit", "shop", "--experience", "a@b@c")
    assert pc.refused(1, "dream", "submit", "shop", "--entry", "mem_ent_none")
    assert pc.refused(1, "dream", "show", "shop", "dr_none") == (
        "pc: the scope has no dream 'dr_none'"
    )


def test_working_on_dreams_is_for_the_machine_that_has_the_store(pc):
    if pc.before:
        told = pc.refused(2, "dream", "run-pending")
        assert "works on the store of this machine only" in told
    else:
        assert pc.ok("dream", "run-pending") == "no dream waits\n"
