"""Shadow replays: what a generation takes, from whom, and what ends it without a promotion."""

import pytest
from desk import rows
from extraction_rig import SCOPE, fact
from shadowing import NAME, Author, diffed, memory, promoted, shadow

from pc_store.domain.window import parse_key
from pc_store.errors import (
    CursorConflict,
    GenerationEnded,
    InvalidInput,
    ModelUnavailable,
    NotFound,
    ScopeNotFound,
    WindowRefused,
)
from pc_store.ledger import generations
from pc_store.services import instruct, promote
from pc_store.services.ask import ask
from pc_store.services.begin import open_named
from pc_store.services.clock import now_us
from pc_store.services.extract import MEMORY
from pc_store.services.purge import purge

KEY = "AKIA" + "Q" * 16


def test_nothing_of_the_memory_moves_before_promotion(filled, author):
    before = memory(filled)
    author.says(("New.", "e2"), revise=[(fact(1), "One.", "e1")])
    done = shadow(filled, 1, 3)
    assert (done.status, done.memory, done.processed_source_count) == ("processed", None, 3)
    assert (done.previous_cursor, done.current_cursor) == (6, 6)
    row = filled.last()
    assert (row.kind, row.generation, row.status) == ("shadow", NAME, "processed")
    assert (row.memory_revision, row.counts["kept"]) == (None, 2)
    assert diffed(filled)
    assert memory(filled) == before
    assert filled.drafts() == 0
    assert filled.offending() == {}


def test_a_window_is_replayed_into_a_generation_once(filled, author):
    author.says(("New.", "e2"))
    shadow(filled, 1, 3)
    again = shadow(filled, 1, 3)
    assert (again.status, again.window.generation) == ("already processed", NAME)
    author.says(("Newer.", "e1"))
    shadow(filled, 2, 4)
    author.says()
    shadow(filled, 1, 3, name="other")
    found = promote.list_generations(filled.db, SCOPE, limit=10)
    assert [(one.row.name, one.windows, one.drafts) for one in found] == [
        ("other", 1, 0),
        (NAME, 2, 2),
    ]


def test_another_prompt_or_model_goes_into_another_generation(filled, author):
    author.says(("New.", "e2"))
    shadow(filled, 1, 3)
    instruct.set_prompt(filled.db, SCOPE, "memory.extract", "Keep all.", now_us=now_us())
    with pytest.raises(WindowRefused, match=r"packaged version 1; now it would be .* revision 1"):
        shadow(filled, 4, 6)
    assert filled.last().status == "failed"
    instruct.set_prompt(filled.db, SCOPE, "memory.extract", None, now_us=now_us())
    filled.author = Author(model="two")
    with pytest.raises(WindowRefused, match="is of script one and"):
        shadow(filled, 4, 6)
    assert promote.read_generation(filled.db, SCOPE, NAME).windows == 1


def test_a_replay_into_no_generation_is_refused_and_makes_none(filled):
    for mode, name in (("shadow", None), ("shadow", "a b"), ("replay", NAME), ("auto", NAME)):
        with pytest.raises(InvalidInput, match=r"^generation: "):
            shadow(filled, 1, 3, name=name, mode=mode)
    assert len(filled.windows()) == 2
    assert promote.list_generations(filled.db, SCOPE, limit=10) == []


def test_only_windows_behind_the_cursor_are_replayed(filled):
    filled.put_facts(3, first=7)
    with pytest.raises(WindowRefused, match="is not behind the cursor, which is at 6"):
        shadow(filled, 7, 9)


def test_a_failed_window_leaves_the_generation_as_it_was_and_is_replayed_again(filled, author):
    author.says(("New.", "e2"))
    shadow(filled, 1, 3)

    def fail():
        raise ModelUnavailable("away")

    author.before = fail
    with pytest.raises(ModelUnavailable):
        shadow(filled, 4, 6)
    author.before = lambda: None
    assert promote.read_generation(filled.db, SCOPE, NAME).windows == 1
    author.says(("Newer.", "e2"))
    assert shadow(filled, 4, 6).status == "processed"
    promoted(filled)
    assert {"New.", "Newer."} < set(filled.texts())


def test_two_runs_of_one_window_keep_it_once(filled, author):
    author.says(("New.", "e2"))
    author.says(("Other.", "e2"))
    inner = []

    def overtake():
        author.before = lambda: None
        inner.append(shadow(filled, 1, 3))

    author.before = overtake
    with pytest.raises(CursorConflict, match="another run has replayed"):
        shadow(filled, 1, 3)
    assert inner[0].status == "processed"
    assert sorted(filled.ranges("superseded")) == [(0, 3)]
    assert [text for _, text, *_ in diffed(filled)][:1] == ["New."]


def test_a_secret_is_dropped_with_a_reason(filled, author):
    author.says((f"The key is {KEY}.", "e1"), ("New.", "e2"))
    shadow(filled, 1, 3)
    assert KEY not in str(rows(filled.db))
    assert [item["rule"] for item in filled.last().rejects] == ["no_secret_in_text"]
    assert promote.read_generation(filled.db, SCOPE, NAME).drafts == 1


def test_a_discarded_generation_keeps_its_row_and_no_text(filled, author):
    author.says(("Zanzibarian.", "e2"))
    shadow(filled, 1, 3)
    before = memory(filled)
    done = promote.discard(filled.db, SCOPE, NAME, now_us=now_us())
    assert (done.row.status, done.windows, done.drafts) == ("discarded", 1, 0)
    assert promote.discard(filled.db, SCOPE, NAME, now_us=now_us()) == done
    assert "Zanzibarian" not in str(rows(filled.db))
    with pytest.raises(GenerationEnded):
        promoted(filled)
    assert memory(filled) == before


def test_a_generation_that_ends_while_a_window_is_asked_takes_nothing_of_it(filled, author):
    author.says(("New.", "e2"))
    author.before = lambda: promote.discard(filled.db, SCOPE, NAME, now_us=now_us())
    with pytest.raises(CursorConflict, match="is superseded already"):
        shadow(filled, 1, 3)
    assert filled.last().status == "superseded"
    assert (filled.drafts(), "New." in str(rows(filled.db))) == (0, False)


def test_a_generation_that_ends_takes_the_answers_of_broken_off_runs_with_it(filled, author):
    author.says(("New.", "e2"))
    opened = open_named(
        filled.db,
        parse_key(f"{SCOPE}@00000001-00000003"),
        "memory",
        mode="shadow",
        run_id="died",
        now_us=now_us(),
        generation=NAME,
    )
    ask(MEMORY, filled.db, filled.settings, author, opened.window.window_id)
    assert filled.drafts() == 1
    assert promoted(filled).row.memory_revision == filled.head() == 2
    assert (filled.drafts(), filled.last().status) == (0, "superseded")
    assert "New." not in str(rows(filled.db))


def test_what_is_purged_leaves_generations_as_well(filled, author):
    entry_id = filled.cited(fact(1)).entry.entry_id
    author.says((fact(1), "e1"), ("New.", "e2"), revise=[(fact(1), "One, erased.", "e1")])
    shadow(filled, 1, 3)
    author.says((fact(1), "e1"), revise=[(fact(1), "One, erased.", "e1")])
    author.before = lambda: purge(filled.db, SCOPE, entry_id, now_us=now_us())
    shadow(filled, 1, 3, name="during")  # it is erased while the model is asked
    with filled.db.read() as conn:
        assert [one.draft.text for one in generations.drafts(conn, SCOPE, NAME)] == ["New."]
        assert generations.drafts(conn, SCOPE, "during") == []
    assert "One, erased." not in str(rows(filled.db))


def test_what_does_not_exist_is_not_found(filled):
    for act in (promote.diff, promote.read_generation):
        with pytest.raises(NotFound, match="no generation 'none'"):
            act(filled.db, SCOPE, "none")
        with pytest.raises(ScopeNotFound):
            act(filled.db, "nowhere", NAME)
    with pytest.raises(ScopeNotFound):
        promote.promote(filled.db, filled.settings, "nowhere", NAME, now_us=now_us())
