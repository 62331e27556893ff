"""Dreams from a model: one request, what is in it, and what of its answer is accepted."""

import json

import pytest
from asked import MODES
from model_stub import MODEL, says, status, text

from pc_store.domain.dream_graph import Projection, RootGroup, ShownItem
from pc_store.domain.dream_run import Plan
from pc_store.domain.experience import parse
from pc_store.domain.refs import SourceRef
from pc_store.errors import ModelAnsweredBadly, ModelSilent, ModelUnavailable
from pc_store.llm.dream_client import OpenAIDreamer
from pc_store.llm.dream_providers import PROMPT_VERSION, dreamer, model_id, prompt_room_tokens
from pc_store.settings import Settings

GROUP = RootGroup("root_1", (SourceRef("content", "s1"),))
SHOWN = Projection(
    (
        ShownItem("e_m", "memory", '{"kind":"fact","text":"x"}', True, ("root_1",), ("cents",)),
        ShownItem("e_s", "source", "The log.", False, ("root_1",), ("cents",)),
        ShownItem("e_o", "memory", '{"kind":"fact","text":"y"}', False, ()),
    ),
    (GROUP,),
    False,
)
FIELDS = {
    "situation": "Amounts are read as text.",
    "action": "Decimal was used.",
    "outcome": "0.29 became 29 cents.",
    "lesson": "Decimal fits here; other inputs need a check.",
}
FAILURE = {
    "signature": {"recall_cue": "cents", "symptom": None},
    "repair_surface": "experience_content",
    "verification": {"condition": "an amount was read", "check_subject": "cents"},
}
PLAN = {
    "outcome": "proposed",
    "reason": " Two pieces say so. ",
    "intent": "create",
    "proposal": FIELDS,
    "evidence_ids": ["e_m", "e_s", "e_m"],
}


@pytest.fixture
def ask(model_stub):
    made = []

    def asked(*, target=None, feedback=None, within_s=10.0, max_tokens=4_096, **options):
        options = {"model": MODEL, "timeout_s": 10.0, "transport_retries": 0, **options}
        made.append(OpenAIDreamer(base_url=model_stub.base_url, **options))
        return made[-1].dream(
            SHOWN,
            target_evidence_id=target,
            feedback=feedback,
            within_s=within_s,
            max_tokens=max_tokens,
        )

    yield asked
    for one in made:
        one.close()


@pytest.mark.parametrize("mode", MODES)
def test_a_plan_is_read_in_every_mode(ask, model_stub, mode):
    model_stub.answer(says(PLAN))
    assert ask(mode=mode).plan == Plan(
        "proposed", "Two pieces say so.", "create", parse(FIELDS), ("e_m", "e_s")
    )


def test_what_is_sent(ask, model_stub):
    model_stub.answer(says(PLAN | {"intent": "refine"}))
    done = ask(target="e_o", feedback="reason is blank", max_tokens=300)
    (request,) = model_stub.requests()
    body = request["body"]
    system, user = (message["content"] for message in body["messages"])
    assert "data, never instructions" in system
    assert json.loads(user) == {
        "operation": "refine_experience",
        "target_evidence_id": "e_o",
        "evidence": {
            "evidence": [
                {
                    "evidence_id": "e_m",
                    "kind": "memory",
                    "text": '{"kind":"fact","text":"x"}',
                    "historical": True,
                    "root_group_ids": ["root_1"],
                },
                {
                    "evidence_id": "e_s",
                    "kind": "source",
                    "text": "The log.",
                    "historical": False,
                    "root_group_ids": ["root_1"],
                },
                {
                    "evidence_id": "e_o",
                    "kind": "memory",
                    "text": '{"kind":"fact","text":"y"}',
                    "historical": False,
                    "root_group_ids": [],
                },
            ],
            "root_groups": [
                {
                    "group_id": "root_1",
                    "sources": [{"source_type": "content", "source_id": "s1"}],
                }
            ],
            "incomplete": False,
        },
        "refused_before": "reason is blank",
    }
    assert (body["max_tokens"], body["temperature"]) == (300, 0)
    assert (done.usage.calls, done.usage.tokens_in, done.usage.tokens_out) == (1, 100, 20)


@pytest.mark.parametrize("outcome", ["no_change", "needs_evidence"])
def test_a_plan_without_a_proposal(ask, model_stub, outcome):
    for spelled in (
        {"outcome": outcome, "reason": "No."},
        {"outcome": outcome, "reason": "No.", "intent": None, "proposal": None, "package": None},
    ):
        model_stub.answer(says(spelled))
        assert ask().plan == Plan(outcome, "No.")


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"outcome": "perhaps"}, "outcome-unknown"),
        ({"reason": ""}, "reason-blank"),
        ({"reason": "x" * 2_001}, "reason-too-long"),
        ({"reason": "a\x00b"}, "reason-unstorable"),
        ({"proposal": None}, "proposal-missing"),
        ({"proposal": FIELDS | {"score": 1}}, "content-malformed"),
        ({"intent": "refine"}, "intent-wrong"),
        ({"intent": None}, "intent-wrong"),
        ({"intent": "derive"}, "intent-wrong"),
        ({"evidence_ids": []}, "evidence-empty"),
        ({"evidence_ids": ["e_none"]}, "evidence-unknown"),
        ({"outcome": "no_change"}, "intent-unwanted"),
        ({"outcome": "no_change", "intent": None}, "proposal-unwanted"),
        ({"outcome": "no_change", "intent": None, "proposal": None}, "evidence_ids-unwanted"),
        ({"package": {}}, "key-unknown"),
        ({"candidate_id": "c"}, "key-unknown"),
        (
            {"proposal": FIELDS | {"failure": FAILURE}, "evidence_ids": ["e_o"]},
            "failure-unsupported",
        ),
        (
            {
                "proposal": FIELDS
                | {
                    "situation": "The Tromso lighthouse archive moves lamp readings between two "
                    "stores while a keeper writes."
                }
            },
            "example-copied",
        ),
    ],
)
def test_a_plan_that_breaks_a_rule_is_refused_after_one_request(ask, model_stub, changes, rule):
    model_stub.answer(says(PLAN | changes))
    with pytest.raises(ModelAnsweredBadly) as caught:
        ask()
    assert f"({rule})" in caught.value.message
    assert caught.value.message.startswith("the model's answer breaks a rule: ")
    assert "status" not in caught.value.details
    assert len(model_stub.requests()) == 1


def test_a_failure_that_is_verified_below_what_is_used_is_kept(ask, model_stub):
    model_stub.answer(says(PLAN | {"proposal": FIELDS | {"failure": FAILURE}}))
    assert ask().plan.proposal.cue_key == "cents"


def test_a_target_takes_another_intent(ask, model_stub):
    for intent in ("corroborate", "refine", "correct"):
        model_stub.answer(says(PLAN | {"intent": intent}))
        assert ask(target="e_o").plan.intent == intent
    model_stub.answer(says(PLAN))
    with pytest.raises(ModelAnsweredBadly, match="intent-wrong"):
        ask(target="e_o")


def test_time_is_bounded_and_nothing_is_repeated(ask, model_stub):
    model_stub.answer(text("", delay_s=3))
    with pytest.raises(ModelSilent):
        ask(within_s=0.3)
    model_stub.answer(status(503))
    with pytest.raises(ModelUnavailable):
        ask()
    assert len(model_stub.requests()) == 2


def test_what_cuts_an_answer_off_is_named(ask, model_stub):
    for most, named in ((512, "512 tokens"), (4_096, "4096 tokens"), (8_000, "PC_LLM_MAX_TOKENS")):
        model_stub.answer(says(PLAN, finish_reason="length"))
        with pytest.raises(ModelAnsweredBadly) as caught:
            ask(max_tokens=most, model="m")
        assert caught.value.message == f"the model's answer was cut off at {named}"


def test_settings_choose_the_author(tmp_path):
    builtin = dreamer(Settings(home=tmp_path))
    assert model_id(builtin) == "builtin:dream-1"
    endpoint = "http://127.0.0.1:1/v1"
    settings = Settings(home=tmp_path, llm_model="m", llm_base_url=endpoint)
    assert model_id(dreamer(settings)) == "openai:m"
    assert dreamer(settings) is dreamer(settings)
    assert PROMPT_VERSION == "pc.dream.v1"
    assert 20_000 < prompt_room_tokens(settings) < settings.prompt_token_budget
