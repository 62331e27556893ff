"""Each check on experience fails exactly when what it asserts is broken by hand."""

from dataclasses import replace

import pytest
import sqlalchemy as sa
from desk import (
    NOW,
    SCOPE,
    Desk,
    entry,
    experience,
    failing,
    put,
    put_outcome,
    source,
    tracking,
)

from pc_store.domain.refs import ArtifactRef
from pc_store.ledger.artifacts import citation_json
from pc_store.ledger.schema import (
    artifact_revisions,
    artifacts,
    candidates,
    experience_documents,
    lineage,
)
from pc_store.services import administer, experiences, remember
from pc_store.services.audit import audit
from pc_store.services.purge import purge
from pc_store.settings import Settings

OTHER = "other"


class Store:
    """Two scopes with the same: a tracked experience at revision 2, one more, one withdrawn."""

    def __init__(self, db) -> None:
        self.db = db
        administer.create_scope(db, OTHER, now_us=NOW)
        for scope in (OTHER, SCOPE):
            desk = Desk(db, scope)
            put(db, "s1", "log", scope=scope)
            outcome = put_outcome(db, "o1", failing(), scope=scope)
            self.cited = entry(db, scope=scope)
            first = desk.approved(tracking(), sources=[outcome])
            made = desk.update(first, sources=[source("s1")], citations=[self.cited.citation])
            self.approved = desk.approve(made)
            self.second = self.approved.result
            self.plain = desk.approved(experience(action="x"))
            self.withdrawn = desk.approved(experience(action="y"))
            experiences.set_lifecycle(
                db, scope, self.withdrawn, state="deprecated", reason="wrong", now_us=NOW
            )
            desk.reject(desk.propose(sources=[source("s1")]))
            self.pending = desk.propose(sources=[source("s1")])

    def broken(self, **more):
        findings = audit(self.db, Settings(inbox_age_target_s=315_360_000), **more)
        return {one.check: one.rows for one in findings if not one.passed}

    def corrupt(self, statement):
        with self.db.write() as conn:
            assert conn.execute(statement).rowcount >= 1, "nothing was broken"


@pytest.fixture
def store(shop_db):
    return Store(shop_db)


def at(table, ref, **values):
    named = {"scope_id": SCOPE, "artifact_id": ref.artifact_id} | values
    return [table.c[name] == value for name, value in named.items()]


def candidate(one):
    return [candidates.c.scope_id == SCOPE, candidates.c.candidate_id == one.candidate_id]


def test_a_sound_store_passes_and_stays_so_when_evidence_is_retired_or_purged(store, tmp_path):
    assert store.broken() == store.broken(scope_id=SCOPE) == {}
    again = remember.cite(store.db, SCOPE, store.cited.entry.entry_id).citation
    remember.retire(store.db, SCOPE, again, now_us=NOW)
    assert store.broken() == {}
    purge(store.db, SCOPE, store.cited.entry.entry_id, now_us=NOW)
    assert store.broken() == {}


@pytest.mark.parametrize(
    "values", [{"revision": 1}, {"text": "edited"}, {"text_digest": "0"}, {"cue_key": "other"}]
)
def test_a_document_that_is_not_the_head_is_found(store, values):
    store.corrupt(
        sa.update(experience_documents)
        .where(*at(experience_documents, store.second))
        .values(**values)
    )
    assert store.broken() == {
        "documents_equal_active_heads": [
            {"scope_id": SCOPE, "artifact_id": store.second.artifact_id}
        ]
    }
    assert store.broken(scope_id=OTHER) == {}


def test_a_missing_document_and_one_too_many_are_found(store):
    row = [{"scope_id": SCOPE, "artifact_id": store.plain.artifact_id}]
    table = experience_documents
    with store.db.read() as conn:
        kept = conn.execute(sa.select(table).where(*at(table, store.plain))).one()
    store.corrupt(sa.delete(table).where(*at(table, store.plain)))
    assert store.broken() == {"documents_equal_active_heads": row}
    store.corrupt(sa.insert(table).values(**kept._mapping))
    assert store.broken() == {}
    store.corrupt(
        sa.update(artifacts).where(*at(artifacts, store.plain)).values(lifecycle="retired")
    )
    assert store.broken() == {"documents_equal_active_heads": row}


@pytest.mark.parametrize(
    "values", [{"result_revision": 9}, {"result_id": None, "result_revision": None}]
)
def test_an_approval_without_its_revision_is_found(store, values):
    store.corrupt(sa.update(candidates).where(*candidate(store.approved)).values(**values))
    assert store.broken() == {
        "every_revision_was_approved": [
            {"scope_id": SCOPE, "candidate_id": store.approved.candidate_id},
            {"scope_id": SCOPE, "artifact_id": store.second.artifact_id, "revision": 2},
        ]
    }
    assert store.broken(scope_id=OTHER) == {}


def test_a_result_without_an_approval_is_found(store):
    ref = store.plain
    store.corrupt(
        sa.update(candidates)
        .where(*candidate(store.pending))
        .values(result_id=ref.artifact_id, result_revision=1)
    )
    assert store.broken() == {
        "every_revision_was_approved": [
            {"scope_id": SCOPE, "candidate_id": store.pending.candidate_id}
        ]
    }


def test_two_approvals_of_one_revision_and_an_edited_revision_are_found(store):
    store.corrupt(
        sa.update(candidates)
        .where(*candidate(store.pending))
        .values(status="approved", result_id=store.plain.artifact_id, result_revision=1)
    )
    [row] = store.broken()["every_revision_was_approved"]
    assert row == {"scope_id": SCOPE, "candidate_id": store.pending.candidate_id}
    store.corrupt(
        sa.update(candidates)
        .where(*candidate(store.pending))
        .values(status="pending", result_id=None, result_revision=None)
    )
    edited = experience(action="x", lesson="edited").to_json()
    store.corrupt(
        sa.update(artifact_revisions)
        .where(*at(artifact_revisions, store.second, revision=2))
        .values(content=edited)
    )
    found = store.broken()
    assert found.keys() == {"documents_equal_active_heads", "every_revision_was_approved"}
    assert found["every_revision_was_approved"] == [
        {"scope_id": SCOPE, "candidate_id": store.approved.candidate_id},
        {"scope_id": SCOPE, "artifact_id": store.second.artifact_id, "revision": 2},
    ]


def test_a_missing_revision_and_a_head_past_the_last_are_found(store):
    store.corrupt(sa.update(artifacts).where(*at(artifacts, store.withdrawn)).values(head=2))
    lost = {"scope_id": SCOPE, "artifact_id": store.withdrawn.artifact_id, "revision": 2}
    assert store.broken() == {"every_revision_was_approved": [lost]}


def test_a_revision_that_cites_nothing_or_only_a_prompt_is_found(store):
    [where] = [at(lineage, store.plain)]
    prompt = vars(ArtifactRef("prompt", "experience.incubate", 1))
    store.corrupt(sa.update(lineage).where(*where).values(kind="artifact", ref=prompt))
    found = store.broken()
    bare = [{"scope_id": SCOPE, "artifact_id": store.plain.artifact_id, "revision": 1}]
    assert found["every_experience_cites_evidence"] == bare
    assert found.keys() == {"every_experience_cites_evidence", "experience_lineage_resolves"}
    store.corrupt(sa.delete(lineage).where(*where))
    assert store.broken() == {"every_experience_cites_evidence": bare}


def test_lineage_that_leads_nowhere_is_found(store):
    by = {"scope_id": SCOPE, "artifact_id": store.second.artifact_id, "revision": 2}
    cited = store.cited.citation
    no_artifact = ArtifactRef("experience", "exp_none", 1)
    no_version = replace(cited, entry_version_id="mem_ver_none")
    no_entry = replace(cited, entry_id="mem_ent_none")
    for kind, right, wrong, ref in (
        ("artifact", vars(replace(store.second, revision=1)), vars(no_artifact), no_artifact),
        ("citation", citation_json(cited), citation_json(no_version), no_version),
        ("citation", citation_json(cited), citation_json(no_entry), no_entry),
    ):
        row = sa.update(lineage).where(*at(lineage, store.second, revision=2, kind=kind))
        store.corrupt(row.values(ref=wrong))
        assert store.broken() == {"experience_lineage_resolves": [{**by, "cites": str(ref)}]}
        store.corrupt(row.values(ref=right))
        assert store.broken() == {}
