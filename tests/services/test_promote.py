"""A generation compared with the memory, and its promotion into it."""

import pytest
from extraction_rig import SCOPE, fact
from model_stub import text
from shadowing import NAME, Author, diffed, fill, memory, promoted, shadow

from pc_store.domain.window import parse_key
from pc_store.errors import CapacityExceeded, GenerationEnded, RevisionConflict
from pc_store.ledger import artifacts
from pc_store.services import extract, instruct, promote, recover
from pc_store.services.clock import now_us
from pc_store.services.purge import purge


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


# the memory moves between the replay and the promotion


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


# promoted, or not


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
