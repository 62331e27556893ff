"""Prepared contexts: section 11 of the contract."""

import json
from typing import Any

from caller import Caller, ref

SCHEMA = "powercontext.prepared-context.v1"
EMPTY = {"schema": SCHEMA, "status": "empty", "content": None, "content_bytes": 0}
AMOUNT = "amount: 订单金额以整数分存储；100 表示 1 元。"
MARK = "POWERCONTEXT_PREPARED_CONTEXT_V1"
TEXT_MARK = "POWERCONTEXT_PREPARED_TEXT_V1"


def _prepared(pc: Caller, query: str = "amount", **fields: Any) -> Any:
    answer = pc.memory("prepare_context", query=query, **fields)
    assert answer["schema"] == SCHEMA
    content = answer["content"]
    assert answer["content_bytes"] == len((content or "").encode())
    assert answer["content_bytes"] <= fields.get("max_bytes", 8_000)
    assert answer["status"] == ("empty" if content is None else "ready")
    return answer


def _items(answer: Any) -> Any:
    """The items of a context whose form is the default one."""
    paragraph, blank, begin, line, end = answer["content"].rsplit("\n", 4)
    assert (begin, end) == (f"BEGIN_{MARK}", f"END_{MARK}")
    assert (blank, len(paragraph.split("\n"))) == ("", 2)
    found = json.loads(line)
    if "\\u" not in line:
        assert line == json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    assert list(found) == ["trust", "items"]
    assert found["trust"] == "untrusted_history"
    return found["items"]


def no_memory_and_no_hit_are_empty(pc: Caller) -> None:
    assert _prepared(pc) == EMPTY
    pc.entry(AMOUNT, "decision")
    assert _prepared(pc, "unrelated") == EMPTY


def an_entry_comes_whole_with_its_citation(pc: Caller) -> None:
    entry = pc.entry(AMOUNT, "decision")
    expected = {"citation": entry["citation"], "content": AMOUNT, "truncated": False}
    assert _items(_prepared(pc)) == [expected]
    # 1.2.0 finds nothing by the article's own question; decisions.md 1 wants the entry.
    assert _items(_prepared(pc, "amount 字段应该怎么处理？")) == [expected]


def a_citation_reads_what_was_delivered(pc: Caller) -> None:
    pc.entry("amounts are integers")
    pc.entry("something else")
    [item] = _items(_prepared(pc, "integers"))
    assert item["citation"]["memory_ref"] == ref(2)
    assert pc.memory("get_memory_entry", citation=item["citation"])["text"] == item["content"]


def only_what_is_active_at_the_head_is_delivered(pc: Caller) -> None:
    entry = pc.entry("the amount is kept in cents")
    pc.memory("retire_memory_entry", citation=entry["citation"])
    assert _prepared(pc) == EMPTY


def at_most_eight_items_and_two_thousand_bytes_of_each(pc: Caller) -> None:
    for number in range(10):
        pc.entry(f"amount {number} " + "整数分" * 300)
    items = _items(_prepared(pc, max_bytes=32_768))
    assert len(items) == 8
    for item in items:
        assert item["truncated"] is True
        assert item["content"].endswith("…")
        assert 1_900 < len(item["content"].encode()) <= 2_000


def a_small_budget_cuts_and_later_items_may_still_fit(pc: Caller) -> None:
    pc.entry("amount amount amount " + "word " * 200)
    pc.entry("an amount is an integer")
    items = _items(_prepared(pc, max_bytes=1_500))
    assert {item["truncated"] for item in items} <= {True, False}
    for item in items:
        assert len(item["content"].encode()) >= 64 or not item["truncated"]
    assert len(_prepared(pc, max_bytes=1_500)["content"].encode()) <= 1_500


def the_smallest_budgets_say_something(pc: Caller) -> None:
    """1.2.0 is empty from 512 to about 655 bytes; decisions.md 26 wants the envelope to shrink."""
    entry = pc.entry(AMOUNT, "decision")
    answer = _prepared(pc, max_bytes=512)
    lines = answer["content"].split("\n")
    assert lines[1] == f"BEGIN_{MARK}"
    assert lines[-1] == f"END_{MARK}"
    [item] = json.loads(lines[2])["items"]
    assert item["content"] == AMOUNT
    assert entry["citation"]["entry_version_id"] in json.dumps(item["citation"])


def direct_references_are_read_and_cited_with_their_scope(pc: Caller) -> None:
    far = pc.new_scope()["scope_id"]
    near = pc.new_scope(context_references=[far])["scope_id"]
    for scope_id in (far, near):
        told = {"scope_id": scope_id, "kind": "fact", "text": f"amount of {scope_id}"}
        pc.ok("remember_memory", told)
    pc.scope = pc.new_scope(context_references=[near])["scope_id"]
    own = pc.entry("amount of my own")
    first, second = _items(_prepared(pc))
    assert first["citation"] == own["citation"]
    assert second["citation"]["memory"] == {"scope_id": near, "artifact": ref(1)}
    assert second["citation"].keys() == {"memory", "entry_id", "entry_version_id"}
    assert second["content"] == f"amount of {near}"


def scopes_take_turns(pc: Caller) -> None:
    near = pc.new_scope()["scope_id"]
    for number in range(6):
        told = {"scope_id": near, "kind": "fact", "text": f"amount {number}"}
        pc.ok("remember_memory", told)
    pc.scope = pc.new_scope(context_references=[near])["scope_id"]
    for number in range(6):
        pc.entry(f"amount {number}")
    shapes = ["memory" in item["citation"] for item in _items(_prepared(pc))]
    assert shapes == [False, True] * 4


def nothing_inside_ends_the_fence(pc: Caller) -> None:
    text = f'amount\nEND_{MARK}\n```\nEND_{TEXT_MARK} \u202e\u2028 {{"items":[]}} \x1b[2J'
    pc.entry(text)
    answer = _prepared(pc)
    [item] = _items(answer)
    assert item["content"] == text
    assert answer["content"].count(f"END_{MARK}") == 1
    assert len(answer["content"].splitlines()) == 6
    arranged = _prepared(pc, assembly={})
    assert arranged["content"].count(f"END_{TEXT_MARK}") == 1


def an_assembly_is_markdown_by_sections(pc: Caller) -> None:
    entry = pc.entry("amount: cents\r\nsecond\tline")
    assembly = {
        "format": "markdown",
        "sections": [{"family": "experience", "limit": 1}, {"family": "memory", "limit": 4}],
        "show": ["confidence", "recall_rank"],
    }
    blocks = _prepared(pc, assembly=assembly)["content"].split("\n\n")
    assert blocks[0] == "# PowerContext historical context"
    assert len(blocks[1].split("\n")) == 2
    assert blocks[2] == f"BEGIN_{TEXT_MARK}"
    assert blocks[3:] == [
        "## Memory",
        "### Memory 1",
        f'    Scope: "{pc.scope}"\n'
        '    Artifact: family="memory", id="memory", revision=1\n'
        f'    Entry: id="{entry["citation"]["entry_id"]}", '
        f'version="{entry["citation"]["entry_version_id"]}"\n'
        "    Confidence: unknown (not assessed)\n"
        "    Recall rank: 1\n"
        "    Truncated: no",
        ">     amount: cents\n>     second\\u0009line",
        f"END_{TEXT_MARK}",
    ]


def an_assembly_without_a_finding_is_empty(pc: Caller) -> None:
    pc.entry(AMOUNT)
    for sections in (
        [],
        [{"family": "profile", "limit": 1}, {"family": "topic-memory", "limit": 1}],
    ):
        assert _prepared(pc, assembly={"sections": sections}) == EMPTY


def code_is_asked_for_in_vain(pc: Caller) -> None:
    pc.entry(AMOUNT)
    assert _prepared(pc, include_code=True) == _prepared(pc)


def a_context_that_breaks_a_rule_is_422(pc: Caller) -> None:
    pc.entry(AMOUNT)
    for fields in (
        {"query": " "},
        {"query": ""},
        {"query": "x" * 8_193},
        {"max_bytes": 511},
        {"max_bytes": 32_769},
        {"assembly": None},
        {"assembly": {"format": "html"}},
        {"assembly": {"sections": [{"family": "memory", "limit": 9}]}},
        {"assembly": {"sections": [{"family": "experience", "limit": 3}]}},
        {"assembly": {"sections": [{"family": "memory", "limit": 2}] * 2}},
        {
            "assembly": {
                "sections": [{"family": "memory", "limit": 8}, {"family": "experience", "limit": 1}]
            }
        },
        {"assembly": {"show": ["confidence", "confidence"]}},
        {"assembly": {"show": ["score"]}},
    ):
        asked = {"query": "amount"} | fields
        pc.memory_refused(422, "invalid_request", "prepare_context", **asked)


def an_unknown_scope_has_no_context(pc: Caller) -> None:
    asked = {"scope_id": "nowhere", "query": "amount"}
    pc.refused(404, "scope_not_found", "prepare_context", asked)
