"""Each proposal is judged by itself and against the others; only the broken ones are rejected."""

from dataclasses import replace

import pytest

from pc_store.domain.entry import Draft
from pc_store.domain.proposal import KINDS, Proposal, Rejected
from pc_store.domain.refs import SourceRef
from pc_store.domain.verdict import CHECKS, Verdict, judge

EVIDENCE = {f"e{number}": SourceRef("content", f"s{number}") for number in range(1, 41)}
ADD = Proposal("add", "fact", "the sky is blue", ("e1",))
REVISE = Proposal("revise", "fact", "the sky is grey", ("e1",), entry_id="mem_ent_1")
KEY = "AKIA" + "ABCDEFGHIJKLMNOP"

WELL_FORMED = "every_proposal_is_well_formed"
CITES = "evidence_ids_resolve"
TARGETS = "revisions_target_shown_entries"
SECRET = "no_secret_in_text"


def verdict(*proposals, shown=("mem_ent_1", "mem_ent_2"), refuse_secrets=True):
    return judge(proposals, evidence=EVIDENCE, shown=shown, refuse_secrets=refuse_secrets)


def test_good_proposals_become_drafts_with_their_sources_in_order():
    proposals = [
        replace(ADD, text="  the sky is blue \n", evidence_ids=("e2", "e1", "e2"), reason=" why "),
        replace(REVISE, kind="decision"),
    ]
    assert verdict(*proposals) == Verdict(
        kept=[
            Draft(
                "add",
                "fact",
                "the sky is blue",
                (EVIDENCE["e2"], EVIDENCE["e1"]),
                None,
                "why",
            ),
            Draft("revise", "decision", "the sky is grey", (EVIDENCE["e1"],), "mem_ent_1"),
        ]
    )


def test_an_empty_answer_is_a_good_one():
    assert verdict() == Verdict([], [])


@pytest.mark.parametrize("kind", KINDS)
def test_each_of_the_five_kinds_is_accepted(kind):
    assert [draft.kind for draft in verdict(replace(ADD, kind=kind)).kept] == [kind]


@pytest.mark.parametrize(
    ("proposal", "rule", "reason"),
    [
        (replace(ADD, intent="retire"), WELL_FORMED, "intent: 'retire' is neither add nor revise"),
        (
            replace(ADD, kind="Fact"),
            WELL_FORMED,
            "kind: is none of fact, preference, decision, constraint, working_note",
        ),
        (replace(ADD, text=" \u3000"), WELL_FORMED, "text: is blank"),
        (
            replace(ADD, text="整" * 2731),
            WELL_FORMED,
            "text: is 8193 UTF-8 bytes, the most is 8192",
        ),
        (
            replace(ADD, text="\ud800"),
            WELL_FORMED,
            "text: holds a lone surrogate at character 0, which is refused",
        ),
        (
            replace(ADD, reason="x" * 513),
            WELL_FORMED,
            "reason: has 513 characters, the most is 512",
        ),
        (replace(ADD, evidence_ids=()), CITES, "evidence_ids: is empty"),
        (replace(ADD, evidence_ids=("e1", "e99")), CITES, "evidence_ids: 'e99' was not shown"),
        (replace(ADD, evidence_ids=("E1",)), CITES, "evidence_ids: 'E1' was not shown"),
        (
            replace(ADD, evidence_ids=tuple(EVIDENCE)[:33]),
            CITES,
            "evidence_ids: has 33, the most is 32",
        ),
        (replace(ADD, entry_id="mem_ent_1"), TARGETS, "entry_id: an add names no entry"),
        (
            replace(REVISE, entry_id=None),
            TARGETS,
            "entry_id: a revise names the entry it revises",
        ),
        (replace(REVISE, entry_id="mem_ent_9"), TARGETS, "entry_id: 'mem_ent_9' was not shown"),
        (replace(ADD, text=f"key {KEY}"), SECRET, "text: contains a credential: AWS access key"),
        (replace(ADD, reason=f"key {KEY}"), SECRET, "text: contains a credential: AWS access key"),
    ],
)
def test_a_broken_proposal_is_rejected_with_its_rule_and_the_others_are_kept(
    proposal, rule, reason
):
    found = verdict(ADD, proposal, REVISE)
    assert found.rejected == [Rejected(2, rule, reason)]
    assert [draft.intent for draft in found.kept] == ["add", "revise"]
    assert rule in CHECKS


def test_thirty_two_pieces_of_evidence_are_accepted_and_repeated_ids_count_once():
    ids = tuple(EVIDENCE)[:32]
    [draft] = verdict(replace(ADD, evidence_ids=ids + ids)).kept
    assert draft.sources == tuple(EVIDENCE[name] for name in ids)


def test_only_the_second_revision_of_an_entry_is_rejected():
    found = verdict(REVISE, replace(REVISE, text="other"), replace(REVISE, entry_id="mem_ent_2"))
    assert [draft.entry_id for draft in found.kept] == ["mem_ent_1", "mem_ent_2"]
    assert found.rejected == [Rejected(2, TARGETS, "entry_id: 'mem_ent_1' is revised twice")]


def test_a_rejected_revision_leaves_its_entry_to_a_later_good_one():
    found = verdict(replace(REVISE, text=""), REVISE)
    assert [draft.text for draft in found.kept] == ["the sky is grey"]


def test_a_dropped_secret_is_no_fault_of_the_answer_and_every_other_rejection_is():
    found = verdict(replace(ADD, text=KEY), replace(ADD, evidence_ids=()))
    assert [item.rule for item in found.rejected] == [SECRET, CITES]
    assert [item.rule for item in found.faults] == [CITES]


def test_secrets_are_kept_when_detection_is_switched_off():
    assert [draft.text for draft in verdict(replace(ADD, text=KEY), refuse_secrets=False).kept] == [
        KEY
    ]


def test_no_reason_repeats_what_the_model_wrote_at_length():
    long = "x" * 5_000
    found = verdict(
        replace(ADD, text=f"{long} {KEY}"),
        replace(ADD, evidence_ids=tuple(f"{long}{n}" for n in range(9))),
        replace(REVISE, entry_id=long),
        replace(ADD, kind=long),
    )
    assert [len(item.reason) < 300 for item in found.rejected] == [True] * 4
    assert not any(KEY in item.reason for item in found.rejected)
