"""Explicit writes: what each answers, in which order its rules apply, and what stays readable."""

import unicodedata
from dataclasses import replace

import pytest

from pc_store.domain.entry import Draft
from pc_store.domain.refs import ArtifactRef, Citation, SourceRef
from pc_store.domain.source import new_source
from pc_store.errors import (
    EntryInactive,
    InvalidInput,
    NotFound,
    RevisionConflict,
)
from pc_store.ledger.database import open_database
from pc_store.services import administer, capture, remember
from pc_store.services.commit import commit_drafts
from pc_store.services.remember import (
    Cited,
    Written,
    cite,
    entry_history,
    list_changes,
    list_entries,
    reactivate,
    read_entry,
    retire,
    revise,
)

SCOPE = "shop"
NOW = 1_700_000_000_000_000
KEY = "AKIA" + "ABCDEFGHIJKLMNOP"


def migrated(url):
    open_database(url).close()


@pytest.fixture
def db(new_database):
    database = open_database(new_database(migrated))
    administer.create_scope(database, SCOPE, now_us=NOW)
    yield database
    database.close()


def add(db, text, *, kind="fact", scope=SCOPE, **more):
    return remember.remember(db, scope, kind=kind, text=text, now_us=NOW, **more)


def change(db, citation, text, *, kind="fact", **more):
    return revise(db, SCOPE, citation, kind=kind, text=text, now_us=NOW, **more)


def memory(revision):
    return ArtifactRef("memory", "memory", revision)


def current(db):
    _, listed = list_entries(db, SCOPE, include_inactive=True, limit=100)
    return {cited.entry.text: cited for cited in listed}


def ops(db, since=0):
    return [
        (row.revision, row.op, row.reason)
        for row in list_changes(db, SCOPE, since_revision=since)[1]
    ]


def test_the_first_entry_makes_revision_one(db):
    assert list_entries(db, SCOPE, limit=9) == (None, [])
    assert list_changes(db, SCOPE) == (0, [])
    written = add(db, " amount: 订单金额\n", kind=" decision ", reason=" told ")
    entry = written.entry.entry
    assert written == Written(
        memory(1),
        Cited(Citation(memory(1), entry.entry_id, entry.entry_version_id), entry),
    )
    assert (entry.kind, entry.text, entry.version) == ("decision", "amount: 订单金额", 1)
    assert (entry.state, entry.origin, entry.created_at) == ("active", "explicit", NOW)
    assert (entry.source_refs, entry.artifact_refs, entry.created_in_revision) == ((), (), 1)
    assert list_entries(db, SCOPE, limit=9) == (memory(1), [written.entry])
    [row] = list_changes(db, SCOPE)[1]
    assert (row.op, row.entry_id, row.reason) == ("add", entry.entry_id, "told")
    assert (row.from_version_id, row.to_version_id) == (None, entry.entry_version_id)


@pytest.mark.parametrize(
    "again", ["café", " café\u3000", unicodedata.normalize("NFD", "café"), "\ncafé\t"]
)
def test_a_text_that_is_known_already_adds_nothing_and_answers_no_entry(db, again):
    add(db, "café")
    assert add(db, again, reason="again") == Written(memory(1), None)
    assert ops(db) == [(1, "add", None)]


@pytest.mark.parametrize(
    ("text", "kind"), [("Café", "fact"), ("cafe", "fact"), ("café", "decision"), ("ca fé", "fact")]
)
def test_a_text_that_differs_in_case_accent_inner_space_or_kind_is_another_entry(db, text, kind):
    first = add(db, "café")
    second = add(db, text, kind=kind)
    assert second.memory == memory(2)
    assert second.entry.entry.entry_id != first.entry.entry.entry_id


def test_a_retired_text_that_is_remembered_again_is_a_new_entry_and_the_old_stays_retired(db):
    first = add(db, "X").entry
    retired = retire(db, SCOPE, first.citation, now_us=NOW).entry
    again = add(db, "X")
    assert again.memory == memory(3)
    assert again.entry.entry.version == 1
    assert again.entry.entry.entry_id != first.entry.entry_id
    old = cite(db, SCOPE, first.entry.entry_id).entry
    assert old == retired.entry == replace(first.entry, state="inactive")


def test_a_text_that_was_extracted_is_known_to_an_explicit_write(db):
    capture.capture(db, SCOPE, new_source("s1", "text"), now_us=NOW)
    draft = Draft("add", "fact", "X", (SourceRef("content", "s1"),))
    with db.write() as conn:
        commit_drafts(conn, SCOPE, [draft], origin="extraction", now_us=NOW)
    assert add(db, "X") == Written(memory(1), None)


def test_an_expected_revision_is_compared_before_anything_is_written(db):
    with pytest.raises(NotFound) as caught:
        add(db, "X", expected_revision=1)
    assert caught.value.message == "the scope 'shop' has no memory yet"
    add(db, "X", expected_revision=0)
    for expected in (0, 2):
        with pytest.raises(RevisionConflict) as caught:
            add(db, "Y", expected_revision=expected)
        assert caught.value.details == {"current": 1}
    assert add(db, "Y", expected_revision=1).memory == memory(2)


@pytest.mark.parametrize(
    ("values", "details"),
    [
        ({"text": " "}, {"field": "text", "reason": "is blank", "code": "string-empty"}),
        ({"kind": "\u3000"}, {"field": "kind", "reason": "is blank", "code": "string-empty"}),
        (
            {"text": f"the key is {KEY}"},
            {
                "field": "text",
                "reason": "contains a credential: AWS access key",
                "code": "secret_detected",
            },
        ),
        (
            {"reason": f"because of {KEY}"},
            {
                "field": "reason",
                "reason": "contains a credential: AWS access key",
                "code": "secret_detected",
            },
        ),
    ],
)
def test_a_value_that_breaks_a_rule_is_refused_and_nothing_is_written(db, values, details):
    kept = add(db, "kept").entry
    for call in (
        lambda **values: add(db, **values),
        lambda **values: change(db, kept.citation, **values),
    ):
        with pytest.raises(InvalidInput) as caught:
            call(**({"text": "X", "kind": "fact"} | values))
        assert caught.value.details == details
        assert KEY not in str(caught.value)
    assert ops(db) == [(1, "add", None)]


def test_a_secret_is_kept_where_detection_is_switched_off(db):
    entry = add(db, KEY, reason=KEY, refuse_secrets=False).entry
    again = change(db, entry.citation, f"{KEY} again", reason=KEY, refuse_secrets=False)
    assert again.entry.entry.text == f"{KEY} again"


def test_a_revision_makes_a_new_version_of_the_same_entry(db):
    first = add(db, "X").entry
    second = change(db, first.citation, " Y ", kind="decision", reason="better")
    entry = second.entry.entry
    assert second.memory == second.entry.citation.memory == memory(2)
    assert (entry.entry_id, entry.version) == (first.entry.entry_id, 2)
    assert (entry.kind, entry.text) == ("decision", "Y")
    assert entry.entry_version_id != first.entry.entry_version_id
    assert entry_history(db, SCOPE, entry.entry_id) == [first.entry, entry]
    assert ops(db, 1) == [(2, "revise", "better")]


def test_a_revision_keeps_the_evidence_of_the_text_it_replaces(db):
    capture.capture(db, SCOPE, new_source("s1", "text"), now_us=NOW)
    draft = Draft("add", "fact", "X", (SourceRef("content", "s1"),))
    with db.write() as conn:
        commit_drafts(conn, SCOPE, [draft], origin="extraction", now_us=NOW)
    entry = change(db, current(db)["X"].citation, "Y").entry.entry
    assert (entry.source_refs, entry.origin) == ((SourceRef("content", "s1"),), "explicit")


@pytest.mark.parametrize("text", ["café", " café ", unicodedata.normalize("NFD", "café")])
def test_a_revision_to_the_same_text_answers_the_entry_and_changes_nothing(db, text):
    first = add(db, "café")
    assert change(db, first.entry.citation, text, reason="dropped") == first
    assert ops(db) == [(1, "add", None)]


def test_a_revision_to_the_text_of_another_active_entry_is_allowed(db):
    add(db, "X")
    second = add(db, "Y").entry
    assert change(db, second.citation, "X").memory == memory(3)
    _, listed = list_entries(db, SCOPE, limit=9)
    assert [cited.entry.text for cited in listed] == ["X", "X"]


def test_any_write_since_the_citation_is_a_conflict_that_carries_a_fresh_one(db):
    first = add(db, "A").entry
    add(db, "B")
    for call in (
        lambda citation: change(db, citation, "C"),
        lambda citation: retire(db, SCOPE, citation, now_us=NOW),
        lambda citation: reactivate(db, SCOPE, citation, now_us=NOW),
    ):
        with pytest.raises(RevisionConflict) as caught:
            call(first.citation)
        details = caught.value.details
        assert (details["current"], details["state"], details["entry_changed"]) == (
            2,
            "active",
            False,
        )
    assert ops(db, 1) == [(2, "add", None)]
    fresh = Citation(
        ArtifactRef(**details["citation"]["memory_ref"]),
        details["citation"]["entry_id"],
        details["citation"]["entry_version_id"],
    )
    assert change(db, fresh, "C").memory == memory(3)


def test_the_rules_of_a_write_apply_in_order(db):
    """Family, then revision, then entry, then state, then the values themselves."""
    with pytest.raises(NotFound):
        change(db, Citation(memory(1), "none", "none"), " ")
    cited = add(db, "A").entry.citation
    elsewhere = replace(cited, memory=ArtifactRef("experience", "memory", 9))
    with pytest.raises(NotFound):
        change(db, elsewhere, " ")
    with pytest.raises(NotFound):
        change(db, replace(cited, memory=ArtifactRef("memory", "other", 1)), " ")
    for never in (0, 2, 99):
        with pytest.raises(RevisionConflict):
            change(db, replace(cited, memory=memory(never), entry_id="none"), " ")
    with pytest.raises(NotFound):
        change(db, replace(cited, entry_id="none"), " ")
    with pytest.raises(NotFound):
        change(db, replace(cited, entry_version_id="none"), " ")
    retired = retire(db, SCOPE, cited, now_us=NOW).entry.citation
    with pytest.raises(EntryInactive) as caught:
        change(db, retired, " ")
    assert caught.value.details == {"entry_id": cited.entry_id}
    active = reactivate(db, SCOPE, retired, now_us=NOW).entry.citation
    with pytest.raises(InvalidInput):
        change(db, active, " ")
    assert ops(db) == [(1, "add", None), (2, "deactivate", None), (3, "reactivate", None)]


def test_retiring_changes_the_state_and_makes_no_version(db):
    first = add(db, "X").entry
    retired = retire(db, SCOPE, first.citation, reason=" wrong ", now_us=NOW)
    gone = replace(first.entry, state="inactive")
    assert retired == Written(memory(2), Cited(replace(first.citation, memory=memory(2)), gone))
    assert entry_history(db, SCOPE, gone.entry_id) == [gone]
    assert list_entries(db, SCOPE, limit=9) == (memory(2), [])
    assert list_entries(db, SCOPE, include_inactive=True, limit=9)[1] == [retired.entry]
    [row] = list_changes(db, SCOPE)[1]
    assert (row.op, row.reason) == ("deactivate", "wrong")
    assert (row.from_version_id, row.to_version_id) == (gone.entry_version_id, None)


def test_retiring_again_with_the_new_citation_changes_nothing_and_with_the_old_is_a_conflict(db):
    first = add(db, "X").entry
    retired = retire(db, SCOPE, first.citation, now_us=NOW)
    assert retire(db, SCOPE, retired.entry.citation, reason="again", now_us=NOW) == retired
    with pytest.raises(RevisionConflict) as caught:
        retire(db, SCOPE, first.citation, now_us=NOW)
    assert caught.value.details["state"] == "inactive"
    assert ops(db) == [(1, "add", None), (2, "deactivate", None)]


def test_reactivating_brings_the_same_version_back(db):
    first = add(db, "X").entry
    assert reactivate(db, SCOPE, first.citation, now_us=NOW) == Written(memory(1), first)
    retired = retire(db, SCOPE, first.citation, now_us=NOW).entry
    back = reactivate(db, SCOPE, retired.citation, reason="right after all", now_us=NOW)
    cited = Cited(replace(first.citation, memory=memory(3)), first.entry)
    assert back == Written(memory(3), cited)
    [row] = list_changes(db, SCOPE)[1]
    assert (row.op, row.reason) == ("reactivate", "right after all")
    assert (row.from_version_id, row.to_version_id) == (None, first.entry.entry_version_id)


def test_a_citation_reads_the_entry_as_it_stood_in_its_revision(db):
    first = add(db, "X").entry
    second = change(db, first.citation, "Y").entry
    third = retire(db, SCOPE, second.citation, now_us=NOW).entry
    for cited in (first, second, third):
        assert read_entry(db, SCOPE, cited.citation) == cited
    assert [cite(db, SCOPE, first.entry.entry_id, revision=r) for r in (1, 2, 3)] == [
        first,
        second,
        third,
    ]


def test_a_citation_that_was_never_given_out_names_nothing(db):
    first = add(db, "X").entry
    second = change(db, first.citation, "Y").entry
    for citation in (
        replace(first.citation, memory=memory(2)),
        replace(second.citation, memory=memory(1)),
        replace(second.citation, memory=memory(3)),
        replace(second.citation, memory=memory(0)),
        replace(second.citation, entry_id="none"),
        replace(second.citation, memory=ArtifactRef("prompt", "memory", 2)),
    ):
        with pytest.raises(NotFound):
            read_entry(db, SCOPE, citation)
    with pytest.raises(NotFound):
        read_entry(db, "nowhere", first.citation)


def test_scopes_have_memories_of_their_own(db):
    administer.create_scope(db, "other", now_us=NOW)
    first = add(db, "X").entry
    assert add(db, "X", scope="other").memory == memory(1)
    for call in (
        lambda: read_entry(db, "other", first.citation),
        lambda: retire(db, "other", first.citation, now_us=NOW),
    ):
        with pytest.raises(NotFound):
            call()


def test_changes_are_asked_for_since_a_revision_of_the_past(db):
    for text in "ABC":
        add(db, text)
    assert [ops(db, since) for since in (None, 1, 3)] == [
        [(3, "add", None)],
        [(2, "add", None), (3, "add", None)],
        [],
    ]
    for since in (-1, 4):
        with pytest.raises(InvalidInput) as caught:
            list_changes(db, SCOPE, since_revision=since)
        assert caught.value.field == "since_revision"


def test_a_scope_that_is_not_there_is_not_found(db):
    citation = Citation(memory(1), "none", "none")
    for call in (
        lambda: add(db, "X", scope="nowhere"),
        lambda: retire(db, "nowhere", citation, now_us=NOW),
        lambda: list_entries(db, "nowhere", limit=1),
        lambda: list_changes(db, "nowhere"),
        lambda: cite(db, "nowhere", "none"),
        lambda: entry_history(db, SCOPE, "none"),
    ):
        with pytest.raises(NotFound):
            call()
