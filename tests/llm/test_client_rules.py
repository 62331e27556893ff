"""Answers that break a rule: sent back once, then salvaged; incomplete ones never are."""

import json
import re

import pytest
from asked import (
    ADD,
    ADDED,
    ENTRIES,
    EVIDENCE,
    MODES,
    REVISE,
    RIGHT,
    WRONG,
)
from model_stub import (
    body,
    says,
    text,
)

from pc_store.domain.proposal import Proposal, Rejected
from pc_store.errors import (
    ModelAnsweredBadly,
)
from pc_store.llm.policy import reply_format

# Answers that are sent back


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "said",
    [
        "Nothing here is worth keeping.",
        "",
        "{}",
        '{"candidates": null}',
        "[]",
        f"[{RIGHT}]",
        f'{RIGHT} or {{"candidates": []}}',
        f"<think>{RIGHT}",
        RIGHT[:-3],
    ],
)
def test_an_answer_that_is_no_list_fails_if_it_is_repeated(fails, model_stub, mode, said):
    model_stub.answer(text(said), text(said))
    error = fails(ModelAnsweredBadly, mode=mode)
    assert (error.salvage, error.rejected, error.readable) == ((), (), False)
    assert error.counts
    assert (error.usage.calls, error.usage.reasks) == (2, 1)
    assert len(model_stub.requests()) == 2


@pytest.mark.parametrize("mode", MODES)
def test_the_model_is_told_the_rule_and_its_second_answer_counts(ask, model_stub, mode):
    model_stub.answer(WRONG, says({"candidates": [ADD]}))
    answer = ask(mode=mode)
    assert answer.proposals == (ADDED,)
    assert answer.usage.reasks == 1
    _, second = model_stub.requests()
    *_, assistant, told = second["body"]["messages"]
    assert "e9" in json.dumps(assistant)
    assert told["role"] == ("tool" if mode == "tools" else "user")
    assert "1 of 1 ids that were not shown; use only e1, e2" in told["content"]


def test_what_is_right_in_the_last_answer_is_salvaged(fails, model_stub):
    bad = {**ADD, "evidence_ids": ["e9"]}
    model_stub.answer(
        says({"candidates": [ADD, bad]}),
        says({"candidates": [bad, REVISE, {**REVISE, "entry_id": "m7"}, {**REVISE, "text": "x"}]}),
    )
    error = fails(ModelAnsweredBadly)
    assert error.readable
    assert error.salvage == (
        Proposal("revise", "fact", "Amounts are cents.", ("e1",), "mem_ent_a"),
    )
    assert error.rejected == (
        Rejected(0, "evidence-unknown", "evidence_ids has 1 of 1 ids that were not shown"),
        Rejected(2, "entry-not-shown", "entry_id names no entry that was shown"),
        Rejected(3, "entry-revised-twice", "entry_id is revised by an earlier candidate"),
    )


def test_a_first_answer_is_not_salvaged_when_the_second_cannot_be_read(fails, model_stub):
    model_stub.answer(says({"candidates": [ADD, {**ADD, "kind": "rumour"}]}), text("Sorry."))
    error = fails(ModelAnsweredBadly)
    assert (error.salvage, error.readable) == ((), False)


@pytest.mark.parametrize(
    ("candidates", "entries"),
    [
        ([{**REVISE, "entry_id": "m9"}], ENTRIES),
        ([{**REVISE, "entry_id": "mem_ent_a"}], ENTRIES),
        ([REVISE], ()),
        ([REVISE, {**REVISE, "text": "Again."}], ENTRIES),
        ([{**ADD, "text": "x" * 8_193}], ()),
        ([{**ADD, "text": "a\x00b"}], ()),
        ([{**ADD, "text": "a\ud800b"}], ()),
    ],
)
def test_a_broken_rule_is_told_once_and_a_right_second_answer_is_taken(
    ask, model_stub, candidates, entries
):
    model_stub.answer(text(json.dumps({"candidates": candidates})), says({"candidates": [ADD]}))
    answer = ask(EVIDENCE, entries)
    assert answer.proposals == (ADDED,)
    assert answer.usage.reasks == 1


def test_a_copy_of_the_prompts_example_is_not_a_proposal(fails, model_stub):
    example = json.loads(re.search(r"```json\n(.*?)\n```", reply_format().text, re.DOTALL)[1])
    copied = [{**one, "evidence_ids": ["e1"]} for one in example["candidates"]]
    copied[1]["entry_id"] = "m1"
    model_stub.answer(says({"candidates": copied}), says({"candidates": copied}))
    error = fails(ModelAnsweredBadly)
    assert error.salvage == ()
    assert {one.rule for one in error.rejected} == {"example-copied"}


# Answers that are incomplete: never sent back


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("reason", ["length", "content_filter", "error", None])
def test_an_answer_that_did_not_end_by_itself_is_no_answer(fails, model_stub, mode, reason):
    model_stub.answer(text(RIGHT, finish_reason=reason))
    error = fails(ModelAnsweredBadly, mode=mode)
    assert (error.salvage, error.readable, error.usage.calls) == ((), False, 1)
    assert len(model_stub.requests()) == 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "answer",
    [
        text(None, refusal="I cannot help with that."),
        body('{"choices": [], "object": "chat.completion"}'),
        body('{"error": {"message": "overloaded", "code": 529}}'),
        body("[]"),
        body('{"choices": {"a": 1}}'),
        body('{"choices": [{"finish_reason": "stop"}]}'),
    ],
)
def test_a_response_without_an_answer_is_not_sent_back(fails, model_stub, mode, answer):
    model_stub.answer(answer)
    error = fails(ModelAnsweredBadly, mode=mode)
    assert not error.readable
    assert len(model_stub.requests()) == 1


@pytest.mark.parametrize("message", ["hi", {"tool_calls": [1]}, {"content": [1]}, {}, 7])
def test_a_message_of_no_known_form_is_a_bad_answer(fails, model_stub, message):
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    model_stub.always(body(json.dumps({"choices": [choice]})))
    assert not fails(ModelAnsweredBadly).readable
