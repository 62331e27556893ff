"""Candidates from a model: what it is asked of a window, what is accepted, what it is told."""

import json
import re

import pytest
from asked import MODES
from experience_asked import FAILED, FIELDS, GOOD, INCUBATE, with_failure
from model_stub import says, text

from pc_store.domain import strict_json
from pc_store.domain.experience import parse
from pc_store.domain.experience_proposal import ExperienceProposal, cues_of
from pc_store.domain.proposal import Evidence, Rejected
from pc_store.domain.source import estimated_tokens
from pc_store.errors import ModelAnsweredBadly
from pc_store.llm.asking import propose_all
from pc_store.llm.experience_client import CANDIDATES_REPLY
from pc_store.llm.policy import reply_format

LOST = Evidence("e1", "content", "outcome/1", FAILED, {"kind": "task-outcome"}, cues_of(FAILED))
PLAIN = Evidence("e2", "content", "outcome/2", "no outcome at all", {"kind": "task-outcome"})
EVIDENCE = (LOST, PLAIN)
TAKEN = ExperienceProposal(parse(FIELDS), ("e1",))
EMPTY = says({"candidates": []})


@pytest.fixture
def ask(connect_author):
    def asked(evidence=EVIDENCE, **options):
        return connect_author(**options).propose(evidence, (), policy=INCUBATE)

    return asked


def candidates(*items, **options):
    return text(json.dumps({"candidates": list(items)}), **options)


@pytest.mark.parametrize("mode", MODES)
def test_candidates_are_taken_in_every_mode(ask, model_stub, mode):
    model_stub.answer(candidates(GOOD, {**GOOD, "evidence_ids": ["e2", "e1", "e2"]}))
    answer = ask(mode=mode)
    assert answer.proposals == (TAKEN, ExperienceProposal(TAKEN.content, ("e2", "e1")))
    assert (answer.usage.calls, answer.usage.tokens_in, answer.usage.tokens_out) == (1, 100, 20)


def test_the_call_sends_policy_form_and_records_and_no_entries(ask, model_stub):
    model_stub.answer(EMPTY)
    assert ask().proposals == ()
    (request,) = model_stub.requests()
    system, user = request["body"]["messages"]
    assert system["content"] == f"{INCUBATE}\n\n{reply_format(CANDIDATES_REPLY).text}"
    assert json.loads(user["content"]) == {
        "evidence": [
            {
                "evidence_id": one.evidence_id,
                "evidence_type": "source",
                "content": {
                    "source_type": one.source_type,
                    "source_id": one.source_id,
                    "content": one.content,
                    "metadata": {"kind": "task-outcome"},
                },
            }
            for one in EVIDENCE
        ]
    }


def test_the_schema_lists_the_ids_and_the_whole_content(ask, model_stub):
    model_stub.answer(EMPTY)
    ask()
    (request,) = model_stub.requests()
    schema = request["body"]["response_format"]["json_schema"]["schema"]
    candidate = schema["$defs"]["ExperienceCandidate"]["properties"]
    assert candidate["evidence_ids"]["items"]["enum"] == ["e1", "e2"]
    content = candidate["proposal"]
    assert content["required"] == ["situation", "action", "outcome", "lesson", "failure"]
    assert content["additionalProperties"] is False
    tracked = content["properties"]["failure"]["anyOf"][0]["properties"]
    assert tracked["repair_surface"]["enum"] == [
        *("experience_content", "working_state", "recall_policy", "acceptance_check"),
    ]


def test_nothing_shown_is_no_call(ask, model_stub):
    assert ask(()).proposals == ()
    assert model_stub.requests() == []


def test_a_failure_is_taken_when_a_verified_item_of_the_cited_record_says_its_cue(ask, model_stub):
    one = with_failure("“amounts  ARE exact”")  # another case, width of space, and edges
    model_stub.answer(candidates(one))
    (made,) = ask().proposals
    assert made.content == parse(one["proposal"])


@pytest.mark.parametrize(
    "broken",
    [
        with_failure("something else"),
        with_failure("lint"),  # failed, but only declared
        {**with_failure(), "evidence_ids": ["e2"]},  # the record that is cited shows none
    ],
)
def test_a_failure_that_no_cited_record_shows_is_sent_back_with_what_could_be_said(
    ask, model_stub, broken
):
    model_stub.answer(candidates(broken), candidates(GOOD))
    assert ask().proposals == (TAKEN,)
    _, again = model_stub.requests()
    told = again["body"]["messages"][-1]["content"]
    if broken["evidence_ids"] == ["e1"]:
        assert "copy one of these word for word, or make failure null: amounts are exact" in told
    else:
        assert "none failed, so failure must be null" in told


@pytest.mark.parametrize(
    ("broken", "rule", "said"),
    [
        ({**GOOD, "evidence_ids": ["e9"]}, "evidence-unknown", "1 of 1 ids that were not shown"),
        ({**GOOD, "evidence_ids": []}, "evidence-empty", "evidence_ids is empty"),
        ({"evidence_ids": ["e1"]}, "missing", "proposal: field required"),
        ({**GOOD, "proposal": None}, "content-malformed", "proposal"),
        ({**GOOD, "proposal": {**FIELDS, "lesson": " "}}, "content-malformed", "lesson: is blank"),
        (
            {**GOOD, "proposal": {**FIELDS, "lesson": "x" * 8_001}},
            "content-malformed",
            "at most 8000 characters",
        ),
        (
            {**GOOD, "proposal": {**FIELDS, "sekrit": "AKIA"}},
            "content-malformed",
            "has a key that is not known",
        ),
        ({**GOOD, "sekrit": 1}, "key-unknown", "has a key that is not known"),
        (
            {**GOOD, "proposal": {**FIELDS, "lesson": "a\x00b"}},
            "content-unstorable",
            "holds what no database keeps faithfully",
        ),
        (
            with_failure(repair_surface="everything"),
            "content-malformed",
            "failure.repair_surface: input should be",
        ),
        (with_failure("!!!"), "content-malformed", "failure.signature.recall_cue: holds no letter"),
        (with_failure("sekrit"), "failure-unsupported", "failure has a recall_cue that no"),
    ],
)
def test_a_broken_rule_is_named_and_the_other_candidates_are_saved(
    ask, model_stub, broken, rule, said
):
    model_stub.answer(candidates(broken, GOOD), candidates(broken, GOOD))
    with pytest.raises(ModelAnsweredBadly) as caught:
        ask()
    error = caught.value
    assert (error.salvage, error.readable) == ((TAKEN,), True)
    (one,) = error.rejected
    assert (one.ordinal, one.rule) == (0, rule)
    assert said in one.reason
    for words in ("sekrit", "AKIA", "Decimal was used"):
        assert words not in f"{error.message} {one.reason}"


def test_several_broken_rules_of_one_candidate_are_told_at_once(ask, model_stub):
    broken = {"proposal": {"situation": "", "action": 7, "outcome": "x"}, "evidence_ids": ["e1"]}
    model_stub.answer(candidates(broken), candidates(GOOD))
    ask()
    told = model_stub.requests()[1]["body"]["messages"][-1]["content"]
    for said in ("situation: ", "action: ", "lesson: field required"):
        assert said in told


def test_a_copy_of_the_example_is_no_candidate(ask, model_stub):
    block = re.search(r"```json\n(.*?)\n```", reply_format(CANDIDATES_REPLY).text, re.DOTALL)[1]
    copied = [one | {"evidence_ids": ["e1"]} for one in json.loads(block)["candidates"]]
    model_stub.always(candidates(*copied))
    with pytest.raises(ModelAnsweredBadly) as caught:
        ask()
    assert caught.value.rejected == (
        Rejected(0, "example-copied", "proposal.situation copies the example"),
    )


def test_a_window_larger_than_a_call_is_asked_in_batches_of_whole_budgets(
    connect_author, model_stub
):
    many = [
        Evidence(f"e{n}", "content", f"o{n}", f"{n} " + "Nothing new was seen. " * 150)
        for n in range(1, 61)
    ]
    model_stub.always(EMPTY)
    propose_all(connect_author(), many, [], INCUBATE, 8_000, most=100)
    requests = model_stub.requests()
    assert len(requests) > 5
    for request in requests:
        schema = json.dumps(request["body"]["response_format"])
        sent = [schema, *(message["content"] for message in request["body"]["messages"])]
        assert sum(map(estimated_tokens, sent)) <= 8_000


def test_no_call_shows_more_pieces_than_it_may(connect_author, model_stub):
    many = [Evidence(f"e{n}", "content", f"o{n}", "Short.") for n in range(1, 251)]
    model_stub.always(EMPTY)
    propose_all(connect_author(), many, [], INCUBATE, 100_000, most=100)
    shown = [
        len(json.loads(request["body"]["messages"][1]["content"])["evidence"])
        for request in model_stub.requests()
    ]
    assert shown == [100, 100, 50]


def test_a_record_cut_into_chunks_keeps_the_failures_that_the_whole_verifies(
    connect_author, model_stub
):
    filler = "Nothing else was said. " * 1_500
    value = json.loads(FAILED) | {"observations": [{"text": filler[:8_000]} for _ in range(4)]}
    content = strict_json.dumps(value)
    long = Evidence("e1", "content", "o", content, {}, cues_of(content))
    model_stub.always(candidates(with_failure()))
    answer = propose_all(connect_author(), [long], [], INCUBATE, 8_000)
    assert len(model_stub.requests()) > 1
    assert [one.evidence_ids for one in answer.proposals] == [("e1",)]
