"""`pc prepare` prints what an agent is to be given; `pc recall` tells what was asked."""

import time

from pc_store.domain.text import digest


def test_prepare_prints_the_content_as_it_is(pc, shop):
    shop()
    pc.ok("memory", "remember", "shop", "Amounts are integer cents.")
    out = pc.ok("prepare", "shop", "amounts")
    (row,) = pc.rows("prepare", "shop", "amounts")
    assert out == row["content"] + "\n"
    assert row["content_bytes"] == len(row["content"].encode())
    assert (row["status"], row["truncated"], row["omitted"]) == ("ready", 0, {})


def test_prepare_arranges_and_obeys_the_budget(pc, shop):
    shop()
    pc.ok("memory", "remember", "shop", "Amounts are integer cents. " + "word " * 200)
    out = pc.ok("prepare", "shop", "amounts", "--max-bytes", "600", "--assembly", "memory:2")
    assert "## Memory" in out
    assert "Truncated: yes" in out
    assert len(out.encode()) <= 601
    arranged = ("--assembly", "memory:2,experience:1", "--show", "recall_rank")
    assert "    Recall rank: 1\n" in pc.ok("prepare", "shop", "amounts", *arranged)


def test_prepare_says_when_there_is_nothing(pc, shop):
    shop()
    nothing = pc("prepare", "shop", "amounts")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert nothing.stderr == "nothing was found\n"


def test_prepare_refuses_what_breaks_a_rule(pc, shop):
    shop()
    assert "max_bytes" in pc.refused(2, "prepare", "shop", "a", "--max-bytes", "64")
    assert "FAMILY:LIMIT" in pc.refused(2, "prepare", "shop", "a", "--assembly", "memory")
    assert "--assembly" in pc.refused(2, "prepare", "shop", "a", "--show", "recall_rank")
    assert "assembly.sections" in pc.refused(2, "prepare", "shop", "a", "--assembly", "memory:9")
    assert "nowhere" in pc.refused(1, "prepare", "nowhere", "a")


def test_recall_tells_what_was_asked_and_delivered(pc, shop):
    shop()
    pc.ok("scope", "create", "other")
    assert "nothing was recalled" in pc.ok("recall", "shop")
    pc.ok("memory", "remember", "shop", "Amounts are integer cents.")
    pc.ok("prepare", "shop", "amounts", "--max-bytes", "700")
    pc.ok("search", "shop", "cents")
    until = time.monotonic() + 20
    while len(rows := pc.rows("recall", "shop")) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    assert [(row["surface"], row["query_digest"]) for row in rows] == [
        ("search", digest("cents")),
        ("prepare_context", digest("amounts")),
    ]
    table = pc.ok("recall", "shop")
    assert " prepare " in table
    assert "of 700" in table
    assert [row["surface"] for row in pc.rows("recall", "shop", "--limit", "1")] == ["search"]
    assert pc.rows("recall") == rows
    assert pc.rows("recall", "other") == []
    assert pc.rows("recall", "shop", "--since", "1h") == rows
    assert pc.rows("recall", "shop", "--since", "2100-01-01") == []
    assert "--since" in pc.refused(2, "recall", "shop", "--since", "yesterday")
