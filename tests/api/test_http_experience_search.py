"""Experiences found and recalled over HTTP: only what is approved, active and a head."""

from calls import ok, refused
from proposals import (
    CUE,
    PROPOSAL,
    approve,
    capture_outcome,
    learn,
    propose,
    read,
    tracked,
    update,
    withdraw,
)


def search(api, scope, query, **fields):
    return api.post("/v1/experience/search", json={"scope_id": scope, "query": query, **fields})


def test_what_is_active_is_found_by_what_it_says(api, here):
    assert ok(search(api, here, "money")) == {"mode": None, "hits": []}
    seen = capture_outcome(api, here, "o1", failing=CUE)
    first = learn(api, here, proposal=tracked(lesson="金额必须以整数分存储。"), source_refs=[seen])
    learn(api, here, proposal=PROPOSAL | {"lesson": "Sort imports by name."})

    found = ok(search(api, here, "金额字段应该怎么处理？", limit=1))

    (hit,) = found["hits"]
    assert found["mode"] == "fts"
    assert hit == {
        "artifact": first,
        "content": tracked(lesson="金额必须以整数分存储。"),
        "score": hit["score"],
        "matched_by": ["fts"],
    }
    asked = ["matched_terms", "channels", "coverage"]
    more = ok(search(api, here, "rounding check", mode="fts", limit=1, include=asked))
    assert more["coverage"] == {"active_experiences": 2, "fts": 2, "vector": 0}
    (hit,) = more["hits"]
    assert (hit["artifact"], sorted(hit["matched_terms"])) == (
        first,
        ["check", "round", "rounding"],
    )
    assert [(one["channel"], one["rank"]) for one in hit["channels"]] == [("fts", 1)]
    for fields, field in (
        ({"query": ""}, "query"),
        ({"query": " "}, "query"),
        ({"limit": 0}, "limit"),
        ({"limit": 51}, "limit"),
        ({"mode": "fuzzy"}, "mode"),
        ({"include": ["kind"]}, "include.0"),
    ):
        response = search(api, here, **{"query": "money", **fields})
        assert refused(response, 422, "invalid_request")["field"] == field
    refused(search(api, "nowhere", "money"), 404, "scope_not_found")


def test_only_approved_active_heads_are_recalled(api, here):
    seen = capture_outcome(api, here, "o1", failing=CUE)

    def recalled():
        body = {"scope_id": here, "query": "Decimal money zebra yak walrus"}
        prepared = ok(api.post("/v1/context/prepare", json=body))["content"] or ""
        hits = ok(search(api, here, "Decimal money zebra yak walrus"))["hits"]
        return prepared, [hit["artifact"] for hit in hits]

    waiting = propose(
        api, here, proposal=tracked(lesson="Parse money of zebra."), source_refs=[seen]
    )
    assert recalled() == ("", [])  # pending

    first = approve(api, here, waiting)
    prepared, found = recalled()
    assert found == [first]
    for line in (
        "Lesson: Parse money of zebra.",
        f"Failure cue: {CUE}",
        "Symptom: off by one cent",
        "Repair surface: experience_content",
        "Verification condition: an order was imported",
        "Verification check: test_amounts",
    ):
        assert line in prepared

    lost = propose(api, here, proposal=PROPOSAL | {"lesson": "Parse money of walrus."})
    body = {"scope_id": here, "candidate_id": lost["candidate_id"], "expected_version": 1}
    ok(api.post("/v1/artifact-candidates/reject", json=body | {"reason": "no"}))
    second = approve(api, here, update(api, here, first, lesson="Parse money of yak."))
    prepared, found = recalled()
    assert found == [second]
    assert "yak" in prepared
    assert "zebra" not in prepared  # historical
    assert "walrus" not in prepared  # rejected

    ok(withdraw(api, here, second))
    assert recalled() == ("", [])
    assert ok(read(api, here, first))["content"]["lesson"] == "Parse money of zebra."
