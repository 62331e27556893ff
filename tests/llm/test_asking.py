"""A window asked about in several calls, and its answers merged."""

import json
import threading

import pytest
from model_stub import MODEL, ModelStub, hold, says, status, text

from pc_store.domain.proposal import Evidence, Proposal, Rejected, ShownEntry
from pc_store.domain.source import estimated_tokens
from pc_store.errors import ModelAnsweredBadly, ModelMisconfigured, ModelSilent
from pc_store.llm.asking import propose_all
from pc_store.llm.builtin import BuiltinProposer
from pc_store.llm.client import OpenAIProposer
from pc_store.llm.embeddings import PackagedEncoder
from pc_store.llm.policy import packaged

POLICY = packaged("memory.extract").text
BUDGET = 4_000
ENTRY = ShownEntry("mem_ent_a", "fact", "Amounts are floats.")


def source(number, content=None, words=1_300):
    filler = " Nothing else was said that day." * (words // 6)
    said = content or f"We decided rule number {number} for every service.{filler}"
    return Evidence(f"e{number}", "content", f"log/{number}", said)


THREE = [source(1), source(2), source(3)]
"""Each takes most of a call."""


@pytest.fixture
def proposer(model_stub: ModelStub):
    one = OpenAIProposer(
        model=MODEL, base_url=model_stub.base_url, timeout_s=10, transport_retries=0
    )
    yield one
    one.close()


def change(said, evidence_id, **more):
    return {"intent": "add", "kind": "fact", "text": said, "evidence_ids": [evidence_id], **more}


def revision(said, evidence_id, entry_id="m1"):
    return change(said, evidence_id, intent="revise", entry_id=entry_id)


def replies(*batches):
    return [says({"candidates": list(candidates)}) for candidates in batches]


def shown_in(request, key="evidence"):
    return json.loads(request["body"]["messages"][1]["content"])[key]


def test_a_window_that_fits_is_one_call(proposer, model_stub):
    answer = propose_all(proposer, THREE, [ENTRY], POLICY, 24_000)
    assert len(answer.proposals) == 3
    assert len(model_stub.requests()) == 1


def test_no_evidence_is_no_call(proposer, model_stub):
    assert propose_all(proposer, [], [ENTRY], POLICY, BUDGET).proposals == ()
    assert model_stub.requests() == []


def test_a_larger_window_is_asked_in_log_order_and_its_answers_and_costs_add_up(
    proposer, model_stub
):
    answer = propose_all(proposer, THREE, [ENTRY], POLICY, BUDGET)
    assert [one.evidence_ids for one in answer.proposals] == [("e1",), ("e2",), ("e3",)]
    assert (answer.usage.calls, answer.usage.tokens_in, answer.usage.tokens_out) == (3, 300, 60)
    asked = [[one["evidence_id"] for one in shown_in(r)] for r in model_stub.requests()]
    assert asked == [["e1"], ["e2"], ["e3"]]


@pytest.mark.parametrize("mode", ["json_schema", "tools", "json", "md_json"])
@pytest.mark.parametrize("budget", [3_600, BUDGET, 9_000])
def test_no_call_sends_more_than_the_budget(model_stub, mode, budget):
    proposer = OpenAIProposer(model=MODEL, base_url=model_stub.base_url, mode=mode)
    entries = [ShownEntry(f"mem_ent_{n}", "fact", f"Rule {n} holds.") for n in range(64)]
    many = [source(n, "短い。") for n in range(100, 900)]
    window = [*THREE, source(4, "订单金额以整数分存储。" * 2_000), *many]
    propose_all(proposer, window, entries, POLICY, budget)
    proposer.close()
    for request in model_stub.requests():
        asked = request["body"]
        schema = json.dumps([asked.get("tools"), asked.get("response_format")])
        sent = [schema, *(message["content"] for message in asked["messages"])]
        assert sum(map(estimated_tokens, sent)) <= budget


def test_the_first_entries_that_fit_are_shown_in_every_call(proposer, model_stub):
    entries = [ShownEntry(f"mem_ent_{n}", "fact", f"Rule {n} holds. " * 20) for n in range(64)]
    propose_all(proposer, THREE, entries, POLICY, BUDGET)
    shown = [shown_in(request, "current_entries") for request in model_stub.requests()]
    assert 3 < len(shown[0]) < 20
    assert [one["text"] for one in shown[0]] == [one.text for one in entries[: len(shown[0])]]
    assert all(one == shown[0] for one in shown)


def test_a_prompt_that_leaves_no_room_for_evidence_is_misconfigured(proposer, model_stub):
    with pytest.raises(ModelMisconfigured, match="PC_PROMPT_TOKEN_BUDGET"):
        propose_all(proposer, THREE, [], POLICY + " word" * 10_000, BUDGET)
    assert model_stub.requests() == []


def test_equal_proposals_of_two_calls_become_one_with_the_evidence_of_both(proposer, model_stub):
    model_stub.answer(
        *replies([change("Same.", "e1")], [change("Same.", "e2"), change("Other.", "e2")], [])
    )
    assert propose_all(proposer, THREE, [ENTRY], POLICY, BUDGET).proposals == (
        Proposal("add", "fact", "Same.", ("e1", "e2")),
        Proposal("add", "fact", "Other.", ("e2",)),
    )


def test_of_two_revisions_of_an_entry_the_first_is_kept(proposer, model_stub):
    model_stub.answer(
        *replies(
            [change("New.", "e1"), revision("Cents.", "e1")],
            [revision("Cents.", "e2"), revision("Yuan.", "e2", "m2")],
            [change("More.", "e3"), revision("Yuan.", "e3")],
        )
    )
    answer = propose_all(
        proposer, THREE, [ENTRY, ShownEntry("mem_ent_b", "fact", "B")], POLICY, BUDGET
    )
    assert answer.proposals == (
        Proposal("add", "fact", "New.", ("e1",)),
        Proposal("revise", "fact", "Cents.", ("e1", "e2"), "mem_ent_a"),
        Proposal("revise", "fact", "Yuan.", ("e2",), "mem_ent_b"),
        Proposal("add", "fact", "More.", ("e3",)),
    )
    assert answer.rejected == (
        Rejected(5, "entry-revised-twice", "entry_id is revised by an earlier candidate"),
    )


def test_a_failed_call_fails_the_window_with_what_all_of_it_cost(proposer, model_stub):
    model_stub.answer(*replies([]), status(500))
    with pytest.raises(ModelSilent) as caught:
        propose_all(proposer, THREE, [ENTRY], POLICY, BUDGET)
    assert caught.value.usage.calls == 1
    assert len(model_stub.requests()) == 2


def test_an_unreadable_answer_fails_the_window_at_once_with_nothing_to_salvage(
    proposer, model_stub
):
    model_stub.answer(*replies([change("Good.", "e1")]), text("no"), text("no"))
    with pytest.raises(ModelAnsweredBadly) as caught:
        propose_all(proposer, THREE, [ENTRY], POLICY, BUDGET)
    error = caught.value
    assert (error.readable, error.salvage, error.usage.calls) == (False, (), 3)
    assert len(model_stub.requests()) == 3


def test_a_broken_rule_in_one_answer_salvages_the_whole_window(proposer, model_stub):
    bad = [change("Two.", "e2"), change("Bad.", "e9")]
    model_stub.answer(
        *replies([change("One.", "e1")], bad, bad, [change("Three.", "e3"), change("x", "e3")])
    )
    with pytest.raises(ModelAnsweredBadly) as caught:
        propose_all(proposer, THREE, [ENTRY], POLICY, BUDGET)
    error = caught.value
    assert error.readable
    assert [one.text for one in error.salvage] == ["One.", "Two.", "Three.", "x"]
    assert [(one.ordinal, one.rule) for one in error.rejected] == [(2, "evidence-unknown")]
    assert (error.usage.calls, error.usage.reasks) == (4, 1)


def test_a_source_larger_than_a_call_is_asked_about_in_chunks_under_one_id(proposer, model_stub):
    lines = [f"We decided that limit {n} is {n} requests." for n in range(900)]
    answer = propose_all(proposer, [source(1, "\n".join(lines))], [], POLICY, BUDGET)
    asked = [shown_in(request) for request in model_stub.requests()]
    assert len(asked) > 3
    assert {one["evidence_id"] for batch in asked for one in batch} == {"e1"}
    assert asked[1][0]["content"]["metadata"] == {"chunk": f"2/{len(asked)}"}
    assert all(one.evidence_ids == ("e1",) for one in answer.proposals)


def test_the_builtin_program_is_asked_in_the_same_way(model_stub):
    lines = [f"We decided that limit {n} is {n} requests per second." for n in range(150)]
    builtin = BuiltinProposer(PackagedEncoder())
    answer = propose_all(builtin, [source(1, "\n".join(lines))], [ENTRY], POLICY, 1_200)
    texts = [one.text for one in answer.proposals]
    assert texts
    assert len(set(texts)) == len(texts)
    assert all(one.evidence_ids == ("e1",) for one in answer.proposals)
    assert model_stub.requests() == []


def test_a_held_answer_waits_until_it_is_released(proposer, model_stub):
    model_stub.answer(hold(says({"candidates": [change("Held.", "e1")]})))
    answers = []
    asking = threading.Thread(
        target=lambda: answers.append(propose_all(proposer, THREE[:1], [], POLICY, BUDGET))
    )
    asking.start()
    model_stub.wait_until_held()
    assert answers == []
    model_stub.release()
    asking.join(10)
    assert [one.text for one in answers[0].proposals] == ["Held."]
