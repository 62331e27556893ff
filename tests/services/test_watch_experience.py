"""Where the experiences of scopes stand, and whose have changed since a moment."""

import pytest
from desk import NOW, SCOPE, Desk, put, source

from pc_store.services.administer import create_scope
from pc_store.services.experiences import set_lifecycle
from pc_store.services.watch_experience import ExperienceStanding, experiences_changed_since

SECOND = 1_000_000


@pytest.fixture
def desk(shop_db):
    put(shop_db, "s1", "log")
    return Desk(shop_db)


def standing(scope=SCOPE, **counts):
    none = dict.fromkeys(("active", "deprecated", "retired", "revisions", "pending"), 0)
    return ExperienceStanding(scope, scope, **none | counts)


def changed(desk, since=0, limit=10):
    return experiences_changed_since(desk.db, since, limit=limit)


def test_candidates_alone_change_no_experience(desk):
    made = desk.propose(sources=[source("s1")])
    desk.reject(desk.propose(sources=[source("s1")]))
    assert changed(desk) == []
    desk.at(NOW + SECOND).approve(made)
    assert changed(desk) == [(standing(active=1, revisions=1), NOW + SECOND)]


def test_revisions_lifecycles_and_what_waits_are_counted_and_the_last_change_is_named(desk):
    ref = desk.approved()
    ref = desk.approve(desk.update(ref)).result
    other = desk.approved()
    desk.propose(sources=[source("s1")])
    assert changed(desk) == [(standing(active=2, revisions=3, pending=1), NOW)]
    for state, at in (("deprecated", NOW + SECOND), ("retired", NOW + 2 * SECOND)):
        set_lifecycle(desk.db, SCOPE, ref, state=state, reason="old", now_us=at)
    set_lifecycle(desk.db, SCOPE, other, state="deprecated", reason="old", now_us=NOW + SECOND)
    now = standing(deprecated=1, retired=1, revisions=3, pending=1)
    assert changed(desk, NOW + 2 * SECOND) == [(now, NOW + 2 * SECOND)]
    assert changed(desk, NOW + 2 * SECOND + 1) == []


def test_scopes_come_by_their_last_change_and_no_more_than_asked_for(desk):
    for number, scope in enumerate(("b", "a", "c")):
        create_scope(desk.db, scope, now_us=NOW)
        put(desk.db, "s1", scope=scope)
        one = Desk(desk.db, scope=scope, now_us=NOW + number // 2 * SECOND)
        one.approved()
    one = {scope: standing(scope, active=1, revisions=1) for scope in "abc"}
    assert changed(desk) == [(one["a"], NOW), (one["b"], NOW), (one["c"], NOW + SECOND)]
    assert changed(desk, limit=2) == [(one["a"], NOW), (one["b"], NOW)]
