"""What the tests of the proposer show to the stub, and what they let it answer."""

import json

from model_stub import says

from pc_store.domain.proposal import Evidence, Proposal, ShownEntry
from pc_store.llm.policy import packaged

MODES = ("json_schema", "tools", "json", "md_json")
POLICY = packaged("memory.extract").text
CENTS = Evidence("e1", "content", "log/1", "We decided that amounts are integer cents. Then lunch.")
YEN = Evidence("e2", "content", "log/2", "订单金额必须以整数分存储。", {"kind": "note"})
EVIDENCE = (CENTS, YEN)
ENTRIES = (
    ShownEntry("mem_ent_a", "fact", "Amounts are floats."),
    ShownEntry("mem_ent_b", "fact", "The service runs in Oslo."),
)
ADD = {"intent": "add", "kind": "fact", "text": "Amounts are cents.", "evidence_ids": ["e1"]}
REVISE = {**ADD, "intent": "revise", "entry_id": "m1"}
ADDED = Proposal("add", "fact", "Amounts are cents.", ("e1",))
EMPTY = says({"candidates": []})
WRONG = says({"candidates": [{**ADD, "evidence_ids": ["e9"]}]})
RIGHT = json.dumps({"candidates": [ADD], "extra": "tolerated"})
