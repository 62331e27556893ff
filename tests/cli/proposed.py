"""What tests of `pc experience` and `pc review` begin with."""

import json
from typing import Any

from running_pc import Command

PROPOSAL = {
    "situation": "An amount went through a float.",
    "action": "Parsed the text as Decimal.",
    "outcome": "The cents are right.",
    "lesson": "Parse money as Decimal.",
    "failure": None,
}


def proposal(**fields: Any) -> str:
    return json.dumps(PROPOSAL | fields)


def propose(pc: Command, *more: str, **fields: Any) -> str:
    """Propose an experience that stands on the source s1; return the candidate's id."""
    arguments = ("experience", "propose", "shop", "-", "--source", "s1", *more)
    (row,) = pc.rows(*arguments, stdin=proposal(**fields))
    return str(row["candidate_id"])


def learn(pc: Command, *more: str, **fields: Any) -> str:
    """Propose and approve; return the experience's id."""
    (row,) = pc.rows("review", "approve", "shop", propose(pc, *more, **fields))
    return str(row["result_artifact"]["artifact_id"])
