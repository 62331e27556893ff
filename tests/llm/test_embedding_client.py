"""The embedder behind an endpoint: right vectors, or one of our errors, whatever it is answered."""

import logging
import socket
import threading
import time
import traceback

import numpy as np
import pytest
from model_stub import (
    EMBEDDING_DIMS,
    EMBEDDING_MODEL,
    ModelStub,
    body,
    dropped,
    embeds,
    hold,
    status,
)

from pc_store.errors import (
    ModelAnsweredBadly,
    ModelError,
    ModelMisconfigured,
    ModelSilent,
    ModelUnavailable,
)
from pc_store.llm import providers
from pc_store.llm.embedding_client import READ_MAX_BYTES, SHORTENED_CHARS, OpenAIEmbedder
from pc_store.settings import Settings

TEXTS = ["Amounts are integer cents.", "金额以整数分存储。", "Retry three times."]


@pytest.fixture
def connect(model_stub: ModelStub):
    """Make embedders that talk to the stub, without transport retries unless asked for."""
    made = []

    def connected(**options) -> OpenAIEmbedder:
        options = {
            "model": EMBEDDING_MODEL,
            "base_url": model_stub.base_url,
            "timeout_s": 10.0,
            "transport_retries": 0,
            "dims": EMBEDDING_DIMS,
            **options,
        }
        made.append(OpenAIEmbedder(**options))
        return made[-1]

    yield connected
    for one in made:
        one.close()


@pytest.fixture
def fails(connect):
    """Embed three texts; the error, which must be of exactly this class."""

    def failed(expected, texts=TEXTS, **options):
        with pytest.raises(ModelError) as caught:
            connect(**options).embed(texts)
        assert type(caught.value) is expected
        return caught.value

    return failed


def sent(model_stub):
    """The texts of each request."""
    return [request["body"]["input"] for request in model_stub.embedding_requests()]


# What is right


def test_each_text_has_its_vector_of_unit_length(connect, model_stub):
    vectors = connect().embed(TEXTS)
    assert (vectors.shape, vectors.dtype) == ((3, EMBEDDING_DIMS), np.float32)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    [request] = model_stub.embedding_requests()
    assert request["path"] == "/v1/embeddings"
    assert request["body"] == {
        "input": TEXTS,
        "model": EMBEDDING_MODEL,
        "encoding_format": "float",
    }


@pytest.mark.parametrize(
    "odd",
    [
        embeds(base64=True),
        embeds(spoiled="reversed"),
        embeds(spoiled="unindexed"),
        embeds(usage=None),
        embeds(scale=1e-4),
        embeds(scale=1e30),
    ],
)
def test_a_right_answer_in_another_form_gives_the_same_vectors(connect, model_stub, odd):
    expected = connect().embed(TEXTS)
    model_stub.answer_embedding(odd)
    assert np.allclose(connect().embed(TEXTS), expected, atol=1e-6)


def test_texts_go_out_in_batches_and_equal_ones_once(connect, model_stub):
    texts = [f"rule {number}" for number in range(5)]
    vectors = connect(batch=2).embed([*texts, texts[0]])
    assert sent(model_stub) == [texts[:2], texts[2:4], texts[4:]]
    assert (vectors[5] == vectors[0]).all()


def test_nothing_to_embed_asks_nothing(connect, model_stub):
    assert connect().embed([]).shape == (0, EMBEDDING_DIMS)
    assert sent(model_stub) == []


def test_dimensions_asked_for_are_sent_and_name_the_profile(connect, model_stub):
    embedder = connect(dims=None, dimensions=8)
    assert embedder.profile == f"openai:{EMBEDDING_MODEL}:8:unit"
    assert embedder.embed(TEXTS).shape == (3, 8)
    [request] = model_stub.embedding_requests()
    assert request["body"]["dimensions"] == 8


def test_dimensions_that_the_endpoint_refuses_are_not_sent_again(connect, model_stub):
    model_stub.answer_embedding(status(400, param="dimensions"))
    embedder = connect(dims=None, dimensions=EMBEDDING_DIMS)
    for _ in range(2):
        assert embedder.embed(TEXTS).shape == (3, EMBEDDING_DIMS)
    asked = ["dimensions" in r["body"] for r in model_stub.embedding_requests()]
    assert asked == [True, False, False]


def test_unknown_dimensions_are_asked_for_once_and_name_the_profile(connect, model_stub):
    embedder = connect(dims=None)
    assert embedder.profile == f"openai:{EMBEDDING_MODEL}:{EMBEDDING_DIMS}:unit"
    assert embedder.dims == EMBEDDING_DIMS
    assert len(sent(model_stub)) == 1


def test_the_beginning_of_a_long_text_counts(connect, model_stub):
    text = "金额" * READ_MAX_BYTES
    connect().embed([text])
    [[read]] = sent(model_stub)
    assert text.startswith(read)
    assert READ_MAX_BYTES - 3 < len(read.encode()) <= READ_MAX_BYTES


def test_a_lone_surrogate_does_not_get_in_the_way(connect, model_stub):
    assert connect().embed(["amount \ud800 cents"]).shape == (1, EMBEDDING_DIMS)
    assert sent(model_stub) == [["amount ? cents"]]


def test_threads_share_an_embedder(connect):
    embedder = connect()
    expected = embedder.embed(TEXTS)
    found = []
    threads = [threading.Thread(target=lambda: found.append(embedder.embed(TEXTS))) for _ in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all((one == expected).all() for one in found)


# What fails


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (status(429), ModelUnavailable),
        (status(503), ModelUnavailable),
        (dropped(), ModelUnavailable),
        (status(500), ModelSilent),
        (status(502), ModelSilent),
        (status(408), ModelSilent),
        (body("{not json"), ModelSilent),
        (body("<html>hello</html>", content_type="text/html"), ModelMisconfigured),
        (status(401, code="invalid_api_key"), ModelMisconfigured),
        (status(404, code="model_not_found"), ModelMisconfigured),
        (status(400, param="dimensions"), ModelMisconfigured),
        (status(400), ModelAnsweredBadly),
        (status(413), ModelAnsweredBadly),
        (body("[]"), ModelAnsweredBadly),
        (body("null"), ModelAnsweredBadly),
        (body('{"data": null}'), ModelAnsweredBadly),
        (body('{"data": [1]}'), ModelAnsweredBadly),
        (embeds(spoiled="empty"), ModelAnsweredBadly),
        (embeds(spoiled="missing"), ModelAnsweredBadly),
        (embeds(spoiled="extra"), ModelAnsweredBadly),
        (embeds(spoiled="nan"), ModelAnsweredBadly),
        (embeds(spoiled="null"), ModelAnsweredBadly),
        (embeds(spoiled="none"), ModelAnsweredBadly),
        (embeds(spoiled="zero"), ModelAnsweredBadly),
        (embeds(spoiled="words"), ModelAnsweredBadly),
        (embeds(spoiled="short"), ModelMisconfigured),
        (embeds(dims=EMBEDDING_DIMS * 2), ModelMisconfigured),
    ],
)
def test_each_fault_has_its_class(fails, model_stub, answer, expected):
    model_stub.whenever_embedding("", answer)
    error = fails(expected, TEXTS[:1])
    assert len(sent(model_stub)) == 1
    assert error.__cause__ is error.__context__ is None


@pytest.mark.parametrize("spoiled", ["empty", "missing", "extra", "duplicate"])
def test_an_answer_that_fits_its_texts_nowhere_is_asked_for_again_by_halves(
    connect, model_stub, spoiled
):
    expected = connect().embed(TEXTS)
    model_stub.reset()
    model_stub.answer_embedding(embeds(spoiled=spoiled))
    assert (connect().embed(TEXTS) == expected).all()
    assert sent(model_stub) == [TEXTS, TEXTS[:1], TEXTS[1:]]


@pytest.mark.parametrize("spoiled", ["nan", "null", "none", "zero", "words", "short"])
def test_one_wrong_vector_is_asked_for_again_alone(connect, model_stub, spoiled):
    expected = connect().embed(TEXTS)
    model_stub.reset()
    model_stub.answer_embedding(embeds(spoiled=spoiled, at=1))
    assert (connect().embed(TEXTS) == expected).all()
    assert sent(model_stub) == [TEXTS, [TEXTS[1]]]


@pytest.mark.parametrize("refusal", [status(400), status(413), status(500)])
def test_a_text_that_the_endpoint_refuses_costs_no_other_its_vector(connect, model_stub, refusal):
    texts = [f"rule {number}" for number in range(8)]
    texts[5] = "POISON"
    model_stub.whenever_embedding("POISON", refusal)
    done = connect().attempt(texts)
    assert sorted(done.made) == [0, 1, 2, 3, 4, 6, 7]
    assert list(done.failed) == [5]
    assert done.stopped is None
    assert "POISON" not in str(done.failed[5])
    assert len(sent(model_stub)) == 7  # 8, 4, 4, 2, 1, 1, 2


def test_a_long_text_that_is_refused_is_shortened(connect, model_stub):
    long = "integer cents " * 200
    model_stub.answer_embedding(status(413))
    vectors = connect().embed([long])
    assert sent(model_stub) == [[long], [long[:SHORTENED_CHARS]]]
    assert np.allclose(vectors, connect().embed([long[:SHORTENED_CHARS]]))


def test_a_blank_text_has_no_vector_and_is_not_sent(connect, model_stub):
    done = connect().attempt(["", "rule", " \n"])
    assert (sorted(done.made), sorted(done.failed)) == ([1], [0, 2])
    assert sent(model_stub) == [["rule"]]


def test_an_endpoint_that_refuses_every_text_is_given_up(connect, model_stub):
    model_stub.whenever_embedding("", status(400))
    done = connect().attempt([f"rule {number}" for number in range(64)])
    assert (done.made, len(done.failed)) == ({}, 3)
    assert type(done.stopped) is ModelAnsweredBadly
    assert len(sent(model_stub)) == 6 + 3 + 1


def test_an_endpoint_that_goes_away_stops_the_work_and_keeps_what_was_made(connect, model_stub):
    model_stub.answer_embedding(embeds(), status(429))
    done = connect(batch=2).attempt([f"rule {number}" for number in range(6)])
    assert (sorted(done.made), done.failed) == ([0, 1], {})
    assert type(done.stopped) is ModelUnavailable
    assert len(sent(model_stub)) == 2


def test_a_model_of_another_size_is_no_answer_of_this_one(fails, model_stub):
    model_stub.whenever_embedding("", embeds(dims=EMBEDDING_DIMS * 2))
    error = fails(ModelMisconfigured)
    assert error.details == {"dims": EMBEDDING_DIMS * 2}
    assert "PC_EMBED_MODEL" in error.message
    assert len(sent(model_stub)) == 1


def test_what_the_requests_cost_is_counted(connect, model_stub):
    model_stub.whenever_embedding("POISON", status(400))
    done = connect().attempt(["a b", "POISON"])
    assert (done.usage.calls, done.usage.tokens_in, done.usage.tokens_out) == (1, 3, 0)
    assert done.usage.seconds > 0


def test_a_rate_limit_that_passes_is_waited_for(connect, model_stub):
    model_stub.answer_embedding(status(429, retry_after_ms=1), status(503, retry_after_ms=1))
    assert connect(transport_retries=2).embed(TEXTS).shape == (3, EMBEDDING_DIMS)
    assert len(sent(model_stub)) == 3


def test_no_answer_in_time_is_silence_and_is_not_repeated_by_halves(fails, model_stub):
    model_stub.whenever_embedding("", hold())
    started = time.monotonic()
    fails(ModelSilent, timeout_s=0.3)
    assert time.monotonic() - started < 2
    assert len(sent(model_stub)) == 1


def test_a_request_with_its_retries_has_an_end(fails, model_stub):
    model_stub.whenever_embedding("", hold())
    started = time.monotonic()
    fails(ModelSilent, timeout_s=0.3, transport_retries=10)
    assert time.monotonic() - started < 2.5


def test_no_connection_is_unavailable(fails):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    fails(ModelUnavailable, base_url=f"http://127.0.0.1:{port}/v1")


# What is kept quiet

WORDS = "hunter2-of-the-user"


@pytest.mark.parametrize(
    "answer",
    [
        status(401, message=WORDS, code=f"it was {WORDS}", param=WORDS, type=WORDS),
        status(500, message=WORDS),
        status(400, message=WORDS),
        body(WORDS),
        body(f'{{"data": [{{"index": "{WORDS}"}}]}}'),
        embeds(spoiled="nan"),
    ],
)
def test_no_error_and_no_log_repeats_a_users_words_or_the_key(connect, model_stub, caplog, answer):
    model_stub.whenever_embedding("", answer)
    caplog.set_level(logging.DEBUG)
    with pytest.raises(ModelError) as caught:
        connect(api_key=f"key-{WORDS}").embed([WORDS])
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    assert WORDS not in repr(vars(error)) + str(error) + "".join(traceback.format_exception(error))
    assert WORDS not in caplog.text


def test_a_login_in_the_address_is_used_and_not_logged(connect, model_stub, caplog):
    caplog.set_level(logging.DEBUG)
    connect(base_url=model_stub.base_url.replace("://", "://kim:hunter2@")).embed(TEXTS)
    [request] = model_stub.embedding_requests()
    assert request["headers"]["authorization"] == "Basic a2ltOmh1bnRlcjI="
    assert "hunter2" not in caplog.text


# Settings


@pytest.mark.parametrize(
    ("values", "provider"),
    [
        ({}, "builtin"),
        ({"embed_model": "m"}, "openai"),
        ({"embed_base_url": "http://h/v1"}, "openai"),
        ({"llm_model": "m"}, "builtin"),
        ({"embed_provider": "builtin", "embed_model": "m"}, "builtin"),
        ({"embed_provider": "none", "embed_model": "m"}, "none"),
        ({"embed_model": " ", "embed_base_url": ""}, "builtin"),
    ],
)
def test_auto_is_the_endpoint_when_one_is_named(values, provider):
    assert Settings(**values).embedding_provider == provider


@pytest.mark.parametrize(
    ("values", "setting"),
    [
        ({"embed_provider": "openai"}, "PC_EMBED_MODEL"),
        ({"embed_base_url": "http://h/v1"}, "PC_EMBED_MODEL"),
        ({"embed_model": "m"}, "PC_EMBED_API_KEY"),
        ({"embed_model": "m", "embed_base_url": "h:1"}, "PC_EMBED_BASE_URL"),
        ({"embed_model": "m", "embed_base_url": "http://[h/v1"}, "PC_EMBED_BASE_URL"),
        ({"embed_model": "m", "embed_api_key": "schlüssel"}, "PC_EMBED_API_KEY"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_sent(values, setting):
    with pytest.raises(ModelMisconfigured, match=setting):
        providers.embedder(Settings(**values))


def test_one_embedder_a_process_for_equal_settings():
    values = {"embed_base_url": "http://127.0.0.1:9/v1", "embed_model": "m", "embed_dims": 8}
    first = providers.embedder(Settings(**values))
    assert first is providers.embedder(Settings(**values, http_port=1))
    other = providers.embedder(Settings(**{**values, "embed_model": "n"}))
    assert other is not first
    assert (first.profile, other.profile) == ("openai:m:8:unit", "openai:n:8:unit")
    assert providers.embedder(Settings()) is providers.embedder(Settings())
    assert providers.embedder(Settings(embed_provider="none")) is None
