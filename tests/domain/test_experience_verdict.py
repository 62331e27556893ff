"""What is kept of proposed experiences, and which rule the others break."""

from dataclasses import replace

import pytest

from pc_store.domain import strict_json
from pc_store.domain.experience import parse
from pc_store.domain.experience_proposal import ExperienceProposal, cues_of
from pc_store.domain.experience_verdict import (
    EXPERIENCE_CHECKS,
    ExperienceDraft,
    experience_check_of,
    judge_experiences,
)
from pc_store.domain.proposal import Rejected
from pc_store.domain.refs import SourceRef
from pc_store.domain.verdict import SECRET, Verdict

EVIDENCE = {f"e{number}": SourceRef("content", f"s{number}") for number in range(1, 41)}
FIELDS = {"situation": "One.", "action": "Two.", "outcome": "Three.", "lesson": "Four."}
PLAIN = ExperienceProposal(parse(FIELDS), ("e1",))
TRACKING = ExperienceProposal(
    parse(
        FIELDS
        | {
            "failure": {
                "signature": {"recall_cue": "  Amounts ARE off. ", "symptom": None},
                "repair_surface": "working_state",
                "verification": {"condition": "it ran", "check_subject": "amounts"},
            }
        }
    ),
    ("e1", "e2"),
)
KEY = "AKIA" + "ABCDEFGHIJKLMNOP"


def verdict(*proposals, cues=None, refuse_secrets=True):
    return judge_experiences(
        proposals, evidence=EVIDENCE, cues=cues or {}, refuse_secrets=refuse_secrets
    )


def rejected(proposal, **options):
    found = verdict(proposal, **options)
    assert found.kept == []
    (one,) = found.rejected
    return one.rule, one.reason


def test_good_proposals_become_drafts_with_their_sources_in_order_and_their_number():
    assert verdict(PLAIN, replace(PLAIN, evidence_ids=("e3", "e1", "e3"))) == Verdict(
        kept=[
            ExperienceDraft(1, PLAIN.content, (EVIDENCE["e1"],)),
            ExperienceDraft(2, PLAIN.content, (EVIDENCE["e3"], EVIDENCE["e1"])),
        ]
    )


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        ((), "evidence_ids: is empty"),
        (tuple(EVIDENCE)[:33], "evidence_ids: has 33, the most is 32"),
        (("e1", "e99"), "evidence_ids: 'e99' was not shown"),
        (("x" * 50,), f"evidence_ids: {'x' * 40!r} was not shown"),
    ],
)
def test_evidence_must_have_been_shown(ids, reason):
    assert rejected(replace(PLAIN, evidence_ids=ids)) == ("evidence_ids_resolve", reason)


def test_evidence_cited_twice_counts_once():
    ids = tuple(EVIDENCE)[:32]
    assert len(verdict(replace(PLAIN, evidence_ids=ids * 2)).kept) == 1


@pytest.mark.parametrize("cues", [{"e2": ["amounts are off"]}, {"e1": ("x", "amounts are off")}])
def test_a_failure_is_supported_by_any_record_that_is_cited(cues):
    assert len(verdict(TRACKING, cues=cues).kept) == 1


@pytest.mark.parametrize(
    "cues", [{}, {"e1": ["amounts"]}, {"e3": ["amounts are off"]}, {"e1": ["Amounts are off"]}]
)
def test_a_failure_that_no_cited_record_verifies_is_rejected(cues):
    rule, reason = rejected(TRACKING, cues=cues)
    assert rule == "failures_are_supported"
    assert "off" not in reason


def test_a_secret_is_dropped_and_is_no_fault():
    told = parse(FIELDS | {"action": f"The key {KEY} was used."})
    found = verdict(replace(PLAIN, content=told), PLAIN)
    assert found.rejected == [
        Rejected(1, SECRET, "proposal: contains a credential: AWS access key")
    ]
    assert found.faults == []
    assert [one.ordinal for one in found.kept] == [2]
    assert len(verdict(replace(PLAIN, content=told), refuse_secrets=False).kept) == 1


def test_a_secret_in_a_failure_is_found_as_well():
    content = TRACKING.content.to_json()
    content["failure"]["verification"]["condition"] = f"{KEY} was read"
    cues = {"e1": ["amounts are off"]}
    assert rejected(replace(TRACKING, content=parse(content)), cues=cues)[0] == SECRET


@pytest.mark.parametrize(
    ("rule", "check"),
    [
        ("evidence-unknown", "evidence_ids_resolve"),
        ("failure-unsupported", "failures_are_supported"),
        ("content-malformed", "every_proposal_is_well_formed"),
        ("missing", "every_proposal_is_well_formed"),
    ],
)
def test_every_rule_of_the_edge_shows_under_a_check(rule, check):
    assert experience_check_of(rule) == check
    assert check in EXPERIENCE_CHECKS


# Proposals


def test_proposals_are_the_same_by_content_and_set_of_evidence():
    one, other = (
        replace(PLAIN, evidence_ids=("e1", "e2")),
        replace(PLAIN, evidence_ids=("e2", "e1")),
    )
    assert one.subject == other.subject
    assert one.subject != PLAIN.subject
    assert one.subject != replace(one, content=parse(FIELDS | {"lesson": "Five."})).subject
    assert PLAIN.citing(["e4"]) == replace(PLAIN, evidence_ids=("e4",))


def item(name, status, *, verified=True, **more):
    seen = [{"kind": "source", "source_ref": {"source_type": "content", "source_id": "l"}}]
    basis = {"basis": "verified", "evidence": seen} if verified else {}
    return {"name": name, "status": status, **basis, **more}


def test_cues_are_the_normalised_texts_of_verified_failing_items_each_once():
    content = strict_json.dumps(
        {
            "objective": "o",
            "status": "succeeded",
            "summary": "s",
            "observations": [{"text": "seen"}],
            "checks": [
                item(" Amounts  are OFF! ", "failed"),
                item("amounts are off", "timed_out"),
                item("!!!", "failed"),
                item("declared", "failed", verified=False),
                item("ran", "passed"),
                item("network", "unavailable"),
            ],
        }
    )
    assert cues_of(content) == ("amounts are off", "network")


@pytest.mark.parametrize("content", ["", "no outcome", "[]", "{}", '{"objective": 1}', "{" * 100])
def test_other_texts_have_no_cues(content):
    assert cues_of(content) == ()
