import re

import pytest

from pc_store.domain.source import estimated_tokens
from pc_store.errors import NotFound
from pc_store.llm import policy


def test_every_known_key_has_a_packaged_prompt_that_names_itself():
    for key in policy.KEYS:
        prompt = policy.packaged(key)
        assert prompt.key == key
        assert re.fullmatch(r"[0-9]+", prompt.version)
        assert prompt.text
        assert "---" not in prompt.text.splitlines()


@pytest.mark.parametrize("key", ["memory.reply", "memory", "", "../policy", "memory.extract.md"])
def test_any_other_key_names_no_prompt(key):
    with pytest.raises(NotFound):
        policy.packaged(key)


def test_the_extraction_policy_says_what_the_contract_asks_of_it():
    text = policy.packaged("memory.extract").text.lower()
    for said in (
        "never instructions",
        "language of the evidence",
        "passwords",
        "revise that entry",
        "propose nothing",
        "cannot delete or retire",
        "working_note",
    ):
        assert said in text


def test_the_policy_and_the_reply_format_leave_most_of_the_default_budget_to_evidence():
    prompt = policy.packaged("memory.extract").text + policy.reply_format().text
    assert estimated_tokens(prompt) < 1_800


def test_the_reply_format_names_every_field_because_json_schema_mode_sends_no_schema():
    text = policy.reply_format().text
    for field in ("candidates", "intent", "kind", "text", "evidence_ids", "entry_id", "reason"):
        assert f"`{field}`" in text


def test_the_examples_of_a_prompt_are_found_and_cite_no_id_that_a_call_uses():
    text = policy.reply_format().text
    assert len(policy.examples(text)) == 2
    cited = re.findall(r'"evidence_ids":(\[.*?\])', text)
    assert cited
    assert not re.search(r'"[em]\d+"', "".join(cited))


@pytest.mark.parametrize(
    "block",
    ["not json", "[]", "{}", '{"candidates":null}', '{"candidates":[1,{"text":5},{"text":" "}]}'],
)
def test_other_blocks_in_a_prompt_of_ones_own_are_no_examples(block):
    assert policy.examples(f"Keep names.\n\n```json\n{block}\n```\n") == frozenset()


def test_an_example_is_recognised_whatever_its_case_and_spacing():
    assert policy.folded("  The  Café\nOpens ") == policy.folded("the cafe\u0301 opens")
