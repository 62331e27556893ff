"""A failure is tracked only if a task outcome among the sources shows it."""

import pytest
from desk import (
    CUE,
    FAILURE,
    NOW,
    SCOPE,
    entry,
    experience,
    failing,
    put,
    put_internal,
    put_outcome,
    refused,
    source,
    tracking,
)
from reviewing import extracted

from pc_store.domain import strict_json
from pc_store.errors import InvalidInput
from pc_store.services import remember


def test_a_failure_needs_an_outcome_that_shows_it(desk):
    act = lambda refs: desk.propose(tracking(), sources=refs)  # noqa: E731
    error = refused(desk.db, InvalidInput, act, [source("s1")])
    assert error.details == {
        "field": "evidence",
        "reason": "no task outcome among the sources has a verified failing item "
        "that equals the cue",
        "rule": "failure",
        "cue_key": "amounts are off by one cent",
    }
    seen = put_outcome(desk.db, "o1", failing("  “ＡＭＯＵＮＴＳ are off\n by one cent!!” "))
    made = act([source("s1"), seen])
    assert (made.cue_key, made.evidence.sources) == (
        "amounts are off by one cent",
        (source("s1"), seen),
    )


OBSERVED = {
    "checks": [],
    "observations": [
        {
            "text": CUE,
            "basis": "verified",
            "evidence": [
                {"kind": "source", "source_ref": {"source_type": "content", "source_id": "log"}}
            ],
        }
    ],
}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (failing(), True),
        (failing(status="succeeded"), True),
        (failing(**OBSERVED), True),
        (failing(**OBSERVED, status="blocked"), True),
        (failing(**OBSERVED, status="partial"), False),
        (failing("another failure"), False),
        (failing(checks=[{"name": CUE, "status": "failed"}]), False),
        (failing("!!!"), False),
        (failing(extra="field"), False),
        ("no JSON", False),
        ("[]", False),
    ],
)
def test_which_outcomes_show_a_failure(desk, value, shown):
    ref = put_outcome(desk.db, "o1", value)
    if shown:
        assert desk.propose(tracking(), sources=[ref]).status == "pending"
    else:
        error = refused(desk.db, InvalidInput, desk.propose, tracking(), sources=[ref])
        assert error.details["rule"] == "failure"


def test_an_item_without_a_letter_is_no_error_and_does_not_hide_the_one_that_matches(desk):
    outcome = failing()
    outcome["checks"] = [outcome["checks"][0] | {"name": "!!!"}, outcome["checks"][0]]
    ref = put_outcome(desk.db, "o1", outcome)
    assert desk.propose(tracking(), sources=[ref]).status == "pending"


def test_only_the_sources_given_count_neither_lineage_nor_roots_nor_other_kinds(desk):
    outcome = put_outcome(desk.db, "o1", failing())
    first = desk.approved(tracking(), sources=[outcome])
    citation = extracted(desk.db, "Cents.", outcome)
    plain = put(desk.db, "plain", content=strict_json.dumps(failing()))
    for evidence in (
        {"artifacts": [first]},
        {"citations": [citation]},
        {"sources": [plain]},
    ):
        error = refused(desk.db, InvalidInput, desk.propose, tracking(), **evidence)
        assert error.details["rule"] == "failure"
    with pytest.raises(InvalidInput, match="no task outcome"):
        desk.update(first, tracking(lesson="Success only."), sources=[source("s1")])
    kept = tracking(lesson="x")
    assert desk.update(first, kept, sources=[outcome]).proposal == kept


def test_changing_only_the_repair_surface_needs_the_failing_outcome_again(desk):
    outcome = put_outcome(desk.db, "o1", failing())
    first = desk.approved(tracking(), sources=[outcome])
    changed = experience(failure=FAILURE | {"repair_surface": "working_state"})
    refused(desk.db, InvalidInput, desk.update, first, changed, sources=[source("s1")])
    assert desk.update(first, changed, sources=[outcome]).proposal == changed


def test_the_items_own_evidence_must_be_there(desk):
    named = {
        "source": {"kind": "source", "source_ref": {"name": "content", "source_id": "gone"}},
        "own": {"kind": "source", "source_ref": {"name": "content", "source_id": "own"}},
        "artifact": {
            "kind": "artifact",
            "artifact_ref": {"family": "experience", "artifact_id": "exp_none", "revision": 1},
        },
        "memory": {
            "kind": "memory",
            "memory_citation": {
                "memory_ref": {"family": "memory", "artifact_id": "memory", "revision": 1},
                "entry_id": "mem_ent_none",
                "entry_version_id": "mem_ver_none",
            },
        },
    }
    put_internal(desk.db, "own")
    told = {}
    for name, evidence in named.items():
        ref = put_outcome(desk.db, f"o-{name}", failing(evidence=[evidence]))
        act = lambda ref=ref: desk.propose(tracking(), sources=[ref])  # noqa: E731
        told[name] = refused(desk.db, InvalidInput, act).reason
    start = "the failing item that equals the cue has evidence that cannot be used: check 0 of "
    assert told == {
        "source": f"{start}'o-source' relies on: source_refs: "
        "there is no source 'gone' of type 'content'",
        "own": f"{start}'o-own' relies on: source_refs: "
        "the source 'own' of type 'content' is the store's own record",
        "artifact": f"{start}'o-artifact' relies on: artifact_refs: "
        "there is no experience/exp_none revision 1",
        "memory": f"{start}'o-memory' relies on: memory_citations: "
        "the memory entry mem_ent_none of revision 1 is not in that revision",
    }
    put(desk.db, "gone")
    assert desk.propose(tracking(), sources=[source("o-source")]).status == "pending"


def test_an_item_that_relies_on_a_retired_entry_does_not_count(desk):
    cited = entry(desk.db).citation
    evidence = {
        "kind": "memory",
        "memory_citation": {
            "memory_ref": vars(cited.memory),
            "entry_id": cited.entry_id,
            "entry_version_id": cited.entry_version_id,
        },
    }
    ref = put_outcome(desk.db, "o1", failing(evidence=[evidence]))
    assert desk.propose(tracking(), sources=[ref]).status == "pending"
    remember.retire(desk.db, SCOPE, cited, now_us=NOW)
    error = refused(desk.db, InvalidInput, desk.propose, tracking(), sources=[ref])
    assert error.reason.endswith("is retired now")
