"""Revise, retire and read by citation: section 9, in the order of its checks."""

from typing import Any

from caller import Caller, ref


def a_citation_of_what_never_was_is_404(pc: Caller) -> None:
    entry = pc.entry("A")
    for changed in (
        {"family": "other", "artifact_id": "memory", "revision": 1},
        {"family": "memory", "artifact_id": "other", "revision": 1},
        ref(7),
    ):
        citation = entry["citation"] | {"memory_ref": changed}
        pc.memory_refused(404, "artifact_not_found", "get_memory_entry", citation=citation)
    for name in ("entry_id", "entry_version_id"):
        citation = entry["citation"] | {name: "mem_ent_" + "0" * 32}
        pc.memory_refused(404, "memory_not_found", "get_memory_entry", citation=citation)


def a_pair_that_a_revision_did_not_have_is_404(pc: Caller) -> None:
    first = pc.entry("A")
    second = _revised(pc, first, "B")
    mixed = second["citation"] | {"memory_ref": ref(1)}
    pc.memory_refused(404, "memory_not_found", "get_memory_entry", citation=mixed)
    old_at_head = first["citation"] | {"memory_ref": ref(2)}
    pc.memory_refused(404, "memory_not_found", "get_memory_entry", citation=old_at_head)


def writing_checks_the_memory_then_the_head_then_the_pair_then_the_state(pc: Caller) -> None:
    nothing = {"memory_ref": ref(1), "entry_id": "mem_ent_x", "entry_version_id": "mem_ver_x"}
    _both_refused(pc, nothing, 404, "artifact_not_found")
    entry = pc.entry("A")
    foreign = {"family": "memory", "artifact_id": "other", "revision": 1}
    _both_refused(pc, entry["citation"] | {"memory_ref": foreign}, 404, "artifact_not_found")
    _both_refused(pc, entry["citation"] | {"memory_ref": ref(5)}, 409, "revision_conflict")
    _both_refused(pc, nothing | {"memory_ref": ref(5)}, 409, "revision_conflict")
    _both_refused(pc, nothing, 404, "memory_not_found")
    gone = pc.memory("retire_memory_entry", citation=entry["citation"])["entry"]
    pc.memory_refused(
        409,
        "memory_entry_inactive",
        "revise_memory_entry",
        citation=gone["citation"],
        kind="fact",
        text="B",
    )


def a_revise_to_an_invalid_text_is_422_and_writes_nothing(pc: Caller) -> None:
    entry = pc.entry("A")
    for fields in (
        {"text": " "},
        {"text": "x" * 8193},
        {"kind": " "},
        {"kind": "k" * 129},
        {"reason": "r" * 513},
    ):
        asked = {"citation": entry["citation"], "kind": "fact", "text": "B"} | fields
        pc.memory_refused(422, "invalid_request", "revise_memory_entry", **asked)
    assert pc.memory("list_memory_entries") == {"memory": ref(1), "entries": [entry]}


def revise_makes_a_version_of_the_same_entry(pc: Caller) -> None:
    entry = pc.entry("A")
    answer = pc.memory(
        "revise_memory_entry",
        citation=entry["citation"],
        kind="decision",
        text=" B ",
        reason="because",
    )
    revised = answer["entry"]
    assert answer["memory"] == ref(2)
    assert revised["citation"]["memory_ref"] == ref(2)
    assert revised["citation"]["entry_id"] == entry["citation"]["entry_id"]
    assert revised["citation"]["entry_version_id"] != entry["citation"]["entry_version_id"]
    assert (revised["version"], revised["kind"], revised["text"]) == (2, "decision", "B")
    assert revised["state"] == "active"


def a_revise_keeps_the_evidence(pc: Caller) -> None:
    pc.capture("s1", "We decided that refunds need approval.")
    pc.memory("flush_memory")
    [entry] = pc.memory("list_memory_entries")["entries"]
    revised = _revised(pc, entry, "Refunds need approval by two people.")
    assert revised["source_refs"] == [{"name": "content", "source_id": "s1"}]


def any_other_write_makes_a_citation_stale_for_writing_only(pc: Caller) -> None:
    entry = pc.entry("A")
    pc.entry("B")
    asked = {"citation": entry["citation"], "kind": "fact", "text": "C"}
    details = pc.memory_refused(409, "revision_conflict", "revise_memory_entry", **asked)
    fresh = details["citation"]
    assert details["current"] == 2
    assert details["state"] == "active"
    assert details["entry_changed"] is False
    assert fresh == entry["citation"] | {"memory_ref": ref(2)}
    assert pc.memory("get_memory_entry", citation=entry["citation"]) == entry
    assert pc.memory("revise_memory_entry", **asked | {"citation": fresh})["memory"] == ref(3)


def retire_makes_no_version_and_is_idempotent_at_the_head(pc: Caller) -> None:
    entry = pc.entry("A")
    answer = pc.memory("retire_memory_entry", citation=entry["citation"], reason="old")
    gone = answer["entry"]
    assert answer["memory"] == ref(2)
    assert gone == entry | {
        "state": "inactive",
        "citation": entry["citation"] | {"memory_ref": ref(2)},
    }
    again = pc.memory("retire_memory_entry", citation=gone["citation"])
    assert again == answer


def a_blind_retry_of_a_retire_is_409_and_says_what_is_the_case(pc: Caller) -> None:
    entry = pc.entry("A")
    gone = pc.memory("retire_memory_entry", citation=entry["citation"])["entry"]
    details = pc.memory_refused(
        409, "revision_conflict", "retire_memory_entry", citation=entry["citation"]
    )
    assert (details["state"], details["citation"]) == ("inactive", gone["citation"])


def every_citation_given_out_reads_the_same_for_ever(pc: Caller) -> None:
    shown = []
    entry = pc.entry("A")
    shown.append(entry)
    for text in ("B", "C"):
        entry = _revised(pc, entry, text)
        shown.append(entry)
    pc.entry("another")
    shown += pc.memory("list_memory_entries")["entries"]
    current = next(one for one in shown[3:] if one["text"] == "C")
    gone = pc.memory("retire_memory_entry", citation=current["citation"])["entry"]
    shown.append(gone)
    pc.entry("C")
    for one in shown:
        assert pc.memory("get_memory_entry", citation=one["citation"]) == one
    # What was retired at revision 5 reads as active by a citation of before.
    assert [one["state"] for one in shown] == ["active"] * 5 + ["inactive"]


def _both_refused(pc: Caller, citation: dict[str, Any], status: int, code: str) -> None:
    asked = {"citation": citation, "kind": "fact", "text": "B"}
    pc.memory_refused(status, code, "revise_memory_entry", **asked)
    pc.memory_refused(status, code, "retire_memory_entry", citation=citation)


def _revised(pc: Caller, entry: dict[str, Any], text: str) -> Any:
    return pc.memory("revise_memory_entry", citation=entry["citation"], kind="fact", text=text)[
        "entry"
    ]
