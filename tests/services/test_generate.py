"""Generate: one experience from chosen evidence; what can be refused is refused before paying."""

import json
import threading

import pytest
from desk import CUE, FAILURE, FIELDS, Desk, experience, failing, put_internal, rows, source
from extraction_rig import SCOPE
from model_stub import MODEL, hold, says, status

from pc_store.domain import strict_json
from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.refs import ArtifactRef
from pc_store.errors import (
    ArtifactConflict,
    GenerationUnavailable,
    InvalidInput,
    ModelAnsweredBadly,
    ModelError,
    ModelMisconfigured,
    ModelSilent,
    SourceNotEligible,
)
from pc_store.services import generate, instruct
from pc_store.services.clock import now_us


class Lab:
    """A rig, and generation through its stub."""

    def __init__(self, rig):
        self.rig, self.db, self.stub = rig, rig.db, rig.stub
        self.desk = Desk(rig.db, SCOPE)
        self.settings = rig.settings.model_copy(
            update={
                "llm_provider": "openai",
                "llm_base_url": rig.stub.base_url,
                "llm_model": MODEL,
                "llm_transport_retries": 0,
                "llm_timeout_s": 10.0,
            }
        )

    def run(self, *, sources=(), artifacts=(), settings=None, **more):
        return generate.generate(
            self.db,
            settings or self.settings,
            SCOPE,
            EvidenceRefs(tuple(sources), tuple(artifacts)),
            now_us=now_us(),
            **more,
        )

    def refused(self, kind, **given):
        """What it raises; nothing was written and nobody was asked."""
        before = rows(self.db)
        with pytest.raises(kind) as caught:
            self.run(**given)
        assert rows(self.db) == before
        assert self.stub.requests() == []
        return caught.value

    def proposes(self, value):
        self.stub.answer(says({"proposal": value}))

    def shown(self):
        [_, user] = self.stub.requests()[-1]["body"]["messages"]
        return json.loads(user["content"])


@pytest.fixture
def lab(rig):
    rig.put("Amounts were floats.", "They are decimals now.")
    return Lab(rig)


def test_a_proposal_is_a_pending_candidate_that_cites_all_that_was_chosen(lab):
    target = lab.desk.approved()
    lab.proposes(FIELDS | {"lesson": "Sharper.", "failure": None})
    done = lab.run(
        sources=[source("s1"), source("s2")],
        artifacts=[target],
        target=target,
        reason=" new evidence ",
        author="ann",
    )
    made = done.candidate
    assert done.status == "pending"
    assert lab.desk.get(made) == made
    assert made.proposal == experience(lesson="Sharper.")
    assert made.evidence == EvidenceRefs((source("s1"), source("s2")), (target,))
    assert (made.origin, made.target, made.reason, made.author, made.version) == (
        "generate",
        target,
        "new evidence",
        "ann",
        1,
    )
    shown = lab.shown()
    assert shown["target_evidence_id"] == f"artifact:experience/{target.artifact_id}@1"
    assert [(one["evidence_id"], one["kind"], one["truncated"]) for one in shown["evidence"]] == [
        ("source:content/s1", "source", False),
        ("source:content/s2", "source", False),
        (f"artifact:experience/{target.artifact_id}@1", "artifact", False),
    ]
    assert json.loads(shown["evidence"][0]["content"])["content"] == "Amounts were floats."
    assert json.loads(shown["evidence"][2]["content"])["content"] == experience().to_json()


def test_null_is_no_op_and_writes_nothing(lab):
    before = rows(lab.db)
    lab.proposes(None)
    done = lab.run(sources=[source("s1")])
    assert (done.status, done.candidate, done.usage.calls) == ("no_op", None, 1)
    assert rows(lab.db) == before


def test_an_unchanged_copy_of_the_target_is_no_op(lab):
    target = lab.desk.approved()
    lab.proposes(experience().to_json())
    assert lab.run(sources=[source("s1")], artifacts=[target], target=target).status == "no_op"


def test_what_can_be_refused_is_refused_before_the_model_is_paid(lab):
    hidden = put_internal(lab.db, "own", scope=SCOPE)
    head = lab.desk.approved()
    stale = head
    update = lab.desk.update(head, sources=[source("s1")])
    head = lab.desk.approve(update).result
    assert head.revision == 2
    prompt = ArtifactRef("prompt", "experience.generate", 1)
    assert lab.refused(InvalidInput).field == "evidence"
    assert lab.refused(InvalidInput, sources=[source("no")]).field == "source_refs"
    assert lab.refused(SourceNotEligible, sources=[hidden]).field == "source_refs"
    assert lab.refused(InvalidInput, artifacts=[prompt]).field == "artifact_refs"
    given = {"sources": [source("s1")], "target": head}
    assert lab.refused(InvalidInput, **given).field == "target"
    moved = lab.refused(ArtifactConflict, artifacts=[stale], target=stale)
    assert moved.details["current"] == vars(head)
    assert lab.refused(InvalidInput, sources=[source("s1")], reason=" ").field == "reason"


def test_a_failing_model_leaves_nothing(lab):
    before = rows(lab.db)
    for answer, kind in (
        (status(500), ModelSilent),
        (status(401), ModelMisconfigured),
        (says("no json at all"), ModelAnsweredBadly),
    ):
        lab.stub.answer(answer, answer)
        with pytest.raises(ModelError) as caught:
            lab.run(sources=[source("s1")])
        assert isinstance(caught.value, kind)
        lab.stub.reset()
    assert rows(lab.db) == before


def test_a_failure_that_no_outcome_shows_is_sent_back_and_then_refused(lab):
    made_up = FIELDS | {"failure": FAILURE}
    lab.proposes(made_up)
    lab.proposes(made_up)
    with pytest.raises(ModelAnsweredBadly):
        lab.run(sources=[source("s1")])
    assert len(lab.stub.requests()) == 2
    [again] = [m for m in lab.stub.requests()[1]["body"]["messages"] if m["role"] == "user"][1:]
    assert "failure must be null" in again["content"]


def test_a_secret_in_an_answer_is_refused_and_never_repeated(lab):
    secret = "AKIA" + "IOSFODNN7EXAMPLE"
    lab.proposes(FIELDS | {"failure": None, "action": f"used {secret}"})
    with pytest.raises(ModelAnsweredBadly) as caught:
        lab.run(sources=[source("s1")])
    assert secret not in caught.value.message
    assert "credential" in caught.value.message


def test_nothing_is_locked_while_the_model_works(lab):
    lab.stub.answer(hold(says({"proposal": FIELDS | {"failure": None}})))
    ended = []
    thread = threading.Thread(target=lambda: ended.append(lab.run(sources=[source("s1")])))
    thread.start()
    lab.stub.wait_until_held()
    lab.rig.remember("Written meanwhile.")
    lab.stub.release()
    thread.join(20)
    assert ended[0].status == "pending"


def test_a_target_that_moves_meanwhile_is_a_conflict_and_no_candidate(lab):
    target = lab.desk.approved()
    lab.stub.answer(hold(says({"proposal": FIELDS | {"lesson": "Late.", "failure": None}})))
    ended = []

    def run():
        try:
            lab.run(artifacts=[target], target=target)
        except ArtifactConflict as error:
            ended.append(error.details["current"]["revision"])

    thread = threading.Thread(target=run)
    thread.start()
    lab.stub.wait_until_held()
    lab.desk.approve(lab.desk.update(target, sources=[source("s1")]))
    lab.stub.release()
    thread.join(20)
    assert ended == [2]


def test_a_scopes_own_prompt_is_sent_and_cited(lab):
    instruct.set_prompt(lab.db, SCOPE, instruct.EXPERIENCE_GENERATE, "Be brief.", now_us=now_us())
    lab.proposes(FIELDS | {"failure": None})
    made = lab.run(sources=[source("s1")]).candidate
    assert made.evidence.artifacts == (ArtifactRef("prompt", "experience.generate", 1),)
    system = lab.stub.requests()[0]["body"]["messages"][0]["content"]
    assert system.startswith("Be brief.")


def test_evidence_is_cut_to_the_budget_and_says_so(lab):
    lab.rig.put("长" * 100_000, "x" * 199_000, first=3)
    lab.proposes(None)
    few = lab.settings.model_copy(update={"prompt_token_budget": 8_000})
    lab.run(sources=[source("s1"), source("s3"), source("s4")], settings=few)
    shown = lab.shown()["evidence"]
    assert [one["truncated"] for one in shown] == [False, True, True]
    assert all(len(one["content"]) <= 64_000 for one in shown)
    assert len(shown[1]["content"]) < 5_000  # a Chinese character is a token of its own
    assert len(shown[2]["content"]) > 5_000


def test_the_builtin_provider_drafts_from_outcomes_and_from_nothing_else(lab):
    builtin = lab.settings.model_copy(update={"llm_provider": "builtin"})
    lab.refused(GenerationUnavailable, sources=[source("s1")], settings=builtin)
    evidence = [{"kind": "source", "source_ref": {"source_type": "content", "source_id": "s1"}}]
    told = strict_json.dumps(failing(evidence=evidence))
    lab.rig.put(told, first=3, metadata={"kind": "task-outcome"})
    made = lab.run(sources=[source("s3")], settings=builtin).candidate
    assert made.proposal.situation == "Import the orders."
    assert CUE in made.proposal.outcome
