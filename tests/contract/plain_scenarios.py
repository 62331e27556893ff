"""What only plain HTTP can ask: our additions, and what the published client's models refuse."""

from caller import Caller


def source_ids_of_any_characters_are_read_back_and_listed(pc: Caller) -> None:
    """1.2.0 captures these and can then read no page that holds one."""
    wanted = ["订单-1", "a b", "🦀", "é"]
    for name in wanted:
        pc.capture(name, "text")
        named = {"scope_id": pc.scope, "source_type": "content", "source_id": name}
        assert pc.ok("get_source", **named)["source_id"] == name
    listed = pc.ok("list_sources", {}, scope_id=pc.scope)["items"]
    assert [record["source_id"] for record in listed] == wanted


def an_unknown_field_is_refused(pc: Caller) -> None:
    for operation, fields in (
        ("remember_memory", {"kind": "fact", "text": "a"}),
        ("flush_memory", {}),
        ("search_memory", {"query": "a"}),
        ("list_memory_entries", {}),
        ("list_memory_changes", {}),
        ("get_memory_capacity", {}),
        ("capture_content_source", {"source_id": "s", "content": "a"}),
        ("list_artifact_candidates", {}),
        ("get_artifact_candidate", {"candidate_id": "cand_x"}),
        ("approve_artifact_candidate", {"candidate_id": "cand_x", "expected_version": 1}),
    ):
        asked = fields | {"unheard_of": 1}
        details = pc.memory_refused(422, "invalid_request", operation, **asked)
        assert details["field"] == "unheard_of"


def extras_are_there_when_asked_for_and_only_then(pc: Caller) -> None:
    pc.entry("amounts are integers", "decision", reason="agreed")
    plain = pc.memory("search_memory", query="amounts")
    asked = ["kind", "version", "sources", "matched_terms", "channels", "coverage"]
    more = pc.memory("search_memory", query="amounts", include=asked)
    assert plain["hits"][0].keys() < more["hits"][0].keys()
    assert more["hits"][0]["kind"] == "decision"
    assert "coverage" not in plain
    [listed] = pc.memory("list_memory_entries")["entries"]
    [timed] = pc.memory("list_memory_entries", include=["times", "origin", "reason"])["entries"]
    assert listed.keys() < timed.keys()


def a_page_cursor_of_entries_goes_through_all_of_them(pc: Caller) -> None:
    for number in range(5):
        pc.entry(f"text {number}")
    seen, cursor = [], None
    while True:
        more = {} if cursor is None else {"cursor": cursor}
        page = pc.memory("list_memory_entries", limit=2, **more)
        seen += [entry["text"] for entry in page["entries"]]
        cursor = page.get("next_cursor")
        if cursor is None:
            break
    assert seen == [f"text {number}" for number in range(5)]
