"""Why outcomes did or did not count, said so that a person can act on it."""

import pytest
from recurrence_rig import CHECK, CUE, SCOPE, avoiding, check, seen, told

from pc_store.errors import ArtifactNotFound, InvalidInput, ScopeNotFound
from pc_store.services.explain_recurrence import Similar, explain
from pc_store.services.void import void


def explained(ledger, ref, **more):
    return explain(ledger.db, SCOPE, ref.artifact_id, **more)


def test_every_outcome_that_speaks_of_the_failure_says_what_it_counted_for(ledger):
    ref = ledger.experience()
    ledger.receipt(ref)
    late = [{"kind": "source", "source_ref": {"source_type": "content", "source_id": "run"}}]
    other = ledger.experience("Dates are a day late")
    ledger.receipt(other, name="other")
    ledger.fails()
    ledger.outcome(told(checks=[check(CUE, evidence=())]))
    ledger.outcome(told(checks=[check("something else")]))
    ledger.outcome(told(status="succeeded", observations=[seen(CUE)]))
    ledger.raw(told(checks=[check(CUE, evidence=late)]), "waits")
    ledger.fails(receipt="other")
    ledger.outcome(avoiding("receipt-1", checks=[check(CHECK, "skipped")]))
    ledger.outcome(avoiding(None))
    ledger.raw(told(checks=[check(CUE)], receipt="gone"), "unlinked")
    ledger.outcome(avoiding("receipt-1"))
    ledger.run()
    ledger.fails()
    one = explained(ledger, ref)
    assert [(item.verdict, item.streak, item.why) for item in one.items] == [
        (
            None,
            0,
            (
                "check 0 fails and equals the cue, but did not count: "
                f"not {ref.artifact_id} revision 1: "
                "the outcome is among what the revision was made from",
            ),
        ),
        ("recurred", 1, ("check 0 fails, verified, and equals the cue",)),
        (None, 1, ("check 0 equals the cue, but it is declared, not verified",)),
        (None, 1, ("observation 0 equals the cue, but the status is succeeded",)),
        (
            None,
            1,
            (
                "check 0 fails and equals the cue, but its evidence is not there yet: "
                "source content/run",
            ),
        ),
        (
            None,
            1,
            (
                "check 0 fails and equals the cue, but the outcome's receipt does not cite "
                "this revision",
            ),
        ),
        (None, 1, ("no avoidance: the check has the status skipped, passed is expected",)),
        (None, 1, ("no avoidance: the outcome names no receipt",)),
        (
            "recurred",
            2,
            (
                "check 0 fails, verified, and equals the cue",
                "the receipt 'gone' was not in the log before the outcome; "
                "its failures were matched as those of a task without one",
            ),
        ),
        (
            "avoided",
            0,
            (
                "observation 0 shows the condition, check 0 passed, "
                "and the receipt at position 3 cites this revision",
            ),
        ),
        (None, 0, ("not judged yet",)),
    ]
    assert [item.source.source_id for item in one.items if item.pending] == ["waits"]
    assert [position for position, _ in one.waits] == [one.items[4].position]
    assert (one.judged_through, one.tracked.cue_key) == (ledger.end() - 1, CUE.casefold())
    assert (one.counts.streak, one.counts.recurred, one.counts.avoided) == (0, 2, 1)


def test_pages_join_to_the_whole(ledger):
    ref = ledger.experience()
    ledger.receipt(ref)
    for number in range(7):
        ledger.fails() if number % 3 else ledger.outcome(avoiding("receipt-1"))
        ledger.outcome(told(checks=[check("noise")]))
    ledger.run()
    whole = explained(ledger, ref, limit=100)
    assert whole.next_after is None
    items, after = [], 0
    while after is not None:
        page = explained(ledger, ref, after=after, limit=2)
        items += page.items
        after = page.next_after
    assert tuple(items) == whole.items


def test_a_voided_verdict_says_why(ledger):
    ref = ledger.experience()
    ledger.fails()
    ledger.fails()
    ledger.run()
    first = explained(ledger, ref).items[1]
    void(
        ledger.db,
        ledger.settings,
        SCOPE,
        first.event_id,
        reason="a rehearsal",
        now_us=ledger.tick(),
    )
    items = explained(ledger, ref).items[1:]
    assert [(item.verdict, item.voided, item.streak) for item in items] == [
        (None, "a rehearsal", 0),
        ("recurred", None, 1),
    ]


def test_rivals_and_lookalikes_are_named(ledger):
    ref, rival = ledger.experience(), ledger.experience()
    alike = ledger.experience("Amounts off by one cents")
    ledger.experience("Something else altogether")
    ledger.fails()
    ledger.settle()
    one = explained(ledger, ref)
    assert one.same_cue == (rival,)
    assert one.similar == (Similar(alike, "amounts off by one cents", 0.978),)
    assert one.items[-1].why == (
        "check 0 fails and equals the cue, but it could be any of "
        f"{ref.artifact_id} revision 1, {rival.artifact_id} revision 1",
    )


def test_the_review_and_old_revisions_are_told(ledger):
    ref = ledger.experience()
    for _ in range(3):
        ledger.fails()
    ledger.settle()
    assert explained(ledger, ref).review_status == "pending"
    [made] = ledger.reviews()
    head = ledger.approve(ledger.change(made))
    now = explained(ledger, ref)
    assert (now.ref, now.counts, now.items[-1].verdict) == (head, None, None)
    then = explained(ledger, ref, revision=1)
    assert (then.ref, then.head, then.counts.streak) == (ref, head, 3)
    assert then.review_status == "approved"


def test_an_experience_that_tracks_nothing_is_explained_too(ledger):
    from pc_store.domain.candidate import EvidenceRefs
    from pc_store.domain.experience import parse
    from pc_store.domain.refs import SourceRef
    from pc_store.services.propose import propose

    plain = parse({"situation": "s", "action": "a", "outcome": "o", "lesson": "l"})
    evidence = EvidenceRefs(sources=(SourceRef("content", "log"),))
    made = propose(ledger.db, SCOPE, plain, evidence, now_us=ledger.tick())
    one = explained(ledger, ledger.approve(made))
    assert (one.tracked, one.counts, one.items, one.next_after) == (None, None, (), None)


def test_what_does_not_exist_is_refused(ledger):
    ref = ledger.experience()
    for artifact, more in (("nothing", {}), (ref.artifact_id, {"revision": 2})):
        with pytest.raises(ArtifactNotFound):
            explain(ledger.db, SCOPE, artifact, **more)
    with pytest.raises(ScopeNotFound):
        explain(ledger.db, "nowhere", ref.artifact_id)
    with pytest.raises(InvalidInput):
        explained(ledger, ref, limit=0)
