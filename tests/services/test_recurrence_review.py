"""Reviews of failures that keep coming back: one each, that grows, and holds up nothing."""

import pytest
import sqlalchemy as sa
from recurrence_rig import CUE, SCOPE, Ledger, avoiding, check, make_ledger, told

from pc_store.errors import NotFound, UnchangedProposal
from pc_store.ledger.schema import lineage, recurrence_streaks
from pc_store.services import recurrence_review, review
from pc_store.services.experiences import set_lifecycle
from pc_store.services.remember import remember, retire
from pc_store.services.void import void


def letters(ledger: Ledger, pattern: str, **more) -> None:
    """Record recurrences (R) and avoidances (A), settling after each."""
    for letter in pattern:
        ledger.fails(**more) if letter == "R" else ledger.outcome(avoiding("receipt-1"))
        ledger.settle()


def reject(ledger: Ledger, candidate) -> None:
    review.reject(
        ledger.db,
        SCOPE,
        candidate.candidate_id,
        expected_version=candidate.version,
        reason="not the experience's fault",
        now_us=ledger.tick(),
    )


def test_the_review_is_a_copy_that_has_to_be_changed(ledger):
    ref = ledger.experience()
    letters(ledger, "RRR")
    [made] = ledger.reviews()
    with pytest.raises(UnchangedProposal):
        ledger.approve(made)
    assert ledger.approve(ledger.change(made)).revision == ref.revision + 1


def test_after_a_rejection_it_takes_another_full_threshold(ledger):
    ref = ledger.experience()
    letters(ledger, "RRRR")
    [first] = ledger.reviews()
    reject(ledger, first)
    letters(ledger, "RR")
    assert [one.status for one in ledger.reviews()] == ["rejected"]
    letters(ledger, "R")
    assert [one.status for one in ledger.reviews()] == ["rejected", "pending"]
    second = ledger.reviews()[1]
    assert len(second.evidence.sources) == 7, "all of the streak"
    assert ledger.streak(ref) == 7
    letters(ledger, "R")
    assert [one.version for one in ledger.reviews()] == [2, 2]


def test_an_avoidance_between_starts_the_count_anew_and_leaves_an_open_review(ledger):
    ref = ledger.experience()
    ledger.receipt(ref)
    letters(ledger, "RRAR")
    assert ledger.reviews() == []
    letters(ledger, "RRA")
    [made] = ledger.reviews()
    assert (made.status, len(made.evidence.sources), ledger.streak(ref)) == ("pending", 3, 0)
    letters(ledger, "R")
    [made] = ledger.reviews()
    assert (made.version, len(made.evidence.sources)) == (2, 4)
    assert "1 in a row, 6 since the approval" in made.reason


def test_drained_at_once_it_is_the_review_that_it_is_one_by_one(ledger):
    ref = ledger.experience()
    ledger.receipt(ref)
    for letter in "RRRARRA":
        ledger.fails() if letter == "R" else ledger.outcome(avoiding("receipt-1"))
    assert [one.done for one in ledger.settle()] == ["opened", "grown"]
    [made] = ledger.reviews()
    assert (len(made.evidence.sources), ledger.streak(ref)) == (5, 0)


def test_a_review_holds_the_latest_outcomes_that_there_is_room_for(ledger):
    ledger.experience()
    for _ in range(40):
        ledger.fails()
    ledger.settle()
    [made] = ledger.reviews()
    named = [ref.source_id for ref in made.evidence.sources]
    assert named == [f"outcome-{number}" for number in range(12, 43)]
    assert "40 in a row" in made.reason
    letters(ledger, "R")
    [made] = ledger.reviews()
    assert [ref.source_id for ref in made.evidence.sources] == [
        f"outcome-{number}" for number in range(13, 44)
    ]


def test_what_people_wrote_into_an_open_review_stays(ledger):
    ledger.experience()
    letters(ledger, "RRR")
    [made] = ledger.reviews()
    changed = ledger.change(made)
    letters(ledger, "R")
    [grown] = ledger.reviews()
    assert (grown.version, grown.proposal) == (3, changed.proposal)
    assert len(grown.evidence.sources) == 4


@pytest.mark.parametrize("surface", ["working_state", "recall_policy", "acceptance_check"])
def test_other_repair_surfaces_are_counted_and_never_reviewed(ledger, surface):
    ref = ledger.experience(repair_surface=surface)
    letters(ledger, "RRRR")
    assert (ledger.streak(ref), ledger.reviews()) == (4, [])
    assert recurrence_review.due_reviews(ledger.db, now_us=ledger.tick(), limit=9) == []


def test_a_head_that_is_withdrawn_is_reviewed_once_it_is_back(ledger):
    ref = ledger.experience()
    for _ in range(3):
        ledger.fails()
    ledger.run()
    set_lifecycle(ledger.db, SCOPE, ref, state="deprecated", reason="?", now_us=ledger.tick())
    assert ledger.review() == []
    set_lifecycle(ledger.db, SCOPE, ref, state="active", reason="!", now_us=ledger.tick())
    assert [one.done for one in ledger.review()] == ["opened"]


def test_a_review_that_cannot_be_opened_says_why_and_holds_up_nothing(ledger):
    entry = remember(
        ledger.db, SCOPE, kind="fact", text="Cents are integers.", now_us=ledger.tick()
    ).entry
    blocked = ledger.experience()
    other = ledger.experience("Dates are a day late")
    with ledger.db.write() as conn:
        conn.execute(
            sa.insert(lineage).values(
                scope_id=SCOPE,
                family="experience",
                artifact_id=blocked.artifact_id,
                revision=1,
                ordinal=9,
                kind="citation",
                ref={
                    "memory_ref": vars(entry.citation.memory),
                    "entry_id": entry.citation.entry_id,
                    "entry_version_id": entry.citation.entry_version_id,
                },
            )
        )
    retire(ledger.db, SCOPE, entry.citation, now_us=ledger.tick())
    for _ in range(3):
        ledger.fails()
        ledger.fails("Dates are a day late")
    told_of = {one.artifact_id: one for one in ledger.settle()}
    assert told_of[other.artifact_id].done == "opened"
    assert told_of[blocked.artifact_id].done == "blocked"
    assert "retired" in told_of[blocked.artifact_id].why
    assert ledger.row(blocked).blocked == told_of[blocked.artifact_id].why
    assert [one.target for one in ledger.reviews()] == [other]
    assert ledger.streak(blocked) == 3

    def due(after_s: int) -> list[str]:
        now = ledger.tick() + after_s * 1_000_000
        return recurrence_review.due_reviews(ledger.db, now_us=now, limit=9)

    assert (due(0), due(3_700)) == ([], [SCOPE])
    letters(ledger, "R")
    assert ledger.streak(blocked) == 4


def test_the_threshold_can_be_set(db):
    ledger = make_ledger(db, recurrence_threshold=2)
    ledger.experience()
    letters(ledger, "R")
    assert ledger.reviews() == []
    letters(ledger, "R")
    assert len(ledger.reviews()) == 1


def test_no_model_is_needed(db):
    ledger = make_ledger(
        db, llm_provider="openai", llm_base_url="http://127.0.0.1:9/v1", llm_model="down"
    )
    ref = ledger.experience()
    letters(ledger, "RRR")
    assert (ledger.streak(ref), len(ledger.reviews())) == (3, 1)


def events(ledger: Ledger) -> dict[int, str]:
    from pc_store.ledger import recurrences

    with ledger.db.read() as conn:
        found = recurrences.events_between(conn, SCOPE, after=0, through=ledger.end())
    return {one.position: one.event_id for one in found}


def test_a_verdict_is_taken_back_and_all_is_counted_again(ledger):
    ref = ledger.experience()
    ledger.receipt(ref)
    places = []
    for letter in "RARR":
        places.append(ledger.fails() if letter == "R" else ledger.outcome(avoiding("receipt-1")))
    ledger.settle()
    found = events(ledger)

    def take_back(position: int) -> int:
        _, streak = void(
            ledger.db,
            ledger.settings,
            SCOPE,
            found[position],
            reason="the run was a rehearsal",
            now_us=ledger.tick(),
        )
        return streak

    assert ledger.reviews() == []
    assert take_back(places[1]) == 3, "without the avoidance there are three in a row"
    assert [one.done for one in ledger.review()] == ["opened"]
    assert take_back(places[3]) == 2
    assert take_back(places[3]) == 2, "twice changes nothing"
    row = ledger.row(ref)
    assert (row.recurred, row.avoided, row.last_position) == (2, 0, places[2])
    assert ledger.record(0, ledger.end()).recurred == 0
    assert ledger.streak(ref) == 2, "a replay does not bring it back"
    assert [one.status for one in ledger.reviews()] == ["pending"]
    voided = [row for row in ledger.ledger()["recurrence_events"] if row[3] == "voided"]
    assert len(voided) == 2


def test_only_a_verdict_can_be_taken_back(ledger):
    ref = ledger.experience()
    ledger.receipt(ref)
    ledger.outcome(told(receipt="receipt-1"))
    ledger.run()
    [selected] = [row[1] for row in ledger.ledger()["recurrence_events"]]
    for event_id in (selected, "nothing"):
        with pytest.raises(NotFound):
            void(ledger.db, ledger.settings, SCOPE, event_id, reason="x", now_us=1)


def test_two_settling_at_once_open_one_review(ledger):
    from concurrent.futures import ThreadPoolExecutor

    ledger.experience()
    for _ in range(5):
        ledger.fails()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: ledger.settle(), range(8)))
    [made] = ledger.reviews()
    assert len(made.evidence.sources) == 5
    with ledger.db.read() as conn:
        assert conn.execute(sa.select(recurrence_streaks.c.recurred)).scalar_one() == 5


def test_evidence_that_comes_late_joins_the_open_review(ledger):
    ledger.experience()
    late = [{"kind": "source", "source_ref": {"source_type": "content", "source_id": "run"}}]
    ledger.fails()
    ledger.raw(told(checks=[check(CUE, evidence=late)]), "waits")
    for _ in range(2):
        ledger.fails()
    ledger.settle()
    [made] = ledger.reviews()
    assert len(made.evidence.sources) == 3
    ledger.capture("run", "It failed.")
    assert [one.done for one in ledger.settle()] == ["grown"]
    [made] = ledger.reviews()
    assert "waits" in [ref.source_id for ref in made.evidence.sources]
