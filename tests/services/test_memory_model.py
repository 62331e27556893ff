"""Any history of writes leaves a memory that a plain dictionary predicts, citations included.

The machine remembers, revises, retires, reactivates and purges, lets windows run and run again,
and repeats requests under their idempotency keys. After every step the head is compared with the
model; every few steps every citation ever given out is read again.
"""

import itertools
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from pc_store.domain.proposal import Answer, Proposal
from pc_store.domain.refs import ArtifactRef, Citation
from pc_store.domain.source import new_source
from pc_store.domain.window import WindowKey
from pc_store.errors import EntryInactive, EntryPurged, RevisionConflict
from pc_store.ledger.database import open_database
from pc_store.services import administer, extract
from pc_store.services import capture as capturing
from pc_store.services import remember as writing
from pc_store.services.audit import audit
from pc_store.services.purge import purge as erase
from pc_store.services.read_memory import changes_since, page_entries, read_capacity, read_entry
from pc_store.services.replayable import Answer as Kept
from pc_store.services.replayable import once
from pc_store.settings import Settings

NOW = 1_700_000_000_000_000
texts = st.sampled_from(["Cents.", "Yuan.", "  Cents. ", "é", "e\u0301", "整数分。"])
EXAMPLES = 8
kinds = st.sampled_from(["fact", "decision"])
NORMAL = {"  Cents. ": "Cents.", "e\u0301": "é"}


@dataclass
class Known:
    """An entry as the model has it."""

    kind: str
    text: str
    version: int = 1
    active: bool = True
    purged: bool = False
    sources: frozenset[str] = frozenset()
    said: set[tuple[str, str]] = field(default_factory=set)
    """Every kind and text it ever had."""


class Echo:
    """Proposes each source's text as it stands, of the kind its metadata names."""

    provider = model = "echo"

    def propose(self, evidence, _entries, *, policy):
        assert policy
        return Answer(
            tuple(
                Proposal("add", one.metadata["kind"], one.content, (one.evidence_id,))
                for one in evidence
            )
        )


class Histories(RuleBasedStateMachine):
    """One scope of a real ledger beside a dictionary; `create` gives a new database's URL."""

    create = None
    folder = None
    cited = Bundle("cited")

    @initialize()
    def begin(self):
        self.db = open_database(type(self).create())
        self.settings = Settings(home=type(self).folder, source_window_limit=1)
        administer.create_scope(self.db, "shop", now_us=NOW)
        self.head = 0
        self.known: dict[str, Known] = {}
        self.given: dict[Citation, Known] = {}
        self.log: list[tuple[str, str]] = []
        self.cursor = 0
        self.answers = {}
        self.clock = itertools.count(NOW, 1_000)

    def teardown(self):
        if hasattr(self, "db"):
            self.every_citation_reads_as_it_did()
            assert all(finding.passed for finding in audit(self.db, self.settings))
            self.db.close()

    # what the model does

    def active(self, kind, text):
        return [
            entry_id
            for entry_id, one in sorted(self.known.items())
            if one.active and (one.kind, one.text) == (kind, text)
        ]

    def moved(self):
        self.head += 1

    def note(self, cited):
        """Keep a citation with what it must read for ever."""
        self.given[cited.citation] = replace(self.known[cited.citation.entry_id])
        return cited.citation

    def extract(self, position):
        """What a window of one source does: the source's text is proposed as it stands."""
        kind, text = self.log[position - 1]
        source = f"s{position}"
        same = self.active(kind, text)
        alike = [
            one
            for one in self.known.values()
            if one.text == text or (one.purged and any(text == said for _, said in one.said))
        ]
        if same:
            if not any(source in self.known[entry_id].sources for entry_id in same):
                one = self.known[same[0]]
                one.sources |= {source}
                one.version += 1
                self.moved()
            return None
        of_kind = [one for one in alike if one.kind == kind] or alike
        if of_kind and not any(one.active for one in of_kind):
            return None
        self.moved()
        return Known(kind, text, sources=frozenset({source}), said={(kind, text)})

    # what happens to both

    @rule(target=cited, kind=kinds, text=texts)
    def remember(self, kind, text):
        done = writing.remember(self.db, "shop", kind=kind, text=text, now_us=next(self.clock))
        text = NORMAL.get(text, text)
        if self.active(kind, text):
            assert done.entry is None
            return multiple()
        self.moved()
        self.known[done.entry.entry.entry_id] = Known(kind, text, said={(kind, text)})
        return self.note(done.entry)

    @rule(target=cited, items=st.lists(st.tuples(kinds, texts), min_size=1, max_size=4))
    def remember_batch(self, items):
        done = writing.remember_batch(
            self.db,
            "shop",
            [writing.NewEntry(*item) for item in items],
            now_us=next(self.clock),
        )
        fresh = []
        for (kind, text), cited in zip(items, done.entries, strict=True):
            text = NORMAL.get(text, text)
            assert (cited is None) == bool(self.active(kind, text))
            if cited is not None:
                self.known[cited.entry.entry_id] = Known(kind, text, said={(kind, text)})
                fresh.append(cited)
        if fresh:
            self.moved()
        return multiple(*(self.note(cited) for cited in fresh))

    def write(self, act, citation, *, to_active=False):
        """What a write answers, None when it is refused; a stale citation is exchanged first."""
        one = self.known[citation.entry_id]
        if citation.memory.revision != self.head:
            with pytest.raises(RevisionConflict) as stale:
                act(citation)
            now = stale.value.details
            assert (now["current"], now["state"]) == (
                self.head,
                "active" if one.active else "inactive",
            )
            citation = Citation(
                ArtifactRef(**now["citation"]["memory_ref"]),
                now["citation"]["entry_id"],
                now["citation"]["entry_version_id"],
            )
        if one.purged or (to_active and not one.active):
            with pytest.raises(EntryPurged if one.purged else EntryInactive):
                act(citation)
            return None
        return act(citation)

    @rule(target=cited, citation=cited, kind=kinds, text=texts)
    def revise(self, citation, kind, text):
        def act(citation):
            return writing.revise(
                self.db, "shop", citation, kind=kind, text=text, now_us=next(self.clock)
            )

        done = self.write(act, citation, to_active=True)
        if done is None:
            return multiple()
        one = self.known[citation.entry_id]
        text = NORMAL.get(text, text)
        if (one.kind, one.text) != (kind, text):
            one.kind, one.text = kind, text
            one.version += 1
            one.said = one.said | {(kind, text)}
            self.moved()
        return self.note(done.entry)

    @rule(target=cited, citation=cited, op=st.sampled_from([writing.retire, writing.reactivate]))
    def change_state(self, citation, op):
        def act(citation):
            return op(self.db, "shop", citation, now_us=next(self.clock))

        done = self.write(act, citation)
        if done is None:
            return multiple()
        one = self.known[citation.entry_id]
        wanted = op is writing.reactivate
        if one.active != wanted:
            one.active = wanted
            self.moved()
        return self.note(done.entry)

    @rule(citation=cited)
    def purge(self, citation):
        one = self.known[citation.entry_id]
        done = erase(self.db, "shop", citation.entry_id, now_us=next(self.clock))
        if one.active:
            self.moved()
        one.active, one.purged, one.text = False, True, ""
        assert done.memory.revision == self.head

    @rule(kind=kinds, text=texts)
    def capture(self, kind, text):
        text = NORMAL.get(text, text)
        self.log.append((kind, text))
        offered = new_source(f"s{len(self.log)}", text, {"kind": kind})
        capturing.capture(self.db, "shop", offered, now_us=next(self.clock))

    def extracted(self, position):
        """Expect of the memory what the window of one source makes of it."""
        fresh = self.extract(position)
        if fresh is not None:
            [change] = changes_since(self.db, "shop")[1][0].changes
            self.known[change.entry_id] = fresh

    @rule()
    def flush(self):
        done = extract.flush(self.db, self.settings, Echo(), "shop")
        if self.cursor == len(self.log):
            assert done.status == "idle"
            return
        self.cursor += 1
        assert (done.status, done.current_cursor) == ("processed", self.cursor)
        self.extracted(self.cursor)

    @rule(data=st.data())
    def replay(self, data):
        if self.cursor:
            position = data.draw(st.integers(1, self.cursor))
            key = WindowKey("shop", position, position)
            extract.replay(self.db, self.settings, Echo(), key)
            self.extracted(position)

    @rule(key=st.sampled_from("ab"), kind=kinds, text=texts)
    def remember_under_a_key(self, key, kind, text):
        if key in self.answers:
            body, kept, entry_id = self.answers[key]
        else:
            body = [kind, text]
        kind, text = body

        def act(joined):
            done = writing.remember(joined, "shop", kind=kind, text=text, now_us=NOW)
            return Kept(200, done.entry and done.entry.entry.entry_id)

        found = once(self.db, principal="", route="r", key=key, body=body, act=act, now_us=NOW)
        if key in self.answers:
            assert found.replayed
            purged = entry_id is not None and self.known[entry_id].purged
            assert (found.status, found.body == kept) == ((410, False) if purged else (200, True))
            return
        self.answers[key] = body, found.body, found.body
        text = NORMAL.get(text, text)
        if self.active(kind, text):
            assert found.body is None
        else:
            self.moved()
            self.known[found.body] = Known(kind, text, said={(kind, text)})

    # what must hold

    @invariant()
    def the_head_is_the_models(self):
        if not hasattr(self, "db"):
            return
        page = page_entries(self.db, "shop", include_inactive=True)
        assert (page.memory.revision if page.memory else 0) == self.head
        assert {
            one.entry.entry_id: (
                one.entry.kind,
                one.entry.text,
                one.entry.version,
                one.entry.state,
                {ref.source_id for ref in one.entry.source_refs},
            )
            for one in page.entries
        } == {
            entry_id: (
                one.kind,
                one.text,
                one.version,
                "active" if one.active else "inactive",
                set(one.sources),
            )
            for entry_id, one in self.known.items()
            if not one.purged
        }
        if self.head:
            size = read_capacity(self.db, "shop", budget=self.settings.memory_budget)
            active = sum(one.active for one in self.known.values())
            assert (size.active_entry_count, size.manifest_entry_count) == (active, len(self.known))

    @rule()
    def every_citation_reads_as_it_did(self):
        for citation, then in self.given.items():
            if self.known[citation.entry_id].purged:
                with pytest.raises(EntryPurged):
                    read_entry(self.db, "shop", citation)
                continue
            read = read_entry(self.db, "shop", citation).entry
            state = "active" if then.active else "inactive"
            assert (read.kind, read.text, read.version, read.state) == (
                then.kind,
                then.text,
                then.version,
                state,
            )

    @rule()
    def the_changes_lead_to_the_head(self):
        memory, revisions = changes_since(self.db, "shop", since_revision=0)
        assert (memory.revision if memory else 0) == self.head
        assert [one.memory.revision for one in revisions] == list(range(1, self.head + 1))


def test_any_history_is_what_the_model_says(new_database, tmp_path):
    def migrated(url):
        open_database(url).close()

    class Here(Histories):
        folder = tmp_path

        @staticmethod
        def create():
            return new_database(migrated)

    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
