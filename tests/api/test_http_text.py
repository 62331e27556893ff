"""Texts that break careless servers: each is kept exactly or refused, and nothing else happens."""

import pytest
from calls import capture, new_scope, ok, recalls, refused, remember

from pc_store.ledger.schema import metadata

KEPT = {
    "rtl": "שלום עולם مرحبا",
    "bidi controls": "a\u202eb\u202cc\u2066d\u2069",
    "zwj emoji": "👩\u200d👩\u200d👧\u200d👦 🏳️\u200d🌈",
    "astral": "𠜎𝔘𝔫𝔦",
    "zero width": "\u200bkept\u200b",
    "controls": "a\x01\x1f\x7fb",
    "line ends": "a\r\nb\rc\u2028d\u2029e\x85f",
    "noncharacters": "\ufffe\uffff\U0010ffff",
    "ellipsis and quotes": "…—“”’",
    "combining": "Z̷͑a̴l̵g̶o̷" * 20,
    "sql": "'); DROP TABLE scopes; --",
    "like": "100%_\\",
    "html": "<script>alert(1)</script>&amp;",
    "template": "{{7*7}} ${7*7} %s %(x)s {0}",
    "path": "../../etc/passwd\\..\\C:",
    "json": '{"a": "b"}',
    "shell": "`id`; $(id) | cat /etc/passwd #",
    "crlf": "a\r\nX-Evil: 1",
}
INJECTIONS = ("'", '"', "');--", "' OR '1'='1", "\\", "%", "_", "{}", "${x}", "\r\nX-Evil: 1", "🔑")


def counts(db):
    with db.read() as conn:
        return {
            table.name: conn.exec_driver_sql(f'SELECT count(*) FROM "{table.name}"').scalar_one()
            for table in metadata.sorted_tables
        }


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_a_text_comes_back_exactly_from_everywhere(api, scope, text):
    entry = remember(api, scope, text)["entry"]
    assert entry["text"] == text
    got = ok(
        api.post("/v1/memory/entries/get", json={"scope_id": scope, "citation": entry["citation"]})
    )
    assert got["text"] == text
    listed = ok(api.post("/v1/memory/entries/list", json={"scope_id": scope}))
    assert [one["text"] for one in listed["entries"]] == [text]
    assert remember(api, scope, text)["entry"] is None
    capture(api, scope, text)
    source = ok(api.get(f"/v1/scopes/{scope}/sources/content/s1?include=metadata"))
    assert source["content"] == text
    found = api.post("/v1/memory/search", json={"scope_id": scope, "query": text})
    assert found.status_code == 200


def test_nfc_and_nfd_are_one_text_and_the_first_is_kept_composed(api, scope):
    entry = remember(api, scope, "Ame\u0301lie \u1100\u1161")["entry"]

    assert entry["text"] == "Am\u00e9lie \uac00"
    assert remember(api, scope, "Am\u00e9lie \uac00")["entry"] is None


@pytest.mark.parametrize(
    ("fits", "over"),
    [
        ("x" * 8_192, "x" * 8_193),
        ("分" * 2_730, "分" * 2_731),
        ("👍" * 2_048, "👍" * 2_049),
        ("\u3000" * 5_000 + "x" * 8_192 + "\n" * 5_000, "x" * 8_192 + "é"),
        ("e\u0301" * 4_096, "e\u0301" * 4_097),
    ],
    ids=["ascii", "chinese", "emoji", "stripped", "composed"],
)
def test_the_limit_counts_utf8_bytes_after_normalisation(api, scope, fits, over):
    entry = remember(api, scope, fits)["entry"]
    assert len(entry["text"].encode()) <= 8_192
    body = {"scope_id": scope, "kind": "fact", "text": over}
    details = refused(api.post("/v1/memory/remember", json=body), 422, "invalid_request")
    assert details["code"] == "text-too-long"
    assert details["observed"] > details["limit"] == 8_192


@pytest.mark.parametrize("bad", ["\\u0000", "a\\u0000b", "\\ud800", "\\udc00\\ud800"])
def test_what_no_database_keeps_is_refused_in_every_field_and_changes_nothing(
    api, scope, running, bad
):
    def settled(searches):
        """What is stored, once everything that was searched until now is logged, in this order."""
        ok(api.post("/v1/memory/search", json={"scope_id": scope, "query": "the last"}))
        assert len(recalls(api, scope, searches)["items"]) == searches
        return counts(running.db)

    before = settled(1)
    for path, fields in (
        ("/v1/scopes", ("title", "summary", "idempotency_key", "scope_id")),
        ("/v1/memory/remember", ("kind", "text", "reason", "scope_id")),
        ("/v1/sources/content", ("source_id", "content", "scope_id")),
        ("/v1/memory/search", ("query", "scope_id")),
    ):
        for field in fields:
            content = f'{{"{field}": "{bad}"}}'.encode()
            headers = {"Content-Type": "application/json"}
            details = refused(
                api.post(path, content=content, headers=headers), 422, "invalid_request"
            )
            assert details["field"] == field
    assert settled(2) == before | {"recalls": before["recalls"] + 1}


def test_injections_in_every_field_are_only_text(api, running):
    scope = new_scope(api)
    tables = set(counts(running.db))
    for number, text in enumerate(INJECTIONS):
        made = new_scope(api, f"in{number}{text}", title=text, summary=text)
        assert made == f"in{number}{text}"
        entry = remember(api, scope, f"t{text}", kind=f"k{text}", reason=f"r{text}")["entry"]
        assert (entry["text"], entry["kind"]) == (f"t{text}".strip(), f"k{text}".strip())
        body = {"scope_id": scope, "source_id": f"i{text}".strip(), "content": f"c{text}"}
        ok(api.post("/v1/sources/content", json=body | {"metadata": {text: text}}), 202)
        ok(api.post("/v1/memory/search", json={"scope_id": scope, "query": f"q{text}"}))
        ok(api.get("/v1/scopes", params={"query": text, "query_field": "title"}))
        key = {"integration": f"i{text}x", "kind": f"k{text}x", "external_id": f"e{text}x"}
        ok(api.put("/v1/scope-bindings", json={"key": key, "scope_id": scope}))
        ok(api.post("/v1/scope-bindings/resolve", json={"binding_keys": [key]}))
        for path in (f"/v1/scopes/{scope}/artifacts/memory", f"/v1/scopes/{scope}/sources/content"):
            assert api.get(f"{path}/{number}'%3B--").status_code == 404
    assert set(counts(running.db)) == tables
    listed = ok(api.post("/v1/memory/entries/list", json={"scope_id": scope}))["entries"]
    assert len(listed) == len(INJECTIONS)


def test_wildcards_in_a_scope_query_are_only_characters(api):
    scope = new_scope(api, title="100%_sure")

    def found(query):
        page = ok(api.get("/v1/scopes", params={"query": query, "query_field": "title"}))
        return scope in [item["scope_id"] for item in page["items"]]

    assert found("%_s")
    assert not found("1%s")
    assert not found("100__s")
