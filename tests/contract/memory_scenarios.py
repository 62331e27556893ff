"""The memory calls, one after the other, and their rows of the contract's table."""

from caller import Caller, ref

LONG_EXACTLY = "\u5206" * 2730  # 8,190 bytes


def remember_answers_the_memory_and_the_entry(pc: Caller) -> None:
    answer = pc.remember("amounts are integer cents", "decision", reason="agreed")
    citation = answer["entry"]["citation"]
    assert citation["entry_id"].startswith("mem_ent_")
    assert citation["entry_version_id"].startswith("mem_ver_")
    assert answer == {
        "memory": ref(1),
        "entry": {
            "citation": {"memory_ref": ref(1)} | citation,
            "version": 1,
            "kind": "decision",
            "text": "amounts are integer cents",
            "state": "active",
            "source_refs": [],
            "artifact_refs": [],
        },
    }


def an_expected_revision_without_a_memory_is_404_and_of_another_head_409(pc: Caller) -> None:
    asked = {"kind": "fact", "text": "a", "expected_revision": 1}
    pc.memory_refused(404, "artifact_not_found", "remember_memory", **asked)
    pc.entry("b")
    assert pc.memory("remember_memory", **asked)["memory"] == ref(2)
    pc.memory_refused(409, "revision_conflict", "remember_memory", **asked | {"text": "c"})
    pc.memory_refused(
        409, "revision_conflict", "remember_memory", kind="fact", text="c", expected_revision=9
    )


def an_unknown_scope_is_404_on_every_memory_call(pc: Caller) -> None:
    citation = {"memory_ref": ref(1), "entry_id": "mem_ent_x", "entry_version_id": "mem_ver_x"}
    for operation, fields in (
        ("remember_memory", {"kind": "fact", "text": "a"}),
        ("flush_memory", {}),
        ("search_memory", {"query": "a"}),
        ("list_memory_entries", {}),
        ("get_memory_entry", {"citation": citation}),
        ("revise_memory_entry", {"citation": citation, "kind": "fact", "text": "a"}),
        ("retire_memory_entry", {"citation": citation}),
        ("list_memory_changes", {}),
        ("get_memory_capacity", {}),
    ):
        pc.refused(404, "scope_not_found", operation, {"scope_id": "nowhere", **fields})


def a_scope_without_a_memory_answers_with_nulls(pc: Caller) -> None:
    assert pc.memory("list_memory_entries") == {"memory": None, "entries": []}
    assert pc.memory("list_memory_changes") == {"memory": None, "revisions": []}
    assert pc.memory("list_memory_changes", since_revision=0) == {"memory": None, "revisions": []}
    for mode in ("auto", "fts", "vector", "hybrid"):
        found = pc.memory("search_memory", query="anything", mode=mode)
        assert found == {"memory": None, "mode": None, "hits": []}
    pc.memory_refused(404, "artifact_not_found", "get_memory_capacity")


def what_breaks_a_rule_is_422(pc: Caller) -> None:
    good = {"kind": "fact", "text": "a"}
    for fields in (
        {"text": ""},
        {"text": " \u3000\n"},
        {"kind": ""},
        {"kind": " "},
        {"kind": "k" * 129},
        {"reason": "r" * 513},
        {"expected_revision": 0},
        {"text": "x" * 8193},
        {"text": "\u5206" * 2731},
    ):
        pc.memory_refused(422, "invalid_request", "remember_memory", **good | fields)
    assert pc.memory("list_memory_entries")["memory"] is None


def the_longest_text_and_kind_and_reason_pass(pc: Caller) -> None:
    assert pc.entry(LONG_EXACTLY)["text"] == LONG_EXACTLY
    assert pc.entry("x" * 8192)["text"] == "x" * 8192
    assert pc.entry("  y" + "y" * 8191 + " ")["text"] == "y" * 8192
    assert pc.entry("a", "k" * 128, reason="\u5206" * 512)["kind"] == "k" * 128


def a_text_too_long_says_so(pc: Caller) -> None:
    details = pc.memory_refused(
        422, "invalid_request", "remember_memory", kind="fact", text="\u5206" * 2731
    )
    assert details["code"] == "text-too-long"
    assert (details["limit"], details["observed"]) == (8192, 8193)


def texts_are_composed_and_trimmed_and_otherwise_kept(pc: Caller) -> None:
    for given, kept in (
        ("\u00a0\u3000 cafe\u0301 \n", "caf\u00e9"),
        ("two  spaces\r\nand a line", "two  spaces\r\nand a line"),
        ("\u200bzero width", "\u200bzero width"),
        ("\u202eright to left \U0001f468\u200d\U0001f469\u200d\U0001f467",) * 2,
    ):
        assert pc.entry(given)["text"] == kept


def a_credential_is_refused(pc: Caller) -> None:
    secret = "AKIA" + "ABCDEFGH12345678"
    pc.memory_refused(422, "secret_detected", "remember_memory", kind="fact", text=f"key {secret}")


def list_shows_active_entries_unless_asked_for_all(pc: Caller) -> None:
    gone = pc.entry("gone")
    pc.entry("kept")
    current = _entry_named(pc, "gone")
    assert current["citation"]["entry_id"] == gone["citation"]["entry_id"]
    pc.memory("retire_memory_entry", citation=current["citation"])
    assert pc.texts() == ["kept"]
    assert pc.texts(include_inactive=True) == ["gone", "kept"]
    listed = pc.memory("list_memory_entries", include_inactive=True)
    assert listed["memory"] == ref(3)
    assert {entry["state"] for entry in listed["entries"]} == {"active", "inactive"}
    for entry in listed["entries"]:
        assert entry["citation"]["memory_ref"] == ref(3)


def get_reads_what_list_showed(pc: Caller) -> None:
    for number in range(3):
        pc.entry(f"text {number}")
    for entry in pc.memory("list_memory_entries")["entries"]:
        assert pc.memory("get_memory_entry", citation=entry["citation"]) == entry


def changes_are_those_of_the_head_or_since_a_revision(pc: Caller) -> None:
    one, two = pc.entry("one"), pc.entry("two", reason="because")
    three = pc.memory(
        "revise_memory_entry",
        citation=two["citation"],
        kind="fact",
        text="three",
        reason=" why ",
    )["entry"]
    gone = pc.memory("retire_memory_entry", citation=three["citation"])["entry"]

    def change(op: str, entry: dict, was: dict | None, now: dict | None, reason: object) -> dict:
        return {
            "op": op,
            "entry_id": entry["citation"]["entry_id"],
            "from_entry_version_id": was and was["citation"]["entry_version_id"],
            "to_entry_version_id": now and now["citation"]["entry_version_id"],
            "reason": reason,
        }

    expected = [
        {"memory_ref": ref(1), "changes": [change("add", one, None, one, None)]},
        {"memory_ref": ref(2), "changes": [change("add", two, None, two, "because")]},
        {"memory_ref": ref(3), "changes": [change("revise", two, two, three, "why")]},
        {"memory_ref": ref(4), "changes": [change("deactivate", two, gone, None, None)]},
    ]
    for since in range(5):
        found = pc.memory("list_memory_changes", since_revision=since)
        assert found == {"memory": ref(4), "revisions": expected[since:]}
    newest = pc.memory("list_memory_changes")
    assert newest == {"memory": ref(4), "revisions": expected[3:]}


def changes_past_the_head_are_422(pc: Caller) -> None:
    pc.entry("one")
    assert pc.memory("list_memory_changes", since_revision=1)["revisions"] == []
    pc.memory_refused(422, "invalid_request", "list_memory_changes", since_revision=2)


def capacity_counts_entries(pc: Caller) -> None:
    gone = pc.entry("one")
    pc.memory("retire_memory_entry", citation=gone["citation"])
    pc.entry("two")
    capacity = pc.memory("get_memory_capacity")
    assert capacity["memory_ref"] == ref(3)
    assert (capacity["active_entry_count"], capacity["manifest_entry_count"]) == (1, 2)
    assert capacity["manifest_bytes"] > 0
    assert capacity["exceeded"] == []
    assert capacity["budget"]["max_active_entries"] >= 5000


def scopes_do_not_see_each_other(pc: Caller) -> None:
    other = pc.new_scope()["scope_id"]
    entry = pc.entry("only here")
    listed = pc.ok("list_memory_entries", {"scope_id": other})
    assert listed == {"memory": None, "entries": []}
    asked = {"scope_id": other, "citation": entry["citation"]}
    pc.refused(404, "artifact_not_found", "get_memory_entry", asked)


def _entry_named(pc: Caller, text: str) -> dict:
    listed = pc.memory("list_memory_entries")["entries"]
    return next(entry for entry in listed if entry["text"] == text)
