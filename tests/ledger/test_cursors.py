"""Cursors and heads only move from where the mover believes them to be."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from pc_store.domain.refs import ArtifactRef, SourceRef
from pc_store.errors import Conflict, CursorConflict, NotFound, RevisionConflict
from pc_store.ledger import artifacts, cursors
from pc_store.ledger.artifacts import Revision
from pc_store.ledger.cursors import Cursor
from pc_store.services import administer

NOW = 1_700_000_000_000_000


@pytest.fixture
def scope(db):
    return administer.create_scope(db, "shop", now_us=NOW).scope_id


def position(db, scope, consumer="memory"):
    with db.read() as conn:
        return cursors.get(conn, scope, consumer).position


def advance(db, scope, after, through, consumer="memory"):
    with db.write() as conn:
        cursors.advance(conn, scope, consumer, after=after, through=through, now_us=NOW)


def commit(conn, scope, expected, **more):
    values = {"content": None, "reason": None, "origin": "explicit", "window_id": None}
    return artifacts.commit(
        conn, scope, "prompt", "p", expected=expected, now_us=NOW, **(values | more)
    )


def test_a_cursor_moves_from_where_the_window_started(db, scope):
    advance(db, scope, 0, 3)
    advance(db, scope, 3, 7)
    assert position(db, scope) == 7


@pytest.mark.parametrize("after", [0, 2, 4, 7, 100])
def test_a_cursor_that_is_elsewhere_does_not_move_and_says_where_it_is(db, scope, after):
    advance(db, scope, 0, 3)
    with pytest.raises(CursorConflict) as caught:
        advance(db, scope, after, 9)
    assert caught.value.details == {"expected": after, "current": 3}
    assert position(db, scope) == 3


def test_consumers_share_no_cursor(db, scope):
    advance(db, scope, 0, 3, "experience")
    advance(db, scope, 0, 5, "recurrence")
    moved = [position(db, scope, name) for name in ("memory", "experience", "recurrence")]
    assert moved == [0, 3, 5]


def test_a_cursor_of_no_scope_is_not_found(db, scope):
    for call in (lambda: position(db, "nowhere"), lambda: advance(db, "nowhere", 0, 1)):
        with pytest.raises(NotFound):
            call()


def test_a_window_whose_cursor_was_lost_leaves_nothing_of_its_results(db, scope):
    def run():
        with db.write() as conn:
            artifacts.ensure(conn, scope, "prompt", "p", now_us=NOW)
            commit(conn, scope, 0)
            cursors.advance(conn, scope, "memory", after=1, through=2, now_us=NOW)

    with pytest.raises(CursorConflict):
        run()
    with db.read() as conn:
        assert artifacts.head(conn, scope, "prompt", "p") == 0
        assert artifacts.revisions(conn, scope, "prompt", "p", limit=9) == []


def test_of_many_runs_of_one_window_exactly_one_moves_the_cursor(db, scope):
    def run(through):
        try:
            advance(db, scope, 0, through)
        except CursorConflict as error:
            return error.details["current"]
        return "won"

    with ThreadPoolExecutor(8) as pool:
        ended = list(pool.map(run, range(1, 9)))
    assert ended.count("won") == 1
    assert position(db, scope) == ended.index("won") + 1
    assert {answer for answer in ended if answer != "won"} == {position(db, scope)}


def test_a_narrowed_window_doubles_with_every_good_one_until_the_limit_is_lifted(db, scope):
    with db.write() as conn:
        cursors.narrow(conn, scope, "memory", window_limit=125)
    limits = []
    for start in range(4):
        advance(db, scope, start, start + 1)
        with db.read() as conn:
            limits.append(cursors.get(conn, scope, "memory"))
    assert limits == [Cursor(1, 250), Cursor(2, 500), Cursor(3, None), Cursor(4, None)]


def test_an_artifact_grows_one_revision_at_a_time_and_keeps_them_all(db, scope):
    sources = [SourceRef("content", "s2"), SourceRef("content", "s1")]
    used = [ArtifactRef("memory", "memory", 3)]
    with db.write() as conn:
        assert artifacts.ensure(conn, scope, "prompt", "p", now_us=NOW) == 0
        assert commit(conn, scope, 0, content={"text": "一"}, reason="first") == 1
        assert commit(conn, scope, 1, content=["二"], sources=sources, used=used) == 2
    first = Revision(ArtifactRef("prompt", "p", 1), {"text": "一"}, "first", "explicit", None, NOW)
    second = Revision(ArtifactRef("prompt", "p", 2), ["二"], None, "explicit", None, NOW)
    with db.read() as conn:
        assert artifacts.head(conn, scope, "prompt", "p") == 2
        assert artifacts.revision(conn, scope, "prompt", "p", 1) == first
        assert artifacts.revisions(conn, scope, "prompt", "p", limit=9) == [second, first]
        assert artifacts.revisions(conn, scope, "prompt", "p", limit=1) == [second]
        assert artifacts.lineage_of(conn, scope, first.ref) == []
        assert artifacts.lineage_of(conn, scope, second.ref) == [
            ("source", {"source_type": "content", "source_id": "s2"}),
            ("source", {"source_type": "content", "source_id": "s1"}),
            ("artifact", {"family": "memory", "artifact_id": "memory", "revision": 3}),
        ]


@pytest.mark.parametrize("expected", [0, 2, 9])
def test_a_head_that_is_elsewhere_does_not_move_and_says_where_it_is(db, scope, expected):
    with db.write() as conn:
        artifacts.ensure(conn, scope, "prompt", "p", now_us=NOW)
        commit(conn, scope, 0)
    with pytest.raises(RevisionConflict) as caught, db.write() as conn:
        commit(conn, scope, expected)
    assert caught.value.details == {"expected": expected, "current": 1}
    with db.read() as conn:
        assert len(artifacts.revisions(conn, scope, "prompt", "p", limit=9)) == 1


def test_a_revision_or_artifact_that_is_not_there_is_not_found(db, scope):
    with db.read() as conn:
        assert artifacts.head(conn, scope, "prompt", "none") == 0
        for name, number in (("none", 1), ("memory", 0), ("memory", 1)):
            with pytest.raises(NotFound):
                artifacts.revision(conn, scope, "memory", name, number)


def test_of_many_who_commit_on_the_same_head_each_revision_is_made_once(db, scope):
    def add(number):
        while True:
            try:
                with db.write() as conn:
                    artifacts.ensure(conn, scope, "prompt", "p", now_us=NOW)
                with db.read() as conn:
                    head = artifacts.head(conn, scope, "prompt", "p")
                with db.write() as conn:
                    return commit(conn, scope, head, content=number)
            except Conflict:
                continue

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(add, range(24)))
    with db.read() as conn:
        kept = artifacts.revisions(conn, scope, "prompt", "p", limit=99)
    assert {item.ref.revision: item.content for item in kept} == {
        revision: number for number, revision in enumerate(made)
    }
    assert sorted(made) == list(range(1, 25))
