"""Any history of proposals, decisions and withdrawals leaves what a plain dictionary predicts.

The machine proposes, revises, approves, rejects, withdraws and brings back experiences, and
remembers, retires and reactivates the entries they stand on. Each step's result or refusal is
predicted; after it the ledger is compared with the model and audited, and at the end every
revision ever made reads as it did when it was approved.
"""

import itertools
from dataclasses import replace

import pytest
from desk import FIELDS, NOW, Desk, experience, failing, put, put_outcome, source, tracking
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run
from review_model import Made, Model, Said

from pc_store.domain.refs import ArtifactRef
from pc_store.errors import ArtifactConflict, ArtifactInactive, StoreError, UnchangedProposal
from pc_store.ledger.schema import experience_documents
from pc_store.services import administer, experiences, remember, review
from pc_store.services.audit import RULES, audit
from pc_store.settings import Settings

STEPS = 25
numbers = st.integers(0, 30)
lessons = st.sampled_from([FIELDS["lesson"], "One.", "Two."])
states = st.sampled_from(["active", "deprecated", "retired"])
SOURCES = ("s1", "s2", "outcome")
some_sources = st.sampled_from(
    [("s1",), ("s2",), ("outcome",), ("outcome", "s1"), ("s1", "outcome"), ("outcome", "s2"), ()]
)


class Histories(RuleBasedStateMachine):
    """One scope of a shared ledger beside a model of it."""

    db = None
    names = itertools.count()

    @initialize()
    def begin(self):
        self.scope = f"shop{next(type(self).names)}"
        administer.create_scope(self.db, self.scope, now_us=NOW)
        put(self.db, "s1", "s2", "log", scope=self.scope)
        put_outcome(self.db, "outcome", failing(), scope=self.scope)
        self.clock = itertools.count(NOW, 1_000)
        self.model = Model()
        self.read: dict[ArtifactRef, object] = {}
        for number in range(2):
            self.remember()
            self.put(experience(), ("s1",), (), (sorted(self.model.entries)[number],), None)
            self.approve(number, 0)

    # what the steps use

    @property
    def desk(self):
        return Desk(self.db, self.scope, next(self.clock))

    def mostly_waiting(self, number):
        return (number % 4 and self.model.waiting) or self.model.candidates

    def tried(self, fault, act):
        """The result of an act, or None after the refusal that was predicted."""
        if fault is None:
            return act()
        with pytest.raises(StoreError) as caught:
            act()
        assert caught.type is fault, caught.value
        return None

    def picked(self, number, some):
        return some[number % len(some)] if some else None

    # what the machine does

    @rule()
    def remember(self):
        text = f"entry {len(self.model.entries)}"
        made = remember.remember(
            self.db, self.scope, kind="fact", text=text, now_us=next(self.clock)
        ).entry
        self.model.entries[made.entry.entry_id] = True
        self.model.citations[made.entry.entry_id] = made.citation

    @precondition(lambda self: self.model.entries)
    @rule(number=numbers)
    def flip_an_entry(self, number):
        entry_id = self.picked(number, sorted(self.model.entries))
        now = remember.cite(self.db, self.scope, entry_id).citation
        act = remember.retire if self.model.entries[entry_id] else remember.reactivate
        act(self.db, self.scope, now, now_us=next(self.clock))
        self.model.entries[entry_id] = not self.model.entries[entry_id]

    @rule(
        lesson=lessons,
        tracks=st.sampled_from([False, False, True]),
        names=some_sources,
        uses=st.none() | numbers,
        cites=st.none() | numbers,
    )
    def propose(self, lesson, tracks, names, uses, cites):
        content = tracking(lesson=lesson) if tracks else experience(lesson=lesson)
        used = self.picked(uses, self.model.revisions) if uses is not None else None
        used = (used,) if used else ()
        cited = self.picked(cites, sorted(self.model.entries)) if cites is not None else None
        cited = (cited,) if cited else ()
        self.put(content, names, used, cited, None)

    @precondition(lambda self: self.model.made)
    @rule(
        lesson=lessons,
        tracks=st.sampled_from([False, False, True]),
        names=some_sources,
        number=numbers,
        old=st.sampled_from([0, 0, 0, 1]),
    )
    def propose_an_update(self, lesson, tracks, names, number, old):
        content = tracking(lesson=lesson) if tracks else experience(lesson=lesson)
        artifact_id = self.picked(number, sorted(self.model.made))
        head = len(self.model.made[artifact_id].revisions)
        target = ArtifactRef("experience", artifact_id, max(head - old, 1))
        self.put(content, names, (target,), (), target)

    def put(self, content, names, used, cited, target):
        desk = self.desk
        candidate = self.tried(
            self.model.fault(content, names, used, cited, target),
            lambda: desk.propose(
                content,
                sources=map(source, names),
                artifacts=used,
                citations=[self.model.citations[one] for one in cited],
                target=target,
            ),
        )
        if candidate:
            self.model.candidates.append(
                Said(candidate, content, tuple(names), used, cited, target)
            )

    @precondition(lambda self: self.model.candidates)
    @rule(
        number=numbers,
        off=st.sampled_from([0, 0, 0, 1, -1]),
        lesson=lessons,
        names=some_sources,
        clears=st.booleans(),
    )
    def revise(self, number, off, lesson, names, clears):
        said = self.picked(number, self.mostly_waiting(number))
        content = experience(lesson=lesson)
        cited = () if clears else said.cited
        desk = self.desk
        fault = self.model.stale(said, said.version + off) or self.model.fault(
            content, names, said.used, cited, said.target
        )
        candidate = self.tried(
            fault,
            lambda: desk.revise(
                said.candidate,
                said.version + off,
                proposal=content,
                sources=map(source, names),
                **({"citations": []} if clears else {}),
            ),
        )
        if candidate:
            said.version, said.content, said.cited = said.version + 1, content, cited
            said.sources, said.candidate = tuple(names), candidate

    @precondition(lambda self: self.model.waiting)
    @rule(number=numbers)
    def approve_what_waits(self, number):
        self.approve(self.model.candidates.index(self.picked(number, self.model.waiting)), 0)

    @precondition(lambda self: self.model.candidates)
    @rule(number=numbers, off=st.sampled_from([0, 1]))
    def approve(self, number, off):
        said = self.picked(number, self.model.candidates)
        version, desk, target = said.version + off, self.desk, said.target
        if said.status == "approved" and not off:
            assert desk.approve(said.candidate, version) == said.candidate
            return
        fault = self.model.stale(said, version) or self.model.fault(
            said.content, said.sources, said.used, said.cited, target
        )
        if not fault and target:
            before = self.model.made[target.artifact_id].revisions[-1].content
            fault = UnchangedProposal if before == said.content else None
        candidate = self.tried(fault, lambda: desk.approve(said.candidate, version))
        if candidate:
            said.status, said.result, said.candidate = "approved", candidate.result, candidate
            made = self.model.made.setdefault(candidate.result.artifact_id, Made())
            made.revisions.append(replace(said))
            assert candidate.result.revision == len(made.revisions)
            assert (target is None) == (len(made.revisions) == 1)
            self.read[candidate.result] = experiences.read_experience(
                self.db, self.scope, candidate.result
            )

    @precondition(lambda self: len(self.model.waiting) > 1)
    @rule(number=numbers, off=st.sampled_from([0, 0, 1]))
    def reject(self, number, off):
        said = self.picked(number, self.mostly_waiting(number))
        version, desk = said.version + off, self.desk
        candidate = self.tried(
            self.model.stale(said, version), lambda: desk.reject(said.candidate, version)
        )
        if candidate:
            said.status, said.candidate = "rejected", candidate

    @precondition(lambda self: self.model.revisions)
    @rule(number=numbers, state=states)
    def set_lifecycle(self, number, state):
        ref = self.picked(number, self.model.revisions)
        made, desk = self.model.made[ref.artifact_id], self.desk
        fault = None
        if ref.revision != len(made.revisions):
            fault = ArtifactConflict
        elif made.lifecycle == "retired" != state:
            fault = ArtifactInactive
        done = self.tried(
            fault,
            lambda: experiences.set_lifecycle(
                self.db, self.scope, ref, state=state, reason="why", now_us=desk.now_us
            ),
        )
        if done:
            made.lifecycle = done.lifecycle
            assert done.lifecycle == state

    # what must hold

    @invariant()
    def candidates_are_as_predicted(self):
        found = review.list_candidates(self.db, self.scope, status=None, limit=100).items
        assert list(found) == [said.candidate for said in self.model.candidates]
        assert [
            (one.status, one.version, one.proposal, one.target, one.result) for one in found
        ] == [
            (said.status, said.version, said.content, said.target, said.result)
            for said in self.model.candidates
        ]

    @invariant()
    def heads_and_documents_are_as_predicted(self):
        heads = {
            one.ref.artifact_id: (one.ref.revision, one.lifecycle, one.content)
            for one in experiences.experience_heads(
                self.db, self.scope, None, 100, include_inactive=True
            ).items
        }
        assert heads == {
            artifact_id: (len(made.revisions), made.lifecycle, made.revisions[-1].content)
            for artifact_id, made in self.model.made.items()
        }
        with self.db.read() as conn:
            query = experience_documents.select().where(
                experience_documents.c.scope_id == self.scope
            )
            shown = {row.artifact_id: row.revision for row in conn.execute(query)}
        assert shown == {
            artifact_id: len(made.revisions)
            for artifact_id, made in self.model.made.items()
            if made.lifecycle == "active"
        }

    @invariant()
    def the_inbox_counts_what_waits(self):
        waiting = self.model.waiting
        stale = [
            said
            for said in waiting
            if said.target and self.model.fault(said.content, SOURCES, (), (), said.target)
        ]
        mine = [one for one in review.inbox(self.db).scopes if one.scope_id == self.scope]
        told = [(one.pending, one.stale) for one in mine]
        assert told == ([(len(waiting), len(stale))] if waiting else [])

    def teardown(self):
        if not hasattr(self, "read"):
            return
        names = [one.name for one in RULES if one.blocking]
        findings = audit(self.db, Settings(), scope_id=self.scope, names=names)
        assert [one for one in findings if not one.passed] == []
        for said in self.model.candidates:
            versions = review.history(self.db, self.scope, said.candidate.candidate_id)
            assert [one.version for one in versions] == list(range(1, said.version + 1))
            assert versions[-1].proposal == said.content
        for ref, read in self.read.items():
            now = experiences.read_experience(self.db, self.scope, ref)
            assert now == replace(read, head=now.head, lifecycle=now.lifecycle)


def holds(db, histories):
    """Run that many random histories of 25 steps."""
    run(
        type("Machine", (Histories,), {"db": db}),
        settings=settings(
            max_examples=histories,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],  # the ledger is shared: to shrink would take minutes
        ),
    )


def test_any_history_of_reviews_leaves_what_the_model_predicts(db):
    holds(db, 10)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_two_hundred_histories_of_reviews_leave_what_the_model_predicts(db):
    holds(db, 200)
