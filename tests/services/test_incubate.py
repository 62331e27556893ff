"""Incubation: the task outcomes of a window become candidates, together with the cursor."""

import json
import threading

import pytest
import sqlalchemy as sa
from desk import CUE, FAILURE, FIELDS, failing, rows, tracking
from extraction_rig import SCOPE
from model_stub import MODEL, hold, says, status

from pc_store.domain import strict_json
from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.experience import parse
from pc_store.domain.refs import ArtifactRef, SourceRef
from pc_store.domain.window import WindowKey
from pc_store.errors import CursorConflict, ModelAnsweredBadly, ModelError, StoreError
from pc_store.ledger import cursors
from pc_store.ledger.schema import candidate_versions, candidates, recurrence_outcomes
from pc_store.llm.builtin_experience import BuiltinExperienceAuthor
from pc_store.llm.experience_client import OpenAIExperienceModel
from pc_store.services import incubate, instruct, propose, review
from pc_store.services.clock import now_us
from pc_store.services.settle import Processed

OUTCOME = {"kind": "task-outcome"}


def passing(objective="Import the orders.") -> str:
    """A task outcome with a declared observation, as JSON."""
    return strict_json.dumps(
        {
            "objective": objective,
            "status": "succeeded",
            "summary": "It was imported.",
            "observations": [{"text": "The import ran."}],
        }
    )


def candidate(*evidence_ids, failure=None, **changes):
    return {
        "proposal": FIELDS | {"failure": failure} | changes,
        "evidence_ids": list(evidence_ids),
    }


class Lab:
    """A rig with an experience model at the same stub."""

    def __init__(self, rig):
        self.rig, self.db, self.stub, self.settings = rig, rig.db, rig.stub, rig.settings
        self.model = OpenAIExperienceModel(
            model=MODEL, base_url=rig.stub.base_url, timeout_s=10.0, transport_retries=0
        )

    def put_outcomes(self, *contents, first=1):
        self.rig.put(*contents, first=first, metadata=OUTCOME)

    def answers(self, *items):
        self.stub.answer(says({"candidates": list(items)}))

    def run(self, model=None, **settings) -> Processed:
        chosen = self.settings.model_copy(update=settings)
        return incubate.incubate(self.db, chosen, model or self.model, SCOPE)

    def fails(self, **settings) -> StoreError:
        with pytest.raises(StoreError) as caught:
            self.run(**settings)
        return caught.value

    def cursor(self, consumer="experience"):
        with self.db.read() as conn:
            return cursors.get(conn, SCOPE, consumer).position

    def pending(self):
        return review.list_candidates(self.db, SCOPE, limit=100).items

    def last(self):
        return self.rig.windows()[-1]

    def shown(self, at=-1):
        """The (evidence id, source id) pairs of a request."""
        [_, user] = self.stub.requests()[at]["body"]["messages"]
        listed = json.loads(user["content"])["evidence"]
        return [(one["evidence_id"], one["content"]["source_id"]) for one in listed]


@pytest.fixture
def lab(new_rig):
    made = Lab(new_rig(source_window_limit=5))
    yield made
    made.model.close()


def numbers(done):
    return done.status, done.previous_cursor, done.current_cursor, done.processed_source_count


def test_the_worked_example_twenty_five_sources_cursor_ten_limit_five(lab):
    lab.rig.put(*["chat"] * 10)
    for _ in range(2):
        assert lab.run().status == "processed"
    assert lab.cursor() == 10
    assert lab.stub.requests() == []  # nothing of it was a task outcome
    lab.rig.put("chat", first=11)
    lab.put_outcomes(passing("Reproduce it."), passing("Verify the fix."), first=12)
    lab.rig.put("{}", first=14, source_type="task-outcome", metadata=OUTCOME)
    lab.rig.put("a document", first=15, metadata={"kind": "document"})
    lab.rig.put(*["later"] * 10, first=16)

    lab.stub.answer(status(500))
    assert isinstance(lab.fails(), ModelError)
    assert lab.cursor() == 10
    assert lab.pending() == ()

    lab.answers(candidate("e1", "e2"))
    done = lab.run()
    assert numbers(done) == ("processed", 10, 15, 2)
    assert lab.shown() == [("e1", "s12"), ("e2", "s13")]
    [made] = lab.pending()
    assert (made.candidate_id,) == done.candidate_ids
    assert made.evidence == EvidenceRefs(
        (SourceRef("content", "s12"), SourceRef("content", "s13")), (), ()
    )
    assert (made.status, made.version, made.origin, made.target, made.author) == (
        "pending",
        1,
        "incubation",
        None,
        "",
    )
    assert made.proposal == parse(FIELDS)
    assert made.window_id == lab.last().window_id


def test_an_empty_list_moves_the_cursor_and_makes_nothing(lab):
    lab.put_outcomes(passing())
    lab.answers()
    assert numbers(lab.run()) == ("processed", 0, 1, 1)
    assert lab.pending() == ()
    assert numbers(lab.run())[0] == "idle"


def test_memory_and_experience_read_the_log_each_at_their_own_pace(lab):
    lab.put_outcomes(passing())
    lab.answers()
    lab.run()
    assert (lab.cursor("experience"), lab.cursor("memory")) == (1, 0)
    lab.rig.flush()
    assert (lab.cursor("experience"), lab.cursor("memory")) == (1, 1)


def test_a_malformed_outcome_is_shown_as_text_and_never_judged(lab):
    lab.put_outcomes("it broke, sorry")
    lab.answers(candidate("e1"))
    assert numbers(lab.run()) == ("processed", 0, 1, 1)
    [_, user] = lab.stub.requests()[0]["body"]["messages"]
    assert "it broke, sorry" in user["content"]
    assert len(lab.pending()) == 1
    [judged] = rows(lab.db, recurrence_outcomes)["recurrence_outcomes"]
    assert "malformed" in judged


@pytest.mark.parametrize(
    "broken",
    [
        candidate("e9"),
        candidate(),
        candidate("e1", lesson=" "),
        candidate("e1") | {"approved": True},
        candidate("e1", failure=FAILURE),
        candidate("e1", title="extra"),
    ],
    ids=["unknown evidence", "no evidence", "blank", "extra key", "unsupported failure", "field"],
)
def test_a_bad_candidate_is_sent_back_once_and_then_only_the_good_ones_stay(lab, broken):
    lab.put_outcomes(passing())
    for _ in range(3):  # attempts, each with one re-ask
        lab.answers(broken, candidate("e1"))
        lab.answers(broken, candidate("e1"))
    for _ in range(2):
        assert isinstance(lab.fails(retry_base_s=0.0), ModelAnsweredBadly)
        assert (lab.cursor(), lab.pending()) == (0, ())
    assert numbers(lab.run()) == ("processed", 0, 1, 1)
    [made] = lab.pending()
    assert made.evidence.sources == (SourceRef("content", "s1"),)
    row = lab.last()
    assert (row.counts["accepted"], row.counts["rejected"], row.counts["created"]) == (1, 1, 1)
    assert len(row.rejects) == 1
    assert len(lab.stub.requests()) == 6


def test_a_corrected_candidate_is_taken_with_the_second_answer(lab):
    lab.put_outcomes(passing())
    lab.answers(candidate("e9"))
    lab.answers(candidate("e1"))
    assert numbers(lab.run()) == ("processed", 0, 1, 1)
    [made] = lab.pending()
    assert made.evidence.sources == (SourceRef("content", "s1"),)
    assert lab.last().usage["reasks"] == 1


def test_a_failure_that_an_outcome_verifies_is_tracked(lab):
    lab.rig.put("the log", source_type="content")
    evidence = [{"kind": "source", "source_ref": {"source_type": "content", "source_id": "s1"}}]
    lab.put_outcomes(
        strict_json.dumps(failing("  ‘" + CUE.upper() + "!’ ", evidence=evidence)), first=2
    )
    lab.answers(candidate("e1", failure=FAILURE))
    lab.run()
    [made] = lab.pending()
    assert made.proposal == tracking()
    assert made.cue_key == CUE.lower()


def test_a_failure_whose_own_evidence_is_gone_is_rejected_by_itself(lab):
    evidence = [{"kind": "source", "source_ref": {"source_type": "content", "source_id": "no"}}]
    lab.put_outcomes(strict_json.dumps(failing(evidence=evidence)))
    lab.answers(candidate("e1", failure=FAILURE), candidate("e1"))
    assert numbers(lab.run()) == ("processed", 0, 1, 1)
    [made] = lab.pending()
    assert made.proposal.failure is None
    [reject] = lab.last().rejects
    assert reject["rule"] == "failures_are_supported"


def test_a_secret_is_dropped_with_the_reason_and_the_rest_stays(lab):
    lab.put_outcomes(passing())
    secret = "AKIA" + "IOSFODNN7EXAMPLE"
    lab.answers(candidate("e1", action=f"used the key {secret}"), candidate("e1"))
    lab.run()
    [made] = lab.pending()
    assert made.proposal == parse(FIELDS)
    [reject] = lab.last().rejects
    assert reject["rule"] == "no_secret_in_text"
    assert secret not in json.dumps(rows(lab.db), default=str)


def test_equal_candidates_are_one_whatever_the_order_of_their_evidence(lab):
    lab.put_outcomes(passing("One."), passing("Two."))
    lab.answers(candidate("e1", "e2"), candidate("e2", "e1", "e2"), candidate("e1"))
    lab.run()
    assert [len(one.evidence.sources) for one in lab.pending()] == [2, 1]


@pytest.mark.parametrize("decision", ["pending", "approved", "rejected"])
def test_what_was_proposed_before_is_not_repeated_whatever_became_of_it(lab, decision):
    lab.put_outcomes(passing())
    lab.answers(candidate("e1"))
    lab.run()
    [made] = lab.pending()
    if decision == "approved":
        review.approve(lab.db, SCOPE, made.candidate_id, expected_version=1, now_us=now_us())
    elif decision == "rejected":
        review.reject(
            lab.db, SCOPE, made.candidate_id, expected_version=1, reason="no", now_us=now_us()
        )
    before = rows(lab.db, candidates, candidate_versions)
    lab.answers(candidate("e1"))
    key = lab.rig.windows()[-1]
    done = incubate.replay_experience(
        lab.db, lab.settings, lab.model, WindowKey(SCOPE, key.after + 1, key.through)
    )
    assert (done.status, done.candidate_ids) == ("processed", ())
    assert rows(lab.db, candidates, candidate_versions) == before
    assert lab.last().counts["known"] == 1
    assert lab.cursor() == 1


def test_a_scopes_own_prompt_is_sent_and_recorded_on_candidate_and_window(lab):
    instruct.set_prompt(
        lab.db, SCOPE, instruct.EXPERIENCE_INCUBATE, "Only what was verified.", now_us=now_us()
    )
    lab.put_outcomes(passing())
    lab.answers(candidate("e1"))
    lab.run()
    system = lab.stub.requests()[0]["body"]["messages"][0]["content"]
    assert system.startswith("Only what was verified.")
    [made] = lab.pending()
    assert made.evidence.artifacts == (ArtifactRef("prompt", "experience.incubate", 1),)
    row = lab.last()
    assert (row.prompt_key, row.prompt_revision) == ("experience.incubate", "scope revision 1")
    assert (row.provider, row.model) == ("openai", MODEL)


def test_candidates_recurrences_and_cursor_are_committed_together(lab):
    """A tracked failure comes back in the same window that a new candidate is made of."""
    lab.rig.put("the log")
    evidence = [{"kind": "source", "source_ref": {"source_type": "content", "source_id": "s1"}}]
    lab.put_outcomes(strict_json.dumps(failing(evidence=evidence)), first=2)
    founding = EvidenceRefs((SourceRef("content", "s2"),))
    made = propose.propose(lab.db, SCOPE, tracking(), founding, now_us=now_us())
    review.approve(lab.db, SCOPE, made.candidate_id, expected_version=1, now_us=now_us())
    lab.put_outcomes(strict_json.dumps(failing(evidence=evidence)), first=3)
    lab.answers(candidate("e2"))
    lab.run()
    assert lab.last().counts["recurred"] == 1
    assert (lab.cursor(), lab.cursor("recurrence")) == (3, 3)
    assert len(lab.pending()) == 1


def test_of_two_runs_of_one_window_one_commits_and_the_other_writes_nothing(lab):
    lab.put_outcomes(passing())
    lab.stub.answer(hold(says({"candidates": [candidate("e1")]})))
    lab.answers(candidate("e1"))
    ended = []

    def first():
        try:
            ended.append(lab.run())
        except StoreError as error:
            ended.append(error)

    thread = threading.Thread(target=first)
    thread.start()
    lab.stub.wait_until_held()
    assert lab.run().status == "processed"
    lab.stub.release()
    thread.join(20)
    assert isinstance(ended[0], CursorConflict)
    assert len(lab.pending()) == 1
    assert lab.cursor() == 1


def test_a_source_that_breaks_the_model_is_set_aside_and_the_rest_goes_on(lab):
    lab.put_outcomes(passing("POISON"), passing("Fine."))
    lab.stub.whenever("POISON", status(500))
    lab.stub.whenever("Fine.", says({"candidates": []}))
    for _ in range(12):
        try:
            if lab.run(retry_base_s=0.0).status == "idle":
                break
        except ModelError:
            continue
    assert lab.cursor() == 2
    with lab.db.read() as conn:
        [aside] = conn.execute(sa.text("SELECT consumer, position FROM quarantined_sources")).all()
    assert tuple(aside) == ("experience", 1)


def test_a_drain_goes_to_the_end_of_the_log_that_it_found(lab):
    lab.put_outcomes(*(passing(f"Task {n}.") for n in range(12)))
    done = incubate.drain_experience(
        lab.db, lab.settings, BuiltinExperienceAuthor(), SCOPE, budget_s=60
    )
    assert [numbers(one)[1:3] for one in done] == [(0, 5), (5, 10), (10, 12)]
    assert len(lab.pending()) == 12


def test_the_builtin_author_drafts_what_the_record_says_and_no_more(lab):
    lab.rig.put("the log")
    evidence = [{"kind": "source", "source_ref": {"source_type": "content", "source_id": "s1"}}]
    lab.put_outcomes(strict_json.dumps(failing(evidence=evidence)), "no outcome at all", first=2)
    lab.run(BuiltinExperienceAuthor())
    [made] = lab.pending()
    assert made.evidence.sources == (SourceRef("content", "s2"),)
    assert made.proposal.situation == "Import the orders."
    assert "One amount was off." in made.proposal.action
    assert f"failed: {CUE}" in made.proposal.outcome
    assert made.proposal.lesson == f"Not prevented here, as verified: {CUE} (failed)."
    assert (lab.last().provider, lab.last().model) == ("builtin", "outcome-2")
