"""Flush, window by window. The server's window is of three positions."""

from caller import Caller, ref

IDLE = {
    "status": "idle",
    "previous_cursor": 0,
    "current_cursor": 0,
    "high_watermark": 0,
    "processed_source_count": 0,
    "memory": None,
    "held_count": 0,
    "hold_codes": [],
}


def nothing_to_do_is_idle_even_with_a_memory(pc: Caller) -> None:
    assert pc.memory("flush_memory") == IDLE
    pc.entry("A")
    assert pc.memory("flush_memory") == IDLE


def windows_go_on_from_the_cursor_to_the_end(pc: Caller) -> None:
    for number in range(1, 8):
        pc.capture(f"s{number}", f"We decided on thing number {number}.")
    found = [pc.memory("flush_memory") for _ in range(4)]
    assert [
        (one["previous_cursor"], one["current_cursor"], one["processed_source_count"])
        for one in found
    ] == [(0, 3, 3), (3, 6, 3), (6, 7, 1), (7, 7, 0)]
    assert [one["status"] for one in found] == ["processed"] * 3 + ["idle"]
    assert [one["high_watermark"] for one in found] == [7] * 4
    assert [one["memory"] for one in found] == [ref(1), ref(2), ref(3), None]
    assert pc.texts() == [f"We decided on thing number {number}." for number in range(1, 8)]


def what_is_extracted_cites_its_source_and_the_revision_the_window(pc: Caller) -> None:
    pc.capture("s1", "We decided that refunds need approval.")
    pc.capture("s2", "We must never log card numbers.")
    pc.memory("flush_memory")
    entries = pc.memory("list_memory_entries")["entries"]
    assert {(one["kind"], one["source_refs"][0]["source_id"]) for one in entries} == {
        ("decision", "s1"),
        ("constraint", "s2"),
    }
    revision = pc.ok("get_artifact", scope_id=pc.scope, family="memory", artifact_id="memory")
    expected = [{"source_type": "content", "source_id": name} for name in ("s1", "s2")]
    assert sorted(revision["sources"], key=str) == sorted(expected, key=str)


def a_window_of_known_texts_advances_and_answers_the_head(pc: Caller) -> None:
    pc.capture("s1", "We decided that refunds need approval.")
    first = pc.memory("flush_memory")
    assert first["memory"] == ref(1)
    pc.capture("s2", "EMPTY: nothing worth keeping here.")
    second = pc.memory("flush_memory")
    assert second == IDLE | {
        "status": "processed",
        "previous_cursor": 1,
        "current_cursor": 2,
        "high_watermark": 2,
        "processed_source_count": 1,
        "memory": ref(1),
    }


def a_window_without_a_memory_answers_null(pc: Caller) -> None:
    pc.capture("s1", "EMPTY: nothing worth keeping here.")
    answer = pc.memory("flush_memory")
    assert (answer["status"], answer["memory"]) == ("processed", None)
    assert answer["processed_source_count"] == 1


def a_model_that_is_down_leaves_the_cursor(pc: Caller) -> None:
    """What a server's fault may be of the input's making counts as no answer in time."""
    for number, code in ((503, "inference_unavailable"), (500, "inference_timeout")):
        pc.scope = pc.new_scope()["scope_id"]
        pc.capture("s1", f"This makes the model answer POISON-{number}.")
        pc.memory_refused(503, code, "flush_memory")
        assert _pending(pc) == 1
        assert pc.memory("list_memory_entries") == {"memory": None, "entries": []}


def a_model_that_talks_nonsense_leaves_the_cursor(pc: Caller) -> None:
    """1.2.0 answers 500; decisions.md 23 wants 502."""
    pc.capture("s1", "This makes the model answer POISON-JSON.")
    pc.memory_refused(502, "inference_invalid_output", "flush_memory")
    assert _pending(pc) == 1
    assert pc.memory("list_memory_entries") == {"memory": None, "entries": []}


def a_flush_does_not_move_the_head_without_changes(pc: Caller) -> None:
    entry = pc.entry("A")
    pc.capture("s1", "EMPTY: nothing worth keeping here.")
    pc.memory("flush_memory")
    asked = {"citation": entry["citation"], "kind": "fact", "text": "B"}
    assert pc.memory("revise_memory_entry", **asked)["memory"] == ref(2)


def _pending(pc: Caller) -> int:
    selection = {"mode": "exact", "scope_ids": [pc.scope]}
    stats = pc.ok("get_stats", {"selection": selection})
    return stats["inventory"]["sources"]["memory_pending"]
