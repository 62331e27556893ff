"""Endpoints that fail, and what must not be told of it."""

import json
import logging
import socket
import threading
import time
import traceback

import pytest
from asked import (
    ADD,
    ENTRIES,
    EVIDENCE,
    MODES,
    POLICY,
    RIGHT,
    WRONG,
)
from model_stub import (
    adding,
    body,
    dropped,
    hold,
    status,
    text,
)

from pc_store.domain.proposal import Evidence, ShownEntry, Usage
from pc_store.errors import (
    ModelAnsweredBadly,
    ModelError,
    ModelMisconfigured,
    ModelSilent,
    ModelUnavailable,
)

# Failures of the endpoint


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (status(429), ModelUnavailable),
        (status(409), ModelUnavailable),
        (dropped(), ModelUnavailable),
        (status(500), ModelSilent),
        (status(503), ModelUnavailable),
        (status(502), ModelSilent),
        (status(408), ModelSilent),
        (body("{not json"), ModelSilent),
        (status(401, code="invalid_api_key"), ModelMisconfigured),
        (status(403), ModelMisconfigured),
        (status(404, code="model_not_found"), ModelMisconfigured),
        (status(402), ModelMisconfigured),
        (status(405), ModelMisconfigured),
        (status(400, code="model_not_found"), ModelMisconfigured),
        (status(400, param="response_format"), ModelMisconfigured),
        (body("<html>hello</html>", content_type="text/html"), ModelMisconfigured),
        (status(400, code="context_length_exceeded"), ModelAnsweredBadly),
        (status(400), ModelAnsweredBadly),
        (status(413), ModelAnsweredBadly),
        (status(422), ModelAnsweredBadly),
    ],
)
def test_each_failure_has_its_class_and_is_not_sent_back(fails, model_stub, answer, expected):
    model_stub.answer(answer)
    error = fails(expected)
    assert isinstance(error.usage, Usage)
    assert error.counts == (expected in (ModelSilent, ModelAnsweredBadly))
    assert len(model_stub.requests()) == 1


@pytest.mark.parametrize(
    ("answer", "setting"),
    [
        (status(401), "PC_LLM_API_KEY"),
        (status(404), "PC_LLM_BASE_URL and PC_LLM_MODEL"),
        (status(404, code="model_not_found"), "PC_LLM_MODEL"),
        (status(400, param="model"), "PC_LLM_MODEL"),
        (status(400, param="response_format"), "PC_LLM_MODE"),
        (body("hello", content_type="text/plain"), "PC_LLM_BASE_URL"),
    ],
)
def test_a_misconfiguration_names_the_setting_to_look_at(fails, model_stub, answer, setting):
    model_stub.answer(answer)
    assert setting in fails(ModelMisconfigured).message


def test_a_rate_limit_that_passes_is_waited_for(ask, model_stub):
    model_stub.answer(status(429, retry_after_ms=1), status(503, retry_after_ms=1))
    answer = ask(transport_retries=2)
    assert len(answer.proposals) == 2
    assert (answer.usage.calls, answer.usage.reasks) == (1, 0)
    assert len(model_stub.requests()) == 3


def test_a_rate_limit_that_stays_is_given_up_after_the_transport_retries(fails, model_stub):
    model_stub.always(status(429, retry_after_ms=1))
    fails(ModelUnavailable, transport_retries=2)
    assert len(model_stub.requests()) == 3


def test_a_wait_that_the_server_asks_for_beyond_the_calls_time_is_not_begun(fails, model_stub):
    model_stub.always(status(429, retry_after_ms=60_000))
    started = time.monotonic()
    fails(ModelUnavailable, transport_retries=2, timeout_s=1)
    assert time.monotonic() - started < 1
    assert len(model_stub.requests()) == 1


def test_a_failing_second_request_is_told_as_that_failure(fails, model_stub):
    model_stub.answer(WRONG, status(500))
    error = fails(ModelSilent)
    assert (error.usage.calls, error.usage.reasks) == (1, 1)


def test_no_answer_in_time_is_silence(fails, model_stub):
    model_stub.answer(hold())
    error = fails(ModelSilent, timeout_s=0.3)
    assert 0.3 <= error.usage.seconds < 5
    assert error.usage.calls == 0


def test_a_server_that_dribbles_is_given_up_as_well(fails, model_stub):
    model_stub.answer(text(RIGHT, drip_s=0.02))
    started = time.monotonic()
    fails(ModelSilent, timeout_s=0.4)
    assert time.monotonic() - started < 2


def test_retries_and_the_second_request_share_the_calls_time(fails, model_stub):
    model_stub.always(hold())
    started = time.monotonic()
    fails(ModelSilent, timeout_s=0.4, transport_retries=10)
    assert time.monotonic() - started < 3


def test_no_connection_says_nothing_of_the_input(fails):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    error = fails(ModelUnavailable, base_url=f"http://127.0.0.1:{port}/v1")
    assert not error.counts


def test_no_connection_stays_that_when_the_calls_time_is_over(fails):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    address = f"http://127.0.0.1:{port}/v1"
    fails(ModelUnavailable, base_url=address, timeout_s=0.3, transport_retries=10)


def test_an_endpoint_that_dies_while_asked_is_unavailable_and_works_again_later(
    connect, model_stub
):
    proposer = connect()
    model_stub.answer(hold())
    failures = []

    def ask_once():
        try:
            proposer.propose(EVIDENCE, ENTRIES, policy=POLICY)
        except ModelError as error:
            failures.append(type(error))

    asking = threading.Thread(target=ask_once)
    asking.start()
    model_stub.wait_until_held()
    model_stub.kill()
    asking.join(10)
    assert failures == [ModelUnavailable]
    model_stub.start()
    assert len(proposer.propose(EVIDENCE, ENTRIES, policy=POLICY).proposals) == 2


@pytest.mark.parametrize(
    ("param", "sent"), [("temperature", "max_tokens"), ("max_tokens", "max_completion_tokens")]
)
def test_a_parameter_that_the_model_refuses_is_left_out_from_then_on(
    connect, model_stub, param, sent
):
    model_stub.answer(status(400, code="unsupported_parameter", param=param))
    proposer = connect()
    for _ in range(2):
        assert proposer.propose(EVIDENCE, ENTRIES, policy=POLICY).usage.reasks == 0
    refused, *later = [request["body"] for request in model_stub.requests()]
    assert param in refused
    assert len(later) == 2
    assert all(param not in asked and asked[sent] == 4_096 for asked in later)


# What is kept quiet

WORDS = "hunter2-of-the-user"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "answer",
    [
        text(WORDS),
        adding((WORDS + "\x00", WORDS), kind=WORDS),
        text(json.dumps({"candidates": [ADD], WORDS: {WORDS: 1}})[:-2]),
        text(None, refusal=WORDS),
        text(WORDS, finish_reason=WORDS),
        status(401, message=WORDS, code=f"it was {WORDS}", param=WORDS, type=WORDS),
        status(500, message=WORDS),
        status(400, message=WORDS),
        body(WORDS),
    ],
)
def test_no_error_and_no_log_repeats_a_users_words_or_the_key(
    ask, model_stub, caplog, mode, answer
):
    model_stub.always(answer)
    caplog.set_level(logging.DEBUG)
    said = Evidence("e1", "content", WORDS, WORDS, {WORDS: WORDS})
    shown = ShownEntry(WORDS, "fact", WORDS)
    with pytest.raises(ModelError) as caught:
        ask([said], [shown], mode=mode, api_key=f"key-{WORDS}", policy=WORDS)
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    assert WORDS not in repr(vars(error)) + str(error) + "".join(traceback.format_exception(error))
    assert WORDS not in caplog.text
    assert not [record for record in caplog.records if record.name.startswith("instructor")]


def test_a_login_in_the_address_is_used_and_not_logged(ask, model_stub, caplog):
    caplog.set_level(logging.DEBUG)
    ask(base_url=model_stub.base_url.replace("://", "://kim:hunter2@"))
    [request] = model_stub.requests()
    assert request["headers"]["authorization"] == "Basic a2ltOmh1bnRlcjI="
    assert "hunter2" not in caplog.text
