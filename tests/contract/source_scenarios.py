"""Sources: capture, create, list, get."""

from typing import Any

from caller import Caller

HELLO_DIGEST = "sha256:5aa762ae383fbb727af3c7a36d4940a5b8c40a989452d2304fc958ff3f354e7a"


def _capture_refused(pc: Caller, status: int, code: str, **fields: Any) -> Any:
    good = {"source_id": "s1", "content": "a"}
    return pc.memory_refused(status, code, "capture_content_source", **good | fields)


def capture_answers_the_source_and_its_position(pc: Caller) -> None:
    for number in (1, 2, 3):
        assert pc.capture(f"s{number}", "text") == {
            "status": "accepted",
            "source": {"name": "content", "source_id": f"s{number}"},
            "position": number,
        }


def the_same_source_again_has_its_position(pc: Caller) -> None:
    pc.capture("other", "text")
    first = pc.capture("s1", "text", metadata={"a": 1, "b": [1, {"c": None}]})
    again = pc.capture("s1", "text", metadata={"b": [1.0, {"c": None}], "a": 1.0})
    assert first == again
    assert again["position"] == 2
    assert pc.capture("next", "text")["position"] == 3


def no_metadata_is_empty_metadata(pc: Caller) -> None:
    assert pc.capture("s1", "text")["position"] == 1
    assert pc.capture("s1", "text", metadata={})["position"] == 1
    assert pc.capture("s1", "text", metadata=None)["position"] == 1


def another_content_or_metadata_is_a_conflict(pc: Caller) -> None:
    pc.capture("s1", "text", metadata={"a": 1})
    for fields in ({"content": "other"}, {"metadata": {"a": 2}}, {"metadata": None}):
        asked = {"content": "text", "metadata": {"a": 1}} | fields
        _capture_refused(pc, 409, "source_conflict", **asked)
    assert pc.capture("s1", "text", metadata={"a": 1})["position"] == 1


def ids_are_case_sensitive_and_of_one_scope(pc: Caller) -> None:
    assert pc.capture("s1", "text")["position"] == 1
    assert pc.capture("S1", "text")["position"] == 2
    other = {"scope_id": pc.new_scope()["scope_id"], "source_id": "s1", "content": "else"}
    assert pc.ok("capture_content_source", other)["position"] == 1


def what_breaks_a_rule_is_422(pc: Caller) -> None:
    for fields in (
        {"content": ""},
        {"content": " \n"},
        {"content": "x" * 200_001},
        {"source_id": ""},
        {"source_id": " "},
        {"source_id": " s1"},
        {"source_id": "s1 "},
        {"source_id": "s" * 257},
    ):
        _capture_refused(pc, 422, "invalid_request", **fields)
    listed = pc.ok("list_sources", {}, scope_id=pc.scope)
    assert listed == {"items": [], "next_cursor": None}


def a_receipt_is_not_for_callers(pc: Caller) -> None:
    receipt = '{"schema": "powercontext.handoff-receipt.v1"}'
    _capture_refused(pc, 422, "invalid_request", content=receipt)


def an_unknown_scope_is_404(pc: Caller) -> None:
    asked = {"scope_id": "nowhere", "source_id": "s", "content": "a"}
    pc.refused(404, "scope_not_found", "capture_content_source", asked)
    pc.refused(404, "scope_not_found", "create_source", {"content": "a"}, scope_id="nowhere")
    pc.refused(404, "scope_not_found", "list_sources", {}, scope_id="nowhere")
    named = {"scope_id": "nowhere", "source_type": "content", "source_id": "s"}
    pc.refused(404, "scope_not_found", "get_source", **named)


def create_takes_any_json_and_is_not_idempotent(pc: Caller) -> None:
    for position, content in enumerate(
        ("hello", "", None, 7, [1, "two"], {"a": {"b": "\u5206"}}, "hello"), start=1
    ):
        asked = {"source_type": "content", "content": content}
        record = pc.ok("create_source", asked, scope_id=pc.scope)
        assert record["source_id"].startswith("src_")
        assert (record["scope_id"], record["source_type"]) == (pc.scope, "content")
        assert (record["content"], record["position"]) == (content, position)
        assert record["receipt_identity"] is None
        if content == "hello":
            assert record["content_digest"] == HELLO_DIGEST
        assert _read(pc, record["source_id"]) == record


def get_reads_what_was_captured(pc: Caller) -> None:
    pc.capture("s1", "hello", metadata={"secret": "not shown"})
    assert _read(pc, "s1") == {
        "receipt_identity": None,
        "scope_id": pc.scope,
        "source_type": "content",
        "source_id": "s1",
        "content": "hello",
        "position": 1,
        "content_digest": HELLO_DIGEST,
    }
    for source_type, source_id in (("content", "s2"), ("content", "S1")):
        named = {"scope_id": pc.scope, "source_type": source_type, "source_id": source_id}
        pc.refused(404, "source_not_found", "get_source", **named)


def ids_of_any_printable_characters_are_read_back(pc: Caller) -> None:
    wanted = ["a+b&c=d", "100%", "a?b#c", "'\"<>", "..."]
    for name in wanted:
        pc.capture(name, "text")
        assert _read(pc, name)["source_id"] == name
    listed = pc.ok("list_sources", {}, scope_id=pc.scope)["items"]
    assert [record["source_id"] for record in listed] == wanted


def list_pages_in_order_and_ends_where_it_began(pc: Caller) -> None:
    for number in range(1, 6):
        pc.capture(f"s{number}", f"text {number}")
    first = pc.ok("list_sources", {"limit": 2}, scope_id=pc.scope)
    pc.capture("late", "text")
    seen, cursor = [record["position"] for record in first["items"]], first["next_cursor"]
    while cursor is not None:
        page = pc.ok("list_sources", {"limit": 2, "cursor": cursor}, scope_id=pc.scope)
        seen += [record["position"] for record in page["items"]]
        cursor = page["next_cursor"]
    assert seen == [1, 2, 3, 4, 5]
    everything = pc.ok("list_sources", {"limit": 100}, scope_id=pc.scope)
    assert [record["position"] for record in everything["items"]] == [1, 2, 3, 4, 5, 6]
    assert everything["next_cursor"] is None


def a_cursor_that_was_tampered_with_or_is_of_another_list_is_400(pc: Caller) -> None:
    for number in range(3):
        pc.capture(f"s{number}", "text")
    cursor = pc.ok("list_sources", {"limit": 1}, scope_id=pc.scope)["next_cursor"]
    other = pc.new_scope()["scope_id"]
    refused = {"limit": 1, "cursor": cursor[:-2] + ("AA" if cursor[-2:] != "AA" else "BB")}
    pc.refused(400, "invalid_cursor", "list_sources", refused, scope_id=pc.scope)
    elsewhere = {"limit": 1, "cursor": cursor}
    pc.refused(400, "invalid_cursor", "list_sources", elsewhere, scope_id=other)


def _read(pc: Caller, source_id: str) -> Any:
    named = {"scope_id": pc.scope, "source_type": "content", "source_id": source_id}
    return pc.ok("get_source", **named)
