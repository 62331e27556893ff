"""Entries over HTTP: list, read, revise, retire, reactivate, history, comparison, purge."""

import pytest
from calls import new_scope, ok, ref, refused, remember

UNKNOWN_ID = "mem_ent_" + "0" * 32


@pytest.fixture
def post(api, scope):
    def call(path, **fields):
        return api.post(f"/v1/memory/{path}", json={"scope_id": scope, **fields})

    return call


@pytest.fixture
def known(api, scope):
    """One entry at revision 1."""
    return remember(api, scope, "Amounts are cents.", kind="decision")["entry"]


def listed(post, **fields):
    return ok(post("entries/list", **fields))


def revise(post, entry, text="New text.", kind="fact", **fields):
    return post("entries/revise", citation=entry["citation"], text=text, kind=kind, **fields)


def at(entry, revision):
    """The entry with the citation that a later revision gives it."""
    citation = {**entry["citation"], "memory_ref": ref(revision)}
    return {**entry, "citation": citation}


def test_lists_are_whole_and_by_creation_unless_a_page_is_asked_for(api, scope, post):
    assert listed(post) == {"memory": None, "entries": []}
    made = [remember(api, scope, f"Entry {number}.")["entry"] for number in range(1, 6)]

    assert listed(post) == {"memory": ref(5), "entries": [at(entry, 5) for entry in made]}
    found, cursor = [], None
    for _ in range(3):
        page = listed(post, limit=2, cursor=cursor)
        found += page["entries"]
        cursor = page["next_cursor"]
    assert cursor is None
    assert found == [at(entry, 5) for entry in made]


def test_lists_show_kinds_retired_entries_and_extras_when_asked(api, scope, post, known):
    fact = remember(api, scope, "A fact.", reason="told")["entry"]
    retired = ok(post("entries/retire", citation=fact["citation"], reason="old"))["entry"]

    assert [entry["state"] for entry in listed(post)["entries"]] == ["active"]
    assert listed(post, include_inactive=True)["entries"] == [at(known, 3), retired]
    assert listed(post, kind="decision")["entries"] == [at(known, 3)]
    assert listed(post, kind="fact")["entries"] == []
    more = listed(post, include_inactive=True, include=["times", "origin", "reason"])
    for entry, reason in zip(more["entries"], (None, "old"), strict=True):
        assert entry["origin"] == "explicit"
        assert entry["reason"] == reason
        assert entry["created_at"].endswith("Z")
        assert entry["updated_at"] >= entry["created_at"]
    refused(post("entries/list", tag_filter={"tags": ["a"]}), 422, "capability_not_supported")
    refused(post("entries/list", limit=0), 422, "invalid_request")
    refused(post("entries/list", cursor="x"), 400, "invalid_cursor")


def test_a_citation_reads_the_same_for_ever(api, scope, post, known):
    revised = ok(revise(post, known))["entry"]
    ok(post("entries/retire", citation=revised["citation"]))

    assert ok(post("entries/get", citation=known["citation"])) == known
    assert ok(post("entries/get", citation=revised["citation"])) == revised
    now = at(revised, 3) | {"state": "inactive"}
    assert ok(post("entries/get", citation=now["citation"])) == now


def test_what_a_citation_does_not_name_is_not_found(api, post, known):
    citation = known["citation"]

    def got(**fields):
        return post("entries/get", citation=citation | fields)

    refused(got(memory_ref=ref(2)), 404, "artifact_not_found")
    refused(got(memory_ref=ref(1) | {"artifact_id": "other"}), 404, "artifact_not_found")
    refused(got(memory_ref=ref(1) | {"family": "prompt"}), 404, "artifact_not_found")
    refused(got(entry_id=UNKNOWN_ID), 404, "memory_not_found")
    refused(got(entry_version_id=UNKNOWN_ID), 404, "memory_not_found")
    refused(got(memory_ref=ref(0)), 422, "invalid_request")
    refused(got(entry_id="汉"), 422, "invalid_request")
    other = new_scope(api)
    elsewhere = api.post("/v1/memory/entries/get", json={"scope_id": other, "citation": citation})
    refused(elsewhere, 404, "artifact_not_found")


def test_a_revision_makes_a_new_version(post, known):
    answer = ok(revise(post, known, reason="changed"))

    entry = answer["entry"]
    assert answer["memory"] == ref(2)
    assert entry["citation"]["entry_id"] == known["citation"]["entry_id"]
    assert entry["citation"]["entry_version_id"] != known["citation"]["entry_version_id"]
    assert (entry["version"], entry["kind"], entry["text"]) == (2, "fact", "New text.")


def test_an_equal_revision_changes_nothing_and_answers_the_entry(post, known):
    answer = ok(revise(post, known, text="  Amounts are cents. ", kind="decision"))

    assert answer == {"memory": ref(1), "entry": known}


def test_any_move_of_the_memory_is_a_409_that_says_what_is_current(api, scope, post, known):
    remember(api, scope, "Something else.")

    for response in (
        revise(post, known),
        post("entries/retire", citation=known["citation"]),
        post("entries/reactivate", citation=known["citation"]),
    ):
        assert refused(response, 409, "revision_conflict") == {
            "current": 2,
            "state": "active",
            "entry_changed": False,
            "citation": at(known, 2)["citation"],
        }
    assert ok(revise(post, at(known, 2)))["memory"] == ref(3)


def test_checks_come_in_the_order_of_the_contract(api, scope, post):
    nowhere = {"entry_id": UNKNOWN_ID, "entry_version_id": UNKNOWN_ID}
    good = {"kind": "fact", "text": "x"}
    blank = {"kind": "fact", "text": " "}

    def revised(memory_ref, cited, fields):
        return post("entries/revise", citation={"memory_ref": memory_ref, **cited}, **fields)

    refused(revised(ref(1), nowhere, blank), 404, "artifact_not_found")
    known = remember(api, scope, "Here.")["entry"]
    names = {key: known["citation"][key] for key in nowhere}
    other = ref(1) | {"artifact_id": "other"}
    refused(revised(other, names, blank), 404, "artifact_not_found")
    refused(revised(ref(99), nowhere, blank), 409, "revision_conflict")
    refused(revised(ref(1), nowhere, blank), 404, "memory_not_found")
    refused(revised(ref(1), names, blank), 422, "invalid_request")
    ok(post("entries/retire", citation=known["citation"]))
    refused(revised(ref(2), names, blank), 409, "memory_entry_inactive")
    refused(revised(ref(2), names, good), 409, "memory_entry_inactive")


def test_retire_and_reactivate(api, scope, post, known):
    retired = ok(post("entries/retire", citation=known["citation"], reason="old"))
    gone = at(known, 2) | {"state": "inactive"}
    assert retired == {"memory": ref(2), "entry": gone}
    assert ok(post("entries/retire", citation=gone["citation"])) == retired
    refused(post("entries/retire", citation=known["citation"]), 409, "revision_conflict")
    assert (
        ok(api.post("/v1/memory/search", json={"scope_id": scope, "query": "cents"}))["hits"] == []
    )

    back = ok(post("entries/reactivate", citation=gone["citation"]))

    assert back == {"memory": ref(3), "entry": at(known, 3)}
    assert ok(post("entries/reactivate", citation=at(known, 3)["citation"])) == back


def test_remembering_a_retired_text_makes_a_new_entry(api, scope, post, known):
    ok(post("entries/retire", citation=known["citation"]))

    again = remember(api, scope, known["text"], kind="decision")

    assert again["memory"] == ref(3)
    assert again["entry"]["version"] == 1
    assert again["entry"]["citation"]["entry_id"] != known["citation"]["entry_id"]
    states = [entry["state"] for entry in listed(post, include_inactive=True)["entries"]]
    assert states == ["inactive", "active"]


def test_the_history_of_an_entry_has_every_change(post, known):
    revised = ok(revise(post, known, reason="changed"))["entry"]
    ok(post("entries/retire", citation=revised["citation"], reason="old"))

    history = ok(post("entries/history", entry_id=known["citation"]["entry_id"]))

    assert history["entry_id"] == known["citation"]["entry_id"]
    told = [
        (
            change["op"],
            change["memory_ref"]["revision"],
            change["version"],
            change["state"],
            change["text"],
            change["reason"],
            change["origin"],
        )
        for change in history["changes"]
    ]
    assert told == [
        ("add", 1, 1, "active", "Amounts are cents.", None, "explicit"),
        ("revise", 2, 2, "active", "New text.", "changed", "explicit"),
        ("deactivate", 3, 2, "inactive", "New text.", "old", "explicit"),
    ]
    refused(post("entries/history", entry_id=UNKNOWN_ID), 404, "memory_not_found")


def test_two_revisions_are_compared(api, scope, post, known):
    ok(revise(post, known))
    added = remember(api, scope, "Another.")["entry"]

    compared = ok(post("revisions/diff", before=1, after=3))

    assert (compared["before"], compared["after"]) == (1, 3)
    by_id = {item["entry_id"]: item for item in compared["entries"]}
    changed = by_id.pop(known["citation"]["entry_id"])
    assert (changed["before"]["text"], changed["after"]["text"]) == (
        "Amounts are cents.",
        "New text.",
    )
    new = by_id.pop(added["citation"]["entry_id"])
    assert (new["before"], new["after"]["text"]) == (None, "Another.")
    assert by_id == {}
    assert len(ok(post("revisions/diff", before=0, after=3))["entries"]) == 2
    refused(post("revisions/diff", before=1, after=4), 404, "artifact_not_found")
    refused(post("revisions/diff", before=2, after=1), 422, "invalid_request")


def test_a_purge_erases_the_text_and_keeps_a_tombstone(api, scope, post, known):
    other = remember(api, scope, "Kept.")["entry"]
    entry_id = known["citation"]["entry_id"]

    tombstone = ok(post("entries/purge", entry_id=entry_id, reason="asked to"))

    assert tombstone["entry_id"] == entry_id
    assert tombstone["memory"] == ref(3)
    assert [version["entry_version_id"] for version in tombstone["versions"]] == [
        known["citation"]["entry_version_id"]
    ]
    assert ok(post("entries/purge", entry_id=entry_id)) == tombstone
    details = refused(post("entries/get", citation=known["citation"]), 410, "entry_purged")
    assert details["entry_id"] == entry_id
    assert listed(post, include_inactive=True)["entries"] == [at(other, 3)]
    for path, fields in (
        ("entries/history", {"entry_id": entry_id}),
        ("search", {"query": "cents"}),
        ("changes", {"since_revision": 0}),
    ):
        assert "cents" not in post(path, **fields).text
    refused(post("entries/purge", entry_id=UNKNOWN_ID), 404, "memory_not_found")
