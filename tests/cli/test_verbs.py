"""Every verb, on a store of this machine and on a server: the same output either way."""

import json

import pytest
from model_stub import adding, status
from running_pc import Command

ENTRY = "mem_ent_00000000000000000000000000000000"


def entry_id(row):
    return row["entry"]["citation"]["entry_id"]


def test_scopes(pc):
    assert pc.ok("scope", "create", "shop", "--title", "Shop", "--summary", "Sells") == (
        "created shop\n"
    )
    (child,) = pc.rows("scope", "create", "a/b", "--parent", "shop")
    assert (child["scope_id"], child["parent_scope_id"], child["version"]) == ("a/b", "shop", 1)
    listed = pc.rows("scope", "list")
    assert [row["scope_id"] for row in listed if row["title"] != "Default"] == ["a/b", "shop"]
    assert listed[0]["sources"] == {"total": 0, "memory_processed": 0, "memory_pending": 0}
    assert "Shop" in pc.ok("scope", "list")
    pc.ok("scope", "update", "shop", "--title", "Store", "--reference", "a/b")
    (now,) = pc.rows("scope", "show", "shop")
    assert (now["title"], now["summary"], now["context_references"], now["version"]) == (
        "Store",
        "Sells",
        ["a/b"],
        2,
    )
    assert "partition  a%2Fb" in pc.ok("scope", "show", "a/b")
    assert pc.refused(1, "scope", "update", "shop", "--version", "1", "--title", "x")
    assert pc.refused(1, "scope", "create", "shop") == "pc: the scope 'shop' exists already"
    assert pc.ok("scope", "default", "shop") == "the default scope is shop: Store\n"
    assert pc.rows("scope", "default")[0]["scope_id"] == "shop"


def test_bindings(pc, shop):
    shop()
    key = ("git", "remote", "git@example.org:shop.git")
    assert pc.rows("scope", "bind", "shop", *key)[0]["scope_id"] == "shop"
    assert pc.ok("scope", "resolve", *key) == "shop: The shop\n"
    assert pc.ok("scope", "unbind", *key) == "unbound\n"
    assert pc.ok("scope", "unbind", *key) == "it was not bound\n"
    assert pc.refused(1, "scope", "resolve", *key) == "pc: none of the keys is bound to a scope"
    assert pc.ok("scope", "resolve", "--default", *key).endswith(": Default\n")


def test_sources(pc, shop):
    shop("Amounts are cents.", "Names are UTF-8.")
    assert pc.ok("source", "add", "shop", "s3", "-", stdin="From a pipe.") == (
        "accepted, at position 3\n"
    )
    assert [row["position"] for row in pc.rows("source", "list", "shop", "--after", "1")] == [2, 3]
    assert [row["source_id"] for row in pc.rows("source", "list", "shop", "--limit", "2")] == [
        "s1",
        "s2",
    ]
    assert "log" in pc.ok("source", "list", "shop")
    assert pc.ok("source", "show", "shop", "s1").endswith(
        'metadata {"kind":"log"}\nAmounts are cents.\n'
    )
    assert pc.refused(1, "source", "add", "shop", "s1", "Other.")
    assert pc.refused(2, "source", "add", "shop", "s4", "x", "--metadata", "[]") == (
        "pc: metadata: must be a JSON object"
    )
    assert pc.refused(2, "source", "add", "shop", "s4", "")
    assert pc.refused(1, "source", "show", "shop", "none")


def test_entries_by_hand(pc, shop):
    shop()
    assert pc.ok("memory", "list", "shop") == "the scope has no memory yet\n"
    (made,) = pc.rows("memory", "remember", "shop", "Amounts are cents.", "--kind", "decision")
    one = entry_id(made)
    assert pc.ok("memory", "remember", "shop", "Amounts are cents.", "--kind", "decision") == (
        "already known, nothing was added\n"
    )
    assert pc.ok("memory", "revise", "shop", one, "Amounts are integer cents.") == (
        f"{one} version 2, active, in revision 2\n"
    )
    assert pc.refused(1, "memory", "revise", "shop", one, "Late.", "--revision", "1") == (
        "pc: the memory is at revision 2, 1 was cited"
    )
    assert pc.rows("memory", "show", "shop", one, "--revision", "1")[0]["version"] == 1
    shown = pc.ok("memory", "show", "shop", one)
    assert shown.startswith(
        "decision, version 2, active, by explicit\nAmounts are integer cents.\n"
    )
    assert "citation memory/memory@2" in shown
    pc.ok("memory", "retire", "shop", one, "--reason", "old")
    assert pc.ok("memory", "list", "shop") == "no entries\n"
    (retired,) = pc.rows("memory", "list", "shop", "--include-inactive")
    assert (retired["state"], retired["kind"]) == ("inactive", "decision")
    pc.ok("memory", "reactivate", "shop", one)
    assert [row["op"] for row in pc.rows("memory", "history", "shop", one)] == [
        "add",
        "revise",
        "deactivate",
        "reactivate",
    ]
    assert "deactivate" in pc.ok("memory", "history", "shop", one)
    changes = pc.rows("memory", "changes", "shop", "--since", "2")
    assert [(row["revision"], row["op"], row["reason"]) for row in changes] == [
        (3, "deactivate", "old"),
        (4, "reactivate", None),
    ]
    assert pc.ok("memory", "diff", "shop", "1", "4") == (
        f"{one}\n"
        "  - decision v1 active: Amounts are cents.\n"
        "  + decision v2 active: Amounts are integer cents.\n"
    )
    assert pc.ok("memory", "diff", "shop", "2", "4") == "no difference\n"
    assert pc.rows("memory", "capacity", "shop")[0]["active_entry_count"] == 1
    assert "active entries" in pc.ok("memory", "capacity", "shop")
    (hit,) = pc.rows("search", "shop", "integer cents")
    assert (hit["kind"], hit["citation"]["entry_id"]) == ("decision", one)
    assert pc.refused(1, "memory", "show", "shop", ENTRY)


def test_search_asks_by_words_or_by_meaning(pc, shop):
    shop()
    pc.rows("memory", "remember", "shop", "The database is slow.")
    assert pc.rows("search", "shop", "数据库很慢", "--mode", "fts") == []
    (hit,) = pc.rows("search", "shop", "数据库很慢", "--mode", "vector")
    assert (hit["text"], hit["matched_by"]) == ("The database is slow.", ["vector"])
    told = pc.ok("search", "shop", "slow database", "--mode", "hybrid")
    assert "The database is slow." in told
    assert pc("search", "shop", "slow", "--mode", "other").exit_code == 2


def test_purge_asks_first(pc, shop):
    shop()
    one = entry_id(pc.rows("memory", "remember", "shop", "Amounts are cents.")[0])
    assert pc("memory", "purge", "shop", one, stdin="n\n").exit_code == 1
    assert pc.ok("memory", "show", "shop", one)
    assert pc.ok("memory", "purge", "shop", one, "--yes") == f"erased 1 version of {one}\n"
    assert pc.refused(1, "memory", "show", "shop", one) == (
        f"pc: the text of entry {one} was erased"
    )
    assert "(erased)" in pc.ok("memory", "history", "shop", one)


def test_remember_batch(pc, shop, tmp_path):
    shop()
    file = tmp_path / "entries.jsonl"
    lines = [json.dumps({"kind": "fact", "text": f"Fact {number}."}) for number in range(120)]
    file.write_text("\n\n".join(lines))
    assert pc.ok("memory", "remember-batch", "shop", str(file)) == (
        "120 added, 0 already known, the memory is at revision 2\n"
    )
    again = pc.rows("memory", "remember-batch", "shop", "-", stdin="\n".join(lines[:3]))
    assert again == [{"memory": again[0]["memory"], "entries": [None, None, None]}]
    assert len(pc.rows("memory", "list", "shop", "--limit", "110")) == 110
    bad = '{"kind":"fact","text":"Good."}\n{"kind":"fact","text":"%s"}\n' % ("x" * 8193)
    assert pc.refused(2, "memory", "remember-batch", "shop", "-", stdin=bad).startswith(
        "pc: line 2, text: "
    )
    for line, told in (("{", "line 1: is not JSON"), ("[]", "line 1: must be an object")):
        assert told in pc.refused(2, "memory", "remember-batch", "shop", "-", stdin=line)
    assert pc.rows("memory", "changes", "shop") == pc.rows(
        "memory", "changes", "shop", "--since", "1"
    )


def test_windows(pc, shop, model_stub):
    shop("One.", "Two.", "Three.")
    assert pc.rows("memory", "flush", "shop")[0]["counts"]["added"] == 2
    assert pc.ok("memory", "drain", "shop") == (
        "processed (2, 3] of 3: 1 sources, 1 added, 0 revised, 0 known, 0 rejected "
        "[provider=openai]\n"
    )
    assert pc.ok("memory", "drain", "shop") == "idle: nothing waits\n"
    assert pc.ok("memory", "flush", "shop") == "idle: cursor 3 of 3\n"
    names = [row["window"] for row in pc.rows("windows", "list")]
    assert names == ["shop@00000003-00000003", "shop@00000001-00000002"]
    assert pc.rows("windows", "list", "shop", "--status", "failed") == []
    assert pc.ok("windows", "replay", names[1]).startswith("processed")
    runs = pc.rows("windows", "show", names[1])
    assert [row["kind"] for row in runs] == ["replay", "live"]
    assert "provider openai, model stub-1" in pc.ok("windows", "show", names[1])
    assert pc.refused(2, "windows", "show", "shop")
    assert pc.refused(1, "windows", "show", "none@00000001-00000002")
    assert pc.refused(1, "windows", "show", "shop@00000009-00000009")
    assert pc.rows("stats", "shop")[0]["inventory"]["sources"]["memory_processed"] == 3
    assert "(all)" in pc.ok("stats")


def test_windows_are_replayed_into_a_generation(pc, shop, model_stub):
    shop("One.", "Two.", "Three.")
    pc.ok("memory", "drain", "shop")
    names = ["shop@00000001-00000002", "shop@00000003-00000003"]
    for wrong in ([], [*names], ["--all", "shop"], [names[0], "--all", "shop"]):
        assert pc.refused(2, "windows", "replay", *wrong)
    model_stub.answer(adding(("New.", "e1"), ("Newer.", "e2")))
    model_stub.answer(status(401))
    assert "401" in pc("windows", "replay", "--all", "shop", "--generation", "g").stderr
    model_stub.answer(adding(("Newest.", "e1")))
    assert pc.ok("windows", "replay", "--all", "shop", "--generation", "g").splitlines() == [
        f"{names[0]}: g has it already",
        f"{names[1]}: 1 sources shown",
        "shop: 2 windows and 3 proposals in g; next: pc generation diff shop g",
    ]
    (again,) = pc.rows("windows", "replay", names[1], "--generation", "g")
    assert (again["window"], again["status"]) == (names[1], "idle")
    assert "processed (shadow into g)" in pc.ok("windows", "list", "shop")

    (told,) = pc.rows("generation", "diff", "shop", "g", "--limit", "2")
    assert [item["text"] for item in told["items"]] == ["New.", "Newer."]
    assert pc.ok("generation", "diff", "shop", "g", "--limit", "4").splitlines()[:3] == [
        "+ added [fact]",
        "    New.",
        "    from s1",
    ]
    (listed,) = pc.rows("generation", "list", "shop")
    assert (listed["name"], listed["provider"], listed["windows"]) == ("g", "openai", 2)
    assert "openai stub-1, memory.extract packaged" in pc.ok("generation", "list", "shop")
    assert pc.ok("generation", "show", "shop", "g").startswith("g open: 2 windows, 3 proposals\n")
    assert pc.refused(1, "generation", "promote", "shop", "g", "--expected-revision", "1")
    assert pc.ok("generation", "promote", "shop", "g", "--reason", "read") == (
        "g promoted: 3 added, 0 revised, 0 seen again, 0 left out; memory revision 3\n"
    )
    assert "promoted" in pc.ok("generation", "show", "shop", "g")
    only = ("windows", "replay", "--all", "shop", "--first", "3", "--last", "3")
    assert [row["window"] for row in pc.rows(*only, "--generation", "h")] == names[1:]
    assert pc.ok("generation", "discard", "shop", "h") == "h discarded\n"
    assert pc.refused(1, "generation", "promote", "shop", "h")


def test_a_failure_is_told_and_a_quarantined_source_comes_back(pc, shop, model_stub):
    shop("POISON")
    for _ in range(3):
        model_stub.answer(status(401))
        assert "401" in pc.refused(1, "memory", "flush", "shop")
    told = pc.ok("scope", "show", "shop")
    assert "window     failed, attempt 3: " in told
    assert pc.ok("windows", "quarantined") == "nothing is in quarantine\n"
    assert pc.refused(1, "windows", "retry", "shop", "1")
    assert pc.refused(1, "windows", "release", "shop", "1") == (
        "pc: position 1 of 'shop' is not in quarantine"
    )


@pytest.mark.parametrize(
    "arguments",
    [(), ("nothing",), ("memory", "list"), ("memory", "list", "s", "--limit", "0"), ("--what",)],
)
def test_a_call_that_is_wrong_is_exit_code_two(local, arguments):
    assert local(*arguments).exit_code == 2


def test_prompts(pc, shop, tmp_path):
    shop()
    assert pc.ok("prompt", "show", "shop").startswith("memory.extract, packaged version ")
    assert pc.ok("prompt", "history", "shop") == "the scope uses the packaged prompt\n"
    file = tmp_path / "prompt.md"
    file.write_text("Only cents.")
    assert pc.ok("prompt", "set", "shop", str(file)) == (
        "memory.extract: scope revision 1 is in force\n"
    )
    assert pc.rows("prompt", "show", "shop")[0]["effective"]["instructions"] == "Only cents."
    assert pc.ok("prompt", "reset", "shop").startswith("memory.extract: packaged version ")
    assert [row["revision"] for row in pc.rows("prompt", "history", "shop")] == [2, 1]


@pytest.mark.parametrize(
    "arguments", [("audit",), ("ingest", "shop", "."), ("audit", "shop", "--json")]
)
def test_what_a_server_cannot_do_is_refused(arguments):
    told = Command("--server", "http://127.0.0.1:9").refused(2, *arguments)
    assert (
        told == f"pc: --server, PC_API_URL: {arguments[0]} works on the store of this machine only"
    )


def test_nothing_listens(local):
    told = Command("--server", "http://127.0.0.1:9").refused(1, "scope", "list")
    assert told == "pc: no answer from http://127.0.0.1:9: ConnectError"
