"""Named windows: at the cursor, behind it, ahead of it, across it; and replays."""

import pytest
from extraction_rig import SCOPE, fact
from model_stub import adding, says, status, text

from pc_store.domain.window import parse_key
from pc_store.errors import CursorConflict, ModelError, NotFound, WindowRefused
from pc_store.ledger import cursors
from pc_store.services import extract, recover, settle
from pc_store.services.ask import ask
from pc_store.services.begin import open_named, open_next
from pc_store.services.clock import now_us
from pc_store.services.extract import MEMORY


def refused(rig, first, last, *, mode="auto") -> str:
    before = rig.windows()
    with pytest.raises(WindowRefused) as caught:
        rig.replay(first, last, mode=mode)
    assert (rig.windows(), rig.stub.requests()) == (before, [])
    return caught.value.message


# Which windows may run


@pytest.mark.parametrize(
    "key",
    [
        "shop",
        "shop@",
        "shop@1-3",
        "shop@00000001",
        "shop@00000000-00000003",
        "shop@00000003-00000001",
        "shop@00000001-00000003 ",
        "shop@000000001-00000003",
        "shop@00000001-00000003@",
        "@00000001-00000003",
        "shop@-0000001-00000003",
        "shop@0000000１-0000000３",
        "",
    ],
)
def test_a_key_that_is_none_is_refused_and_named(key):
    with pytest.raises(WindowRefused, match="is no window"):
        parse_key(key)


def test_a_window_ahead_of_the_cursor_is_refused(rig):
    rig.put_facts(6)
    assert refused(rig, 4, 6) == (
        "shop@00000004-00000006 is ahead of the cursor, which is at 0: "
        "the windows before it come first"
    )


def test_a_window_past_the_end_of_the_log_is_refused(rig):
    rig.put_facts(2)
    assert refused(rig, 1, 3) == "shop@00000001-00000003 ends past the log, which ends at 2"


def test_a_window_of_more_positions_than_any_may_have_is_refused(rig):
    assert refused(rig, 1, 1_001) == "shop@00000001-00001001 covers more than 1000 positions"


def test_a_window_with_other_bounds_than_the_planned_one_is_refused(rig):
    rig.put_facts(6)
    open_next(rig.db, rig.settings, SCOPE, "memory", run_id="r", now_us=now_us())
    assert refused(rig, 1, 2) == (
        "shop@00000001-00000002 does not match the window that is planned: (0, 3]"
    )


def test_a_window_across_the_cursor_that_was_never_planned_is_refused(rig):
    rig.put_facts(6)
    with rig.db.write() as conn:
        cursors.advance(conn, SCOPE, "memory", after=0, through=2, now_us=now_us())
    assert refused(rig, 1, 3) == "shop@00000001-00000003 lies across the cursor, which is at 2"


def test_only_what_is_behind_the_cursor_can_be_replayed(rig):
    rig.put_facts(3)
    assert refused(rig, 1, 3, mode="replay") == (
        "shop@00000001-00000003 is not behind the cursor, which is at 0"
    )


def test_an_unknown_scopes_window_is_not_found(rig):
    key = parse_key("nowhere@00000001-00000003")
    with pytest.raises(NotFound):
        open_named(rig.db, key, "memory", mode="auto", run_id="r", now_us=now_us())


def test_the_window_at_the_cursor_runs_live_by_name(rig):
    rig.put_facts(7)
    assert rig.replay(1, 2, mode="auto").current_cursor == 2
    assert rig.flush().current_cursor == 5
    assert rig.replay(6, 7, mode="auto").current_cursor == 7
    assert [(one.kind, one.after, one.through, one.status) for one in rig.windows()] == [
        ("live", 0, 2, "processed"),
        ("live", 2, 5, "processed"),
        ("live", 5, 7, "processed"),
    ]
    assert rig.texts() == [fact(n) for n in range(1, 8)]


def test_a_processed_window_is_left_alone_and_says_which_row_did_it(rig):
    rig.put_facts(3)
    rig.flush()
    done = rig.replay(1, 3, mode="auto")
    assert (done.status, done.current_cursor, done.window) == ("already processed", 3, rig.last())
    assert (len(rig.windows()), len(rig.stub.requests())) == (1, 1)


def test_a_planned_window_that_a_split_overtook_is_superseded_and_writes_nothing(rig):
    rig.put_facts(3)
    rig.stub.answer(text("{}"), text("{}"))
    rig.fails(window_max_attempts=1)
    assert rig.flush().current_cursor == 1
    before = rig.windows()
    done = rig.replay(1, 3, mode="auto")
    assert (done.status, done.current_cursor, done.window) == ("superseded", 1, before[0])
    assert (rig.windows(), len(rig.stub.requests())) == (before, 3)


def test_an_open_window_behind_the_cursor_ends_as_superseded_and_the_next_one_is_cut(rig):
    rig.put_facts(5)
    stale = open_next(rig.db, rig.settings, SCOPE, "memory", run_id="r", now_us=now_us()).window
    with rig.db.write() as conn:
        cursors.advance(conn, SCOPE, "memory", after=0, through=1, now_us=now_us())
    done = rig.flush()
    assert (done.previous_cursor, done.current_cursor) == (1, 4)
    assert rig.ranges("superseded") == [(0, 3)]
    assert rig.texts() == [fact(n) for n in (2, 3, 4)]
    with pytest.raises(CursorConflict, match="is superseded already: another run ended it"):
        ask(MEMORY, rig.db, rig.settings, rig.model, stale.window_id)


def test_a_commit_whose_cursor_has_moved_writes_nothing_and_supersedes_the_window(rig):
    rig.put_facts(5)
    stale = open_next(rig.db, rig.settings, SCOPE, "memory", run_id="r", now_us=now_us()).window
    ask(MEMORY, rig.db, rig.settings, rig.model, stale.window_id)
    with rig.db.write() as conn:
        cursors.advance(conn, SCOPE, "memory", after=0, through=1, now_us=now_us())
    with pytest.raises(CursorConflict) as caught:
        settle.commit_window(MEMORY, rig.db, rig.settings, stale.window_id, run_id="r")
    assert caught.value.message == (
        "the memory cursor is at 1, this window starts after 0: another run committed first"
    )
    assert (rig.head(), rig.changes(), rig.drafts(), rig.cursor()) == (0, 0, 0, 1)
    assert (rig.last().status, rig.last().error["code"]) == ("superseded", "cursor_conflict")


def test_a_commit_repeated_by_the_run_that_made_it_answers_the_same(rig):
    rig.put_facts(2)
    window = open_next(rig.db, rig.settings, SCOPE, "memory", run_id="r", now_us=now_us()).window
    ask(MEMORY, rig.db, rig.settings, rig.model, window.window_id)
    first = settle.commit_window(MEMORY, rig.db, rig.settings, window.window_id, run_id="r")
    again = settle.commit_window(MEMORY, rig.db, rig.settings, window.window_id, run_id="r")
    assert again == first
    with pytest.raises(CursorConflict):
        settle.commit_window(MEMORY, rig.db, rig.settings, window.window_id, run_id="another")
    assert rig.head() == 1


# Replay


def test_a_replay_commits_a_normal_head_change_and_leaves_the_cursor(rig):
    rig.put_facts(5)
    rig.flush_until_idle()
    rig.stub.reset()
    rig.stub.answer(adding(("Seen at second sight.", "e2"), (fact(3), "e3")))
    done = rig.replay(1, 3)
    assert (done.status, done.previous_cursor, done.current_cursor) == ("processed", 5, 5)
    assert (done.processed_source_count, done.memory.revision) == (3, 3)
    assert rig.texts() == [*(fact(n) for n in range(1, 6)), "Seen at second sight."]
    new = rig.cited("Seen at second sight.").entry
    assert (new.origin, new.created_in_revision) == ("replay", 3)
    assert [ref.source_id for ref in new.source_refs] == ["s2"]
    row = rig.last()
    assert (row.kind, row.status, row.after, row.through) == ("replay", "processed", 0, 3)
    assert (row.counts["added"], row.counts["unchanged"]) == (1, 1)
    assert rig.offending() == {}


def test_a_replay_need_not_keep_to_the_windows_of_before(rig):
    rig.put_facts(5)
    rig.flush_until_idle()
    assert rig.replay(2, 4).processed_source_count == 3
    assert (rig.head(), rig.cursor()) == (2, 5)


def test_replaying_with_the_same_answers_changes_nothing(rig):
    rig.put_facts(5)
    rig.flush_until_idle()
    before = rig.entries(), rig.changes(), rig.head(), rig.cursor()
    for _ in range(2):
        rig.replay(1, 3)
        rig.replay(4, 5)
        assert (rig.entries(), rig.changes(), rig.head(), rig.cursor()) == before


def test_a_replay_never_brings_back_what_was_retired_or_overwrites_what_was_revised(rig):
    rig.put_facts(3)
    rig.flush()
    rig.retire(fact(1))
    rig.revise(rig.cited(fact(2)), "Fact 2 is over.")
    revised = rig.cited("Fact 2 is over.").entry
    rig.replay(1, 3)
    assert fact(1) not in rig.texts()
    assert rig.cited(fact(1), inactive=True).entry.state == "inactive"
    assert rig.cited("Fact 2 is over.").entry == revised
    assert sorted(rig.texts()) == ["Fact 2 is over.", fact(3)]


def test_a_replay_that_fails_writes_nothing_and_blocks_nothing(rig):
    rig.put_facts(5)
    rig.flush()
    before = rig.entries()
    for answer in (status(500), says({"candidates": None})):
        rig.stub.always(answer)
        with pytest.raises(ModelError):
            rig.replay(1, 3)
        rig.stub.reset()
    assert [(row.kind, row.status) for row in rig.windows()[1:]] == [("replay", "failed")] * 2
    assert (rig.entries(), rig.cursor()) == (before, 3)
    assert rig.flush().current_cursor == 5


def test_replaying_a_quarantined_source_successfully_releases_it(rig):
    rig.put("Fact 1 holds. POISON.")
    rig.stub.whenever("POISON", text("no"))
    rig.fails(window_max_attempts=1)

    def listed(released: bool) -> list[tuple[int, bool]]:
        found = recover.quarantined(rig.db, include_released=released, limit=10)
        return [(one.position, one.released_at is not None) for one in found]

    assert (rig.cursor(), listed(False)) == (1, [(1, False)])
    with pytest.raises(ModelError):
        rig.replay(1, 1)
    assert listed(False) == [(1, False)]
    rig.stub.reset()
    key = recover.window_of(rig.db, SCOPE, 1)
    extract.replay(rig.db, rig.settings, rig.model, key)
    assert (rig.cursor(), rig.texts()) == (1, [fact(1)])
    assert (listed(False), listed(True)) == ([], [(1, True)])


def test_a_person_can_release_a_quarantined_source_once(rig):
    rig.put("POISON")
    rig.stub.whenever("POISON", text("no"))
    rig.fails(window_max_attempts=1)
    recover.release(rig.db, SCOPE, "memory", 1, now_us=now_us())
    assert recover.quarantined(rig.db, scope_id=SCOPE, limit=10) == []
    with pytest.raises(NotFound, match="position 1 of 'shop' is not in quarantine"):
        recover.release(rig.db, SCOPE, "memory", 1, now_us=now_us())
