"""What counts as known: section 2.4, and the sequences of section 16."""

from caller import Caller, ref


def the_same_text_again_adds_nothing(pc: Caller) -> None:
    pc.entry("caf\u00e9 X")
    for known in ("caf\u00e9 X", " caf\u00e9 X ", "\u3000cafe\u0301 X\n"):
        assert pc.remember(known) == {"memory": ref(1), "entry": None}
    assert pc.texts() == ["caf\u00e9 X"]


def another_case_or_kind_is_another_entry(pc: Caller) -> None:
    first = pc.entry("amount")
    second = pc.entry("Amount")
    third = pc.entry("amount", "decision")
    assert pc.memory("list_memory_entries")["memory"] == ref(3)
    assert len({one["citation"]["entry_id"] for one in (first, second, third)}) == 3


def the_text_of_a_retired_entry_makes_a_new_one(pc: Caller) -> None:
    old = pc.entry("X")
    pc.memory("retire_memory_entry", citation=old["citation"])
    answer = pc.remember("X")
    assert answer["memory"] == ref(3)
    assert answer["entry"]["version"] == 1
    assert answer["entry"]["citation"]["entry_id"] != old["citation"]["entry_id"]
    listed = pc.memory("list_memory_entries", include_inactive=True)["entries"]
    states = {entry["citation"]["entry_id"]: entry["state"] for entry in listed}
    assert states[old["citation"]["entry_id"]] == "inactive"
    assert len(states) == 2


def a_revise_may_make_a_duplicate(pc: Caller) -> None:
    pc.entry("A")
    other = pc.entry("B")
    pc.memory("revise_memory_entry", citation=other["citation"], kind="fact", text="A")
    assert pc.texts() == ["A", "A"]


def a_revise_that_changes_nothing_answers_the_entry(pc: Caller) -> None:
    entry = pc.entry("A")
    answer = pc.memory(
        "revise_memory_entry", citation=entry["citation"], kind=" fact ", text=" A ", reason="r"
    )
    assert answer == {"memory": ref(1), "entry": entry}


def the_old_text_of_a_revised_entry_is_new_again(pc: Caller) -> None:
    entry = pc.entry("A")
    pc.memory("revise_memory_entry", citation=entry["citation"], kind="fact", text="B")
    assert pc.remember("A")["memory"] == ref(3)
    assert pc.remember("B") == {"memory": ref(3), "entry": None}


def what_was_extracted_and_is_remembered_by_hand_again(pc: Caller) -> None:
    """The text of another origin is another entry, unless it is already evidence-free."""
    pc.capture("s1", "We decided that refunds need approval.")
    pc.memory("flush_memory")
    [extracted] = pc.memory("list_memory_entries")["entries"]
    assert extracted["source_refs"] == [{"name": "content", "source_id": "s1"}]
    answer = pc.remember(extracted["text"], extracted["kind"])
    # decisions.md 4: an explicit remember keeps `entry: null` for an active text of its kind.
    assert answer["entry"] is None or answer["entry"]["source_refs"] == []


def extraction_of_a_known_text_adds_no_second_entry(pc: Caller) -> None:
    """decisions.md 4: the evidence is added to the entry instead."""
    known = pc.entry("We decided that refunds need approval.", "decision")
    pc.capture("s1", "We decided that refunds need approval.")
    answer = pc.memory("flush_memory")
    assert (answer["processed_source_count"], answer["memory"]) == (1, ref(2))
    [entry] = pc.memory("list_memory_entries")["entries"]
    assert entry["citation"]["entry_id"] == known["citation"]["entry_id"]
    assert entry["version"] == 2
    assert entry["source_refs"] == [{"name": "content", "source_id": "s1"}]


def extraction_brings_back_nothing_retired(pc: Caller) -> None:
    """decisions.md 5."""
    text = "We decided that refunds need approval."
    pc.memory("retire_memory_entry", citation=pc.entry(text, "decision")["citation"])
    pc.capture("s1", text)
    answer = pc.memory("flush_memory")
    assert (answer["status"], answer["memory"]) == ("processed", ref(2))
    assert pc.texts() == []


def a_remember_b_then_revise_a_with_the_old_citation_is_409(pc: Caller) -> None:
    a = pc.entry("A")
    pc.entry("B")
    asked = {"citation": a["citation"], "kind": "fact", "text": "C"}
    pc.memory_refused(409, "revision_conflict", "revise_memory_entry", **asked)
    assert pc.texts() == ["A", "B"]
