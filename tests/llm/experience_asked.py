"""What tests of the models that write experiences show to the stub, and let it answer."""

from pc_store.domain import strict_json
from pc_store.llm.policy import packaged

INCUBATE, GENERATE = packaged("experience.incubate").text, packaged("experience.generate").text
FAILED = strict_json.dumps(
    {
        "objective": "Import the orders.",
        "status": "failed",
        "summary": "Amounts went through float.",
        "observations": [{"text": "0.29 became 28 cents."}],
        "checks": [
            {
                "name": "Amounts are exact!",
                "status": "failed",
                "basis": "verified",
                "evidence": [
                    {"kind": "source", "source_ref": {"source_type": "content", "source_id": "l"}}
                ],
            },
            {"name": "lint", "status": "failed"},
        ],
    }
)
FIELDS = {
    "situation": "Amounts are read as text.",
    "action": "Decimal was used.",
    "outcome": "0.29 became 29 cents.",
    "lesson": "Decimal fits here; other inputs need a check.",
}
FAILURE = {
    "signature": {"recall_cue": "“amounts  ARE exact”", "symptom": None},
    "repair_surface": "experience_content",
    "verification": {"condition": "an amount was read", "check_subject": "Amounts are exact!"},
}
GOOD = {"proposal": FIELDS, "evidence_ids": ["e1"]}


def with_failure(cue="Amounts are exact!", **changes):
    signature = {"recall_cue": cue, "symptom": None}
    return GOOD | {"proposal": FIELDS | {"failure": FAILURE | {"signature": signature} | changes}}
