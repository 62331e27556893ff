"""Each check fails exactly when what it asserts is broken by hand, and passes otherwise."""

import pytest
import sqlalchemy as sa

from pc_store.domain.entry import Draft
from pc_store.domain.refs import SourceRef
from pc_store.domain.source import new_source
from pc_store.errors import NotFound
from pc_store.ledger import quarantines
from pc_store.ledger.database import open_database
from pc_store.ledger.schema import (
    artifacts,
    cursors,
    entry_versions,
    lineage,
    manifest_spans,
    memory_changes,
    quarantined_sources,
    source_heads,
    sources,
)
from pc_store.services import administer, capture, remember
from pc_store.services.audit import ROWS_SHOWN, RULES, Finding, audit
from pc_store.services.commit import commit_drafts
from pc_store.settings import Settings

SCOPE, OTHER = "shop", "other"
NOW = 1_700_000_000_000_000
S1 = SourceRef("content", "s1")


def filled(url):
    """Make two scopes with a log of four sources and a memory with every kind of change."""
    database = open_database(url)
    for scope in (SCOPE, OTHER):
        administer.create_scope(database, scope, now_us=NOW)
        offered = [new_source(f"s{number}", "text") for number in range(1, 5)]
        capture.capture_many(database, scope, offered, now_us=NOW)
        with database.write() as conn:
            commit_drafts(
                conn,
                scope,
                [Draft("add", "fact", "A", (S1,)), Draft("add", "fact", "B", (S1,))],
                origin="extraction",
                now_us=NOW,
                lineage_sources=[S1],
            )
        _, [first, second] = remember.list_entries(database, scope, limit=9)
        third = remember.revise(
            database, scope, first.citation, kind="fact", text="C", now_us=NOW
        ).entry
        gone = remember.retire(database, scope, third.citation, now_us=NOW).entry
        remember.reactivate(database, scope, gone.citation, now_us=NOW)
        again = remember.cite(database, scope, second.entry.entry_id)
        remember.retire(database, scope, again.citation, now_us=NOW)
        remember.remember(database, scope, kind="fact", text="D", now_us=NOW)
    database.close()


@pytest.fixture
def db(new_database):
    database = open_database(new_database(filled))
    yield database
    database.close()


def broken(db, *, scope_id=None, settings=None):
    """The offending rows of every check that fails."""
    findings = audit(db, settings or Settings(), scope_id=scope_id)
    assert [finding.check for finding in findings] == [rule.name for rule in RULES]
    return {finding.check: finding.rows for finding in findings if not finding.passed}


def corrupt(db, *statements):
    with db.write() as conn:
        for statement in statements:
            assert conn.execute(statement).rowcount >= 1, "nothing was broken"


def of(table, **values):
    return [table.c[name] == value for name, value in ({"scope_id": SCOPE} | values).items()]


def version(db, text):
    with db.read() as conn:
        query = sa.select(entry_versions).where(*of(entry_versions, text=text))
        return conn.execute(query).one()


def test_a_sound_store_passes_every_check(db):
    assert broken(db) == {}
    assert broken(db, scope_id=SCOPE) == {}


@pytest.mark.parametrize(
    "statement",
    [
        sa.delete(sources).where(*of(sources, position=2)),
        sa.delete(sources).where(*of(sources, position=1)),
        sa.delete(sources).where(*of(sources, position=4)),
        sa.update(sources).where(*of(sources, position=4)).values(position=5),
        sa.update(sources).where(*of(sources, position=1)).values(position=0),
        sa.update(source_heads).where(*of(source_heads)).values(position=3),
        sa.update(source_heads).where(*of(source_heads)).values(position=5),
    ],
)
def test_a_missing_position_is_found(db, statement):
    corrupt(db, statement)
    found = broken(db)
    assert [row["scope_id"] for row in found.pop("positions_are_gapless")] == [SCOPE]
    assert set(found) <= {"every_citation_resolves"}
    assert "positions_are_gapless" not in broken(db, scope_id=OTHER)


def test_a_log_without_any_source_is_gapless_only_while_its_head_says_so(db):
    administer.create_scope(db, "empty", now_us=NOW)
    assert broken(db) == {}
    empty = source_heads.c.scope_id == "empty"
    corrupt(db, sa.update(source_heads).where(empty).values(position=1))
    assert broken(db) == {
        "positions_are_gapless": [{"scope_id": "empty", "head": 1, "held": None, "last": None}]
    }


@pytest.mark.parametrize("position", [5, -1])
@pytest.mark.parametrize("consumer", ["memory", "experience", "recurrence"])
def test_a_cursor_outside_its_log_is_found(db, consumer, position):
    row = sa.update(cursors).where(*of(cursors, consumer=consumer))
    corrupt(db, row.values(position=4))
    assert broken(db) == {}
    corrupt(db, row.values(position=position))
    assert broken(db) == {
        "cursor_within_log": [
            {"scope_id": SCOPE, "consumer": consumer, "cursor": position, "head": 4}
        ]
    }
    assert broken(db, scope_id=OTHER) == {}


def test_a_source_set_aside_is_found_until_it_is_released(db):
    with db.write() as conn:
        quarantines.put(conn, SCOPE, "memory", 2, window_id="w", reason="why", now_us=NOW)
    assert broken(db) == {
        "no_quarantined_sources": [
            {"scope_id": SCOPE, "consumer": "memory", "position": 2, "reason": "why"}
        ]
    }
    corrupt(db, sa.update(quarantined_sources).values(released_at=NOW))
    assert broken(db) == {}


def test_a_scope_that_lags_more_than_the_target_is_found(db):
    assert broken(db, settings=Settings(lag_target=4)) == {}
    corrupt(db, sa.update(cursors).where(*of(cursors, consumer="memory")).values(position=1))
    assert broken(db, settings=Settings(lag_target=2)) == {
        "lag_within_target": [
            {"scope_id": OTHER, "consumer": "memory", "lag": 4},
            {"scope_id": SCOPE, "consumer": "memory", "lag": 3},
        ]
    }
    assert broken(db, settings=Settings(lag_target=3), scope_id=SCOPE) == {}


def test_experience_and_recurrence_lag_by_the_outcomes_that_wait(db):
    told = [new_source(f"o{n}", "{}", {"kind": "task-outcome"}) for n in range(3)]
    capture.capture_many(db, SCOPE, told, now_us=NOW)
    corrupt(db, sa.update(cursors).where(*of(cursors, consumer="recurrence")).values(position=5))
    found = broken(db, settings=Settings(lag_target=1), scope_id=SCOPE)["lag_within_target"]
    assert found == [
        {"scope_id": SCOPE, "consumer": "memory", "lag": 7},
        {"scope_id": SCOPE, "consumer": "experience", "lag": 3},
        {"scope_id": SCOPE, "consumer": "recurrence", "lag": 2},
    ]


def test_an_extracted_entry_without_evidence_is_found_and_an_explicit_one_is_not(db):
    with db.write() as conn:
        commit_drafts(conn, SCOPE, [Draft("add", "fact", "E")], origin="extraction", now_us=NOW)
    bare = version(db, "E")
    assert broken(db) == {
        "every_active_entry_cites_evidence": [
            {"scope_id": SCOPE, "entry_id": bare.entry_id, "version": 1}
        ]
    }
    cited = remember.cite(db, SCOPE, bare.entry_id)
    remember.retire(db, SCOPE, cited.citation, now_us=NOW)
    assert broken(db) == {}


def test_a_cited_source_that_is_not_in_the_log_is_found(db):
    draft = Draft("add", "fact", "E", (SourceRef("content", "s9"),))
    with db.write() as conn:
        commit_drafts(conn, SCOPE, [draft], origin="extraction", now_us=NOW)
    found = {"scope_id": SCOPE, "entry_id": version(db, "E").entry_id, "source_id": "s9"}
    assert broken(db) == {"every_citation_resolves": [found]}
    assert broken(db, scope_id=OTHER) == {}
    capture.capture(db, OTHER, new_source("s9", "text"), now_us=NOW)
    capture.capture(db, SCOPE, new_source("s9", "text", source_type="note"), now_us=NOW)
    assert broken(db) == {"every_citation_resolves": [found]}
    capture.capture(db, SCOPE, new_source("s9", "text"), now_us=NOW)
    assert broken(db) == {}


def test_a_source_that_only_a_replaced_version_cites_is_looked_for(db):
    others = sa.update(entry_versions).where(*of(entry_versions), entry_versions.c.text != "A")
    corrupt(
        db,
        others.values(source_refs=[]),
        sa.delete(lineage),
        sa.update(sources).where(*of(sources, source_id="s1")).values(source_id="x"),
    )
    assert broken(db)["every_citation_resolves"] == [
        {"scope_id": SCOPE, "entry_id": version(db, "A").entry_id, "source_id": "s1"}
    ]


def test_a_source_that_only_a_lineage_names_is_looked_for(db):
    reference = {"source_type": "content", "source_id": "s9"}
    corrupt(db, sa.update(lineage).where(*of(lineage)).values(ref=reference))
    assert broken(db) == {
        "every_citation_resolves": [{"scope_id": SCOPE, "entry_id": "lineage", "source_id": "s9"}]
    }


@pytest.mark.parametrize("text", ["A", "B", "C", "D"])
@pytest.mark.parametrize(
    "edit",
    [
        {"text": "edited"},
        {"kind": "decision"},
        {"text_digest": "0" * 64},
        {"content_hash": "0" * 64},
        {"source_refs": [["content", "s2"]]},
        {"artifact_refs": [["memory", "memory", 1]]},
    ],
)
def test_an_edit_of_any_version_is_found_current_replaced_or_retired(db, text, edit):
    row = version(db, text)
    corrupt(db, sa.update(entry_versions).where(*of(entry_versions, text=text)).values(**edit))
    assert broken(db) == {
        "every_text_matches_its_digest": [
            {"scope_id": SCOPE, "entry_id": row.entry_id, "version": row.version}
        ]
    }
    assert broken(db, scope_id=OTHER) == {}


@pytest.mark.parametrize(
    "statement",
    [
        sa.delete(manifest_spans).where(*of(manifest_spans, from_revision=3)),
        sa.delete(manifest_spans).where(*of(manifest_spans, from_revision=6)),
        sa.update(manifest_spans).where(*of(manifest_spans, from_revision=6)).values(to_revision=6),
        sa.update(manifest_spans)
        .where(*of(manifest_spans, from_revision=2))
        .values(to_revision=None),
        sa.update(manifest_spans).where(*of(manifest_spans, from_revision=2)).values(to_revision=4),
        sa.update(manifest_spans)
        .where(*of(manifest_spans, from_revision=4))
        .values(state="inactive"),
        sa.update(manifest_spans)
        .where(*of(manifest_spans, from_revision=6))
        .values(entry_version_id="none"),
        sa.update(manifest_spans)
        .where(*of(manifest_spans, from_revision=2))
        .values(entry_version_id="none"),
        sa.delete(memory_changes).where(*of(memory_changes, revision=2)),
        sa.update(memory_changes).where(*of(memory_changes, revision=4)).values(op="deactivate"),
    ],
)
def test_a_manifest_that_its_changes_do_not_give_is_found_at_any_revision(db, statement):
    corrupt(db, statement)
    [row] = broken(db).pop("head_equals_manifest")
    assert (row["scope_id"], row["reason"]) == (SCOPE, "manifest")
    assert row["entry_id"] is not None
    assert broken(db, scope_id=OTHER) == {}


@pytest.mark.parametrize("head", [0, 5, 7])
def test_a_head_that_is_not_the_last_change_is_found(db, head):
    memory = of(artifacts, family="memory")
    corrupt(db, sa.update(artifacts).where(*memory).values(head=head))
    assert broken(db) == {
        "head_equals_manifest": [{"scope_id": SCOPE, "entry_id": None, "reason": "head"}]
    }


def test_a_memory_that_lost_all_its_rows_but_its_head_is_found(db):
    corrupt(
        db,
        *(
            sa.delete(table).where(*of(table))
            for table in (memory_changes, manifest_spans, entry_versions, lineage)
        ),
    )
    assert broken(db) == {
        "head_equals_manifest": [{"scope_id": SCOPE, "entry_id": None, "reason": "head"}]
    }


def test_checks_can_be_chosen_by_name_and_show_at_most_fifty_rows(db):
    with db.write() as conn:
        drafts = [Draft("add", "fact", f"bare {number}") for number in range(60)]
        commit_drafts(conn, SCOPE, drafts, origin="extraction", now_us=NOW)
    name = "every_active_entry_cites_evidence"
    [finding] = audit(db, Settings(), names=[name])
    assert (finding.check, finding.count, len(finding.rows)) == (name, 60, ROWS_SHOWN)
    assert not finding.passed
    assert Finding("x", "y", 0).passed


def test_an_audit_of_no_scope_is_not_found(db):
    with pytest.raises(NotFound):
        audit(db, Settings(), scope_id="nowhere")
