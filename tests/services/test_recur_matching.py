"""Which experience an outcome counts for, and which ones it must not touch."""

import sqlalchemy as sa
from recurrence_rig import CHECK, CUE, SCOPE, avoiding, check, content, told

from pc_store.domain.experience import parse
from pc_store.domain.refs import ArtifactRef
from pc_store.ledger import artifacts, experiences
from pc_store.ledger.schema import artifact_revisions, experience_documents
from pc_store.services.experiences import set_lifecycle


def test_a_failure_linked_to_other_experiences_counts_for_none(ledger):
    ref = ledger.experience()
    other = ledger.experience("Dates are a day late")
    ledger.receipt(other)
    ledger.fails(receipt="receipt-1")
    ledger.run()
    assert (ledger.streak(ref), ledger.verdicts()) == (0, [])


def test_two_heads_with_one_cue_are_ambiguous_unless_a_receipt_cites_one(ledger):
    first, second = ledger.experience(), ledger.experience()
    ledger.receipt(second, name="second")
    ledger.receipt(first, second, name="both")
    apart = ledger.experience("Dates are a day late")
    unlinked = ledger.fails()
    both = ledger.fails(receipt="both")
    linked = ledger.fails(receipt="second")
    good = ledger.outcome(avoiding("both"))
    elsewhere = ledger.fails("Dates are a day late")
    ledger.run()
    results = {position: result for (position, _, _), result in ledger.results().items()}
    assert (results[unlinked], results[both]) == ("ambiguous", "ambiguous")
    founding = 3
    assert sorted(ledger.verdicts()) == sorted(
        [
            (founding, "recurred", first.artifact_id, 1),  # of the second, after the first
            (linked, "recurred", second.artifact_id, 1),
            *((good, "avoided", ref.artifact_id, 1) for ref in (first, second)),
            (elsewhere, "recurred", apart.artifact_id, 1),
        ]
    )


def test_an_ambiguous_failure_does_not_stop_an_avoidance(ledger):
    first, second = ledger.experience(), ledger.experience()
    ledger.receipt(first, second)
    both = avoiding("receipt-1", checks=[check(CHECK, "passed"), check(CUE)])
    at = ledger.outcome(both)
    ledger.run()
    events = [event for position, event, _, _ in ledger.verdicts() if position == at]
    assert events == ["avoided", "avoided"]


def test_only_active_heads_are_matched_without_a_receipt(ledger):
    ref = ledger.experience()
    set_lifecycle(ledger.db, SCOPE, ref, state="deprecated", reason="wrong", now_us=ledger.tick())
    ledger.fails()
    ledger.run()
    assert ledger.verdicts() == []
    set_lifecycle(ledger.db, SCOPE, ref, state="active", reason="right", now_us=ledger.tick())
    ledger.run()
    assert ledger.verdicts() == [], "what was decided is frozen"
    ledger.fails()
    ledger.run()
    assert ledger.streak(ref) == 1


def test_one_bad_experience_stops_no_other(ledger):
    good = ledger.experience()
    blank = ledger.experience("Dates are a day late")
    with ledger.db.write() as conn:
        broken = content() | {
            "failure": content()["failure"] | {"signature": {"recall_cue": "!!!", "symptom": None}}
        }
        conn.execute(
            sa.update(artifact_revisions)
            .where(artifact_revisions.c.artifact_id == blank.artifact_id)
            .values(content=broken)
        )
        conn.execute(
            sa.update(experience_documents)
            .where(experience_documents.c.artifact_id == blank.artifact_id)
            .values(cue_key="")
        )
    ledger.receipt(good, blank)
    ledger.outcome(told(checks=[check("!!!"), check("…"), check(CUE)]))
    ledger.fails("Dates are a day late")
    ledger.outcome(told(checks=[check("!!!"), check(CUE)], receipt="receipt-1"))
    ledger.run()
    assert {row[2] for row in ledger.verdicts()} == {good.artifact_id}
    assert ledger.streak(good) == 2


def test_a_cue_that_grows_under_normalisation_is_told_apart_and_reviewed(ledger):
    cue = "ﷺ" * 500
    ref = ledger.experience(cue)
    for _ in range(3):
        ledger.fails(cue)
    ledger.run()
    [review] = ledger.review()
    assert review.done == "opened"
    [made] = ledger.reviews()
    assert len(made.reason) < 2_000
    assert made.target == ref


def test_lookalikes_are_told_apart(ledger):
    ref = ledger.experience()
    ledger.fails(CUE.replace("A", "\u0410"))  # Cyrillic
    ledger.fails("Amounts off by one  cent s")
    ledger.fails("ｆｕｌｌｗｉｄｔｈ " + CUE)
    ledger.run()
    assert ledger.streak(ref) == 0
    assert sorted(ledger.results().values()) == ["unmatched"] * 4


def test_revisions_that_nobody_approved_have_only_their_lineage(ledger):
    with ledger.db.write() as conn:
        artifacts.ensure(conn, SCOPE, "experience", "exp_direct", now_us=1)
        artifacts.commit(
            conn,
            SCOPE,
            "experience",
            "exp_direct",
            expected=0,
            content=content(),
            reason=None,
            origin="explicit",
            window_id=None,
            now_us=1,
        )
        ref = ArtifactRef("experience", "exp_direct", 1)
        experiences.put_document(
            conn, SCOPE, ref, parse(content()), terms="", terms_version="t", now_us=1
        )
    ledger.fails()
    ledger.run()
    assert ledger.streak(ref) == 1
