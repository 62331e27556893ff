"""Work over HTTP: outcomes, receipts, and failures that come back."""

import json

import pytest
from calls import ok, refused
from model_stub import says

# The sample of the article, as it is printed.
SAMPLE = json.loads(
    """
{
  "schema": "powercontext.task-outcome.v1",
  "objective": "验证 CSV 金额文本转换为整数分的精度",
  "status": "succeeded",
  "summary": "使用 Decimal 转换后，原失败用例得到预期结果。",
  "handoff_receipt_ref": {"source_type": "content", "source_id": "receipt_amount_01"},
  "observations": [
    {
      "text": "本次任务涉及 CSV 金额文本转换为整数分。",
      "basis": "verified",
      "evidence": [
        {
          "kind": "source",
          "source_ref": {"source_type": "content", "source_id": "amount_check_01"}
        }
      ]
    }
  ],
  "checks": [
    {
      "name": "金额转换精度回归检查",
      "status": "passed",
      "details": "原失败输入转换后的整数分与预期一致。",
      "basis": "verified",
      "evidence": [
        {
          "kind": "source",
          "source_ref": {"source_type": "content", "source_id": "amount_check_01"}
        }
      ]
    }
  ]
}
"""
)
CUE = "CSV 金额文本转换精度错误"


def capture(api, scope, source_id, content, metadata=None):
    body = {"scope_id": scope, "source_id": source_id, "content": content, "metadata": metadata}
    return ok(api.post("/v1/sources/content", json=body), 202)


def failing(cue=CUE, **more):
    """An outcome whose verified check fails."""
    evidence = [
        {"kind": "source", "source_ref": {"name": "content", "source_id": "amount_check_01"}}
    ]
    return {
        "schema": "powercontext.task-outcome.v1",
        "trust": "untrusted_observation",
        "objective": "o",
        "status": "failed",
        "summary": "s",
        "observations": [{"text": "o", "basis": "declared", "evidence": []}],
        "checks": [
            {
                "name": cue,
                "status": "failed",
                "details": None,
                "basis": "verified",
                "evidence": evidence,
            }
        ],
        "produced_artifacts": [],
        "remaining_work": [],
    } | more


def record(api, scope, source_id, outcome, status=202):
    body = {"scope_id": scope, "source_id": source_id, "outcome": outcome}
    return ok(api.post("/v1/work/outcomes/record", json=body), status)


@pytest.fixture
def experience(api, scope):
    """The article's experience, approved; with its evidence in the log."""
    capture(api, scope, "amount_check_01", "12.30 gave 1229")
    record(api, scope, "founding", failing())
    proposal = {
        "situation": "金额文本先转成 float。",
        "action": "改用 Decimal。",
        "outcome": "原失败输入得到预期值。",
        "lesson": "金额从原始文本用 Decimal 解析。",
        "failure": {
            "signature": {"recall_cue": CUE, "symptom": "差一分"},
            "repair_surface": "experience_content",
            "verification": {
                "condition": "本次任务涉及 CSV 金额文本转换为整数分。",
                "check_subject": "金额转换精度回归检查",
            },
        },
    }
    made = ok(
        api.post(
            "/v1/experience/propose",
            json={
                "scope_id": scope,
                "proposal": proposal,
                "source_refs": [{"name": "content", "source_id": "founding"}],
                "artifact_refs": [],
            },
        ),
        201,
    )
    approved = {
        "scope_id": scope,
        "candidate_id": made["candidate_id"],
        "expected_version": 1,
    }
    done = ok(api.post("/v1/artifact-candidates/approve", json=approved))
    return done["result_artifact"]


def receive(api, scope, experience, receipt_id="receipt_amount_01"):
    body = {"scope_id": scope, "receipt_id": receipt_id, "experiences": [experience]}
    return ok(api.post("/v1/work/receipts", json=body), 202)


def run(api, scope):
    return ok(api.post("/v1/experience/recurrence/run", json={"scope_id": scope}))


def explain(api, scope, experience, **query):
    path = f"/v1/scopes/{scope}/experience/{experience['artifact_id']}/recurrence"
    return ok(api.get(path, params=query))


@pytest.mark.parametrize("spelling", ["source_type", "name"])
def test_the_articles_sample_works_as_printed_on_both_routes(api, scope, experience, spelling):
    text = json.dumps(SAMPLE, ensure_ascii=False).replace("source_type", spelling)
    taken = receive(api, scope, experience)
    assert taken["experiences"] == [experience]
    recorded = record(api, scope, "outcome_01", json.loads(text))
    assert recorded == {
        "kind": "task-outcome",
        "source": {"name": "content", "source_id": "outcome_01"},
        "position": taken["position"] + 1,
        "content_digest": recorded["content_digest"],
    }
    capture(api, scope, "outcome_02", text, {"kind": "task-outcome"})
    done = run(api, scope)
    assert (done["avoided"], done["recurred"], done["malformed"]) == (2, 0, 0)
    found = explain(api, scope, experience)
    assert [item["verdict"] for item in found["items"][-2:]] == ["avoided", "avoided"]


def test_a_prepared_context_offers_the_receipt_of_what_it_delivered(api, scope, experience):
    asked = {"scope_id": scope, "query": "金额用 Decimal 解析", "include": ["receipt"]}
    receipt = ok(api.post("/v1/context/prepare", json=asked))["receipt"]
    assert (receipt["scope_id"], receipt["experiences"]) == (scope, [experience])
    taken = ok(api.post("/v1/work/receipts", json=receipt), 202)
    named = {"name": "content", "source_id": receipt["receipt_id"]}
    assert taken["source"] == named
    record(api, scope, "outcome_01", SAMPLE | {"handoff_receipt_ref": named})
    assert run(api, scope)["avoided"] == 1
    nothing = asked | {"query": "weather"}
    assert ok(api.post("/v1/context/prepare", json=nothing))["receipt"] is None


def test_the_full_form_is_stored_with_its_kind(api, scope):
    capture(api, scope, "amount_check_01", "log")
    first = record(api, scope, "o", failing())
    assert record(api, scope, "o", failing()) == first
    path = f"/v1/scopes/{scope}/sources/content/o"
    held = ok(api.get(path, params={"include": "metadata"}))
    schema = "powercontext.task-outcome.v1"
    assert held["metadata"] == {"kind": "task-outcome", "schema": schema}
    assert held["content_digest"] == first["content_digest"]
    assert held["content"].startswith(f'{{\n  "schema": "{schema}"')
    assert '"source_type": "content"' in held["content"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"status": "done"}, "outcome.status"),
        ({"observations": []}, "outcome.observations"),
        ({"trust": "trusted"}, "outcome.trust"),
        ({"more": 1}, "outcome.more"),
        ({"schema": "powercontext.task-outcome.v2"}, "outcome.schema"),
        ({"remaining_work": ["a", "a"]}, "outcome.remaining_work"),
        ({"observations": [{"text": 1}]}, "outcome.observations[0].text"),
        (
            {"observations": [{"text": "x", "basis": "verified"}]},
            "outcome.observations[0]",
        ),
        (
            {"handoff_receipt_ref": {"name": "content", "source_id": "gone"}},
            "outcome.handoff_receipt_ref",
        ),
        (
            {"produced_artifacts": [{"family": "memory", "artifact_id": "m", "revision": 1}]},
            "outcome.produced_artifacts[0]",
        ),
    ],
)
def test_a_malformed_outcome_is_422_and_nothing_is_stored(api, scope, change, field):
    capture(api, scope, "amount_check_01", "log")
    body = {"scope_id": scope, "source_id": "o", "outcome": failing(**change)}
    error = refused(api.post("/v1/work/outcomes/record", json=body), 422, "invalid_request")
    assert error["field"] == field, error
    refused(api.get(f"/v1/scopes/{scope}/sources/content/o"), 404, "source_not_found")


def test_outcomes_and_receipts_are_refused_for_scopes_and_ids_that_are_not_theirs(
    api, scope, experience
):
    body = {"scope_id": "nowhere", "source_id": "o", "outcome": failing()}
    refused(api.post("/v1/work/outcomes/record", json=body), 404, "scope_not_found")
    body = {"scope_id": scope, "source_id": "amount_check_01", "outcome": failing()}
    refused(api.post("/v1/work/outcomes/record", json=body), 409, "source_conflict")
    receipt = {"scope_id": scope, "receipt_id": "r", "experiences": [experience]}
    for change, status, code in (
        ({"scope_id": "nowhere"}, 404, "scope_not_found"),
        ({"receipt_id": "founding"}, 409, "source_conflict"),
        ({"experiences": [experience | {"revision": 2}]}, 422, "invalid_request"),
        ({"experiences": [experience | {"family": "memory"}]}, 422, "invalid_request"),
        ({"experiences": []}, 422, "invalid_request"),
        ({"role": "receipt"}, 422, "invalid_request"),
    ):
        refused(api.post("/v1/work/receipts", json=receipt | change), status, code)


def test_three_in_a_row_open_one_review_which_the_inbox_shows(api, scope, experience, model_stub):
    for number in range(3):
        record(api, scope, f"again-{number}", failing())
    done = run(api, scope)
    [review] = done["reviews"]
    assert (review["done"], review["artifact"]) == ("opened", experience)
    assert run(api, scope)["reviews"] == []
    record(api, scope, "again-3", failing())
    assert [one["done"] for one in run(api, scope)["reviews"]] == ["grown"]
    asked = {"scope_id": scope}
    [listed] = ok(api.post("/v1/artifact-candidates/list", json=asked))["candidates"]
    assert (listed["candidate_id"], listed["version"]) == (review["candidate_id"], 2)
    assert listed["target"] == experience
    model_stub.answer(says({"reason": "No record says how.", "proposal": None}))
    reviewed = ok(api.post("/v1/experience/recurrence/review", json=asked))
    assert reviewed == {
        "reviews": [],
        "drafts": [
            {
                "candidate_id": review["candidate_id"],
                "done": "unsupported",
                "version": None,
                "attempts": 1,
                "why": "No record says how.",
                "tokens_in": 100,
                "tokens_out": 20,
            }
        ],
    }
    again = ok(api.post("/v1/experience/recurrence/review", json=asked))
    assert again == {"reviews": [], "drafts": []}
    stats = ok(api.post("/v1/stats", json={"selection": {"mode": "exact", "scope_ids": [scope]}}))
    assert stats["by_scope"][0]["recurrence"] == {
        "selected": 0,
        "recurred": 4,
        "avoided": 0,
        "unknown": 0,
        "unlinked_handoff_citations": 0,
        "needing_review": 1,
        "top_revisions": [
            {
                "artifact_ref": experience,
                "signature_key": CUE.casefold(),
                "terminal_recurred_streak": 4,
            }
        ],
    }


def test_an_explanation_is_paged_and_a_verdict_can_be_taken_back(api, scope, experience):
    for number in range(3):
        record(api, scope, f"again-{number}", failing())
    run(api, scope)
    whole = explain(api, scope, experience)
    assert whole["counts"]["streak"] == 3
    assert (whole["counts"]["review_due"], whole["counts"]["review_status"]) == (False, "pending")
    assert whole["threshold"] == 3
    items, cursor = [], None
    while True:
        more = {"cursor": cursor} if cursor else {}
        page = explain(api, scope, experience, limit=1, **more)
        items += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert items == whole["items"]
    body = {"scope_id": scope, "event_id": items[-1]["event_id"], "reason": "a rehearsal"}
    voided = ok(api.post("/v1/experience/recurrence/void", json=body))
    assert (voided["event"], voided["streak"]) == ("recurred", 2)
    assert ok(api.post("/v1/experience/recurrence/void", json=body)) == voided
    assert explain(api, scope, experience)["items"][-1]["voided"] == "a rehearsal"
    refused(
        api.post("/v1/experience/recurrence/void", json=body | {"event_id": "none"}),
        404,
        "not_found",
    )
    path = f"/v1/scopes/{scope}/experience/nothing/recurrence"
    refused(api.get(path), 404, "artifact_not_found")


def test_voiding_takes_the_right_to_review(serve):
    tokens = [
        {"name": "agent", "token": "a" * 32, "scopes": ["*"], "verbs": ["read", "contribute"]},
        {"name": "person", "token": "p" * 32, "scopes": ["*"], "verbs": ["read", "review"]},
    ]
    server = serve(api_tokens=json.dumps(tokens))
    body = {"scope_id": "default", "event_id": "x", "reason": "y"}
    with server.client("a" * 32) as agent, server.client("p" * 32) as person:
        refused(agent.post("/v1/experience/recurrence/void", json=body), 403, "forbidden")
        answer = person.post("/v1/experience/recurrence/void", json=body)
        assert answer.status_code == 404


def test_malformed_captures_are_kept_and_passed_over(api, scope, experience):
    capture(api, scope, "prose", "It failed again!", {"kind": "task-outcome"})
    record(api, scope, "again", failing())
    done = run(api, scope)
    assert (done["malformed"], done["recurred"]) == (1, 1)
    assert ok(api.get(f"/v1/scopes/{scope}/sources/content/prose"))["content"]
