"""Task outcomes as they come from outside."""

import json
from pathlib import Path

import pytest

from pc_store.domain import outcome
from pc_store.domain.refs import ArtifactRef, Citation, SourceRef
from pc_store.errors import InvalidInput

SOURCE = {"source_type": "content", "source_id": "amount_check_01"}
ARTICLE = {
    "schema": "powercontext.task-outcome.v1",
    "objective": "验证 CSV 金额文本转换为整数分的精度",
    "status": "succeeded",
    "summary": "使用 Decimal 转换后，原失败用例得到预期结果。",
    "handoff_receipt_ref": {"source_type": "content", "source_id": "receipt_amount_01"},
    "observations": [
        {
            "text": "本次任务涉及 CSV 金额文本转换为整数分。",
            "basis": "verified",
            "evidence": [{"kind": "source", "source_ref": SOURCE}],
        }
    ],
    "checks": [
        {
            "name": "金额转换精度回归检查",
            "status": "passed",
            "details": "原失败输入转换后的整数分与预期一致。",
            "basis": "verified",
            "evidence": [{"kind": "source", "source_ref": SOURCE}],
        }
    ],
}
LEAST = {
    "objective": "o",
    "status": "failed",
    "summary": "s",
    "observations": [{"text": "t"}],
}
ARTIFACT = {"family": "experience", "artifact_id": "exp_1", "revision": 2}


def test_the_articles_sample_is_read_as_printed_and_stored_in_full():
    found = outcome.loads(json.dumps(ARTICLE, ensure_ascii=False))
    assert found.handoff_receipt_ref.ref == SourceRef("content", "receipt_amount_01")
    stored = found.dumps()
    assert stored.startswith('{\n  "schema": "powercontext.task-outcome.v1",\n  "trust": ')
    assert outcome.loads(stored) == found
    assert json.loads(stored) == {
        **ARTICLE,
        "trust": "untrusted_observation",
        "produced_artifacts": [],
        "remaining_work": [],
    }


def test_what_may_be_left_out_has_a_default():
    found = outcome.parse(LEAST)
    assert found.trust == "untrusted_observation"
    assert found.observations[0].basis == "declared"
    assert (found.checks, found.produced_artifacts, found.remaining_work) == ((), (), ())
    assert found.handoff_receipt_ref is None


def test_both_spellings_of_a_source_reference_are_the_same():
    spelled = {"name": "content", "source_id": "r"}
    found = outcome.parse({**LEAST, "handoff_receipt_ref": spelled})
    assert found.handoff_receipt_ref.ref == SourceRef("content", "r")
    assert '"source_type": "content"' in found.dumps()


def test_every_kind_of_evidence_is_read():
    memory = {"family": "memory", "artifact_id": "memory", "revision": 1}
    cited = {"memory_ref": memory, "entry_id": "e", "entry_version_id": "v"}
    evidence = [
        {"kind": "source", "source_ref": SOURCE},
        {"kind": "artifact", "artifact_ref": ARTIFACT},
        {"kind": "memory", "memory_citation": cited},
    ]
    claim = {"text": "t", "basis": "verified", "evidence": evidence}
    source, artifact, entry = (
        outcome.parse({**LEAST, "observations": [claim]}).observations[0].evidence
    )
    assert source.source_ref.ref == SourceRef("content", "amount_check_01")
    assert artifact.artifact_ref.ref == ArtifactRef("experience", "exp_1", 2)
    assert entry.memory_citation.ref == Citation(ArtifactRef("memory", "memory", 1), "e", "v")


def test_texts_are_trimmed_before_they_are_measured():
    found = outcome.parse({**LEAST, "objective": "  " + "x" * 8_192 + "\n"})
    assert found.objective == "x" * 8_192


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"objective": " "}, "objective: string should have at least 1 character"),
        ({"objective": "x" * 8_193}, "objective: string should have at most 8192"),
        ({"objective": 3}, "objective: input should be a valid string"),
        ({"summary": None}, "summary: input should be a valid string"),
        ({"status": "done"}, "status: input should be 'succeeded', "),
        ({"schema": "v2"}, "schema: input should be 'powercontext.task-outcome.v1'"),
        ({"trust": "trusted"}, "trust: input should be 'untrusted_observation'"),
        ({"extra": 1}, "extra: extra inputs are not permitted"),
        ({"observations": []}, "observations: tuple should have at least 1 item"),
        ({"observations": [{"text": "t"}] * 65}, "observations: tuple should have at most 64"),
        ({"observations": "t"}, "observations: input should be a valid tuple"),
        (
            {"observations": [{"text": "t", "basis": "verified"}]},
            "observations[0]: is verified but names no evidence",
        ),
        (
            {
                "observations": [
                    {"text": "t", "evidence": [{"kind": "source", "source_ref": SOURCE}]}
                ]
            },
            "observations[0]: names evidence but is declared, not verified",
        ),
        (
            {
                "observations": [
                    {
                        "text": "t",
                        "basis": "verified",
                        "evidence": [{"kind": "source", "source_ref": SOURCE}] * 32,
                    }
                ]
            },
            "observations[0].evidence: tuple should have at most 31 items",
        ),
        ({"checks": [{"name": "c"}]}, "checks[0].status: field required"),
        ({"checks": [{"name": "c", "status": "ok"}]}, "checks[0].status: input should be"),
        (
            {"checks": [{"name": "c", "status": "passed", "details": "x" * 8_193}]},
            "checks[0].details: string should have at most 8192",
        ),
        ({"remaining_work": ["a", " a "]}, "remaining_work: holds the same text twice"),
        (
            {"produced_artifacts": [{**ARTIFACT, "revision": 0}]},
            "produced_artifacts[0].revision: input should be greater than or equal to 1",
        ),
        (
            {"produced_artifacts": [{**ARTIFACT, "revision": True}]},
            "produced_artifacts[0].revision: input should be a valid integer",
        ),
        (
            {"produced_artifacts": [{**ARTIFACT, "artifact_id": "a b"}]},
            "produced_artifacts[0].artifact_id: string should match pattern",
        ),
        ({"handoff_receipt_ref": {"source_id": "r"}}, "handoff_receipt_ref.source_type: field"),
        (
            {"handoff_receipt_ref": {**SOURCE, "name": "content"}},
            "handoff_receipt_ref: has both name and source_type",
        ),
        ({"summary": "\x00"}, "outcome.summary: holds a NUL character"),
    ],
)
def test_a_broken_rule_names_the_field(change, reason):
    with pytest.raises(InvalidInput) as caught:
        outcome.parse({**LEAST, **change})
    assert caught.value.message.startswith(reason)


def test_evidence_of_an_unknown_kind_is_refused():
    claim = {"text": "t", "basis": "verified", "evidence": [{"kind": "rumour"}]}
    with pytest.raises(InvalidInput, match=r"observations\[0\].evidence\[0\]: "):
        outcome.parse({**LEAST, "observations": [claim]})


def test_a_citation_of_another_family_is_refused():
    cited = {"memory_ref": ARTIFACT, "entry_id": "e", "entry_version_id": "v"}
    evidence = [{"kind": "memory", "memory_citation": cited}]
    claim = {"text": "t", "basis": "verified", "evidence": evidence}
    with pytest.raises(InvalidInput, match="cites the family 'experience', not a memory"):
        outcome.parse({**LEAST, "observations": [claim]})


@pytest.mark.parametrize("text", ["[]", "null", '"x"', "{", '{"status": "failed", "status": "x"}'])
def test_what_is_no_outcome_is_refused(text):
    with pytest.raises(InvalidInput):
        outcome.loads(text)


def test_the_outcomes_of_the_example_log_are_valid():
    examples = Path(__file__).parents[2] / "examples" / "orders"
    records = [
        json.loads(line)
        for path in sorted(examples.glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    told = [r["content"] for r in records if r["metadata"]["kind"] == outcome.KIND]
    assert [outcome.loads(text).status for text in told] == [
        "succeeded",
        "partial",
        "blocked",
        "failed",
        "succeeded",
    ]
