"""What is sent again, and what is not: only what cannot be done twice by it."""

import httpx
import pytest

from pc_store import errors
from pc_store.api.refusals import Overloaded
from pc_store.client import Client
from pc_store.client.connection import TRIES
from pc_store.client.raised import ServerUnreachable, StrangeAnswer
from pc_store.errors import InvalidInput, ModelUnavailable, StoreBusy, StoreError

MUTATION = {"memory": None, "entry": None}


class Network:
    """A network that fails as told, and counts."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.sent = []
        self.slept = []

    def __call__(self, request):
        self.sent.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self):
        transport = httpx.MockTransport(self)
        return Client("http://store", token="t", transport=transport, sleep=self.slept.append)


def refusal(code, status=503, **headers):
    body = {"error": {"code": code, "message": "m", "details": None}}
    return httpx.Response(status, json=body, headers=headers)


def health():
    return httpx.Response(200, json={"status": "ok"})


def test_a_read_is_sent_again_after_a_broken_connection():
    network = Network(httpx.ConnectError("no"), httpx.ReadTimeout("late"), health())
    assert network.client().get_liveness().status == "ok"
    assert len(network.slept) == 2


def test_a_read_is_given_up_after_some_tries():
    network = Network(*[httpx.ConnectError("no")] * TRIES)
    with pytest.raises(ServerUnreachable):
        network.client().get_liveness()
    assert network.answers == []


def test_a_write_is_not_sent_again_after_a_broken_connection():
    network = Network(httpx.ReadTimeout("late"))
    with pytest.raises(ServerUnreachable):
        network.client().remember_memory("s", "One.", kind="fact")


def test_a_write_with_an_idempotency_key_is_sent_again_with_it():
    network = Network(httpx.ReadTimeout("late"), httpx.Response(200, json=MUTATION))
    network.client().remember_memory("s", "One.", kind="fact", idempotency_key="k")
    assert [request.headers["Idempotency-Key"] for request in network.sent] == ["k", "k"]
    assert network.sent[0].headers["Authorization"] == "Bearer t"


def test_a_busy_server_is_asked_again_when_it_says():
    busy = refusal("store_busy", **{"Retry-After": "2"})
    network = Network(busy, httpx.Response(200, json=MUTATION))
    network.client().remember_memory("s", "One.", kind="fact")
    assert network.slept == [2.0]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refusal("store_busy"), StoreBusy),
        (refusal("inference_unavailable", **{"Retry-After": "1"}), ModelUnavailable),
        (refusal("revision_conflict", 409, **{"Retry-After": "1"}), errors.RevisionConflict),
        (refusal("invented_later", 418), StoreError),
        (httpx.Response(502, text="<html>"), StrangeAnswer),
        (httpx.Response(200, text="<html>"), StrangeAnswer),
        (httpx.Response(200, json={"memory": None}), StrangeAnswer),
    ],
)
def test_other_answers_are_final(answer, kind):
    network = Network(answer)
    with pytest.raises(StoreError) as caught:
        network.client().remember_memory("s", "One.", kind="fact")
    assert type(caught.value) is kind
    assert network.slept == []


def test_every_error_survives_the_journey():
    network = Network()
    client = network.client()
    for kind in (
        errors.SecretDetected,
        errors.ModelAnsweredBadly,
        Overloaded,
        errors.WindowRefused,
    ):
        network.answers.append(refusal(kind.code, 422))
        with pytest.raises(kind) as caught:
            client.get_capabilities()
        assert (caught.value.code, caught.value.message) == (kind.code, "m")


@pytest.mark.parametrize("url", ["ftp://x", "nonsense", "http://", "file:///etc"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(InvalidInput, match="PC_API_URL"):
        Client(url)


def test_a_token_that_is_none_is_refused_and_not_repeated():
    with pytest.raises(InvalidInput) as caught:
        Client("http://store", token="sécret\n")
    assert "cret" not in caught.value.message
