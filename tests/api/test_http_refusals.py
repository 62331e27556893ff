"""Every refusal has one body, whatever was wrong and wherever it was noticed."""

import http.client
import json

import pytest
from calls import REQUEST_ID, ok, refused

JSON = {"Content-Type": "application/json"}


def send(api, content, path="/v1/memory/remember", headers=JSON, method="POST"):
    return api.request(method, path, content=content, headers=headers)


def body(scope, **fields):
    return {"scope_id": scope, "kind": "fact", "text": "a", **fields}


def test_unknown_paths_are_a_404_in_the_same_body(api):
    for path in ("/nothing", "/v1", "/v1/", "/v1/scopes/", "/v1/memory/remember/", "/v1//scopes"):
        assert refused(api.get(path), 404, "route_not_found") is None


def test_wrong_methods_are_a_405_that_names_the_right_ones(api, scope):
    for method, path, allowed in (
        ("DELETE", "/v1/scopes", "GET, POST"),
        ("GET", "/v1/memory/remember", "POST"),
        ("PATCH", f"/v1/scopes/{scope}", "GET, PUT"),
        ("POST", "/health/live", "GET"),
        ("POST", "/openapi.json", "GET, HEAD"),
        ("OPTIONS", "/v1/capabilities", "GET"),
        ("BREW", "/v1/capabilities", "GET"),
    ):
        response = api.request(method, path)
        assert refused(response, 405, "method_not_allowed") == {"allowed": allowed.split(", ")}
        assert response.headers["Allow"] == allowed


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "field required"),
        (b"{", "is not JSON"),
        (b"nonsense", "is not JSON"),
        (b"{'a': 1}", "is not JSON"),
        (b'{"a": 1,}', "is not JSON"),
        (b'{"a": 1} {"a": 1}', "is not JSON"),
        (b"\xef\xbb\xbf{}", "is not JSON"),
        (b'{"a": NaN}', "holds NaN"),
        (b'{"a": -Infinity}', "holds -Infinity"),
        (b'{"a": 1e400}', "is not a finite number"),
        (b'{"a": 1, "a": 1}', "more than once"),
        (b'{"a": 9223372036854775808}', "exceeds 64 bits"),
        (b'{"a": ' + b"9" * 5000 + b"}", "exceeds 64 bits"),
        (b"[" * 100_000, "nests deeper than 64"),
        (b'{"a":' * 100_000, "nests deeper than 64"),
        (b'{"a": "\\u0000"}', "NUL"),
        (b'{"a": "\\ud800"}', "lone surrogate"),
        (b'{"\\ud800": 1}', "lone surrogate"),
        (b'{"a": "\x00"}', "is not JSON"),
        (b'{"a": "\xff"}', "is not UTF-8 at byte 7"),
        (b"\xff\xfe{\x00}\x00", "is not UTF-8 at byte 0"),
        (b'{"a": "\xed\xa0\x80"}', "is not UTF-8"),
        (b"null", "valid dictionary"),
        (b"[]", "valid dictionary"),
        (b'"text"', "valid dictionary"),
        (b"7", "valid dictionary"),
        (b"true", "valid dictionary"),
    ],
)
def test_a_body_that_is_no_proper_json_is_a_422_with_the_reason(api, content, reason):
    details = refused(send(api, content), 422, "invalid_request")

    assert reason in details["reason"], details
    assert details["field"]


def test_a_body_must_say_that_it_is_json(api, scope):
    content = json.dumps(body(scope)).encode()

    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        details = refused(
            send(api, content, headers={"Content-Type": kind}), 422, "invalid_request"
        )
        assert details["field"] == "Content-Type"
    ok(send(api, content, headers={"Content-Type": "application/json; charset=utf-8"}))


def test_schema_faults_are_listed_without_the_values_that_were_sent(api, scope):
    wrong = {"scope_id": scope, "kind": 7, "text": ["SENTINEL"], "SENTINEL2": 1}

    response = api.post("/v1/memory/remember", json=wrong)

    details = refused(response, 422, "invalid_request")
    assert details == {
        "field": "kind",
        "reason": "input should be a valid string",
        "errors": [
            {
                "type": "string_type",
                "loc": ["body", "kind"],
                "msg": "Input should be a valid string",
            },
            {
                "type": "string_type",
                "loc": ["body", "text"],
                "msg": "Input should be a valid string",
            },
            {
                "type": "extra_forbidden",
                "loc": ["body", "SENTINEL2"],
                "msg": "Extra inputs are not permitted",
            },
        ],
    }
    assert '"SENTINEL"' not in response.text


def test_a_refusal_stays_short_however_much_was_wrong(api, scope):
    wrong = body(scope) | {f"{'x' * 500}{number}": 1 for number in range(2_000)}

    response = api.post("/v1/memory/remember", json=wrong)

    assert len(refused(response, 422, "invalid_request")["errors"]) == 20
    assert len(response.content) < 10_000


def test_addresses_are_read_as_strictly_as_bodies(api):
    for path, field in (
        ("/v1/scopes/a%00b", "scope_id"),
        ("/v1/scopes/a%FFb", "path"),
        ("/v1/scopes/%ED%A0%80", "path"),
        (f"/v1/scopes/{'x' * 257}", "scope_id"),
        ("/v1/scopes/%20", "scope_id"),
    ):
        response = api.get(path)
        if path == "/v1/scopes/%20":
            assert response.status_code in (404, 422)
            continue
        assert refused(response, 422, "invalid_request")["field"] == field
    refused(api.get("/v1/scopes?query=a%00b&query_field=title"), 422, "invalid_request")


def test_bodies_over_the_limit_are_a_413_declared_or_not(api, running):
    limit = running.settings.http_max_body_bytes
    declared = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
    declared.putrequest("POST", "/v1/memory/remember")
    declared.putheader("Content-Length", str(limit + 1))
    declared.putheader("Content-Type", "application/json")
    declared.endheaders()
    answer = declared.getresponse()
    assert answer.status == 413
    assert answer.headers[REQUEST_ID]
    error = json.loads(answer.read())["error"]
    assert (error["code"], error["details"]) == ("request_too_large", {"limit_bytes": limit})
    declared.close()

    def endless():
        for _ in range(limit // 65_536 + 2):
            yield b" " * 65_536

    response = send(api, endless())
    assert refused(response, 413, "request_too_large") == {"limit_bytes": limit}


def test_a_megabyte_is_read_and_judged(api, scope):
    response = api.post("/v1/memory/remember", json=body(scope, text="x" * 1_000_000))
    assert refused(response, 422, "invalid_request")["code"] == "text-too-long"
    big = {"scope_id": scope, "source_id": "big", "content": "x" * 1_000_000}
    refused(api.post("/v1/sources/content", json=big), 422, "invalid_request")


def test_what_is_no_http_is_refused_in_the_same_body(running):
    import socket

    with socket.create_connection(("127.0.0.1", running.port), timeout=10) as client:
        client.sendall(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
        answer = client.makefile("rb").read()
    head, _, content = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert REQUEST_ID.encode() in head
    assert json.loads(content)["error"]["code"] == "invalid_request"


def test_every_answer_has_a_request_id_of_its_own(api):
    ids = {api.get(path).headers[REQUEST_ID] for path in ("/", "/health/live", "/nothing") * 3}

    assert len(ids) == 9
