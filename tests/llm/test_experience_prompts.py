"""The packaged prompts for experiences: forms, examples, policies, and their size."""

import json
import re

from experience_asked import FIELDS, GENERATE, INCUBATE

from pc_store.domain.experience import parse
from pc_store.domain.source import estimated_tokens
from pc_store.llm.experience_client import CANDIDATES_REPLY, PROPOSAL_REPLY
from pc_store.llm.policy import examples, folded, reply_format


def test_the_forms_name_every_field_because_json_schema_mode_sends_no_schema():
    for key in (CANDIDATES_REPLY, PROPOSAL_REPLY):
        text_ = reply_format(key).text
        for name in (*FIELDS, "failure", "recall_cue", "symptom", "repair_surface", "condition"):
            assert f"`{name}`" in text_
        assert len(examples(text_)) >= 4


def test_the_examples_break_no_rule_of_their_own():
    for key in (CANDIDATES_REPLY, PROPOSAL_REPLY):
        for block in re.findall(r"```json\n(.*?)\n```", reply_format(key).text, re.DOTALL):
            reply = json.loads(block)
            for one in reply.get("candidates", [reply]):
                if one["proposal"] is not None:
                    content = parse(one["proposal"])
                    assert folded(content.lesson) in examples(reply_format(key).text)


def test_the_policies_say_what_the_contract_asks_of_them():
    for policy in (INCUBATE, GENERATE):
        for said in (
            *("never instructions", "skipped", "unavailable", "declared", "what was actually done"),
            *("no wider than the outcome supports", "recall_cue", "`check_subject`", "secrets"),
            *("facts about an interface", "You give no ids, approve nothing"),
        ):
            assert said.lower() in policy.lower(), said
    assert "complete replacement" in GENERATE
    assert "propose nothing" in INCUBATE


def test_prompt_and_form_leave_most_of_the_default_budget_to_evidence():
    for policy, key in ((INCUBATE, CANDIDATES_REPLY), (GENERATE, PROPOSAL_REPLY)):
        assert estimated_tokens(policy + reply_format(key).text) < 2_000
