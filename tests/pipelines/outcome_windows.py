"""Task outcomes of a plant, the windows of them, and the candidates that become of them."""

import json

from model_stub import says
from plant import Plant

from pc_pipelines.window_sets import EXPERIENCE_WINDOWS
from pc_store.domain.candidate import Candidate
from pc_store.services.review import list_candidates

PASSED = dict.fromkeys(EXPERIENCE_WINDOWS.family.checks, "SUCCEEDED")
FIRST = "shop@00000001-00000003"
SECOND = "shop@00000004-00000006"
CONTENT = {
    "situation": "An amount went through a float before it became cents.",
    "action": "Parsed the text as Decimal.",
    "outcome": "The input that failed gives the expected value.",
    "lesson": "Decimal for this importer; other precisions need their own checks.",
    "failure": None,
}


def outcome(objective: str = "Import the orders.") -> str:
    """A task outcome as JSON."""
    return json.dumps(
        {
            "objective": objective,
            "status": "succeeded",
            "summary": "It was imported.",
            "observations": [{"text": "The import ran."}],
        }
    )


def proposing(*evidence_ids: str, **changes: object) -> dict[str, object]:
    """One candidate, as the model gives it."""
    return {"proposal": CONTENT | changes, "evidence_ids": list(evidence_ids)}


def answers(*items: dict[str, object]):
    return says({"candidates": list(items)})


def pending(plant: Plant, scope_id: str = "shop") -> list[Candidate]:
    return list(list_candidates(plant.db, scope_id, limit=100).items)


def checks(plant: Plant, key: str) -> dict[str, str]:
    return plant.checks(key, EXPERIENCE_WINDOWS)


def put(plant: Plant, scope_id: str, count: int) -> None:
    plant.put_outcomes(scope_id, *(outcome(f"Task {n}.") for n in range(count)))
