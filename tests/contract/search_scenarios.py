"""Search: section 16's queries, with our better answers, and the rules around them."""

from caller import Caller, ref

AMOUNT = "amount: 订单金额以整数分存储；100 表示 1 元。"
HITS = (
    "amount",
    "AMOUNT",
    "整数分",
    "金额",
    "整",
    "金额怎么存",
    "订单金额如何存储",
    "how is the amount stored",
    # 1.2.0 finds nothing by these; decisions.md 1 wants the entry.
    "amount 字段",
    "amount 字段应该怎么处理？",
    "amounts",
    "ａｍｏｕｎｔ",
    "金額",
)


def _searched(pc: Caller, query: str, **fields: object) -> dict:
    return pc.memory("search_memory", query=query, **fields)


def the_vectors_of_section_16_hit(pc: Caller) -> None:
    entry = pc.entry(AMOUNT, "decision")
    missed = []
    for query in HITS:
        found = _searched(pc, query)
        assert (found["memory"], found["mode"]) == (ref(1), "fts")
        if not found["hits"]:
            missed.append(query)
            continue
        [hit] = found["hits"]
        assert 0 < hit.pop("score") <= 1
        assert hit == {"citation": entry["citation"], "text": AMOUNT, "matched_by": ["fts"]}
    assert missed == []


def the_first_hit_has_the_score_of_its_rank(pc: Caller) -> None:
    pc.entry(AMOUNT, "decision")
    [hit] = _searched(pc, "amount")["hits"]
    assert abs(hit["score"] - 1 / 61) < 1e-6


def what_has_no_word_of_an_entry_finds_nothing(pc: Caller) -> None:
    pc.entry(AMOUNT, "decision")
    for query in ("unrelated", "the of", "。？", "`"):
        assert _searched(pc, query) == {"memory": ref(1), "mode": "fts", "hits": []}


def adding_words_to_a_query_removes_no_hit(pc: Caller) -> None:
    pc.entry(AMOUNT, "decision")
    pc.entry("refunds need approval", "constraint")
    query = "amount"
    for word in ("字段", "应该怎么处理", "please", "retry", "deadline", "without calling tools"):
        query += f" {word}"
        assert AMOUNT in [hit["text"] for hit in _searched(pc, query)["hits"]], query


def only_what_is_active_at_the_head_is_found(pc: Caller) -> None:
    entry = pc.entry("the amount is kept in cents")
    revised = pc.memory(
        "revise_memory_entry", citation=entry["citation"], kind="fact", text="prices are in euros"
    )["entry"]
    assert _searched(pc, "cents")["hits"] == []
    [hit] = _searched(pc, "euros")["hits"]
    assert hit["citation"] == revised["citation"]
    pc.memory("retire_memory_entry", citation=revised["citation"])
    assert _searched(pc, "euros") == {"memory": ref(3), "mode": "fts", "hits": []}


def hits_cite_the_head_and_can_be_read_and_revised_by_it(pc: Caller) -> None:
    pc.entry("amounts are integers")
    pc.entry("something else")
    [hit] = _searched(pc, "integers")["hits"]
    assert hit["citation"]["memory_ref"] == ref(2)
    read = pc.memory("get_memory_entry", citation=hit["citation"])
    assert read["text"] == hit["text"]
    asked = {"citation": hit["citation"], "kind": "fact", "text": "amounts are longs"}
    assert pc.memory("revise_memory_entry", **asked)["memory"] == ref(3)


def the_limit_is_kept_and_the_best_comes_first(pc: Caller) -> None:
    for number in range(12):
        pc.entry(f"amount number {number}")
    pc.entry("amount amount stored cents integer")
    assert len(_searched(pc, "amount")["hits"]) == 10
    assert len(_searched(pc, "amount", limit=1)["hits"]) == 1
    found = _searched(pc, "amount stored cents", limit=50)["hits"]
    assert len(found) == 13
    assert found[0]["text"] == "amount amount stored cents integer"
    scores = [hit["score"] for hit in found]
    assert scores == sorted(scores, reverse=True)


def modes_without_embeddings(pc: Caller) -> None:
    pc.entry(AMOUNT, "decision")
    for mode in ("auto", "fts"):
        assert _searched(pc, "amount", mode=mode)["mode"] == "fts"
    for mode in ("vector", "hybrid"):
        details = pc.memory_refused(
            422, "capability_not_supported", "search_memory", query="amount", mode=mode
        )
        assert details == {"capability": mode}


def a_query_that_breaks_a_rule_is_422(pc: Caller) -> None:
    pc.entry(AMOUNT, "decision")
    for fields in (
        {"query": " \u3000"},
        {"query": ""},
        {"query": "x" * 8193},
        {"limit": 0},
        {"limit": 51},
        {"mode": "other"},
    ):
        pc.memory_refused(422, "invalid_request", "search_memory", **{"query": "amount"} | fields)


def tags_are_not_supported_and_say_so(pc: Caller) -> None:
    pc.entry(AMOUNT, "decision")
    wanted = {"tags": ["a"], "match": "all"}
    asked = {"query": "amount", "tag_filter": wanted}
    pc.memory_refused(422, "capability_not_supported", "search_memory", **asked)
    pc.memory_refused(422, "capability_not_supported", "list_memory_entries", tag_filter=wanted)
