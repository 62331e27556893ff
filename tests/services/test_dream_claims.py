"""Claims on dreams, and workers that end badly: each dream comes to one end."""

import threading

import sqlalchemy as sa
from desk import rows
from dreaming import FIELDS, SCOPE, plan, spent
from model_stub import hold, says, status

from pc_store.ledger import dreams
from pc_store.services import administer, dream, remember, run_dreams
from pc_store.services.clock import now_us
from pc_store.services.dream_worker import in_background

# claims, and workers that end badly


def test_scopes_take_turns_and_each_begins_with_its_oldest(sleeper):
    cited = {}
    for scope in ("b", "c", SCOPE):
        if scope != SCOPE:
            administer.create_scope(sleeper.db, scope, now_us=now_us())
        made = remember.remember(sleeper.db, scope, kind="fact", text="x", now_us=now_us())
        cited[scope] = made.entry.citation
    runs = [sleeper.queued(cited[scope], scope=scope) for scope in ("b", "b", "b", "c", SCOPE)]
    order = []
    while (run := sleeper.claim()) is not None:
        order.append(run.run_id)
    assert order == [runs[number].run_id for number in (0, 3, 4, 1, 2)]


def test_a_claim_is_exclusive_until_its_lease_ends(sleeper):
    run = sleeper.queued(sleeper.remembered())
    first = sleeper.claim(lease_s=0.3)
    assert (first.run_id, first.status, first.attempts) == (run.run_id, "running", 1)
    assert sleeper.claim() is None
    threading.Event().wait(0.4)
    second = sleeper.claim()
    assert (second.run_id, second.attempts) == (run.run_id, 2)
    assert second.started_at == first.started_at
    # the first worker comes back and finds that it lost the dream
    before = rows(sleeper.db)
    sleeper.says(*run.request.evidence.citations)
    assert run_dreams.work_on(sleeper.db, sleeper.settings, first) is None
    assert rows(sleeper.db) == before
    assert sleeper.asked() == []
    assert run_dreams.work_on(sleeper.db, sleeper.settings, second).outcome == "proposed"
    assert len(sleeper.candidates()) == 1


def test_signs_of_life_put_the_end_of_a_lease_off(sleeper):
    sleeper.queued(sleeper.remembered())
    held = sleeper.claim(lease_s=0.3)
    with sleeper.db.write() as conn:
        dreams.keep(conn, [held.claim], until_us=now_us() + 60_000_000)
    threading.Event().wait(0.4)
    assert sleeper.claim() is None
    with sleeper.db.write() as conn:
        assert dreams.release(conn, [held.claim]) == 1
    assert sleeper.claim().attempts == 2


def test_a_dream_whose_workers_keep_dying_ends_without_a_third_request(sleeper):
    run = sleeper.queued(sleeper.remembered())
    for _ in range(2):
        sleeper.claim(lease_s=0.0)
    assert sleeper.claim().error == "budget_exceeded"
    ended = sleeper.get(run)
    assert (ended.status, ended.attempts) == ("failed", 2)


def test_an_answer_that_comes_after_the_dream_was_taken_over_is_thrown_away(sleeper):
    cited = sleeper.remembered()
    run = sleeper.queued(cited)
    sleeper.stub.answer(hold(says(plan(cited, reason="The late one."))))
    slow = threading.Thread(target=lambda: sleeper.work(lease_s=0.1))
    slow.start()
    sleeper.stub.wait_until_held()
    threading.Event().wait(0.2)
    sleeper.says(cited, reason="The second.")
    sleeper.work()
    sleeper.stub.release()
    slow.join(60)
    (made,) = sleeper.candidates()
    assert made.reason == "The second."
    assert (sleeper.get(run).attempts, sleeper.get(run).usage.model_calls) == (2, 2)


def test_cancelling_a_running_dream_throws_its_answer_away_and_keeps_its_cost(sleeper):
    cited = sleeper.remembered()
    run = sleeper.queued(cited)
    sleeper.stub.answer(hold(says(plan(cited))))
    sleeper.meanwhile(lambda: dream.cancel(sleeper.db, SCOPE, run.run_id, now_us=now_us()))
    ended = sleeper.get(run)
    assert (ended.status, ended.error) == ("failed", "cancelled")
    assert spent(ended) == {"model_calls": 1, "input_tokens": 100, "output_tokens": 20}
    assert sleeper.candidates() == []


def test_two_workers_share_the_queue_and_nothing_is_done_twice(sleeper):
    cited = [sleeper.remembered(f"Fact {n} holds.") for n in range(10)]
    runs = [sleeper.queued(one) for one in cited]
    ended = []
    crew = [threading.Thread(target=lambda: ended.extend(sleeper.pending())) for _ in range(2)]
    for one in crew:
        one.start()
    for one in crew:
        one.join(120)
    assert sorted(run.run_id for run in ended) == sorted(run.run_id for run in runs)
    assert {run.outcome for run in ended} == {"proposed"}
    assert len(sleeper.candidates()) == 10
    assert len(sleeper.asked()) == 10


def test_a_worker_waits_for_second_attempts_and_tells_of_each_end(sleeper):
    one, two = sleeper.remembered("Amounts were floats."), sleeper.remembered("Cents were lost.")
    sleeper.stub.answer(status(503))
    runs = [sleeper.queued(one), sleeper.queued(two)]
    told = []
    ended = sleeper.pending(told=told.append)
    assert told == ended
    assert {run.run_id for run in ended} == {run.run_id for run in runs}
    assert [run.status for run in ended] == ["succeeded"] * 2


def test_a_worker_lingers_for_what_comes_next(sleeper):
    cited = sleeper.remembered()
    got, asked = [], []
    worker = threading.Thread(target=lambda: got.extend(sleeper.pending(linger_s=1.5)))
    worker.start()
    threading.Event().wait(0.3)
    run = sleeper.queued(cited)
    while not sleeper.get(run).ended:
        threading.Event().wait(0.02)
    sa.event.listen(sleeper.db.engine, "before_cursor_execute", lambda *of: asked.append(of[2]))
    worker.join(60)
    assert [one.run_id for one in got] == [run.run_id]
    # a look every quarter of a second, and one before it leaves
    assert 4 <= sum("dream_runs" in statement for statement in asked) <= 9, asked


def test_a_background_worker_works_and_gives_back_what_it_cannot_finish(sleeper):

    served = sleeper.having(dream_worker=True)
    cited = sleeper.remembered()
    with in_background(served.db, served.settings):
        run = served.queued(cited)
        until = now_us() + 20_000_000
        while not served.get(run).ended and now_us() < until:
            threading.Event().wait(0.05)
        assert served.get(run).outcome == "proposed"
        served.stub.answer(hold(says(plan(cited, reason="Late."))))
        left = served.queued(cited)
        served.stub.wait_until_held()
    given = served.get(left)
    assert (given.status, given.claim, given.next_attempt_at) == ("running", None, 0)
    served.stub.release()
    served.says(cited, reason="In time.", proposal=FIELDS | {"lesson": "Other."})
    served.work()
    assert served.get(left).reason == "In time."
