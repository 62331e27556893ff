"""Lists of dreams, one of them, and cancelling it."""

from dataclasses import replace

import pytest
from desk import refused
from dreaming import SCOPE, nothing
from model_stub import says

from pc_store.dream_refusals import (
    DreamEnded,
    DreamNotFound,
    InvalidDreamCursor,
)
from pc_store.errors import (
    InvalidInput,
    ScopeNotFound,
)
from pc_store.services import dream
from pc_store.services.clock import now_us

# looking at them


def test_lists_are_newest_first_and_page(sleeper):
    cited = sleeper.by_hand()
    runs = [sleeper.queued(cited) for _ in range(5)]
    listed, cursor = [], None
    while True:
        page = dream.list_dreams(sleeper.db, SCOPE, cursor=cursor, limit=2)
        listed += page.runs
        cursor = page.next_cursor
        if cursor is None:
            break
        assert cursor == f"{page.runs[-1].accepted_at}:{page.runs[-1].run_id}"
    assert listed == runs[::-1]


def test_lists_are_of_a_status_and_an_operation(sleeper):
    cited = sleeper.by_hand()
    one, two, three = (sleeper.queued(cited) for _ in range(3))
    assert sleeper.claim().run_id == one.run_id
    dream.cancel(sleeper.db, SCOPE, three.run_id, now_us=now_us())

    def ids(**named):
        return [run.run_id for run in dream.list_dreams(sleeper.db, SCOPE, **named).runs]

    assert ids(status="running") == [one.run_id]
    assert ids(status="queued") == [two.run_id]
    assert ids(status="failed") == [three.run_id]
    assert ids(status="succeeded") == []
    assert ids(operation="derive_skill") == []
    assert len(ids(operation="refine_experience")) == 3


@pytest.mark.parametrize(
    "cursor", ["", "x", "1:", ":dr_0", "1:2", "-1:dr_00", "99999999999999999999:dr_00", "1:dr_0 "]
)
def test_cursors_are_those_that_were_given_out(sleeper, cursor):
    with pytest.raises(InvalidDreamCursor) as caught:
        dream.list_dreams(sleeper.db, SCOPE, cursor=cursor)
    assert caught.value.code == "invalid_cursor"


@pytest.mark.parametrize("limit", [0, 101])
def test_limits_of_a_page(sleeper, limit):
    with pytest.raises(InvalidInput):
        dream.list_dreams(sleeper.db, SCOPE, limit=limit)


def test_what_is_not_there_is_not_found(sleeper):
    for act in (dream.get_dream, lambda *at: dream.cancel(*at, now_us=now_us())):
        with pytest.raises(DreamNotFound):
            act(sleeper.db, SCOPE, "dr_none")
        with pytest.raises(ScopeNotFound):
            act(sleeper.db, "nowhere", "dr_none")


# cancelling


def test_a_dream_that_waits_is_cancelled_at_once(sleeper):
    run = sleeper.queued(sleeper.by_hand())
    ended = dream.cancel(
        sleeper.db,
        SCOPE,
        run.run_id,
        reason=" not needed ",
        principal="ann",
        now_us=run.accepted_at,
    )
    assert ended == replace(
        run,
        status="failed",
        error="cancelled",
        message="cancelled by ann: not needed",
        completed_at=run.accepted_at,
    )
    assert sleeper.get(run) == ended
    assert dream.cancel(sleeper.db, SCOPE, run.run_id, now_us=now_us()) == ended
    assert sleeper.claim() is None


def test_what_has_ended_cannot_be_cancelled(sleeper):
    cited = sleeper.remembered()
    sleeper.stub.answer(says(nothing()))
    done = sleeper.dreamt(cited)
    error = refused(
        sleeper.db, DreamEnded, dream.cancel, sleeper.db, SCOPE, done.run_id, now_us=now_us()
    )
    assert error.details == {"status": "succeeded", "outcome": "no_change", "error": None}


def test_a_reason_to_cancel_is_checked(sleeper):
    run = sleeper.queued(sleeper.by_hand())
    for reason in (" ", "x" * 2_001, "AKIAIOSFODNN7EXAMPLE"):
        with pytest.raises(InvalidInput):
            dream.cancel(sleeper.db, SCOPE, run.run_id, reason=reason, now_us=now_us())
    assert sleeper.get(run).status == "queued"
