"""Shadow replays: kept beside the memory, compared with it, promoted or discarded."""

from dataclasses import replace

import pytest
from extraction_rig import SCOPE, fact
from model_stub import text
from test_purge import everything

from pc_store.domain.proposal import Answered, Proposal
from pc_store.domain.window import parse_key
from pc_store.errors import (
    CapacityExceeded,
    CursorConflict,
    GenerationEnded,
    InvalidInput,
    ModelUnavailable,
    NotFound,
    RevisionConflict,
    ScopeNotFound,
    WindowRefused,
)
from pc_store.ledger import artifacts, generations
from pc_store.services import extract, instruct, promote, recover
from pc_store.services.ask import ask
from pc_store.services.begin import open_named
from pc_store.services.clock import now_us
from pc_store.services.extract import MEMORY
from pc_store.services.purge import purge

NAME = "prompt-2"
KEY = "AKIA" + "Q" * 16


class Author:
    """Proposes what a test says: revisions by the entry's present text, and additions."""

    provider = "script"

    def __init__(self, *, model="one"):
        self.model = model
        self.answers = []
        self.before = lambda: None

    def says(self, *adds, **revisions):
        """The next answer: adds are (text, evidence id), revisions text=(new text, evidence id)."""
        self.answers.append((adds, revisions.get("revise", ())))

    def propose(self, evidence, entries, *, policy):
        del policy
        self.before()
        known = {item.evidence_id for item in evidence}
        by_text = {entry.text: entry.entry_id for entry in entries}
        adds, revisions = self.answers.pop(0)
        proposals = [
            Proposal("revise", "fact", new, cites, by_text[old]) for old, new, *cites in revisions
        ] + [Proposal("add", "fact", new, cites) for new, *cites in adds]
        proposals = [replace(one, evidence_ids=tuple(one.evidence_ids)) for one in proposals]
        assert all(known >= set(one.evidence_ids) for one in proposals)
        return Answered(tuple(proposals))


@pytest.fixture
def author():
    return Author()


@pytest.fixture
def filled(rig, author):
    """Six sources, each of them an entry, in two processed windows; then the author proposes."""
    fill(rig, author)
    return rig


def fill(rig, author):
    rig.put_facts(6)
    rig.flush_until_idle()
    rig.author = author


def shadow(rig, first, last, *, name=NAME, mode="shadow"):
    key = parse_key(f"{SCOPE}@{first:08d}-{last:08d}")
    return extract.replay(rig.db, rig.settings, rig.author, key, mode=mode, generation=name)


def memory(rig):
    """All that a memory is: head, changes, entries, cursor, and the rows of its revisions."""
    with rig.db.read() as conn:
        made = artifacts.revisions(conn, SCOPE, "memory", "memory", limit=100)
    return rig.head(), rig.changes(), rig.entries(), rig.cursor(), made


def diffed(rig, name=NAME):
    """(what, text, text before, source ids, why) of each item."""
    return [
        (
            item.what,
            item.text,
            item.before.text if item.before else None,
            tuple(ref.source_id for ref in item.sources),
            item.why,
        )
        for item in promote.diff(rig.db, SCOPE, name).items
    ]


def promoted(rig, name=NAME, **more):
    return promote.promote(rig.db, rig.settings, SCOPE, name, now_us=now_us(), **more)


# Replaying into a generation


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


def test_the_diff_is_what_the_memory_would_become(filled, author):
    filled.remember("By hand.")
    author.says(("New.", "e2"), (fact(4), "e3"), (fact(3), "e3"), revise=[(fact(1), "One.", "e2")])
    shadow(filled, 1, 3)
    assert diffed(filled) == [
        ("revised", "One.", fact(1), ("s1", "s2"), None),
        ("seen again", fact(4), fact(4), ("s3", "s4"), None),
        ("added", "New.", None, ("s2",), None),
        ("no longer proposed", fact(2), fact(2), ("s2",), None),
    ]
    found = promote.diff(filled.db, SCOPE, NAME)
    assert (found.head, found.unchanged, found.generation.windows) == (3, 1, 1)
    assert found.counts == {
        "revised": 1,
        "seen again": 1,
        "added": 1,
        "left out": 0,
        "no longer proposed": 1,
    }


def test_a_promotion_equals_the_direct_replay_of_an_unchanged_memory(new_rig):
    made = []
    for direct in (True, False):
        rig, author = new_rig(), Author()
        fill(rig, author)
        rig.retire(fact(5))
        author.says(("New.", "e2"), (fact(4), "e3"), revise=[(fact(1), "One.", "e2")])
        author.says((fact(5), "e2"), ("Newer.", "e3"), ("New.", "e1"))
        for first, last in ((1, 3), (4, 6)):
            if direct:
                key = parse_key(f"{SCOPE}@{first:08d}-{last:08d}")
                extract.replay(rig.db, rig.settings, author, key)
            else:
                shadow(rig, first, last)
        if not direct:
            done = promoted(rig, reason="looks right")
        made.append(rig.entries())
    assert made[0] == made[1]
    assert ("fact", "New.", ("s2", "s4")) in made[1]

    assert (done.row.status, done.row.memory_revision, done.drafts) == ("promoted", 4, 0)
    assert done.row.outcome == {
        "added": 2,
        "revised": 1,
        "seen_again": 1,
        "left_out": [{"entry_id": None, "kind": "fact", "why": "equal to a retired entry"}],
    }
    with rig.db.read() as conn:
        revision = artifacts.revision(conn, SCOPE, "memory", "memory", 4)
    assert (revision.origin, revision.reason) == ("replay", f"generation {NAME}: looks right")
    assert [name for _, name, _ in rig.lineage(4)] == ["s1", "s2", "s3", "s4", "s5", "s6"]
    assert rig.offending() == {}


def test_a_scopes_own_prompt_is_in_the_lineage_of_the_promotion(filled, author):
    instruct.set_prompt(filled.db, SCOPE, "memory.extract", "Keep decisions.", now_us=now_us())
    author.says(("New.", "e2"))
    shadow(filled, 1, 3)
    row = promote.read_generation(filled.db, SCOPE, NAME).row
    assert (row.provider, row.model) == ("script", "one")
    assert (row.prompt_key, row.prompt_revision) == ("memory.extract", "scope revision 1")
    promoted(filled)
    assert ("artifact", "memory.extract", 1) in filled.lineage(3)


# One generation, one prompt and one model; each window once


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
    assert KEY not in everything(filled.db)
    assert [item["rule"] for item in filled.last().rejects] == ["no_secret_in_text"]
    assert promote.read_generation(filled.db, SCOPE, NAME).drafts == 1


# The memory moves between the replay and the promotion


def test_entries_that_moved_are_named_and_left_out(filled, author):
    author.says(("New.", "e1"), revise=[(fact(n), f"Revised {n}.", f"e{n}") for n in (1, 2, 3)])
    shadow(filled, 1, 3)
    filled.revise(filled.cited(fact(1)), "Fact 1 is over.")
    filled.retire(fact(2))
    filled.remember("New.")
    assert diffed(filled) == [
        ("revised", "Revised 3.", fact(3), ("s3",), None),
        ("seen again", "New.", "New.", ("s1",), None),
        ("left out", "Revised 1.", "Fact 1 is over.", ("s1",), "changed since it was shown"),
        ("left out", "Revised 2.", fact(2), ("s2",), "retired since it was shown"),
    ]
    looked_at = promote.diff(filled.db, SCOPE, NAME).head
    filled.remember("And on it goes.")
    with pytest.raises(RevisionConflict) as caught:
        promoted(filled, expected_revision=looked_at)
    assert caught.value.details == {"expected": looked_at, "current": looked_at + 1}
    done = promoted(filled, expected_revision=looked_at + 1)
    assert [one["why"] for one in done.row.outcome["left_out"]] == [
        "changed since it was shown",
        "retired since it was shown",
    ]
    assert (done.row.outcome["revised"], done.row.outcome["seen_again"]) == (1, 1)
    assert sorted(filled.texts()) == sorted(
        [
            "Fact 1 is over.",
            "Revised 3.",
            *(fact(n) for n in (4, 5, 6)),
            "New.",
            "And on it goes.",
        ]
    )
    assert filled.offending() == {}


def test_retired_purged_and_revised_texts_never_come_back(filled, author):
    author.says((fact(1), "e1"), (fact(2), "e2"), (fact(3), "e3"), ("Erase me.", "e1"))
    shadow(filled, 1, 3)
    filled.retire(fact(1))
    filled.revise(filled.cited(fact(2)), "Fact 2 is over.")
    erased = filled.remember("Erase me.").entry.entry_id
    purge(filled.db, SCOPE, erased, now_us=now_us())
    assert [(what, text, why) for what, text, _, _, why in diffed(filled)] == [
        ("left out", fact(1), "equal to a retired entry"),
        ("left out", fact(2), "revised since"),
    ]
    head = filled.head()
    done = promoted(filled)
    assert (done.row.memory_revision, filled.head()) == (head, head)
    assert not {fact(1), fact(2), "Erase me."} & set(filled.texts())


def test_windows_that_revise_one_entry_give_it_the_last_text(filled, author):
    author.says(revise=[(fact(1), "By the first.", "e1"), (fact(2), fact(2), "e1")])
    author.says(revise=[(fact(1), "By the second.", "e1"), (fact(2), fact(2), "e2")])
    author.says(revise=[(fact(1), fact(1), "e1")])
    for first, last in ((4, 5), (1, 3), (6, 6)):  # whatever the order: the log's counts
        shadow(filled, first, last)
    assert [item for item in diffed(filled) if item[0] != "no longer proposed"] == [
        ("revised", "By the first.", fact(1), ("s1", "s4"), None),
        ("seen again", fact(2), fact(2), ("s2", "s4"), None),
        ("left out", "By the second.", fact(1), ("s1",), "revised by a later window"),
    ]


# The end of a generation


def test_promoting_again_changes_nothing_and_answers_the_same(filled, author):
    author.says(("New.", "e2"))
    shadow(filled, 1, 3)
    done = promoted(filled)
    before = memory(filled)
    assert promoted(filled, expected_revision=1) == done
    assert memory(filled) == before
    for act in (
        lambda: promote.diff(filled.db, SCOPE, NAME),
        lambda: promote.discard(filled.db, SCOPE, NAME, now_us=now_us()),
        lambda: shadow(filled, 4, 6),
    ):
        with pytest.raises(GenerationEnded) as caught:
            act()
        assert caught.value.details == {"generation": NAME, "status": "promoted"}


def test_a_discarded_generation_keeps_its_row_and_no_text(filled, author):
    author.says(("Zanzibarian.", "e2"))
    shadow(filled, 1, 3)
    before = memory(filled)
    done = promote.discard(filled.db, SCOPE, NAME, now_us=now_us())
    assert (done.row.status, done.windows, done.drafts) == ("discarded", 1, 0)
    assert promote.discard(filled.db, SCOPE, NAME, now_us=now_us()) == done
    assert "Zanzibarian" not in everything(filled.db)
    with pytest.raises(GenerationEnded):
        promoted(filled)
    assert memory(filled) == before


def test_a_generation_that_ends_while_a_window_is_asked_takes_nothing_of_it(filled, author):
    author.says(("New.", "e2"))
    author.before = lambda: promote.discard(filled.db, SCOPE, NAME, now_us=now_us())
    with pytest.raises(CursorConflict, match="is superseded already"):
        shadow(filled, 1, 3)
    assert filled.last().status == "superseded"
    assert (filled.drafts(), "New." in everything(filled.db)) == (0, False)


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
    assert "New." not in everything(filled.db)


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
    assert "One, erased." not in everything(filled.db)


def test_a_promotion_that_the_memory_has_no_room_for_writes_nothing(filled, author):
    author.says(("New.", "e2"))
    shadow(filled, 1, 3)
    before = memory(filled)
    filled.settings = filled.settings.model_copy(update={"memory_max_active_entries": 6})
    with pytest.raises(CapacityExceeded):
        promoted(filled)
    assert (memory(filled), promote.read_generation(filled.db, SCOPE, NAME).drafts) == (before, 1)


def test_a_promotion_releases_sources_in_quarantine(rig, author):
    rig.put("Fact 1 holds. POISON.")
    rig.stub.whenever("POISON", text("no"))
    rig.fails(window_max_attempts=1)
    rig.author = author
    author.says((fact(1), "e1"))
    shadow(rig, 1, 1)
    assert len(recover.quarantined(rig.db, limit=10)) == 1
    promoted(rig)
    assert (recover.quarantined(rig.db, limit=10), rig.texts()) == ([], [fact(1)])


def test_what_does_not_exist_is_not_found(filled):
    for act in (promote.diff, promote.read_generation):
        with pytest.raises(NotFound, match="no generation 'none'"):
            act(filled.db, SCOPE, "none")
        with pytest.raises(ScopeNotFound):
            act(filled.db, "nowhere", NAME)
    with pytest.raises(ScopeNotFound):
        promote.promote(filled.db, filled.settings, "nowhere", NAME, now_us=now_us())
