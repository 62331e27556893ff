"""A real `dagster dev`: its daemon, queue, run workers and the GraphQL of its UI."""

import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from dagster_process import DagsterProcess
from model_stub import adding, hold

from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.dream_run import dream_request
from pc_store.domain.refs import SourceRef
from pc_store.domain.source import new_source
from pc_store.domain.window import parse_key
from pc_store.ledger.database import Database, open_database
from pc_store.services import dream
from pc_store.services.administer import create_scope, scope_status
from pc_store.services.capture import capture_many
from pc_store.services.clock import now_us
from pc_store.services.remember import list_entries, remember
from pc_store.services.review import approve, list_candidates
from pc_store.services.watch import list_windows
from pc_store.settings import Settings

FIRST = "shop@00000001-00000003"


class Store:
    """The ledger that a live instance works on, seen from outside."""

    def __init__(self, db: Database) -> None:
        self.db = db

    def put(self, scope_id: str, count: int) -> None:
        offered = [new_source(f"s{n}", f"Fact {n} holds. Lunch.") for n in range(1, count + 1)]
        capture_many(self.db, scope_id, offered, now_us=now_us())

    def put_outcomes(self, scope_id: str, *contents: str) -> None:
        first = scope_status(self.db, scope_id).high_watermark + 1
        offered = [
            new_source(f"o{n}", content, {"kind": "task-outcome"})
            for n, content in enumerate(contents, start=first)
        ]
        capture_many(self.db, scope_id, offered, now_us=now_us())

    def cursor(self, scope_id: str) -> int:
        return scope_status(self.db, scope_id).cursors["memory"]

    def texts(self, scope_id: str) -> list[str]:
        return [one.entry.text for one in list_entries(self.db, scope_id, limit=10_000)[1]]

    def attempts(self, scope_id: str) -> dict[str, tuple[str, int]]:
        """(status, attempts) of each window, by key."""
        found = list_windows(self.db, scope_id=scope_id, limit=1_000)
        return {str(key): (row.status, row.attempt) for key, row in found}


@pytest.fixture
def live(
    tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[..., tuple[DagsterProcess, Store]]]:
    """Make live instances, which end with the test. Scopes are given with their sources."""
    running: list[DagsterProcess] = []
    stores: list[Store] = []
    databases = []

    def create(
        *, postgres: bool = False, put: dict[str, int], **env: str
    ) -> tuple[DagsterProcess, Store]:
        url = f"sqlite:///{tmp_path / 'ledger.db'}"
        if postgres:
            servers = request.getfixturevalue("postgres_databases")
            url, history = servers.create(), servers.create()
            databases.extend((servers, one) for one in (url, history))
            env["DAGSTER_POSTGRES_URL"] = history
        env = {
            "DATABASE_URL": url,
            "SOURCE_WINDOW_LIMIT": "3",
            "MEMORY_SCHEDULE_SECONDS": "1",
            "RETRY_BASE_S": "0.1",
            "LLM_PROVIDER": "builtin",
            **env,
        }
        store = Store(open_database(url))
        stores.append(store)
        for scope_id, count in put.items():
            create_scope(store.db, scope_id, now_us=now_us())
            store.put(scope_id, count)
        named = {f"PC_{name}": value for name, value in env.items()}
        dagster = DagsterProcess(tmp_path / "live", env=named)
        running.append(dagster)
        return dagster.start(), store

    yield create
    for dagster in running:
        dagster.kill()
    for store in stores:
        store.db.close()
    for servers, url in databases:
        servers.drop(url)


def from_stub(model_stub) -> dict[str, str]:
    return {name.removeprefix("PC_"): value for name, value in model_stub.env().items()}


def failures(dagster: DagsterProcess) -> list[str]:
    """What each failed step of each failed run says."""
    return [
        event["error"]["message"]
        for run in dagster.runs(statuses=["FAILURE"])
        for event in dagster.events(run["runId"])
        if event["__typename"] == "ExecutionStepFailureEvent"
    ]


def alarming(log: str) -> list[str]:
    """Lines of a console that a person would stop at.

    Read before the end: a daemon that is told to stop still starts ticks, and says at length that
    it has no workspace any more.
    """
    lines = re.sub(r"\x1b\[\d+m", "", log).splitlines()
    words = re.compile(r"\bERROR\b|\bCRITICAL\b|Traceback|Exception|Error:")
    return [line for line in lines if words.search(line)]


def test_one_window_through_a_real_daemon(live):
    dagster, store = live(put={"shop": 3})
    dagster.wait_for(lambda: store.cursor("shop") == 3, "the window", within_s=60, every_s=0.2)
    dagster.wait_for(lambda: not dagster.unfinished(), "the run to end")
    assert dagster.partitions("memory_windows") == {
        "materialized": [FIRST],
        "failed": [],
        "materializing": [],
        "unmaterialized": [],
    }
    (run,) = dagster.runs(pipelineName="memory_extraction")
    assert (run["status"], run["tags"]["dagster/sensor_name"]) == ("SUCCESS", "memory_windows_due")
    assert alarming(dagster.log.read_text()) == []
    assert dagster.stop() == 0


@pytest.mark.slow
@pytest.mark.parametrize("postgres", [False, True], ids=["sqlite", "postgres"])
def test_a_backlog_drains_and_a_backfill_replays_it(live, postgres):
    scopes = ["a", "b", "c", "d", "e"]
    dagster, store = live(postgres=postgres, put=dict.fromkeys(scopes, 21))
    dagster.wait_for(
        lambda: all(store.cursor(scope) == 21 for scope in scopes), "the backlog", within_s=150
    )
    dagster.wait_for(lambda: not dagster.unfinished(), "the runs to end")
    keys = dagster.partitions("memory_windows")
    assert len(keys["materialized"]) == 35
    assert not keys["failed"]
    assert failures(dagster) == []
    assert len(dagster.runs(pipelineName="memory_drain")) == 5
    assert dagster.partitions("memory")["materialized"] == scopes

    chosen = ["a@00000001-00000003", "c@00000004-00000006"]
    config = {"ops": {"memory_windows": {"config": {"mode": "replay"}}}}
    backfill = dagster.launch_backfill("memory_windows", chosen, config)
    dagster.wait_for(
        lambda: dagster.backfill_status(backfill) == "COMPLETED_SUCCESS",
        "the backfill",
        within_s=150,
    )
    kinds = {
        str(key): row.kind for key, row in list_windows(store.db, limit=2) if row.kind == "replay"
    }
    assert sorted(kinds) == chosen
    assert [store.cursor(scope) for scope in scopes] == [21] * 5
    assert alarming(dagster.log.read_text()) == []
    assert dagster.stop() == 0


@pytest.mark.slow
def test_a_shadow_backfill_succeeds_each_time_and_the_memory_stays(live):
    dagster, store = live(put={"shop": 6})
    dagster.wait_for(lambda: store.cursor("shop") == 6, "the windows", within_s=120)
    dagster.wait_for(lambda: not dagster.unfinished(), "the runs to end")
    texts = store.texts("shop")
    chosen = [FIRST, "shop@00000004-00000006"]
    config = {"ops": {"memory_windows": {"config": {"mode": "shadow", "generation": "g"}}}}
    for _ in range(2):  # the second finds its windows in the generation already
        backfill = dagster.launch_backfill("memory_windows", chosen, config)
        dagster.wait_for(
            lambda name=backfill: dagster.backfill_status(name).startswith("COMPLETED"),
            "the backfill",
            within_s=120,
        )
        assert dagster.backfill_status(backfill) == "COMPLETED_SUCCESS"
    shadows = [str(key) for key, row in list_windows(store.db, limit=9) if row.kind == "shadow"]
    assert sorted(shadows) == chosen
    assert (store.texts("shop"), store.cursor("shop")) == (texts, 6)
    assert alarming(dagster.log.read_text()) == []
    assert dagster.stop() == 0


@pytest.mark.slow
def test_a_rejected_window_is_a_red_partition_until_a_better_answer_comes(live, model_stub):
    model_stub.always(adding(("Nobody said this.", "e99")))
    dagster, store = live(put={"shop": 3}, **from_stub(model_stub), RETRY_BASE_S="6")
    dagster.wait_for(lambda: dagster.runs(statuses=["FAILURE"]), "the rejected run", within_s=90)
    assert dagster.partitions("memory_windows")["failed"] == [FIRST]
    (error,) = failures(dagster)
    assert "the answer was refused: proposal 1" in error
    assert "Nothing was written; the cursor stays at 0" in error
    assert (store.cursor("shop"), store.texts("shop")) == (0, [])
    model_stub.reset()
    dagster.wait_for(lambda: store.cursor("shop") == 3, "the next attempt", within_s=90)
    dagster.wait_for(lambda: not dagster.unfinished(), "the run to end")
    assert dagster.partitions("memory_windows")["failed"] == []
    assert dagster.stop() == 0


@pytest.mark.slow
def test_a_killed_run_worker_and_the_window_is_processed_once(live, model_stub):
    model_stub.answer(hold())
    dagster, store = live(put={"shop": 3}, **from_stub(model_stub))
    model_stub.wait_until_held(within_s=90)
    (worker,) = dagster.workers()
    worker.send_signal(signal.SIGKILL)
    dagster.wait_for(lambda: store.cursor("shop") == 3, "the next attempt", within_s=120)
    dagster.wait_for(lambda: not dagster.unfinished(), "the run to end")
    assert [run["status"] for run in dagster.runs()][-1] == "FAILURE"
    assert store.texts("shop") == ["Fact 1 holds.", "Fact 2 holds.", "Fact 3 holds."]
    assert store.attempts("shop") == {FIRST: ("processed", 2)}
    assert dagster.partitions("memory_windows")["materialized"] == [FIRST]
    assert dagster.stop() == 0


@pytest.mark.slow
def test_everything_killed_and_the_window_is_processed_once_afterwards(live, model_stub):
    model_stub.answer(hold())
    dagster, store = live(put={"shop": 3}, **from_stub(model_stub), LEASE_S="4")
    model_stub.wait_until_held(within_s=90)
    dagster.kill()
    dagster.start()
    dagster.wait_for(lambda: store.cursor("shop") == 3, "the next attempt", within_s=180)
    dagster.wait_for(lambda: not dagster.unfinished(), "the run to end")
    assert store.texts("shop") == ["Fact 1 holds.", "Fact 2 holds.", "Fact 3 holds."]
    assert store.attempts(parse_key(FIRST).scope_key) == {FIRST: ("processed", 2)}
    assert dagster.stop() == 0


_OBSERVED = """
query Observed($key: AssetKeyInput!) {
  assetOrError(assetKey: $key) { ... on Asset { assetObservations(limit: 10) {
    metadataEntries { label ... on IntMetadataEntry { intValue } } } } }
}
"""


@pytest.mark.slow
def test_task_outcomes_become_candidates_and_what_people_approve_is_shown(live):
    dagster, store = live(put={"shop": 1}, EXPERIENCE_SCHEDULE_SECONDS="1")
    told = {
        "objective": "Import the orders.",
        "status": "succeeded",
        "summary": "It was imported.",
        "observations": [{"text": "The import ran."}],
    }
    store.put_outcomes("shop", json.dumps(told), json.dumps(told | {"objective": "Export them."}))

    def candidates():
        return list_candidates(store.db, "shop").items

    dagster.wait_for(lambda: len(candidates()) == 2, "the candidates", within_s=90)
    first = candidates()[0]
    approve(store.db, "shop", first.candidate_id, expected_version=1, now_us=now_us())
    dagster.wait_for(
        lambda: dagster.partitions("experience")["materialized"] == ["shop"], "the report"
    )

    def waiting() -> list[int]:
        found = dagster.graphql(_OBSERVED, key={"path": ["review_inbox"]})["assetOrError"]
        return [
            entry["intValue"]
            for one in found["assetObservations"]
            for entry in one["metadataEntries"]
            if entry["label"] == "pending"
        ]

    dagster.wait_for(lambda: waiting()[:1] == [1], "the observation", within_s=90)
    dagster.wait_for(lambda: not dagster.unfinished(), "the runs to end")
    done = dagster.partitions("experience_windows")
    assert done["failed"] == []
    assert done["materialized"][-1].endswith("-00000003")
    lanes = {run["tags"].get("pc/lane") for run in dagster.runs(statuses=["SUCCESS"])}
    assert {"memory/shop", "experience/shop"} <= lanes
    assert failures(dagster) == []
    assert alarming(dagster.log.read_text()) == []


@pytest.mark.slow
def test_a_dream_starts_while_windows_wait_for_their_model(live, model_stub):
    model_stub.whenever("Fact ", hold())
    dagster, store = live(put=dict.fromkeys("abcdef", 3), **from_stub(model_stub))
    model_stub.wait_until_held(2, within_s=90)  # as many as the pool `llm` admits
    dagster.wait_for(lambda: len(dagster.runs(statuses=["STARTED"])) == 3, "three runs")
    create_scope(store.db, "shop", now_us=now_us())
    capture_many(store.db, "shop", [new_source("s1", "It ran.")], now_us=now_us())
    made = remember(store.db, "shop", kind="fact", text="Amounts are cents.", now_us=now_us())
    evidence = EvidenceRefs((SourceRef("content", "s1"),), (), (made.entry.citation,))
    submitted = dream.submit(
        store.db,
        Settings(),
        "shop",
        dream_request("refine_experience", evidence),
        key="k1",
        now_us=now_us(),
    )

    def ended():
        run = dream.get_dream(store.db, "shop", submitted.run.run_id)
        return (run.status, run.outcome) if run.ended else None

    assert dagster.wait_for(ended, "the dream") == ("succeeded", "proposed")
    model_stub.wait_until_held(2)  # the windows wait still
    model_stub.reset()
    dagster.wait_for(
        lambda: all(store.cursor(scope) == 3 for scope in "abcdef"), "the windows", within_s=120
    )
    assert dagster.stop() == 0
