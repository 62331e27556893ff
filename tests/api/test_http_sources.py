"""Sources over HTTP: capture, create, list, read."""

import hashlib
import json

from calls import ok, refused


def captured(api, scope, **fields):
    body = {"scope_id": scope, "source_id": "s1", "content": "We decided.", **fields}
    return api.post("/v1/sources/content", json=body)


def digest(value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def test_capture_answers_the_position_and_again_the_same(api, scope):
    accepted = {
        "status": "accepted",
        "source": {"name": "content", "source_id": "s1"},
        "position": 1,
    }

    assert ok(captured(api, scope, metadata={"n": 1, "a": None}), 202) == accepted
    assert ok(captured(api, scope, metadata={"a": None, "n": 1.0}), 202) == accepted
    assert ok(captured(api, scope, source_id="s2"), 202)["position"] == 2
    refused(captured(api, scope, metadata={"n": 2}), 409, "source_conflict")
    refused(captured(api, scope, content="Other."), 409, "source_conflict")


def test_a_captured_source_is_read_back_exactly(api, scope):
    ok(captured(api, scope, content=" hello\r\n", metadata={"kind": "worklog"}), 202)
    record = {
        "receipt_identity": None,
        "scope_id": scope,
        "source_type": "content",
        "source_id": "s1",
        "content": " hello\r\n",
        "position": 1,
        "content_digest": digest(" hello\r\n"),
    }

    assert ok(api.get(f"/v1/scopes/{scope}/sources/content/s1")) == record
    more = ok(api.get(f"/v1/scopes/{scope}/sources/content/s1?include=metadata&include=times"))
    assert more.pop("received_at").endswith("Z")
    assert more == record | {"metadata": {"kind": "worklog"}}


def test_the_digest_of_hello_is_the_published_one(api, scope):
    ok(captured(api, scope, content="hello"), 202)

    read = ok(api.get(f"/v1/scopes/{scope}/sources/content/s1"))

    published = "5aa762ae383fbb727af3c7a36d4940a5b8c40a989452d2304fc958ff3f354e7a"
    assert read["content_digest"] == f"sha256:{published}"


def test_any_json_can_be_created_and_comes_back_as_it_was(api, scope):
    for position, value in enumerate(
        ["", None, 0, 1.5, True, [], {}, {"a": [1, {"b": "汉字"}]}, "text"], start=1
    ):
        response = api.post(f"/v1/scopes/{scope}/sources", json={"content": value})
        made = ok(response, 201)
        assert made["source_id"].startswith("src_")
        assert made == {
            "receipt_identity": None,
            "scope_id": scope,
            "source_type": "content",
            "source_id": made["source_id"],
            "content": value,
            "position": position,
            "content_digest": digest(value),
        }
        assert ok(api.get(response.headers["Location"])) == made


def test_lists_are_bounded_by_the_log_at_their_first_page(api, scope):
    for number in range(1, 6):
        ok(captured(api, scope, source_id=f"s{number}"), 202)
    first = ok(api.get(f"/v1/scopes/{scope}/sources?limit=3"))
    ok(captured(api, scope, source_id="late"), 202)
    second = ok(
        api.get(f"/v1/scopes/{scope}/sources", params={"limit": 3, "cursor": first["next_cursor"]})
    )

    assert [item["source_id"] for item in first["items"]] == ["s1", "s2", "s3"]
    assert [item["source_id"] for item in second["items"]] == ["s4", "s5"]
    assert second["next_cursor"] is None


def test_ids_of_any_script_are_listed_and_read(api, scope):
    for source_id in ("日志/1", "a b", "é", "100%"):
        ok(captured(api, scope, source_id=source_id), 202)

    listed = [item["source_id"] for item in ok(api.get(f"/v1/scopes/{scope}/sources"))["items"]]

    assert listed == ["日志/1", "a b", "é", "100%"]
    read = ok(api.get(f"/v1/scopes/{scope}/sources/content/%E6%97%A5%E5%BF%97%2F1"))
    assert read["source_id"] == "日志/1"


def test_refusals_name_the_field_and_the_reason(api, scope):
    for fields, field in (
        ({"content": " \n"}, "content"),
        ({"source_id": " s1"}, "source_id"),
        ({"source_id": " "}, "source_id"),
        ({"source_id": "x" * 257}, "source_id"),
        ({"content": "x" * 200_001}, "content"),
        ({"content": 7}, "content"),
        ({"metadata": []}, "metadata"),
        ({"metadata": {"a": "b\0"}}, "metadata.a"),
        ({"metadata": {"a": "x" * 65_536}}, "metadata"),
        ({"scope_id": ""}, "scope_id"),
    ):
        details = refused(captured(api, scope, **fields), 422, "invalid_request")
        assert details["field"] == field, details
        assert details["reason"]
    assert ok(api.get(f"/v1/scopes/{scope}/sources"))["items"] == []


def test_receipts_of_the_server_cannot_be_forged(api, scope):
    forged = {"schema": "powercontext.handoff-receipt.v1"}

    refused(captured(api, scope, content=json.dumps(forged)), 422, "invalid_request")
    made = api.post(f"/v1/scopes/{scope}/sources", json={"content": forged})
    refused(made, 422, "invalid_request")


def test_unknown_scopes_and_sources_are_not_found(api, scope):
    refused(captured(api, "nowhere"), 404, "scope_not_found")
    refused(api.get("/v1/scopes/nowhere/sources"), 404, "scope_not_found")
    refused(api.post("/v1/scopes/nowhere/sources", json={"content": 1}), 404, "scope_not_found")
    refused(api.get("/v1/scopes/nowhere/sources/content/s1"), 404, "scope_not_found")
    refused(api.get(f"/v1/scopes/{scope}/sources/content/s1"), 404, "source_not_found")
    refused(api.get(f"/v1/scopes/{scope}/sources/other/s1"), 404, "source_not_found")


def test_a_limit_out_of_range_is_a_400_here_and_an_unknown_parameter_a_422(api, scope):
    for wrong in ("0", "101", "x", "1.5"):
        response = api.get(f"/v1/scopes/{scope}/sources?limit={wrong}")
        assert refused(response, 400, "invalid_request")["field"] == "limit"
    refused(api.get(f"/v1/scopes/{scope}/sources?cusor=x"), 422, "invalid_request")
    refused(api.get(f"/v1/scopes/{scope}/sources?cursor=x"), 400, "invalid_cursor")
