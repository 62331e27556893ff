"""Outcomes and receipts as a client records them: what is refused, and what is the same again."""

import pytest
from recurrence_rig import CUE, SCOPE, check, late, seen, told

from pc_store.domain.refs import ArtifactRef
from pc_store.domain.source import ineligible
from pc_store.errors import InvalidInput, ScopeNotFound, SourceConflict
from pc_store.services import capture, outcomes
from pc_store.services.read_memory import cite
from pc_store.services.remember import reactivate, remember, retire


def test_an_outcome_is_refused_for_what_is_not_there(ledger):
    for value, field in (
        (told(checks=[check(CUE, evidence=late("gone"))]), "outcome.checks[0].evidence[0]"),
        (
            told(observations=[seen("x"), seen("y", late("gone"))]),
            "outcome.observations[1].evidence[0]",
        ),
        (told(receipt="gone"), "outcome.handoff_receipt_ref"),
        (told(receipt="log"), "outcome.handoff_receipt_ref"),
        (told() | {"status": "done"}, "outcome.status"),
        (told() | {"observations": []}, "outcome.observations"),
        ("text", "outcome"),
    ):
        with pytest.raises(InvalidInput) as refused:
            outcomes.record_outcome(ledger.db, SCOPE, "o", value, now_us=1)
        assert refused.value.field == field, value
    with pytest.raises(ScopeNotFound):
        outcomes.record_outcome(ledger.db, "nowhere", "o", told(), now_us=1)
    assert ledger.end() == 1


def test_an_outcome_again_is_the_same_and_another_a_conflict(ledger):
    first = outcomes.record_outcome(ledger.db, SCOPE, "o", told(), now_us=1)
    assert outcomes.record_outcome(ledger.db, SCOPE, "o", told(), now_us=2) == first
    with pytest.raises(SourceConflict):
        outcomes.record_outcome(ledger.db, SCOPE, "o", told(status="blocked"), now_us=3)
    with pytest.raises(SourceConflict):
        outcomes.record_outcome(ledger.db, SCOPE, "log", told(), now_us=3)


def test_an_outcome_again_is_the_same_even_when_its_evidence_is_gone(ledger):
    entry = remember(ledger.db, SCOPE, kind="fact", text="Cents.", now_us=ledger.tick()).entry
    cited = {
        "memory_ref": vars(entry.citation.memory),
        "entry_id": entry.citation.entry_id,
        "entry_version_id": entry.citation.entry_version_id,
    }
    value = told(checks=[check(CUE, evidence=[{"kind": "memory", "memory_citation": cited}])])
    first = outcomes.record_outcome(ledger.db, SCOPE, "o", value, now_us=1)
    retire(ledger.db, SCOPE, entry.citation, now_us=ledger.tick())
    assert outcomes.record_outcome(ledger.db, SCOPE, "o", value, now_us=2) == first
    with pytest.raises(InvalidInput):
        outcomes.record_outcome(ledger.db, SCOPE, "another", value, now_us=3)
    ref = ledger.experience()
    ledger.raw(value, "captured")
    ledger.run()
    assert ledger.streak(ref) == 0
    late = [row for row in ledger.matches().values() if row.result == "pending"]
    assert [row.note.split()[0] for row in late] == ["memory", "memory"]
    again = cite(ledger.db, SCOPE, entry.citation.entry_id)
    reactivate(ledger.db, SCOPE, again.citation, now_us=ledger.tick())
    ledger.capture("noise", "Something that lets the ledger be run.")
    ledger.run()
    assert ledger.streak(ref) == 1, "what an outcome relied on is there again"


def test_a_receipt_is_refused_for_what_does_not_exist_or_is_taken(ledger):
    ref = ledger.experience()
    for refs, field in (
        ([], "experiences"),
        ([ref, ArtifactRef("experience", ref.artifact_id, 2)], "experiences[1]"),
        ([ArtifactRef("experience", "nothing", 1)], "experiences[0]"),
        ([ArtifactRef("experience", f"e{n}", 1) for n in range(33)], "experiences"),
    ):
        with pytest.raises(InvalidInput) as refused:
            outcomes.record_receipt(ledger.db, SCOPE, "r", refs, now_us=1)
        assert refused.value.field == field
    first = outcomes.record_receipt(ledger.db, SCOPE, "r", [ref, ref], now_us=1)
    assert outcomes.record_receipt(ledger.db, SCOPE, "r", [ref], now_us=2) == first
    for name, note in (("r", "another note"), ("log", None)):
        with pytest.raises(SourceConflict):
            outcomes.record_receipt(ledger.db, SCOPE, name, [ref], note=note, now_us=3)
    held = capture.read_source(ledger.db, SCOPE, "content", "r")
    assert (held.role, held.internal, held.structured) == ("receipt", False, True)
    assert ineligible(held, now_us=9) == "receipt", "it is not shown to the memory model"


def test_a_captured_twin_of_a_receipt_is_never_taken_for_one(ledger):
    ref = ledger.experience()
    position = ledger.receipt(ref, name="real")
    real = capture.read_source(ledger.db, SCOPE, "content", "real")
    ledger.capture("twin", real.content, dict(real.metadata))
    with ledger.db.read() as conn:
        assert outcomes.cited_by_receipt(conn, SCOPE, real.ref) == outcomes.Receipt(
            position, (ref,)
        )
        assert isinstance(
            outcomes.cited_by_receipt(conn, SCOPE, type(real.ref)("content", "twin")), str
        )
    with pytest.raises(SourceConflict):
        outcomes.record_receipt(ledger.db, SCOPE, "twin", [ref], now_us=9)


def test_the_body_of_a_receipt_is_what_its_route_takes(ledger):
    ref = ledger.experience()
    memory = ArtifactRef("memory", "memory", 1)
    assert outcomes.receipt_body(SCOPE, "r", [ref, memory, ref], note="n") == {
        "scope_id": SCOPE,
        "receipt_id": "r",
        "experiences": [{"family": "experience", "artifact_id": ref.artifact_id, "revision": 1}],
        "note": "n",
    }
