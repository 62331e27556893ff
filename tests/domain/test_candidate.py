"""When two candidates are the same, what evidence is enough, and what one changes."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pc_store.domain.candidate import EvidenceRefs, FieldChange, compare, fingerprint, reason
from pc_store.domain.evidence_graph import EntryNode, evidence_id, sources_below
from pc_store.domain.experience import parse
from pc_store.domain.refs import ArtifactRef, Citation, SourceRef
from pc_store.errors import InvalidInput

FIELDS = {"situation": "s", "action": "a", "outcome": "o", "lesson": "l"}
FAILURE = {
    "signature": {"recall_cue": "cue", "symptom": None},
    "repair_surface": "working_state",
    "verification": {"condition": "c", "check_subject": "k"},
}
PLAIN, TRACKING = parse(FIELDS), parse(FIELDS | {"failure": FAILURE})
A, B, C = (SourceRef("content", name) for name in "abc")
EXPERIENCE = ArtifactRef("experience", "exp_1", 1)
PROMPT = ArtifactRef("prompt", "experience.incubate", 4)
CITATION = Citation(ArtifactRef("memory", "memory", 2), "mem_ent_1", "mem_ver_1")


def test_references_are_kept_once_in_the_order_given():
    given_twice = EvidenceRefs((B, A, B), (PROMPT, EXPERIENCE, PROMPT), (CITATION, CITATION))
    assert given_twice == EvidenceRefs((B, A), (PROMPT, EXPERIENCE), (CITATION,))
    assert len(given_twice) == 5


@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        (EvidenceRefs(), "is empty; a source, artifact or citation is expected"),
        (
            EvidenceRefs(artifacts=(PROMPT,)),
            "a prompt alone is not evidence; a source, artifact or citation is expected",
        ),
        (
            EvidenceRefs(tuple(SourceRef("content", f"{n}") for n in range(33))),
            "has 33 references, the most is 32",
        ),
        (
            EvidenceRefs(
                tuple(SourceRef("content", f"{n}") for n in range(31)), (PROMPT,), (CITATION,)
            ),
            "has 33 references, the most is 32",
        ),
    ],
)
def test_too_little_and_too_much_evidence_is_refused(evidence, reason):
    with pytest.raises(InvalidInput) as caught:
        evidence.refuse_wrong_size()
    assert (caught.value.field, caught.value.reason) == ("evidence", reason)


@pytest.mark.parametrize(
    "evidence",
    [
        EvidenceRefs((A,)),
        EvidenceRefs(artifacts=(EXPERIENCE,)),
        EvidenceRefs(citations=(CITATION,)),
        EvidenceRefs(artifacts=(PROMPT, EXPERIENCE)),
        EvidenceRefs(tuple(SourceRef("content", f"{n}") for n in range(31)), (PROMPT,)),
    ],
)
def test_enough_evidence_is_one_reference_that_is_no_prompt_up_to_thirty_two(evidence):
    evidence.refuse_wrong_size()


def test_the_fingerprint_sees_content_and_the_set_of_evidence_but_no_order_and_no_prompt():
    same = {
        fingerprint(PLAIN, EvidenceRefs((A, B), (EXPERIENCE,), (CITATION,))),
        fingerprint(parse(FIELDS), EvidenceRefs((B, A), (EXPERIENCE, PROMPT), (CITATION,))),
    }
    assert len(same) == 1
    other = Citation(CITATION.memory, "mem_ent_1", "mem_ver_2")
    different = {
        fingerprint(TRACKING, EvidenceRefs((A, B), (EXPERIENCE,), (CITATION,))),
        fingerprint(PLAIN, EvidenceRefs((A,), (EXPERIENCE,), (CITATION,))),
        fingerprint(PLAIN, EvidenceRefs((A, C), (EXPERIENCE,), (CITATION,))),
        fingerprint(PLAIN, EvidenceRefs((A, B), (), (CITATION,))),
        fingerprint(PLAIN, EvidenceRefs((A, B), (EXPERIENCE,), (other,))),
        fingerprint(parse(FIELDS | {"lesson": "l "}), EvidenceRefs((A, B), (EXPERIENCE,))),
    }
    assert (len(different), len(different | same)) == (6, 7)


@given(st.permutations([A, B, C]), st.permutations([EXPERIENCE, PROMPT]))
def test_no_order_changes_a_fingerprint(sources, artifacts):
    assert fingerprint(PLAIN, EvidenceRefs(tuple(sources), tuple(artifacts))) == fingerprint(
        PLAIN, EvidenceRefs((A, B, C), (EXPERIENCE,))
    )


@pytest.mark.parametrize(
    ("value", "told"),
    [(None, None), ("  e\u0301 \n", "é"), ("x" * 2_000, "x" * 2_000)],
)
def test_a_reason_is_normalised(value, told):
    assert reason(value) == told


@pytest.mark.parametrize("value", ["", " \u3000", "x" * 2_001, "a\x00"])
def test_a_reason_that_says_nothing_or_too_much_is_refused(value):
    with pytest.raises(InvalidInput, match=r"^why: "):
        reason(value, field="why")


def test_two_experiences_are_compared_field_by_field():
    assert compare(PLAIN, parse(FIELDS | {"action": "b"})) == (
        FieldChange("situation", "s", "s"),
        FieldChange("action", "a", "b"),
        FieldChange("outcome", "o", "o"),
        FieldChange("lesson", "l", "l"),
    )
    added = compare(PLAIN, TRACKING)[4:]
    assert added == (
        FieldChange("failure.signature.recall_cue", None, "cue"),
        FieldChange("failure.signature.symptom", None, None),
        FieldChange("failure.repair_surface", None, "working_state"),
        FieldChange("failure.verification.condition", None, "c"),
        FieldChange("failure.verification.check_subject", None, "k"),
    )
    assert [one.changed for one in added] == [True, False, True, True, True]
    assert compare(TRACKING, PLAIN)[4:] == tuple(
        FieldChange(one.field, one.after, None) for one in added
    )
    assert [one.before for one in compare(None, PLAIN)] == [None] * 4


ENTRY = EntryNode("memory", "mem_ent_1", "mem_ver_1")
NEXT = ArtifactRef("experience", "exp_1", 2)


def test_sources_are_found_at_any_depth_and_cycles_end():
    children = {
        ENTRY: (A, EXPERIENCE),
        EXPERIENCE: (B, NEXT),
        NEXT: (EXPERIENCE, C, ENTRY),
    }
    assert sources_below(children, [ENTRY]) == {A, B, C}
    assert sources_below(children, [NEXT]) == {A, B, C}
    assert sources_below(children, [A]) == {A}
    assert sources_below(children, []) == set()
    deep = {SourceRef("x", f"{n}"): (SourceRef("x", f"{n + 1}"),) for n in range(5_000)}
    assert len(sources_below(deep, [SourceRef("x", "0")])) == 5_001


def test_an_evidence_id_is_a_digest_of_the_reference():
    ids = [evidence_id(node) for node in (A, B, EXPERIENCE, NEXT, ENTRY)]
    assert len(set(ids)) == 5
    assert all(one.startswith("e_") and len(one) == 34 for one in ids)
    # sha256 of {"source_id":"a","source_type":"content"}
    whole = hashlib.sha256(b'{"source_id":"a","source_type":"content"}').hexdigest()
    assert ids[0] == f"e_{whole[:32]}"
