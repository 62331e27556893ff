"""Experiences from a model: what it is asked, what is accepted, and what is told when it errs."""

import json
import re

import pytest
from asked import MODES
from model_stub import MODEL, says, status, text

from pc_store.domain import strict_json
from pc_store.domain.experience import parse
from pc_store.domain.experience_proposal import Draft, Exhibit, ExperienceProposal, cues_of
from pc_store.domain.proposal import Evidence, Rejected, Usage
from pc_store.domain.source import estimated_tokens
from pc_store.errors import ModelAnsweredBadly, ModelSilent
from pc_store.llm.asking import propose_all
from pc_store.llm.experience_client import (
    CANDIDATES_REPLY,
    PROPOSAL_REPLY,
    OpenAIExperienceModel,
)
from pc_store.llm.policy import examples, folded, packaged, reply_format

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
LOST = Evidence("e1", "content", "outcome/1", FAILED, {"kind": "task-outcome"}, cues_of(FAILED))
PLAIN = Evidence("e2", "content", "outcome/2", "no outcome at all", {"kind": "task-outcome"})
EVIDENCE = (LOST, PLAIN)
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
TAKEN = ExperienceProposal(parse(FIELDS), ("e1",))
EMPTY = says({"candidates": []})


@pytest.fixture
def connect(model_stub):
    made = []

    def connected(**options):
        options = {"model": MODEL, "timeout_s": 10.0, "transport_retries": 0, **options}
        made.append(OpenAIExperienceModel(**{"base_url": model_stub.base_url, **options}))
        return made[-1]

    yield connected
    for one in made:
        one.close()


@pytest.fixture
def ask(connect):
    def asked(evidence=EVIDENCE, **options):
        return connect(**options).propose(evidence, (), policy=INCUBATE)

    return asked


def candidates(*items, **options):
    return text(json.dumps({"candidates": list(items)}), **options)


def with_failure(cue="Amounts are exact!", **changes):
    signature = {"recall_cue": cue, "symptom": None}
    return GOOD | {"proposal": FIELDS | {"failure": FAILURE | {"signature": signature} | changes}}


# Incubation


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


def test_a_window_larger_than_a_call_is_asked_in_batches_of_whole_budgets(connect, model_stub):
    many = [
        Evidence(f"e{n}", "content", f"o{n}", f"{n} " + "Nothing new was seen. " * 150)
        for n in range(1, 61)
    ]
    model_stub.always(EMPTY)
    propose_all(connect(), many, [], INCUBATE, 8_000, most=100)
    requests = model_stub.requests()
    assert len(requests) > 5
    for request in requests:
        schema = json.dumps(request["body"]["response_format"])
        sent = [schema, *(message["content"] for message in request["body"]["messages"])]
        assert sum(map(estimated_tokens, sent)) <= 8_000


def test_no_call_shows_more_pieces_than_it_may(connect, model_stub):
    many = [Evidence(f"e{n}", "content", f"o{n}", "Short.") for n in range(1, 251)]
    model_stub.always(EMPTY)
    propose_all(connect(), many, [], INCUBATE, 100_000, most=100)
    shown = [
        len(json.loads(request["body"]["messages"][1]["content"])["evidence"])
        for request in model_stub.requests()
    ]
    assert shown == [100, 100, 50]


def test_a_record_cut_into_chunks_keeps_the_failures_that_the_whole_verifies(connect, model_stub):
    filler = "Nothing else was said. " * 1_500
    value = json.loads(FAILED) | {"observations": [{"text": filler[:8_000]} for _ in range(4)]}
    content = strict_json.dumps(value)
    long = Evidence("e1", "content", "o", content, {}, cues_of(content))
    model_stub.always(candidates(with_failure()))
    answer = propose_all(connect(), [long], [], INCUBATE, 8_000)
    assert len(model_stub.requests()) > 1
    assert [one.evidence_ids for one in answer.proposals] == [("e1",)]


# Generation


EXHIBITS = (
    Exhibit("source:content/o", "source", "{}", truncated=True, text=FAILED, cues=cues_of(FAILED)),
    Exhibit("artifact:experience/exp_1@2", "artifact", '{"content":{}}', truncated=False),
)


@pytest.fixture
def generate(connect):
    def generated(exhibits=EXHIBITS, target=None, **options):
        return connect(**options).generate(exhibits, target_evidence_id=target, policy=GENERATE)

    return generated


@pytest.mark.parametrize("mode", MODES)
def test_a_proposal_is_taken_in_every_mode(generate, model_stub, mode):
    model_stub.answer(text(json.dumps({"proposal": FIELDS | {"failure": FAILURE}})))
    made = generate(mode=mode)
    assert made.content == parse(FIELDS | {"failure": FAILURE})
    assert (made.usage.calls, made.usage.reasks) == (1, 0)


@pytest.mark.parametrize("mode", MODES)
def test_null_says_that_there_is_nothing_to_propose(generate, model_stub, mode):
    model_stub.answer(text('{"proposal": null}'))
    made = generate(mode=mode)
    assert made == Draft(None, Usage(1, 100, 20, made.usage.seconds))


def test_the_call_shows_the_evidence_its_cuts_and_the_target(generate, model_stub):
    model_stub.answer(text('{"proposal": null}'))
    generate(target="artifact:experience/exp_1@2")
    (request,) = model_stub.requests()
    system, user = request["body"]["messages"]
    assert system["content"] == f"{GENERATE}\n\n{reply_format(PROPOSAL_REPLY).text}"
    assert json.loads(user["content"]) == {
        "evidence": [
            {
                "evidence_id": "source:content/o",
                "kind": "source",
                "content": "{}",
                "truncated": True,
            },
            {
                "evidence_id": "artifact:experience/exp_1@2",
                "kind": "artifact",
                "content": '{"content":{}}',
                "truncated": False,
            },
        ],
        "target_evidence_id": "artifact:experience/exp_1@2",
    }


@pytest.mark.parametrize(
    "said",
    [
        "{}",
        '{"candidates": []}',
        "null",
        "Nothing.",
        json.dumps({"proposal": []}),
        json.dumps({"proposal": {**FIELDS, "lesson": ""}}),
        json.dumps({"proposal": {**FIELDS, "score": 1}}),
        json.dumps({"proposal": with_failure("never seen")["proposal"]}),
    ],
)
def test_a_wrong_answer_is_sent_back_once_and_then_an_error(generate, model_stub, said):
    model_stub.answer(text(said), text(said))
    with pytest.raises(ModelAnsweredBadly) as caught:
        generate()
    assert (caught.value.salvage, caught.value.usage.reasks) == ((), 1)
    assert "never seen" not in caught.value.message


def test_the_second_answer_counts(generate, model_stub):
    model_stub.answer(text("{}"), text(json.dumps({"proposal": FIELDS})))
    made = generate()
    assert (made.content, made.usage.calls, made.usage.reasks) == (parse(FIELDS), 2, 1)


def test_a_failing_endpoint_is_an_error_that_says_so(generate, model_stub):
    model_stub.always(status(500))
    with pytest.raises(ModelSilent):
        generate()


# Prompts


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
