"""Which scopes are due, in which order, and what planning costs the ledger."""

import math
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from pc_store.domain.scope import partition_key
from pc_store.domain.window import CONSUMERS, Consumer
from pc_store.ledger import cursors, schema, windows
from pc_store.ledger.backlogs import Backlog
from pc_store.ledger.database import Database
from pc_store.services import plan
from pc_store.settings import Settings

S = 1_000_000
NOW = 1_788_000_000 * S
PER_TICK = 50


def settings(**values) -> Settings:
    return Settings(**{"source_window_limit": 10, "window_max_wait_s": 60.0, **values})


def name(number: int) -> str:
    return f"scope-{number:04d}"


def fill(db, count: int, *, waiting: int = 10, received_at: int = NOW, first: int = 0) -> list[str]:
    """Scopes with so many sources past the cursor, written in bulk; their ids."""
    ids = [name(number) for number in range(first, first + count)]
    with db.write() as conn:
        rows = {
            schema.scopes: lambda s: [
                {
                    "scope_id": s,
                    "key": partition_key(s),
                    "title": s,
                    "summary": s,
                    "context_references": [],
                    "external_references": [],
                    "version": 1,
                    "created_at": NOW,
                }
            ],
            schema.source_heads: lambda s: [{"scope_id": s, "position": waiting, "updated_at": 0}],
            schema.cursors: lambda s: [
                {"scope_id": s, "consumer": c, "position": 0, "served_at": 0, "updated_at": 0}
                for c in CONSUMERS
            ],
            schema.sources: lambda s: [
                {
                    "scope_id": s,
                    "position": position,
                    "source_type": "content",
                    "source_id": str(position),
                    "content": "x",
                    "metadata": "{}",
                    "digest": "",
                    "tokens": 1,
                    "internal": False,
                    "received_at": received_at,
                }
                for position in range(1, waiting + 1)
            ],
        }
        for table, of_scope in rows.items():
            if values := [row for scope in ids for row in of_scope(scope)]:
                conn.execute(sa.insert(table), values)
    return ids


def due(db, *, now_us: int = NOW, limit: int = PER_TICK, busy=(), **values) -> list[str]:
    found = plan.due_scopes(db, settings(**values), "memory", busy=busy, limit=limit, now_us=now_us)
    return [backlog.scope_id for backlog in found]


def tick(db, *, now_us: int) -> list[str]:
    """What a sensor does: find what is due and plan it."""
    ids = due(db, now_us=now_us)
    plan.plan_windows(db, settings(), ids, "memory", now_us=now_us)
    return ids


class Statements:
    """Counts what is sent to a database."""

    def __init__(self, db: Database) -> None:
        self._engine = db.engine
        self.count = 0

    def _one_more(self, *_) -> None:
        self.count += 1

    def __enter__(self) -> "Statements":
        sa.event.listen(self._engine, "before_cursor_execute", self._one_more)
        return self

    def __exit__(self, *_) -> None:
        sa.event.remove(self._engine, "before_cursor_execute", self._one_more)


# What is due


def test_a_scope_is_due_when_its_window_is_full_or_its_oldest_source_old_enough(db):
    fill(db, 1, waiting=0)
    fill(db, 1, waiting=9, received_at=NOW - 60 * S + 1, first=1)
    fill(db, 1, waiting=9, received_at=NOW - 60 * S, first=2)
    fill(db, 1, waiting=10, received_at=NOW, first=3)
    assert due(db) == [name(2), name(3)]
    assert due(db, now_us=NOW + 1) == [name(1), name(2), name(3)]
    assert due(db, window_max_wait_s=0) == [name(1), name(2), name(3)]
    assert plan.due_scopes(db, settings(), "memory", limit=1, now_us=NOW) == [
        Backlog(name(2), name(2), lag=9)
    ]


def test_a_planned_window_is_due_however_young_its_sources_and_is_not_cut_again(db):
    [scope] = fill(db, 1, waiting=9)
    assert due(db) == []
    [window] = plan.plan_windows(db, settings(), [scope], "memory", now_us=NOW)
    assert due(db) == [scope]
    with db.write() as conn:
        conn.execute(sa.update(schema.source_heads).values(position=10))
    [again] = plan.plan_windows(db, settings(), [scope], "memory", now_us=NOW)
    assert (again.window_id, again.through) == (window.window_id, 9)
    with db.read() as conn:
        assert windows.get(conn, window.window_id).requests == 2


def test_a_failed_window_is_due_again_when_its_pause_is_over(db):
    [scope] = fill(db, 1)
    [window] = plan.plan_windows(db, settings(), [scope], "memory", now_us=NOW)
    with db.write() as conn:
        windows.update(conn, window.window_id, status="failed", next_attempt_at=NOW + 30 * S)
    assert due(db, now_us=NOW + 30 * S - 1) == []
    assert due(db, now_us=NOW + 30 * S) == [scope]


def test_a_scope_with_nothing_to_cut_is_planned_as_nothing(db):
    full, empty = fill(db, 1) + fill(db, 1, waiting=0, first=1)
    planned = plan.plan_windows(db, settings(), [empty, full], "memory", now_us=NOW)
    assert [(row.scope_id, row.after, row.through, row.status) for row in planned] == [
        (full, 0, 10, "planned")
    ]


# Order


def test_the_longest_unserved_scope_comes_first_and_ties_go_by_id(db):
    fill(db, 5)
    plan.note_served(db, [name(0)], "memory", now_us=NOW - 1 * S)
    plan.note_served(db, [name(3)], "memory", now_us=NOW - 2 * S)
    assert due(db) == [name(n) for n in (1, 2, 4, 3, 0)]
    assert due(db, limit=2) == [name(1), name(2)]


def test_busy_scopes_are_passed_over_and_do_not_take_the_place_of_others(db):
    fill(db, 6)
    busy = {name(0), name(2), "of another store"}
    assert due(db, limit=3, busy=busy) == [name(1), name(3), name(4)]


def test_every_scope_is_served_within_as_many_ticks_as_it_takes_to_name_them_all(db):
    ids = fill(db, 230)
    ticks = math.ceil(len(ids) / PER_TICK)
    served = [tick(db, now_us=NOW + number * S) for number in range(ticks)]
    assert [len(some) for some in served] == [PER_TICK] * ticks
    assert [scope for some in served for scope in some][: len(ids)] == ids
    assert served[-1][len(ids) % PER_TICK :] == ids[: ticks * PER_TICK - len(ids)]


def test_a_scope_that_always_has_work_does_not_hold_up_the_others(db):
    fill(db, 3)
    turns = []
    for second in range(6):
        [scope] = due(db, limit=1)
        plan.plan_windows(db, settings(), [scope], "memory", now_us=NOW + second * S)
        turns.append(scope)
    assert turns == [name(0), name(1), name(2)] * 2


# Cost


@pytest.mark.parametrize("scopes", [100, 5_000])
def test_a_tick_costs_the_same_statements_however_many_scopes_wait(db, scopes):
    fill(db, scopes, waiting=2, received_at=NOW - 100 * S)
    with Statements(db) as looking:
        ids = due(db)
    assert (ids, looking.count) == ([name(n) for n in range(PER_TICK)], 2)
    with Statements(db) as planning:
        planned = plan.plan_windows(db, settings(), ids, "memory", now_us=NOW)
    assert [row.scope_id for row in planned] == ids
    assert planning.count <= 10 * PER_TICK + 10
    with Statements(db) as planning_again:
        plan.plan_windows(db, settings(), ids, "memory", now_us=NOW)
    assert planning_again.count <= 2 * PER_TICK + 10


# Experience: only task outcomes lead to windows


def mark(db, scope_id: str, *positions: int, received_at: int = NOW) -> None:
    """Make task outcomes of the sources at some positions."""
    table = schema.sources
    with db.write() as conn:
        conn.execute(
            sa.update(table)
            .where(table.c.scope_id == scope_id, table.c.position.in_(positions))
            .values(
                kind="task-outcome", metadata='{"kind":"task-outcome"}', received_at=received_at
            )
        )


def due_experience(db, *, limit: int = PER_TICK, **values) -> list[Backlog]:
    return plan.due_scopes(db, settings(**values), "experience", limit=limit, now_us=NOW)


def windows_of(db, scope_id: str) -> list[tuple[int, int, str]]:
    with db.read() as conn:
        found = windows.page(conn, scope_id=scope_id, consumer="experience", limit=100)
    return sorted((row.after, row.through, row.status) for row in found)


def cursor(db, scope_id: str, consumer: Consumer = "experience") -> int:
    with db.read() as conn:
        return cursors.get(conn, scope_id, consumer).position


def test_a_log_without_outcomes_is_never_due_for_experience(db):
    [scope] = fill(db, 1, waiting=35, received_at=0)
    assert due_experience(db) == []
    assert plan.plan_windows(db, settings(), [scope], "experience", now_us=NOW) == []
    assert (windows_of(db, scope), cursor(db, scope)) == ([], 0)


def test_the_window_of_the_first_outcome_must_be_full_or_the_outcome_old_enough(db):
    young, full, old, two = fill(db, 4, waiting=25, received_at=0)
    mark(db, young, 21)
    mark(db, full, 12)
    mark(db, old, 22, received_at=NOW - 60 * S)
    mark(db, two, 5, 24)
    assert due_experience(db) == [
        Backlog(full, full, lag=2),
        Backlog(old, old, lag=2),
        Backlog(two, two, lag=24),
    ]


def test_whole_windows_before_the_first_outcome_are_passed_without_a_run(db):
    [scope] = fill(db, 1, waiting=47)
    mark(db, scope, 34, 36)
    [window] = plan.plan_windows(db, settings(), [scope], "experience", now_us=NOW)
    assert (window.after, window.through, window.requests) == (30, 40, 0)
    assert windows_of(db, scope) == [(0, 30, "passed"), (30, 40, "planned")]
    assert (cursor(db, scope), cursor(db, scope, "recurrence"), cursor(db, scope, "memory")) == (
        30,
        30,
        0,
    )
    [again] = plan.plan_windows(db, settings(), [scope], "experience", now_us=NOW)
    assert again.window_id == window.window_id
    with db.read() as conn:
        [passed] = windows.page(conn, scope_id=scope, statuses=["passed"], limit=9)
    assert (passed.counts, passed.run_id, passed.finished_at) == (
        {"positions": 30, "sources": 0},
        None,
        NOW,
    )


def test_an_open_window_is_kept_and_run_though_it_holds_no_outcome(db):
    [scope] = fill(db, 1, waiting=30)
    with db.write() as conn:
        window = plan.next_window(conn, settings(), scope, "experience", now_us=NOW)
    assert due_experience(db) == [Backlog(scope, scope, lag=10)]
    mark(db, scope, 25)
    [kept] = plan.plan_windows(db, settings(), [scope], "experience", now_us=NOW)
    assert (kept.window_id, cursor(db, scope)) == (window.window_id, 0)


def test_halved_windows_are_passed_over_at_their_size(db):
    [scope] = fill(db, 1, waiting=10)
    mark(db, scope, 8)
    with db.write() as conn:
        cursors.narrow(conn, scope, "experience", window_limit=5)
    plan.plan_windows(db, settings(), [scope], "experience", now_us=NOW)
    assert windows_of(db, scope) == [(0, 5, "passed"), (5, 10, "planned")]


def test_one_of_many_that_pass_over_at_once_does(db):
    [scope] = fill(db, 1, waiting=25)
    mark(db, scope, 22)
    with ThreadPoolExecutor(4) as pool:
        todo = [
            pool.submit(plan.pass_over, db, settings(), scope, "experience", now_us=NOW)
            for _ in range(4)
        ]
        assert [one.result() for one in todo] == [True] * 4
    assert windows_of(db, scope) == [(0, 20, "passed")]
    assert cursor(db, scope) == 20


def test_a_tick_for_experience_is_one_query_however_many_logs_hold_no_outcome(db):
    fill(db, 1_000, waiting=3, received_at=0)
    mark(db, name(700), 2)
    with Statements(db) as looking:
        assert due_experience(db) == []
    assert looking.count == 2
    with Statements(db) as looking:
        assert due_experience(db, window_max_wait_s=0) == [Backlog(name(700), name(700), lag=2)]
    assert looking.count == 2
