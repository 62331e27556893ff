"""Decisions at the same moment: exactly one counts, and all are told the same."""

import itertools
from functools import partial

import sqlalchemy as sa
from desk import NOW, SCOPE, entry, experience, source
from reviewing import documents, listed
from together import Together

from pc_store.errors import (
    ArtifactConflict,
    ArtifactInactive,
    CandidateConflict,
    CandidateTerminal,
    CitedEntryInactive,
)
from pc_store.ledger.schema import experience_documents
from pc_store.services import experiences, remember


def test_of_two_approvals_of_one_target_one_wins_and_the_other_learns_the_head(desk):
    target = desk.approved()
    for number in range(8):
        pair = [desk.update(target, experience(lesson=f"{number} {side}")) for side in ("a", "b")]
        results = Together(*(lambda one=one: desk.approve(one) for one in pair)).join()
        [won] = [one for one in results if not isinstance(one, BaseException)]
        [lost] = [one for one in results if isinstance(one, BaseException)]
        assert isinstance(lost, ArtifactConflict)
        assert lost.details == {"current": vars(won.result)}
        assert won.result.revision == target.revision + 1
        [waiting] = listed(desk)
        assert desk.reject(waiting).version == 1
        target = won.result


def test_two_approvals_of_one_candidate_make_one_revision_and_agree(desk):
    for number in range(6):
        made = desk.propose(experience(action=f"{number}"), sources=[source("s1")])
        one, two = Together(*[partial(desk.approve, made)] * 2).join()
        assert one == two
    assert len(documents(desk.db)) == 6


def test_approval_revision_and_rejection_at_once_leave_exactly_one_of_them(desk):
    seen = set()
    for number in range(10):
        made = desk.propose(experience(action=f"{number}"), sources=[source("s1")])
        calls = [partial(act, made) for act in (desk.approve, desk.reject, desk.revise)]
        results = Together(*calls[number % 3 :], *calls[: number % 3]).join()
        won = [one for one in results if not isinstance(one, BaseException)]
        lost = [one for one in results if isinstance(one, BaseException)]
        assert len(won) == 1
        assert all(type(one) in (CandidateTerminal, CandidateConflict) for one in lost)
        assert desk.get(made) == won[0]
        seen.add((won[0].status, won[0].version))
    assert seen <= {("approved", 1), ("rejected", 1), ("pending", 2)}


def test_an_entry_retired_during_an_approval_is_retired_before_or_after_it(desk):
    """Whichever comes first: never is an experience approved on an entry retired before it."""
    outcomes = []
    for number in range(10):
        cited = entry(desk.db, f"text {number}").citation
        made = desk.propose(experience(action=f"{number}"), citations=[cited])
        approved, retired = Together(
            lambda made=made: desk.approve(made),
            lambda cited=cited: remember.retire(desk.db, SCOPE, cited, now_us=NOW),
        ).join()
        assert not isinstance(retired, BaseException)
        if isinstance(approved, BaseException):
            assert isinstance(approved, CitedEntryInactive)
            assert desk.get(made) == made
        outcomes.append(type(approved).__name__)
    assert set(outcomes) <= {"Candidate", "CitedEntryInactive"}


def test_an_approval_and_a_withdrawal_at_once_leave_documents_and_heads_alike(desk):
    for number in range(8):
        target = desk.approved(experience(action=f"{number}"))
        made = desk.update(target, experience(lesson=f"{number}"))
        approved, withdrawn = Together(
            lambda made=made: desk.approve(made),
            lambda target=target: experiences.set_lifecycle(
                desk.db, SCOPE, target, state="retired", reason="wrong", now_us=NOW
            ),
        ).join()
        with desk.db.read() as conn:
            query = sa.select(experience_documents.c.revision).where(
                experience_documents.c.artifact_id == target.artifact_id
            )
            shown = list(conn.execute(query).scalars())
        if isinstance(approved, BaseException):
            assert isinstance(approved, ArtifactInactive)
            assert shown == []
        else:
            assert isinstance(withdrawn, ArtifactConflict)
            assert withdrawn.details == {"current": vars(approved.result)}
            assert shown == [2]


def test_many_reviewers_at_one_target_agree_on_one_line_of_revisions(desk):
    target = desk.approved()
    clock = itertools.count(1)

    def work(name):
        won = 0
        for _ in range(6):
            head = experiences.experience_heads(desk.db, SCOPE).items[0].ref
            try:
                made = desk.update(head, experience(lesson=f"{name} {next(clock)}"))
                desk.approve(made)
                won += 1
            except ArtifactConflict:
                continue
        return won

    counts = Together(*(lambda name=name: work(name) for name in "abcd")).join()
    head = experiences.experience_heads(desk.db, SCOPE).items[0].ref
    assert head.revision == 1 + sum(counts)
    numbers = [
        one.ref.revision
        for one in experiences.experience_revisions(desk.db, SCOPE, target.artifact_id).items
    ]
    assert numbers == list(range(head.revision, 0, -1))
    assert len(listed(desk, status="approved")) == 1 + sum(counts)
