"""Whatever is written, in whatever order: a citation once given out reads the same for ever."""

import secrets

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from pc_store.domain.entry import Draft
from pc_store.domain.refs import SourceRef
from pc_store.domain.source import new_source
from pc_store.errors import EntryInactive, RevisionConflict
from pc_store.services import administer, capture, remember
from pc_store.services.audit import audit
from pc_store.services.commit import commit_drafts
from pc_store.settings import Settings

NOW = 1_700_000_000_000_000
TEXTS = st.sampled_from(["one", "two", "three"])
KINDS = st.sampled_from(["fact", "decision"])
SOURCES = tuple(SourceRef("content", f"s{number}") for number in range(3))


class Memory(RuleBasedStateMachine):
    """One memory under explicit and extracted writes, and all citations it ever gave out."""

    citations = Bundle("citations")

    def __init__(self, db):
        super().__init__()
        self.db = db
        self.given = {}
        self.head = 0

    @initialize()
    def create(self):
        self.scope = administer.create_scope(self.db, secrets.token_hex(), now_us=NOW).scope_id
        offered = [new_source(ref.source_id, "text") for ref in SOURCES]
        capture.capture_many(self.db, self.scope, offered, now_us=NOW)

    def cited(self, *found):
        """Take citations down with what they read now, which is what they must always read."""
        for one in found:
            assert self.given.setdefault(one.citation, one.entry) == one.entry
        return multiple(*(one.citation for one in found))

    def entries(self):
        _, listed = remember.list_entries(self.db, self.scope, include_inactive=True, limit=100)
        return listed

    def at_head(self, citation, state=None):
        entry = self.given[citation]
        return citation.memory.revision == self.head and state in (None, entry.state)

    def grown(self, written, *, by):
        self.head += by
        assert written.memory.revision == self.head
        return self.cited(written.entry) if written.entry else multiple()

    @rule(target=citations, kind=KINDS, text=TEXTS)
    def remember(self, kind, text):
        known = {
            (one.entry.kind, one.entry.text)
            for one in self.entries()
            if one.entry.state == "active"
        }
        written = remember.remember(self.db, self.scope, kind=kind, text=text, now_us=NOW)
        assert (written.entry is None) == ((kind, text) in known)
        return self.grown(written, by=(kind, text) not in known)

    @rule(target=citations, citation=consumes(citations), kind=KINDS, text=TEXTS)
    def revise(self, citation, kind, text):
        entry = self.given[citation]

        def write():
            return remember.revise(self.db, self.scope, citation, kind=kind, text=text, now_us=NOW)

        if not self.at_head(citation):
            with pytest.raises(RevisionConflict):
                write()
            return citation
        if entry.state == "inactive":
            with pytest.raises(EntryInactive):
                write()
            return citation
        changed = (entry.kind, entry.text) != (kind, text)
        written = write()
        assert written.entry.entry.version == entry.version + changed
        return self.grown(written, by=changed)

    @rule(target=citations, citation=citations, retired=st.booleans())
    def set_state(self, citation, retired):
        wanted, write = (
            ("inactive", remember.retire) if retired else ("active", remember.reactivate)
        )
        if not self.at_head(citation):
            with pytest.raises(RevisionConflict):
                write(self.db, self.scope, citation, now_us=NOW)
            return multiple()
        written = write(self.db, self.scope, citation, now_us=NOW)
        assert written.entry.entry.state == wanted
        return self.grown(written, by=not self.at_head(citation, wanted))

    @rule(
        target=citations,
        added=st.lists(st.tuples(KINDS, TEXTS, st.sets(st.sampled_from(SOURCES), min_size=1))),
        revised=st.booleans(),
    )
    def extract(self, added, revised):
        drafts = [Draft("add", kind, text, tuple(sources)) for kind, text, sources in added]
        active = [one.entry for one in self.entries() if one.entry.state == "active"]
        if revised and active:
            drafts.append(
                Draft("revise", "decision", "four", SOURCES, active[0].entry_id, reason="model")
            )
        with self.db.write() as conn:
            done = commit_drafts(conn, self.scope, drafts, origin="extraction", now_us=NOW)
        self.head += bool(done.changed)
        assert done.revision == self.head
        return self.cited(*self.entries())

    @invariant()
    def every_citation_reads_what_it_always_read(self):
        for citation, entry in self.given.items():
            assert remember.read_entry(self.db, self.scope, citation).entry == entry

    @invariant()
    def the_changes_replayed_give_the_manifest(self):
        if not hasattr(self, "scope"):
            return
        head, rows = remember.list_changes(self.db, self.scope, since_revision=0)
        assert head == self.head
        replayed = {}
        for row in rows:
            if row.op == "deactivate":
                assert replayed[row.entry_id] == (row.from_version_id, "active")
                replayed[row.entry_id] = (row.from_version_id, "inactive")
            else:
                before = replayed.get(row.entry_id)
                expected = {
                    "add": None,
                    "revise": (row.from_version_id, "active"),
                    "reactivate": (row.to_version_id, "inactive"),
                }
                assert before == expected[row.op]
                replayed[row.entry_id] = (row.to_version_id, "active")
        assert replayed == {
            one.entry.entry_id: (one.entry.entry_version_id, one.entry.state)
            for one in self.entries()
        }

    @invariant()
    def the_audit_finds_nothing(self):
        if hasattr(self, "scope"):
            findings = audit(self.db, Settings(), scope_id=self.scope)
            assert [finding for finding in findings if not finding.passed] == []


def test_citations_hold_whatever_is_written_afterwards(db):
    run_state_machine_as_test(
        lambda: Memory(db),
        settings=settings(
            max_examples=5,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
