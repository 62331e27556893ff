"""What review tests share: a scope with a log, proposals, outcomes, and all rows of the ledger."""

from dataclasses import dataclass, replace

import pytest
import sqlalchemy as sa

from pc_store.domain import strict_json
from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.experience import Experience, parse
from pc_store.domain.refs import ArtifactRef, SourceRef
from pc_store.domain.source import new_source
from pc_store.ledger import sources
from pc_store.ledger.schema import metadata
from pc_store.services import capture, propose, remember, review

NOW = 1_700_000_000_000_000
SCOPE = "shop"
CUE = "Amounts are off by one cent"
FIELDS = {
    "situation": "An amount went through a float before it became cents.",
    "action": "Parsed the text as Decimal.",
    "outcome": "The input that failed gives the expected value.",
    "lesson": "Decimal for this importer; other precisions need their own checks.",
}
FAILURE = {
    "signature": {"recall_cue": CUE, "symptom": "19.99 becomes 1998"},
    "repair_surface": "experience_content",
    "verification": {"condition": "an amount with cents was read", "check_subject": "cents check"},
}


def experience(**changes) -> Experience:
    """The sample, with some fields changed; `failure=True` for the sample's own."""
    value = FIELDS | changes
    if value.get("failure") is True:
        value["failure"] = FAILURE
    return parse(value)


def tracking(cue=CUE, **changes) -> Experience:
    """The sample, tracking a failure."""
    signature = FAILURE["signature"] | {"recall_cue": cue}
    return experience(failure=FAILURE | {"signature": signature}, **changes)


def source(name) -> SourceRef:
    return SourceRef("content", name)


def put(db, *names, scope=SCOPE, content="what happened", metadata=None):
    """Append sources; the reference of the last."""
    capture.capture_many(
        db, scope, [new_source(name, content, metadata) for name in names], now_us=NOW
    )
    return source(names[-1])


def put_internal(db, name, scope=SCOPE):
    """Append a record of the store's own."""
    with db.write() as conn:
        after = sources.lock_head(conn, scope)
        sources.append(conn, scope, [new_source(name, "-")], after=after, now_us=NOW, internal=True)
    return source(name)


def failing(name=CUE, *, evidence=None, **changes) -> dict:
    """A task outcome with one verified failing check, as JSON."""
    named = evidence or [{"kind": "source", "source_ref": {"name": "content", "source_id": "log"}}]
    check = {"name": name, "status": "failed", "basis": "verified", "evidence": named}
    return {
        "schema": "powercontext.task-outcome.v1",
        "objective": "Import the orders.",
        "status": "failed",
        "summary": "One amount was off.",
        "observations": [{"text": "The import ran."}],
        "checks": [check],
    } | changes


def put_outcome(db, name, value, scope=SCOPE):
    """Append a task outcome as raw content, valid or not."""
    content = value if isinstance(value, str) else strict_json.dumps(value)
    return put(db, name, scope=scope, content=content, metadata={"kind": "task-outcome"})


def entry(db, text="Amounts are cents.", scope=SCOPE):
    """Remember something; the entry and its citation."""
    return remember.remember(db, scope, kind="fact", text=text, now_us=NOW).entry


@dataclass(frozen=True)
class Desk:
    """One scope's review, with the defaults that most tests want."""

    db: object
    scope: str = SCOPE
    now_us: int = NOW

    def at(self, now_us) -> "Desk":
        return replace(self, now_us=now_us)

    def propose(self, proposal=None, *, sources=(), artifacts=(), citations=(), **more):
        evidence = EvidenceRefs(tuple(sources), tuple(artifacts), tuple(citations))
        return propose.propose(
            self.db, self.scope, proposal or experience(), evidence, now_us=self.now_us, **more
        )

    def update(self, target: ArtifactRef, proposal=None, *, sources=(), **more):
        """Propose a change of an experience."""
        return self.propose(
            proposal or experience(lesson="Another lesson."),
            sources=sources,
            artifacts=[target],
            target=target,
            **more,
        )

    def approve(self, candidate, version=None, **more):
        return review.approve(
            self.db,
            self.scope,
            candidate.candidate_id,
            expected_version=candidate.version if version is None else version,
            now_us=self.now_us,
            **more,
        )

    def reject(self, candidate, version=None, reason="not supported", **more):
        return review.reject(
            self.db,
            self.scope,
            candidate.candidate_id,
            expected_version=candidate.version if version is None else version,
            reason=reason,
            now_us=self.now_us,
            **more,
        )

    def revise(self, candidate, version=None, **changes):
        """Revise a candidate; what is not given stays, but for reason and citations."""
        more = {
            "proposal": candidate.proposal,
            "sources": candidate.evidence.sources,
            "artifacts": candidate.evidence.artifacts,
            "target": candidate.target,
        } | changes
        return review.revise(
            self.db,
            self.scope,
            candidate.candidate_id,
            expected_version=candidate.version if version is None else version,
            now_us=self.now_us,
            **more,
        )

    def get(self, candidate):
        return review.get_candidate(self.db, self.scope, candidate.candidate_id)

    def approved(self, proposal=None, *, sources=None, **more) -> ArtifactRef:
        """An experience: proposed and approved."""
        made = self.propose(proposal, sources=sources or [source("s1")], **more)
        return self.approve(made).result


def rows(db, *tables):
    """All rows of some tables, or of all."""
    with db.read() as conn:
        return {
            table.name: [tuple(row) for row in conn.execute(sa.select(table))]
            for table in tables or metadata.sorted_tables
        }


def refused(db, kind, act, *given, **more):
    """What an act raises, after making sure that it wrote nothing."""
    before = rows(db)
    with pytest.raises(kind) as caught:
        act(*given, **more)
    assert rows(db) == before
    assert caught.type is kind
    return caught.value
