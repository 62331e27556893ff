"""Runs that meet: of the same window, of a window and a person's write, of a fresh scope."""

import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from extraction_rig import SCOPE, fact
from model_stub import adding, hold, says, text
from together import Together

from pc_store.domain.verdict import Verdict
from pc_store.errors import Conflict, CursorConflict, RevisionConflict, StoreError
from pc_store.services import settle
from pc_store.services.ask import ask
from pc_store.services.begin import open_next
from pc_store.services.clock import now_us
from pc_store.services.extract import MEMORY
from pc_store.services.remember import entry_history

WORKER = Path(__file__).parents[1] / "chaos" / "chaos_worker.py"


def statuses(results) -> list[str]:
    """How each flush ended, in words that can be sorted."""
    return sorted(
        type(one).__name__ if isinstance(one, BaseException) else one.status for one in results
    )


def test_of_two_runs_that_asked_about_the_same_window_one_commits_and_the_other_says_why(rig):
    rig.put_facts(3)
    rig.stub.answer(hold(), hold())
    both = Together(rig.flush, rig.flush)
    rig.stub.wait_until_held(2)
    rig.stub.release()
    results = both.join()
    assert statuses(results) == ["CursorConflict", "processed"]
    [loser] = [one for one in results if isinstance(one, CursorConflict)]
    assert loser.message == (
        "window (0, 3] is processed already: another run ended it, nothing was written"
    )
    assert rig.entries() == [("fact", fact(n), (f"s{n}",)) for n in (1, 2, 3)]
    [row] = rig.windows()
    assert (row.status, row.attempt, row.error, row.rejects) == ("processed", 2, None, None)
    assert (rig.cursor(), rig.head(), rig.changes(), rig.drafts()) == (3, 1, 3, 0)
    assert row.usage["calls"] == 2


def test_the_answers_of_two_runs_may_arrive_at_the_same_moment(rig):
    for number in range(1, 11):
        rig.put_facts(1, first=number)
        window = open_next(
            rig.db, rig.settings, SCOPE, "memory", run_id="r", now_us=now_us()
        ).window

        def asked(window_id=window.window_id):
            return ask(MEMORY, rig.db, rig.settings, rig.model, window_id)

        first, second = Together(asked, asked).join()
        assert [first.proposals, second.proposals] == [first.proposals] * 2
        assert rig.drafts() == 1
        settle.commit_window(MEMORY, rig.db, rig.settings, window.window_id, run_id="r")
    assert rig.texts() == [fact(n) for n in range(1, 11)]


@pytest.mark.parametrize(
    "late", [says({"candidates": [{"kind": "x"}]}), text("no"), adding(("Late.", "e1"))]
)
def test_a_late_answer_to_a_window_that_is_done_changes_nothing_but_its_cost(rig, late):
    rig.put_facts(1)
    rig.stub.answer(hold(late))
    slow = Together(rig.flush)
    rig.stub.wait_until_held()
    assert rig.flush().status == "processed"
    done = rig.last()
    rig.stub.always(late)
    rig.stub.release()
    assert statuses(slow.join()) == ["CursorConflict"]
    after = rig.last()
    changed = {"usage": after.usage, "answered_at": after.answered_at}
    assert after == type(done)(**{**vars(done), **changed})
    assert (rig.texts(), rig.drafts(), rig.cursor()) == ([fact(1)], 0, 1)


def test_a_late_failure_of_a_window_that_is_done_is_not_recorded(rig):
    rig.put_facts(1)
    rig.stub.answer(hold(text("{}", finish_reason="length")))
    slow = Together(rig.flush)
    rig.stub.wait_until_held()
    window_id = rig.last().window_id
    rig.flush()
    done = rig.last()
    settle.refuse(
        rig.db,
        rig.settings,
        window_id,
        settle.Judged(Verdict(), refused=True, salvaged=False),
    )
    assert rig.last() == done
    rig.stub.release()
    assert statuses(slow.join()) == ["CursorConflict"]


def test_two_first_flushes_on_a_fresh_scope_process_its_window_once(rig):
    rig.put_facts(3)
    results = Together(rig.flush, rig.flush).join()
    assert statuses(results) in (["CursorConflict", "processed"], ["idle", "processed"])
    assert rig.ranges("processed") == [(0, 3)]
    assert rig.entries() == [("fact", fact(n), (f"s{n}",)) for n in (1, 2, 3)]
    assert (rig.cursor(), rig.changes()) == (3, 3)


def test_many_runs_of_one_scope_partition_its_log(rig):
    rig.put_facts(24)

    def run() -> None:
        for _ in range(60):
            try:
                if rig.flush().status == "idle":
                    return
            except Conflict:
                continue

    assert Together(*[run] * 4).join() == [None] * 4
    processed = rig.ranges("processed")
    assert [after for after, _ in processed] == [0, *(through for _, through in processed[:-1])]
    assert rig.entries() == [("fact", fact(n), (f"s{n}",)) for n in range(1, 25)]
    assert (rig.cursor(), rig.changes(), rig.drafts(), rig.offending()) == (24, 24, 0, {})


@pytest.mark.parametrize("new_database", ["postgres"], indirect=True)  # SQLite has one writer
def test_a_window_cut_at_a_cursor_that_has_just_moved_is_cut_again_before_anybody_is_asked(rig):
    rig.put_facts(5)
    overtaking = []

    def overtake(_conn, _cursor, statement, *_) -> None:
        if statement.startswith("INSERT INTO windows") and not overtaking:
            overtaking.append("begun")
            overtaking.extend(Together(rig.flush).join())

    sa.event.listen(rig.db.engine, "before_cursor_execute", overtake)
    done = rig.flush()
    assert [overtaking[1].current_cursor, done.previous_cursor, done.current_cursor] == [3, 3, 5]
    assert sorted(rig.ranges("processed")) == [(0, 3), (3, 5)]
    assert len(rig.stub.requests()) == 2


def test_two_processes_on_one_window_process_it_once(rig, tmp_path):
    rig.put_facts(3)
    rig.stub.answer(hold(), hold())
    command = [sys.executable, str(WORKER), rig.url, str(tmp_path), rig.stub.base_url, SCOPE]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    rig.stub.wait_until_held(2, within_s=60)
    rig.stub.release()
    ends = sorted(one.communicate(timeout=60)[0].strip() for one in both)
    assert ends == [
        "cursor_conflict: window (0, 3] is processed already: another run ended it, "
        "nothing was written",
        "idle",
    ]
    assert rig.entries() == [("fact", fact(n), (f"s{n}",)) for n in (1, 2, 3)]
    assert (rig.ranges("processed"), rig.cursor(), rig.changes()) == ([(0, 3)], 3, 3)


def test_a_revise_by_a_person_and_one_by_a_window_lose_neither(rig):
    rig.put_facts(1)
    rig.flush()
    change = {"intent": "revise", "kind": "fact", "evidence_ids": ["e1"], "entry_id": "m1"}
    for number in range(2, 7):
        rig.put(f"Fact 1 holds, take {number}.", first=number)
        before = rig.cited(rig.texts()[0])
        rig.stub.answer(says({"candidates": [{**change, "text": f"The window says {number}."}]}))
        window, person = Together(
            rig.flush, lambda c=before, n=number: rig.revise(c, f"A person says {n}.")
        ).join()
        history = [one.text for one in entry_history(rig.db, SCOPE, before.entry.entry_id)]
        if isinstance(person, RevisionConflict):
            assert window.status == "processed"
            assert history[-1] == f"The window says {number}."
            continue
        assert person is None
        assert f"A person says {number}." in history
        if isinstance(window, StoreError):
            assert type(window) is RevisionConflict
            assert history[-1] == f"A person says {number}."
            rig.stub.answer(says({"candidates": []}))
            assert rig.flush().current_cursor == number
        else:  # it was shown what the person wrote
            assert history[-2:] == [f"A person says {number}.", f"The window says {number}."]
    assert rig.offending() == {}


def test_what_a_person_remembers_during_the_call_is_not_written_twice(rig):
    rig.put_facts(2)
    rig.stub.answer(hold())
    run = Together(rig.flush)
    rig.stub.wait_until_held()
    rig.remember(fact(1))
    rig.stub.release()
    [done] = run.join()
    assert (done.status, done.memory.revision) == ("processed", 2)
    assert rig.entries() == [("fact", fact(1), ("s1",)), ("fact", fact(2), ("s2",))]


def test_what_a_person_retires_during_the_call_stays_retired(rig):
    rig.put_facts(1)
    rig.flush()
    rig.put(f"{fact(1)} Again.", first=2)
    rig.stub.answer(hold())
    run = Together(rig.flush)
    rig.stub.wait_until_held()
    rig.retire(fact(1))
    rig.stub.release()
    assert statuses(run.join()) == ["processed"]
    assert (rig.entries(), rig.cursor()) == ([], 2)


def test_writes_and_reads_never_wait_for_a_model_call(rig):
    rig.put_facts(1)
    rig.stub.answer(hold())
    run = Together(rig.flush)
    rig.stub.wait_until_held()
    rig.put_facts(5, first=2)
    cited = rig.remember("Written meanwhile.")
    rig.revise(cited, "Revised meanwhile.")
    assert rig.texts() == ["Revised meanwhile."]
    assert rig.cursor() == 0
    rig.stub.wait_until_held()  # the call still has no answer
    rig.stub.release()
    [done] = run.join()
    assert (done.current_cursor, done.high_watermark) == (1, 1)
    assert rig.texts() == ["Revised meanwhile.", fact(1)]


def test_capturing_and_extracting_at_once_lose_and_double_nothing(rig):
    def capture() -> None:
        for number in range(1, 31):
            rig.put_facts(1, first=number)

    def run() -> None:
        while rig.cursor() < 30:
            rig.flush()

    assert Together(capture, run).join() == [None, None]
    assert rig.entries() == [("fact", fact(n), (f"s{n}",)) for n in range(1, 31)]
    assert rig.offending() == {}
